"""Metrics of each head of a record: each with its formula, its range, its source and its meaning.

    table = head_metrics(record)            # one row per head
    METRICS                                 # what the columns are

Rows of padding, rows with no key left and rows that are no numbers are left out; where nothing is left to measure a
number is missing (`pandas.NA`), never NaN.
"""

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from attnviz.analysis import batch, measures
from attnviz.analysis.batch import HeadBlock, RowMeasure, Sums
from attnviz.core.edits import KINDS, Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record, Step


@dataclass(frozen=True)
class Metric:
    """A number that says something of a head on a text.

    Attributes:
        name: of the column.
        title: for people.
        formula: of one row i, or of all pairs, in LaTeX; a head has the mean over its rows.
        where: what else its letters mean, and of which rows it is; "" for nothing. LaTeX stands between $.
        range: in words, LaTeX between $; `low` and `high` are its ends, `high` None where it depends on the text or has
            no end.
        source: where it was first used so, or that it is defined here.
        means: what it says, in one sentence.
        kinds: of which sites it can be had.
        needs: "weights", or what a record that is read only has not: "scores" or "values".
        main: whether it is among the few that a page shows first.
        measure: a quotient of two sums in a block, or the mean of a number of its rows.
    """

    name: str
    title: str
    formula: str
    range: str
    low: float
    source: str
    means: str
    measure: Callable[[HeadBlock], Sums | RowMeasure]
    where: str = ""
    high: float | None = None
    kinds: tuple[str, ...] = KINDS
    needs: str = "weights"
    main: bool = False

    def applies(self, record: Record, block: HeadBlock) -> bool:
        """Whether it can be measured there at all: at such a site, and of a model that is not read only."""
        there = block.step.site.kind in self.kinds and (block.one_text or "cross" in self.kinds)
        return there and (self.needs == "weights" or not record.read_only)


Report = Callable[[int, int], None]

PROBED = 32
"""Rows that are measured to know how long all take."""

ROWS = "$w_{ij}$ is the weight of row $i$ on key $j$; a head has the mean over its rows."
"""How the formulas are read."""


def _metric(measure: str, kinds: Sequence[str] = KINDS, **fields: Any) -> Metric:
    return Metric(measure=getattr(measures, measure), kinds=tuple(kinds), **fields)


_FILE = tomllib.loads(Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8"))
METRICS = tuple(_metric(**fields) for fields in _FILE["metric"])
MAIN = tuple(metric.name for metric in METRICS if metric.main)
"""Names of the few that a page shows first."""


def metric(name: str) -> Metric:
    """The metric of that name.

    Raises:
        InputError: names those that there are.
    """
    for metric in METRICS:
        if metric.name == name:
            return metric
    raise InputError(f"There is no metric {name!r}; there are {', '.join(metric.name for metric in METRICS)}.")


def head_metrics(
    record: Record,
    sentence: int = 0,
    site: Site | None = None,
    *,
    names: Sequence[str] | None = None,
    report: Report = lambda done, of: None,
) -> pd.DataFrame:
    """One row per head, of one site if it is given: site, kind, layer, head, each of `METRICS`, rows, left_out.

    `rows` is how many rows of tokens were measured, `left_out` how many had no key left or were no numbers. A number is
    missing where it cannot be measured: at another kind of site, of a model that is read only, on a text without such
    a token, or if others alone are asked for by their `names`. `report` is told how many weights are measured, and of
    how many.
    """
    steps = record.steps if site is None else (record.step(site),)
    every, done = weights_of_all(steps), 0
    parts = []
    for step in steps:
        parts.append(_columns(record, step, sentence, names, lambda of_step, done=done: report(done + of_step, every)))
        done += weights_of_all([step])
    together = {name: [value for part in parts for value in part[name]] for name in parts[0]} if parts else {}
    return pd.DataFrame(together).astype({metric.name: "Float64" for metric in METRICS})


def weights_of_all(steps: Sequence[Step]) -> int:
    """How many weights all heads of some calls have on one text."""
    return sum(step.num_heads * step.shape[2] * step.shape[3] for step in steps)


def sums_of(record: Record, block: HeadBlock, metrics: Sequence[Metric] = METRICS) -> Tensor:
    """Numerators and denominators of metrics in a block, (2, B, H, M), float64; 0 of 0 where one cannot be measured."""
    sums = torch.zeros(2, *block.counted.shape[:2], len(metrics), dtype=torch.float64)
    measured = {index: metric.measure(block) for index, metric in enumerate(metrics) if metric.applies(record, block)}
    means = {index: metric for index, metric in measured.items() if isinstance(metric, RowMeasure)}
    for index in measured.keys() - means.keys():
        sums[..., index] = torch.stack(measured[index])
    if means:
        sums[..., list(means)] = block.means(list(means.values()))
    return sums


def seconds(record: Record, sentence: int = 0) -> float:
    """About how long `head_metrics` takes here: as many times as long as a few rows take."""
    step = max(record.steps, key=lambda step: step.shape[2] * step.shape[3])
    begin, rows = perf_counter(), min(PROBED, step.shape[2])
    block = next(_blocks(record, step, sentence))
    sums_of(record, replace(block, rows=slice(0, rows), position=torch.arange(rows)))
    return (perf_counter() - begin) * weights_of_all(record.steps) / (rows * step.num_heads * step.shape[3])


def _blocks(record: Record, step: Step, sentence: int) -> Iterator[HeadBlock]:
    texts = range(sentence, sentence + 1)
    return batch.blocks(step, batch.sides_of(record, step), texts, dtype=torch.float64)


def _columns(
    record: Record, step: Step, sentence: int, names: Sequence[str] | None, report: Callable[[int], None]
) -> dict[str, list[Any]]:
    """The rows of one site, by the names of the columns."""
    site, heads = step.site, step.num_heads
    metrics = [metric for metric in METRICS if names is None or metric.name in names]
    sums = torch.zeros(2, heads, len(metrics), dtype=torch.float64)
    rows, left_out = torch.zeros(2, heads, dtype=torch.long)
    for block in _blocks(record, step, sentence):
        rows, left_out = rows + block.counted.sum((0, 2)), left_out + block.left_out[0]
        sums += sums_of(record, block, metrics)[:, 0]
        report(block.rows.stop * heads * step.shape[3])
    where = {"site": [str(site)] * heads, "kind": [site.kind] * heads, "layer": [site.layer] * heads}
    columns = {metric.name: [None] * heads for metric in METRICS}
    for metric, of_heads in zip(metrics, sums.permute(2, 1, 0).tolist(), strict=True):
        columns[metric.name] = [a / b if b else None for a, b in of_heads]
    return where | {"head": list(range(heads))} | columns | {"rows": rows.tolist(), "left_out": left_out.tolist()}
