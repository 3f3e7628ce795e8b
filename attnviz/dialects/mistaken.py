"""The rules that stand for what a wrong reader saw, so that a mistake can be tried on a model."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from attnviz.core.masks import And, Full, Mask, Not, Or, Painted, Shifted
from attnviz.core.stack import Entry, Stack
from attnviz.dialects.handing import Handed


def entries_of(mask: Mask) -> tuple[Entry, ...] | None:
    """A mask as entries of a stack, joined from the first to the last; None if it does not part so."""
    entries = tuple(_parts(mask))
    return None if None in entries else entries


def meant(mask: Mask, queries: int, keys: int) -> Stack:
    """A mask as a stack; one that does not part into rules as the cells that it blocks."""
    entries = entries_of(mask)
    return Stack(entries) if entries is not None else _painted(~mask.grid(queries, keys))


def mistaken(mask: Mask, read: Handed, *, sentence: int = 0) -> Stack:
    """Mask that a reader saw, as a stack: the mask inverted rule by rule where that is it, else cell by cell.

    Args:
        mask: what was handed over.
        read: what became of it; not refused.
        sentence: of which sentence the cells are taken where they differ.
    """
    entries = entries_of(mask)
    if entries and torch.equal(read.seen, ~read.meant_grid):
        first, *others = Stack(entries).inverted().entries
        return Stack((replace(first, join="and"), *others))  # the first is joined to nothing
    if entries is not None and torch.equal(read.seen, read.meant_grid):
        return Stack(entries)
    return _painted(~read.seen[sentence if sentence < len(read.seen) else 0])


def _parts(mask: Mask) -> Iterator[Entry | None]:
    """The entries of a mask, None for a part that is none."""
    if isinstance(mask, And | Or):
        join, (first, *others) = ("and" if isinstance(mask, And) else "or"), mask.masks
        yield from _parts(first)
        for part in others:
            bare = part.mask if isinstance(part, Not) else part
            whole = isinstance(bare, And | Or | Not | Shifted | Full)
            yield None if whole else Entry(bare, join, isinstance(part, Not))
    elif isinstance(mask, Not):
        yield None if isinstance(mask.mask, And | Or | Not | Shifted | Full) else Entry(mask.mask, negated=True)
    elif not isinstance(mask, Full):
        yield None if isinstance(mask, Shifted) else Entry(mask)


def _painted(blocked: torch.Tensor) -> Stack:
    """A stack that blocks these cells, (Q, K); none if there are none."""
    cells = tuple((query, key) for query, key in blocked.nonzero().tolist())
    return Stack((Entry(Painted(cells)),)) if cells else Stack()
