"""Which weights are drawn as lines: in which window, from which weight on, of which tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnviz.analysis import EMPTY, Cells, views
from attnviz.analysis.views import AttentionView, Groups
from attnviz.charts.domain import colored

MOST_TOKENS = 64
"""Queries or keys drawn at most; of more, a window."""

MOST_LINES = 400
"""Lines drawn where no minimum weight is asked for."""

MOST_ASKED = 4_000
"""Lines drawn at most, whatever minimum weight is asked for."""

Pin = tuple[str, int]
"""A token that was picked out: "query" or "key", and its position."""


@dataclass(frozen=True, eq=False)
class Strands:
    """The weights that are drawn, the weakest first; arrays are (lines,).

    Attributes:
        view: the window they are of.
        whole: the numbers of queries and keys, also outside of it; of a part of a map, those of the part.
        heads: head of each line, counted in the order in which they were given.
        rows, columns: of `view`.
        weights: above zero.
        cells: of each head.
        pins: the tokens of the window that were picked out: lines end at one of them, if there are any.
        of: how many weights there are, of these tokens.
        least: the weight from which on lines were asked for; None for the strongest.
        of_part: whether all that was seen is a part of the map.
    """

    view: AttentionView
    whole: tuple[int, int]
    heads: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    cells: tuple[Cells, ...]
    pins: frozenset[Pin]
    of: int
    least: float | None
    of_part: bool = False

    @property
    def notes(self) -> list[str]:
        """How many weights are drawn, and of which window."""
        return [*self._window(), self._count()]

    def _count(self) -> str:
        count, ends = len(self.weights), ""
        if self.pins:
            ends = " of the picked tokens" if len(self.pins) > 1 else " of the picked token"
        if not self.of:
            return f"no weight{ends} to draw"
        if count == self.of:
            return f"all {self.of:,} weights{ends} have a line" if count > 1 else f"the one weight{ends} has a line"
        what = f"{count:,} of {self.of:,} weights{ends} have a line"
        if self.least is None or count == MOST_ASKED:
            return f"{what}: the strongest, from {self.weights[0]:.2g} on" if count else what
        return f"{what}: those of at least {self.least:g}"

    def _window(self) -> list[str]:
        parts = (self.view.queries, self.view.keys)
        if tuple(map(len, parts)) == self.whole:
            return []
        of = "" if self.of_part else " of {:,}"
        spans = [
            f"{what} {part.starts[0]} to {part.stops[-1] - 1}{of.format(whole)}" if len(part) < whole else f"all {what}"
            for what, part, whole in zip(("queries", "keys"), parts, self.whole, strict=True)
        ]
        around = "" if self.pins else ", around the strongest weight"
        return [f"too many tokens for lines: {' and '.join(spans)}{around}; the map shows all"]


def strands(
    every: AttentionView,
    heads: Sequence[int | str],
    *,
    selected: tuple[int, int] | None = None,
    pins: frozenset[Pin] = frozenset(),
    least: float | None = None,
) -> Strands:
    """Choose the weights to draw; the arguments are those of `figures.lines`."""
    view = window(every, heads[0], selected, pins)
    picked = {("query", selected[0])} if selected else set()
    pinned = frozenset(pin for pin in pins | picked if _of(view, pin[0]).index_of(pin[1]) is not None)
    head_cells = tuple(view.cells(heads))
    visible = np.stack([colored(cells) & (np.nan_to_num(cells.weights) > 0) for cells in head_cells])
    there = np.stack([(cells.blocked == 0) | (cells.states == EMPTY) for cells in head_cells]) & _ends(view, pinned)
    visible &= there
    place = np.argwhere(visible)
    weights = np.stack([cells.weights for cells in head_cells])[visible].astype(np.float64)
    keep = np.argsort(-weights, kind="stable")[: MOST_LINES if least is None else MOST_ASKED][::-1]
    keep = keep if least is None else keep[weights[keep] >= least]
    head, row, column = place[keep].T
    whole = len(every.queries), len(every.keys)
    lines = head, row, column, weights[keep]
    return Strands(view, whole, *lines, head_cells, pinned, int(there.sum()), least, of_part=bool(every.window))


def window(
    view: AttentionView,
    head: int | str,
    selected: tuple[int, int] | None,
    pins: frozenset[Pin],
    most: int = MOST_TOKENS,
) -> AttentionView:
    """Everything, or of many tokens those around what is selected, of a query alone around its strongest key; where
    nothing is, those around the strongest weight of all that is seen."""
    if max(len(view.queries), len(view.keys)) <= most:
        return view
    query, key = selected or (
        next(iter(sorted(position for side, position in pins if side == what)), None) for what in SIDES
    )
    row, column = (
        None if position is None else part.index_of(position)
        for position, part in ((query, view.queries), (key, view.keys))
    )
    if row is None and column is None:
        query, key = view.strongest_cell(head)
        row, column = view.queries.index_of(query), view.keys.index_of(key)
    if column is None:
        column = view.keys.index_of(view.strongest_cell(head, int(view.queries.starts[row]))[1])
    if row is None:
        row = column if len(view.queries) == len(view.keys) else 0
    places = {"rows": _around(view.queries, row, most), "columns": _around(view.keys, column, most)}
    return views.see(view.record, view.site, sentence=view.sentence, view=view.view, **places)


SIDES = ("query", "key")


def _around(part: Groups, index: int, most: int) -> slice:
    """The positions of at most so many groups around one."""
    begin = max(0, min(index - most // 2, len(part) - most))
    return part[begin : begin + most].stretch


def _of(view: AttentionView, side: str) -> Groups:
    return view.queries if side == "query" else view.keys


def _ends(view: AttentionView, pins: frozenset[Pin]) -> np.ndarray:
    """Which cells lie in the row or the column of a picked token, (rows, columns); all, if none is picked."""
    ends = np.full((len(view.queries), len(view.keys)), not pins)
    for side, position in pins:
        index = _of(view, side).index_of(position)
        ends[(index, slice(None)) if side == "query" else (slice(None), index)] = True
    return ends
