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
    def fits(cls, seen: Observed) -> Iterator[Mask]:
        """Of cells that something else would have closed: the first keys that are open to most."""
        told = seen.known.any(0)
        closed = (2 * counts(seen.known_open, 0) <= counts(seen.known, 0)) & told
        length = int(closed.int().argmax()) if closed.any() else seen.keys
        while length and not told[length - 1]:
            length -= 1
        if length:
            yield cls(length)

    def code(self, pen: Pen) -> Expression:
        return pen.over_keys(f"{pen.lone_key} < {self.length}")

    def __str__(self) -> str:
        return f"prefix of {self.length}"
