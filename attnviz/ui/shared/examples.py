"""Texts that show what a model can do, in a menu."""

from collections.abc import Callable
from functools import lru_cache
from urllib.parse import quote

import streamlit as st

from attnviz.core.display import without_surrogates
from attnviz.sources.base import Facts, Source
from attnviz.ui.shared import state, words
from attnviz.ui.shared.setting import Setting, State, choice, session_setting
from attnviz.ui.text import literal

LONGEST_LINK = 30_000
"""Characters that a text may take in the address of the page: servers refuse 64 kB."""


@lru_cache(maxsize=8)
def _encode(text: str) -> str | None:
    return text if len(quote(without_surrogates(text))) <= LONGEST_LINK else None


MOST_OFFERED = 3
"""Examples that are offered where there is no text."""

TEXT: Setting[str | None] = Setting("text", None, _encode, lambda values: values[-1])
"""Typed text; None for the text that the model opens with."""
LINES: Setting[bool | None] = choice("lines", {True: "true", False: "false"}, None)
"""Whether each line is a text of its own; None where nobody chose: so are the lines of examples and of links that do
not say it."""
LEFT_OUT = session_setting("left out", "", of="text link")
"""Message about the part of a typed text that is left out, where only its beginning is used."""
OFFERED: Setting[dict[str, str]] = session_setting("examples", {})
"""The examples of the model that was shown last."""


def menu(texts: dict[str, str]) -> None:
    """The examples by their names. Choosing one fills the box."""

    def take() -> None:
        state.change(with_text, texts[state.event("example")], texts)

    st.menu_button(words.EXAMPLES_TITLE, list(texts), key="example", on_click=take, format_func=literal)


def offers(texts: dict[str, str]) -> None:
    """The first examples as buttons, where there is no text."""
    with st.container(horizontal=True, gap="small", key="first examples"):
        for i, (name, text) in enumerate(list(texts.items())[:MOST_OFFERED]):
            st.button(literal(name), key=f"first example {i}", on_click=state.change, args=(with_text, text, texts))


def with_text(now: State, text: str, texts: dict[str, str]) -> State:
    """The step to another text: what was selected in the one before is let go; a typed text keeps its line breaks."""
    lines = False if has_lines(text) and text not in texts.values() else None
    now = now.without("text").put(LINES, now[LINES] or lines)
    return now.put(TEXT, typed(text, texts) if texts else text)


def has_lines(text: str) -> bool:
    """Whether a text has line breaks within it."""
    return len(text.strip("\r\n").splitlines()) > 1


def by_line(now: State, text: str) -> bool:
    """Whether each line of a text is a text of its own."""
    return now[LINES] or (now[LINES] is None and has_lines(text))


def with_lines(now: State, text: str, *, by_line: bool) -> State:
    """The step to a text, of which each line is a text of its own or not."""
    return with_text(now, text, now[OFFERED]).put(LINES, by_line if by_line or has_lines(text) else None)


def typed(text: str, texts: dict[str, str]) -> str | None:
    """A text as the state holds it, where a model has these examples."""
    return None if text == next(iter(texts.values())) else text


def of_model(source: Source) -> dict[str, str]:
    """The examples of a model; the first is the one it opens with."""
    if source.card is not None:
        return {text.replace("\n", " / "): text for text in source.card.examples}
    if source.examples:
        return {text.replace("\n", " / "): text for text in source.examples}
    return _of_facts(source, source.facts) if source.facts else words.EXAMPLES


def _of_facts(source: Source, facts: Facts) -> dict[str, str]:
    """Examples of a model's uses, by its task and input."""
    others = []
    if source.reads == "both":
        return dict([words.FOR_PICTURES]) | words.FIRST_EXAMPLE
    if facts.task == "fill" and source.mask_token:
        title, text = words.FOR_BLANKS
        others.append((title, text.format(blank=source.mask_token)))
    if facts.task == "next":
        others.append(words.FOR_REPEATS)
    if facts.task == "vectors":
        others.append(words.FOR_VECTORS)
    if facts.task != "write" and source.sites[0].kind == "encoder":
        others.append(words.FOR_PAIRS)
    return words.FIRST_EXAMPLE | dict(others)


def with_other_model(setting: Setting[str]) -> Callable[[State, str], State]:
    """The step to another model: masks stay, and what was typed; an example gives way to what that model opens with."""

    def step(now: State, model: str) -> State:
        now = now.put(setting, model).without("model", "text")
        return now.put(TEXT, None).put(LINES, None) if now[TEXT] in (*now[OFFERED].values(), *words.OPENED) else now

    return step
