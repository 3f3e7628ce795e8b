"""The weights of one head, or of all combined, block by block: all that is computed of a map of any length."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from attnviz.analysis.combined import has_own_masks, may_attend, weights_of
from attnviz.core.blocks import Blockwise, RowCells, is_open
from attnviz.core.masks import Mask
from attnviz.core.progress import tell
from attnviz.core.record import Step

HEIGHT, WIDTH = 512, 512
"""Queries of a block, for each thread, and its keys: 1 MB of float32, which stay in a cache."""


@dataclass(frozen=True)
class Stretch:
    """Positions of an axis that are in a block: `count` tiles of `size` each from tile `first` on, or a part of one.

    Attributes:
        places: the positions.
        start: how many positions of the axis stand before them.
    """

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
        return _slice(self.places)


@dataclass(frozen=True, eq=False)
class CellBlock:
    """A block of cells.

    Attributes:
        down, across: its queries and keys.
        open: which cells may be attended to, (queries, keys), or a boolean for all of them.
        weights: (queries, keys), until the next block; None where all are 0.
    """

    down: Stretch
    across: Stretch
    open: Tensor | bool
    weights: Tensor | None


class Ranked(NamedTuple):
    """A block of cells of several heads, as `CellBlock`.

    Attributes:
        open: which cells may be attended to, also (H, queries, keys); or a boolean for all of them.
        cells: numbers that rise with the weights, (H, queries, keys), until the next block; None where all weigh 0.
        weigh: makes weights of them, or of the largest of some; in place.
    """

    down: Stretch
    across: Stretch
    open: Tensor | bool
    cells: Tensor | None
    weigh: Callable[[Tensor], Tensor]


def blocks(
    step: Step, head: int | str, queries: range, keys: range, tile: int = 1, *, sentence: int = 0
) -> Iterator[CellBlock]:
    """Every block of a window, row by row; none holds a part of a tile beside another tile.

    What a mask is known to block is not computed. To `core.progress` the map is one call.
    """
    heads = head if isinstance(head, str) else (head,)
    for down, across, open, cells, weigh in ranked(step, heads, queries, keys, tile, sentence=sentence):
        yield CellBlock(down, across, open, None if cells is None else weigh(cells)[0])


def ranked(
    step: Step, heads: str | Sequence[int], queries: range, keys: range, tile: int = 1, *, sentence: int = 0
) -> Iterator[Ranked]:
    """As `blocks`, of several heads at once, or of all combined: of more heads the blocks are smaller."""
    of_one, count = isinstance(heads, str), 1 if isinstance(heads, str) else len(heads)
    rows = _combined(step, heads, sentence) if of_one else Blockwise(step, heads, sentence=sentence).rows
    high, wide = (max(1, int(side / count**0.5)) for side in (HEIGHT, WIDTH))
    for down in _stretches(queries, tile, high * torch.get_num_threads()):
        filled, (cells, weigh) = _filled(step, heads, sentence, down.slice), rows(down.slice)
        for across in _stretches(keys, tile, wide):
            allowed, open = None, is_open(step, down.places, across.places, sentence=sentence)
            if open is None:
                open, allowed = _looked_up(step, heads, down.places, across.places, sentence)
            there = filled or open is not False
            yield Ranked(down, across, open, cells(across.slice, allowed) if there else None, weigh)
        _tell(down, len(queries), count)


def _tell(down: Stretch, queries: int, count: int) -> None:
    """How much is done of the maps of some heads, which are gone through together."""
    before, now = (count * done / queries for done in (down.start, down.start + len(down.places)))
    for _ in range(int(now) - int(before)):
        tell(1.0)
    if now % 1:
        tell(now % 1)


def _looked_up(
    step: Step, heads: str | Sequence[int], rows: range, columns: range, sentence: int
) -> tuple[Tensor | bool, Tensor]:
    """Which cells of a block are open, or False for none, and the same as a tensor."""
    if isinstance(step.mask, Mask):
        return _of_mask(step.mask, step.shape[2:], rows, columns, sentence)
    window = {"rows": _slice(rows), "columns": _slice(columns), "sentence": sentence}
    if isinstance(heads, str):
        allowed = may_attend(step, heads, **window)
    else:
        each = [step.may_attend(head, **window) for head in heads[: None if has_own_masks(step) else 1]]
        allowed = each[0] if len(each) == 1 else torch.stack(each)
    return allowed if allowed.any() else False, allowed


@lru_cache(maxsize=32)
def _of_mask(
    mask: Mask, lengths: tuple[int, int], rows: range, columns: range, sentence: int
) -> tuple[Tensor | bool, Tensor]:
    """As `_looked_up`. Layers drawn one after another share a mask: the blocks of a text of 512 tokens are kept."""
    allowed = mask.grid(*lengths, sentence=sentence, rows=_slice(rows), columns=_slice(columns))
    return allowed if allowed.any() else False, allowed


def _slice(places: range) -> slice:
    return slice(places.start, places.stop, places.step)


def openings(
    mask: Mask, lengths: tuple[int, int], queries: range, keys: range, tile: int = 1, *, sentence: int = 0
) -> Iterator[CellBlock]:
    """As `blocks`, of a mask alone: no block has weights."""
    own_mask = mask.of_sentence(sentence)
    for down in _stretches(queries, tile, HEIGHT):
        for across in _stretches(keys, tile, WIDTH):
            open = own_mask.is_open(down.places, across.places)
            if open is None:
                open = mask.grid(*lengths, sentence=sentence, rows=down.slice, columns=across.slice)
            yield CellBlock(down, across, open, None)


def _combined(step: Step, how: str, sentence: int) -> Callable[[slice], RowCells]:
    """As `Blockwise.rows`, of combined heads."""

    def cells(rows: slice, columns: slice) -> Tensor:
        return weights_of(step, how, rows, columns, sentence=sentence)[None]

    return lambda rows: RowCells(lambda columns, _: cells(rows, columns), lambda weights: weights)


def _filled(step: Step, heads: str | Sequence[int], sentence: int, rows: slice) -> bool:
    """Whether some rows weigh the same everywhere, blocked or not: they are NaN, or empty and not to be zero."""
    sums = step.logsumexp[sentence, slice(None) if isinstance(heads, str) else list(heads), rows]
    return bool((sums.isnan() | ((sums == -torch.inf) & (step.scoring.empty_rows != "zero"))).any())


def _stretches(places: range, tile: int, most: int) -> Iterator[Stretch]:
    """An axis in stretches of at most `most` positions."""
    n, wide = len(places), max(tile, most // tile * tile)
    for start in range(0, n, wide):
        for begin in range(start, min(start + wide, n), min(wide, most)):
            end = min(begin + min(wide, most), start + wide, n)
            whole = (end - begin) // tile * tile
            for first, last, size in ((begin, begin + whole, tile), (begin + whole, end, end - begin - whole)):
                if first < last:
                    yield Stretch(places[first:last], first, first // tile, (last - first) // size, size)
