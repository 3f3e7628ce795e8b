"""A map in tiles, exact and never held whole: of each tile the largest weight and where it is, the sum and the mean.

Weights come block by block from the log-sum-exp that the step kept; what a mask is known to block is not computed.

    r c rows and columns of tiles   R C queries and keys of a block that are in one tile
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnviz.core.blocks import Blockwise, is_open
from attnviz.core.record import ALL, Step
from attnviz.metrics.combined import may_attend, weights_of

TILES = 512
"""Tiles on the longer side of a map, unless asked otherwise."""

HEIGHT, WIDTH = 512, 512
"""Queries of a block, for each thread, and its keys: 1 MB of float32, which stay in a cache."""


@dataclass(frozen=True, eq=False)
class Pooled:
    """A window of one head, or of all combined, in squares of `tile` x `tile` cells; arrays are (r, c).

    Attributes:
        queries, keys: the first position of each row and of each column.
        tile: cells per side; the last tiles may hold fewer.
        largest: the largest weight of a tile; NaN if any is.
        at_query, at_key: where it stands.
        sums: of the weights, float64.
        sizes: how many cells a tile holds.
        open: how many of them may be attended to; the others weigh nothing.
    """

    queries: np.ndarray
    keys: np.ndarray
    tile: int
    largest: np.ndarray
    at_query: np.ndarray
    at_key: np.ndarray
    sums: np.ndarray
    sizes: np.ndarray
    open: np.ndarray

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
    tiles = _Tiles(queries, keys, tile, torch.promote_types(step.query.dtype, torch.float32))
    weigh = _weighing(step, head, sentence)
    for down in _stretches(queries, tile, HEIGHT * torch.get_num_threads()):
        fills = _fills(step, head, sentence, down.slice)
        weights = weigh(down.slice)
        for across in _stretches(keys, tile, WIDTH):
            allowed, known = None, is_open(step, down.places, across.places, sentence=sentence)
            if known is None:
                allowed = may_attend(step, head, down.slice, across.slice, sentence=sentence)
                known = None if allowed.any() else False
            tiles.count(down, across, known, allowed)
            if fills or known is not False:
                tiles.add(down, across, weights(across.slice, allowed))
    return tiles.pooled()


def _weighing(
    step: Step, head: int | str, sentence: int
) -> Callable[[slice], Callable[[slice, Tensor | None], Tensor]]:
    """What gives the weights of rows; see `Blockwise.rows`."""
    if isinstance(head, int):
        return Blockwise(step, head, sentence=sentence).rows
    return lambda rows: lambda columns, _: weights_of(step, head, rows, columns, sentence=sentence)


def _fills(step: Step, head: int | str, sentence: int, rows: slice) -> bool:
    """Whether some rows weigh the same everywhere, blocked or not: they are NaN, or empty and not to be zero."""
    sums = step.logsumexp[sentence, slice(None) if isinstance(head, str) else head, rows]
    return bool((sums.isnan() | ((sums == -torch.inf) & (step.scoring.empty_rows != "zero"))).any())


@dataclass(frozen=True)
class _Stretch:
    """Positions of an axis that are in a block: `count` tiles from `first` on of `size` each, or a part of one."""

    places: range
    start: int
    first: int
    count: int
    size: int

    @property
    def tiles(self) -> slice:
        return slice(self.first, self.first + self.count)

    @property
    def slice(self) -> slice:
        return slice(self.places.start, self.places.stop, self.places.step)


def _stretches(places: range, tile: int, most: int) -> Iterator[_Stretch]:
    """An axis in stretches of at most `most` positions."""
    n, wide = len(places), max(tile, most // tile * tile)
    for start in range(0, n, wide):
        for begin in range(start, min(start + wide, n), min(wide, most)):
            end = min(begin + min(wide, most), start + wide, n)
            whole = (end - begin) // tile * tile
            for first, last, size in ((begin, begin + whole, tile), (begin + whole, end, end - begin - whole)):
                if first < last:
                    yield _Stretch(places[first:last], first, first // tile, (last - first) // size, size)


class _Tiles:
    """What is known of each tile so far."""

    def __init__(self, queries: range, keys: range, tile: int, dtype: torch.dtype):
        self.places, self.tile = (queries, keys), tile
        shape = len(queries[::tile]), len(keys[::tile])
        self.largest, self.sums = torch.zeros(shape, dtype=dtype), torch.zeros(shape, dtype=torch.float64)
        self.open, row, column = (torch.zeros(shape, dtype=torch.int64) for _ in range(3))
        self.at = row + torch.arange(shape[0])[:, None] * tile, column + torch.arange(shape[1]) * tile

    def count(self, down: _Stretch, across: _Stretch, known: bool | None, allowed: Tensor | None) -> None:
        """Add the cells of a block that may be attended to: all, none, or those of `allowed`."""
        if known:
            self.open[down.tiles, across.tiles] += down.size * across.size
        elif known is None:
            parts = allowed.view(down.count, down.size, across.count, across.size)
            self.open[down.tiles, across.tiles] += parts.sum(3).sum(1)

    def add(self, down: _Stretch, across: _Stretch, weights: Tensor) -> None:
        """Add the weights of a block."""
        shape, tiles = (down.count, across.count, across.size), (down.tiles, across.tiles)  # (r, c, C)
        lines = weights.view(down.count, down.size, -1)  # (r, R, c C)
        self.sums[tiles] += lines.sum(1).view(shape).double().sum(2)
        most, column = lines.amax(1).view(shape).max(2)
        starts = torch.arange(down.count)[:, None] * down.size, torch.arange(across.count) * across.size
        chosen = (starts[1] + column)[:, None].expand(-1, down.size, -1)
        row = lines.gather(2, chosen).argmax(1)
        before = self.largest[tiles]
        stays = (most <= before) | before.isnan()
        before.copy_(before.where(stays, most))
        for at, part, start, inside in zip(self.at, (down, across), starts, (row, column), strict=True):
            at[tiles] = at[tiles].where(stays, part.start + start + inside)

    def pooled(self) -> Pooled:
        """What was added."""
        starts = [np.arange(0, len(part), self.tile) for part in self.places]
        sizes = [np.diff(np.append(start, len(part))) for start, part in zip(starts, self.places, strict=True)]
        where = [np.arange(part.start, part.stop, part.step) for part in self.places]
        firsts = [places[start] for places, start in zip(where, starts, strict=True)]
        at = [places[index.numpy()] for places, index in zip(where, self.at, strict=True)]
        arrays = self.largest.numpy(), *at, self.sums.numpy(), np.outer(*sizes), self.open.numpy()
        return Pooled(*firsts, self.tile, *arrays)
