"""Numbers of a model with random weights, edited in a table."""

import pandas as pd
import streamlit as st
import torch
from torch import Tensor

from attnviz import walk
from attnviz.core.amounts import counted
from attnviz.core.display import visible_text
from attnviz.core.errors import AttnvizError
from attnviz.core.origin import PROJECTIONS, VECTORS, Change
from attnviz.ui.learn import words
from attnviz.ui.shared import state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.changes import CHANGES, MOST_CHANGES
from attnviz.ui.shared.setting import choice, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import note, quiet
from attnviz.ui.steps.walked import Walk

MATRIX = choice("matrix", (*VECTORS, *PROJECTIONS), VECTORS[0], "tab")
REFUSED = session_setting("not edited", "")

ROW, NAMES, COLUMN = 33, 96, 76
"""Pixels of a row, of the names of rows, and of a column of numbers; the style sheet knows the widths."""
MOST_ROWS = 9
"""Rows in view, the head among them."""


def edit(context: Walk) -> None:
    """Q, K, V or a projection of a head as a table to type in."""
    names = {"lead": "", "format_func": words.MATRICES.get}
    matrix = control(st.pills, words.MATRIX, MATRIX, (*VECTORS, *PROJECTIONS), **names)
    if changed := len(state.get(CHANGES)):
        name = words.RESET_NUMBERS.format(numbers=counted(changed, common.EDITED_NUMBER))
        st.button(name, on_click=_set, args=((),), type="tertiary")
    try:
        table = walk.editable(
            context.record, context.source, context.site, context.head, matrix, sentence=context.sentence
        )
    except AttnvizError as error:
        quiet(str(error))
        return
    key = f"edited {context.site} {context.head} {matrix} {context.sentence} {hash(context.source)}"
    frame = _frame(context, matrix, table)
    columns = dict.fromkeys(frame, st.column_config.NumberColumn(format="%.4f", width=COLUMN))
    columns["_index"] = st.column_config.Column(width=NAMES)
    height = ROW * min(len(frame) + 1, MOST_ROWS) + 2
    st.data_editor(
        frame,
        key=key,
        on_change=_edited,
        args=(context, matrix, frame, key),
        column_config=columns,
        row_height=ROW,
        height=height,
    )
    if problem := state.get(REFUSED):
        note(problem)
        state.put(REFUSED, "")


def _frame(context: Walk, matrix: str, table: Tensor) -> pd.DataFrame:
    """A matrix with its rows named: of queries, keys and values, by their tokens."""
    tokens = context.tokens[matrix != "query"]
    rows = [f"{i} {visible_text(tokens[i].text)}" if matrix in VECTORS else f"{i}" for i in range(len(table))]
    return pd.DataFrame(table.numpy(), rows, [str(i) for i in range(table.shape[1])])


def _edited(context: Walk, matrix: str, frame: pd.DataFrame, key: str) -> None:
    """Put the typed numbers into the source and so into the link."""
    table = torch.tensor(frame.to_numpy())
    try:
        for row, cells in state.event(key)["edited_rows"].items():
            for column, value in cells.items():
                if value is not None:
                    table[int(row), int(column)] = value
        source = walk.with_edited(
            context.record, context.source, context.site, context.head, matrix, table, sentence=context.sentence
        )
    except AttnvizError as error:
        state.put(REFUSED, str(error))
        return
    if len(source.changes) > MOST_CHANGES:
        state.put(REFUSED, words.TOO_MANY_NUMBERS.format(most=MOST_CHANGES))
        return
    _set(source.changes)


def _set(changes: tuple[Change, ...]) -> None:
    """Other numbers in the model, which stands outside of what runs again by itself."""
    state.put(CHANGES, changes)
    st.rerun()
