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
MOST_CELLS = 2**22
"""Maximum number of cells of a map that is in memory as a whole: 2,048 tokens squared."""
TILES = 256
"""Number of tiles on the longer side of a larger map."""
SAME = 1e-6
"""Largest difference of two weights that rounding explains."""
SHARED = 0.5
"""Smallest share of the tokens that must have a counterpart in the other map."""
Pair = tuple[int | None, int | None]
"""Position of a token in A and in B, from 0; None where that text lacks the token."""


@dataclass(frozen=True, eq=False)
class Side:
    """One of two maps to compare: one head, or all heads combined ("mean", "max", "min"), on a sentence of a record."""

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
    """Pair each position of text A with its position in text B, with difflib.

    Equal tokens are paired, and so are tokens of A that B replaces by the same number of tokens; others have None.
    """
    text_a, text_b = ([token if isinstance(token, str) else token.text for token in tokens] for tokens in (a, b))
    if text_a == text_b:
        return tuple((i, i) for i in range(len(text_a)))
    pairs: list[Pair] = []
    for _, i, i_end, j, j_end in SequenceMatcher(None, text_a, text_b, autojunk=False).get_opcodes():
        if i_end - i == j_end - j:
            pairs += zip(range(i, i_end), range(j, j_end), strict=True)
        else:
            pairs += [(index, None) for index in range(i, i_end)] + [(None, index) for index in range(j, j_end)]
    return tuple(pairs)


Tiled = tuple[tuple[np.ndarray, np.ndarray], ...]
"""Three pairs of arrays, for A, B and A - B: the number of each tile, and its state, both (tile rows, tile columns)."""


def compare_in_tiles(a: Side, b: Side, rows: range, columns: range, tile: int) -> tuple[Tiled, np.ndarray]:
    """Compare a window of two maps over the same tokens, block by block, so that no map is in memory as a whole.

    Returns the tiles, see `AlignedPair.tiled`, and the total variation of each row, see `AlignedPair.variation`.
    """
    shape = len(rows[::tile]), len(columns[::tile])
    largest = torch.zeros(3, *shape, dtype=torch.float64)  # of A, of B and of A - B in each tile
    smallest = torch.zeros(3, *shape, dtype=torch.float64)
    has_finite = torch.zeros(3, *shape, dtype=torch.bool)
    has_open = torch.zeros(2, *shape, dtype=torch.bool)
    sums = torch.zeros(3, len(rows), dtype=torch.float64)  # of A, of B and of |A - B| in each row
    blocks_of_sides = (blocks(side.step, side.head, rows, columns, tile, sentence=side.sentence) for side in (a, b))
    for block_pair in zip(*blocks_of_sides, strict=True):
        block_rows, block_columns = block_pair[0].rows, block_pair[0].columns
        tiles = block_rows.tiles, block_columns.tiles
        in_tiles = block_rows.num_tiles, block_rows.tile_size, block_columns.num_tiles, block_columns.tile_size
        for i, block in enumerate(block_pair):
            is_open = block.open.reshape(in_tiles).amax((1, 3)) if isinstance(block.open, Tensor) else block.open
            has_open[i][tiles] |= is_open
        if all(block.weights is None for block in block_pair):
            has_finite[:, *tiles] = True  # all weights are 0
            continue
        zeros = torch.zeros(len(block_rows.positions), len(block_columns.positions))
        weights = [(zeros if block.weights is None else block.weights).double() for block in block_pair]
        difference = weights[0] - weights[1]
        for i, numbers in enumerate((*weights, difference.abs())):
            sums[i, block_rows.in_window] += numbers.sum(1)
        all_finite = bool(sums[2, block_rows.in_window].isfinite().all())
        for i, numbers in enumerate((*weights, difference)):
            has_finite[i][tiles] |= all_finite or numbers.isfinite().view(in_tiles).any(3).any(1)
            numbers = numbers if all_finite else numbers.nan_to_num_(nan=0.0)  # rows with NaN do not count
            largest[i][tiles] = largest[i][tiles].maximum(numbers.view(in_tiles).amax((1, 3)))
            smallest[i][tiles] = smallest[i][tiles].minimum(numbers.view(in_tiles).amin((1, 3)))
    largest = farthest(largest, smallest).masked_fill_(~has_finite, torch.nan)
    window_rows, totals = slice(rows.start, rows.stop), sums[:2].clone()
    for i, side in enumerate((a, b)):
        if len(columns) < side.step.shape[3]:
            totals[i] = row_sums(side.step, side.head, sentence=side.sentence, rows=window_rows)
        empty = empty_queries(side.step, side.head, sentence=side.sentence)[window_rows]
        # tiles with only NaN, or with a row without open keys, are not drawn as blocked
        has_open[i] |= largest[i].isnan() | pool(empty.double()[:, None], tile).bool()
    states = np.where(has_open.numpy(), WEIGHT, BLOCKED)
    states_of_difference = np.where((states == BLOCKED).all(0), BLOCKED, WEIGHT)
    return tuple(zip(largest.numpy(), (*states, states_of_difference), strict=True)), _variation(sums, totals)


def _variation(sums: Tensor, totals: Tensor) -> np.ndarray:
    """Compute the total variation of each row, (rows,); NaN if the weights of the row do not sum to 1 in A or B.

    `sums` are the sums of A, B and |A - B| over the keys of a window, (3, rows), and `totals` the sums of A and B over
    all keys, (2, rows). The keys outside of the window count as one key: only the sums of their weights are known.
    """
    other_keys = (totals[0] - sums[0]) - (totals[1] - sums[1])
    is_distribution = (totals.isfinite() & ((totals - 1).abs() < 1e-3)).all(0)
    return ((sums[2] + other_keys.abs()) / 2).where(is_distribution, torch.nan).numpy()


@dataclass(frozen=True, eq=False)
class AlignedPair:
    """Maps A and B on one grid: a row for each query token and a column for each key token of A or B.

    Attributes:
        a, b: the two maps; differences are A - B.
        rows, columns: positions in A and in B of the query tokens and of the key tokens.
        measure: function that compares maps too large for memory: `compare_in_tiles`, or a function that caches it.
        row_variation: total variation of each row of a `part`, computed over the whole grid; None for the whole grid.
        window: rows and columns of the whole grid that a `part` shows.
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
        """Weights and states of the grid's cells, (rows, columns), for A and for B; a blank cell has the weight NaN."""
        maps = []
        for i, side in enumerate((self.a, self.b)):
            rows = np.array([-1 if pair[i] is None else pair[i] for pair in self.rows])  # -1: missing from this map
            columns = np.array([-1 if pair[i] is None else pair[i] for pair in self.columns])
            is_blank = (rows < 0)[:, None] | (columns < 0)
            if is_blank.all():
                maps.append((np.full(is_blank.shape, np.nan), np.full(is_blank.shape, BLANK)))
                continue
            top, left = int(rows[rows >= 0].min()), int(columns[columns >= 0].min())
            window = {"rows": slice(top, int(rows.max()) + 1), "columns": slice(left, int(columns.max()) + 1)}
            computed = cells(side.step, side.head, sentence=side.sentence, **window, scores=False)
            # index of each grid cell in `computed`; blank cells have any index, because they are overwritten
            indices = np.ix_((rows - top).clip(min=0), (columns - left).clip(min=0))
            weights = np.where(is_blank, np.nan, computed.weights[indices].astype(np.float64))
            maps.append((weights, np.where(is_blank, BLANK, computed.states[indices])))
        return tuple(maps)

    @property
    def difference(self) -> np.ndarray:
        """A - B per cell; NaN where a map lacks the token or its weight is not a number."""
        (a, _), (b, _) = self.maps
        return a - b

    def tiled(self, tile: int) -> Tiled:
        """Return the numbers and states of A, B and A - B for tiles of `tile` x `tile` cells.

        The number of a tile is its finite number farthest from 0; NaN if no number is finite. A tile is `BLANK` if all
        its cells are blank, `BLOCKED` if all others are blocked, else `WEIGHT`. A - B is blank where A or B is blank.
        """
        if self.tile > 1:
            return self.measure(*self.measure_arguments(tile))[0]
        (_, states_a), (_, states_b) = self.maps
        is_blank = (states_a == BLANK) | (states_b == BLANK)
        is_blocked = (states_a == BLOCKED) & (states_b == BLOCKED)
        states_of_difference = np.select([is_blank, is_blocked], [BLANK, BLOCKED], WEIGHT)
        tiles = []
        for numbers, states in (*self.maps, (self.difference, states_of_difference)):
            ranks = np.select([states == BLANK, states == BLOCKED], [0.0, 1.0], 2.0)
            highest_rank = largest_in_size(ranks, tile).astype(int)  # among the cells of each tile
            tiles.append((largest_in_size(numbers, tile), np.array([BLANK, BLOCKED, WEIGHT])[highest_rank]))
        return tuple(tiles)

    def measure_arguments(self, tile: int | None = None) -> tuple[Side, Side, range, range, int]:
        """Return the arguments of `measure`, for maps over the same tokens: A, B, rows, columns and cells per tile."""
        rows, columns = (range(pairs[0][0], pairs[-1][0] + 1) for pairs in (self.rows, self.columns))
        return self.a, self.b, rows, columns, tile or self.tile

    @cached_property
    def variation(self) -> np.ndarray:
        """Total variation of each row, (rows,), 0 to 1: half the sum of |A - B| over all its keys.

        NaN if a map lacks the row, or if its weights are not a distribution ("max" over heads, linear attention).
        """
        if self.a.step.linear or self.b.step.linear:
            return np.full(len(self.rows), np.nan)
        if self.row_variation is not None:
            return self.row_variation
        if self.tile > 1:
            return self.measure(*self.measure_arguments())[1]
        in_both = [column for column, pair in enumerate(self.columns) if None not in pair]
        a, b = (torch.from_numpy(weights[:, in_both]) for weights, _ in self.maps)
        sums = torch.stack([a.sum(1), b.sum(1), (a - b).abs().sum(1)])
        totals = sums[:2].clone()
        for i, side in enumerate((self.a, self.b)):
            if len(in_both) < side.step.shape[3]:
                sums_over_all_keys = row_sums(side.step, side.head, sentence=side.sentence)
                # any query in place of a missing one: `sums` has NaN in its row
                totals[i] = sums_over_all_keys[[0 if pair[i] is None else pair[i] for pair in self.rows]]
        return _variation(sums, totals)

    @property
    def most_changed_row(self) -> int | None:
        """Index of the row with the largest total variation; None if no row differs."""
        variation = np.nan_to_num(self.variation)
        return int(variation.argmax()) if variation.max(initial=0.0) > SAME else None

    @property
    def most_changed_cell(self) -> tuple[int, int] | None:
        """Row and column of the cell with the largest difference; None if no cell differs.

        If one map is of an encoder and the other of a decoder, only cells that are open in both maps count.
        """
        (_, states_a), (_, states_b), (difference, _) = self.tiled(self.tile)
        if self.a.site.kind != self.b.site.kind:
            difference = np.where((states_a == BLOCKED) | (states_b == BLOCKED), 0.0, difference)
        row, column = _largest(difference)
        if not abs(difference[row, column]) > SAME:
            return None
        return (row, column) if self.tile == 1 else self.largest_in(row, column, self.tile)

    def largest_in(self, row: int, column: int, tile: int) -> tuple[int, int]:
        """Find the cell with the largest difference in one tile, given the row and column of the tile and its size."""
        top, left = row * tile, column * tile
        row, column = _largest(self.part(slice(top, top + tile), slice(left, left + tile)).difference)
        return top + row, left + column


def beside(a: Side, b: Side, measure: Callable[..., tuple[Tiled, np.ndarray]] = compare_in_tiles) -> AlignedPair:
    """Align two maps on one grid, to subtract B from A; they may differ in edits, sentence, model, layer or head.

    Raises:
        InputError: if fewer than half of the tokens have a counterpart, or maps of different texts are too large.
    """
    if in_decoder(a.record, a.site) != in_decoder(b.record, b.site):
        calls = " and B is ".join(f"{side.site.kind} attention of {side.record.source}" for side in (a, b))
        raise InputError(f"A is {calls}: they are over different texts, so they cannot be subtracted.")
    sizes = [(len(side.tokens[0]), len(side.tokens[1])) for side in (a, b)]
    queries, keys = max(sizes, key=math.prod)
    if queries * keys > MOST_CELLS and a.tokens != b.tokens:
        size = f"A map of {queries:,} x {keys:,} is too large to compare with the map of another text"
        raise InputError(f"{size}: at most {MOST_CELLS:,} cells. Compare heads or models on one text, or shorten it.")
    rows, columns = (align(tokens_a, tokens_b) for tokens_a, tokens_b in zip(a.tokens, b.tokens, strict=True))
    for axis, (name, pairs) in enumerate((("queries", rows), ("keys", columns))):
        count, total = sum(None not in pair for pair in pairs), max(len(side.tokens[axis]) for side in (a, b))
        if count < SHARED * max(1, total):
            raise InputError(f"Only {count} of {total} {name} have a counterpart, so the maps cannot be subtracted.")
    return AlignedPair(a, b, rows, columns, measure)


def in_decoder(record: Record, site: Site) -> tuple[bool, bool]:
    """For the queries and for the keys of a site: whether they are tokens of the decoder, not of the input text."""
    queries_in_decoder = bool(record.targets) and site.kind != "encoder"
    return queries_in_decoder, queries_in_decoder and site.kind != "cross"


def first_changed(before: Record, after: Record, *, sentence: int = 0, least: float = 0.0) -> tuple[Site, int] | None:
    """Find the first attention call whose weights differ between two runs, and its head with the largest difference.

    Returns None if no weight differs by more than `least`, and head 0 if the tokens of the call differ.
    """
    for step in after.steps:
        tokens = [record.tokens(step.site, sentence=sentence) for record in (before, after)]
        if before.step(step.site).shape != step.shape or tokens[0] != tokens[1]:
            return step.site, 0
        queries, keys = step.shape[2:]
        differences = []  # largest difference of each head
        for head in range(step.num_heads):
            sides = (Side(record, step.site, head, sentence) for record in (before, after))
            one_tile = max(queries, keys)  # the whole map is one tile
            (_, _, (difference, _)), _ = compare_in_tiles(*sides, range(queries), range(keys), one_tile)
            differences.append(float(np.abs(difference).max(initial=0.0)))
        if max(differences) > least:
            return step.site, differences.index(max(differences))
    return None


def _largest(numbers: np.ndarray) -> tuple[int, int]:
    """Find the row and column of the number with the largest magnitude; NaN is ignored."""
    return divmod(int(np.abs(np.nan_to_num(numbers)).argmax()), numbers.shape[1])
