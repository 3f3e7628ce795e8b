"""Several texts in one sequence, kept apart."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import in_same
from attnviz.core.masks.observed import Observed, counts
from attnviz.core.masks.pen import Expression, Pen
from attnviz.core.masks.symbols import num_ends, size
from attnviz.core.parameters import numbers_of, parameter


@dataclass(frozen=True)
class Documents(Mask):
    """Packed documents: a query sees the keys of its own document only.

    Positions beyond the last document, and before 0, belong to none.
    """

    rule = "documents"
    meaning = "packed documents: a query sees its own document only"
    lengths: tuple[int, ...] = parameter("lengths", kind="numbers")

    def __post_init__(self):
        object.__setattr__(self, "lengths", numbers_of(self, "lengths", item="length"))

    @classmethod
    def started(cls, keys, lengths):
        return cls(tuple(part for part in ((keys + 1) // 2, keys // 2) if part))

    def allows(self, query, key, sentence):
        own, other = (num_ends(position, self.lengths) for position in (query, key))
        return (own == other) & (other < size(self.lengths)) & (query >= 0)

    def is_open(self, queries, keys):
        if queries[-1] < 0 or keys[0] >= sum(self.lengths):
            return False
        ends = list(accumulate(self.lengths))
        query_parts, key_parts = (tuple(bisect_right(ends, part[i]) for i in (0, -1)) for part in (queries, keys))
        is_open = in_same(query_parts, key_parts)
        return is_open if queries[0] >= 0 and keys[-1] < sum(self.lengths) else is_open and None

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """From where a query does not see the one before it; and from where it sees little of what that one sees."""
        yield cls(_lengths(observed.starts, observed.keys))
        shared = counts(observed.known_open[1:] & observed.known_open[:-1], 1)
        apart = 2 * shared < observed.per_row[:-1]
        yield cls(_lengths((apart.nonzero().flatten() + 1 + observed.first).tolist(), observed.keys))

    def code(self, pen: Pen) -> Expression:
        """By the number of the document that each position is in; positions beyond the last are in none."""
        ends = pen.numbers("ends", self.lengths, ".cumsum(0)  # where each document ends")
        query, key = pen.looked_up("document", lambda places: f"torch.bucketize({places}, {ends}, right=True)")
        limits = [f"({key} < {len(self.lengths)})"] if sum(self.lengths) < pen.keys else []
        limits += [f"({pen.query.text} >= 0)"] if pen.shift < 0 else []
        same = f"{query} == {key}"
        return Expression(" & ".join([f"({same})", *limits]) if limits else same, frozenset("QK"), True)

    def __str__(self) -> str:
        return f"documents of {', '.join(map(str, self.lengths))}"


def _lengths(starts: list[int], size: int) -> tuple[int, ...]:
    """Lengths of the documents that begin at the start and at these positions."""
    return tuple(end - start for start, end in pairwise([0, *(start for start in starts if 0 < start < size), size]))
