"""Numbers of the scratch model, edited in a table."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st
import torch
from torch import Tensor

from attnviz import walk
from attnviz.core.amounts import counted, digits
from attnviz.core.display import shown
from attnviz.core.errors import AttnvizError
from attnviz.core.origin import MATRICES, VECTORS, Change
from attnviz.ui.shared import cache, state
from attnviz.ui.shared.changes import CHANGES, MOST_CHANGES
from attnviz.ui.shared.setting import kept
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import note, quiet
from attnviz.ui.steps import play, words
from attnviz.ui.steps.walked import Walk, elsewhere

MATRIX, REFUSED = kept("matrix", "query"), kept("not edited", "")

ROW, NAMES, COLUMN = 33, 96, 76
"""Pixels of a row, of the names of rows, and of a column of numbers."""
MOST_ROWS = MOST_COLUMNS = 16
"""Rows and columns that are seen at once, where there is room."""

CALLED = {"query": "Q", "key": "K", "value": "V"} | words.MATRICES


def edit(at: Walk) -> None:
    """Q, K, V or a projection of this head, as a table to type in; of a trained model Q, K and V, to read."""
    if "changes" not in at.source.settings():
        _read(at, _matrix(VECTORS))
        return
    matrix = _matrix((*VECTORS, *MATRICES[:4]))
    try:
        table = walk.editable(at.record, at.source, at.site, at.head, matrix, sentence=at.sentence)
    except AttnvizError as error:
        quiet(str(error))
        return
    key = f"edited {at.site} {at.head} {matrix} {at.sentence} {hash(at.source)}"
    frame = _frame(at, matrix, table, range(len(table)))
    with st.container(key="whole-cells"):
        st.data_editor(frame, key=key, on_change=_edited, args=(at, matrix, frame, key), **_sizes(frame, "%.4f"))
    if problem := state.get(REFUSED):
        note(problem)
        state.put(REFUSED, "")
    quiet(words.TYPE_A_NUMBER, *_unseen(frame))
    if state.get(CHANGES):
        before = cache.record(replace(at.source, changes=()), at.lines, at.edits)
        play.measures(at, before, at.record, (words.ORIGINAL, words.NOW))


def _read(at: Walk, matrix: str) -> None:
    """The queries, keys or values of a trained model, which keeps its numbers, and the way to one that does not."""
    rows = range(len(at.tokens[matrix != "query"]))[at.windows["queries" if matrix == "query" else "keys"]]
    frame = _frame(at, matrix, getattr(at.record.step(at.site), matrix)[at.sentence, at.head], rows)
    elsewhere(words.RANDOM_ONLY)
    with st.container(key="whole-cells"):
        st.dataframe(frame.style.format(digits), **_sizes(frame))
    quiet(*_unseen(frame))


def _sizes(frame: pd.DataFrame, form: str | None = None) -> dict[str, Any]:
    """How large a table is: rows and columns of one size, so that none is cut; the style sheet knows these widths."""
    columns = dict.fromkeys(frame, st.column_config.NumberColumn(format=form, width=COLUMN))
    height = ROW * (min(len(frame), MOST_ROWS) + 1) + 2
    columns |= {"_index": st.column_config.Column(width=NAMES)}
    return {"column_config": columns, "row_height": ROW, "height": height}


def _unseen(frame: pd.DataFrame) -> tuple[str, ...]:
    """How to see the columns that no screen has room for."""
    columns = frame.shape[1]
    return (words.SCROLL_NUMBERS.format(columns=columns),) * (columns > MOST_COLUMNS)


def _matrix(choices: Sequence[str]) -> str:
    """Which matrix is shown, and how to let go of what was typed."""
    with st.container(horizontal=True, vertical_alignment="center"):
        options = {"shown": state.one_of(MATRIX, choices), "lead": "", "format_func": CALLED.get}
        matrix = control(st.segmented_control, words.MATRIX, MATRIX, choices, **options)
        if changed := len(state.get(CHANGES)):
            name = words.RESET_NUMBERS.format(numbers=counted(changed, words.EDITED_NUMBER))
            st.button(name, on_click=_set, args=((),), type="tertiary")
    return matrix


def _frame(at: Walk, matrix: str, table: Tensor, rows: range) -> pd.DataFrame:
    """A matrix with its rows named: of queries, keys and values, by their tokens."""
    tokens = at.tokens[matrix != "query"]
    named = [f"{i} {shown(tokens[i].text)}" if matrix in VECTORS else f"{i}" for i in rows]
    return pd.DataFrame(table[rows.start : rows.stop].numpy(), named, [str(i) for i in range(table.shape[1])])


def _edited(at: Walk, matrix: str, frame: pd.DataFrame, key: str) -> None:
    """Put what was typed into the source and so into the link."""
    table = torch.tensor(frame.to_numpy())
    try:
        for row, cells in state.event(key)["edited_rows"].items():
            for column, value in cells.items():
                if value is not None:
                    table[int(row), int(column)] = value
        made = walk.with_edited(at.record, at.source, at.site, at.head, matrix, table, sentence=at.sentence)
    except AttnvizError as error:
        state.put(REFUSED, str(error))
        return
    if len(made.changes) > MOST_CHANGES:
        state.put(REFUSED, words.TOO_MANY_NUMBERS.format(most=MOST_CHANGES))
        return
    _set(made.changes)


def _set(changes: tuple[Change, ...]) -> None:
    """Other numbers in the model, which stands outside of what runs again by itself."""
    state.put(CHANGES, changes)
    st.rerun()
