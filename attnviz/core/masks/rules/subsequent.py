"""The causal mask of every decoder."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import distances, within
from attnviz.core.masks.observed import Observed
from attnviz.core.masks.pen import Expression, Pen
from attnviz.core.parameters import MOST, parameter


@dataclass(frozen=True)
class Subsequent(Mask):
    """Blocks the future: query i sees the keys 0 to i + offset. Also called causal or look-ahead mask.

    With an offset of 0 the two sequences are aligned top-left, as `is_causal` of PyTorch's SDPA does; keys - queries
    aligns them bottom-right, as when a cache holds the past.
    """

    rule = "subsequent"
    keyword = "causal"
    meaning = "blocks the future: a query sees itself and what is before it"
    offset: int = parameter("offset", default=0, least=-MOST)

    def allows(self, query, key, sentence):
        return key <= query + self.offset

    def is_open(self, queries, keys):
        return within(*distances(queries, keys), -math.inf, self.offset)

    def shifted(self, offset):
        return Subsequent(self.offset + offset)

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """Up to the query itself, or some keys further for all."""
        if observed.window:
            yield cls(observed.window[1])

    def code(self, pen: Pen) -> Expression:
        return pen.band(None, pen.diagonal(self.offset))

    def __str__(self) -> str:
        return f"causal (offset {self.offset})" if self.offset else "causal"
