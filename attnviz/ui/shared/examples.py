"""Texts that show what a model can do, as pills."""

from collections.abc import Callable
from urllib.parse import quote

import streamlit as st

from attnviz.core.display import without_surrogates
from attnviz.sources.base import Facts, Source
from attnviz.ui.shared.setting import Setting, State, kept
from attnviz.ui.shared.state import control

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
"""Pills in view; more are behind a button."""
LONGEST_LABEL = 26
"""Characters of an example on its pill."""

LONGEST_LINK = 30_000
"""Characters that a text may take in the address of the page: servers refuse 64 kB."""


def _encode(text: str) -> str | None:
    return text if len(quote(without_surrogates(text))) <= LONGEST_LINK else None


TEXT: Setting[str | None] = Setting("text", None, _encode, lambda values: values[-1])
"""What was typed; None for the text that the model opens with."""
KNOWN: Setting[dict[str, str]] = kept("examples", {})
"""The examples of the model that was shown last."""
EXAMPLE = kept("example", None)


def bar(texts: dict[str, str]) -> None:
    """The examples, by what is written on their pills. Choosing one fills the box."""
    names = list(texts)
    shown, others = names[:SHOWN], names[SHOWN:]
    if len(others) == 1:  # a button for one would take the room that the one needs
        shown, others = names, []
    with st.container(horizontal=True, gap="xsmall", key="examples"):
        _pills("Examples", shown, texts)
        if others:
            with st.popover("more", type="tertiary", width="content"):
                _pills("More examples", others, texts, at="other")


def _pills(title: str, names: list[str], texts: dict[str, str], at: str = "") -> None:
    def take(now: State, name: str | None) -> State:
        return now if name is None else now.without("text").put(TEXT, typed(texts[name], texts))

    control(st.pills, title, EXAMPLE, names, shown=None, lead="", at=at, step=take, required=False)


def typed(text: str, texts: dict[str, str]) -> str | None:
    """A text as the state holds it, where a model has these examples."""
    return None if text == next(iter(texts.values())) else text


def opening_text(source: Source) -> str:
    """The text that a model opens with."""
    return next(iter(of_model(source).values()))


def of_model(source: Source) -> dict[str, str]:
    """The examples of a model; the first is the one it opens with."""
    if source.card is not None:
        return {_label(text, source.card.examples): text for text in source.card.examples}
    return _of_facts(source, source.facts) if source.facts else EXAMPLES


def _of_facts(source: Source, known: Facts) -> dict[str, str]:
    """What a model is good for, by what it says and reads."""
    found = dict(FIRST)
    if known.task == "fill" and source.mask_token:
        found["a blank to fill in"] = f"The cat sat on the mat because it was {source.mask_token}."
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


def with_other_model(setting: Setting[str]) -> Callable[[State, str], State]:
    """The step to another model: masks stay, and what was typed; an example gives way to what that model opens with."""

    def step(now: State, model: str) -> State:
        now = now.put(setting, model).without("model", "text")
        return now.put(TEXT, None) if now[TEXT] in now[KNOWN].values() else now

    return step
