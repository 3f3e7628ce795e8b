"""Circuits of the weights of a model, folded: a row for each head, and a map of how heads compose."""

from functools import partial

import pandas as pd
import streamlit as st

from attnviz import figures
from attnviz.analysis.circuits import NUMBERS, Circuits, bytes_of, circuits, seconds
from attnviz.core.display import file_stem
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate
from attnviz.ui import cache, cores, runs
from attnviz.ui.about import words
from attnviz.ui.overview.numbers import is_requested
from attnviz.ui.shared import look, pictures, state
from attnviz.ui.shared.setting import Setting, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.text import quiet

KIND = session_setting("composition", next(iter(words.COMPOSITIONS)))

REQUESTED: Setting[Source | None] = session_setting("circuits of", None)
"""Source whose circuits were requested, where they take long."""


def folded(source: Source) -> None:
    """The part of the panel; nothing is computed before it is opened."""
    with pictures.folded(words.CIRCUITS, "circuits") as is_open:
        if not is_open:
            return
        quiet(words.CIRCUITS_ARE)
        try:
            with runs.beside():
                cost = cache.worked(_cost, source, cost=Estimate(1, 0.0, 0, 0, unit="heads"), unit=words.SEARCHES)
                button = {"key": "measure circuits", "icon": ":material/functions:"}
                if is_requested(REQUESTED, source, cost, words.MEASURE_CIRCUITS, **button):
                    _parts(source, cache.worked(_circuits, source, cost=cost))
        except AttnvizError as error:
            quiet(str(error))


def _cost(source: Source) -> Estimate:
    """Cost of the circuits, by the sizes of the weights: of a model of transformers these are searched first."""
    with cores.used_by(source):
        weights = source.model_weights()
    return Estimate(sum(weights.num_heads.values()), seconds(weights), bytes_of(weights), 0, unit="heads")


def _circuits(source: Source) -> Circuits:
    with cores.used_by(source):
        return circuits(source.model_weights())


def _parts(source: Source, measured: Circuits) -> None:
    heads = measured.heads
    sites = [Site(*place) for place in heads[["kind", "layer"]].itertuples(index=False, name=None)]
    brief = [site.brief(head) for site, head in zip(sites, heads["head"], strict=True)]
    there = [name for name in NUMBERS if heads[name].notna().any()]
    columns = {
        name: st.column_config.NumberColumn(title, help=means, format="%.3f")
        for name, (title, means) in words.CIRCUIT.items()
    }
    columns["place"] = st.column_config.TextColumn(words.PLACE)
    columns["through"] = st.column_config.TextColumn(words.THROUGH, help=words.THROUGH_MEANS)
    rows = heads.assign(place=brief)[["place", *there, "through"]]
    rows = rows if rows["through"].notna().any() else rows.drop(columns="through")
    st.dataframe(rows, hide_index=True, column_config=columns, placeholder="–", key="table circuits")
    quiet(*measured.lacking)
    if measured.left_out:
        quiet(words.CROSS_LEFT_OUT)
    kinds = [title for title, kind in words.COMPOSITIONS.items() if measured.composition[kind].notna().any()]
    if kinds:
        kind = state.one_of(KIND, kinds, kinds[0])
        control(st.segmented_control, words.COMPOSITION, KIND, kinds, shown=kind)
        figure = figures.composition(measured, words.COMPOSITIONS[kind], model=source.name, dark=look.is_dark())
        pictures.picture(figure, "composition")
        quiet(words.ROWS_WRITE)
    quiet(words.WEIGHTS_ALONE)
    tables = {"heads": heads, "eigenvalues": measured.eigenvalues, "composition": measured.composition}
    with st.container(horizontal=True, gap="small"):
        for name, table in tables.items():
            file = f"{file_stem(source.name, 'circuits', name)}.csv"
            pictures.save(
                f"{words.CSV_OF[name]} (CSV)", partial(_csv, table), file, "text/csv", key=f"save circuits {name}"
            )


def _csv(table: pd.DataFrame) -> bytes:
    from attnviz.export import csv

    return csv(table)
