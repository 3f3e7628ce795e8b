"""Proposals of each rule for `core.explain`, as they were in its file."""

import math
from collections.abc import Iterator
from itertools import pairwise

import torch

from attnviz.core.masks.base import Mask
from attnviz.core.masks.observed import Observed, counts
from attnviz.core.masks.rules import *  # noqa: F403

# ruff: noqa: F405


def _lengths(starts: list[int], size: int) -> tuple[int, ...]:
    """Lengths of the documents that begin at the start and at these positions."""
    return tuple(end - start for start, end in pairwise([0, *(start for start in starts if 0 < start < size), size]))


def fits_Blank(cls, observed: Observed) -> Iterator[Mask]:
    """Keys that no query sees, where others are seen before and after them."""
    is_open = counts(observed.known_open, 0) > 0
    blank = (~is_open & observed.known.any(0)).nonzero().flatten().tolist()
    others = is_open.nonzero().flatten().tolist()
    if blank and 2 * len(blank) < len(others) and others[0] < blank[0] and blank[-1] < others[-1]:
        yield cls(tuple(blank))


Blank.fits = classmethod(fits_Blank)


def fits_BlockDiffusion(cls, observed: Observed) -> Iterator[Mask]:
    """Half as long as the sequence; noised queries see one block of noised keys."""
    half = observed.keys // 2
    if observed.queries == observed.keys == 2 * half and not observed.first and half:
        noised = counts(observed.known_open[:half, :half], 1)
        sizes = {int(noised[0]), int(noised.mode().values)}
        yield from (cls(size, half) for size in sizes if 0 < size <= half)


BlockDiffusion.fits = classmethod(fits_BlockDiffusion)


def fits_Blocks(cls, observed: Observed) -> Iterator[Mask]:
    """Sizes that the turns of the rows have in common, and any where random keys hide them."""
    sizes = {math.gcd(*observed.turns), math.gcd(*observed.ends), int(observed.per_row[0])} - {0, 1}
    for size in sorted(sizes):
        if size < observed.keys:
            yield from cls._of_size(observed, size)


Blocks.fits = classmethod(fits_Blocks)


def among_random_Blocks(cls, observed: Observed) -> Iterator[Mask]:
    """Masks of any size, where random keys make every row another."""
    for size in range(2, min(observed.keys // 2, 64) + 1):
        yield from cls._of_size(observed, size)


Blocks.among_random = classmethod(among_random_Blocks)


def _of_size_Blocks(cls, observed: Observed, size: int) -> Iterator[Mask]:
    """Around itself as far as whole blocks are open, with the first blocks that are open to most."""
    if observed.first or observed.queries != observed.keys:
        return
    blocks = observed.in_blocks(size)
    count = blocks.keys
    first = int((blocks.open_keys & blocks.open_rows).int().cumprod(0).sum())
    if first < count:
        rest = blocks.without(rows=torch.arange(count) < first, keys=torch.arange(count) < first)
        before, after = rest.window or (0, 0)
        yield cls(size, before, after, first)


Blocks._of_size = classmethod(_of_size_Blocks)


def fits_Dilated(cls, observed: Observed) -> Iterator[Mask]:
    """The first gap on either side is the step; as many of its multiples as are open."""
    near = observed.at_distance
    step = next((step for step in range(1, observed.keys) if near.get(-step) or near.get(step)), 0)
    if step < 2 or not near.get(0):
        return
    before, after = (next(n for n in range(observed.keys) if not near.get(side * (n + 1) * step)) for side in (-1, 1))
    yield cls(before, after, step)


Dilated.fits = classmethod(fits_Dilated)


def fits_Documents(cls, observed: Observed) -> Iterator[Mask]:
    """From where a query does not see the one before it; and from where it sees little of what that one sees."""
    yield cls(_lengths(observed.starts, observed.keys))
    shared = counts(observed.known_open[1:] & observed.known_open[:-1], 1)
    apart = 2 * shared < observed.per_row[:-1]
    yield cls(_lengths((apart.nonzero().flatten() + 1 + observed.first).tolist(), observed.keys))


Documents.fits = classmethod(fits_Documents)


def fits_Fixed(cls, observed: Observed) -> Iterator[Mask]:
    """The first key is seen by one block alone, and so are others of it but its last ones."""
    if observed.first or observed.queries < 3:
        return
    column = observed.known_open[:, 0].int()
    stride = int(column.cumprod(0).sum())
    if 1 < stride < observed.queries:
        summary = int(observed.known_open[-1, :stride].flip(0).int().cumprod(0).sum())
        if 0 < summary < stride:
            yield cls(stride, summary)


Fixed.fits = classmethod(fits_Fixed)


def fits_Full(cls, observed: Observed) -> Iterator[Mask]:
    yield cls()


Full.fits = classmethod(fits_Full)


def fits_Global(cls, observed: Observed) -> Iterator[Mask]:
    """Tokens that see nearly all that is known, and are seen by nearly all."""
    size = min(observed.queries, observed.keys - max(0, observed.first))
    if observed.first < 0 or size < 1:
        return
    both = observed.open_rows[:size] & observed.open_keys[observed.first : observed.first + size]
    positions = (both.nonzero().flatten() + observed.first).tolist()
    if 0 < len(positions) <= observed.keys // 2:
        yield cls(tuple(positions))


Global.fits = classmethod(fits_Global)


def fits_Media(cls, observed: Observed) -> Iterator[Mask]:
    """As many keys as most queries see, and where each stretch of them is seen first."""
    size = observed.usual
    one_image = size == observed.keys == observed.queries  # which may as well be anything else
    if not size or observed.first or observed.keys % size or one_image:
        return
    images = counts(observed.known_open.view(observed.queries, -1, size), 2) * 2 > size
    if images.any(0).all():
        yield cls(tuple(images.int().argmax(0).tolist()), size)


Media.fits = classmethod(fits_Media)


def fits_Neighborhood(cls, observed: Observed) -> Iterator[Mask]:
    """As many keys as most queries see, and as far apart."""
    if observed.usual and not observed.first and observed.queries == observed.keys:
        yield cls(observed.usual, observed.keys, max(1, observed.gap))


Neighborhood.fits = classmethod(fits_Neighborhood)


def fits_Padding(cls, observed: Observed) -> Iterator[Mask]:
    """Keys that no query sees at the end, or at the start; once more where a single cell is open there."""
    for most in (0, 1) if observed.queries > 5 else (0,):
        used = (counts(observed.known_open, 0) > most).nonzero().flatten()
        if len(used) and used[-1] < observed.keys - 1:
            yield cls((int(used[-1]) + 1,))
        if len(used) and used[0] > 0:
            yield cls((observed.keys - int(used[0]),), observed.keys)


Padding.fits = classmethod(fits_Padding)


def fits_Prefix(cls, observed: Observed) -> Iterator[Mask]:
    """The first keys that are open to most, among cells that something else would have closed."""
    has_known = observed.known.any(0)
    closed = (2 * counts(observed.known_open, 0) <= counts(observed.known, 0)) & has_known
    length = int(closed.int().argmax()) if closed.any() else observed.keys
    while length and not has_known[length - 1]:
        length -= 1
    if length:
        yield cls(length)


Prefix.fits = classmethod(fits_Prefix)


def fits_Strided(cls, observed: Observed) -> Iterator[Mask]:
    """As many keys as it sees without a gap."""
    if observed.window and 1 < observed.window[0] < observed.keys - 1:
        yield cls(observed.window[0])


Strided.fits = classmethod(fits_Strided)


def fits_Subsequent(cls, observed: Observed) -> Iterator[Mask]:
    """Up to the query itself, or some keys further for all."""
    if observed.window:
        yield cls(observed.window[1])


Subsequent.fits = classmethod(fits_Subsequent)


def fits_Window(cls, observed: Observed) -> Iterator[Mask]:
    if observed.window:
        yield cls(*observed.window)


Window.fits = classmethod(fits_Window)


def _none(cls, observed):
    yield from ()


Mask.fits = classmethod(_none)
