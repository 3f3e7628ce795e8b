"""Attention weights of one head, several heads or all heads combined, block by block, and their sums by distance."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from attnviz.core.blocks import Blockwise, is_open
from attnviz.core.errors import InputError
from attnviz.core.masks import Mask
from attnviz.core.progress import tell
from attnviz.core.record import ALL, Step

AGGREGATIONS = ("mean", "max", "min")
"""Ways to combine all heads of a step into one map."""
BLOCK = 2**21
"""Maximum number of cells in memory at once (8 MB of float32)."""
HEIGHT, WIDTH = 512, 512
"""Queries (per thread) and keys of a block of one head: 1 MB of float32, which fits in the processor cache."""


def weights_of(step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """Compute weights, (rows, columns), of one head, or their "mean", "max" or "min" over all heads in each cell."""
    if not isinstance(head, str):
        return step.weights(head, rows, columns, sentence=sentence)
    if head not in AGGREGATIONS:
        raise InputError(f"Heads cannot be combined by {head!r}; available: {', '.join(AGGREGATIONS)}.")
    combine = {"mean": torch.add, "max": torch.maximum, "min": torch.minimum}[head]
    weights_by_head = (step.weights(h, rows, columns, sentence=sentence) for h in range(step.num_heads))
    combined = reduce(combine, weights_by_head)
    return combined / step.num_heads if head == "mean" else combined


def reasons_of(
    step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0
) -> tuple[tuple[str, ...], Tensor]:
    """Return the names of the rules that block cells, and a code per cell, (rows, columns).

    The code is 0 for an open cell, i for a cell blocked by names[i - 1]; combined heads block what every head blocks.
    """
    reasons = [step.reasons(h, rows, columns, sentence=sentence) for h in _heads_with_masks(step, head)]
    names = reasons[0][0]
    return names, reduce(torch.minimum, (numbers for _, numbers in reasons))  # faster than amin; 0 if any head opens it


def may_attend(step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """Return the mask of a head, boolean, (rows, columns); for combined heads, a cell is open if any head opens it."""
    masks = [step.may_attend(h, rows, columns, sentence=sentence) for h in _heads_with_masks(step, head)]
    return torch.stack(masks).any(0)


def empty_queries(step: Step, head: int | str, *, sentence: int = 0) -> Tensor:
    """Mark the queries that have no open key, boolean, (Q,); with all heads combined, no open key in any head."""
    heads = range(step.num_heads) if isinstance(head, str) else (head,)
    return torch.stack([step.empty_queries(h, sentence=sentence) for h in heads]).all(0)


def has_own_masks(step: Step) -> bool:
    """Whether the heads of an attention call may have different masks: its mask is a tensor (B, H, Q, K) with H > 1."""
    return isinstance(step.mask, Tensor) and step.mask.dim() == 4 and step.mask.shape[1] > 1


def _heads_with_masks(step: Step, head: int | str) -> Sequence[int]:
    """Return the heads whose masks must be read: `head` itself; for combined heads all, or only 0 if all are equal."""
    if not isinstance(head, str):
        return (head,)
    return range(step.num_heads) if has_own_masks(step) else (0,)


@dataclass(frozen=True)
class BlockAxis:
    """The queries or the keys of a block: consecutive positions that fill whole tiles, or a part of one tile.

    Attributes:
        positions: positions in the map.
        start: index of the first position in the window that is cut into blocks.
        first_tile, num_tiles, tile_size: index of the first tile in the window, number of tiles, positions per tile.
    """

    positions: range
    start: int
    first_tile: int
    num_tiles: int
    tile_size: int

    @property
    def tiles(self) -> slice:
        """Slice of the tiles among all tiles of the window."""
        return slice(self.first_tile, self.first_tile + self.num_tiles)

    @property
    def slice(self) -> slice:
        """Slice of the positions in the map."""
        return _slice(self.positions)

    @property
    def in_window(self) -> slice:
        """Slice of the positions, counted from the start of the window."""
        return slice(self.start, self.start + len(self.positions))


@dataclass(frozen=True, eq=False)
class Block:
    """A block of cells of a map, with R queries and C keys.

    Attributes:
        rows, columns: the queries and the keys.
        open: mask of open cells, (R, C) or, for several heads, (H, R, C); True or False if all cells are the same.
        cells: numbers from which `to_weights` makes weights, (H, R, C); None if all weights are 0. The largest number
            has the largest weight. The next block overwrites them.
        to_weights: function that turns any of the `cells` into weights, in place; None if `cells` are weights.
    """

    rows: BlockAxis
    columns: BlockAxis
    open: Tensor | bool
    cells: Tensor | None
    to_weights: Callable[[Tensor], Tensor] | None

    @cached_property
    def weights(self) -> Tensor | None:
        """Weights of a block of one head, (R, C), overwritten by the next block; None if all are 0."""
        if self.cells is None:
            return None
        return (self.cells if self.to_weights is None else self.to_weights(self.cells))[0]


def blocks(
    step: Step, heads: int | str | Sequence[int], queries: range, keys: range, tile: int = 1, *, sentence: int = 0
) -> Iterator[Block]:
    """Iterate over a window of a map in blocks, row by row; a block contains whole tiles or a part of one tile.

    If the mask blocks all cells of a block, its weights are not computed. `core.progress` counts from 0 to 1 per head.

    Args:
        heads: a head, several heads (with smaller blocks), or a name of `AGGREGATIONS`.
        queries, keys: positions of the window.
        tile: cells per side of a tile.
    """
    heads = heads if isinstance(heads, Sequence) else (heads,)
    num_maps = 1 if isinstance(heads, str) else len(heads)
    blockwise = None if isinstance(heads, str) else Blockwise(step, heads, sentence=sentence)
    height, width = (max(1, int(side / num_maps**0.5)) for side in (HEIGHT, WIDTH))
    for rows in _cut_axis(queries, tile, height * torch.get_num_threads()):
        logsumexp = step.logsumexp[sentence, slice(None) if isinstance(heads, str) else list(heads), rows.slice]
        is_empty = logsumexp == -torch.inf
        # rows with NaN, and rows without an open key that are not set to zero, have weights in blocked cells
        has_weights_in_blocked = bool((logsumexp.isnan() | (is_empty & (step.scoring.empty_rows != "zero"))).any())
        cells_of, to_weights = blockwise.rows(rows.slice) if blockwise else (None, None)
        for columns in _cut_axis(keys, tile, width):
            mask, open = None, is_open(step, rows.positions, columns.positions, sentence=sentence)
            if open is None:  # some cells may be open
                open, mask = _open_cells(step, heads, rows.positions, columns.positions, sentence)
            if open is False and not has_weights_in_blocked:
                cells = None
            elif blockwise:
                cells = cells_of(columns.slice, mask)
            else:
                cells = weights_of(step, heads, rows.slice, columns.slice, sentence=sentence)[None]
            yield Block(rows, columns, open, cells, to_weights)
        done_before = num_maps * rows.in_window.start / len(queries)  # maps completed before these rows
        done = num_maps * rows.in_window.stop / len(queries)
        for _ in range(int(done) - int(done_before)):
            tell(1.0)
        if done % 1:
            tell(done % 1)


def openings(
    mask: Mask, lengths: tuple[int, int], queries: range, keys: range, tile: int = 1, *, sentence: int = 0
) -> Iterator[Block]:
    """Iterate over a window of a mask in blocks without weights; `lengths` are its numbers of queries and keys."""
    mask_of_text = mask.of_sentence(sentence)
    for rows in _cut_axis(queries, tile, HEIGHT):
        for columns in _cut_axis(keys, tile, WIDTH):
            open = mask_of_text.is_open(rows.positions, columns.positions)
            if open is None:
                open = mask.grid(*lengths, sentence=sentence, rows=rows.slice, columns=columns.slice)
            yield Block(rows, columns, open, None, None)


def _open_cells(
    step: Step, heads: str | Sequence[int], rows: range, columns: range, sentence: int
) -> tuple[Tensor | bool, Tensor]:
    """Return the open cells of a block twice: for `Block.open` (False if no cell is open), and always as a mask."""
    if isinstance(step.mask, Mask):
        return _open_cells_of_mask(step.mask, step.shape[2:], rows, columns, sentence)
    window = {"rows": _slice(rows), "columns": _slice(columns), "sentence": sentence}
    if isinstance(heads, str):
        allowed = may_attend(step, heads, **window)
    else:
        heads = heads if has_own_masks(step) else heads[:1]  # one mask for all heads
        masks = [step.may_attend(head, **window) for head in heads]
        allowed = masks[0] if len(masks) == 1 else torch.stack(masks)
    return allowed if allowed.any() else False, allowed


@lru_cache(maxsize=32)
def _open_cells_of_mask(
    mask: Mask, lengths: tuple[int, int], rows: range, columns: range, sentence: int
) -> tuple[Tensor | bool, Tensor]:
    """Return `_open_cells` for a `Mask`; cached, because layers that are drawn one after another share a mask."""
    allowed = mask.grid(*lengths, sentence=sentence, rows=_slice(rows), columns=_slice(columns))
    return allowed if allowed.any() else False, allowed


def _slice(positions: range) -> slice:
    """Convert a range to a slice."""
    return slice(positions.start, positions.stop, positions.step)


def _cut_axis(positions: range, tile: int, most: int) -> Iterator[BlockAxis]:
    """Cut the queries or keys of a window into pieces of at most `most` positions: whole tiles, or part of one tile."""
    n, width = len(positions), max(tile, most // tile * tile)  # `width` is one tile if a tile is longer than `most`
    for start in range(0, n, width):
        for first in range(start, min(start + width, n), min(width, most)):
            stop = min(first + min(width, most), start + width, n)
            whole_stop = first + (stop - first) // tile * tile  # end of the last whole tile
            if first < whole_stop:
                yield BlockAxis(positions[first:whole_stop], first, first // tile, (whole_stop - first) // tile, tile)
            if whole_stop < stop:
                yield BlockAxis(positions[whole_stop:stop], whole_stop, whole_stop // tile, 1, stop - whole_stop)


def row_slices(queries: int, keys: int, tile: int = 1) -> list[slice]:
    """Cut the rows of a map into slices of whole tiles with about `BLOCK` cells; without rows, into one empty slice."""
    height = max(1, BLOCK // max(1, keys) // tile) * tile
    return [slice(start, min(start + height, queries)) for start in range(0, max(1, queries), height)]


def pool(block: Tensor, tile: int, how: str = "max") -> Tensor:
    """Reduce each tile of numbers to its largest ("max") or smallest ("min"), (n, m) -> (⌈n / tile⌉, ⌈m / tile⌉)."""
    if tile == 1:
        return block
    n, m = block.shape
    if n % tile or m % tile:
        fill = -torch.inf if how == "max" else torch.inf
        block = torch.nn.functional.pad(block, (0, -m % tile, 0, -n % tile), value=fill)  # to whole tiles
    for axis in (1, 0):
        tiles = block.unflatten(axis, (-1, tile))
        block = tiles.amax(axis + 1) if how == "max" else tiles.amin(axis + 1)
    return block


def diagonal_sums(cells: Tensor) -> Tensor:
    """Sum the numbers on each diagonal, (..., n, m) -> (..., n + m - 1); the first diagonal is the lower left corner.

    The rows are copied one after another, with n - 1 zeros before the first row and n zeros after each. If this copy is
    read with rows that begin one number later each time, the diagonals are columns.
    """
    *batch, n, m = cells.shape
    padded = cells.new_zeros(*batch, n * (n + m) + n)
    rows = padded[..., n - 1 : n - 1 + n * (n + m)].view(*batch, n, n + m)
    rows[..., :m] = cells
    skewed = padded.as_strided((*batch, n, n + m - 1), (*padded.stride()[:-1], n + m + 1, 1))
    return skewed.sum(-2)


def largest_in_size(numbers: np.ndarray, tile: int) -> np.ndarray:
    """Reduce each tile of an array, (n, m), to its number farthest from 0; NaN where no number is finite."""
    if tile == 1:
        return numbers
    filled = torch.from_numpy(np.nan_to_num(numbers))
    is_finite = pool(torch.from_numpy(np.isfinite(numbers).astype(np.float64)), tile).numpy() > 0
    high, low = pool(filled, tile).numpy(), pool(filled, tile, "min").numpy()
    farthest_from_0 = np.where(-low > high, low, high)
    return np.where(is_finite, farthest_from_0, np.nan)


@dataclass(frozen=True, eq=False)
class ByDistance:
    """Weights of a head, summed by the distance from query to key; all arrays are (distances,).

    Attributes:
        distances: all values of key position - query position, in increasing order; 0 is the query itself.
        sums: sum of the weights of all cells at this distance, float64; NaN if one of these weights is NaN.
        pairs: number of open cells at this distance.
    """

    distances: np.ndarray
    sums: np.ndarray
    pairs: np.ndarray

    def within(self, most: int) -> float:
        """Return the share of weight on keys at most `most` tokens from the query; NaN if all weights are 0."""
        with np.errstate(invalid="ignore"):
            return float(self.sums[abs(self.distances) <= most].sum() / self.sums.sum())

    def curve(self) -> pd.DataFrame:
        """Make a table with a row per range of distances: nearest, furthest, share of all weights, pairs, mean weight.

        The ranges are 0, 1, 2 to 3, 4 to 7, ..., negative for keys before the query. The mean is NaN in a range without
        an open cell, even if rows without an open key were given weights there.
        """
        range_index = np.floor(np.log2(np.maximum(abs(self.distances), 0.5))).astype(int) + 1  # 0, 1, 2, 2, 3, ...
        range_index *= np.sign(self.distances)
        ranges = np.split(np.arange(len(range_index)), np.flatnonzero(np.diff(range_index)) + 1)
        nearest = [min(self.distances[indices].tolist(), key=abs) for indices in ranges]
        furthest = [max(self.distances[indices].tolist(), key=abs) for indices in ranges]
        sums = np.array([self.sums[indices].sum() for indices in ranges])
        pairs = np.array([self.pairs[indices].sum() for indices in ranges])
        mean = np.divide(sums, pairs, out=np.full(len(sums), np.nan), where=pairs > 0)
        with np.errstate(invalid="ignore"):
            share = sums / self.sums.sum()
        return pd.DataFrame({"nearest": nearest, "furthest": furthest, "share": share, "pairs": pairs, "mean": mean})


def by_distance(step: Step, head: int | str, *, sentence: int = 0) -> ByDistance:
    """Sum the weights of a head, or of all heads combined, by the distance from query to key.

    A sink has no position, so its weights are left out. The last result for each step is cached.

    Raises:
        InputError: for linear attention, whose weights do not sum to 1 in a row.
    """
    if step.linear:
        raise InputError(f"{step.site} is linear attention: its weights are no shares that distances could divide.")
    cached_for, result = _by_distance.get(step, (None, None))
    if cached_for == (head, sentence):
        return result
    queries, keys = range(step.shape[2]), range(step.shape[3] - step.has_sink)
    sums = torch.zeros(len(queries) + len(keys) - 1, dtype=torch.float64)
    pairs = torch.zeros(len(sums), dtype=torch.int64)
    for block in blocks(step, head, queries, keys, sentence=sentence):
        height, width = len(block.rows.positions), len(block.columns.positions)
        smallest_distance = block.columns.positions[0] - block.rows.positions[-1]
        first = smallest_distance + queries[-1]  # index of this distance in `sums`
        diagonals = slice(first, first + height + width - 1)
        if block.open is not False:
            open_cells = torch.ones(height, width, dtype=torch.int64) if block.open is True else block.open.long()
            pairs[diagonals] += diagonal_sums(open_cells)
        if block.weights is not None:
            sums[diagonals] += diagonal_sums(block.weights.double())
    result = ByDistance(np.arange(len(sums)) - queries[-1], sums.numpy(), pairs.numpy())
    _by_distance[step] = (head, sentence), result
    return result


_by_distance: WeakKeyDictionary[Step, tuple[tuple[int | str, int], ByDistance]] = WeakKeyDictionary()
"""Cached result of the last call for each step, with its head and sentence: 24 bytes per distance."""
