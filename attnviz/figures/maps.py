"""Maps whose cells are in one of a few states: evidence of a finding, leak tests, any table of states."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnviz.analysis import sentences, tables
from attnviz.analysis.views import as_tokens, groups
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.grid import Grid, pooled, size_within
from attnviz.charts.legends import Ramp
from attnviz.charts.signs import CellState
from attnviz.charts.theme import CAUTIONS, Style
from attnviz.check import AXES, ArrayReport, Finding
from attnviz.check.arrays import VERY_NEGATIVE
from attnviz.core.display import file_stem, in_title
from attnviz.core.leaks import CLOSED, LEAK, NOT_TESTED, SAW, STATES, UNUSED, LeakTest
from attnviz.core.tokens import Token
from attnviz.figures.base import Figure, FigureFacts, edited, text_array

Tokens = Sequence[Token | str]


@dataclass(frozen=True, eq=False)
class StateMap(Figure):
    """Cells in a few states; a click selects one under the name "cell" with the fields query, key and rev.

    Attributes:
        titled: one line that begins with a constant word.
        states: (rows, columns), which of `kinds` each cell is.
        kinds: what a cell can be. Of a map too large for single cells a square shows the last one among its cells.
        rows, columns: the tokens.
        titles: of the row axis and of the column axis.
        lines: what stands under the title.
        file: what a file is called after.
        weights: numbers from 0 to 1, (rows, columns), of the cells whose ground is the ramp.
        unit: what the cells are, in words.
    """

    titled: str
    states: np.ndarray
    kinds: Sequence[CellState]
    rows: Tokens
    columns: Tokens
    _: KW_ONLY
    titles: tuple[str, str] = (QUERY, KEY)
    lines: tuple[str, ...] = ()
    file: str = "grid"
    weights: np.ndarray | None = None
    unit: str = "Cells"

    def facts(self) -> FigureFacts:
        name = file_stem(self.file, " ".join(self._labels[1]))
        return FigureFacts(title=self.titled, name=name, table=self._table, words=self._words, arrays=self._arrays)

    @property
    def _labels(self) -> list[list[str]]:
        return [[token.text for token in as_tokens(tokens)] for tokens in (self.rows, self.columns)]

    def _words(self) -> str:
        """The title, and how many cells are in which state."""
        counts = zip(np.bincount(self.states.ravel(), minlength=len(self.kinds)).tolist(), self.kinds, strict=True)
        cells = "; ".join(f"{count:,} {kind.text}" for count, kind in counts if count)
        return " ".join(f"{part.rstrip('.')}." for part in (self.titled, *self.lines, f"{self.unit}: {cells}"))

    def _table(self) -> pd.DataFrame:
        """One row per cell: query, query_token, key, key_token, weight if there are any, state."""
        (row, column), (rows, columns) = (index.ravel() for index in np.indices(self.states.shape)), self._labels
        queries = {"query": row, "query_token": [rows[i] for i in row]}
        keys = {"key": column, "key_token": [columns[i] for i in column]}
        weights = {} if self.weights is None else {"weight": self.weights.ravel()}
        return pd.DataFrame(queries | keys | weights | {"state": [self.kinds[i].text for i in self.states.ravel()]})

    def _arrays(self) -> dict[str, np.ndarray]:
        texts = zip(
            ("names", "row_tokens", "column_tokens"), ([k.text for k in self.kinds], *self._labels), strict=True
        )
        return {"states": self.states} | {name: text_array(part) for name, part in texts}

    def draw(self) -> Grid:
        rows, columns = (groups(as_tokens(tokens)) for tokens in (self.rows, self.columns))
        size, numbers = size_within(rows, columns, self), {}
        if self.weights is not None:
            weights = pooled(self.weights, size.tile)
            ramp = Ramp("weight", 1.0, self.colors.ramp)
            numbers = {"shade": weights, "ramp": ramp, "numbers": {"weight": (weights, ".3f")}}
        return Grid(
            title=self.titled,
            lines=self.lines,
            rows=rows,
            columns=columns,
            size=size,
            states=pooled(self.states, size.tile),
            kinds=self.kinds,
            style=self.style,
            titles=self.titles,
            tiles="each square shows the last of the legend among its",
            **numbers,
        )


LEAKS = {
    LEAK: CellState(STATES[LEAK], "leak", "cross"),
    SAW: CellState(STATES[SAW], "open", "dot"),
    UNUSED: CellState(STATES[UNUSED], "open", "ring"),
    CLOSED: CellState(STATES[CLOSED], "blocked", "hatch"),
    NOT_TESTED: CellState(STATES[NOT_TESTED], "blocked"),
}
"""States of a cell of a leak test, in the order of the legend."""

TINY = 1e-6
"""A share below which percents have too many zeros to be read."""


@dataclass(frozen=True, eq=False)
class LeakMap(Figure):
    """A leak test: whose output moved when which token was changed, red where the mask forbids that.

    A click selects a cell under the name "cell" with the fields query, key and rev.
    """

    test: LeakTest

    def facts(self) -> FigureFacts:
        test = self.test
        heading = f"Leak test: {sentences.count_of_leaks(test)} · {test.where} · {in_title(test.source)}"
        return FigureFacts(
            title=" · ".join(filter(None, (heading, *lines_of(test)))),
            name=file_stem(test.source, "leaks", test.where, test.text, end=edited(test.edits)),
            table=partial(tables.leaks_table, test),
            words=partial(sentences.leaks, test),
            arrays=self._arrays,
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        numbers = {name: getattr(self.test, name).numpy() for name in ("moved", "promised", "leaks")}
        sides = zip(("query_tokens", "key_tokens"), (self.test.queries, self.test.keys), strict=True)
        return numbers | {name: text_array([token.text for token in side]) for name, side in sides}

    def draw(self) -> Grid:
        """The test as a grid; where cells have tooltips, each says who saw whom, else what state it is in."""
        test, selected = self.test, self.selected
        rows, columns = groups(test.queries), groups(test.keys)
        size, texts, lines = size_within(rows, columns, self), None, lines_of(test, self)
        states = pooled(test.states.numpy(), size.tile)
        if size.form == "rectangles":
            texts = [sentences.leak(test, *place) for place in np.ndindex(states.shape)]
        count = "" if self.on_screen else f": {sentences.count_of_leaks(test)}"
        if not self.on_screen:  # the selected cell in words, or the first leak
            is_cell = selected and all(0 <= i < n for i, n in zip(selected, test.moved.shape, strict=True))
            lines += [sentences.leak(test, *place) for place in ([selected] if is_cell else test.pairs[:1])]
        return Grid(
            title=f"Leak test{count} · {test.where} · {in_title(test.source)}",
            lines=lines,
            rows=rows,
            columns=columns,
            size=size,
            states=np.argsort([*LEAKS])[states],
            kinds=[*LEAKS.values()],
            style=self.style,
            titles=("Query (its output)", "Key (is changed)"),
            cell_texts=texts,
            tiles="each square shows a leak if there is one among its",
        )


def lines_of(test: LeakTest, style: Style = Style()) -> list[str]:
    """Promise of the mask and origin of the weights; in a file also the measure and the edits."""
    promise, caution = f"expected: {test.promise}", CAUTIONS.get(test.provenance, "")
    if style.on_screen:
        return [promise, caution]
    noise = f"differs by {_share(test.noise)}" if test.noise else "stays the same"
    moved = f"an output has moved if it changes by more than {_share(test.tolerance)} of its length"
    changed = test.edits.in_words()
    edits = f"changed: {', '.join(changed)}" if changed else ""
    return [promise, f"{moved}; with no word changed it {noise}", *test.notes, caution, edits]


def _share(share: float) -> str:
    """A small share in percent, with one digit that counts."""
    if share >= TINY:
        return f"{np.format_float_positional(100 * share, precision=1, fractional=False, trim='-')}%"
    return f"{100 * share:.0e}%"


MOST = 512
"""Queries and keys drawn at most."""

MARKED, DIFFERS = CellState("evidence", "leak", "cross"), CellState("differs", "leak", "cross")
"""The cells of a finding; those that differ from the rules of a known mask."""

CHECKED = {
    "mask": (CellState("may attend", "open", "dot"), CellState("blocked", "blocked", "hatch")),
    "weights": (CellState("weight", "ramp", legend=""), CellState("weight 0", "blocked", "hatch")),
    "scores": (CellState("score", "open"), CellState("blocked", "blocked", "hatch")),
}
"""States of cells that are open, and of cells that are not, by the kind of the array."""


def evidence(array: np.ndarray | Tensor, report: ArrayReport, finding: Finding) -> StateMap | None:
    """Cells of a finding, in the sentence and the head of its first cell. None if it names no cells.

    Args:
        array: as it was checked.
    """
    if not finding.cells or len(array.shape) < 2:
        return None
    if _as_array(array).size != np.prod(report.shape) or max(report.shape[2:]) > MOST:
        return None
    cells = [dict(zip(finding.axes, cell, strict=True)) for cell in finding.cells]
    where = tuple(cells[0].get(axis, 0) for axis in AXES[:2])
    marked = np.zeros(report.shape[2:], bool)
    for cell in cells:
        if all(cell.get(axis, index) == index for axis, index in zip(AXES[:2], where, strict=True)):
            marked[cell.get("query", slice(None)), cell.get("key", slice(None))] = True
    sizes = zip(AXES[:2], report.shape, strict=False)
    part = ", ".join(f"{axis} {cells[0][axis]}" for axis, size in sizes if axis in cells[0] and size > 1)
    if finding.rule == "deviation":
        return _checked(array, report, "Cells that differ", part, where, marked, DIFFERS)
    return _checked(array, report, f"Evidence of {finding.rule.replace('-', ' ')}", part, where, marked)


def as_checked(array: np.ndarray | Tensor, report: ArrayReport) -> StateMap:
    """Array that was checked, of the first sentence and head: at most the first `MOST` queries and keys."""
    parts = [f"{axis} 0 of {size}" for axis, size in zip(AXES[:2], report.shape[:2], strict=True) if size > 1]
    sizes = zip(AXES[2:], report.shape[2:], strict=True)
    parts += [f"the first {MOST} of {size:,}" for _, size in sizes if size > MOST]
    return _checked(array, report, "What was checked", ", ".join(parts))


def _checked(
    array: np.ndarray | Tensor,
    report: ArrayReport,
    title: str,
    part: str,
    where: tuple[int, int] = (0, 0),
    marked: np.ndarray | None = None,
    mark: CellState = MARKED,
) -> StateMap:
    """One sentence and head of an array with the cells that are marked; weights in their colors, blocked is hatched."""
    values = _as_array(array).reshape(report.shape)[where][:MOST, :MOST]
    if report.kind == "scores":
        blocked = values <= VERY_NEGATIVE
    elif report.convention == "additive":
        blocked = ~(values >= 0)
    else:
        blocked = values != 0 if report.convention == "true-is-masked" else values == 0
    states = np.where(blocked, 1, 0)
    if marked is not None:
        states[marked[:MOST, :MOST]] = 2
    weights = np.nan_to_num(values.astype(float), posinf=0.0).clip(0, 1) if report.kind == "weights" else None
    return StateMap(
        title,
        states,
        (*CHECKED[report.kind], mark),
        *(tuple(map(str, range(count))) for count in values.shape),
        lines=(part,) if part else (),
        file=title.lower(),
        weights=weights,
    )


def _as_array(array: np.ndarray | Tensor) -> np.ndarray:
    return array.float().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)
