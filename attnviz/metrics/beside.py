"""Two maps, A and B, laid on one grid: every token of either has its row or column, blank where the other lacks it."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import ALL, Record
from attnviz.metrics.apart import Apart, apart
from attnviz.metrics.blocks import pool
from attnviz.metrics.compare import MOST_CELLS, Alignment, Side, align, compare
from attnviz.metrics.windows import BLOCKED, EMPTY, NAN, WEIGHT, cells

BLANK = -1
"""State of a cell whose token the map does not have, besides the states of `metrics.cells`."""

Places = tuple[tuple[int | None, int | None], ...]


TILES = 256
"""Tiles on the longer side of two maps that are too large to be held, at least."""


@dataclass(frozen=True, eq=False)
class AlignedPair:
    """Two maps on one grid of (rows, columns), or a part of it; a difference is A - B: changed minus original.

    Attributes:
        a, b: what is compared.
        queries, keys: how the tokens of A belong to those of B.
        rows, columns: the place in A and the place in B of each; None where that one lacks the token.
        row_variation: total variation of each row, 0 to 1, NaN of rows that one map lacks or that are no distributions;
            None where it is measured with the rest.
        window: the rows and columns of the whole grid that this part has.
        measure: what measures two maps that are too large to be held: `apart_of`, or what keeps what that gives.
    """

    a: Side
    b: Side
    queries: Alignment
    keys: Alignment
    rows: Places
    columns: Places
    row_variation: np.ndarray | None = None
    window: tuple[slice, slice] = field(default_factory=lambda: (ALL, ALL))
    measure: Callable[..., Apart] = field(default=lambda *arguments: apart_of(*arguments))

    @property
    def is_long(self) -> bool:
        """Whether there are too many cells to hold them."""
        return len(self.rows) * len(self.columns) > MOST_CELLS

    @property
    def window_text(self) -> str:
        """Which positions of A a part of the grid has; "" of the whole."""
        if self.window == (ALL, ALL):
            return ""
        spans = []
        for what, places, tokens in zip(("queries", "keys"), (self.rows, self.columns), self.a.tokens, strict=True):
            positions = [in_a for in_a, _ in places if in_a is not None]
            spans.append(f"{what} {positions[0]} to {positions[-1]} of {len(tokens):,}" if positions else f"no {what}")
        return ", ".join(spans)

    def part(self, rows: slice = ALL, columns: slice = ALL) -> "AlignedPair":
        """Some rows and columns of the grid; a row's variation is still that over all its keys."""
        part = {"rows": self.rows[rows], "columns": self.columns[columns], "row_variation": self.variation[rows]}
        return replace(self, **part, window=(rows, columns))

    @cached_property
    def maps(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Weights and states of all cells of A, and of B; the weight of a blank cell is NaN."""
        return tuple(self._laid(side, end) for end, side in enumerate((self.a, self.b)))

    @property
    def difference(self) -> np.ndarray:
        """A - B; NaN where one of the two lacks the token, or is not a number."""
        (a, _), (b, _) = self.maps
        return a - b

    @property
    def states(self) -> np.ndarray:
        """States of the difference: `BLANK` where either map is, `BLOCKED` where both are; in one alone, weight 0."""
        (_, a), (_, b) = self.maps
        return _of_difference(a, b)

    def tiled(self, tile: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Numbers and states of A, of B and of their difference in squares of cells.

        A square has the number that is largest in size among its cells, with its sign.
        """
        if self.is_long:
            pooled = self.pooled(tile)
            numbers = [part.largest.astype(np.float64) for part in pooled.maps] + [pooled.difference]
            return tuple(zip(numbers, (*pooled.states, _of_difference(*pooled.states)), strict=True))
        each = (*self.maps, (self.difference, self.states))
        return tuple((tiles(numbers, tile), tiled_states(states, tile)) for numbers, states in each)

    def pooled(self, tile: int | None = None) -> Apart:
        """Two maps over the same tokens, measured block by block."""
        return self.measure(*self.measure_arguments(tile))

    def measure_arguments(self, tile: int | None = None) -> tuple:
        """Arguments of `measure`."""
        tile = tile or -(-max(len(self.rows), len(self.columns)) // TILES)
        sides = ((side.record, side.site, side.head, side.sentence) for side in (self.a, self.b))
        return *sides, *((part[0][0], part[-1][0] + 1) for part in (self.rows, self.columns)), tile

    @cached_property
    def variation(self) -> np.ndarray:
        """Total variation of each row, 0 to 1; NaN of rows that one map lacks, or that are no distributions."""
        return self.pooled().variation if self.row_variation is None else self.row_variation

    @property
    def most_row(self) -> int | None:
        """The row that differs most; None if none does."""
        variation = np.nan_to_num(self.variation, nan=0.0)
        return int(variation.argmax()) if variation.size and variation.max() > SAME else None

    @property
    def most_cell(self) -> tuple[int, int] | None:
        """The cell that differs most; None if none does.

        Of heads of different kinds, as a causal one beside one that sees all, it is one that both may look at.
        """
        pooled = self.pooled() if self.is_long else None
        gap = np.abs(np.nan_to_num(pooled.difference if pooled else self.difference, nan=0.0))
        if not pooled and self.a.site.kind != self.b.site.kind:
            blocked = [states == BLOCKED for _, states in self.maps]
            gap = np.where(blocked[0] | blocked[1], 0.0, gap)
        if not gap.size or gap.max() <= SAME:
            return None
        place = np.unravel_index(int(gap.argmax()), gap.shape)
        if pooled:
            firsts = self.rows[0][0], self.columns[0][0]
            positions = zip((pooled.at_query, pooled.at_key), firsts, strict=True)
            place = [position[place] - first for position, first in positions]
        return int(place[0]), int(place[1])

    def most_of(self, row: int, column: int, tile: int) -> tuple[int, int]:
        """The cell that differs most in a square of a grid of tiles."""
        first = row * tile, column * tile
        part = self.part(*(slice(start, start + tile) for start in first))
        gap = np.abs(np.nan_to_num(part.difference, nan=0.0))
        place = np.unravel_index(int(gap.argmax()), gap.shape)
        return first[0] + int(place[0]), first[1] + int(place[1])

    def _laid(self, side: Side, end: int) -> tuple[np.ndarray, np.ndarray]:
        places = [np.array([-1 if (i := pair[end]) is None else i for pair in p]) for p in (self.rows, self.columns)]
        blank = (places[0] < 0)[:, None] | (places[1] < 0)[None]
        firsts = [int(place[place >= 0].min(initial=2**62)) for place in places]
        windows = (slice(first, int(place.max()) + 1) for first, place in zip(firsts, places, strict=True))
        window = cells(side.record.step(side.site), side.head, sentence=side.sentence, scores=False, **_named(windows))
        if not window.weights.size:
            return np.full(blank.shape, np.nan), np.full(blank.shape, BLANK)
        picked = np.ix_(*((place - first).clip(min=0) for place, first in zip(places, firsts, strict=True)))
        weights = np.where(blank, np.nan, window.weights[picked].astype(np.float64))
        return weights, np.where(blank, BLANK, window.states[picked])


def _named(windows: Iterable[slice]) -> dict[str, slice]:
    return dict(zip(("rows", "columns"), windows, strict=True))


def _of_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    blocked = (a == BLOCKED) & (b == BLOCKED)
    other = np.where(a == BLOCKED, b, np.where(b == BLOCKED, a, np.maximum(a, b)))
    return np.where((a == BLANK) | (b == BLANK), BLANK, np.where(blocked, BLOCKED, other))


Placed = tuple[Record, Site, int | str, int]
"""Fields of a `Side`."""


def apart_of(a: Placed, b: Placed, rows: tuple[int, int], columns: tuple[int, int], tile: int) -> Apart:
    """`apart` of two sides; rows and columns begin and end with these positions."""
    maps = ((record.step(site), head, sentence) for record, site, head, sentence in (a, b))
    return apart(*maps, range(*rows), range(*columns), tile)


def at_a(rows: Places, columns: Places, row: int, column: int) -> tuple[int | None, int | None]:
    """The query and the key of A at a place of a grid; None for what A lacks, or outside of it."""
    query, key = (part[i][0] if 0 <= i < len(part) else None for i, part in ((row, rows), (column, columns)))
    return query, key


SAME = 1e-6
"""Differences up to this are those of rounding, and are said to be none."""


SHARED = 0.5
"""Least share of tokens that have a counterpart in the other map: a difference of few cells says little."""


def beside(a: Side, b: Side, measure: Callable[..., Apart] = apart_of) -> AlignedPair:
    """Lay two maps on one grid.

    Args:
        measure: see `AlignedPair`.

    Raises:
        InputError: if fewer than half of the tokens belong together, or the maps are too large: those of different
            texts are held.
    """
    if written(a.record, a.site) != written(b.record, b.site):
        what = (
            f"A is {a.site.kind} attention of {a.record.source} and B is {b.site.kind} attention of {b.record.source}"
        )
        raise InputError(f"{what}: they are over different texts, typed or written, so they cannot be subtracted.")
    if all(map(_too_long, (a, b))) and a.tokens == b.tokens:
        queries, keys = (align(part, part) for part in a.tokens)
        return AlignedPair(a, b, queries, keys, places(queries), places(keys), measure=measure)
    comparison = compare(a, b)
    for what, alignment in (("queries", comparison.queries), ("keys", comparison.keys)):
        most = len(alignment.pairs) + max(len(alignment.only_before), len(alignment.only_after))
        if len(alignment.pairs) < SHARED * most:
            raise InputError(
                f"Only {len(alignment.pairs)} of {most} {what} have a counterpart, so the maps cannot be subtracted."
            )
    rows, columns = places(comparison.queries), places(comparison.keys)
    variation = np.full(len(rows), np.nan)
    variation[[row for row, pair in enumerate(rows) if None not in pair]] = comparison.variation.numpy()
    return AlignedPair(a, b, comparison.queries, comparison.keys, rows, columns, variation)


def _too_long(side: Side) -> bool:
    return math.prod(map(len, side.tokens)) > MOST_CELLS


def written(record: Record, site: Site) -> tuple[bool, bool]:
    """Whether the queries of a site, and its keys, are what the model writes; else they are what it was given."""
    writes = bool(record.targets) and site.kind != "encoder"
    return writes, writes and site.kind != "cross"


def vectors_apart(a: Side, b: Side) -> float | None:
    """1 less the cosine of the vectors of both sentences; None if there are none, or of different lengths."""
    if a.record.vectors is None or b.record.vectors is None:
        return None
    vector, other = a.record.vectors[a.sentence].double(), b.record.vectors[b.sentence].double()
    return None if vector.shape != other.shape else max(0.0, float(1 - torch.cosine_similarity(vector, other, dim=0)))


def places(alignment: Alignment) -> Places:
    """All tokens of two rows in one order; those that only one has stand where they stand there."""
    end = len(alignment.pairs) + len(alignment.only_before), len(alignment.pairs) + len(alignment.only_after)
    every: list[tuple[int | None, int | None]] = []
    i = j = 0
    for in_a, in_b in (*alignment.pairs, end):
        every += [(alone, None) for alone in range(i, in_a)] + [(None, alone) for alone in range(j, in_b)]
        every.append((in_a, in_b))
        i, j = in_a + 1, in_b + 1
    return tuple(every[:-1])


def tiles(numbers: np.ndarray, tile: int) -> np.ndarray:
    """The number of largest magnitude in each square of cells, with its sign; NaN where all are."""
    if tile == 1:
        return numbers
    filled = torch.from_numpy(np.nan_to_num(numbers, nan=0.0))
    is_finite = pool(torch.from_numpy(np.isfinite(numbers).astype(np.float64)), tile).numpy() > 0
    high, low = pool(filled, tile).numpy(), pool(filled, tile, "min").numpy()
    return np.where(is_finite, np.where(-low > high, low, high), np.nan)


SHOWN_FIRST = (BLANK, BLOCKED, NAN, EMPTY, WEIGHT)
"""Order of states: a square of cells shows the last of these that it holds."""


def tiled_states(states: np.ndarray, tile: int) -> np.ndarray:
    """One state for each square of cells: blank only where all are, blocked only where no cell has a weight."""
    ranks = np.argsort(SHOWN_FIRST)[states - BLANK]
    return np.array(SHOWN_FIRST)[pool(torch.from_numpy(ranks.astype(np.float64)), tile).int().numpy()]
