"""The strided pattern of the Sparse Transformer."""

from collections.abc import Iterator
from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import distances, within
from attnviz.core.masks.observed import Observed
from attnviz.core.parameters import check_numbers, parameter


@dataclass(frozen=True)
class Strided(Mask):
    """Query i sees itself and the `stride` keys before it, and before those every `stride`-th key.

    Both heads of the strided pattern of the Sparse Transformer at once (Child et al. 2019, section 4.2), which sees
    nothing of the future: key j where j <= i, and i - j <= stride or i - j is a multiple of the stride.
    """

    rule = "strided"
    meaning = "the keys just before, and then every so many"
    stride: int = parameter("stride", least=1, start=3)

    def __post_init__(self):
        check_numbers(self, stride=1)

    def allows(self, query, key, sentence):
        distance = query - key
        return (distance >= 0) & ((distance <= self.stride) | (distance % self.stride == 0))

    def is_open(self, queries, keys):
        nearest, furthest = distances(queries, keys)
        return False if nearest > 0 else within(nearest, furthest, -self.stride, 0) or None

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """As many keys as it sees without a gap."""
        if observed.window and 1 < observed.window[0] < observed.keys - 1:
            yield cls(observed.window[0])

    def __str__(self) -> str:
        return f"strided by {self.stride}"
