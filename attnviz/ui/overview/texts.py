"""The numbers of all heads over many texts: their mean and spread."""

from dataclasses import replace

import pandas as pd
import streamlit as st

from attnviz import texts
from attnviz.core import progress
from attnviz.core.edits import Edits
from attnviz.core.errors import AttnvizError
from attnviz.sources import estimate
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate
from attnviz.ui.overview.numbers import TITLES
from attnviz.ui.shared import cache, cores, everything, runs, state
from attnviz.ui.shared.setting import Setting, kept
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import large, note, quiet
from attnviz.ui.shared.toolbar import Bar

MEASURED: Setting[tuple | None] = kept("over texts", None)
"""Of which model, texts and edits the numbers were asked for."""
NUMBER = kept("number over texts", None)


def over_many_texts(bar: Bar) -> None:
    """Measure on the texts that ship with attnviz or on a file, on request; then means and spreads as a table."""
    at = bar.at
    with bar.export:
        everything.menu(at)
    large("Does a head look the same way on other texts? One text can mislead.")
    quiet("Measured on fifty texts that ship with attnviz, or on a file of yours with a text on each line.")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        asked = st.button("Measure on many texts", key="measure texts", icon=":material/functions:")
        given = st.file_uploader("Texts", type=["txt"], key="texts", label_visibility="collapsed", width=330)
    try:
        lines = texts.lines(given.getvalue()) if given else texts.shipped(at.source)
        key = (at.source, lines, at.edits)
        if asked:
            state.put(MEASURED, key)
        if state.get(MEASURED) == key:
            with runs.beside():
                _table(cache.worked(_over, *key, cost=_cost(*key), unit="texts"), len(lines))
    except AttnvizError as error:
        note(str(error))


@cache.kept
def _cost(source: Source, lines: tuple[str, ...], edits: Edits) -> Estimate:
    """Of all texts, each as long as the mean of them; memory is that of one run of some of them."""
    lengths = [one.length for one in texts.cut(source, lines)[0] if one] or [0]
    every = estimate.estimate(source, -(-sum(lengths) // len(lengths)), edits, len(lengths))
    return replace(every, bytes=estimate.estimate(source, max(lengths), edits).bytes)


def _over(source: Source, lines: tuple[str, ...], edits: Edits) -> pd.DataFrame:
    with progress.counted(len(lines)) as report, cores.used_by(source):
        return texts.over_texts(source, lines, report=report, edits=edits)


def _table(found: pd.DataFrame, count: int) -> None:
    there = [name for name in TITLES if name in found and found[name].notna().any()]
    options = {"shown": state.one_of(NUMBER, there), "format_func": TITLES.__getitem__, "width": 330}
    name = control(st.selectbox, "Number", NUMBER, there, **options)
    shown = found[["kind", "layer", "head", name, f"{name}_spread", f"{name}_texts"]]
    shown = shown.sort_values(name, ascending=False, na_position="last")
    shown.columns = ["kind", "layer", "head", "mean", "standard deviation", "texts"]
    st.dataframe(shown, hide_index=True, height=280, width=620, key="table over texts")
    quiet(f"Over {count} texts, each counted the same. All numbers are in the file:")
    data = found.drop(columns="site", errors="ignore").to_csv(index=False).encode()
    st.download_button("CSV", data, "heads-over-texts.csv", "text/csv", key="save over texts", on_click="ignore")
