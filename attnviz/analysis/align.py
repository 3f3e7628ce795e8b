"""Alignment of two attention maps, A and B, on one grid with the tokens of both; cells missing in one map are blank."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from attnviz.analysis.batch import token_counts
from attnviz.analysis.blocks import blocks, empty_queries, largest_in_size, pool
from attnviz.analysis.maps import BLOCKED, WEIGHT, cells, farthest, row_sums
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import ALL, Record, Step
from attnviz.core.tokens import Token

BLANK = -1
"""State of a cell whose token is missing from the map, in addition to the states of `analysis.cells`."""

MOST_CELLS, TILES = 2**22, 256
"""Maximum number of cells of a map in memory (2,048 tokens squared); tiles on the longer side of a larger map."""

SAME, SHARED = 1e-6, 0.5
"""Largest difference explained by rounding; smallest share of tokens that must have a counterpart."""

Pair = tuple[int | None, int | None]
"""Position of a token in A and in B, from 0; None where that text lacks the token."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of two maps to compare: a head (or a name of `AGGREGATIONS`) at a site of a record, for one sentence."""

    record: Record
    site: Site
    head: int | str
    sentence: int = 0

    @property
    def step(self) -> Step:
        """Attention call of the site."""
        return self.record.step(self.site)

    @cached_property
    def tokens(self) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """Tokens of the queries and of the keys, without padding."""
        num_queries, num_keys = token_counts(self.record, self.step, self.sentence)
        queries, keys = self.record.tokens(self.site, sentence=self.sentence)
        return queries[:num_queries], keys[:num_keys]


def align(a: Sequence[Token | str], b: Sequence[Token | str]) -> tuple[Pair, ...]:
    """Pair the positions of two texts, aligned by difflib: equal tokens, and runs of tokens that replace each other.

    A run of tokens is paired with the run that replaces it if both have the same length; all other tokens are paired
    with None.
    """
    texts = [[token if isinstance(token, str) else token.text for token in row] for row in (a, b)]
    if texts[0] == texts[1]:
        return tuple((i, i) for i in range(len(texts[0])))
    pairs: list[Pair] = []
    for _, i, i_end, j, j_end in SequenceMatcher(None, *texts, autojunk=False).get_opcodes():
        if i_end - i == j_end - j:
            pairs += zip(range(i, i_end), range(j, j_end), strict=True)
        else:
            pairs += [(index, None) for index in range(i, i_end)] + [(None, index) for index in range(j, j_end)]
    return tuple(pairs)


Tiled = tuple[tuple[np.ndarray, np.ndarray], ...]
"""Numbers and states of A, of B and of A - B per tile, each (r, c)."""


def compare_in_tiles(a: Side, b: Side, rows: range, columns: range, tile: int) -> tuple[Tiled, np.ndarray]:
    """Compare a window of two maps over the same tokens: return tiles, see `AlignedPair.tiled`, and the total variation
    per row, see `AlignedPair.variation`. This works block by block, so that no map is in memory as a whole."""
    shape = len(rows[::tile]), len(columns[::tile])
    largest = torch.zeros(3, *shape, dtype=torch.float64)  # of A, of B and of A - B in each tile
    smallest = torch.zeros(3, *shape, dtype=torch.float64)
    has_open, has_finite = torch.zeros(2, *shape, dtype=torch.bool), torch.zeros(3, *shape, dtype=torch.bool)
    sums = torch.zeros(3, len(rows), dtype=torch.float64)  # of A, of B and of |A - B| in each row
    block_pairs = (blocks(side.step, side.head, rows, columns, tile, sentence=side.sentence) for side in (a, b))
    for pair in zip(*block_pairs, strict=True):
        down, across = pair[0].down, pair[0].across
        tiles, squares = (down.tiles, across.tiles), (down.count, down.size, across.count, across.size)
        for opened, block in zip(has_open, pair, strict=True):
            is_open = block.open
            opened[tiles] |= is_open.reshape(squares).amax((1, 3)) if isinstance(is_open, Tensor) else is_open
        if all(block.weights is None for block in pair):
            has_finite[:, *tiles] = True  # all weights are 0
            continue
        zeros = torch.zeros(len(down.places), len(across.places))
        weights = [(zeros if block.weights is None else block.weights).double() for block in pair]
        difference = weights[0] - weights[1]
        for total, numbers in zip(sums, (*weights, difference.abs()), strict=True):
            total[down.within] += numbers.sum(1)
        all_finite = bool(sums[2, down.within].isfinite().all())
        for most, least, finite, numbers in zip(largest, smallest, has_finite, (*weights, difference), strict=True):
            finite[tiles] |= all_finite or numbers.isfinite().view(squares).any(3).any(1)
            numbers = numbers if all_finite else numbers.nan_to_num_(nan=0.0)  # leave out rows that are NaN
            most[tiles] = most[tiles].maximum(numbers.view(squares).amax((1, 3)))
            least[tiles] = least[tiles].minimum(numbers.view(squares).amin((1, 3)))
    largest = farthest(largest, smallest)
    largest.masked_fill_(~has_finite, torch.nan)
    part, totals = slice(rows.start, rows.stop), sums[:2].clone()
    for i, side in enumerate((a, b)):
        if len(columns) < side.step.shape[3]:
            totals[i] = row_sums(side.step, side.head, sentence=side.sentence, rows=part)
        empty = empty_queries(side.step, side.head, sentence=side.sentence)[part]
        has_open[i] |= largest[i].isnan() | pool(empty.double()[:, None], tile).bool()
    states = np.where(has_open.numpy(), WEIGHT, BLOCKED)
    both = np.where((states == BLOCKED).all(0), BLOCKED, WEIGHT)
    return tuple(zip(largest.numpy(), (*states, both), strict=True)), _variation(sums, totals)


def _variation(sums: Tensor, totals: Tensor) -> np.ndarray:
    """Compute the total variation of each row, (rows,), from sums of A, B and |A - B| over some keys, (3, rows).

    All other keys count as one key: its weights follow from the `totals` of A and B over all keys, (2, rows). A row
    whose totals are not 1 is not a distribution and has NaN.
    """
    other_keys = (totals[0] - sums[0]) - (totals[1] - sums[1])
    is_distribution = (totals.isfinite() & ((totals - 1).abs() < 1e-3)).all(0)
    return ((sums[2] + other_keys.abs()) / 2).where(is_distribution, torch.nan).numpy()


@dataclass(frozen=True, eq=False)
class AlignedPair:
    """Two maps on one grid, or a part of this grid; a difference is A - B: changed minus original.

    Attributes:
        a, b: the two maps.
        rows, columns: positions of the grid's query and key tokens in both maps.
        measure: function that compares maps too large for memory: `compare_in_tiles`, or a function that caches it.
        row_variation: total variation of the rows, if this is a part of another pair; else None.
        window: slices of the rows and columns of the whole grid that this pair shows.
    """

    a: Side
    b: Side
    rows: tuple[Pair, ...]
    columns: tuple[Pair, ...]
    measure: Callable[..., tuple[Tiled, np.ndarray]] = compare_in_tiles
    row_variation: np.ndarray | None = None
    window: tuple[slice, slice] = (ALL, ALL)

    @property
    def tile(self) -> int:
        """Cells per side of a tile; 1 if the maps fit in memory."""
        rows, columns = len(self.rows), len(self.columns)
        return -(-max(rows, columns) // TILES) if rows * columns > MOST_CELLS else 1

    def part(self, rows: slice = ALL, columns: slice = ALL) -> "AlignedPair":
        """Select rows and columns of the grid; `variation` is still computed over all keys of a row."""
        part = {"rows": self.rows[rows], "columns": self.columns[columns], "row_variation": self.variation[rows]}
        return replace(self, **part, window=(rows, columns))

    @cached_property
    def maps(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Weights and states of all cells, for A and for B; the weight of a blank cell is NaN."""
        maps = []
        for i, side in enumerate((self.a, self.b)):
            rows = np.array([-1 if pair[i] is None else pair[i] for pair in self.rows])  # -1: not in this map
            columns = np.array([-1 if pair[i] is None else pair[i] for pair in self.columns])
            is_blank = (rows < 0)[:, None] | (columns < 0)
            if is_blank.all():
                maps.append((np.full(is_blank.shape, np.nan), np.full(is_blank.shape, BLANK)))
                continue
            top, left = int(rows[rows >= 0].min()), int(columns[columns >= 0].min())
            parts = {"rows": slice(top, int(rows.max()) + 1), "columns": slice(left, int(columns.max()) + 1)}
            window = cells(side.step, side.head, sentence=side.sentence, **parts, scores=False)
            index = np.ix_((rows - top).clip(min=0), (columns - left).clip(min=0))
            weights = np.where(is_blank, np.nan, window.weights[index].astype(np.float64))
            maps.append((weights, np.where(is_blank, BLANK, window.states[index])))
        return tuple(maps)

    @property
    def difference(self) -> np.ndarray:
        """A - B per cell; NaN where a map lacks the token or its weight is not a number."""
        (a, _), (b, _) = self.maps
        return a - b

    def tiled(self, tile: int) -> Tiled:
        """Return numbers and states of A, B and A - B, for tiles of `tile` x `tile` cells.

        The number of a tile is its finite number of largest magnitude, with its sign; NaN if no number is finite.
        A tile is `BLANK` if all its cells are blank, `BLOCKED` if no cell has a number, else `WEIGHT`. A cell of A - B
        is blank if it is blank in A or B.
        """
        if self.tile > 1:
            return self.measure(*self.measured(tile))[0]
        a, b = (states for _, states in self.maps)
        both = np.select([(a == BLANK) | (b == BLANK), (a == BLOCKED) & (b == BLOCKED)], [BLANK, BLOCKED], WEIGHT)
        tiles = []
        for numbers, states in (*self.maps, (self.difference, both)):
            ranks = np.array([2.0, 1.0, 2.0, 2.0, 0.0])[states]  # state `BLANK`, -1, indexes the last rank
            largest = largest_in_size(ranks, tile).astype(int)
            tiles.append((largest_in_size(numbers, tile), np.array([BLANK, BLOCKED, WEIGHT])[largest]))
        return tuple(tiles)

    def measured(self, tile: int | None = None) -> tuple[Side, Side, range, range, int]:
        """Return the arguments for `measure`: A, B, positions of the queries and of the keys, and cells per tile."""
        rows, columns = (range(pairs[0][0], pairs[-1][0] + 1) for pairs in (self.rows, self.columns))
        return self.a, self.b, rows, columns, tile or self.tile

    @cached_property
    def variation(self) -> np.ndarray:
        """Total variation of each row, 0 to 1: half the sum of |A - B| over all its keys.

        NaN for rows missing from one map and for rows that are not distributions, such as all rows of "max" and of
        linear attention.
        """
        if self.a.step.linear or self.b.step.linear:
            return np.full(len(self.rows), np.nan)
        if self.row_variation is not None:
            return self.row_variation
        if self.tile > 1:
            return self.measure(*self.measured())[1]
        shared = [i for i, pair in enumerate(self.columns) if None not in pair]
        a, b = (torch.from_numpy(weights[:, shared]) for weights, _ in self.maps)
        sums = torch.stack([a.sum(1), b.sum(1), (a - b).abs().sum(1)])
        totals = sums[:2].clone()
        for i, side in enumerate((self.a, self.b)):
            if len(shared) < side.step.shape[3]:
                over_all_keys = row_sums(side.step, side.head, sentence=side.sentence)
                totals[i] = over_all_keys[[pair[i] or 0 for pair in self.rows]]
        return _variation(sums, totals)

    @property
    def most_row(self) -> int | None:
        """Row with the largest total variation; None if no row differs."""
        variation = np.nan_to_num(self.variation)
        return int(variation.argmax()) if variation.max(initial=0.0) > SAME else None

    @property
    def most_cell(self) -> tuple[int, int] | None:
        """Cell with the largest difference; None if no cell differs.

        If the sites have different kinds, such as causal and bidirectional, only cells open in both maps count.
        """
        (_, a), (_, b), (difference, _) = self.tiled(self.tile)
        if self.a.site.kind != self.b.site.kind:
            difference = np.where((a == BLOCKED) | (b == BLOCKED), 0.0, difference)
        row, column = _largest(difference)
        if not abs(difference[row, column]) > SAME:
            return None
        return (row, column) if self.tile == 1 else self.largest_in(row, column, self.tile)

    def largest_in(self, row: int, column: int, tile: int) -> tuple[int, int]:
        """Find the cell with the largest difference in the tile at a row and column of tiles."""
        top, left = row * tile, column * tile
        row, column = _largest(self.part(slice(top, top + tile), slice(left, left + tile)).difference)
        return top + row, left + column


def beside(a: Side, b: Side, measure: Callable[..., tuple[Tiled, np.ndarray]] = compare_in_tiles) -> AlignedPair:
    """Align two maps on one grid, to subtract B from A; they may differ in edits, sentence, model, layer or head.

    Raises:
        InputError: if fewer than half of the tokens have a counterpart, or maps of different texts are too large.
    """
    if written(a.record, a.site) != written(b.record, b.site):
        old, new = (f"{side.site.kind} attention of {side.record.source}" for side in (a, b))
        raise InputError(f"A is {old} and B is {new}: they are over different texts, so they cannot be subtracted.")
    queries, keys = max((tuple(map(len, side.tokens)) for side in (a, b)), key=math.prod)
    if queries * keys > MOST_CELLS and a.tokens != b.tokens:
        size = f"A map of {queries:,} x {keys:,} is too large to compare with that of another text"
        raise InputError(f"{size}: at most {MOST_CELLS:,} cells. Compare heads or models on one text, or shorten it.")
    pairs = [align(*tokens) for tokens in zip(a.tokens, b.tokens, strict=True)]
    for axis, what in enumerate(("queries", "keys")):
        count, total = sum(None not in pair for pair in pairs[axis]), max(len(side.tokens[axis]) for side in (a, b))
        if count < SHARED * max(1, total):
            raise InputError(f"Only {count} of {total} {what} have a counterpart, so the maps cannot be subtracted.")
    return AlignedPair(a, b, *pairs, measure)


def written(record: Record, site: Site) -> tuple[bool, bool]:
    """Whether the queries of a site, and whether its keys, are tokens of the decoder, not of the model's input text."""
    in_decoder = bool(record.targets) and site.kind != "encoder"
    return in_decoder, in_decoder and site.kind != "cross"


def first_moved(before: Record, after: Record, *, sentence: int = 0, least: float = 0.0) -> tuple[Site, int] | None:
    """Find the first attention call whose weights differ between two runs, and its head with the largest difference.

    Returns None if no weight differs by more than `least`, and head 0 if the tokens of the call differ.
    """
    for step in after.steps:
        old, texts = before.step(step.site), [record.tokens(step.site, sentence=sentence) for record in (before, after)]
        if old.shape != step.shape or texts[0] != texts[1]:
            return step.site, 0
        changes, (queries, keys) = [], step.shape[2:]
        for head in range(step.num_heads):
            sides = (Side(record, step.site, head, sentence) for record in (before, after))
            one_tile = max(queries, keys)  # for the whole map
            tiled, _ = compare_in_tiles(*sides, range(queries), range(keys), one_tile)
            changes.append(float(np.abs(tiled[2][0]).max(initial=0.0)))
        if max(changes) > least:
            return step.site, changes.index(max(changes))
    return None


def _largest(numbers: np.ndarray) -> tuple[int, int]:
    """Find the row and column of the number with the largest magnitude; NaN is ignored."""
    return divmod(int(np.abs(np.nan_to_num(numbers)).argmax()), numbers.shape[1])
