"""Which weights are drawn as lines: in which window, from which weight on, of which tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnviz.analysis import EMPTY, Cells, views
from attnviz.analysis.views import AttentionView
from attnviz.charts.domain import colored

MOST_TOKENS = 64
"""Queries or keys drawn at most; of more, a window."""
MOST_LINES, MOST_ASKED = 400, 4_000
"""Lines drawn where no minimum weight is asked for, and at most, whatever is asked for."""
SIDES = ("query", "key")

Pin = tuple[str, int]
"""A token that was picked out: one of `SIDES`, and its position."""


@dataclass(frozen=True, eq=False)
class Strands:
    """The weights that are drawn, the weakest first; arrays are (lines,).

    Attributes:
        view: the window they are of.
        heads: head of each line, counted in the order in which they were given.
        rows, columns: places in `view`.
        weights: numbers above zero.
        cells: weights and states of each head.
        pins: the tokens of the window that were picked out: lines end at one of them, if there are any.
        notes: how many weights are drawn, and of which window.
    """

    view: AttentionView
    heads: np.ndarray
    rows: np.ndarray
    columns: np.ndarray
    weights: np.ndarray
    cells: tuple[Cells, ...]
    pins: frozenset[Pin]
    notes: list[str]


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
    parts = dict(zip(SIDES, (view.queries, view.keys), strict=True))
    picked = pins | ({("query", selected[0])} if selected else set())
    pinned = frozenset(pin for pin in picked if parts[pin[0]].index_of(pin[1]) is not None)
    ends = np.full((len(view.queries), len(view.keys)), not pinned)  # cells in the row or column of a picked token
    for side, position in pinned:
        index = parts[side].index_of(position)
        ends[(index, slice(None)) if side == "query" else (slice(None), index)] = True
    head_cells = tuple(view.cells(heads))
    there = np.stack([(cells.blocked == 0) | (cells.states == EMPTY) for cells in head_cells]) & ends
    visible = there & np.stack([colored(cells) & (np.nan_to_num(cells.weights) > 0) for cells in head_cells])
    weights = np.stack([cells.weights for cells in head_cells])[visible].astype(np.float64)
    keep = np.argsort(-weights, kind="stable")[: MOST_LINES if least is None else MOST_ASKED][::-1]
    keep = keep if least is None else keep[weights[keep] >= least]
    lines = (*np.argwhere(visible)[keep].T, weights[keep])
    ends_at = ("", " of the picked token", " of the picked tokens")[min(2, len(pinned))]
    notes = [*_window(view, every, is_pinned=bool(pinned)), _count(weights[keep], int(there.sum()), ends_at, least)]
    return Strands(view, *lines, head_cells, pinned, notes)


def _count(weights: np.ndarray, every: int, ends: str, least: float | None) -> str:
    count = len(weights)
    if not every:
        return f"no weight{ends} to draw"
    if count == every:
        return f"all {every:,} weights{ends} have a line" if count > 1 else f"the one weight{ends} has a line"
    what = f"{count:,} of {every:,} weights{ends} have a line"
    if least is None or count == MOST_ASKED:
        return f"{what}: the strongest, from {weights[0]:.2g} on" if count else what
    return f"{what}: those of at least {least:g}"


def _window(view: AttentionView, every: AttentionView, *, is_pinned: bool) -> list[str]:
    spans = []
    for name, part, whole in (("queries", view.queries, every.queries), ("keys", view.keys, every.keys)):
        of = "" if every.window else f" of {len(whole):,}"
        is_whole = len(part) == len(whole)
        spans.append(f"all {name}" if is_whole else f"{name} {part.starts[0]} to {part.stops[-1] - 1}{of}")
    around = "" if is_pinned else ", around the strongest weight"
    note = f"too many tokens for lines: {' and '.join(spans)}{around}; the map shows all"
    return [] if spans == ["all queries", "all keys"] else [note]


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
    first = dict(sorted(pins, reverse=True))
    query, key = selected or map(first.get, SIDES)
    row = None if query is None else view.queries.index_of(query)
    column = None if key is None else view.keys.index_of(key)
    if row is None and column is None:
        query, key = view.strongest_cell(head)
        row, column = view.queries.index_of(query), view.keys.index_of(key)
    if column is None:
        column = view.keys.index_of(view.strongest_cell(head, int(view.queries.starts[row]))[1])
    if row is None:
        row = column if len(view.queries) == len(view.keys) else 0
    places = {}
    for name, part, index in (("rows", view.queries, row), ("columns", view.keys, column)):
        begin = max(0, min(index - most // 2, len(part) - most))
        places[name] = part[begin : begin + most].stretch
    return views.see(view.record, view.site, sentence=view.sentence, view=view.view, **places)
