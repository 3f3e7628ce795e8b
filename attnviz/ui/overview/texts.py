"""The numbers of all heads over many texts: their mean and spread."""

import pandas as pd
import streamlit as st

from attnviz import texts
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError
from attnviz.sources.base import Source
from attnviz.ui.overview.numbers import TITLES
from attnviz.ui.shared import cores, state
from attnviz.ui.shared.notes import note, quiet
from attnviz.ui.shared.state import control

MEASURED: state.Setting[tuple[tuple, pd.DataFrame] | None] = state.kept("over texts", None)
"""Of which model, texts and edits, and the numbers."""
NUMBER = state.kept("number over texts", None)


def over_many_texts(source: Source, edits: Edits) -> None:
    """Measure on the texts that ship with attnviz or on a file, on request; then means and spreads as a table."""
    quiet(
        "One text can mislead. Measured on fifty texts that ship with attnviz, or on a file with a text on each line:"
    )
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        given = st.file_uploader("Texts", type=["txt"], key="texts", label_visibility="collapsed", width=330)
        asked = st.button("Measure on many texts", key="measure texts", icon=":material/functions:")
    try:
        lines = texts.lines(given.getvalue()) if given else texts.shipped(source)
        key = (source, lines, edits)
        if asked:
            state.put(MEASURED, (key, _measured(source, lines, edits)))
    except AttnvizError as error:
        note(str(error))
        return
    kept = state.get(MEASURED)
    if kept and kept[0] == key:
        _table(kept[1], len(lines))


def _measured(source: Source, lines: tuple[str, ...], edits: Edits) -> pd.DataFrame:
    bar = st.progress(0.0, f"0 of {len(lines)} texts")

    def report(done: int, of: int) -> None:
        bar.progress(done / of, f"{done} of {of} texts")

    with cores.used_by(source):
        found = texts.over_texts(source, lines, report, edits)
    bar.empty()
    return found


def _table(found: pd.DataFrame, count: int) -> None:
    there = [name for name in TITLES if name in found and found[name].notna().any()]
    name = state.get(NUMBER) if state.get(NUMBER) in there else there[0]
    st.selectbox("Number", there, **control(NUMBER, name), format_func=TITLES.__getitem__, width=330)
    shown = found[["kind", "layer", "head", name, f"{name}_spread", f"{name}_texts"]]
    shown = shown.sort_values(name, ascending=False, na_position="last")
    shown.columns = ["kind", "layer", "head", "mean", "standard deviation", "texts"]
    st.dataframe(shown, hide_index=True, height=280, width=620, key="table over texts")
    quiet(f"Over {count} texts, each counted the same. All numbers are in the file:")
    data = found.drop(columns="site", errors="ignore").to_csv(index=False).encode()
    st.download_button("CSV", data, "heads-over-texts.csv", "text/csv", key="save over texts", on_click="ignore")
