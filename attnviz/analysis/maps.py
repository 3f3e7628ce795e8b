"""Attention maps of one head, several heads or all heads combined: cells of a window, or maxima by tile and row.

Weights are computed block by block from the log-sum-exp stored in the step, without blocks closed by the mask; memory
grows with the number of tokens, not with its square.

    r c   rows and columns of tiles      R C   queries and keys of one tile in a block
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from attnviz.analysis.blocks import (
    Block,
    blocks,
    empty_queries,
    has_own_masks,
    openings,
    reasons_of,
    weights_of,
    window_ranges,
)
from attnviz.check.arrays import VERY_NEGATIVE, to_may_attend
from attnviz.core.attention import LONG
from attnviz.core.masks import Mask
from attnviz.core.record import ALL, Step

TILES = 512
"""Largest number of tiles on the longer side of a map, by default."""

MOST_BYTES = 200_000_000
"""Maximum size in bytes of the cached tiles of a step; thumbnails use them again after each zoom."""

PIECE = 64
"""Keys per piece of a row in the search for its maximum: the slow argmax runs only on the piece with the maximum."""

_pooled: WeakKeyDictionary[Step, dict[tuple, "Pooled"]] = WeakKeyDictionary()
_strongest: WeakKeyDictionary[Step, dict[tuple, tuple[np.ndarray, np.ndarray]]] = WeakKeyDictionary()
"""Caches for long texts: pooled maps by heads, sentence and tile; maxima of rows by head and sentence."""


@dataclass(frozen=True, eq=False)
class Pooled:
    """A window of a map, pooled in tiles of `tile` x `tile` cells; arrays are (r, c).

    For several heads, `largest` is (H, r, c), and so is `open` if their masks differ.

    Attributes:
        queries, keys: first position of each row and column of tiles.
        tile: cells per side; the last tiles may have fewer.
        largest: largest weight of a tile, in linear attention the weight farthest from 0; or NaN.
        at_query, at_key: position of the largest weight; None for several heads.
        sums: sum of the weights, float64; None for several heads.
        sizes: number of cells in a tile.
        open: number of open cells; all other cells have weight 0.
    """

    queries: np.ndarray
    keys: np.ndarray
    tile: int
    largest: np.ndarray
    at_query: np.ndarray | None
    at_key: np.ndarray | None
    sums: np.ndarray | None
    sizes: np.ndarray
    open: np.ndarray

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return sum(part.nbytes for part in vars(self).values() if isinstance(part, np.ndarray))


def pooled(
    step: Step,
    heads: int | str | Sequence[int],
    tile: int | None = None,
    *,
    sentence: int = 0,
    rows: slice = ALL,
    columns: slice = ALL,
) -> Pooled:
    """Pool a window of one head, of all heads combined, or of several heads at once; cached for long texts.

    Blocks that the mask closes take no time, and memory grows with the number of tiles only. For several heads only the
    largest weights are pooled, with one exp per tile instead of one per cell.

    Args:
        heads: a head, a name of `AGGREGATIONS`, or several heads.
        tile: cells per side; None for the smallest tile that gives at most `TILES` tiles on a side.
    """
    queries, keys = window_ranges(step, rows, columns)
    tile = tile or max(1, -(-max(len(queries), len(keys)) // TILES))
    several = isinstance(heads, Sequence) and not isinstance(heads, str)
    name = tuple(heads) if several else heads, sentence, tile
    is_long = _is_whole(step, queries, keys) and len(keys) > LONG
    cached = _pooled.setdefault(step, {})
    if is_long and (result := cached.get(name)) is not None:
        return result
    is_signed = step.mixing == "linear"
    settings = {"heads": len(heads) if several else 0, "own_masks": has_own_masks(step), "is_signed": is_signed}
    tiles = _Tiles(queries, keys, tile, _dtype(step), **settings)
    by_row = None
    if is_long and not several:  # for `strongest`, next
        by_row = _Rows(len(queries), len(keys), _dtype(step), is_signed=is_signed)
    for block in blocks(step, heads, queries, keys, tile, sentence=sentence):
        tiles.add(block)
        if by_row is not None:
            by_row.add(block)
    result = tiles.pooled()
    if by_row is not None:
        _strongest.setdefault(step, {})[heads, sentence] = by_row.most.numpy(), by_row.columns.numpy()
    if is_long:
        while cached and result.nbytes + sum(item.nbytes for item in [*cached.values()]) > MOST_BYTES:
            cached.pop(next(iter(cached)), None)
        cached[name] = result
    return result


def pooled_mask(
    mask: Mask, lengths: tuple[int, int], tile: int, *, sentence: int = 0, rows: slice = ALL, columns: slice = ALL
) -> Pooled:
    """Count the open cells in each tile of a mask with `lengths` queries and keys; weights of the result are 0."""
    queries, keys = (range(*part.indices(n)) for part, n in zip((rows, columns), lengths, strict=True))
    tiles = _Tiles(queries, keys, tile, torch.float32)
    for block in openings(mask, lengths, queries, keys, tile, sentence=sentence):
        tiles.add(block)
    return tiles.pooled()


def farthest(largest: Tensor, smallest: Tensor) -> Tensor:
    """Pick of two numbers, the first at least as large as the second, the number farther from 0."""
    return smallest.where(-smallest > largest, largest)


class _Tiles:
    """Accumulator of the largest weight, sum and open cells of each tile; for several heads, without the sum.

    With `is_signed`, the weight farthest from 0 counts as the largest.
    """

    def __init__(
        self,
        queries: range,
        keys: range,
        tile: int,
        dtype: torch.dtype,
        *,
        heads: int = 0,
        own_masks: bool = False,
        is_signed: bool = False,
    ):
        self.places, self.tile, self.several, self.is_signed = (queries, keys), tile, heads > 0, is_signed
        shape = len(queries[::tile]), len(keys[::tile])
        self.largest = torch.zeros((heads, *shape) if heads else shape, dtype=dtype)
        self.open = torch.zeros((heads, *shape) if heads and own_masks else shape, dtype=torch.int64)
        self.sums = torch.zeros(shape, dtype=torch.float64)
        starts = torch.arange(shape[0])[:, None] * tile, torch.arange(shape[1]) * tile
        self.argmax = [start.expand(shape).clone() for start in starts]  # query and key of the largest weights

    def add(self, block: Block) -> None:
        """Add a block of cells."""
        down, across, open = block.down, block.across, block.open
        height, width, tiles = len(down.places), len(across.places), (..., down.tiles, across.tiles)
        if isinstance(open, Tensor):
            open = open.view(-1, down.count, down.size, width).sum(2)
            open = open.view(-1, down.count, across.count, across.size).sum(3).squeeze(0)
        else:
            open *= down.size * across.size
        self.open[tiles] += open
        if block.cells is None:
            return
        before = self.largest[tiles]  # a view, so that it is updated in place
        if self.several:
            lines = block.cells.view(-1, down.count, down.size, width)
            most = block.weigh(lines.amax(2).view(-1, down.count, across.count, across.size).amax(3))
            if self.is_signed:
                least = lines.amin(2).view(-1, down.count, across.count, across.size).amin(3)
                most = farthest(before.maximum(most), before.minimum(least))
            before.copy_(most if self.is_signed else before.maximum(most))
            return
        shape = (down.count, across.count, across.size)  # (r, c, C)
        lines = block.weights.view(down.count, down.size, -1)  # (r, R, c C)
        self.sums[tiles] += lines.sum(1).view(shape).sum(2, dtype=torch.float64)
        sizes = lines.abs() if self.is_signed else lines
        most, column = sizes.amax(1).view(shape).max(2)
        starts = torch.arange(0, height, down.size)[:, None], torch.arange(0, width, across.size)
        places = (starts[1] + column)[:, None].expand(-1, down.size, -1)
        cells = sizes.gather(2, places)
        if most.isnan().any():
            row = cells.argmax(1)
        else:  # first row with the largest weight; much faster than argmax
            numbers = torch.arange(down.size, dtype=torch.int32)[:, None]
            row = torch.where(cells == most[:, None], numbers, down.size).amin(1).long()
        is_kept = (most <= before.abs()) | before.isnan()
        if self.is_signed:
            most = lines.gather(2, places).gather(1, row[:, None])[:, 0]
        before.copy_(before.where(is_kept, most))
        for positions, part, start, in_tile in zip(self.argmax, (down, across), starts, (row, column), strict=True):
            positions[tiles] = positions[tiles].where(is_kept, part.start + start + in_tile)

    def pooled(self) -> Pooled:
        """Return the tiles of all blocks added so far."""
        queries, keys = (np.array(part) for part in self.places)
        sizes = [np.diff(np.append(np.arange(0, len(part), self.tile), len(part))) for part in (queries, keys)]
        at_query = at_key = sums = None
        if not self.several:
            at_query, at_key = queries[self.argmax[0].numpy()], keys[self.argmax[1].numpy()]
            sums = self.sums.numpy()
        maxima = self.largest.numpy(), at_query, at_key, sums
        firsts = queries[:: self.tile], keys[:: self.tile]
        return Pooled(*firsts, self.tile, *maxima, np.outer(*sizes), self.open.numpy())


def strongest(
    step: Step, head: int | str, *, sentence: int = 0, rows: slice = ALL, columns: slice = ALL
) -> tuple[np.ndarray, np.ndarray]:
    """Find the largest weight of each row, and its column within the window; both (rows,).

    In linear attention, the weight farthest from 0. NaN is ignored; a softmax row with only NaN has weight -1.
    """
    queries, keys = window_ranges(step, rows, columns)
    cached = _strongest.setdefault(step, {})
    if (result := cached.get((head, sentence))) is not None and _is_whole(step, queries, keys):
        return result
    by_row = _Rows(len(queries), len(keys), _dtype(step), is_signed=step.mixing == "linear")
    for block in blocks(step, head, queries, keys, sentence=sentence):
        by_row.add(block)
    result = by_row.most.numpy(), by_row.columns.numpy()
    if _is_whole(step, queries, keys) and len(keys) > LONG:
        cached[head, sentence] = result
    return result


class _Rows:
    """Accumulator of the largest weight of each row, and its column; with `is_signed`, of the one farthest from 0."""

    def __init__(self, queries: int, keys: int, dtype: torch.dtype, *, is_signed: bool = False):
        self.is_signed = is_signed
        self.most = torch.full((queries if keys else 0,), 0.0 if is_signed else -1.0, dtype=dtype)
        self.columns = torch.zeros(len(self.most), dtype=torch.int64)

    def add(self, block: Block) -> None:
        """Add a block of cells; blocks of the same rows must come in the order of their keys."""
        rows = block.down.within
        if block.weights is None:
            if block.across.start == 0:  # else the rows have a maximum already
                self.most[rows] = 0
            return
        weights = block.weights.abs() if self.is_signed else block.weights
        cells = weights.unflatten(1, (-1, weights.shape[1] if weights.shape[1] % PIECE else PIECE))  # (Q, pieces, n)
        pieces = cells.amax(2)
        largest = pieces.amax(1)
        if largest.isnan().any():  # NaN counts as less than any weight
            cells = cells.nan_to_num(nan=-1.0)
            pieces = cells.amax(2)
            largest = pieces.amax(1)
        before = self.most[rows].abs() if self.is_signed else self.most[rows]
        improved = (largest > before).nonzero()[:, 0]  # rows with a new maximum
        if len(improved):
            piece = pieces[improved].argmax(1)
            column = piece * cells.shape[2] + cells[improved, piece].argmax(1)
            most = block.weights[improved, column] if self.is_signed else largest[improved]
            self.most[rows.start + improved] = most.to(self.most.dtype)
            self.columns[rows.start + improved] = block.across.start + column


def row_sums(step: Step, head: int | str, *, sentence: int = 0, rows: slice = ALL) -> Tensor:
    """Sum the weights of each row over all keys, (rows,)."""
    queries, keys = window_ranges(step, rows, ALL)
    sums = torch.zeros(len(queries), dtype=torch.float64)
    for block in blocks(step, head, queries, keys, sentence=sentence):
        if block.weights is not None:
            sums[block.down.within] += block.weights.double().sum(1)
    return sums.to(_dtype(step))


def _dtype(step: Step) -> torch.dtype:
    """Return the number type of the weights of a step."""
    return torch.promote_types(step.query.dtype, torch.float32)


def _is_whole(step: Step, queries: range, keys: range) -> bool:
    """Whether positions are all queries and keys of a step."""
    return (queries, keys) == (range(step.shape[2]), range(step.shape[3]))


STATES = ("weight", "blocked", "nan", "empty row")
WEIGHT, BLOCKED, NAN, EMPTY = range(4)
"""States of a cell."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A window of one head, or of all heads combined, for a figure or a file; arrays are (rows, columns).

    If `tile` is above 1, an entry is a tile of cells: it has their largest weight, and is blocked if all are blocked.

    Attributes:
        queries, keys: positions of the rows and columns; first positions of tiles.
        weights: weights of the record.
        scores: scores before the mask; None for combined heads, pooled or merged cells, and records without scores.
        states: `WEIGHT`, `BLOCKED`, `NAN` or `EMPTY` (the row has no open key; its weights follow the policy).
        reasons: distinct rules that block cells of the window.
        blocked: 0 for an open cell, i for a cell blocked by reasons[i - 1].
        tile: cells per side of an entry.
        tiles: for tiles of one head, the window with the positions of their largest weights; otherwise None.
    """

    queries: np.ndarray
    keys: np.ndarray
    weights: np.ndarray
    scores: np.ndarray | None
    states: np.ndarray
    reasons: tuple[str, ...]
    blocked: np.ndarray
    tile: int = 1
    tiles: Pooled | None = None


def cells(step: Step, head: int | str, **window: Any) -> Cells:
    """Compute the cells of one head, see `cells_of`."""
    return cells_of(step, [head], **window)[0]


def cells_of(
    step: Step,
    heads: Sequence[int | str],
    *,
    sentence: int = 0,
    rows: slice = ALL,
    columns: slice = ALL,
    tile: int = 1,
    scores: bool = True,
) -> list[Cells]:
    """Compute weights, scores, states and rules of a window for several heads; a shared mask is evaluated once.

    A fully blocked tile has the rule that blocks its first cell.

    Args:
        tile: cells per side of a tile; 1 for every cell.
        scores: whether to compute scores; False for a read-only record, which does not have the model's scores.
    """
    window = {"sentence": sentence, "rows": rows, "columns": columns}
    corners = [slice(part.start, part.stop, (part.step or 1) * tile) for part in (rows, columns)]  # first cells
    positions = [np.arange(n)[part] for n, part in zip(step.shape[2:], corners, strict=True)]
    has_one_mask = step.mask is None or isinstance(step.mask, Mask)
    shared = reasons_of(step, 0, *corners, sentence=sentence) if has_one_mask else None
    several = tile > 1 and len(heads) > 1 and not any(isinstance(head, str) for head in heads)
    pooled_heads = pooled(step, heads, tile, **window) if several else None
    result = []
    for i, head in enumerate(heads):
        reasons, codes = shared or reasons_of(step, head, *corners, sentence=sentence)
        rules, empty = codes.numpy(), empty_queries(step, head, sentence=sentence)[rows]  # 0: no rule blocks the cell
        head_scores = tiles = None
        if tile == 1:
            weights = weights_of(step, head, rows, columns, sentence=sentence).numpy()
            if scores and isinstance(head, int) and step.mixing == "softmax":
                head_scores = step.scores(head, rows, columns, sentence=sentence).numpy()
        elif several:
            open_cells = pooled_heads.open[i] if pooled_heads.open.ndim == 3 else pooled_heads.open
            weights, rules = pooled_heads.largest[i], rules * (open_cells == 0)
        else:
            tiles = pooled(step, head, tile, **window)
            weights, rules = tiles.largest, rules * (tiles.open == 0)
        states = states_of(weights, rules, empty.numpy(), tile)
        result.append(Cells(*positions, weights, head_scores, states, reasons, rules, tile, tiles))
    return result


def states_of(weights: np.ndarray, blocked: np.ndarray, empty: np.ndarray, tile: int) -> np.ndarray:
    """Return the state of each cell or tile; a tile is `EMPTY` if all its rows are `empty` (have no open key)."""
    states = np.where(np.isnan(weights), NAN, np.where(blocked > 0, BLOCKED, WEIGHT))
    states[np.minimum.reduceat(empty, np.arange(0, len(empty), tile)) if len(empty) else empty] = EMPTY
    return states


def checked_states(values: Tensor, kind: str, convention: str | None, cells: Sequence[Mapping[str, int]]) -> np.ndarray:
    """Return the states of one head of a checked array, (Q, K): 0 open, 1 blocked, 2 for a cell or row in `cells`."""
    blocked = values <= VERY_NEGATIVE if kind == "scores" else ~to_may_attend(values, convention)
    states = blocked.long().numpy()
    for cell in cells:
        states[cell.get("query", slice(None)), cell.get("key", slice(None))] = 2
    return states
