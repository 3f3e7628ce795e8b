"""A mask as somebody found it: booleans whose rule is not known, and what can be read off them.

Rules look here for the numbers that they would have to have (`Mask.fits`). Some cells may be unknown, as the keys that
are padding; and what most of the others say counts, so that one wrong cell hides no rule.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

ROWS = 64
"""Rows of a grid that tell how far apart its open keys are, or up to twice as many."""


@dataclass(frozen=True, eq=False)
class Observed:
    """A grid of one sentence and one head.

    Attributes:
        open: boolean, (Q, K), True = may attend.
        known: boolean, (Q, K): which cells tell something.
        first: the position of the first query: above 0 with a cache, and where rows were shifted.
    """

    open: Tensor
    known: Tensor
    first: int = 0

    @classmethod
    def of(cls, grid: Tensor, first: int = 0) -> "Observed":
        """All of a grid."""
        return cls(grid, torch.ones_like(grid), first)

    def without(
        self, *, rows: Tensor | None = None, keys: Tensor | None = None, cells: Tensor | None = None
    ) -> "Observed":
        """The same with rows (Q,), keys (K,) or cells (Q, K) that tell nothing."""
        is_known = self.known
        for hidden in (rows[:, None] if rows is not None else None, keys, cells):
            if hidden is not None:
                is_known = torch.from_numpy(is_known.numpy() > hidden.numpy())  # NumPy takes a tenth of the time
        return replace(self, known=is_known)

    @property
    def queries(self) -> int:
        return self.open.shape[0]

    @property
    def keys(self) -> int:
        return self.open.shape[1]

    @cached_property
    def distance(self) -> Tensor:
        """How far each key lies after each query, (Q, K)."""
        return torch.arange(self.keys) - torch.arange(self.first, self.first + self.queries)[:, None]

    @cached_property
    def future(self) -> Tensor:
        return self.distance > 0

    @cached_property
    def known_open(self) -> Tensor:
        """The open cells that are known."""
        return self.open & self.known

    @cached_property
    def hides_future(self) -> bool:
        """Whether most of the future is closed, of what is known of it."""
        ahead = self.future & self.known
        return 4 * int((self.open & ahead).count_nonzero()) <= int(ahead.count_nonzero())

    @cached_property
    def at_distance(self) -> dict[int, bool]:
        """Whether most cells of each distance are open, where any is known; from the furthest past on."""
        counted, opened = (_along_diagonals(cells) for cells in (self.known, self.known_open))
        some, most = (counted > 0).tolist(), (2 * opened > counted).tolist()
        least = 1 - self.first - self.queries
        return {least + i: most[i] for i in range(len(some)) if some[i]}

    @cached_property
    def window(self) -> tuple[int, int] | None:
        """How far around itself most queries see without a gap, (before, after); None if not even themselves."""
        if not self.at_distance.get(0):
            return None
        before = after = 0
        while self.at_distance.get(-before - 1):
            before += 1
        while self.at_distance.get(after + 1):
            after += 1
        return before, after

    @cached_property
    def open_rows(self) -> Tensor:
        """Which queries see (nearly) all keys that are known, (Q,)."""
        return self._nearly_all(1)

    @cached_property
    def open_keys(self) -> Tensor:
        """Which keys are seen by (nearly) all queries that are known, (K,)."""
        return self._nearly_all(0)

    def _nearly_all(self, axis: int) -> Tensor:
        counted, opened = counts(self.known, axis), counts(self.known_open, axis)
        return (10 * opened >= 9 * counted) & (counted > 0)

    @cached_property
    def per_row(self) -> Tensor:
        """How many open keys each query has, (Q,)."""
        return counts(self.known_open, 1)

    @cached_property
    def usual(self) -> int:
        """How many open keys most queries with any have."""
        counts = self.per_row[self.per_row > 0]
        return int(counts.mode().values) if len(counts) else 0

    @cached_property
    def gap(self) -> int:
        """How far apart open keys of a row are most often, in some rows of many; 0 if none of them has two."""
        row, key = self.known_open[:: max(1, self.queries // ROWS)].nonzero().T
        gaps = key.diff()[row.diff() == 0]
        return int(gaps.mode().values) if len(gaps) else 0

    def in_blocks(self, size: int) -> "Observed":
        """Which blocks of `size` queries and keys are open for the most part, and which are known at all."""
        opened, counted = (_in_blocks(cells, size) for cells in (self.known_open, self.known))
        return Observed(2 * opened > counted, counted > 0)

    @cached_property
    def starts(self) -> list[int]:
        """The positions at which something new begins: a query that does not see the key just before its own."""
        rows = torch.arange(max(1, self.first), min(self.first + self.queries, self.keys))
        cells = rows - self.first, rows - 1
        return rows[~self.open[cells] & self.known[cells]].tolist()

    @cached_property
    def turns(self) -> list[int]:
        """The positions of queries that see other keys than the query before them."""
        opened, known = self.open.numpy(), self.known.numpy()
        changed = ((opened[1:] != opened[:-1]) & known[1:] & known[:-1]).any(1)
        return (changed.nonzero()[0] + 1 + self.first).tolist()

    @cached_property
    def ends(self) -> list[int]:
        """The positions of queries from which on some key is seen no more."""
        opened, known = self.open.numpy(), self.known.numpy()
        lost = ((opened[:-1] > opened[1:]) & known[1:] & known[:-1]).any(1)
        return (lost.nonzero()[0] + 1 + self.first).tolist()


def _along_diagonals(cells: Tensor) -> Tensor:
    """How many of some cells, boolean (Q, K), lie at each distance of key and query, (Q + K - 1,), the past first."""
    queries, keys = cells.shape
    aligned = torch.zeros(queries, queries + keys - 1, dtype=torch.uint8)
    aligned.as_strided((queries, keys), (queries + keys - 2, 1), queries - 1).copy_(cells)  # each row one place further
    return counts(aligned, 0)


def _in_blocks(cells: Tensor, size: int) -> Tensor:
    """How many of some cells, boolean (Q, K), lie in each block of `size` queries and keys; the last may be smaller."""
    right, below = (-length % size for length in cells.shape[::-1])
    whole = torch.nn.functional.pad(cells.byte(), (0, right, 0, below))
    rows = counts(whole.view(-1, size, whole.shape[1]), 1)
    return rows.view(len(rows), -1, size).sum(2)


def counts(cells: Tensor, axis: int) -> Tensor:
    """How many of some cells, booleans or bytes of 0 and 1, are True along an axis. NumPy takes a tenth of the time."""
    return torch.from_numpy(cells.numpy().view("uint8").sum(axis=axis, dtype="uint32").astype("int64"))
