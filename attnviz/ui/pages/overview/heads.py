"""All heads of all layers as sorted maps or as a table, and the measured facts about the chosen head."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pandas as pd
import streamlit as st

from attnviz import figures
from attnviz.analysis.heads import MAIN, METRICS, THRESHOLDS, head_metrics, roles, seconds, weights_of_all
from attnviz.core.amounts import decimals
from attnviz.core.edits import KINDS, Site
from attnviz.core.errors import InputError
from attnviz.figures import Figure
from attnviz.sources import estimate
from attnviz.sources.estimate import Estimate
from attnviz.studies import ablation
from attnviz.studies.ablation import Sweep
from attnviz.ui import budget, cache, runs, streamlit_internals
from attnviz.ui.picture import numbers, picture
from attnviz.ui.request import choice, control, now, open_page, put, session, valid_choice
from attnviz.ui.text import large, quiet, table
from attnviz.ui.toolbar import Context

R = TypeVar("R")
ROW = {"horizontal": True, "vertical_alignment": "center", "gap": "small"}
LAYER = "by layer"
"""Option that keeps the order of the model."""
EFFECTS = {
    "divergence": "Prediction change when off (nats)",
    "output": "Output change when off",
    "turned": "Vector turn when off",
}
"""Effects of switching a head off, the most important first."""
TITLES = EFFECTS | {metric.name: metric.title for metric in METRICS}
MEANINGS = ablation.EFFECTS | {metric.name: metric.means for metric in METRICS}
ONLY = {"encoder": "Encoder heads", "decoder": "Decoder heads", "cross": "Cross-attention heads"} | {
    rule.name: f"Role: {rule.name}" for rule in THRESHOLDS
}
"""Filters of heads, by kind of attention or by role."""
MATTERS = "Switch off each head alone, and order them by how much the prediction changes."
AT_ONCE = 2**26
"""Maximum number of weights, over all heads, to measure without a button: 8 heads with 2,900 tokens."""
BLOCKS = 134_000_000
"""Peak memory of measuring in bytes, for a text of any length, as it works in blocks of rows."""


def place_of(row: Mapping[str, Any]) -> tuple[Site, int]:
    """Return the layer and the head that a click or a row of a table names."""
    return Site(row["kind"], int(row["layer"])), int(row["head"])


def opener(site: Site, head: int | str) -> None:
    """Draw a button that opens a head on the page Heads."""
    name = site.head(head) if isinstance(head, int) else f"{site}, {head} of all heads"
    action = {"on_click": open_page, "args": ("Heads",), "kwargs": {"layer": site, "head": head}}
    st.button(f"Open {name}", key=f"open {name}", icon=":material/arrow_forward:", **action)


def choose(point: Mapping[str, Any]) -> None:
    """Choose the head that was clicked."""
    site, head = place_of(point)
    put(layer=site, head=head)


def every_head(context: Context) -> dict[str, Figure]:
    """Draw maps or a table of all heads, and details of the chosen head."""
    form, by, only = _controls(context)
    swept = each_off(context, "sweep", ablation.sweep) if by in EFFECTS else None
    rows = None
    if form == "table" or by != LAYER or only:
        rows = _sort_rows(_numbers(context, swept), by, only)
    figure = _figure(context, by, rows)
    if form == "table":
        _verdict(swept)
        _table(context, rows)
        _head_details(context, swept)
        return {"All heads": figure}
    with st.container(horizontal=True, gap="medium", key="heads-beside"):
        with st.container(width="content", key="every-map"):

            def open_head(point: Mapping[str, Any]) -> None:
                site, head = place_of(point)
                open_page("Heads", layer=site, head=head)

            picture(figure, "every", select="head", on_click=open_head)
            quiet("Each map is one head: rows are queries, columns are keys. Click one to open it on Heads.")
        with st.container(width="stretch", key="beside"):
            _verdict(swept)
            _head_details(context, swept)
    return {"All heads": figure}


def _controls(context: Context) -> tuple[str, str, str | None]:
    """Draw the controls, and return the form, the order, and the filter by kind or role (None for all heads)."""
    record = context.record
    predicts = record.prediction is not None or record.labels is not None
    effects = {"divergence": predicts, "output": True, "turned": record.vectors is not None}
    orders = [LAYER, *(name for name in EFFECTS if effects[name]), *(metric.name for metric in METRICS)]
    kinds = {site.kind for site in context.source.sites}
    options = [name for name in ONLY if name not in KINDS or (name in kinds and len(kinds) > 1)]
    with st.container(**ROW):
        form = choice(st.segmented_control, "Shown as", "form", ("maps", "table"), visible=False, required=True)
        effect = next((name for name in EFFECTS if effects[name]), "")
        if now()["sort"] not in EFFECTS:
            look = {"icon": ":material/power_settings_new:", "type": "tertiary", "help": MATTERS}
            st.button("Which matters most?", key="matters", on_click=put, kwargs={"sort": effect}, **look)
        with st.container(horizontal=True, gap="small", width=540):
            by = choice(
                st.selectbox,
                "Order",
                "sort",
                orders,
                step=lambda choices, name: choices.put(sort=None if name == LAYER else name),
                visible=False,
                format_func=lambda name: f"Order: {TITLES.get(name, name)}",
            )
            picker = {"index": None, "placeholder": "All roles", "format_func": ONLY.get}
            picker["value"] = valid_choice("role", options)
            only = control(st.selectbox, "Only heads of this role", "role", options, visible=False, **picker)
    return form, by, only


def each_off(context: Context, key: str, study: Callable[..., R], **options: Any) -> R | None:
    """Run a study that switches off each head in turn; None until its button, which shows the cost, is clicked.

    Raises:
        InputError: if this model cannot be edited.
    """
    source, request = context.source, context.request
    if why := source.read_only or source.alone:
        raise InputError(f"The effect of a head cannot be measured here. {why}")
    count, sentences = sum(step.num_heads for step in context.record.steps), cache.sentences(source, request)
    cost = budget.of_runs(count + 1, source, sentences, request.edits)
    if not runs.is_requested(key, (source, request, *options.values()), cost, "Switch each head off in turn"):
        return None
    run = {"targets": cache.targets(source, request), "cost": cost, "runs_model": source}
    return cache.result_of(study, source, sentences, request.edits, unit="heads", count=count, **run, **options)


def metrics(context: Context) -> pd.DataFrame:
    """Measure all heads on the text; for a long text the table has no metrics until a button is clicked."""
    record, text = context.record, context.sentence
    weights = weights_of_all(record.steps)
    if weights <= AT_ONCE:
        return cache.head_metrics(record, text).drop(columns="site")
    cost = Estimate(max(step.shape[2] for step in record.steps), _seconds(record, text), BLOCKS, 0)
    key = context.source, context.request, text
    if runs.is_requested("measure heads", key, cost, f"Measure all heads ({weights:,} weights)"):
        counts = {"unit": "weights", "count": weights}
        rows = cache.result_of(head_metrics, record, text, cost=cost, runs_model=context.source, **counts)
        return rows.drop(columns="site")
    places = [(step.site, head) for step in record.steps for head in range(step.num_heads)]
    return pd.DataFrame([{"kind": site.kind, "layer": site.layer, "head": head} for site, head in places])


_seconds = cache.cached(seconds)


def _numbers(context: Context, swept: Sweep | None) -> pd.DataFrame:
    """Make a table with a row per head: its role, its metrics and, if measured, the effects of switching it off."""
    rows, source = metrics(context), context.source
    measured = source.card if source.step is None else None
    names = []
    for row in rows.to_dict("records"):
        behaviors = measured.behaviors_of(*place_of(row)) if measured else ()
        names.append(", ".join([b.role for b in behaviors] or [f"{role.name}?" for role in roles(row)]))
    rows.insert(3, "role", names)
    if swept is not None:
        filled = [name for name in EFFECTS if swept.table[name].notna().any()]
        rows = rows.merge(swept.table[["kind", "layer", "head", *filled]], "left", on=["kind", "layer", "head"])
    return rows


def _sort_rows(rows: pd.DataFrame, by: str, only: str | None) -> pd.DataFrame:
    """Filter the rows by kind or role, and sort them by a column, largest value first.

    Raises:
        InputError: if no head passes the filter.
    """
    if only in KINDS:
        rows = rows[rows["kind"] == only]
    elif only:
        rows = rows[[only in (role.strip("?") for role in names.split(", ")) for names in rows["role"]]]
    if rows.empty:
        raise InputError(f"No head has the role “{only}” on this text. Choose another role, or all.")
    if by in rows:
        rows = rows.sort_values(by, ascending=False, na_position="last", kind="stable")
    return rows.reset_index(drop=True)


def _figure(context: Context, by: str, rows: pd.DataFrame | None) -> Figure:
    """Make the figure with the maps of the heads in the order of the rows, with the metric `by` as captions."""
    order = captions = None
    if rows is not None and (by in rows or len(rows) < sum(step.num_heads for step in context.record.steps)):
        order = tuple(map(place_of, rows.to_dict("records")))
        if by in rows:
            captions = tuple("–" if pd.isna(value) else number(by, float(value)) for value in rows[by])
    return figures.overview(
        context.record,
        order=order,
        captions=captions,
        by=f"{TITLES[by][:1].lower()}{TITLES[by][1:]}" if captions else "",
        sentence=context.sentence,
        dark=context.dark,
        focused=(context.site, context.head),
        cost=estimate.of_all_maps(context.record),
    )


def number(name: str, value: float) -> str:
    """Format the value of a metric or effect as text."""
    return f"{value:.1%}" if name == "output" else decimals(value, 2 + (name == "divergence"))


def _verdict(swept: Sweep | None) -> None:
    """Draw which head has the largest effect, with a button that opens it."""
    if swept is None:
        return
    strongest_effect, about_weights = swept.sentences()
    large(strongest_effect)
    quiet(*filter(None, [about_weights]))
    if swept.strongest:
        opener(*swept.strongest)


def _table(context: Context, rows: pd.DataFrame) -> None:
    """Draw a table with a row of metrics per head; a selected row chooses its head."""
    names = [name for name in dict.fromkeys((*EFFECTS, *MAIN, *TITLES)) if name in rows and rows[name].notna().any()]
    columns = columns_of({name: (TITLES[name], _help_text(name)) for name in names}, "%.3f")
    columns["role"] = st.column_config.TextColumn("Role", help="?: by its weights on this text alone", width="medium")
    choose_row(context, rows, ["role", *names], columns, "heads")
    if any(step.linear for step in context.record.steps) and not context.record.step(context.site).linear:
        quiet(NO_SHARES)  # a chosen head of linear attention says it below
    quiet("Select a row to choose its head; click the name of a column to sort by it, or point at it for its meaning.")


def columns_of(titles: Mapping[str, tuple[str, str]], number_format: str) -> dict[str, Any]:
    """Configure columns of numbers with titles and meanings, after a column with the name of the head."""
    columns = {
        name: st.column_config.NumberColumn(title, help=means, format=number_format)
        for name, (title, means) in titles.items()
    }
    return {"name": st.column_config.TextColumn("Head (layer.head)", pinned=True)} | columns


def choose_row(context: Context, rows: pd.DataFrame, names: list[str], columns: dict[str, Any], key: str) -> None:
    """Draw a table with a row per head; a selected row chooses its head."""
    places = [*map(place_of, rows.to_dict("records"))]
    chosen = [i for i, place in enumerate(places) if place == (context.site, context.head)][:1]
    memory, name = session().memory, f"table {key} {hash(tuple(places))}"
    if memory.setdefault(name, chosen) != chosen:  # the head was chosen elsewhere: a new key selects its row
        memory.update({name: chosen, f"{name} rev": memory.get(f"{name} rev", 0) + 1})
    key = f"{name} {memory.get(f'{name} rev', 0)}"

    def choose_selected() -> None:
        memory[name] = selected = [*streamlit_internals.peek(key)["selection"]["rows"]]
        if selected:
            choose(rows.iloc[selected[0]])

    st.dataframe(
        rows.assign(name=[site.brief(head) for site, head in places])[["name", *names]],
        key=key,
        on_select=choose_selected,
        selection_mode="single-row",
        selection_default={"selection": {"rows": chosen, "columns": [], "cells": []}},
        column_config=columns,
        hide_index=True,
        placeholder="–",
        height="content" if len(rows) <= 12 else 433,
    )


NO_SHARES = (
    "Mixing weights of linear attention may be negative and do not sum to 1: "
    "numbers that need shares of attention do not exist there."
)
"""Reason why most metrics of linear attention are empty."""


def _meaning(name: str) -> str:
    """Return the meaning of a metric or effect as a sentence."""
    means = MEANINGS[name]
    return f"{means[:1].upper()}{means[1:].rstrip('.')}."


def _help_text(name: str) -> str:
    """Markdown help of a metric: its formula, meaning, range and source."""
    metric = next((metric for metric in METRICS if metric.name == name), None)
    if metric is None:
        return _meaning(name)
    where = f", {metric.where}" if metric.where else ""
    means = f"{metric.means} From {metric.range}. Source: {metric.source.rstrip('.')}."
    return f"${metric.formula}${where}\n\n" + means.replace("<", "\\<").replace("[", "\\[")


def _head_details(context: Context, swept: Sweep | None) -> None:
    """Draw the chosen head: its role, its metrics, and its attention by distance."""
    site, head, record = context.site, context.head, context.record
    if not isinstance(head, int):
        return
    with st.container(**ROW):
        large(site.head(head).capitalize())
        if swept is None or swept.strongest != (site, head):
            opener(site, head)
    row = None
    if weights_of_all([record.step(site)]) <= AT_ONCE:
        row = cache.head_metrics(record, context.sentence, site).iloc[head]
    if context.behaviors:
        quiet(context.role)
    elif row is not None and (named := roles(row)):
        quiet(f"By its weights on this text alone: {', '.join(f'{role.name} {role.value:.2f}' for role in named)}.")
    if row is not None:
        filled = [name for name in MAIN if not pd.isna(row[name])]
        table([(TITLES[n], number(n, float(row[n])), _meaning(n)) for n in filled], numbers=(1,))
    if record.step(site).linear:
        quiet(NO_SHARES)
        return
    with st.expander("Attention by distance", on_change="rerun", key="by distance") as fold:
        if fold.open:
            cost = estimate.of_maps(record.step(site))
            figure = figures.distance(record, site, head, sentence=context.sentence, dark=context.dark, cost=cost)
            picture(figure, "distance")
            numbers(figure, "distance")
