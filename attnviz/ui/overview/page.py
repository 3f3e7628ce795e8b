"""Every head of the model at once, by its layer or by a number, and what each may be for."""

import time
from collections.abc import Callable

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz import figures
from attnviz.charts.overview import Head
from attnviz.core.edits import KINDS, Edits
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.metrics.heads import METRICS, ROWS, Metric
from attnviz.metrics.roles import THRESHOLDS, roles
from attnviz.sources.base import Source
from attnviz.ui import frame
from attnviz.ui.overview import numbers, reach, texts
from attnviz.ui.overview.numbers import LAYER, OFF, SORT, TITLES, Numbers
from attnviz.ui.shared import cache, editing, findings, looking, pictures, says, state
from attnviz.ui.shared.looking import SHOW, SITE
from attnviz.ui.shared.notes import heading, label, large, sideways
from attnviz.ui.shared.state import Setting, control

SHOWN = ("confidence", "effective_keys", "distance", "previous", "self", "first", "special", "output_share")
"""The numbers that stand beside the maps; all are in the table."""

KIND = state.several("kinds", KINDS)
ROLE = state.choice("role", tuple(rule.name for rule in THRESHOLDS))
ACROSS, UP = state.choice("across", TITLES), state.choice("up", TITLES)
PAINTED: Setting[tuple] = state.kept("painted every", ())
"""Of which run all heads were painted last."""

PAINTING = 0.08
"""Seconds that a browser takes to paint 144 heads."""


def page(source: Source, lines: tuple[str, ...]) -> None:
    with st.container(gap="xsmall"):
        edits, said = editing.edits_bar(source, lines)
    source = looking.step(source)
    record = cache.record(source, lines, edits)
    before = cache.record(source, lines) if edits != Edits() else None
    sentence = looking.sentence(lines)
    with said:
        position = says.position(record, looking.opening_site(source), None, sentence)
        says.line(record, before, position=position, sentence=sentence)
    drawn = {"sentence": sentence, "dark": looking.is_dark(), "rev": looking.rev("every")}
    focus = _focus(source, record)
    bar = st.container(horizontal=True, vertical_alignment="center", gap="small")
    with st.container(horizontal=True, gap="medium"):
        place, beside = st.container(width="content"), st.container(width="stretch", key="beside")
    if plain := _asks_for_no_number(record):  # the numbers of many heads take longer than their pictures
        _every(place, cache.drawn(figures.overview.overview, record, focused=focus, order=None, captions=None, **drawn))
        _let_paint((source, lines, edits))
    known = numbers.numbers(source, lines, edits, record, sentence)
    order, captions = _order(bar, record, known)
    every = cache.drawn(figures.overview.overview, record, focused=focus, order=order, captions=captions, **drawn)
    if not plain:
        _every(place, every)
    with bar:
        pictures.take_away(every, "every")
    with beside:
        _of_head(source, known, focus)
    heading("When a head is off")
    numbers.switch_each_off(source, lines, edits, known)
    heading("All numbers of this text")
    _table(known, order)
    _against(record, known, focus)
    heading("Over many texts")
    texts.over_many_texts(source, edits)
    heading("What reaches what")
    reach.reach((source, lines, edits), record, sentence)


def _focus(source, record: Record) -> Head:
    """The head that is framed: the chosen one, else the one that the model opens with."""
    site, head = state.get(SITE), state.get(SHOW)
    chosen = (site or looking.opening_site(source), head if isinstance(head, int) else looking.opening_head(source))
    there = chosen[0] in record.sites and chosen[1] < record.step(chosen[0]).num_heads
    return chosen if there else (record.steps[0].site, 0)


def _every(place: DeltaGenerator, every: Figure) -> None:
    with place:
        sideways("all heads")
        pictures.picture(every, "every", select="head", on_select=_select)


def _select(point: dict | None) -> None:
    if point is not None and looking.counted(point, "every"):
        looking.look_at(*numbers.head_of(point))


def _let_paint(run: tuple) -> None:
    """Leave the processor to the browser for a moment, where something new is to be painted.

    As a rule both are on one machine. On two cores a picture takes twice as long beside the sums that come next.
    """
    if state.get(PAINTED) != run:
        state.put(PAINTED, run)
        time.sleep(PAINTING)


def _asks_for_no_number(record: Record) -> bool:
    """Whether all heads are shown in the order of the model."""
    by, kinds, role = (state.get(setting) for setting in (SORT, KIND, ROLE))
    return by == LAYER and not role and (not kinds or len(kinds) == len({s.kind for s in record.sites}))


def _order(bar: DeltaGenerator, record: Record, known: Numbers):
    """The heads to show, in which order, and what is said of each; None and None for all in the order of the model."""
    with bar:
        label("Order")
        by = state.get(SORT) if state.get(SORT) in known.names else LAYER
        options = {"format_func": _called, "label_visibility": "collapsed", "width": 330}
        st.selectbox("Order", (LAYER, *known.names), **control(SORT, by), **options)
        there = [kind for kind in KINDS if (known.table["kind"] == kind).any()]
        kinds = tuple(kind for kind in there if kind in state.get(KIND)) or tuple(there)
        if len(there) > 1:
            options = {"selection_mode": "multi", "label_visibility": "collapsed"}
            st.pills("Kinds", there, **control(KIND, list(kinds), read=_chosen_kinds(there)), **options)
        names = sorted({name for listed in known.table["role"] for name in listed.split(", ") if name})
        role = state.get(ROLE) if state.get(ROLE) in names else None
        if names:
            label("Looks like")
            options = {"index": None, "placeholder": "any", "label_visibility": "collapsed", "width": 190}
            st.selectbox("Looks like", names, **control(ROLE, role), **options)
    if by == LAYER and not role and len(kinds) == known.table["kind"].nunique():
        return None, None
    found = known.ordered(by, kinds, role)
    captions = tuple("–" if value is None else f"{value:.2f}" for _, value in found) if by != LAYER else None
    return tuple(head for head, _ in found), captions


def _chosen_kinds(there: list[str]) -> Callable[[list[str]], tuple[str, ...]]:
    """What the setting becomes: nothing where all are chosen."""
    return lambda kinds: () if len(kinds) == len(there) else tuple(kinds)


def _called(name: str) -> str:
    return TITLES.get(name, name)


def _of_head(source: Source, known: Numbers, focus: Head) -> None:
    """What the framed head looks like on this text, what is known of it, and its numbers."""
    site, head = focus
    row = known.row(focus)
    large(f"Head {head} · {site}")
    for role in roles(row):
        large(f"On this text it looks like: {role.evidence}.")
    findings.of_head(source, site, head)
    there = [name for name in (*SHOWN, *OFF) if name in known.names and not pd.isna(row[name])]
    cells = "".join(
        f'<tr><td>{TITLES[name]}</td><td class="number">{_number(name, float(row[name]))}</td></tr>' for name in there
    )
    with st.container(width=360):
        st.html(f'<table class="facts"><tbody>{cells}</tbody></table>')
    if st.button("Open this head", key="open head", icon=":material/arrow_forward:"):
        looking.look_at(site, head)
        frame.go_to("heads")


def _number(name: str, value: float) -> str:
    return f"{value:.1%}" if name in ("output", "output_share") else f"{value:.2f}"


def _table(known: Numbers, order: tuple[Head, ...] | None) -> None:
    """Every head with all numbers; choosing a row frames the head, with the arrow keys too."""
    table = known.table
    if order is not None:
        at = {head: place for place, head in enumerate(order)}
        table = table.assign(place=[at.get(head) for head in numbers.heads_of(table)])
        table = table.dropna(subset="place").sort_values("place")
    shown = table[["kind", "layer", "head", "role", *known.names]].reset_index(drop=True)

    def chosen() -> None:
        rows = state.event("table of heads")["selection"]["rows"]
        if rows:
            looking.look_at(*numbers.head_of(shown.iloc[rows[0]].to_dict()))

    named = {"role": st.column_config.TextColumn("looks like", width="medium")}
    named |= {name: st.column_config.NumberColumn(TITLES[name], format="%.3f") for name in known.names}
    choice = {"on_select": chosen, "selection_mode": "single-row", "key": "table of heads"}
    st.dataframe(shown, hide_index=True, height=min(280, 35 * len(shown) + 38), column_config=named, **choice)
    with st.expander("What the numbers mean"):
        st.markdown("\n\n".join([ROWS, *map(_meaning, (one for one in METRICS if one.name in known.names))]))


def _meaning(metric: Metric) -> str:
    """Markdown: its formula, what it says, between which numbers it is, and where it is from."""
    where = f", {metric.where}" if metric.where else ""
    source = metric.source if metric.source.endswith("?") else f"{metric.source}."
    said = f"{metric.means} From {metric.range}. Source: {source}".replace("<", "\\<").replace("[", "\\[")
    return f"**{metric.title}** &ensp; $\\displaystyle {metric.formula}${where}\\\n{said}"


def _against(record: Record, known: Numbers, focus: Head) -> None:
    """Two numbers against each other, and one alone."""
    up = "distance" if known.table["distance"].notna().all() else "output_share"
    drawn = {"titles": TITLES, "dark": looking.is_dark(), "focused": focus, "rev": looking.rev("every")}
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
                x = _number_of(known, "Across", ACROSS, "confidence")
                y = _number_of(known, "Up", UP, up)
            scatter = figures.overview.scatter(record, known.table, x, y, **drawn)
            pictures.picture(scatter, "scatter", select="head", on_select=_select)
            pictures.take_away(scatter, "scatter")
        with st.container(width="content"):
            histogram = figures.overview.scatter(record, known.table, x, None, **drawn)
            pictures.picture(histogram, "histogram", select="head", on_select=_select)
            pictures.take_away(histogram, "histogram")


def _number_of(known: Numbers, said: str, setting: Setting, opening: str) -> str:
    """A column of the table, by its title."""
    opening = opening if opening in known.names else known.names[0]
    chosen = state.get(setting) if state.get(setting) in known.names else opening
    st.selectbox(said, known.names, **control(setting, chosen), format_func=TITLES.__getitem__, width=290)
    return chosen
