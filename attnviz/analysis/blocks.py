"""Weights of one head, of several, or of all combined, block by block: all that is computed of a map of any length."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce

import numpy as np
import torch
from torch import Tensor

from attnviz.core.blocks import Blockwise, is_open
from attnviz.core.errors import InputError
from attnviz.core.masks import Mask
from attnviz.core.progress import tell
from attnviz.core.record import ALL, Step

AGGREGATIONS = ("mean", "max", "min")
"""Ways to see all heads of a step as one."""

BLOCK = 2**21
"""Cells held at once (8 MB of float32)."""

HEIGHT, WIDTH = 512, 512
"""Queries of a block, for each thread, and its keys: 1 MB of float32, which stay in a cache."""


def weights_of(step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """Weights of one head, or of all as one, (rows, columns): their mean, or the largest or smallest of each cell."""
    if not isinstance(head, str):
        return step.weights(head, rows, columns, sentence=sentence)
    if head not in AGGREGATIONS:
        raise InputError(f"Heads cannot be combined by {head!r}; there are {', '.join(AGGREGATIONS)}.")
    join = {"mean": torch.add, "max": torch.maximum, "min": torch.minimum}[head]
    together = reduce(join, (step.weights(h, rows, columns, sentence=sentence) for h in range(step.num_heads)))
    return together / step.num_heads if head == "mean" else together


def reasons_of(
    step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0
) -> tuple[tuple[str, ...], Tensor]:
    """`Step.reasons` of one head; of combined heads a cell is blocked where every head blocks it."""
    reasons = [step.reasons(h, rows, columns, sentence=sentence) for h in _heads_that_differ(step, head)]
    return reasons[0][0], reduce(torch.minimum, (blocked for _, blocked in reasons))  # amin takes 8 ms of 256 x 256


def may_attend(step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """`Step.may_attend` of one head; of combined heads, where any may."""
    masks = [step.may_attend(h, rows, columns, sentence=sentence) for h in _heads_that_differ(step, head)]
    return torch.stack(masks).any(0)


def empty_queries(step: Step, head: int | str, *, sentence: int = 0) -> Tensor:
    """Which queries have no key left, boolean, (Q,); of combined heads, those that no head can answer."""
    heads = range(step.num_heads) if isinstance(head, str) else (head,)
    return torch.stack([step.empty_queries(h, sentence=sentence) for h in heads]).all(0)


def has_own_masks(step: Step) -> bool:
    """Whether heads may have different masks."""
    return isinstance(step.mask, Tensor) and step.mask.dim() == 4 and step.mask.shape[1] > 1


def _heads_that_differ(step: Step, head: int | str) -> Sequence[int]:
    """Heads to ask about masks: of combined heads that share one mask, the first stands for all."""
    if not isinstance(head, str):
        return (head,)
    return range(step.num_heads) if has_own_masks(step) else (0,)


@dataclass(frozen=True)
class Stretch:
    """Positions of an axis that are in a block: `count` tiles of `size` each from tile `first` on, or a part of one.

    `start` positions of the axis stand before them.
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

    @property
    def within(self) -> slice:
        """The positions, counted within the axis."""
        return slice(self.start, self.start + len(self.places))


@dataclass(frozen=True, eq=False)
class Block:
    """A block of cells.

    Attributes:
        down, across: queries and keys.
        open: which cells may be attended to, (queries, keys) or, of several heads, (H, queries, keys); or a boolean for
            all of them.
        cells: numbers that rise with the weights, (H, queries, keys), until the next block; None where all weigh 0.
        weigh: makes weights of them, or of the largest of some, in place; None where they are weights.
    """

    down: Stretch
    across: Stretch
    open: Tensor | bool
    cells: Tensor | None
    weigh: Callable[[Tensor], Tensor] | None

    @cached_property
    def weights(self) -> Tensor | None:
        """Weights of the only head, (queries, keys), until the next block; None where all are 0."""
        if self.cells is None:
            return None
        return (self.cells if self.weigh is None else self.weigh(self.cells))[0]


def blocks(
    step: Step, heads: int | str | Sequence[int], queries: range, keys: range, tile: int = 1, *, sentence: int = 0
) -> Iterator[Block]:
    """Every block of a window, row by row; none holds a part of a tile beside another tile.

    Parts that a mask blocks whole are not computed. `core.progress` counts a map as one call. Several heads have
    smaller blocks; `heads` may be a name of `AGGREGATIONS`.
    """
    heads = heads if isinstance(heads, Sequence) else (heads,)
    count = 1 if isinstance(heads, str) else len(heads)
    each = None if isinstance(heads, str) else Blockwise(step, heads, sentence=sentence)
    high, wide = (max(1, int(side / count**0.5)) for side in (HEIGHT, WIDTH))
    for down in _stretches(queries, tile, high * torch.get_num_threads()):
        sums = step.logsumexp[sentence, slice(None) if isinstance(heads, str) else list(heads), down.slice]
        # rows that weigh the same everywhere, blocked or not: they are NaN, or empty and not to be zero
        is_filled = bool((sums.isnan() | ((sums == -torch.inf) & (step.scoring.empty_rows != "zero"))).any())
        cells, weigh = each.rows(down.slice) if each else (None, None)
        for across in _stretches(keys, tile, wide):
            allowed, open = None, is_open(step, down.places, across.places, sentence=sentence)
            if open is None:
                open, allowed = _looked_up(step, heads, down.places, across.places, sentence)
            if open is False and not is_filled:
                numbers = None
            elif each:
                numbers = cells(across.slice, allowed)
            else:
                numbers = weights_of(step, heads, down.slice, across.slice, sentence=sentence)[None]
            yield Block(down, across, open, numbers, weigh)
        before, now = (count * done / len(queries) for done in (down.start, down.start + len(down.places)))
        for _ in range(int(now) - int(before)):
            tell(1.0)
        if now % 1:
            tell(now % 1)


def openings(
    mask: Mask, lengths: tuple[int, int], queries: range, keys: range, tile: int = 1, *, sentence: int = 0
) -> Iterator[Block]:
    """As `blocks`, of a mask alone: no block has weights."""
    own_mask = mask.of_sentence(sentence)
    for down in _stretches(queries, tile, HEIGHT):
        for across in _stretches(keys, tile, WIDTH):
            open = own_mask.is_open(down.places, across.places)
            if open is None:
                open = mask.grid(*lengths, sentence=sentence, rows=down.slice, columns=across.slice)
            yield Block(down, across, open, None, None)


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


def window_ranges(step: Step, rows: slice, columns: slice) -> tuple[range, range]:
    """Positions of the queries and keys of a window."""
    return range(*rows.indices(step.shape[2])), range(*columns.indices(step.shape[3]))


def row_slices(queries: int, keys: int, tile: int = 1) -> list[slice]:
    """Blocks of rows, at least one, of about `BLOCK` cells; each but the last is a whole number of tiles high."""
    height = max(1, BLOCK // max(1, keys) // tile) * tile
    return [slice(start, min(start + height, queries)) for start in range(0, max(1, queries), height)]


def pool(block: Tensor, tile: int, how: str = "max", *, across: int | None = None) -> Tensor:
    """The largest ("max") or smallest ("min") of each tile, (n, m) -> (⌈n / tile⌉, ⌈m / tile⌉).

    The last tiles may hold fewer cells. `across` sets their width apart from their height.
    """
    across = across or tile
    if tile == across == 1:
        return block
    fill = {"max": -torch.inf, "min": torch.inf}[how]
    n, m = block.shape
    if n % tile or m % across:
        block = torch.nn.functional.pad(block, (0, -m % across, 0, -n % tile), value=fill)
    for axis, size in ((1, across), (0, tile)):
        if size > 1:
            parts = block.unflatten(axis, (-1, size))
            block = {"max": parts.amax, "min": parts.amin}[how](axis + 1)
    return block


def diagonal_sums(cells: Tensor) -> Tensor:
    """The sum of each diagonal of (..., n, m) numbers, that of the lower left corner first, (..., n + m - 1).

    In a copy with n - 1 zeros before it and n after each row, a diagonal is a column of another stride.
    """
    *many, n, m = cells.shape
    padded = cells.new_zeros(*many, n * (n + m) + n)
    padded[..., n - 1 : n - 1 + n * (n + m)].view(*many, n, n + m)[..., :m] = cells
    turned = padded.as_strided((*many, n, n + m - 1), (*padded.stride()[:-1], n + m + 1, 1))
    return turned.sum(-2)


def largest_in_size(numbers: np.ndarray, tile: int) -> np.ndarray:
    """The number of largest magnitude in each square of cells, with its sign; NaN where all are."""
    if tile == 1:
        return numbers
    filled = torch.from_numpy(np.nan_to_num(numbers))
    is_finite = pool(torch.from_numpy(np.isfinite(numbers).astype(np.float64)), tile).numpy() > 0
    high, low = pool(filled, tile).numpy(), pool(filled, tile, "min").numpy()
    return np.where(is_finite, np.where(-low > high, low, high), np.nan)
