"""Single cells opened by hand."""

from dataclasses import dataclass

from attnviz.core.masks.cells import SingleCells
from attnviz.core.masks.pen import Expression, Pen


@dataclass(frozen=True)
class Opened(SingleCells):
    """Opens single cells, (query, key), chosen by hand, and no other: ``mask | Opened(cells)`` opens them in a mask."""

    rule = "opened"
    meaning = "opens single cells"
    join = "or"

    def allows(self, query, key, sentence):
        return self.among(query, key)

    def is_open(self, queries, keys):
        return None if self.any_in(queries, keys) else False

    def code(self, pen: Pen) -> Expression:
        return self.written(pen, opened=True)

    def __str__(self) -> str:
        return "opened"
