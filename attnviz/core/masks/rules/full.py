"""No mask at all."""

from collections.abc import Iterator
from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.observed import Observed
from attnviz.core.masks.pen import GRID, Expression, Pen


@dataclass(frozen=True)
class Full(Mask):
    """Every query may attend to every key."""

    rule = "full"
    meaning = "blocks nothing"

    def allows(self, query, key, sentence):
        return key == key

    def is_open(self, queries, keys):
        return True

    def shifted(self, offset):
        return self

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        yield cls()

    def code(self, pen: Pen) -> Expression:
        if pen.style == GRID:
            return Expression("torch.ones(queries, keys, dtype=torch.bool, device=query.device)", frozenset("K"))
        return Expression(f"{pen.lone_key} >= 0", frozenset("K"), True)

    def __str__(self) -> str:
        return "full"
