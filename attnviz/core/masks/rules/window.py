"""Sliding windows."""

from collections.abc import Iterator
from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import distances, within
from attnviz.core.masks.observed import Observed
from attnviz.core.masks.pen import Expression, Pen
from attnviz.core.parameters import parameter


@dataclass(frozen=True)
class Window(Mask):
    """A sliding window: query i sees the keys i - before to i + after."""

    rule = "window"
    meaning = "a sliding window: a query sees the keys near it"
    before: int = parameter("keys before", start=2)
    after: int = parameter("keys after", default=0)

    def allows(self, query, key, sentence):
        return (key >= query - self.before) & (key <= query + self.after)

    def is_open(self, queries, keys):
        return within(*distances(queries, keys), -self.before, self.after)

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        if observed.window:
            yield cls(*observed.window)

    def code(self, pen: Pen) -> Expression:
        return pen.band(str(pen.shift - self.before), str(pen.shift + self.after))

    def __str__(self) -> str:
        return f"window ({self.before} before, {self.after} after)"
