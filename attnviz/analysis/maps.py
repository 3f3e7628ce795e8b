"""Attention maps of one head, several heads or all heads combined: cells of a window, or maxima by tile and row.

Weights are computed block by block from the log-sum-exp stored in the step, without blocks closed by the mask; memory
grows with the number of tokens, not with its square.
"""

import math
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
"""Cached results of `pooled` for long texts, by heads, sentence and tile size."""
_strongest: WeakKeyDictionary[Step, dict[tuple, tuple[np.ndarray, np.ndarray]]] = WeakKeyDictionary()
"""Cached results of `strongest` for long texts, by head and sentence."""


@dataclass(frozen=True, eq=False)
class Pooled:
    """A window of a map, reduced to tiles of `tile` x `tile` cells; arrays are (r, c): rows and columns of tiles.

    For several heads, `largest` is (H, r, c), and so is `open` if their masks differ.

    Attributes:
        queries, keys: first query position of each row of tiles, (r,), and first key position of each column, (c,).
        tile: cells per side of a tile; the last tiles may have fewer.
        largest: largest weight in each tile, in linear attention the weight farthest from 0; or NaN.
        at_query, at_key: query and key position of this weight; None for several heads.
        sums: sum of the weights in each tile, float64; None for several heads.
        sizes: number of cells in each tile.
        open: number of open cells in each tile; all other cells have weight 0.
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
        return sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray))


def pooled(
    step: Step,
    heads: int | str | Sequence[int],
    tile: int | None = None,
    *,
    sentence: int = 0,
    rows: slice = ALL,
    columns: slice = ALL,
) -> Pooled:
    """Reduce a window of a map to tiles, for one head, all heads combined, or several heads; cached for long texts.

    Blocks that the mask closes take no time, and memory grows with the number of tiles only. For several heads only the
    largest weights are computed, with one exp per tile instead of one per cell.

    Args:
        heads: a head, a name of `AGGREGATIONS`, or several heads.
        tile: cells per side of a tile; None for the smallest size with at most `TILES` tiles on a side.
    """
    queries, keys = window_ranges(step, rows, columns)
    tile = tile or max(1, math.ceil(max(len(queries), len(keys)) / TILES))
    several = isinstance(heads, Sequence) and not isinstance(heads, str)
    cache_key = tuple(heads) if several else heads, sentence, tile
    is_cached = _is_whole(step, queries, keys) and len(keys) > LONG
    cache = _pooled.setdefault(step, {})
    if is_cached and (result := cache.get(cache_key)) is not None:
        return result
    is_signed = step.mixing == "linear"
    settings = {"heads": len(heads) if several else 0, "own_masks": has_own_masks(step), "is_signed": is_signed}
    tiles = _Tiles(queries, keys, tile, _dtype(step), **settings)
    row_maxima = None
    if is_cached and not several:  # in the same pass, because callers ask for `strongest` next
        row_maxima = _Rows(len(queries), len(keys), _dtype(step), is_signed=is_signed)
    for block in blocks(step, heads, queries, keys, tile, sentence=sentence):
        tiles.add(block)
        if row_maxima is not None:
            row_maxima.add(block)
    result = tiles.pooled()
    if row_maxima is not None:
        _strongest.setdefault(step, {})[heads, sentence] = row_maxima.most.numpy(), row_maxima.columns.numpy()
    if is_cached:
        while cache and result.nbytes + sum(item.nbytes for item in [*cache.values()]) > MOST_BYTES:
            oldest = next(iter(cache))
            cache.pop(oldest, None)
        cache[cache_key] = result
    return result


def pooled_mask(
    mask: Mask, lengths: tuple[int, int], tile: int, *, sentence: int = 0, rows: slice = ALL, columns: slice = ALL
) -> Pooled:
    """Count the open cells in each tile of a mask with `lengths` queries and keys; all weights of the result are 0."""
    queries, keys = range(*rows.indices(lengths[0])), range(*columns.indices(lengths[1]))
    tiles = _Tiles(queries, keys, tile, torch.float32)
    for block in openings(mask, lengths, queries, keys, tile, sentence=sentence):
        tiles.add(block)
    return tiles.pooled()


def farthest(largest: Tensor, smallest: Tensor) -> Tensor:
    """Choose in each cell `largest` or `smallest`, whichever is farther from 0; largest >= smallest."""
    return smallest.where(-smallest > largest, largest)


class _Tiles:
    """Accumulator that makes a `Pooled` from blocks of weights; `heads` is their number if there are several, else 0.

    With `is_signed`, the weight farthest from 0 counts as the largest. `own_masks`: heads have different masks.
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
        self.queries, self.keys, self.tile = queries, keys, tile
        self.several, self.is_signed = heads > 0, is_signed
        shape = len(queries[::tile]), len(keys[::tile])
        self.largest = torch.zeros((heads, *shape) if heads else shape, dtype=dtype)
        self.open = torch.zeros((heads, *shape) if heads and own_masks else shape, dtype=torch.int64)
        self.sums = torch.zeros(shape, dtype=torch.float64)
        # row and column, in the window, of the largest weight of each tile; at first those of its first cell
        self.row_of_largest = (torch.arange(shape[0])[:, None] * tile).expand(shape).clone()
        self.column_of_largest = (torch.arange(shape[1]) * tile).expand(shape).clone()

    def add(self, block: Block) -> None:
        """Add the open cells and the weights of a block to its r x c tiles, each of R rows and C columns."""
        r, tile_height = block.rows.num_tiles, block.rows.tile_size
        c, tile_width = block.columns.num_tiles, block.columns.tile_size
        tiles, width = (..., block.rows.tiles, block.columns.tiles), c * tile_width
        if isinstance(block.open, Tensor):
            open_by_column = block.open.view(-1, r, tile_height, width).sum(2)
            self.open[tiles] += open_by_column.view(-1, r, c, tile_width).sum(3).squeeze(0)
        else:
            self.open[tiles] += block.open * tile_height * tile_width
        if block.cells is None:
            return
        if self.several:
            self._add_heads(block, tiles)
            return
        before = self.largest[tiles]  # a view, so that it is updated in place
        weights = block.weights.view(r, tile_height, width)
        self.sums[tiles] += weights.sum(1).view(r, c, tile_width).sum(2, dtype=torch.float64)
        sizes = weights.abs() if self.is_signed else weights
        largest, column = sizes.amax(1).view(r, c, tile_width).max(2)  # column: counted within the tile
        column = column + torch.arange(0, width, tile_width)
        index = column[:, None].expand(-1, tile_height, -1)
        in_column = sizes.gather(2, index)  # the column with the largest weight, for each tile, (r, R, c)
        if largest.isnan().any():
            row = in_column.argmax(1)
        else:  # first row with the largest weight; much faster than argmax
            numbers = torch.arange(tile_height, dtype=torch.int32)[:, None]
            row = torch.where(in_column == largest[:, None], numbers, tile_height).amin(1).long()
        is_kept = (largest <= before.abs()) | before.isnan()
        if self.is_signed:  # the weight itself, with its sign
            largest = weights.gather(2, index).gather(1, row[:, None])[:, 0]
        before.copy_(before.where(is_kept, largest))
        row = row + torch.arange(0, r * tile_height, tile_height)[:, None] + block.rows.start
        self.row_of_largest[tiles] = self.row_of_largest[tiles].where(is_kept, row)
        self.column_of_largest[tiles] = self.column_of_largest[tiles].where(is_kept, column + block.columns.start)

    def _add_heads(self, block: Block, tiles: tuple) -> None:
        """Update the largest weights of several heads, (H, r, c), in the tiles of a block."""
        r, c, tile_width = block.rows.num_tiles, block.columns.num_tiles, block.columns.tile_size
        cells = block.cells.view(-1, r, block.rows.tile_size, c * tile_width)
        before = self.largest[tiles]  # a view, so that it is updated in place
        largest = before.maximum(block.to_weights(cells.amax(2).view(-1, r, c, tile_width).amax(3)))
        if self.is_signed:
            smallest = cells.amin(2).view(-1, r, c, tile_width).amin(3)
            largest = farthest(largest, before.minimum(smallest))
        before.copy_(largest)

    def pooled(self) -> Pooled:
        """Return the tiles of all blocks added so far."""
        queries, keys = np.array(self.queries), np.array(self.keys)
        heights, widths = (np.diff([*range(0, len(axis), self.tile), len(axis)]) for axis in (queries, keys))
        at_query = at_key = sums = None
        if not self.several:
            at_query, at_key = queries[self.row_of_largest.numpy()], keys[self.column_of_largest.numpy()]
            sums = self.sums.numpy()
        first_queries, first_keys = queries[:: self.tile], keys[:: self.tile]
        largest, sizes, open_cells = self.largest.numpy(), np.outer(heights, widths), self.open.numpy()
        return Pooled(first_queries, first_keys, self.tile, largest, at_query, at_key, sums, sizes, open_cells)


def strongest(
    step: Step, head: int | str, *, sentence: int = 0, rows: slice = ALL, columns: slice = ALL
) -> tuple[np.ndarray, np.ndarray]:
    """Find the largest weight of each row, (rows,), and its column in the window, (rows,).

    In linear attention it is the weight farthest from 0. NaN is ignored; a softmax row with only NaN has weight -1.
    """
    queries, keys = window_ranges(step, rows, columns)
    is_whole = _is_whole(step, queries, keys)
    cache = _strongest.setdefault(step, {})
    if is_whole and (result := cache.get((head, sentence))) is not None:
        return result
    row_maxima = _Rows(len(queries), len(keys), _dtype(step), is_signed=step.mixing == "linear")
    for block in blocks(step, head, queries, keys, sentence=sentence):
        row_maxima.add(block)
    result = row_maxima.most.numpy(), row_maxima.columns.numpy()
    if is_whole and len(keys) > LONG:
        cache[head, sentence] = result
    return result


class _Rows:
    """Accumulator of the largest weight of each row and its column; with `is_signed`, of the weight farthest from 0."""

    def __init__(self, queries: int, keys: int, dtype: torch.dtype, *, is_signed: bool = False):
        self.is_signed = is_signed
        smallest = 0.0 if is_signed else -1.0  # before the first block
        self.most = torch.full((queries if keys else 0,), smallest, dtype=dtype)
        self.columns = torch.zeros(len(self.most), dtype=torch.int64)

    def add(self, block: Block) -> None:
        """Add a block of cells; blocks of the same rows must come in the order of their keys."""
        rows = block.rows.in_window
        if block.weights is None:
            if block.columns.start == 0:  # else the rows have a maximum already
                self.most[rows] = 0
            return
        sizes = block.weights.abs() if self.is_signed else block.weights
        width = sizes.shape[1]
        piece_size = width if width % PIECE else PIECE
        pieces = sizes.unflatten(1, (-1, piece_size))  # (rows, pieces, piece_size)
        maxima = pieces.amax(2)
        largest = maxima.amax(1)
        if largest.isnan().any():  # NaN counts as less than any weight
            pieces = pieces.nan_to_num(nan=-1.0)
            maxima = pieces.amax(2)
            largest = maxima.amax(1)
        before = self.most[rows].abs() if self.is_signed else self.most[rows]
        improved = (largest > before).nonzero()[:, 0]  # rows with a new maximum
        if len(improved):
            piece = maxima[improved].argmax(1)
            column = piece * piece_size + pieces[improved, piece].argmax(1)
            most = block.weights[improved, column] if self.is_signed else largest[improved]
            self.most[rows.start + improved] = most.to(self.most.dtype)
            self.columns[rows.start + improved] = block.columns.start + column


def row_sums(step: Step, head: int | str, *, sentence: int = 0, rows: slice = ALL) -> Tensor:
    """Sum the weights of each row over all keys, (rows,), in the number type of the weights."""
    queries, keys = window_ranges(step, rows, ALL)
    sums = torch.zeros(len(queries), dtype=torch.float64)
    for block in blocks(step, head, queries, keys, sentence=sentence):
        if block.weights is not None:
            sums[block.rows.in_window] += block.weights.double().sum(1)
    return sums.to(_dtype(step))


def _dtype(step: Step) -> torch.dtype:
    """Return the number type of a step's weights: that of its queries, or float32 if these are half precision."""
    return torch.promote_types(step.query.dtype, torch.float32)


def _is_whole(step: Step, queries: range, keys: range) -> bool:
    """Whether a window has all queries and all keys of a step."""
    return (queries, keys) == (range(step.shape[2]), range(step.shape[3]))


STATES = ("weight", "blocked", "nan", "empty row")
WEIGHT, BLOCKED, NAN, EMPTY = range(4)
"""States of a cell."""


@dataclass(frozen=True, eq=False)
class Cells:
    """A window of the map of one head, or of all heads combined, for a figure or a file; arrays are (rows, columns).

    If `tile` is above 1, each entry stands for a tile of cells: it has the largest weight of the tile and is blocked if
    all cells of the tile are blocked.

    Attributes:
        queries, keys: position of each row, (rows,), and column, (columns,); of a tile its first position.
        weights: weights of the record.
        scores: scores before the mask; None for combined heads, tiles or merged cells, and records without scores.
        states: `WEIGHT`, `BLOCKED`, `NAN` or `EMPTY`. An empty row has no open key: `Scoring.empty_rows` fills it.
        reasons: names of the rules that block cells of the window.
        blocked: 0 for an open cell, i for a cell blocked by reasons[i - 1].
        tile: cells per side of an entry.
        tiles: for tiles of one head, `Pooled` with the positions of the largest weights; otherwise None.
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
    """Compute the cells of one head, or of all heads combined; `window` are the arguments of `cells_of`."""
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
    """Compute the cells of several heads in one window; a mask that all heads share is evaluated once.

    A fully blocked tile has the rule that blocks its first cell.

    Args:
        heads: numbers of heads, or names of `AGGREGATIONS`.
        tile: cells per side of a tile; 1 for every cell.
        scores: whether to compute scores; False for a read-only record, which does not have the model's scores.
    """
    window = {"sentence": sentence, "rows": rows, "columns": columns}
    first_rows, first_columns = (slice(part.start, part.stop, (part.step or 1) * tile) for part in (rows, columns))
    queries, keys = np.arange(step.shape[2])[first_rows], np.arange(step.shape[3])[first_columns]
    has_one_mask = step.mask is None or isinstance(step.mask, Mask)
    shared_reasons = reasons_of(step, 0, first_rows, first_columns, sentence=sentence) if has_one_mask else None
    several = tile > 1 and len(heads) > 1 and not any(isinstance(head, str) for head in heads)
    tiles_of_heads = pooled(step, heads, tile, **window) if several else None
    result = []
    for i, head in enumerate(heads):
        reasons, codes = shared_reasons or reasons_of(step, head, first_rows, first_columns, sentence=sentence)
        blocked = codes.numpy()  # 0: no rule blocks the cell
        head_scores = tiles = None
        if tile == 1:
            weights = weights_of(step, head, rows, columns, sentence=sentence).numpy()
            if scores and isinstance(head, int) and step.mixing == "softmax":
                head_scores = step.scores(head, rows, columns, sentence=sentence).numpy()
        elif several:
            open_cells = tiles_of_heads.open[i] if tiles_of_heads.open.ndim == 3 else tiles_of_heads.open
            weights, blocked = tiles_of_heads.largest[i], blocked * (open_cells == 0)
        else:
            tiles = pooled(step, head, tile, **window)
            weights, blocked = tiles.largest, blocked * (tiles.open == 0)
        is_empty = empty_queries(step, head, sentence=sentence)[rows].numpy()
        states = states_of(weights, blocked, is_empty, tile)
        result.append(Cells(queries, keys, weights, head_scores, states, reasons, blocked, tile, tiles))
    return result


def states_of(weights: np.ndarray, blocked: np.ndarray, is_empty: np.ndarray, tile: int) -> np.ndarray:
    """Return the state of each cell or tile, such as `WEIGHT`, from its weight and the rule that blocks it (0: none).

    `is_empty` tells for each row of cells whether it has no open key; a tile is `EMPTY` if all its rows are.
    """
    states = np.where(np.isnan(weights), NAN, np.where(blocked > 0, BLOCKED, WEIGHT))
    if len(is_empty):
        states[np.logical_and.reduceat(is_empty, np.arange(0, len(is_empty), tile))] = EMPTY
    return states


def checked_states(values: Tensor, kind: str, convention: str | None, cells: Sequence[Mapping[str, int]]) -> np.ndarray:
    """Return the states of one head of a checked array, (Q, K): 0 open, 1 blocked, 2 for a cell or row in `cells`."""
    blocked = values <= VERY_NEGATIVE if kind == "scores" else ~to_may_attend(values, convention)
    states = blocked.long().numpy()
    for cell in cells:
        states[cell.get("query", slice(None)), cell.get("key", slice(None))] = 2
    return states
