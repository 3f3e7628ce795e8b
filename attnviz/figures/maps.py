"""Maps whose cells have one of a few states: masks, leak tests, findings of a check, and any table of states."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from attnviz.analysis import sentences, tables, views
from attnviz.analysis.views import SeenMask, View, as_tokens, groups
from attnviz.charts.axes import KEY, QUERY, RowEnd, names_with_predictions, predictions, sides, size_of, size_within
from attnviz.charts.grid import Grid, Number, framed, pooled
from attnviz.charts.marks import Ramp
from attnviz.charts.signs import MAY_ATTEND, CellState, blocked_by
from attnviz.charts.theme import CAUTIONS
from attnviz.check import AXES, ArrayReport, Finding
from attnviz.check.arrays import VERY_NEGATIVE
from attnviz.check.leaks import CLOSED, LEAK, NOT_TESTED, SAW, STATES, UNUSED, LeakTest
from attnviz.core.display import file_stem, in_title
from attnviz.core.masks import Full, Mask
from attnviz.core.record import ALL
from attnviz.core.tokens import Token
from attnviz.figures.base import Figure, FigureFacts, edited, text_array

Tokens = Sequence[Token | str]

MOST_WHOLE = 4096**2
"""Cells of a mask up to which each is exported; larger masks are exported as tiles."""

LONGEST_TITLE = 45
"""Most characters of a title on a screen, where the page lists the rules."""

ALONE, READS = "what each row may look at", "each row: what it may read to predict the next word"
COUNTED = "keys: how many each query has left"
PREDICTS = "predicts"


@dataclass(frozen=True, eq=False)
class MaskGrid(Figure):
    """Map of a mask over tokens: a dot where a query may attend to a key, strokes where a rule blocks it.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Attributes:
        queries: input tokens of the rows.
        keys: input tokens of the columns; None for those of the rows.
        predicted: token that each row predicts, or ""; written at the end of the row.
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
            heading=f"Mask: {'none' if isinstance(self.mask, Full) else self.mask}",
            notes=[self.mask_view.window],
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
        ends = predictions(predicted, self, PREDICTS)
        if counted:
            left = mask_view.left[mask_view.queries.starts].tolist()
            inks = [colors.text if count else colors.warning for count in left]
            ends.insert(0, RowEnd("beside", "keys", [str(count or "none") for count in left], inks))
        size = size_within(mask_view.queries, mask_view.keys, self, ends)
        reasons, blocked = mask_view.blocked(size.tile)
        rules = blocked_by(reasons, self.yours.rules() if self.yours else ())
        return Grid(
            title=textwrap.shorten(self._heading, LONGEST_TITLE, placeholder=" …") if self.on_screen else self._heading,
            lines=[READS if predicted else ALONE, COUNTED if counted else "", mask_view.window, *mask_view.notes],
            **sides(
                mask_view.queries, mask_view.keys, names=names_with_predictions(mask_view.queries, predicted, size.tile)
            ),
            size=size,
            states=blocked,
            kinds=[CellState(MAY_ATTEND, "open", "dot"), *rules],
            style=self.style,
            ends=ends,
            framed=empty,
            notes=[framed("fully masked row", self)] if empty and not counted else [],
            tiles="an open square has an open cell among its",
            brush=self.brush and self.on_screen,
        )


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
        lines, more: lines under the title, and lines only in files.
        file: parts of the file name.
        weights: numbers from 0 to 1, (rows, columns), for cells with a color of the ramp.
        cell_text: function that describes a cell, given row and column, for its tooltip; None for its state.
        own_facts: title, numbers and words; None to derive them from the states.
    """

    titled: str
    states: np.ndarray
    kinds: Sequence[CellState]
    rows: Tokens
    columns: Tokens
    _: KW_ONLY
    titles: tuple[str, str] = (QUERY, KEY)
    lines: tuple[str, ...] = ()
    more: tuple[str, ...] = ()
    file: str = "grid"
    weights: np.ndarray | None = None
    cell_text: Callable[[int, int], str] | None = None
    own_facts: FigureFacts | None = None

    def facts(self) -> FigureFacts:
        name = file_stem(self.file, " ".join(self._labels[1]))
        own = {"name": name, "table": self._table, "words": self._words, "arrays": self._arrays}
        return self.own_facts or FigureFacts(heading=self.titled, **own)

    @property
    def _labels(self) -> list[list[str]]:
        return [[token.text for token in as_tokens(tokens)] for tokens in (self.rows, self.columns)]

    def _words(self) -> str:
        """Describe the map: its title, and the number of cells in each state."""
        counts = zip(np.bincount(self.states.ravel(), minlength=len(self.kinds)).tolist(), self.kinds, strict=True)
        cells = "; ".join(f"{count:,} {kind.text}" for count, kind in counts if count)
        return " ".join(f"{part.rstrip('.')}." for part in (self.titled, *self.lines, f"Cells: {cells}"))

    def _table(self) -> pd.DataFrame:
        """Table with one row per cell: query, query_token, key, key_token, weight (if there are weights), state."""
        (row, column), (rows, columns) = (index.ravel() for index in np.indices(self.states.shape)), self._labels
        queries = {"query": row, "query_token": [rows[i] for i in row]}
        keys = {"key": column, "key_token": [columns[i] for i in column]}
        weights = {} if self.weights is None else {"weight": self.weights.ravel()}
        return pd.DataFrame(queries | keys | weights | {"state": [self.kinds[i].text for i in self.states.ravel()]})

    def _arrays(self) -> dict[str, np.ndarray]:
        names, texts = ("names", "row_tokens", "column_tokens"), ([kind.text for kind in self.kinds], *self._labels)
        return {"states": self.states} | dict(zip(names, map(text_array, texts), strict=True))

    def draw(self) -> Grid:
        rows, columns = (groups(as_tokens(tokens)) for tokens in (self.rows, self.columns))
        size, numbers = size_within(rows, columns, self), {}
        states = pooled(self.states, size.tile)
        if self.weights is not None:
            weights = pooled(self.weights, size.tile)
            ramp = Ramp("weight", 1.0, self.colors.ramp)
            numbers = {"shade": weights, "ramp": ramp, "numbers": [Number("weight", weights, ".3f")]}
        if self.cell_text and size.form == "rectangles":
            numbers["texts"] = [self.cell_text(*place) for place in np.ndindex(states.shape)]
        return Grid(
            title=self.titled,
            lines=self.lines if self.on_screen else (*self.lines, *self.more),
            **sides(rows, columns, self.titles),
            size=size,
            states=states,
            kinds=self.kinds,
            style=self.style,
            signs=[self.kinds[i] for i in reversed(np.unique(states).tolist())],
            tiles="each square shows the first of the legend among its",
            **numbers,
        )


LEAKS = {
    NOT_TESTED: CellState(STATES[NOT_TESTED], "blocked"),
    CLOSED: CellState(STATES[CLOSED], "blocked", "hatch"),
    SAW: CellState(STATES[SAW], "open", "dot"),
    UNUSED: CellState(STATES[UNUSED], "open", "ring"),
    LEAK: CellState(STATES[LEAK], "leak", "cross"),
}
"""States of a cell of a leak test, in rising priority."""

TINY = 1e-6
"""Share below which a percentage has too many zeros to be readable."""


def leaks(test: LeakTest, **style: Any) -> Figure:
    """Map a leak test: which outputs changed when which token was changed; red where the mask forbids it."""
    titled = f"Leak test: {sentences.count_of_leaks(test)} · {test.where} · {in_title(test.source)}"
    promise, caution = f"expected: {test.promise}", CAUTIONS.get(test.provenance, "")
    noise = f"differs by {_share(test.noise)}" if test.noise else "stays the same"
    moved = f"an output has moved if it changes by more than {_share(test.tolerance)} of its length"
    edits = f"changed: {', '.join(test.edits.in_words())}" if test.edits.in_words() else ""
    more = (f"{moved}; with no word changed it {noise}", *test.notes, edits)
    texts = {name: [token.text for token in side] for name, side in (("query", test.queries), ("key", test.keys))}
    arrays = {name: getattr(test, name).numpy() for name in ("moved", "promised", "leaks")}
    facts = FigureFacts(
        heading=titled,
        notes=[promise, more[0], *test.notes, caution, edits],
        name=file_stem(test.source, "leaks", test.where, test.text, end=edited(test.edits)),
        table=partial(tables.leaks_table, test),
        words=partial(sentences.leaks, test),
        arrays=arrays | {f"{name}_tokens": text_array(side) for name, side in texts.items()},
    )
    cell = style.get("selected")  # the selected cell in words, or the first leak
    is_cell = cell and all(0 <= i < n for i, n in zip(cell, test.moved.shape, strict=True))
    cells = [test.in_words(*place) for place in ([cell] if is_cell else test.pairs[:1])]
    return StateMap(
        titled,
        test.states.numpy(),
        [*LEAKS.values()],
        test.queries,
        test.keys,
        titles=("Query (its output)", "Key (is changed)"),
        lines=(promise, caution),
        more=(*more, *cells),
        cell_text=test.in_words,
        own_facts=facts,
        **style,
    )


def _share(share: float) -> str:
    """Format a small share in percent, with one significant digit."""
    if share >= TINY:
        return f"{np.format_float_positional(100 * share, precision=1, fractional=False, trim='-')}%"
    return f"{100 * share:.0e}%"


MOST = 512
"""Most queries and most keys of a checked array that are drawn."""

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
    differs = finding.rule == "deviation"
    title = "Cells that differ" if differs else f"Evidence of {finding.rule.replace('-', ' ')}"
    return _checked_map(array, report, title, part, where, marked, "differs" if differs else "evidence")


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
    mark: str = "evidence",
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
        (*CHECKED[report.kind], CellState(mark, "leak", "cross")),
        *(tuple(map(str, range(count))) for count in values.shape),
        lines=(part,) if part else (),
        file=title.lower(),
        weights=weights,
    )


def _as_array(array: np.ndarray | Tensor) -> np.ndarray:
    return array.float().numpy() if isinstance(array, Tensor) else np.asarray(array)
