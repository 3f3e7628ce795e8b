"""Tokens that all share."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import any_known
from attnviz.core.masks.observed import Observed
from attnviz.core.masks.pen import Expression, Pen
from attnviz.core.masks.symbols import is_in
from attnviz.core.parameters import numbers_of, parameter


@dataclass(frozen=True)
class Global(Mask):
    """Tokens that see all and are seen by all, as [CLS] or a question in Longformer (Beltagy et al. 2020, section 3.1).

    It opens their rows and columns and nothing else: ``Window(2, 2) | Global((0,))``.
    """

    rule = "global"
    meaning = "some tokens see all and are seen by all"
    join = "or"
    positions: tuple[int, ...] = parameter("positions", kind="numbers")

    def __post_init__(self):
        object.__setattr__(self, "positions", tuple(sorted({*numbers_of(self, "positions", item="position")})))

    @classmethod
    def started(cls, keys, lengths):
        return cls((0,))

    def allows(self, query, key, sentence):
        return is_in(query, self.positions) | is_in(key, self.positions)

    def is_open(self, queries, keys):
        return any_known({self._are_global(part) for part in (queries, keys)})

    def _are_global(self, places: range) -> bool | None:
        """True if all are, False if none is."""
        count = bisect_right(self.positions, places[-1]) - bisect_left(self.positions, places[0])
        return count > places[-1] - places[0] or (None if count else False)

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """Tokens that see nearly all that is known, and are seen by nearly all."""
        size = min(observed.queries, observed.keys - max(0, observed.first))
        if observed.first < 0 or size < 1:
            return
        both = observed.open_rows[:size] & observed.open_keys[observed.first : observed.first + size]
        positions = (both.nonzero().flatten() + observed.first).tolist()
        if 0 < len(positions) <= observed.keys // 2:
            yield cls(tuple(positions))

    def code(self, pen: Pen) -> Expression:
        positions = pen.numbers("positions", self.positions)
        both = pen.looked_up("is_global", lambda places: f"torch.isin({places}, {positions})")
        return Expression(" | ".join(both), frozenset("QK"), True)

    def __str__(self) -> str:
        return f"global tokens {', '.join(map(str, self.positions)) or 'none'}"
