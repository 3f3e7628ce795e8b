"""All heads of all layers, as maps or as numbers, in an order, and what is known of the head that is chosen."""

from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import streamlit as st

from attnviz import figures
from attnviz.analysis.heads import MAIN, METRICS, ROWS, head_metrics, seconds, weights_of_all
from attnviz.analysis.roles import THRESHOLDS, roles
from attnviz.core import progress
from attnviz.core.amounts import decimals, percent
from attnviz.core.edits import KINDS, Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.figures import Figure
from attnviz.sources import estimate
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate
from attnviz.studies import ablation
from attnviz.studies.ablation import Sweep
from attnviz.ui import work
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import control, now, put, session
from attnviz.ui.shared import budget, cache, cores
from attnviz.ui.shared.text import large, literal, quiet, table
from attnviz.ui.toolbar import Context

LAYER = "layer"
"""Order of the model itself."""
EFFECTS = {
    "divergence": "Prediction change when off (nats)",
    "output": "Output change when off",
    "turned": "Vector turn when off",
}
"""Effects of a head that is off; the most important first."""
TITLES = EFFECTS | {metric.name: metric.title for metric in METRICS}
MEANINGS = ablation.EFFECTS | {metric.name: metric.means for metric in METRICS}
AT_ONCE = 2**26
"""Weights of all heads that are measured without a button: 8 heads of 2,900 tokens."""
BLOCKS = 134_000_000
"""Bytes that measuring holds at most: blocks of rows, however long the text."""


def open_head(site: Site, head: int) -> None:
    """Open a head on the page Heads."""
    put(layer=site, head=head)
    session().memory["open"] = "Heads"


def place_of(row: dict) -> tuple[Site, int]:
    """The head that a click or a row of a table names."""
    return Site(row["kind"], int(row["layer"])), int(row["head"])


def every_head(context: Context) -> dict[str, Figure]:
    """Maps or numbers of all heads, and beside them the chosen head."""
    form, by, only = _controls(context)
    swept = _sweep(context) if by in EFFECTS else None
    rows = None
    if form == "table" or by != LAYER or only:
        rows = _ordered(_numbers(context, swept), by, only)
    figure = _figure(context, by, rows)
    if form == "table":
        _verdict(swept)
        _table(context, rows)
        _chosen(context, rows, by)
        return {"All heads": figure}
    with st.container(horizontal=True, gap="medium", key="heads-beside"):
        with st.container(width="content", key="every-map"):
            quiet("Each map is one head: rows look, columns are looked at. Click one to open it.")
            picture(figure, "every", select="head", on_click=lambda point: open_head(*place_of(point)))
        with st.container(width="stretch", key="beside"):
            _verdict(swept)
            _chosen(context, rows, by)
    _interactive(context)
    return {"All heads": figure}


def _controls(context: Context) -> tuple[str, str, str | None]:
    """Form, order, and the kind or role that alone is left; None for all heads."""
    forms, orders = ("maps", "table"), (LAYER, *_effects(context.record), *(metric.name for metric in METRICS))
    form, by = now()["form"], now()["sort"]
    kinds = [kind for kind in KINDS if any(site.kind == kind for site in context.source.sites)]
    options = [*(kinds if len(kinds) > 1 else ()), *(rule.name for rule in THRESHOLDS)]
    names = {"encoder": "Encoder heads", "decoder": "Decoder heads", "cross": "Cross-attention heads"}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        value = form if form in forms else forms[0]
        form = control(st.segmented_control, "Shown as", "form", forms, value=value, visible=False, required=True)
        by = control(
            st.selectbox,
            "Order",
            "sort",
            orders,
            value=by if by in orders else LAYER,
            step=lambda choices, name: choices.put(sort=None if name == LAYER else name),
            visible=False,
            format_func=lambda name: f"Order: {TITLES.get(name, 'by layer')}",
            width=290,
        )
        if now()["role"] not in (None, *options):
            put(role=None)
        only = control(
            st.selectbox,
            "Only heads of this role",
            "role",
            options,
            visible=False,
            index=None,
            placeholder="All roles",
            format_func=lambda name: names.get(name, f"Role: {name}"),
            width=230,
        )
    return form, by, only


def _effects(record: Record) -> tuple[str, ...]:
    """Effects of a head that is off which can be measured on a record."""
    predicts = record.prediction is not None or record.labels is not None
    there = {"divergence": predicts, "output": True, "turned": record.vectors is not None}
    return tuple(name for name in EFFECTS if there[name])


def _sweep(context: Context) -> Sweep | None:
    """Effects of each head switched off alone; None below a button with its cost.

    Raises:
        InputError: if nothing can be changed in this model.
    """
    source, lines, edits = run = context.source, context.lines, context.edits
    if why := source.read_only or source.alone:
        raise InputError(f"What a head changes cannot be measured here. {why}")
    heads = sum(step.num_heads for step in context.record.steps)
    cost = budget.of_runs(heads + 1, source, cache.sentences(source, lines), edits)
    if not work.is_requested("switch each off", run, cost, "Switch each head off in turn"):
        return None
    return cache.worked(_swept, *run, heads, cost=cost, unit="heads")


def _swept(source: Source, lines: tuple[str, ...], edits: Edits, count: int) -> Sweep:
    """The sweep without its records, which are large."""
    with progress.counted(count) as report, cores.used_by(source):
        sentences, targets = cache.sentences(source, lines), cache.targets(source, lines)
        sweep = ablation.sweep(source, sentences, edits, report=report, targets=targets)
    return replace(sweep, output=(), divergence=None, before=None)


def metrics(context: Context) -> pd.DataFrame:
    """Every metric of every head on the text; of a long text after a click on a button, else without numbers."""
    record, text = context.record, context.sentence
    weights = weights_of_all(record.steps)
    if weights <= AT_ONCE:
        return cache.head_metrics(record, text).drop(columns="site")
    longest = max(step.shape[2] for step in record.steps)
    cost = Estimate(longest, cache.worked(seconds, record, text, cost=None), BLOCKS, 0)
    key = context.source, context.lines, context.edits, text
    if work.is_requested("measure heads", key, cost, f"Measure all heads ({weights:,} weights)"):
        return cache.worked(_metrics, context.source, record, text, cost=cost, unit="weights").copy()
    places = [(step.site, head) for step in record.steps for head in range(step.num_heads)]
    return pd.DataFrame([{"kind": site.kind, "layer": site.layer, "head": head} for site, head in places])


def _metrics(source: Source, record: Record, sentence: int) -> pd.DataFrame:
    with progress.counted(weights_of_all(record.steps)) as report, cores.used_by(source):
        return head_metrics(record, sentence, report=report).drop(columns="site")


def _numbers(context: Context, swept: Sweep | None) -> pd.DataFrame:
    """A row for each head: its role, the effects of switching it off if they are measured, and its metrics."""
    rows = metrics(context)
    rows.insert(3, "role", [_role(context, row) for row in rows.to_dict("records")])
    if swept is not None:
        there = [name for name in EFFECTS if swept.table[name].notna().any()]
        rows = rows.merge(swept.table[["kind", "layer", "head", *there]], "left", on=["kind", "layer", "head"])
    return rows


def _role(context: Context, row: dict) -> str:
    """Measured role of a head; else its roles by the weights on this text, with question marks."""
    source = context.source
    behavior = source.card.behavior(*place_of(row)) if source.card and source.step is None else None
    return behavior.role if behavior else ", ".join(f"{role.name}?" for role in roles(row))


def _ordered(rows: pd.DataFrame, by: str, only: str | None) -> pd.DataFrame:
    """The rows of a kind or a role, those with the largest number first."""
    if only in KINDS:
        rows = rows[rows["kind"] == only]
    elif only:
        rows = rows[[only in (role.strip("?") for role in listed.split(", ")) for listed in rows["role"]]]
    if by in rows:
        rows = rows.sort_values(by, ascending=False, na_position="last", kind="stable")
    if rows.empty:
        raise InputError(f"No head has the role “{only}” on this text. Choose another role or all.")
    return rows.reset_index(drop=True)


def _figure(context: Context, by: str, rows: pd.DataFrame | None) -> Figure:
    """Maps of the heads in their order, with their numbers."""
    order = captions = None
    if rows is not None and (by in rows or len(rows) < sum(step.num_heads for step in context.record.steps)):
        order = tuple(map(place_of, rows.to_dict("records")))
        values = rows.get(by)
        captions = None if values is None else tuple("–" if pd.isna(v) else number(by, float(v)) for v in values)
    title = TITLES.get(by, "")
    return figures.overview(
        context.record,
        order=order,
        captions=captions,
        by=f"{title[:1].lower()}{title[1:]}" if captions else "",
        sentence=context.sentence,
        dark=context.dark,
        focused=(context.site, context.head),
        cost=estimate.of_all_maps(context.record),
    )


def number(name: str, value: float) -> str:
    """A number of a head as text."""
    return f"{value:.1%}" if name == "output" else decimals(value, 3 if name == "divergence" else 2)


def _verdict(swept: Sweep | None) -> None:
    """The head that matters most, and the way to it."""
    if swept is None:
        return
    matters, weights = swept.sentences()
    large(matters)
    quiet(*filter(None, [weights]))
    if swept.strongest:
        site, head = swept.strongest
        st.button(
            f"Open {site.head(head)}",
            key="open strongest",
            icon=":material/arrow_forward:",
            on_click=open_head,
            args=(site, head),
        )


def _table(context: Context, rows: pd.DataFrame) -> None:
    """A row of numbers for each head; a selected row is the chosen head."""
    names = [name for name in dict.fromkeys((*EFFECTS, *MAIN, *TITLES)) if name in rows and rows[name].notna().any()]
    columns = {name: st.column_config.NumberColumn(TITLES[name], help=_meaning(name), format="%.3f") for name in names}
    columns["name"] = st.column_config.TextColumn("Head (layer.head)", pinned=True)
    columns["role"] = st.column_config.TextColumn("Role", help="Measured before; with ?, by its weights on this text.")
    choose_row(context, rows, ["role", *names], columns, "table of heads")
    quiet("Select a row to choose its head; click the name of a column to sort by it.")
    with st.expander("What the numbers mean"):
        st.markdown("\n\n".join([ROWS, *map(_explained, names)]))


def choose_row(context: Context, rows: pd.DataFrame, names: list[str], columns: dict, key: str) -> None:
    """A table with a row for each head, of which one can be chosen."""
    places = [*map(place_of, rows.to_dict("records"))]
    sites = [(context.site, context.head)]
    chosen = [i for i, place in enumerate(places) if place in sites]
    key = f"{key} {len(rows)} {places[0]}"

    def choose() -> None:
        selected = st.session_state[key]["selection"]["rows"]
        if selected:
            site, head = places[selected[0]]
            put(layer=site, head=head)

    st.dataframe(
        rows.assign(name=[site.brief(head) for site, head in places])[["name", *names]],
        key=key,
        on_select=choose,
        selection_mode="single-row",
        selection_default={"selection": {"rows": chosen, "columns": [], "cells": []}},
        column_config=columns,
        hide_index=True,
        placeholder="–",
        height="content" if len(rows) <= 12 else 433,
    )


def _meaning(name: str) -> str:
    means = MEANINGS[name]
    return f"{means[:1].upper()}{means[1:].rstrip('.')}."


def _explained(name: str) -> str:
    """Markdown of a number: its formula, what it says, its range and its source."""
    metric = next((metric for metric in METRICS if metric.name == name), None)
    if metric is None:
        return f"**{TITLES[name]}**\\\n{_meaning(name)}"
    where = f", {metric.where}" if metric.where else ""
    means = f"{metric.means} From {metric.range}. Source: {metric.source.rstrip('.')}."
    means = means.replace("<", "\\<").replace("[", "\\[")
    return f"**{metric.title}** &ensp; $\\displaystyle {metric.formula}${where}\\\n{means}"


def _chosen(context: Context, rows: pd.DataFrame | None, by: str) -> None:
    """The chosen head: its rank, what it does, its numbers, and how far it looks."""
    site, head, record = context.site, context.head, context.record
    if not isinstance(head, int):
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        large(f"{site.head(head).capitalize()}{_rank(rows, by, (site, head))}")
        st.button(
            "Open on Heads", key="open head", icon=":material/arrow_forward:", on_click=open_head, args=(site, head)
        )
    numbers_of_site = None
    if weights_of_all([record.step(site)]) <= AT_ONCE:
        numbers_of_site = cache.head_metrics(record, context.sentence, site)
    elif rows is not None and MAIN[0] in rows:
        numbers_of_site = rows[(rows["kind"] == site.kind) & (rows["layer"] == site.layer)]
    row = None if numbers_of_site is None else numbers_of_site[numbers_of_site["head"] == head].iloc[0]
    if context.behaviors:
        behavior = context.behaviors[0]
        rate = f" ({percent(behavior.rates[behavior.heads.index(head)])} of cases)" if behavior.rates else ""
        quiet(f"This head {behavior.does.rstrip('. ')}{rate}.")
    elif row is not None and (named := roles(row)):
        quiet(f"By its weights on this text alone: {', '.join(f'{role.name} {role.value:.2f}' for role in named)}.")
    if row is not None:
        there = [name for name in MAIN if not pd.isna(row[name])]
        table([(TITLES[n], number(n, float(row[n])), _meaning(n)) for n in there], numbers=(1,), css="facts meant")
    with st.expander("Attention by distance", on_change="rerun", key="by distance") as fold:
        if fold.open:
            cost = estimate.of_maps(record.step(site))
            figure = figures.distance(record, site, head, sentence=context.sentence, dark=context.dark, cost=cost)
            picture(figure, "distance")
            numbers(figure, "distance")


def _rank(rows: pd.DataFrame | None, by: str, place: tuple[Site, int]) -> str:
    """Rank of a head by the number that orders the heads."""
    if rows is None or by not in rows:
        return ""
    values = dict(zip(map(place_of, rows.to_dict("records")), rows[by], strict=True))
    if place not in values or pd.isna(values[place]):
        return ""
    return f": rank {1 + int((rows[by] > values[place]).sum())} of {int(rows[by].notna().sum())}"


def _interactive(context: Context) -> None:
    """A button that saves every head as one page for any browser."""
    record, before = context.record, context.before
    head = context.head if isinstance(context.head, int) else 0
    st.download_button(
        "Interactive page (HTML)",
        _page_of(record, before, context.sentence, context.site, head),
        f"{literal(context.source.id)}-heads.html",
        "text/html",
        key="save page",
        on_click="ignore",
        icon=":material/download:",
        help="Every head as map, lines and text, in any browser and without a network",
    )


def _page_of(record: Record, before: Record | None, sentence: int, site: Site, head: int) -> Callable[[], bytes]:
    """What makes the page when it is asked for."""

    def contents() -> bytes:
        from attnviz.export.explore import explore

        return explore(record, before=before, sentence=sentence, site=site, head=head).encode()

    return contents
