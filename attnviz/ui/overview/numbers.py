"""The numbers of all heads as one table: of the text at hand, with what each head changes when it is off."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from attnviz.analysis.heads import METRICS, head_metrics, roles, seconds, weights_of_all
from attnviz.core import progress
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate, in_time
from attnviz.studies import ablation
from attnviz.ui import budget, cache, cores, runs
from attnviz.ui.budget import OverBudget
from attnviz.ui.overview import words
from attnviz.ui.shared import findings, pictures, state
from attnviz.ui.shared.look import Place, ViewContext
from attnviz.ui.shared.setting import Setting, choice, session_setting
from attnviz.ui.text import note, quiet

LAYER = words.BY_LAYER
"""The order of the model itself."""

OFF = words.OFF
"""Titles of the effects of a head that is off, by which heads can be sorted."""

MEANINGS = ablation.EFFECTS | {metric.name: metric.means for metric in METRICS}

TITLES = {metric.name: metric.title for metric in METRICS} | OFF

NAMES = TITLES | words.OFF_IN_LINKS
"""The numbers as links call them."""

SORT = choice("sort", {LAYER: LAYER} | NAMES)
AT_ONCE = 2**26
"""Weights of all heads that are measured unasked: 8 heads of 2,900 tokens."""

BYTES = 134_000_000
"""Most bytes that measuring holds: blocks of rows, whatever the text."""

MEASURED: Setting[tuple | None] = session_setting("numbers of all heads", None)
"""Run and sentence whose numbers of many weights were requested."""

TESTED: Setting[tuple | None] = session_setting("switch-off test", None)
"""Run whose switch-off test was requested."""

SWEEP: Setting[tuple] = session_setting("sweep", (None, None))
"""Run in which each head was switched off, and the effects: an `ablation.Sweep` without its record."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """A row per head.

    Attributes:
        table: kind, layer, head, role, a column for each metric and, after a sweep, for each of `OFF`.
        names: the columns that hold a number of some head.
    """

    table: pd.DataFrame
    names: tuple[str, ...]

    def row(self, head: Place) -> pd.Series:
        return self.table.iloc[heads_of(self.table).index(head)]

    def ordered(self, by: str, kinds: tuple[str, ...], role: str | None) -> list[tuple[Place, float | None]]:
        """The heads of some kinds and of one role, those with the largest number first; without a number last."""
        table = self.table[self.table["kind"].isin(kinds)]
        if role:
            table = table[table["role"].str.split(", ").apply(lambda names: role in names)]
        if by in self.names:
            table = table.sort_values(by, ascending=False, na_position="last", kind="stable")
        values = table[by] if by in self.names else [None] * len(table)
        cells = [None if value is None or pd.isna(value) else float(value) for value in values]
        return list(zip(heads_of(table), cells, strict=True))


def numbers(context: ViewContext) -> Numbers:
    """Every metric of every head, its role, and what was measured with it off.

    Of many weights none before somebody asked for them: then a button stands here, and says how long they take.
    """
    table = _measured(context)
    table.insert(3, "role", [_role(context.source, row) for _, row in table.iterrows()])
    run, swept = state.get(SWEEP)
    if run == context.run and is_by_test():
        off = swept.table
        there = [name for name in OFF if off[name].notna().any()]
        table = table.merge(off[["kind", "layer", "head", *there]], how="left", on=["kind", "layer", "head"])
    names = tuple(name for name in TITLES if name in table and table[name].notna().any())
    return Numbers(table, names)


def _role(source: Source, row: pd.Series) -> str:
    """Measured role of a head; where there is none, its roles on this text."""
    behavior = findings.measured(source, *head_of(row))
    return behavior.role if behavior else ", ".join(role.name for role in roles(row))


def _measured(context: ViewContext) -> pd.DataFrame:
    """A row for each head, with its metrics if they are measured at once or were asked for."""
    weights = weights_of_all(context.record.steps)
    if weights <= AT_ONCE:
        return cache.head_metrics(context.record, context.sentence).drop(columns="site")
    key, cost = (*context.run, context.sentence), _cost(context.record, context.sentence)
    if state.get(MEASURED) != key:
        quiet(words.MANY_WEIGHTS.format(weights=weights, seconds=in_time(cost.seconds)))
        if st.button(words.MEASURE, key="measure heads", icon=":material/functions:"):
            state.put(MEASURED, key)
    if state.get(MEASURED) == key:
        with runs.beside():
            return cache.worked(
                _metrics, context.source, context.record, context.sentence, cost=cost, unit=words.WEIGHTS
            ).copy()
    places = [(step.site, head) for step in context.record.steps for head in range(step.num_heads)]
    return pd.DataFrame([{"kind": site.kind, "layer": site.layer, "head": head} for site, head in places])


@cache.cached
def _cost(record: Record, sentence: int) -> Estimate:
    """Cost of measuring every head."""
    return Estimate(max(step.shape[2] for step in record.steps), seconds(record, sentence), BYTES, 0)


def _metrics(source: Source, record: Record, sentence: int) -> pd.DataFrame:
    with progress.counted(weights_of_all(record.steps)) as report, cores.used_by(source):
        return head_metrics(record, sentence, report=report).drop(columns="site")


def effects_of(record: Record) -> tuple[str, ...]:
    """The effects of `OFF` that can be measured on a record; the one that says what matters first."""
    predicts = record.prediction is not None or record.labels is not None
    there = {"divergence": predicts, "output": True, "turned": record.vectors is not None}
    return tuple(name for name in OFF if there[name])


def is_by_test() -> bool:
    """Whether the chosen order asks for the switch-off test."""
    return state.get(SORT) in OFF


def switched_off(context: ViewContext) -> ablation.Sweep | None:
    """The effects of each head switched off alone, if the order asks for them: measured, or a button and its cost."""
    if not is_by_test():
        return None
    if why := context.source.read_only or context.source.alone:
        quiet(words.NOT_MEASURED.format(why=why))
        return None
    if state.get(SWEEP)[0] != context.run:
        _measure(context)
    run, swept = state.get(SWEEP)
    return swept if run == context.run else None


def _measure(context: ViewContext) -> None:
    heads, sentences = (
        sum(step.num_heads for step in context.record.steps),
        context.record.sentences,
    )
    cost = budget.of_runs(heads + 1, context.source, sentences, context.edits)
    button = {"key": "switch each off", "icon": ":material/power_settings_new:"}
    if not is_requested(TESTED, context.run, cost, words.SWITCH_EACH_OFF, **button):
        return
    with runs.beside():
        try:
            swept = cache.worked(_swept, *context.run, heads, cost=cost, unit=words.HEADS)
        except AttnvizError as error:
            note(str(error))
        else:
            state.put(SWEEP, (context.run, swept))


def _swept(source: Source, request: Request, count: int) -> ablation.Sweep:
    """Effects of each head, without the record, which is large."""
    with progress.counted(count) as report, cores.used_by(source):
        sentences, targets = cache.sentences(source, request), cache.targets(source, request)
        sweep = ablation.sweep(source, sentences, request.edits, report=report, targets=targets)
    return replace(sweep, output=(), divergence=None, before=None)


def is_requested(setting: Setting, what: object, cost: Estimate, title: str, **button: str) -> bool:
    """Whether to measure: unasked where nobody waits for it, else once a button beside its cost was pressed.

    Args:
        setting: holds what was asked for.
    """
    if cost.seconds <= budget.SILENT or state.get(setting) == what:
        return True
    try:
        budget.check_work(cost)
    except OverBudget as error:
        note(str(error), "notice")
        return False
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.button(title, type="primary", on_click=state.put, args=(setting, what), **button)
        quiet(words.TIME.format(seconds=in_time(cost.seconds)))
    return False


def all_numbers(table: pd.DataFrame, name: str) -> None:
    """A button that saves all that is known of every head."""
    options = {"key": "save all numbers", "help": words.ALL_NUMBERS_MEAN}
    pictures.save(words.ALL_NUMBERS, partial(_csv, table), f"{name}-numbers.csv", "text/csv", **options)


def _csv(table: pd.DataFrame) -> bytes:
    from attnviz.export import csv

    return csv(table)


def head_of(point: Mapping[str, Any]) -> Place:
    """The head that a row or a click names."""
    return Site(point["kind"], int(point["layer"])), int(point["head"])


def heads_of(table: pd.DataFrame) -> list[Place]:
    return [head_of(row) for row in table[["kind", "layer", "head"]].to_dict("records")]
