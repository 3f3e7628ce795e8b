"""A target: what the decoder of a model that writes another text reads in the place of its own output."""

from collections.abc import Sequence
from typing import Any, Self

import streamlit as st

from attnviz.core.errors import InputError
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source
from attnviz.ui.shared import words
from attnviz.ui.shared.setting import Setting
from attnviz.ui.shared.state import control

MOST = 10_000
"""Characters of a target."""


class TextWith(str):
    """A text, perhaps with pictures, with what belongs to it; as a key it differs from the text alone."""

    text: str
    part: Any

    def __new__(cls, text: str, part: Any) -> Self:
        result = super().__new__(cls, text)
        result.text, result.part = text, part
        return result

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.text == other.text and self.part == other.part

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((str.__hash__(self), self.part))


def plain(text: str) -> str:
    """A text, perhaps with pictures, without a target or an answer."""
    return text.text if isinstance(text, TextWith) else text


class TargetedText(TextWith):
    """A text with its target."""

    @property
    def target(self) -> str:
        return self.part


TARGET: Setting[str] = Setting(
    "target",
    "",
    lambda text: text if len(text) <= MOST else None,
    lambda values: values[-1][:MOST],
    "text model",
    lambda there, _: _lacks(there) if isinstance(there, Source) else "",
)


def _lacks(source: Source) -> str:
    """Why a model takes no target; "" if it does."""
    return "" if source.writes else words.NO_TARGET.format(model=source.name)


def of(texts: Sequence[str]) -> tuple[str, ...]:
    """The targets of texts; empty where they have none."""
    return tuple(text.target for text in texts if isinstance(text, TargetedText))


def tokens(source: Source, texts: Sequence[str]) -> tuple[Sentence, ...]:
    """The tokens of the targets of texts, for `source.run`; empty where they have none, or the model writes no text.

    Raises:
        InputError: if a target is too long.
    """
    targets = of(texts) if source.writes else ()
    return source.tokenize_targets([*targets]) if targets else ()


def with_targets(texts: tuple[str, ...], typed: str) -> tuple[str, ...]:
    """Texts with what was typed as their target: of several texts, a target on each line.

    Raises:
        InputError: if there are fewer or more targets than texts.
    """
    if not typed.strip():
        return texts
    targets = [line for line in typed.splitlines() if line.strip()] if len(texts) > 1 else [typed.strip("\r\n")]
    if len(targets) != len(texts):
        raise InputError(words.TARGETS_DIFFER.format(texts=len(texts), targets=len(targets)))
    return tuple(map(TargetedText, texts, targets))


def box(*, several: bool) -> None:
    """The box for a target: of several texts, one on each line."""
    options = {"placeholder": words.TARGET_IS_OUTPUT, "lead": ""}
    with st.container(key="target-box"):
        if several:
            control(st.text_area, words.TARGET, TARGET, height="content", at="lines", **options)
        else:
            control(st.text_input, words.TARGET, TARGET, **options)
