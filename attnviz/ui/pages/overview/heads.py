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
from attnviz.link import Choices
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
ROLES = {"encoder": "Encoder heads", "decoder": "Decoder heads", "cross": "Cross-attention heads"} | {
    rule.name: f"Role: {rule.name}" for rule in THRESHOLDS
}
"""Filters of heads, by kind of attention or by role."""
MOST_ROWS, TABLE_HEIGHT = 12, 433
"""Maximum number of rows that a table shows at once, and the height of a longer table in pixels."""
MATTERS = "Switch off each head alone, and order them by how much the prediction changes."
AT_ONCE = 2**26
"""Maximum number of weights, over all heads, to measure without a button: 8 heads with 2,900 tokens."""
BLOCKS = 134_000_000
"""Peak memory of measuring in bytes, for a text of any length, as it works in blocks of rows."""


def head_of(row: Mapping[str, Any]) -> tuple[Site, int]:
    """Return the site and the head's index of a click or of a table row, which have "kind", "layer" and "head"."""
    return Site(row["kind"], int(row["layer"])), int(row["head"])


def opener(site: Site, head: int | str) -> None:
    """Draw a button that opens a head on the Heads page."""
    name = site.head(head) if isinstance(head, int) else f"{site}, {head} of all heads"
    action = {"on_click": open_page, "args": ("Heads",), "kwargs": {"layer": site, "head": head}}
    st.button(f"Open {name}", key=f"open {name}", icon=":material/arrow_forward:", **action)


def choose(point: Mapping[str, Any]) -> None:
    """Choose the head that was clicked."""
    site, head = head_of(point)
    put(layer=site, head=head)


def _open_head(point: Mapping[str, Any]) -> None:
    """Open the clicked head on the Heads page."""
    site, head = head_of(point)
    open_page("Heads", layer=site, head=head)


def every_head(context: Context) -> dict[str, Figure]:
    """Draw maps or a table of all heads, and details of the chosen head."""
    form, order, role = _controls(context)
    effects = each_off(context, "sweep", ablation.sweep) if order in EFFECTS else None
    rows = None
    if form == "table" or order != LAYER or role:
        rows = _sort_rows(_numbers(context, effects), order, role)
    figure = _figure(context, order, rows)
    if form == "table":
        _verdict(effects)
        _table(context, rows)
        _head_details(context, effects)
        return {"All heads": figure}
    with st.container(horizontal=True, gap="medium", key="heads-beside"):
        with st.container(width="content", key="every-map"):
            picture(figure, "every", select="head", on_click=_open_head)
            quiet("Each map is one head: rows are queries, columns are keys. Click one to open it on Heads.")
        with st.container(width="stretch", key="beside"):
            _verdict(effects)
            _head_details(context, effects)
    return {"All heads": figure}


def _controls(context: Context) -> tuple[str, str, str | None]:
    """Draw the controls, and return the form, the order, and the filter by kind or role (None for all heads)."""
    record = context.record
    predicts = record.prediction is not None or record.labels is not None
    is_measurable = {"divergence": predicts, "output": True, "turned": record.vectors is not None}
    effects = [name for name in EFFECTS if is_measurable[name]]
    orders = [LAYER, *effects, *(metric.name for metric in METRICS)]
    kinds = {site.kind for site in context.source.sites}
    filters = [name for name in ROLES if name not in KINDS]
    if len(kinds) > 1:
        filters = [*(kind for kind in ROLES if kind in kinds), *filters]

    def with_order(choices: Choices, name: str) -> Choices:
        return choices.put(sort=None if name == LAYER else name)

    with st.container(**ROW):
        form = choice(st.segmented_control, "Shown as", "form", ("maps", "table"), visible=False, required=True)
        if now()["sort"] not in EFFECTS:
            options = {"icon": ":material/power_settings_new:", "type": "tertiary", "help": MATTERS}
            st.button("Which matters most?", key="matters", on_click=put, kwargs={"sort": effects[0]}, **options)
        with st.container(horizontal=True, gap="small", width=540):
            options = {"apply": with_order, "format_func": lambda name: f"Order: {TITLES.get(name, name)}"}
            order = choice(st.selectbox, "Order", "sort", orders, visible=False, **options)
            options = {"index": None, "placeholder": "All roles", "format_func": ROLES.get}
            options["value"] = valid_choice("role", filters)
            role = control(st.selectbox, "Only heads of this role", "role", filters, visible=False, **options)
    return form, order, role


def each_off(context: Context, key: str, study: Callable[..., R], **options: Any) -> R | None:
    """Run a study that switches off each head in turn; None before a click on the button that starts the study.

    Raises:
        InputError: if this model cannot be edited.
    """
    source, request = context.source, context.request
    if why := source.read_only or source.alone:
        raise InputError(f"The effect of a head cannot be measured here. {why}")
    count, sentences = sum(step.num_heads for step in context.record.steps), cache.sentences(source, request)
    cost = budget.of_runs(count + 1, source, sentences, request.edits)  # with one run in which no head is off
    if not runs.is_requested(key, (source, request, *options.values()), cost, "Switch each head off in turn"):
        return None
    run = {"targets": cache.targets(source, request), "cost": cost, "runs_model": source}
    return cache.result_of(study, source, sentences, request.edits, unit="heads", count=count, **run, **options)


def metrics(context: Context) -> pd.DataFrame:
    """Measure all heads on the text; for a long text the table has no metrics until a button is clicked."""
    record, text = context.record, context.sentence
    num_weights = weights_of_all(record.steps)
    if num_weights <= AT_ONCE:
        return cache.head_metrics(record, text).drop(columns="site")
    cost = Estimate(max(step.shape[2] for step in record.steps), _seconds(record, text), BLOCKS, 0)
    work = context.source, context.request, text
    if runs.is_requested("measure heads", work, cost, f"Measure all heads ({num_weights:,} weights)"):
        counts = {"unit": "weights", "count": num_weights}
        rows = cache.result_of(head_metrics, record, text, cost=cost, runs_model=context.source, **counts)
        return rows.drop(columns="site")
    heads = [(step.site, head) for step in record.steps for head in range(step.num_heads)]
    return pd.DataFrame([{"kind": site.kind, "layer": site.layer, "head": head} for site, head in heads])


_seconds = cache.cached(seconds)


def _numbers(context: Context, effects: Sweep | None) -> pd.DataFrame:
    """Make a table with a row per head: its roles ("copy?" if only suggested by its weights), metrics and effects."""
    rows, source = metrics(context), context.source
    card = source.card if source.step is None else None
    head_roles = []
    for row in rows.to_dict("records"):
        names = [behavior.role for behavior in card.behaviors_of(*head_of(row))] if card else []
        if not names:
            names = [f"{role.name}?" for role in roles(row)]
        head_roles.append(", ".join(names))
    rows.insert(3, "role", head_roles)
    if effects is not None:
        filled = [name for name in EFFECTS if effects.table[name].notna().any()]
        rows = rows.merge(effects.table[["kind", "layer", "head", *filled]], "left", on=["kind", "layer", "head"])
    return rows


def _sort_rows(rows: pd.DataFrame, order: str, role: str | None) -> pd.DataFrame:
    """Keep the heads of a kind of attention or of a role, and sort them by a column, largest value first.

    Raises:
        InputError: if no head has the role.
    """
    if role in KINDS:
        rows = rows[rows["kind"] == role]
    elif role:
        roles_by_row = rows["role"].str.replace("?", "", regex=False).str.split(", ")
        rows = rows[[role in head_roles for head_roles in roles_by_row]]
    if rows.empty:
        raise InputError(f"No head has the role “{role}” on this text. Choose another role, or all.")
    if order in rows:
        rows = rows.sort_values(order, ascending=False, na_position="last", kind="stable")
    return rows.reset_index(drop=True)


def _figure(context: Context, order: str, rows: pd.DataFrame | None) -> Figure:
    """Make the figure of the maps of all heads or only of those in `rows`, with the metric `order` as captions."""
    options = {"sentence": context.sentence, "dark": context.dark, "focused": (context.site, context.head)}
    num_heads = sum(step.num_heads for step in context.record.steps)
    if rows is not None and (order in rows or len(rows) < num_heads):
        options["order"] = tuple(map(head_of, rows.to_dict("records")))
    if rows is not None and order in rows:
        options["captions"] = tuple("–" if pd.isna(value) else number(order, float(value)) for value in rows[order])
        options["by"] = f"{TITLES[order][:1].lower()}{TITLES[order][1:]}"
    return figures.overview(context.record, cost=estimate.of_all_maps(context.record), **options)


def number(name: str, value: float) -> str:
    """Format the value of a metric or effect as text."""
    if name == "output":
        return f"{value:.1%}"
    return decimals(value, 3 if name == "divergence" else 2)


def _verdict(effects: Sweep | None) -> None:
    """Draw which head has the largest effect, with a button that opens it."""
    if effects is None:
        return
    strongest_effect, about_weights = effects.sentences()
    large(strongest_effect)
    quiet(*filter(None, [about_weights]))
    if effects.strongest:
        opener(*effects.strongest)


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
    """Configure the columns of a table for `st.dataframe`: the head's name, and numbers with (title, meaning)."""
    columns = {
        name: st.column_config.NumberColumn(title, help=means, format=number_format)
        for name, (title, means) in titles.items()
    }
    return {"name": st.column_config.TextColumn("Head (layer.head)", pinned=True)} | columns


def choose_row(context: Context, rows: pd.DataFrame, names: list[str], columns: dict[str, Any], key: str) -> None:
    """Draw the columns `names` of a table with a row per head; a selected row chooses its head."""
    heads = [*map(head_of, rows.to_dict("records"))]
    chosen_rows = [i for i, head in enumerate(heads) if head == (context.site, context.head)][:1]
    memory, name = session().memory, f"table {key} {hash(tuple(heads))}"
    version = f"{name} rev"
    if memory.setdefault(name, chosen_rows) != chosen_rows:  # the head was chosen elsewhere: a new key selects its row
        memory[name] = chosen_rows
        memory[version] = memory.get(version, 0) + 1
    widget_key = f"{name} {memory.get(version, 0)}"

    def choose_selected() -> None:
        selected_rows = [*streamlit_internals.peek(widget_key)["selection"]["rows"]]
        memory[name] = selected_rows
        if selected_rows:
            choose(rows.iloc[selected_rows[0]])

    table = rows.assign(name=[site.brief(head) for site, head in heads])[["name", *names]]
    options = {"on_select": choose_selected, "selection_mode": "single-row", "hide_index": True, "placeholder": "–"}
    options["selection_default"] = {"selection": {"rows": chosen_rows, "columns": [], "cells": []}}
    height = "content" if len(rows) <= MOST_ROWS else TABLE_HEIGHT
    st.dataframe(table, key=widget_key, column_config=columns, height=height, **options)


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
    """Return a column's help in Markdown: a metric's formula, meaning, range and source, or an effect's meaning."""
    metrics_by_name = {metric.name: metric for metric in METRICS}
    if name not in metrics_by_name:
        return _meaning(name)
    metric = metrics_by_name[name]
    symbols = f", {metric.where}" if metric.where else ""
    text = f"{metric.means} From {metric.range}. Source: {metric.source.rstrip('.')}."
    return f"${metric.formula}${symbols}\n\n" + text.replace("<", "\\<").replace("[", "\\[")


def _head_details(context: Context, effects: Sweep | None) -> None:
    """Draw the chosen head: its role, its metrics, and its attention by distance."""
    site, head, record = context.site, context.head, context.record
    if not isinstance(head, int):
        return
    with st.container(**ROW):
        large(site.head(head).capitalize())
        if effects is None or effects.strongest != (site, head):
            opener(site, head)
    row = None
    if weights_of_all([record.step(site)]) <= AT_ONCE:
        row = cache.head_metrics(record, context.sentence, site).iloc[head]
    if context.behaviors:
        quiet(context.role)
    elif row is not None and (suggested := roles(row)):
        listed = ", ".join(f"{role.name} {role.value:.2f}" for role in suggested)
        quiet(f"By its weights on this text alone: {listed}.")
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
