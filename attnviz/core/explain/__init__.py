"""Identify a grid of booleans: a published mask, or one with a mistake in it, by trying every kind of mask.

A grid is read as it is, inverted, transposed and with its rows shifted by one; each time every kind of
`attnviz.core.masks.published` proposes masks, with padding and without it. What describes the grid in the fewest bits
explains it (Rissanen 1978): the kind, its numbers, the mistake and the cells that differ all cost something. A mask
that is a published one as it is stays innocent, whatever else it may be; `Judgement.rivals` says what.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from attnviz.core.explain import lengths
from attnviz.core.explain.readings import MISTAKES, Reading, readings
from attnviz.core.masks import Full, Mask
from attnviz.core.masks.published import PUBLISHED, Kind

MISTAKEN = tuple(filter(None, MISTAKES))
"""Names of the mistakes that a mask may have."""

MOST_DIFFERENT = 1 / 8
"""Share of the cells that may differ from an explanation."""

TELLING = 0.75
"""Share of the bits of a grid without an explanation that one with cells that differ may take."""

MARGIN = 3.0
"""Bits by which a mistake must be the better explanation of a grid that random keys explain, too; and by which a plain
mask with some cells wrong may be the longer one."""

LARGE = 2**16
"""Cells of a grid above which masks are first tried on `SAMPLE` rows, and kinds with random keys are left out."""

SAMPLE = 32
"""Rows of a large grid on which a mask is tried first."""

CORNER = 128
"""Queries and keys at the start of a large grid on which a mistake is tried first."""

FEW = 1 / 1000
"""Share of the cells of a large grid below which those that differ leave no doubt of what it is else."""

NOISE = 0.04
"""Share of the keys of a row at which a large grid changes with no change near it in the row above, from which on no
mask explains it: of random cells, it is a third of those at which it changes."""

PLAIN = tuple(kind for kind in PUBLISHED if kind.name in ("full", "causal"))
"""The masks that people mean most often; padding stands beside them."""


@dataclass(frozen=True, eq=False)
class Explanation:
    """A mask that a grid is, but for a mistake and some cells.

    Attributes:
        reading: how the grid was read: the mistake, and what was taken for padding.
        kind: of the mask that was meant.
        base: the mask that was meant, without padding.
        wrong: (Q, K), the cells of the grid that it does not explain.
        bits: how long the description is.
        random: how many random keys a query sees besides, at most.
    """

    reading: Reading
    kind: Kind
    base: Mask
    wrong: Tensor
    bits: float
    random: int = 0

    @property
    def mistake(self) -> str:
        """The mistake, one of `MISTAKES`."""
        return self.reading.mistake

    @cached_property
    def differing(self) -> int:
        """How many cells it does not explain."""
        return int(self.wrong.count_nonzero())

    @property
    def is_certain(self) -> bool:
        """Whether it explains every cell without random keys, which explain much."""
        return not self.differing and not self.random

    @property
    def mask(self) -> Mask:
        """The mask that was meant, with its padding."""
        base, padding = self.base, self.reading.padding
        if padding is None:
            return base
        return padding if isinstance(base, Full) else base & padding

    def grid(self) -> Tensor:
        """The mask that was meant as a grid, without random keys, (Q, K)."""
        queries, keys = self.wrong.shape
        grid = self.mask.shifted(self.reading.seen.first - self.reading.moved).grid(queries, keys)
        return grid if self.reading.padded_queries is None else grid & ~self.reading.padded_queries[:, None]

    def __lt__(self, other: "Explanation") -> bool:
        """Whether it is the better one: certain, and then shorter."""
        return (not self.is_certain, self.bits) < (not other.is_certain, other.bits)

    def __str__(self) -> str:
        """The mask in words: "causal sliding window: window (2 before, 0 after), padding from key 5 on"."""
        words, title, padding = str(self.base), self.kind.title, self.reading.padding
        if not lengths.numbers_in(self.base) or self.kind.name == "meant":
            words = title
        elif not words.startswith(title):
            words = f"{title}: {words}"
        if self.random:
            words += f", up to {self.random} random keys for each query"
        if padding is not None:
            (length,), left = padding.lengths, padding.left
            where = f"padding from key {length} on" if left is None else f"padding before key {left - length}"
            words = where if isinstance(self.base, Full) else f"{words}, {where}"
        return words


@dataclass(frozen=True, eq=False)
class Judgement:
    """Explanation of one or more grids that were made in the same way.

    Attributes:
        explanations: one for each grid, under one mistake or none; empty if there is no good one.
        rivals: by a mistake, what the grids would be as exactly, and simpler, if that mistake had been made.
    """

    explanations: tuple[Explanation, ...] = ()
    rivals: dict[str, tuple[Explanation, ...]] = field(default_factory=dict)

    @property
    def mistake(self) -> str:
        """The mistake, one of `MISTAKES`."""
        return self.explanations[0].mistake if self.explanations else ""

    @property
    def is_exact(self) -> bool:
        """Whether every cell is explained."""
        return self.differing == 0

    @property
    def is_certain(self) -> bool:
        return bool(self.explanations) and all(explanation.is_certain for explanation in self.explanations)

    @property
    def differing(self) -> float:
        """How many cells are not explained; infinite if there is no explanation."""
        return sum(explanation.differing for explanation in self.explanations) if self.explanations else math.inf

    @property
    def is_clear(self) -> bool:
        """Whether large grids are a mask without a mistake but for few cells, so that nothing else need be tried."""
        cells = sum(explanation.wrong.numel() for explanation in self.explanations)
        return bool(self.explanations) and not self.mistake and cells > LARGE and self.differing < FEW * cells

    @property
    def bits(self) -> float:
        """How long the description is; infinite if there is none."""
        return sum(explanation.bits for explanation in self.explanations) if self.explanations else math.inf


def judge(grids: Sequence[Tensor], kinds: Sequence[Kind] = PUBLISHED, mistakes: Sequence[str] = MISTAKEN) -> Judgement:
    """Explain grids, (Q, K), True = may attend, that were made in the same way: without a mistake if one can.

    Args:
        kinds: what they may be.
        mistakes: what may be wrong with them.
    """
    if any(map(is_noise, grids)):
        return Judgement()
    innocent = under(grids, "", kinds)
    if innocent.is_certain:
        others = [mistake for mistake in mistakes if mistake != "wrong-axis"]  # queries of padding may be blocked, too
        rivals = {mistake: under(grids, mistake, kinds, simpler=innocent) for mistake in others}
        certain = {mistake: rival.explanations for mistake, rival in rivals.items() if rival.is_certain}
        return replace(innocent, rivals=certain)
    most = TELLING * sum(map(lengths.of_grid, grids))
    candidates = [innocent] if innocent.bits <= most else []
    better = innocent.bits if candidates else math.inf
    mistakes = [mistake for mistake in mistakes if all(_is_likely(grid, mistake, kinds) for grid in grids)]
    # shifted rows last: one of them is not known, which explains much
    others = () if innocent.is_clear else tuple(mistake for mistake in mistakes if mistake != "shifted")
    for some in (others, ("shifted",) if "shifted" in mistakes else ()):
        guilty = [under(grids, mistake, kinds, limit=better) for mistake in some]
        sure = [judgement for judgement in guilty if judgement.is_certain]
        if candidates:
            sure = [judgement for judgement in sure if judgement.bits + MARGIN <= innocent.bits]
        if sure and ("shifted" not in some or sure[0].bits <= most):
            return min(sure, key=lambda judgement: judgement.bits)
        candidates += [judgement for judgement in guilty if judgement.bits <= most]
    return min(candidates, key=lambda judgement: judgement.bits, default=Judgement())


def is_noise(grid: Tensor) -> bool:
    """Whether a large grid, (Q, K), changes from row to row as none of the kinds does, in a sample of its rows."""
    if grid.numel() <= LARGE or len(grid) < 2:
        return False
    step = row_step(len(grid))
    above, below = (rows[:, 1:] != rows[:, :-1] for rows in (grid[:-1:step], grid[1::step]))
    moved = torch.nn.functional.pad(above, (1, 0))[:, :-1]
    return bool((below & ~above & ~moved).count_nonzero() > NOISE * below.numel())


def _is_likely(grid: Tensor, mistake: str, kinds: Sequence[Kind]) -> bool:
    """Whether the first queries and keys of a large grid are a mask under a mistake, so that all of it may be."""
    if grid.numel() <= LARGE:
        return True
    corner = grid[:CORNER, :CORNER]
    return explain(corner, mistake, [kind for kind in kinds if not kind.random]) is not None


def near(grids: Sequence[Tensor], judgement: Judgement) -> Judgement:
    """The plain masks that grids are but for some cells, if that is hardly longer to say than what they are judged."""
    plain = under(grids, "", PLAIN)
    return plain if 0 < plain.differing < math.inf and plain.bits < judgement.bits + MARGIN else Judgement()


def under(
    grids: Sequence[Tensor],
    mistake: str,
    kinds: Sequence[Kind] = PUBLISHED,
    differ: float = MOST_DIFFERENT,
    simpler: Judgement | None = None,
    limit: float = math.inf,
    usable: Sequence[Tensor] | None = None,
) -> Judgement:
    """The explanations of all grids under one mistake or none; nothing if one has none.

    Args:
        differ: the share of cells that may differ.
        simpler: what they are to be simpler than, not counting the mistake.
        limit: bits that each takes at most, not counting the mistake.
        usable: of each grid the cells that count, (Q, K); its padding is then known, and not among them.
    """
    limits = [limit] * len(grids) if simpler is None else [explanation.bits for explanation in simpler.explanations]
    explanations, cells = [], usable or [None] * len(grids)
    for grid, most, counting in zip(grids, limits, cells, strict=True):
        if (explanation := explain(grid, mistake, kinds, most, differ, counting)) is None:
            return Judgement()
        explanations.append(explanation)
    return Judgement(tuple(explanations))


def explain(
    grid: Tensor,
    mistake: str = "",
    kinds: Sequence[Kind] = PUBLISHED,
    limit: float = math.inf,
    differ: float = MOST_DIFFERENT,
    usable: Tensor | None = None,
) -> Explanation | None:
    """The best explanation of a grid, (Q, K), under a mistake or none.

    Args:
        limit: bits that it takes at most, not counting the mistake.
        differ: the share of cells that may differ.
        usable: the cells that count, (Q, K); all of them, and padding is looked for, if it is None.
    """
    if len(grid) == 1 and kinds is PUBLISHED:  # one query shows its padding, and nothing else for certain
        kinds = [kind for kind in kinds if kind.name == "full"]
    best, limit, read = None, limit + MISTAKES[mistake], list(readings(grid, mistake, usable))
    for random in (False, True) if grid.numel() <= LARGE else (False,):  # random keys explain much, and so come last
        tried = [(reading, kind) for reading in read for kind in kinds if kind.random is random]
        for reading, kind in sorted(tried, key=lambda pair: lengths.at_least(*pair)):
            most = best.bits if best is not None and best.is_certain else limit
            if lengths.at_least(reading, kind) >= most:
                break
            proposed = _explanations(reading, kind, differ, most)
            shorter = [explanation for explanation in proposed if explanation.bits < limit]
            best = min([*shorter, *([best] if best is not None else [])], default=None)
    return best


def _explanations(reading: Reading, kind: Kind, differ: float, limit: float) -> Iterator[Explanation]:
    """The masks of a kind that come near to what is seen, in fewer bits than a limit."""
    observed = reading.seen
    for mask in dict.fromkeys(kind.masks(observed)):
        if observed.open.numel() > LARGE and not _is_near(reading, kind, mask, differ, limit):
            continue
        proposed = mask.shifted(observed.first).grid(observed.queries, observed.keys)
        wrong = (proposed ^ observed.open) & observed.known
        random_keys, bits = 0, lengths.without_cells(reading, kind, mask)
        if kind.random:
            extra, free = ((cells & ~proposed).sum(1) for cells in (wrong, observed.known))
            random_keys, bits = int(extra.max()), bits + lengths.of_random(extra, free)
            if not lengths.is_drawn(extra, free, observed.keys):
                continue
            wrong = wrong & proposed
        wrong = wrong if reading.spoiled is None else wrong | reading.spoiled
        count = int(wrong.count_nonzero())
        if count <= differ * int(observed.known.count_nonzero()):
            bits += lengths.of_cells(wrong.numel(), count)
            yield Explanation(reading, kind, mask, reading.back(wrong), bits, random_keys)


def row_step(queries: int) -> int:
    """Distance of the rows of a large grid on which a mask is tried first."""
    return max(1, queries // SAMPLE)


def _is_near(reading: Reading, kind: Kind, mask: Mask, differ: float, limit: float) -> bool:
    """Whether some rows of a large grid leave it possible that a mask explains it: the cells that differ in them are
    not too many for all of it, nor twice the share that may differ."""
    observed, rows = reading.seen, slice(0, None, row_step(reading.seen.queries))
    is_known = observed.known[rows]
    proposed = mask.shifted(observed.first).grid(observed.queries, observed.keys, rows=rows)
    count = int(((proposed ^ observed.open[rows]) & is_known).count_nonzero())
    bits = lengths.without_cells(reading, kind, mask) + lengths.of_cells(observed.open.numel(), count)
    return bits < limit and count <= 2 * differ * int(is_known.count_nonzero())
