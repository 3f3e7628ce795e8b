"""Sliding windows with gaps."""

from collections.abc import Iterator
from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import distances, within
from attnviz.core.masks.observed import Observed
from attnviz.core.parameters import check_numbers, parameter


@dataclass(frozen=True)
class Dilated(Mask):
    """A sliding window with gaps: query i sees `before` keys before itself and `after` after it, `step` apart.

    The keys are i - before · step, ..., i - step, i, i + step, ..., i + after · step. With a step of 1 it is `Window`.
    The dilated sliding window of Longformer (Beltagy et al. 2020, section 3.1).
    """

    rule = "dilated"
    meaning = "a sliding window with gaps"
    before: int = parameter("keys before", start=2)
    after: int = parameter("keys after", default=0)
    step: int = parameter("step", default=2, least=1)

    def __post_init__(self):
        check_numbers(self, step=1)

    def allows(self, query, key, sentence):
        distance = key - query
        near = (distance >= -self.before * self.step) & (distance <= self.after * self.step)
        return near & (distance % self.step == 0)

    def is_open(self, queries, keys):
        near = within(*distances(queries, keys), -self.before * self.step, self.after * self.step)
        return near if self.step == 1 or near is False else None

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """The first gap on either side is the step; as many of its multiples as are open."""
        near = observed.at_distance
        step = next((step for step in range(1, observed.keys) if near.get(-step) or near.get(step)), 0)
        if step < 2 or not near.get(0):
            return
        before, after = (
            next(n for n in range(observed.keys) if not near.get(side * (n + 1) * step)) for side in (-1, 1)
        )
        yield cls(before, after, step)

    def __str__(self) -> str:
        return f"dilated window ({self.before} before, {self.after} after, step {self.step})"
