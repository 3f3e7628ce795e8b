"""The mask as a table of checkboxes: the same as painting, by keyboard."""

import pandas as pd
import streamlit as st

from attnviz.core.display import shown
from attnviz.core.masks import Full
from attnviz.core.stack import Stack
from attnviz.ui.masks import painting
from attnviz.ui.masks.base import Lab
from attnviz.ui.shared import masking, state
from attnviz.ui.shared.notes import quiet

MOST = 24
"""So many tokens fit into the table."""

SHOWN: state.Setting[tuple[int, pd.DataFrame | None]] = state.kept("boxes shown", (0, None))
"""The table that stands, and the how manieth it is."""


def table(lab: Lab) -> None:
    """Folded: a row for each query, a checkbox for each key; checked is may attend. Shows the rules alone."""
    folded = st.expander("Checkboxes, for the keyboard", on_change="rerun", key="boxes")
    if not folded.open:
        return
    queries, keys = lab.tokens
    with folded:
        if max(len(queries), len(keys)) > MOST:
            quiet(f"The table has room for {MOST} tokens; this sentence has {max(len(queries), len(keys))}.")
            return
        quiet("Checked: the query of the row may look at the key of the column. Space turns a checkbox around.")
        grid = (lab.stack.mask() or Full()).grid(len(queries), len(keys), sentence=lab.sentence)
        names = [f"{j} {shown(token.text)}" for j, token in enumerate(keys)]
        frame = pd.DataFrame(grid.numpy(), columns=names)
        frame.insert(0, "query", [f"{i} {shown(token.text)}" for i, token in enumerate(queries)])
        frame.insert(1, "keys left", grid.sum(1).numpy())
        number, table = _standing(frame)
        key = f"boxes {number}"
        st.data_editor(
            table,
            key=key,
            on_change=_checked,
            args=(lab.stack, lab.sentence, key),
            disabled=["query", "keys left"],
            hide_index=True,
            alt="The mask as checkboxes",
        )


def _standing(frame: pd.DataFrame) -> tuple[int, pd.DataFrame]:
    """The table that stands stays as long as it shows the mask; where the mask changed elsewhere another one comes."""
    count, kept = state.get(SHOWN)
    edited = (state.event(f"boxes {count}") or {}).get("edited_rows", {})
    if kept is None or not _with(kept, edited).drop(columns="keys left").equals(frame.drop(columns="keys left")):
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
    edited = state.event(key)["edited_rows"]
    cells = {
        (int(row), int(column.split(" ", 1)[0])): value
        for row, boxes in edited.items()
        for column, value in boxes.items()
    }
    for opened in (True, False):
        asked = [cell for cell, value in cells.items() if bool(value) is opened]
        wrong = (
            set(asked) - painting.opening(stack, asked, sentence)
            if opened
            else painting.opening(stack, asked, sentence)
        )
        if wrong:
            stack = painting.painted(stack, wrong, opened=opened, sentence=sentence)
    state.change(masking.put, stack)
