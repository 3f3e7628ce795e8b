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
"""Queries of a block for each thread, and keys of a block: 1 MB of float32, which fits in the processor cache."""


def weights_of(step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """Compute the weights of one head, or the mean, maximum or minimum over all heads in each cell, (rows, columns)."""
    if not isinstance(head, str):
        return step.weights(head, rows, columns, sentence=sentence)
    if head not in AGGREGATIONS:
        raise InputError(f"Heads cannot be combined by {head!r}; there are {', '.join(AGGREGATIONS)}.")
    combine = {"mean": torch.add, "max": torch.maximum, "min": torch.minimum}[head]
    combined = reduce(combine, (step.weights(h, rows, columns, sentence=sentence) for h in range(step.num_heads)))
    return combined / step.num_heads if head == "mean" else combined


def reasons_of(
    step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0
) -> tuple[tuple[str, ...], Tensor]:
    """Return `Step.reasons` for one head, or for all heads combined: a cell is blocked if every head blocks it."""
    reasons = [step.reasons(h, rows, columns, sentence=sentence) for h in _heads_with_masks(step, head)]
    return reasons[0][0], reduce(torch.minimum, (blocked for _, blocked in reasons))  # faster than amin


def may_attend(step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """Return `Step.may_attend` for one head, or for all heads combined: a cell is open if any head opens it."""
    masks = [step.may_attend(h, rows, columns, sentence=sentence) for h in _heads_with_masks(step, head)]
    return torch.stack(masks).any(0)


def empty_queries(step: Step, head: int | str, *, sentence: int = 0) -> Tensor:
    """Whether a query has no open key, boolean, (Q,); for combined heads, whether it has no open key in any head."""
    heads = range(step.num_heads) if isinstance(head, str) else (head,)
    return torch.stack([step.empty_queries(h, sentence=sentence) for h in heads]).all(0)


def has_own_masks(step: Step) -> bool:
    """Whether the heads of an attention call may have different masks."""
    return isinstance(step.mask, Tensor) and step.mask.dim() == 4 and step.mask.shape[1] > 1


def _heads_with_masks(step: Step, head: int | str) -> Sequence[int]:
    """Return the heads whose masks are needed: `head`; for combined heads all, or head 0 if all share a mask."""
    if not isinstance(head, str):
        return (head,)
    return range(step.num_heads) if has_own_masks(step) else (0,)


@dataclass(frozen=True)
class Stretch:
    """Consecutive positions of a block on one axis (queries or keys): whole tiles, or a part of one tile.

    Attributes:
        places: positions in the map.
        start: number of positions of the window before these positions.
        first, count, size: index of the first tile, number of tiles, and positions per tile.
    """

    places: range
    start: int
    first: int
    count: int
    size: int

    @property
    def tiles(self) -> slice:
        """Slice of the tiles of the axis."""
        return slice(self.first, self.first + self.count)

    @property
    def slice(self) -> slice:
        """Slice of the positions in the map."""
        return _slice(self.places)

    @property
    def within(self) -> slice:
        """Slice of the positions, relative to the start of the window."""
        return slice(self.start, self.start + len(self.places))


@dataclass(frozen=True, eq=False)
class Block:
    """A block of cells of a map.

    Attributes:
        down, across: positions of the queries and of the keys.
        open: mask of open cells, (queries, keys) or, for several heads, (H, queries, keys); or a boolean for all cells.
        cells: weights, or numbers in the same order as the weights, (H, queries, keys); None if all weights are 0. The
            next block overwrites them.
        weigh: function that turns any of the `cells` into weights, in place; None if `cells` are weights.
    """

    down: Stretch
    across: Stretch
    open: Tensor | bool
    cells: Tensor | None
    weigh: Callable[[Tensor], Tensor] | None

    @cached_property
    def weights(self) -> Tensor | None:
        """Weights of the only head, (queries, keys), overwritten by the next block; None if all are 0."""
        if self.cells is None:
            return None
        return (self.cells if self.weigh is None else self.weigh(self.cells))[0]


def blocks(
    step: Step, heads: int | str | Sequence[int], queries: range, keys: range, tile: int = 1, *, sentence: int = 0
) -> Iterator[Block]:
    """Iterate over a window of a map in blocks, row by row; a block contains whole tiles or a part of one tile.

    Weights of a block that the mask closes completely are not computed. Progress is reported to `core.progress`, one
    unit for each head.

    Args:
        heads: a head, several heads (with smaller blocks), or a name of `AGGREGATIONS`.
        queries, keys: positions of the window.
        tile: cells per side of a tile.
    """
    heads = heads if isinstance(heads, Sequence) else (heads,)
    count = 1 if isinstance(heads, str) else len(heads)
    blockwise = None if isinstance(heads, str) else Blockwise(step, heads, sentence=sentence)
    height, width = (max(1, int(side / count**0.5)) for side in (HEIGHT, WIDTH))
    for down in _stretches(queries, tile, height * torch.get_num_threads()):
        sums = step.logsumexp[sentence, slice(None) if isinstance(heads, str) else list(heads), down.slice]
        # rows whose weights ignore the mask: NaN, or without an open key and not set to zero
        is_filled = bool((sums.isnan() | ((sums == -torch.inf) & (step.scoring.empty_rows != "zero"))).any())
        cells, weigh = blockwise.rows(down.slice) if blockwise else (None, None)
        for across in _stretches(keys, tile, width):
            allowed, open = None, is_open(step, down.places, across.places, sentence=sentence)
            if open is None:
                open, allowed = _open_cells(step, heads, down.places, across.places, sentence)
            if open is False and not is_filled:
                numbers = None
            elif blockwise:
                numbers = cells(across.slice, allowed)
            else:
                numbers = weights_of(step, heads, down.slice, across.slice, sentence=sentence)[None]
            yield Block(down, across, open, numbers, weigh)
        before, done = (count * rows / len(queries) for rows in (down.start, down.start + len(down.places)))
        for _ in range(int(done) - int(before)):  # maps that are complete now
            tell(1.0)
        if done % 1:
            tell(done % 1)


def openings(
    mask: Mask, lengths: tuple[int, int], queries: range, keys: range, tile: int = 1, *, sentence: int = 0
) -> Iterator[Block]:
    """Iterate over a mask in blocks like `blocks`, without weights; `lengths` are its numbers of queries and keys."""
    mask_of_text = mask.of_sentence(sentence)
    for down in _stretches(queries, tile, HEIGHT):
        for across in _stretches(keys, tile, WIDTH):
            open = mask_of_text.is_open(down.places, across.places)
            if open is None:
                open = mask.grid(*lengths, sentence=sentence, rows=down.slice, columns=across.slice)
            yield Block(down, across, open, None, None)


def _open_cells(
    step: Step, heads: str | Sequence[int], rows: range, columns: range, sentence: int
) -> tuple[Tensor | bool, Tensor]:
    """Return the open cells of a block as `Block.open`, False if no cell is open, and as a mask."""
    if isinstance(step.mask, Mask):
        return _open_cells_of_mask(step.mask, step.shape[2:], rows, columns, sentence)
    window = {"rows": _slice(rows), "columns": _slice(columns), "sentence": sentence}
    if isinstance(heads, str):
        allowed = may_attend(step, heads, **window)
    else:
        masks = [step.may_attend(head, **window) for head in heads[: None if has_own_masks(step) else 1]]
        allowed = masks[0] if len(masks) == 1 else torch.stack(masks)
    return allowed if allowed.any() else False, allowed


@lru_cache(maxsize=32)
def _open_cells_of_mask(
    mask: Mask, lengths: tuple[int, int], rows: range, columns: range, sentence: int
) -> tuple[Tensor | bool, Tensor]:
    """Return `_open_cells` for a `Mask`; cached, because layers that are drawn one after another share a mask."""
    allowed = mask.grid(*lengths, sentence=sentence, rows=_slice(rows), columns=_slice(columns))
    return allowed if allowed.any() else False, allowed


def _slice(places: range) -> slice:
    """Convert a range to a slice."""
    return slice(places.start, places.stop, places.step)


def _stretches(places: range, tile: int, most: int) -> Iterator[Stretch]:
    """Cut an axis into runs of at most `most` positions, each of whole tiles or a part of one tile."""
    n, width = len(places), max(tile, most // tile * tile)  # `width` is one tile if a tile is longer than `most`
    for start in range(0, n, width):
        for begin in range(start, min(start + width, n), min(width, most)):
            end = min(begin + min(width, most), start + width, n)
            middle = begin + (end - begin) // tile * tile  # whole tiles end here, and a part of a tile begins
            if begin < middle:
                yield Stretch(places[begin:middle], begin, begin // tile, (middle - begin) // tile, tile)
            if middle < end:
                yield Stretch(places[middle:end], middle, middle // tile, 1, end - middle)


def window_ranges(step: Step, rows: slice, columns: slice) -> tuple[range, range]:
    """Convert slices of rows and columns to the positions of the queries and keys."""
    return range(*rows.indices(step.shape[2])), range(*columns.indices(step.shape[3]))


def row_slices(queries: int, keys: int, tile: int = 1) -> list[slice]:
    """Cut a map into at least one slice of rows, of about `BLOCK` cells and, except the last one, of whole tiles."""
    height = max(1, BLOCK // max(1, keys) // tile) * tile
    return [slice(start, min(start + height, queries)) for start in range(0, max(1, queries), height)]


def pool(block: Tensor, tile: int, how: str = "max") -> Tensor:
    """Pool each tile to its largest ("max") or smallest ("min") number, (n, m) -> (⌈n / tile⌉, ⌈m / tile⌉).

    The last tiles may hold fewer cells.
    """
    if tile == 1:
        return block
    n, m = block.shape
    if n % tile or m % tile:
        fill = -torch.inf if how == "max" else torch.inf
        block = torch.nn.functional.pad(block, (0, -m % tile, 0, -n % tile), value=fill)
    for axis in (1, 0):
        parts = block.unflatten(axis, (-1, tile))
        block = parts.amax(axis + 1) if how == "max" else parts.amin(axis + 1)
    return block


def diagonal_sums(cells: Tensor) -> Tensor:
    """Sum each diagonal of numbers, (..., n, m) -> (..., n + m - 1), beginning at the lower left corner.

    The numbers are copied with n - 1 zeros before the first and n zeros after each row. With a row stride that is
    larger by 1, the diagonals of this copy are columns.
    """
    *batch, n, m = cells.shape
    padded = cells.new_zeros(*batch, n * (n + m) + n)
    padded[..., n - 1 : n - 1 + n * (n + m)].view(*batch, n, n + m)[..., :m] = cells
    skewed = padded.as_strided((*batch, n, n + m - 1), (*padded.stride()[:-1], n + m + 1, 1))
    return skewed.sum(-2)


def largest_in_size(numbers: np.ndarray, tile: int) -> np.ndarray:
    """Pool each tile to its number of largest magnitude, with its sign; NaN where no number is finite."""
    if tile == 1:
        return numbers
    filled = torch.from_numpy(np.nan_to_num(numbers))
    is_finite = pool(torch.from_numpy(np.isfinite(numbers).astype(np.float64)), tile).numpy() > 0
    high, low = pool(filled, tile).numpy(), pool(filled, tile, "min").numpy()
    return np.where(is_finite, np.where(-low > high, low, high), np.nan)


@dataclass(frozen=True, eq=False)
class ByDistance:
    """Weights of a head, summed by distance from query to key. NaN in a row makes all distances of its cells NaN.

    Attributes:
        distances: all values of key - query, in increasing order; 0 is the query itself.
        sums: sum of the weights of all pairs at that distance, float64.
        pairs: number of open pairs.
    """

    distances: np.ndarray
    sums: np.ndarray
    pairs: np.ndarray

    def within(self, most: int) -> float:
        """Return the share of weight on keys at most `most` tokens from the query; NaN if all weights are 0."""
        with np.errstate(invalid="ignore"):
            return float(self.sums[abs(self.distances) <= most].sum() / self.sums.sum())

    def curve(self) -> pd.DataFrame:
        """Make a table of bins that double in size: nearest, furthest, share of the weights, pairs, mean weight.

        The bins are 0, 1, 2 to 3, 4 to 7, ..., negative for keys before the query. The mean is NaN in bins without an
        open pair, even if empty rows were given weights there.
        """
        number = np.floor(np.log2(np.maximum(abs(self.distances), 0.5))).astype(int) + 1
        bin_of = np.sign(self.distances) * number
        bins = np.split(np.arange(len(bin_of)), np.flatnonzero(np.diff(bin_of)) + 1)  # indices of the distances
        ends = [sorted((int(self.distances[i[0]]), int(self.distances[i[-1]])), key=abs) for i in bins]
        sums, pairs = (np.array([numbers[i].sum() for i in bins]) for numbers in (self.sums, self.pairs))
        columns = {"nearest": [nearest for nearest, _ in ends], "furthest": [furthest for _, furthest in ends]}
        mean = np.divide(sums, pairs, out=np.full(len(sums), np.nan), where=pairs > 0)
        with np.errstate(invalid="ignore"):
            return pd.DataFrame(columns | {"share": sums / self.sums.sum(), "pairs": pairs, "mean": mean})


def by_distance(step: Step, head: int | str, *, sentence: int = 0) -> ByDistance:
    """Sum the weights of a head by distance; weight on a sink has no distance and is left out. Cached per step.

    Raises:
        InputError: for linear attention, whose weights are no shares of a row.
    """
    if step.linear:
        raise InputError(f"{step.site} is linear attention: its weights are no shares that distances could divide.")
    name, curve = _by_distance.get(step, (None, None))
    if name == (head, sentence):
        return curve
    queries, keys = range(step.shape[2]), range(step.shape[3] - step.has_sink)
    sums = torch.zeros(len(queries) + len(keys) - 1, dtype=torch.float64)
    pairs = torch.zeros(len(sums), dtype=torch.int64)
    for block in blocks(step, head, queries, keys, sentence=sentence):
        high, wide = len(block.down.places), len(block.across.places)
        first = block.across.start - block.down.places[-1] + queries[-1]  # smallest distance of the block
        diagonals = slice(first, first + high + wide - 1)
        if block.open is not False:
            open_cells = torch.ones(high, wide, dtype=torch.int64) if block.open is True else block.open.long()
            pairs[diagonals] += diagonal_sums(open_cells)
        if block.weights is not None:
            sums[diagonals] += diagonal_sums(block.weights.double())
    curve = ByDistance(np.arange(len(sums)) - queries[-1], sums.numpy(), pairs.numpy())
    _by_distance[step] = (head, sentence), curve
    return curve


_by_distance: WeakKeyDictionary[Step, tuple[tuple[int | str, int], ByDistance]] = WeakKeyDictionary()
"""Cached result of the last call for each step, with its head and sentence: 24 bytes per distance."""
