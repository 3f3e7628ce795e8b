"""The mask as a table of checkboxes: the same as painting, by keyboard."""

import pandas as pd
import streamlit as st

from attnviz.core.display import shown
from attnviz.core.masks import Full
from attnviz.core.stack import Stack
from attnviz.ui.masks import painting, words
from attnviz.ui.masks.lab import Lab
from attnviz.ui.shared import mask, pictures, state
from attnviz.ui.shared.setting import Setting, kept
from attnviz.ui.shared.text import quiet

MOST = 24
"""Tokens for which the table has room."""

SHOWN: Setting[tuple[int, pd.DataFrame | None]] = kept("boxes shown", (0, None))
"""The table that stands, and its number."""


def table(lab: Lab) -> None:
    """Folded: a row for each query, a checkbox for each key; checked is may attend. Shows the rules alone."""
    with pictures.folded(words.CHECKBOXES, "boxes") as is_open:
        if not is_open:
            return
        if max(lab.lengths) > MOST:
            quiet(words.NO_ROOM.format(most=MOST, tokens=max(lab.lengths)))
            return
        quiet(words.CHECKED)
        queries, keys = ([f"{i} {shown(token.text)}" for i, token in enumerate(part)] for part in lab.tokens)
        grid = (lab.stack.mask() or Full()).grid(*lab.lengths, sentence=lab.sentence)
        frame = pd.DataFrame(grid.numpy(), columns=keys)
        frame.insert(0, words.QUERY, queries)
        frame.insert(1, words.KEYS_LEFT, grid.sum(1).numpy())
        number, standing = _standing(frame)
        key = f"boxes {number}"
        options = {"on_change": _checked, "args": (lab.stack, lab.sentence, key), "alt": words.AS_CHECKBOXES}
        st.data_editor(standing, key=key, disabled=[words.QUERY, words.KEYS_LEFT], hide_index=True, **options)


def _standing(frame: pd.DataFrame) -> tuple[int, pd.DataFrame]:
    """The table that stands stays as long as it shows the mask; where the mask changed elsewhere another one comes."""
    count, kept = state.get(SHOWN)
    edited = (state.event(key=f"boxes {count}") or {}).get("edited_rows", {})
    if kept is None or not _with(kept, edited).drop(columns=words.KEYS_LEFT).equals(
        frame.drop(columns=words.KEYS_LEFT)
    ):
        state.put(SHOWN, (count + 1, frame))
    return state.get(SHOWN)


def _with(frame: pd.DataFrame, edited: dict) -> pd.DataFrame:
    frame = frame.copy()
    for row, cells in edited.items():
        for column, value in cells.items():
            if column in frame:
                frame.loc[int(row), column] = value
    return frame


def _checked(stack: Stack, sentence: int, key: str) -> None:
    """Paint the cells that differ from their checkboxes."""
    for opened in (True, False):
        asked = {
            (int(row), int(column.split(" ", 1)[0]))
            for row, boxes in state.event(key)["edited_rows"].items()
            for column, value in boxes.items()
            if bool(value) is opened
        }
        are_open = painting.opening(stack, asked, sentence)
        if wrong := asked - are_open if opened else are_open:
            stack = painting.painted(stack, wrong, opened=opened, sentence=sentence)
    state.change(mask.put, stack)
