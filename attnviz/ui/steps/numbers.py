"""Numbers of the scratch model, edited in a table."""

import pandas as pd
import streamlit as st
import torch

from attnviz import walk
from attnviz.core.amounts import counted
from attnviz.core.display import shown
from attnviz.core.errors import AttnvizError
from attnviz.core.origin import MATRICES, VECTORS, Change
from attnviz.ui.shared import state
from attnviz.ui.shared.changes import CHANGES, MOST_CHANGES
from attnviz.ui.shared.setting import kept
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import note, quiet
from attnviz.ui.steps import words
from attnviz.ui.steps.walked import Walk, elsewhere

MATRIX, REFUSED = kept("matrix", "query"), kept("not edited", "")

CALLED = {"query": "Q", "key": "K", "value": "V"} | words.MATRICES


def edit(at: Walk) -> None:
    """Q, K, V or a projection of this head, as a table to type in."""
    if "changes" not in at.source.settings():
        elsewhere(words.RANDOM_ONLY)
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        options = {"lead": "", "format_func": CALLED.get}
        matrix = control(st.segmented_control, words.MATRIX, MATRIX, (*VECTORS, *MATRICES[:4]), **options)
        if changed := len(state.get(CHANGES)):
            name = words.RESET_NUMBERS.format(numbers=counted(changed, words.EDITED_NUMBER))
            st.button(name, on_click=_set, args=((),), type="tertiary")
    try:
        table = walk.editable(at.record, at.source, at.site, at.head, matrix, sentence=at.sentence)
    except AttnvizError as error:
        quiet(str(error))
        return
    key = f"edited {at.site} {at.head} {matrix} {at.sentence} {hash(at.source)}"
    frame = pd.DataFrame(table.numpy(), columns=[str(i) for i in range(table.shape[1])])
    frame.index = [
        f"{i} {shown(at.tokens[matrix != 'query'][i].text)}" if matrix in VECTORS else f"{i}" for i in frame.index
    ]
    columns = {name: st.column_config.NumberColumn(format="%.4f") for name in frame}
    st.data_editor(frame, key=key, on_change=_edited, args=(at, matrix, frame, key), column_config=columns)
    if problem := state.get(REFUSED):
        note(problem)
        state.put(REFUSED, "")
    quiet(words.TYPE_A_NUMBER)


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
