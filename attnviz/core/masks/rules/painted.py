"""Single cells blocked by hand."""

from dataclasses import dataclass

from attnviz.core.masks.cells import SingleCells
from attnviz.core.masks.pen import Expression, Pen


@dataclass(frozen=True)
class Painted(SingleCells):
    """Blocks single cells, (query, key), chosen by hand."""

    rule = "painted"
    keyword = "blocked"
    meaning = "blocks single cells"

    def allows(self, query, key, sentence):
        return ~self.among(query, key)

    def is_open(self, queries, keys):
        return None if self.any_in(queries, keys) else True

    def code(self, pen: Pen) -> Expression:
        return self.written(pen, opened=False)

    def __str__(self) -> str:
        return "painted"
