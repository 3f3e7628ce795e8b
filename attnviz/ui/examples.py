"""Texts that show what a model can do, as pills."""

import streamlit as st

from attnviz.sources.base import Source
from attnviz.ui import state

EXAMPLES = {
    "The cat sat on the mat": "The cat sat on the mat",
    "The cat sat down": "The cat sat down",
    "because it was tired": "The cat sat on the mat because it was tired.",
    "two sentences, padded": "The cat sat on the mat\nThe cat sat down",
}
"""For a model that reads anything and means nothing."""

FIRST = {"because it was tired": "The cat sat on the mat because it was tired."}
"""What a pretrained model opens with."""

REPEATED = "The cat sat on the mat. The cat sat on the"
PAIR = "The cat sat on the mat. ||| It was tired."
ALIKE = "The cat sat on the mat.\nA kitten rested on the rug.\nThe bank raised its interest rates."

SHOWN = 4
"""So many pills are in view; the others are behind a button."""
LONGEST_LABEL = 26
"""Characters of an example on its pill."""


def pills(texts: dict[str, str]) -> None:
    """The examples, by what is written on their pills. Choosing one fills the box."""
    names = list(texts)
    shown, others = names[:SHOWN], names[SHOWN:]
    if len(others) == 1:  # a button for one would take the room that the one needs
        shown, others = names, []
    with st.container(horizontal=True, gap="xsmall", key="examples"):
        _pills("Examples", shown, texts, "example")
        if others:
            with st.popover("more", type="tertiary", width="content"):
                _pills("More examples", others, texts, "other example")


def _pills(title: str, names: list[str], texts: dict[str, str], key: str) -> None:
    behavior = {"on_change": _take, "args": (texts, key), "label_visibility": "collapsed", "wrap": True}
    st.pills(title, names, key=key, **behavior)


def _take(texts: dict[str, str], key: str) -> None:
    if st.session_state[key] in texts:
        st.session_state["text"] = texts[st.session_state[key]]
        st.session_state["cell"], st.session_state["pins"] = None, frozenset()
    st.session_state[key] = None


def opening_text(source: Source) -> str:
    """The text that a model opens with."""
    return next(iter(of_model(source).values()))


def of_model(source: Source) -> dict[str, str]:
    """The examples of a model; the first is the one it opens with."""
    if source.card is not None:
        return {_label(text, source.card.examples): text for text in source.card.examples}
    return _of_pretrained(source) if source.provenance == "pretrained" else EXAMPLES


def _of_pretrained(source: Source) -> dict[str, str]:
    """What a model of Hugging Face is good for, by what it says and reads."""
    known, found = source.known, dict(FIRST)
    if known.task == "fill" and known.tokenizer.mask_token:
        found["a blank to fill in"] = f"The cat sat on the mat because it was {known.tokenizer.mask_token}."
    if known.task == "next":
        found["words that come again"] = REPEATED
    if known.task == "vectors":
        found["three sentences"] = ALIKE
    if known.task != "write" and source.sites[0].kind == "encoder":
        found["a pair of texts"] = PAIR
    return found


def _label(text: str, others: tuple[str, ...]) -> str:
    """A text in short, but for what tells it from the others."""
    for longest in range(LONGEST_LABEL, len(text)):
        if sum(other.startswith(text[:longest]) for other in others) == 1:
            return f"{text[:longest].rstrip()} …".replace("\n", " / ")
    return text.replace("\n", " / ")


def follow(model: str, texts: dict[str, str]) -> None:
    """Where another model was chosen, begin with what it opens with; but keep masks and what somebody has typed."""
    before, st.session_state["model in use"] = st.session_state.get("model in use", model), model
    known, st.session_state["examples in use"] = st.session_state.get("examples in use", {}), texts
    if before == model:
        return
    for name in ("off", "cell", "pins", "also", "site", "show", "step", "effect"):
        st.session_state[name] = state.ENCODED[name][2]
    if st.session_state.get("text") in known.values():
        st.session_state["text"] = next(iter(texts.values()))
