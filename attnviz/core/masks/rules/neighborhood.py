"""Neighborhood attention."""

from collections.abc import Iterator
from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import distances
from attnviz.core.masks.observed import Observed
from attnviz.core.parameters import check_numbers, parameter


@dataclass(frozen=True)
class Neighborhood(Mask):
    """Each query sees the `size` keys nearest to it, as many at the ends as in the middle; `step` apart.

    A window that stops at the ends instead of reaching beyond them: of `length` tokens, query i sees the keys from
    clamp(i - size // 2, 0, length - size) on. With a step, positions fall into `step` interleaved groups, each with
    neighborhoods of its own. In one dimension: neighborhood attention (Hassani et al. 2023, "NAT", section 3) and its
    dilated form (Hassani and Shi 2022, "DiNAT", section 3), as NATTEN computes them.
    """

    rule = "neighborhood"
    meaning = "a window that stops at the ends: every query sees as many keys (NATTEN)"
    size: int = parameter("neighbors", least=1, start=3)
    length: int = parameter("tokens", least=1, start=8)
    step: int = parameter("step", default=1, least=1)

    def __post_init__(self):
        check_numbers(self, size=1, length=1, step=1)

    @classmethod
    def started(cls, keys, lengths):
        return cls(min(3, max(1, keys)), max(1, keys))

    def allows(self, query, key, sentence):
        inside = (query >= 0) & (query < self.length) & (key < self.length) & ((key - query) % self.step == 0)
        place, key_place = query // self.step, key // self.step
        last = (self.length - 1 - query % self.step) // self.step  # the last place of the group
        reach = self.size // 2
        from_start = (key_place >= place - reach) | (key_place > last - self.size)
        to_end = (key_place < place - reach + self.size) | (key_place < self.size)
        return inside & from_start & to_end

    def is_open(self, queries, keys):
        if queries[-1] < 0 or queries[0] >= self.length or keys[0] >= self.length:
            return False
        nearest, furthest = distances(queries, keys)
        reach = (self.size + 1) * self.step  # of a neighborhood that is not moved inward, and more
        too_early = furthest < -reach and keys[-1] < self.length - reach
        too_late = nearest > reach and keys[0] >= reach
        return False if too_early or too_late else None

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """As many keys as most queries see, and as far apart."""
        if observed.usual and not observed.first and observed.queries == observed.keys:
            yield cls(observed.usual, observed.keys, max(1, observed.gap))

    def __str__(self) -> str:
        step = f", step {self.step}" if self.step > 1 else ""
        return f"neighborhood ({self.size} of {self.length} tokens{step})"
