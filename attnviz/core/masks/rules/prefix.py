"""The first keys, open to all."""

from collections.abc import Iterator
from dataclasses import dataclass

from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import within
from attnviz.core.masks.observed import Observed, counts
from attnviz.core.masks.pen import Expression, Pen
from attnviz.core.parameters import parameter


@dataclass(frozen=True)
class Prefix(Mask):
    """Every query may attend to the first `length` keys, and to no other. Prefix-LM is ``Subsequent() | Prefix(n)``."""

    rule = "prefix"
    meaning = "every query sees the first keys: after causal, a prefix-LM"
    join = "or"
    length: int = parameter("prefix length", start=2)

    def allows(self, query, key, sentence):
        return key < self.length

    def is_open(self, queries, keys):
        return within(keys[0], keys[-1], 0, self.length - 1)

    def shifted(self, offset):
        return self

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """The first keys that are open to most, among cells that something else would have closed."""
        has_known = observed.known.any(0)
        closed = (2 * counts(observed.known_open, 0) <= counts(observed.known, 0)) & has_known
        length = int(closed.int().argmax()) if closed.any() else observed.keys
        while length and not has_known[length - 1]:
            length -= 1
        if length:
            yield cls(length)

    def code(self, pen: Pen) -> Expression:
        return pen.over_keys(f"{pen.lone_key} < {self.length}")

    def __str__(self) -> str:
        return f"prefix of {self.length}"
