"""How a grid may have to be read: as it is, inverted, transposed, with its rows shifted by one; and what is padding."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnviz.core.masks import Padding
from attnviz.core.masks.observed import Observed

MISTAKES = {"": 0.0, "inverted": 4.0, "wrong-axis": 4.5, "transposed": 5.0, "shifted": 5.0}
"""Mistakes in a whole mask, and how surprising each is, in bits; "" is none."""


@dataclass(frozen=True, eq=False)
class Reading:
    """A grid without a mistake and without its padding.

    Attributes:
        mistake: of `MISTAKES`.
        seen: what is left to explain.
        padding: what was taken for padding, if anything.
        spoiled: the open cells of the padding, as `seen` has its axes.
        transposed: whether rows and columns of `seen` are those of the grid the other way round.
        padded_queries: queries that are padding too.
        by: how many rows further down each row of `seen` is than in the grid.
        moved: diagonals by which all of it is moved, forward or back.
    """

    mistake: str
    seen: Observed
    padding: Padding | None = None
    spoiled: Tensor | None = None
    transposed: bool = False
    padded_queries: Tensor | None = None
    by: int = 0
    moved: int = 0

    def back(self, cells: Tensor) -> Tensor:
        """Cells of `seen` as cells of the grid."""
        return (cells.T if self.transposed else cells).roll(-self.by, 0)


def readings(grid: Tensor, mistake: str, usable: Tensor | None = None) -> Iterator[Reading]:
    """A grid, (Q, K), as it has to be read if this mistake was made in it, or none; in both alignments.

    Args:
        usable: (Q, K), the cells that count; padding is then looked for in none of them.
    """
    queries, keys = grid.shape
    if usable is not None:
        for first in {0, max(0, keys - queries)}:
            yield from _unpadded(Observed(grid, usable, first), mistake)
        return
    for raw in (Observed.of(grid, first) for first in {0, max(0, keys - queries)}):
        if not mistake:
            yield from _padded(Reading("", raw))
        elif mistake == "shifted":
            yield from (reading for by in (1, -1) if queries > 2 for reading in _padded(_moved(raw, by)))
        elif mistake == "wrong-axis":
            yield from _by_query(raw)
        elif mistake == "inverted" or queries == keys:
            yield from _turned(raw, mistake)


def _unpadded(raw: Observed, mistake: str) -> Iterator[Reading]:
    """A grid whose padding is known and left out."""
    if mistake == "shifted":
        yield from (Reading(mistake, replace(raw, first=raw.first + by), moved=by) for by in (1, -1))
    elif not mistake or mistake == "inverted" or raw.queries == raw.keys:
        reading = Reading(mistake, raw)
        yield _undone(mistake, reading) if mistake else reading


def _moved(raw: Observed, by: int) -> Reading:
    """Each row as that of the query `by` further on, of which one is not known."""
    rows = torch.arange(raw.queries) == (0 if by > 0 else raw.queries - 1)
    observed = replace(raw, open=raw.open.roll(by, 0)).without(rows=rows)
    return Reading("shifted", observed, by=by)


def _by_query(raw: Observed) -> Iterator[Reading]:
    """All but the queries at one end that have no key, as if they were padding and the keys were not blocked."""
    closed = ~raw.open.any(1)
    count = int(closed.sum())
    if count == raw.queries or not (closed[:count].all() or closed[raw.queries - count :].all()):
        return
    yield Reading("wrong-axis", raw.without(rows=closed) if count else raw)


def _turned(raw: Observed, mistake: str) -> Iterator[Reading]:
    """The whole mask with the mistake, or all of it but the padding, which was joined to it afterwards."""
    yield from _padded(_undone(mistake, Reading(mistake, raw)))
    for reading in _padded(Reading(mistake, raw)):
        if reading.padding is not None:
            yield _undone(mistake, reading)


def _undone(mistake: str, reading: Reading) -> Reading:
    """A reading without its mistake."""
    observed, spoiled = reading.seen, reading.spoiled
    if mistake == "inverted":
        return replace(reading, seen=replace(observed, open=~observed.open))
    turned = Observed(observed.open.T, observed.known.T, observed.first)
    return replace(reading, seen=turned, spoiled=None if spoiled is None else spoiled.T, transposed=True)


def _padded(reading: Reading) -> Iterator[Reading]:
    """Without padding and with what may be padding; also of the queries, where as many rows are closed."""
    yield reading
    observed = reading.seen
    for padding in dict.fromkeys(Padding.fits(observed)):
        closed = ~padding.grid(1, observed.keys)[0]
        spoiled = observed.known_open & closed
        beside = replace(reading, seen=observed.without(keys=closed), padding=padding, spoiled=spoiled)
        yield beside
        if observed.queries == observed.keys and not observed.known_open[closed].any():
            yield replace(beside, seen=beside.seen.without(rows=closed), padded_queries=closed)
