"""A target: what the decoder of a model that writes another text reads in the place of its own output."""

import streamlit as st

from attnviz.core.errors import InputError
from attnviz.sources.base import Source
from attnviz.ui.shared import words
from attnviz.ui.shared.setting import Setting
from attnviz.ui.shared.state import control

MOST = 10_000
"""Characters of a target."""


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


def targets(texts: tuple[str, ...], typed: str) -> tuple[str, ...]:
    """What was typed as the target of texts: of several texts, a target on each line; empty if nothing was typed.

    Raises:
        InputError: if there are fewer or more targets than texts.
    """
    if not typed.strip():
        return ()
    lines = [line for line in typed.splitlines() if line.strip()] if len(texts) > 1 else [typed.strip("\r\n")]
    if len(lines) != len(texts):
        raise InputError(words.TARGETS_DIFFER.format(texts=len(texts), targets=len(lines)))
    return tuple(lines)


def box(*, several: bool) -> None:
    """The box for a target: of several texts, one on each line."""
    options = {"placeholder": words.TARGET_IS_OUTPUT, "lead": ""}
    with st.container(key="target-box"):
        if several:
            control(st.text_area, words.TARGET, TARGET, height="content", at="lines", **options)
        else:
            control(st.text_input, words.TARGET, TARGET, **options)
