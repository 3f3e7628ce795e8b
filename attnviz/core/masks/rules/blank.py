"""Keys that nobody sees."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.observed import Observed, counts
from attnviz.core.masks.pen import KEYS, PREDICATE, Expression, Pen
from attnviz.core.masks.symbols import is_in
from attnviz.core.parameters import numbers_of, parameter


@dataclass(frozen=True)
class Blank(Mask):
    """Some keys are blank: no query may attend to them, as if those patches or words were not there."""

    rule = "blank"
    meaning = "nobody sees some keys, such as patches of a picture"
    positions: tuple[int, ...] = parameter("positions", kind="numbers")

    def __post_init__(self):
        object.__setattr__(self, "positions", tuple(sorted({*numbers_of(self, "positions", item="position")})))

    @classmethod
    def started(cls, keys, lengths):
        return cls((0,))

    def allows(self, query, key, sentence):
        return ~is_in(key, self.positions)

    def is_open(self, queries, keys):
        count = bisect_right(self.positions, keys[-1]) - bisect_left(self.positions, keys[0])
        return None if 0 < count <= keys[-1] - keys[0] else not count

    def shifted(self, offset):
        return self

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """Keys that no query sees, where others are seen before and after them."""
        is_open = counts(observed.known_open, 0) > 0
        blank = (~is_open & observed.known.any(0)).nonzero().flatten().tolist()
        others = is_open.nonzero().flatten().tolist()
        if blank and 2 * len(blank) < len(others) and others[0] < blank[0] and blank[-1] < others[-1]:
            yield cls(tuple(blank))

    def code(self, pen: Pen) -> Expression:
        positions = pen.numbers("blank", self.positions)
        if pen.style == PREDICATE:
            table = pen.line("is_blank", f"torch.isin({KEYS}, {positions})")
            return pen.over_keys(f"~{table}[kv_idx]")
        return pen.over_keys(f"~torch.isin({KEYS}, {positions})")

    def __str__(self) -> str:
        return f"blank keys {', '.join(map(str, self.positions)) or 'none'}"
