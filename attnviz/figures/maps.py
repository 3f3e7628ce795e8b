"""Maps whose cells have one of a few states: masks, leak tests, findings of a check, and any table of states."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnviz.analysis import sentences, tables, views
from attnviz.analysis.views import SeenMask, View, as_tokens, groups
from attnviz.charts.axes import KEY, QUERY, names
from attnviz.charts.domain import MAY_ATTEND
from attnviz.charts.grid import Grid, RowEnd, framed, pooled, predictions, size_within, with_predictions
from attnviz.charts.legends import Ramp
from attnviz.charts.signs import CellState, blocked_by
from attnviz.charts.size import size_of
from attnviz.charts.theme import CAUTIONS, Style
from attnviz.check import AXES, ArrayReport, Finding
from attnviz.check.arrays import VERY_NEGATIVE
from attnviz.check.leaks import CLOSED, LEAK, NOT_TESTED, SAW, STATES, UNUSED, LeakTest
from attnviz.core.display import file_stem, in_title
from attnviz.core.masks import And, Full, Mask, Or
from attnviz.core.record import ALL
from attnviz.core.tokens import Token
from attnviz.figures.base import Figure, FigureFacts, edited, text_array

Tokens = Sequence[Token | str]

MOST_WHOLE = 4096**2
"""Cells of a mask up to which each is exported; larger masks are exported as tiles."""

LONGEST_TITLE = 45
"""Most characters of a title on a screen; a longer title is replaced by the number of rules."""

ALONE, READS = "what each row may look at", "each row: what it may read to predict the next word"
TARGETS = "each row: what it may read to predict its target"
COUNTED = "keys: how many each query has left"
PREDICTS, TARGET = "predicts", "target"


@dataclass(frozen=True, eq=False)
class MaskGrid(Figure):
    """Map of a mask over tokens: a dot where a query may attend to a key, strokes where a rule blocks it.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Attributes:
        queries: input tokens of the rows.
        keys: input tokens of the columns; None for those of the rows.
        predicted: token that each row predicts, or ""; written at the end of the row.
        targets: whether `predicted` has the right answers instead of the model's predictions.
        rows, columns: queries and keys to show; None for all.
        counted: whether each row has the number of its open keys at its end; never with a view.
        brush: whether a drag over a map of rectangles selects cells, under the name "drag", as intervals
            {"row": [begin, end], "column": [begin, end]}.
        yours: part of the mask that the user added to the built-in mask; None if there is none.
    """

    mask: Mask
    queries: Tokens
    keys: Tokens | None = None
    _: KW_ONLY
    predicted: Tokens | None = None
    targets: bool = False
    sentence: int = 0
    view: View = View()
    rows: slice | None = None
    columns: slice | None = None
    counted: bool = False
    brush: bool = False
    yours: Mask | None = None

    def __post_init__(self):
        self.mask_view  # noqa: B018 (a view that leaves nothing is refused at once)

    @cached_property
    def tokens(self) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        return views.as_tokens(self.queries), views.as_tokens(self.queries if self.keys is None else self.keys)

    @cached_property
    def mask_view(self) -> SeenMask:
        """Mask, seen through the view."""
        window = {"rows": self.rows or ALL, "columns": self.columns or ALL}
        return views.see_mask(self.mask, *self.tokens, sentence=self.sentence, view=self.view, **window)

    def facts(self) -> FigureFacts:
        text = " ".join(token.text for token in self.tokens[0])
        return FigureFacts(
            title=" · ".join(filter(None, [title_of(self.mask), self.mask_view.window])),
            name=file_stem("mask", str(self.mask), text, end=self.view.in_short()),
            table=partial(tables.mask_table, self.mask_view),
            words=partial(sentences.mask, self.mask_view),
            arrays=partial(arrays_of, self.mask_view),
        )

    def draw(self) -> Grid:
        mask_view, colors = self.mask_view, self.colors
        texts = [token.text for token in views.as_tokens(self.predicted or ())]
        predicted = mask_view.queries.last(texts) if any(texts) else ()
        empty = np.flatnonzero(mask_view.queries.every(mask_view.left == 0)).tolist()
        counted = self.counted and self.view == View()
        ends = predictions(predicted, self, TARGET if self.targets else PREDICTS)
        if counted:
            left = mask_view.left[mask_view.queries.starts].tolist()
            inks = [colors.text if count else colors.warning for count in left]
            ends.insert(0, RowEnd("beside", "keys", [str(count or "none") for count in left], inks))
        size = size_within(mask_view.queries, mask_view.keys, self, ends)
        reasons, blocked = mask_view.blocked(size.tile)
        rules = blocked_by(reasons, self.yours.rules() if self.yours else ())
        reading = TARGETS if self.targets else READS
        return Grid(
            title=title_of(self.mask, self),
            lines=[reading if predicted else ALONE, COUNTED if counted else "", mask_view.window, *mask_view.notes],
            rows=mask_view.queries,
            columns=mask_view.keys,
            size=size,
            states=blocked,
            kinds=[CellState(MAY_ATTEND, "open", "dot"), *rules],
            style=self.style,
            called=(with_predictions(mask_view.queries, predicted, size.tile), names(mask_view.keys, size.tile)),
            ends=ends,
            framed=empty,
            notes=[framed("fully masked row", self)] if empty and not counted else [],
            tiles="an open square has an open cell among its",
            brush=self.brush and self.on_screen,
        )


def title_of(mask: Mask, style: Style = Style()) -> str:
    """Build the title: "Mask: none", the rules of the mask, or on a screen the number of rules if they are long."""
    title, rules = f"Mask: {'none' if isinstance(mask, Full) else mask}", _count_rules(mask)
    short = style.on_screen and rules > 1 and len(title) > LONGEST_TITLE
    return f"Mask: {rules} rules" if short else title


def _count_rules(mask: Mask) -> int:
    """Count the rules that a mask combines."""
    return sum(map(_count_rules, mask.masks)) if isinstance(mask, And | Or) else 1


def arrays_of(mask_view: SeenMask) -> dict[str, np.ndarray]:
    """Arrays to export: open cells, or, above `MOST_WHOLE` cells, square tiles that are open if any cell is."""
    queries, keys = len(mask_view.queries), len(mask_view.keys)
    tile = 1 if queries * keys <= MOST_WHOLE else size_of(queries, keys).tile
    arrays = {"may_attend": mask_view.blocked(tile)[1] == 0}
    if tile > 1:
        arrays["cells_per_side_of_tile"] = np.array(tile)
    tokens = mask_view.queries.labels[::tile], mask_view.keys.labels[::tile]
    return arrays | {"query_tokens": text_array(tokens[0]), "key_tokens": text_array(tokens[1])}


@dataclass(frozen=True, eq=False)
class StateMap(Figure):
    """Map of cells in a few states; a click selects "cell" with the fields query, key and rev.

    Attributes:
        titled: title in one line that begins with a constant word.
        states: index into `kinds` for each cell, (rows, columns).
        kinds: states of a cell, in rising priority: a tile of a large map shows the last state among its cells.
        rows, columns: tokens of the rows and of the columns.
        titles: titles of the row axis and of the column axis.
        lines: lines under the title.
        file: parts of the file name.
        weights: numbers from 0 to 1, (rows, columns), for cells with a color of the ramp.
        unit: noun for the cells in the description.
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
        """Describe the map: its title, and the number of cells in each state."""
        counts = zip(np.bincount(self.states.ravel(), minlength=len(self.kinds)).tolist(), self.kinds, strict=True)
        cells = "; ".join(f"{count:,} {kind.text}" for count, kind in counts if count)
        return " ".join(f"{part.rstrip('.')}." for part in (self.titled, *self.lines, f"{self.unit}: {cells}"))

    def _table(self) -> pd.DataFrame:
        """Table with one row per cell: query, query_token, key, key_token, weight (if there are weights), state."""
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
"""Share below which a percentage has too many zeros to be readable."""


@dataclass(frozen=True, eq=False)
class LeakMap(Figure):
    """Map of a leak test: which outputs changed when which token was changed; red where the mask forbids it.

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
        """Draw the test as a grid; tooltips name both tokens, the readout of a large map names the state."""
        test, selected = self.test, self.selected
        rows, columns = groups(test.queries), groups(test.keys)
        size, texts, lines = size_within(rows, columns, self), None, lines_of(test, self)
        states = pooled(test.states.numpy(), size.tile)
        if size.form == "rectangles":
            texts = [test.in_words(*place) for place in np.ndindex(states.shape)]
        count = "" if self.on_screen else f": {sentences.count_of_leaks(test)}"
        if not self.on_screen:  # the selected cell in words, or the first leak
            is_cell = selected and all(0 <= i < n for i, n in zip(selected, test.moved.shape, strict=True))
            lines += [test.in_words(*place) for place in ([selected] if is_cell else test.pairs[:1])]
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
    """Return lines with the claim of the mask and the origin of the weights; in a file also measure and edits."""
    promise, caution = f"expected: {test.promise}", CAUTIONS.get(test.provenance, "")
    if style.on_screen:
        return [promise, caution]
    noise = f"differs by {_share(test.noise)}" if test.noise else "stays the same"
    moved = f"an output has moved if it changes by more than {_share(test.tolerance)} of its length"
    changed = test.edits.in_words()
    edits = f"changed: {', '.join(changed)}" if changed else ""
    return [promise, f"{moved}; with no word changed it {noise}", *test.notes, caution, edits]


def _share(share: float) -> str:
    """Format a small share in percent, with one significant digit."""
    if share >= TINY:
        return f"{np.format_float_positional(100 * share, precision=1, fractional=False, trim='-')}%"
    return f"{100 * share:.0e}%"


MOST = 512
"""Most queries and most keys of a checked array that are drawn."""

MARKED, DIFFERS = CellState("evidence", "leak", "cross"), CellState("differs", "leak", "cross")
"""States of the cells of a finding, and of cells that differ from the rules of a known mask."""

CHECKED = {
    "mask": (CellState("may attend", "open", "dot"), CellState("blocked", "blocked", "hatch")),
    "weights": (CellState("weight", "ramp", legend=""), CellState("weight 0", "blocked", "hatch")),
    "scores": (CellState("score", "open"), CellState("blocked", "blocked", "hatch")),
}
"""States of open and of blocked cells, by the kind of the array."""


def evidence(array: np.ndarray | Tensor, report: ArrayReport, finding: Finding) -> StateMap | None:
    """Map the cells of a finding, in the sentence and head of its first cell; None if there is no cell to show.

    Args:
        array: array that was checked.
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
        return _checked_map(array, report, "Cells that differ", part, where, marked, DIFFERS)
    return _checked_map(array, report, f"Evidence of {finding.rule.replace('-', ' ')}", part, where, marked)


def as_checked(array: np.ndarray | Tensor, report: ArrayReport) -> StateMap:
    """Map a checked array: first sentence and head, at most the first `MOST` queries and keys."""
    parts = [f"{axis} 0 of {size}" for axis, size in zip(AXES[:2], report.shape[:2], strict=True) if size > 1]
    sizes = zip(AXES[2:], report.shape[2:], strict=True)
    parts += [f"the first {MOST} of {size:,}" for _, size in sizes if size > MOST]
    return _checked_map(array, report, "What was checked", ", ".join(parts))


def _checked_map(
    array: np.ndarray | Tensor,
    report: ArrayReport,
    title: str,
    part: str,
    where: tuple[int, int] = (0, 0),
    marked: np.ndarray | None = None,
    mark: CellState = MARKED,
) -> StateMap:
    """Map one sentence and head of an array: `marked` cells, weights in color, blocked cells hatched."""
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
