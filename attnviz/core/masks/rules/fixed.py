"""The fixed pattern of the Sparse Transformer."""

from collections.abc import Iterator
from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import distances
from attnviz.core.masks.observed import Observed
from attnviz.core.parameters import check_numbers, parameter


@dataclass(frozen=True)
class Fixed(Mask):
    """Query i sees its own block of `stride` keys up to itself, and the last `summary` keys of each block before.

    Both heads of the fixed pattern of the Sparse Transformer at once (Child et al. 2019, section 4.2).
    """

    rule = "fixed"
    meaning = "the own block so far, and the last keys of each block before (Sparse Transformer)"
    stride: int = parameter("stride", least=1, start=3)
    summary: int = parameter("summary keys", default=1)

    def __post_init__(self):
        check_numbers(self, stride=1, summary=0)

    def allows(self, query, key, sentence):
        own = query // self.stride == key // self.stride
        return (key <= query) & (own | (key % self.stride >= self.stride - self.summary))

    def is_open(self, queries, keys):
        return False if distances(queries, keys)[0] > 0 else None

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """The first key is seen by one block alone, and so are others of it but its last ones."""
        if observed.first or observed.queries < 3:
            return
        column = observed.known_open[:, 0].int()
        stride = int(column.cumprod(0).sum())
        if 1 < stride < observed.queries:
            summary = int(observed.known_open[-1, :stride].flip(0).int().cumprod(0).sum())
            if 0 < summary < stride:
                yield cls(stride, summary)

    def __str__(self) -> str:
        return f"fixed blocks of {self.stride} ({self.summary} summary)"
