"""Cells painted by hand: which entries at the end of a stack hold them, and what changes there."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product, takewhile

from attnviz.core.masks import Full, Opened, Painted
from attnviz.core.stack import Entry, Stack
from attnviz.ui.shared.mask_link import usual

Cells = Iterable[tuple[int, int]]


def painted(stack: Stack, cells: Cells, *, opened: bool, sentence: int = 0) -> Stack:
    """The stack with some cells blocked, or opened.

    What is painted last counts, so it is held by the last entries: one that blocks cells and one that opens them,
    wherever the rules before them say otherwise. An entry that holds no cell is taken away.
    """
    cells, kinds = set(cells), (Painted, Opened)
    there, missing = kinds if opened else kinds[::-1]
    stack = _held(stack, there, lambda held: held - cells)
    wrong = cells - opening(stack, cells, sentence) if opened else opening(stack, cells, sentence)
    return _held(stack, missing, lambda held: held | wrong)


def opening(stack: Stack, cells: Cells, sentence: int = 0) -> set[tuple[int, int]]:
    """Those of some cells, (query, key), that the rules leave open."""
    cells = list(cells)
    if not cells:
        return set()
    (top, left), (bottom, right) = (tuple(map(end, zip(*cells, strict=True))) for end in (min, max))
    rows, columns = slice(top, bottom + 1), slice(left, right + 1)
    mask = stack.mask() or Full()
    grid = mask.grid(bottom + 1, right + 1, sentence=sentence, rows=rows, columns=columns)
    return {(query, key) for query, key in cells if grid[query - top, key - left]}


def flipped(stack: Stack, cell: tuple[int, int], *, sentence: int = 0) -> Stack:
    """The stack with one cell blocked if it was open, and opened if it was blocked."""
    return painted(stack, [cell], opened=not opening(stack, [cell], sentence), sentence=sentence)


@dataclass(frozen=True)
class Drag:
    """A drag over cells, and its effect.

    Attributes:
        over: its start and end along rows and columns, as the browser reports it: {"row": [1.2, 3.4], ...}.
        base: the stack before it.
        opened: whether it opens cells or blocks them.
        stack: the stack with it.
        goes_on: whether the browser reported its beginning before: a slow drag arrives in parts.
        first: the cell at which rows and columns begin.
    """

    over: dict[str, list[float]]
    base: Stack
    opened: bool
    stack: Stack
    goes_on: bool
    first: tuple[int, int] = (0, 0)

    @property
    def cells(self) -> set[tuple[int, int]]:
        """Each (query, key) that it went over."""
        stretches = [sorted(self.over.get(name) or [0.0, 0.0]) for name in ("row", "column")]
        ends = zip(stretches, self.first, strict=True)
        return set(product(*(range(first + math.floor(a), first + math.ceil(b)) for (a, b), first in ends)))


def dragged(stack: Stack, over: dict, before: Drag | None, sentence: int = 0, first: tuple[int, int] = (0, 0)) -> Drag:
    """Apply a drag to a stack: it blocks its cells or, if all of them are blocked, opens them.

    Args:
        before: the drag before it, of which this one may be more.
        first: the cell at which rows and columns begin.
    """
    drag = Drag(over, stack, False, stack, False, first)
    if before and before.stack == stack and before.cells < drag.cells:
        drag = Drag(over, before.base, before.opened, stack, True, first)
    else:
        drag = replace(drag, opened=not opening(stack, drag.cells, sentence))
    return replace(drag, stack=painted(drag.base, drag.cells, opened=drag.opened, sentence=sentence))


def _held(stack: Stack, kind: type[Painted] | type[Opened], change) -> Stack:
    """The stack with other cells in its entry of a kind among the last that are painted."""
    index = next((i for i in _tail(stack) if isinstance(stack.entries[i].mask, kind)), None)
    cells = change(set() if index is None else set(stack.entries[index].mask.cells))
    if index is None:
        return stack.added(usual(kind(tuple(cells)))) if cells else stack
    changed = replace(stack.entries[index], mask=kind(tuple(cells)))
    return stack.replaced(index, changed) if cells else stack.removed(index)


def _tail(stack: Stack) -> list[int]:
    """The entries at the end that hold painted cells, from the last on."""
    return [*takewhile(lambda i: _holds(stack.entries[i]), reversed(range(len(stack.entries))))]


def _holds(entry: Entry) -> bool:
    return isinstance(entry.mask, Painted | Opened) and entry == usual(entry.mask)
