"""The numbers of all heads: as a table, and two of them against each other."""

import pandas as pd
import streamlit as st

from attnviz import figures
from attnviz.metrics.heads import METRICS, ROWS, Metric
from attnviz.ui.overview import words
from attnviz.ui.overview.every import Order, ordered, select
from attnviz.ui.overview.numbers import NAMES, TITLES, Numbers, head_of, heads_of, numbers
from attnviz.ui.shared import everything, look, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.setting import Setting, choice
from attnviz.ui.shared.state import control
from attnviz.ui.shared.toolbar import Bar

ACROSS, UP = choice("across", NAMES), choice("up", NAMES)

MOST, HIGH = 12, 433
"""Rows of a table that are all shown, and the pixels of one with more of them."""


def panel(bar: Bar) -> None:
    """Every head with all numbers, two of them against each other, and one alone."""
    known = numbers(bar.at)
    with bar.view:
        order, _ = ordered(known)
    with bar.export:
        everything.menu(bar.at)
    if not known.names:  # not asked for yet
        return
    _all_heads(known, order)
    _against(bar.at, known)


def _all_heads(known: Numbers, order: Order) -> None:
    """Choosing a row frames the head, with the arrow keys too."""
    found = known.table
    if order is not None:
        at = {head: place for place, head in enumerate(order)}
        found = found.assign(place=[at.get(head) for head in heads_of(found)])
        found = found.dropna(subset="place").sort_values("place")
    columns = [*known.names, "role"] if look.room() else ["role", *known.names]  # what a phone shows first
    shown = found[["kind", "layer", "head", *columns]].reset_index(drop=True)

    def chosen() -> None:
        if rows := state.event(key="table of heads")["selection"]["rows"]:
            look.look_at(*head_of(shown.iloc[rows[0]].to_dict()))

    named = {name: st.column_config.Column(pinned=True) for name in ("kind", "layer", "head")}
    named |= {"role": st.column_config.TextColumn(words.ROLE)}
    named |= {name: st.column_config.NumberColumn(TITLES[name], format="%.3f") for name in known.names}
    options = {"on_select": chosen, "selection_mode": "single-row", "key": "table of heads"}
    st.dataframe(shown, hide_index=True, height=height(shown), column_config=named, **options)
    with st.expander(words.MEANINGS):
        st.markdown("\n\n".join([ROWS, *map(_meaning, (one for one in METRICS if one.name in known.names))]))


def height(rows: pd.DataFrame) -> int | str:
    """Of a table: what its rows take, if they are few."""
    return "content" if len(rows) <= MOST else HIGH


def _meaning(metric: Metric) -> str:
    """Markdown: its formula, what it says, between which numbers it is, and where it is from."""
    source = metric.source if metric.source.endswith("?") else f"{metric.source}."
    means = words.MEANS.format(means=metric.means, range=metric.range, source=source)
    means = means.replace("<", "\\<").replace("[", "\\[")
    text = words.MEANING_WHERE if metric.where else words.MEANING
    return text.format(title=metric.title, formula=metric.formula, where=metric.where, means=means)


def _against(at: Look, known: Numbers) -> None:
    """Two numbers against each other, and one alone."""
    up = "distance" if known.table["distance"].notna().all() else "output_share"
    drawn = {"titles": TITLES, "dark": at.dark, "room": look.room()}
    drawn |= {"focused": (at.site, at.head), "rev": look.rev("every")}
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
                x = _number(known, common.X_AXIS, ACROSS, "confidence")
                y = _number(known, common.Y_AXIS, UP, up)
            scatter = figures.scatter(at.record, known.table, x, y, **drawn)
            pictures.show(scatter, "scatter", select="head", on_select=select)
        with st.container(width="content"):
            histogram = figures.scatter(at.record, known.table, x, None, **drawn)
            pictures.show(histogram, "histogram", select="head", on_select=select)


def _number(known: Numbers, title: str, setting: Setting[str], opening: str) -> str:
    """A column of the table, by its title."""
    chosen = state.one_of(setting, known.names, opening if opening in known.names else known.names[0])
    options = {"shown": chosen, "format_func": TITLES.__getitem__, "width": 290}
    return control(st.selectbox, title, setting, known.names, **options)
