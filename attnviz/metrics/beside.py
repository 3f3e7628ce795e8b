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
"""Of the states of a cell, besides those of `metrics.cells`: a token that the map does not have."""

Places = tuple[tuple[int | None, int | None], ...]


TILES = 256
"""Tiles on the longer side of two maps that are too large to be held, at least."""


@dataclass(frozen=True, eq=False)
class Beside:
    """Two maps on one grid of (rows, columns), or a part of it; a difference is A - B: changed minus original.

    Attributes:
        a, b: what is compared.
        queries, keys: how the tokens of A belong to those of B.
        rows, columns: the place in A and the place in B of each; None where that one lacks the token.
        known: total variation of each row, 0 to 1, NaN of rows that one map lacks, or that are no distributions; None
            where it is measured with the rest.
        window: the rows and columns of the whole grid that this part has.
        measure: what measures two maps that are too large to be held: `apart_of`, or what keeps what that gives.
    """

    a: Side
    b: Side
    queries: Alignment
    keys: Alignment
    rows: Places
    columns: Places
    known: np.ndarray | None = None
    window: tuple[slice, slice] = field(default_factory=lambda: (ALL, ALL))
    measure: Callable[..., Apart] = field(default=lambda *given: apart_of(*given))

    @property
    def is_long(self) -> bool:
        """Whether there are too many cells to hold them."""
        return len(self.rows) * len(self.columns) > MOST_CELLS

    @property
    def seen(self) -> str:
        """Which positions of A a part of the grid has; "" of the whole."""
        if self.window == (ALL, ALL):
            return ""
        spans = []
        for what, places, tokens in zip(("queries", "keys"), (self.rows, self.columns), self.a.tokens, strict=True):
            at = [in_a for in_a, _ in places if in_a is not None]
            spans.append(f"{what} {at[0]} to {at[-1]} of {len(tokens):,}" if at else f"no {what}")
        return ", ".join(spans)

    def part(self, rows: slice = ALL, columns: slice = ALL) -> "Beside":
        """Some rows and columns of the grid; a row's variation is still that over all its keys."""
        seen, window = (self.rows[rows], self.columns[columns]), (rows, columns)
        return replace(self, rows=seen[0], columns=seen[1], known=self.variation[rows], window=window)

    @cached_property
    def maps(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Of A and of B the weights and the states of all cells; the weight of what is blank is NaN."""
        return tuple(self._laid(side, end) for end, side in enumerate((self.a, self.b)))

    @property
    def difference(self) -> np.ndarray:
        """A - B; NaN where one of the two lacks the token, or is not a number."""
        (a, _), (b, _) = self.maps
        return a - b

    @property
    def states(self) -> np.ndarray:
        """Of the difference: `BLANK` where either map is, `BLOCKED` where both are; in one alone, a weight of 0."""
        (_, a), (_, b) = self.maps
        return _of_difference(a, b)

    def tiled(self, tile: int) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Numbers and states of A, of B and of their difference in squares of cells.

        A square has the number that is largest in size among its cells, with its sign.
        """
        if self.is_long:
            found = self.pooled(tile)
            numbers = [one.largest.astype(np.float64) for one in found.maps] + [found.difference]
            return tuple(zip(numbers, (*found.states, _of_difference(*found.states)), strict=True))
        each = (*self.maps, (self.difference, self.states))
        return tuple((tiles(numbers, tile), tiled_states(states, tile)) for numbers, states in each)

    def pooled(self, tile: int | None = None) -> Apart:
        """Two maps over the same tokens, measured block by block."""
        return self.measure(*self.asked(tile))

    def asked(self, tile: int | None = None) -> tuple:
        """What `measure` is given."""
        tile = tile or -(-max(len(self.rows), len(self.columns)) // TILES)
        sides = ((side.record, side.site, side.head, side.sentence) for side in (self.a, self.b))
        return *sides, *((part[0][0], part[-1][0] + 1) for part in (self.rows, self.columns)), tile

    @cached_property
    def variation(self) -> np.ndarray:
        """Total variation of each row, 0 to 1; NaN of rows that one map lacks, or that are no distributions."""
        return self.pooled().variation if self.known is None else self.known

    @property
    def most_row(self) -> int | None:
        """The row that differs most; None if none does."""
        found = np.nan_to_num(self.variation, nan=0.0)
        return int(found.argmax()) if found.size and found.max() > SAME else None

    @property
    def most_cell(self) -> tuple[int, int] | None:
        """The cell that differs most; None if none does.

        Of heads of different kinds, as a causal one beside one that sees all, it is one that both may look at.
        """
        pooled = self.pooled() if self.is_long else None
        found = np.abs(np.nan_to_num(pooled.difference if pooled else self.difference, nan=0.0))
        if not pooled and self.a.site.kind != self.b.site.kind:
            blocked = [states == BLOCKED for _, states in self.maps]
            found = np.where(blocked[0] | blocked[1], 0.0, found)
        if not found.size or found.max() <= SAME:
            return None
        place = np.unravel_index(int(found.argmax()), found.shape)
        if pooled:
            firsts = self.rows[0][0], self.columns[0][0]
            place = [at[place] - first for at, first in zip((pooled.at_query, pooled.at_key), firsts, strict=True)]
        return int(place[0]), int(place[1])

    def most_of(self, row: int, column: int, tile: int) -> tuple[int, int]:
        """The cell that differs most in a square of a grid of tiles."""
        first = row * tile, column * tile
        part = self.part(*(slice(start, start + tile) for start in first))
        found = np.abs(np.nan_to_num(part.difference, nan=0.0))
        place = np.unravel_index(int(found.argmax()), found.shape)
        return first[0] + int(place[0]), first[1] + int(place[1])

    def _laid(self, side: Side, end: int) -> tuple[np.ndarray, np.ndarray]:
        places = [np.array([-1 if (i := pair[end]) is None else i for pair in p]) for p in (self.rows, self.columns)]
        blank = (places[0] < 0)[:, None] | (places[1] < 0)[None]
        firsts = [int(at[at >= 0].min(initial=2**62)) for at in places]
        windows = (slice(first, int(at.max()) + 1) for first, at in zip(firsts, places, strict=True))
        found = cells(side.record.step(side.site), side.head, sentence=side.sentence, scores=False, **_named(windows))
        if not found.weights.size:
            return np.full(blank.shape, np.nan), np.full(blank.shape, BLANK)
        picked = np.ix_(*((at - first).clip(min=0) for at, first in zip(places, firsts, strict=True)))
        weights = np.where(blank, np.nan, found.weights[picked].astype(np.float64))
        return weights, np.where(blank, BLANK, found.states[picked])


def _named(windows: Iterable[slice]) -> dict[str, slice]:
    return dict(zip(("rows", "columns"), windows, strict=True))


def _of_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    blocked = (a == BLOCKED) & (b == BLOCKED)
    other = np.where(a == BLOCKED, b, np.where(b == BLOCKED, a, np.maximum(a, b)))
    return np.where((a == BLANK) | (b == BLANK), BLANK, np.where(blocked, BLOCKED, other))


Placed = tuple[Record, Site, int | str, int]
"""What a `Side` holds."""


def apart_of(a: Placed, b: Placed, rows: tuple[int, int], columns: tuple[int, int], tile: int) -> Apart:
    """`apart` of two sides; rows and columns begin and end with these positions."""
    maps = ((record.step(site), head, sentence) for record, site, head, sentence in (a, b))
    return apart(*maps, range(*rows), range(*columns), tile)


def at_a(rows: Places, columns: Places, row: int, column: int) -> tuple[int | None, int | None]:
    """The query and the key of A at a place of a grid; None for what A lacks, or outside of it."""
    query, key = (part[at][0] if 0 <= at < len(part) else None for at, part in ((row, rows), (column, columns)))
    return query, key


SAME = 1e-6
"""Differences up to this are those of rounding, and are said to be none."""


SHARED = 0.5
"""Of the tokens of each map so many must have a counterpart in the other: a difference of few cells says little."""


def beside(a: Side, b: Side, measure: Callable[..., Apart] = apart_of) -> Beside:
    """Lay two maps on one grid.

    Args:
        measure: see `Beside`.

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
        return Beside(a, b, queries, keys, places(queries), places(keys), measure=measure)
    found = compare(a, b)
    for what, one in (("queries", found.queries), ("keys", found.keys)):
        most = len(one.pairs) + max(len(one.only_before), len(one.only_after))
        if len(one.pairs) < SHARED * most:
            raise InputError(
                f"Only {len(one.pairs)} of {most} {what} have a counterpart, so the maps cannot be subtracted."
            )
    rows, columns = places(found.queries), places(found.keys)
    variation = np.full(len(rows), np.nan)
    variation[[at for at, pair in enumerate(rows) if None not in pair]] = found.variation.numpy()
    return Beside(a, b, found.queries, found.keys, rows, columns, variation)


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
    one, other = a.record.vectors[a.sentence].double(), b.record.vectors[b.sentence].double()
    return None if one.shape != other.shape else max(0.0, float(1 - torch.cosine_similarity(one, other, dim=0)))


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
