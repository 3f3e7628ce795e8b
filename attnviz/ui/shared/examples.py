"""Texts that show what a model can do, in a menu."""

from collections.abc import Callable
from urllib.parse import quote

import streamlit as st

from attnviz.core.display import without_surrogates
from attnviz.sources.base import Facts, Source
from attnviz.ui.shared import state
from attnviz.ui.shared.setting import Setting, State, kept

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

LONGEST_LINK = 30_000
"""Characters that a text may take in the address of the page: servers refuse 64 kB."""


def _encode(text: str) -> str | None:
    return text if len(quote(without_surrogates(text))) <= LONGEST_LINK else None


TEXT: Setting[str | None] = Setting("text", None, _encode, lambda values: values[-1])
"""What was typed; None for the text that the model opens with."""
KNOWN: Setting[dict[str, str]] = kept("examples", {})
"""The examples of the model that was shown last."""


def menu(texts: dict[str, str]) -> None:
    """The examples by their names. Choosing one fills the box."""

    def take() -> None:
        state.change(with_text, texts[state.event("example")], texts)

    st.menu_button("Examples", list(texts), key="example", on_click=take)


def with_text(now: State, text: str, texts: dict[str, str]) -> State:
    """The step to another text: what was selected in the one before is let go."""
    return now.without("text").put(TEXT, typed(text, texts) if texts else text)


def typed(text: str, texts: dict[str, str]) -> str | None:
    """A text as the state holds it, where a model has these examples."""
    return None if text == next(iter(texts.values())) else text


def of_model(source: Source) -> dict[str, str]:
    """The examples of a model; the first is the one it opens with."""
    if source.card is not None:
        return {text.replace("\n", " / "): text for text in source.card.examples}
    if source.examples:
        return {text.replace("\n", " / "): text for text in source.examples}
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


def with_other_model(setting: Setting[str]) -> Callable[[State, str], State]:
    """The step to another model: masks stay, and what was typed; an example gives way to what that model opens with."""

    def step(now: State, model: str) -> State:
        now = now.put(setting, model).without("model", "text")
        return now.put(TEXT, None) if now[TEXT] in now[KNOWN].values() else now

    return step
