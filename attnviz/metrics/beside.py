"""Two maps, A and B, laid on one grid: every token of either has its row or column, blank where the other lacks it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.metrics.blocks import pool
from attnviz.metrics.compare import Alignment, Comparison, Side, compare
from attnviz.metrics.windows import BLOCKED, EMPTY, NAN, WEIGHT, cells

BLANK = -1
"""Of the states of a cell, besides those of `metrics.cells`: a token that the map does not have."""

Places = tuple[tuple[int | None, int | None], ...]


@dataclass(frozen=True, eq=False)
class Beside:
    """Two maps on one grid of (rows, columns); a difference is what B has more than A.

    Attributes:
        a, b: what is compared.
        comparison: the exact numbers of the tokens that belong together.
        rows, columns: the place in A and the place in B of each; None where that one lacks the token.
    """

    a: Side
    b: Side
    comparison: Comparison
    rows: Places
    columns: Places

    @cached_property
    def maps(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Of A and of B the weights and the states of all cells; the weight of what is blank is NaN."""
        return tuple(self._laid(side, end) for end, side in enumerate((self.a, self.b)))

    @cached_property
    def difference(self) -> np.ndarray:
        """B - A; NaN where one of the two lacks the token, or is not a number."""
        shape = len(self.rows), len(self.columns)
        laid = np.full(shape, np.nan)
        rows, columns = (_paired(places) for places in (self.rows, self.columns))
        laid[np.ix_(rows, columns)] = self.comparison.difference.numpy()
        return laid

    @cached_property
    def states(self) -> np.ndarray:
        """Of the difference: `BLANK` where either map is, `BLOCKED` where both are; in one alone, a weight of 0."""
        a, b = (states for _, states in self.maps)
        blocked = (a == BLOCKED) & (b == BLOCKED)
        other = np.where(a == BLOCKED, b, np.where(b == BLOCKED, a, np.maximum(a, b)))
        return np.where((a == BLANK) | (b == BLANK), BLANK, np.where(blocked, BLOCKED, other))

    @cached_property
    def variation(self) -> np.ndarray:
        """Total variation of each row, 0 to 1; NaN of rows that one map lacks, or that are no distributions."""
        laid = np.full(len(self.rows), np.nan)
        laid[_paired(self.rows)] = self.comparison.variation.numpy()
        return laid

    @property
    def most_row(self) -> int | None:
        """The row that changed most; None if none did."""
        found = np.nan_to_num(self.variation, nan=0.0)
        return int(found.argmax()) if found.size and found.max() > SAME else None

    @property
    def most_cell(self) -> tuple[int, int] | None:
        """The cell that changed most; None if none did."""
        found = np.abs(np.nan_to_num(self.difference, nan=0.0))
        if not found.size or found.max() <= SAME:
            return None
        row, column = np.unravel_index(int(found.argmax()), found.shape)
        return int(row), int(column)

    def _laid(self, side: Side, end: int) -> tuple[np.ndarray, np.ndarray]:
        found = cells(side.record.step(side.site), side.head, sentence=side.sentence, scores=False)
        places = [np.array([-1 if (i := pair[end]) is None else i for pair in p]) for p in (self.rows, self.columns)]
        blank = (places[0] < 0)[:, None] | (places[1] < 0)[None]
        picked = np.ix_(*places)
        weights = np.where(blank, np.nan, found.weights[picked].astype(np.float64))
        return weights, np.where(blank, BLANK, found.states[picked])


def at_a(rows: Places, columns: Places, row: int, column: int) -> tuple[int | None, int | None]:
    """The query and the key of A at a place of a grid; None for what A lacks, or outside of it."""
    query, key = (part[at][0] if 0 <= at < len(part) else None for at, part in ((row, rows), (column, columns)))
    return query, key


SAME = 1e-6
"""Differences up to this are those of rounding, and are said to be none."""


SHARED = 0.5
"""Of the tokens of each map so many must have a counterpart in the other: a difference of few cells says little."""


def beside(a: Side, b: Side) -> Beside:
    """Lay two maps on one grid.

    Raises:
        InputError: if fewer than half of the tokens belong together, or the maps are too large.
    """
    if written(a.record, a.site) != written(b.record, b.site):
        what = (
            f"A is {a.site.kind} attention of {a.record.source} and B is {b.site.kind} attention of {b.record.source}"
        )
        raise InputError(f"{what}: they are over different texts, typed or written, so they cannot be subtracted.")
    found = compare(a, b)
    for what, one in (("queries", found.queries), ("keys", found.keys)):
        most = len(one.pairs) + max(len(one.only_before), len(one.only_after))
        if len(one.pairs) < SHARED * most:
            raise InputError(
                f"Only {len(one.pairs)} of {most} {what} have a counterpart, so the maps cannot be subtracted."
            )
    return Beside(a, b, found, places(found.queries), places(found.keys))


def written(record: Record, site: Site) -> tuple[bool, bool]:
    """Whether the queries of a site, and its keys, are what the model writes; else they are what it was given."""
    writes = bool(record.targets) and site.kind != "encoder"
    return writes, writes and site.kind != "cross"


def vectors_apart(a: Side, b: Side) -> float | None:
    """1 less the cosine of the vectors of both sentences; None if there are none, or of different lengths."""
    if a.record.vectors is None or b.record.vectors is None:
        return None
    one, other = a.record.vectors[a.sentence].double(), b.record.vectors[b.sentence].double()
    return None if one.shape != other.shape else float(1 - torch.cosine_similarity(one, other, dim=0))


def places(alignment: Alignment) -> Places:
    """All tokens of two rows in one order; those that only one has stand where they stand there."""
    end = len(alignment.pairs) + len(alignment.only_before), len(alignment.pairs) + len(alignment.only_after)
    every: list[tuple[int | None, int | None]] = []
    i = j = 0
    for one, other in (*alignment.pairs, end):
        every += [(alone, None) for alone in range(i, one)] + [(None, alone) for alone in range(j, other)]
        every.append((one, other))
        i, j = one + 1, other + 1
    return tuple(every[:-1])


def tiles(numbers: np.ndarray, tile: int) -> np.ndarray:
    """Of each square of cells the number that is largest in size, with its sign; NaN where all are."""
    if tile == 1:
        return numbers
    filled = torch.from_numpy(np.nan_to_num(numbers, nan=0.0))
    known = pool(torch.from_numpy(np.isfinite(numbers).astype(np.float64)), tile).numpy() > 0
    high, low = pool(filled, tile).numpy(), pool(filled, tile, "min").numpy()
    return np.where(known, np.where(-low > high, low, high), np.nan)


SHOWN_FIRST = (BLANK, BLOCKED, NAN, EMPTY, WEIGHT)
"""Of the states in a square of cells the last of these is shown."""


def tiled_states(states: np.ndarray, tile: int) -> np.ndarray:
    """Of each square of cells one state: blank only where all are, blocked only where no cell has a weight."""
    ranks = np.argsort(SHOWN_FIRST)[states - BLANK]
    return np.array(SHOWN_FIRST)[pool(torch.from_numpy(ranks.astype(np.float64)), tile).int().numpy()]


def _paired(places: Sequence[tuple[int | None, int | None]]) -> list[int]:
    return [at for at, pair in enumerate(places) if None not in pair]
