"""Base of `Painted` and `Opened`: single cells, chosen by hand."""

import operator
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from torch import Tensor

from attnviz.core.errors import MaskError
from attnviz.core.masks.base import Mask
from attnviz.core.masks.pen import PREDICATE, Expression, Pen
from attnviz.core.masks.symbols import Symbol, is_in
from attnviz.core.parameters import parameter

WIDE = 2**32
"""Factor of the query in the number of a cell, query · WIDE + key."""


@dataclass(frozen=True)
class SingleCells(Mask):
    """Single cells, (query, key), in order and each once."""

    cells: tuple[tuple[int, int], ...] = parameter("cells", kind="cells", default=())

    def __post_init__(self):
        cells = {(operator.index(query), operator.index(key)) for query, key in self.cells}
        object.__setattr__(self, "cells", tuple(sorted(cells)))

    def among(self, query: Tensor, key: Tensor) -> Tensor:
        cells = self.cells if isinstance(query, Symbol) else [q * WIDE + k for q, k in self.cells]
        return is_in(query * WIDE + key, cells)

    def any_in(self, queries: range, keys: range) -> bool:
        """Whether there is one in a block."""
        rows = self.cells[bisect_left(self.cells, (queries[0],)) : bisect_left(self.cells, (queries[-1] + 1,))]
        return any(keys[0] <= key <= keys[-1] for _, key in rows)

    @property
    def text(self):
        if any(min(cell) < 0 for cell in self.cells):
            raise MaskError(f"The mask '{self}' has no text: it holds cells before the first query or key.")
        boxes = ", ".join(map(_rectangle, rectangles(self.cells)))
        return f"{self.keyword}({boxes})" if boxes else self.keyword

    def written(self, pen: Pen, *, opened: bool) -> Expression:
        """All cells alike, and then these changed."""
        shift = pen.shift
        inside = [(q - shift, k) for q, k in self.cells if 0 <= q - shift < pen.queries and 0 <= k < pen.keys]
        start = "zeros" if opened else "ones"
        pen.lines.append(f"{pen.name} = torch.{start}(queries, keys, dtype=torch.bool, device=query.device)")
        if inside:
            queries, keys = (list(side) for side in zip(*inside, strict=True))
            pen.lines.append(f"{pen.name}[{queries}, {keys}] = {opened}")
        return Expression(f"{pen.name}[q_idx, kv_idx]" if pen.style == PREDICATE else pen.name, frozenset("QK"))


def rectangles(cells: Iterable[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Cells as few rectangles, each (first query, last query, first key, last key).

    Stretches of a row come first; equal ones in rows that follow each other are one rectangle.
    """
    runs: list[list[int]] = []  # row, first key, last key
    for query, key in sorted(set(cells)):
        if runs and runs[-1][0] == query and runs[-1][2] == key - 1:
            runs[-1][2] = key
        else:
            runs.append([query, key, key])
    grown: dict[tuple[int, int], list[int]] = {}  # the last rectangle of a stretch of keys
    boxes: list[list[int]] = []
    for query, first, last in runs:
        box = grown.get((first, last))
        if box and box[1] == query - 1:
            box[1] = query
        else:
            grown[first, last] = box = [query, query, first, last]
            boxes.append(box)
    return [tuple(box) for box in boxes]


def _rectangle(box: tuple[int, int, int, int]) -> str:
    """Queries and keys: "3:0", or "3-5:0-2" for several."""
    return ":".join(str(first) if first == last else f"{first}-{last}" for first, last in (box[:2], box[2:]))
