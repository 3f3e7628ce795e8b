"""A map in tiles, exact and never held whole: of each tile the largest weight and where it is, the sum and the mean.

Weights come block by block from the log-sum-exp that the step kept; what a mask is known to block is not computed.

    r c rows and columns of tiles   R C queries and keys of a block that are in one tile
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from attnviz.analysis import rows as of_each_row
from attnviz.analysis.combined import has_own_masks
from attnviz.analysis.stream import CellBlock, Ranked, blocks, openings, ranked
from attnviz.core.masks import Mask
from attnviz.core.record import ALL, Step

TILES = 512
"""Tiles on the longer side of a map, unless asked otherwise."""

MOST_KNOWN = 200_000_000
"""Bytes of the whole maps of a long text that are kept in tiles: a zoom draws the same thumbnails again."""

_cache: WeakKeyDictionary[Step, dict[tuple, "Pooled"]] = WeakKeyDictionary()
"""By head, sentence and tile, for as long as there is their step."""


@dataclass(frozen=True, eq=False)
class Pooled:
    """A window of one head, or of all combined, in squares of `tile` x `tile` cells; arrays are (r, c).

    Of several heads, see `largest_of`, the largest weights are (H, r, c), and what is open where masks differ.

    Attributes:
        queries, keys: the first position of each row and of each column.
        tile: cells per side; the last tiles may hold fewer.
        largest: the largest weight of a tile; NaN if any is.
        at_query, at_key: where it stands; None if it was not asked for.
        sums: of the weights, float64; None if they were not asked for.
        sizes: how many cells a tile holds.
        open: how many of them may be attended to; the others weigh nothing.
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
        """The size of its arrays in bytes."""
        return sum(part.nbytes for part in vars(self).values() if isinstance(part, np.ndarray))

    @property
    def means(self) -> np.ndarray:
        """The mean weight of each tile over all its cells, the blocked ones too."""
        return self.sums / self.sizes


def pooled(
    step: Step,
    head: int | str,
    *,
    sentence: int = 0,
    rows: slice = ALL,
    columns: slice = ALL,
    tile: int | None = None,
) -> Pooled:
    """Pool a window of one head, or of all heads combined; by default into at most `TILES` tiles on a side.

    Time grows with the cells that are not known to be blocked, memory with the tiles.
    """
    queries, keys = (range(*part.indices(n)) for part, n in zip((rows, columns), step.shape[2:], strict=True))
    tile = tile or max(1, -(-max(len(queries), len(keys)) // TILES))

    def find() -> Pooled:
        tiles, take = Tiles(queries, keys, tile, torch.promote_types(step.query.dtype, torch.float32)), None
        if of_each_row.is_long(step, queries, keys):  # who asks for a whole map asks for the largest of each row next
            take, finish = of_each_row.seeker(step, head, queries, keys, sentence=sentence)
        for block in blocks(step, head, queries, keys, tile, sentence=sentence):
            tiles.add(block)
            if take:
                take(block)
        if take:
            finish()
        return tiles.pooled()

    return _once(step, (head, sentence, tile), find) if of_each_row.is_long(step, queries, keys) else find()


def largest_of(
    step: Step, heads: Sequence[int], *, sentence: int = 0, rows: slice = ALL, columns: slice = ALL, tile: int
) -> Pooled:
    """`pooled` of several heads at once, the largest weights alone, which is what thumbnails show.

    The largest weight of a tile has the largest logarithm, so that one exp is taken for a tile, not for each cell.
    """
    queries, keys = (range(*part.indices(n)) for part, n in zip((rows, columns), step.shape[2:], strict=True))

    def find() -> Pooled:
        tiles, shape = Tiles(queries, keys, tile, torch.float32), (len(queries[::tile]), len(keys[::tile]))
        tiles.largest = torch.zeros(len(heads), *shape, dtype=torch.promote_types(step.query.dtype, torch.float32))
        if has_own_masks(step):
            tiles.open = torch.zeros(len(heads), *shape, dtype=torch.int64)
        for block in ranked(step, heads, queries, keys, tile, sentence=sentence):
            tiles.add_ranked(block)
        return tiles.pooled(largest_alone=True)

    name = (tuple(heads), sentence, tile)
    return _once(step, name, find) if of_each_row.is_long(step, queries, keys) else find()


def _once(step: Step, name: tuple, find: Callable[[], Pooled]) -> Pooled:
    """The whole map of a long text, which is kept."""
    cached = _cache.setdefault(step, {})
    if (result := cached.get(name)) is None:
        result = find()
        while cached and result.nbytes + sum(item.nbytes for item in [*cached.values()]) > MOST_KNOWN:
            cached.pop(next(iter(cached)), None)
        cached[name] = result
    return result


def pooled_mask(
    mask: Mask,
    lengths: tuple[int, int],
    *,
    sentence: int = 0,
    rows: slice = ALL,
    columns: slice = ALL,
    tile: int,
) -> Pooled:
    """How much of each tile of a mask is open, over so many queries and keys; it has no weights, so they are 0."""
    queries, keys = (range(*part.indices(n)) for part, n in zip((rows, columns), lengths, strict=True))
    tiles = Tiles(queries, keys, tile, torch.float32)
    for block in openings(mask, lengths, queries, keys, tile, sentence=sentence):
        tiles.add(block)
    return tiles.pooled()


class Tiles:
    """Largest weight, sum and open cells of each tile so far."""

    def __init__(self, queries: range, keys: range, tile: int, dtype: torch.dtype):
        self.places, self.tile = (queries, keys), tile
        shape = len(queries[::tile]), len(keys[::tile])
        self.largest, self.sums = torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=torch.float64)
        self.open, row, column = (torch.zeros(shape, dtype=torch.int64) for _ in range(3))
        self.argmax = row + torch.arange(shape[0])[:, None] * tile, column + torch.arange(shape[1]) * tile

    def _count(self, block: CellBlock | Ranked) -> None:
        """How many cells are open."""
        down, across, open = block.down, block.across, block.open
        if isinstance(open, Tensor):
            open = open.view(-1, down.count, down.size, len(across.places)).sum(2)
            open = open.view(-1, down.count, across.count, across.size).sum(3).squeeze(0)
        else:
            open *= down.size * across.size
        self.open[..., down.tiles, across.tiles] += open

    def add_ranked(self, block: Ranked) -> None:
        """Add a block of cells of several heads: the largest weights alone."""
        self._count(block)
        if block.cells is not None:
            down, across = block.down, block.across
            most = block.cells.view(-1, down.count, down.size, len(across.places)).amax(2)
            most = block.weigh(most.view(-1, down.count, across.count, across.size).amax(3))
            here = self.largest[:, down.tiles, across.tiles]
            here.copy_(here.maximum(most))

    def add(self, block: CellBlock) -> None:
        """Add a block of cells."""
        self._count(block)
        down, across, weights = block.down, block.across, block.weights
        shape, tiles = (down.count, across.count, across.size), (down.tiles, across.tiles)  # (r, c, C)
        if weights is None:
            return
        lines = weights.view(down.count, down.size, -1)  # (r, R, c C)
        self.sums[tiles] += lines.sum(1).view(shape).sum(2, dtype=torch.float64)
        most, column = lines.amax(1).view(shape).max(2)
        starts = torch.arange(down.count)[:, None] * down.size, torch.arange(across.count) * across.size
        chosen = (starts[1] + column)[:, None].expand(-1, down.size, -1)
        row = _first(lines.gather(2, chosen), most)
        before = self.largest[tiles]
        stays = (most <= before) | before.isnan()
        before.copy_(before.where(stays, most))
        for positions, part, start, inside in zip(self.argmax, (down, across), starts, (row, column), strict=True):
            positions[tiles] = positions[tiles].where(stays, part.start + start + inside)

    def pooled(self, *, largest_alone: bool = False) -> Pooled:
        """The tiles of all blocks that were added."""
        starts = [np.arange(0, len(part), self.tile) for part in self.places]
        sizes = [np.diff(np.append(start, len(part))) for start, part in zip(starts, self.places, strict=True)]
        where = [np.arange(part.start, part.stop, part.step) for part in self.places]
        firsts = [places[start] for places, start in zip(where, starts, strict=True)]
        more = [None, None, None]
        if not largest_alone:
            more = [
                *(places[index.numpy()] for places, index in zip(where, self.argmax, strict=True)),
                self.sums.numpy(),
            ]
        arrays = self.largest.numpy(), *more, np.outer(*sizes), self.open.numpy()
        return Pooled(*firsts, self.tile, *arrays)


def _first(cells: Tensor, most: Tensor) -> Tensor:
    """The first row of each tile's column (r, R, c) that holds its largest weight (r, c): as argmax(1), much faster."""
    if most.isnan().any():
        return cells.argmax(1)
    rows = torch.arange(cells.shape[1], dtype=torch.int32)[:, None]
    return torch.where(cells == most[:, None], rows, cells.shape[1]).amin(1).long()
