"""Weights of a record, or a mask, in a view: with pieces of words merged, or special tokens hidden.

Rows are computed block by block; a large map is never in memory as a whole.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import torch

from attnviz.analysis import maps
from attnviz.analysis.blocks import blocks, empty_queries, openings, pool, reasons_of, row_slices, weights_of
from attnviz.analysis.groups import SPECIAL, Groups, View, as_tokens, first_reasons, grouped, groups
from attnviz.analysis.maps import Cells
from attnviz.analysis.predictions import predicted_words
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Mask
from attnviz.core.record import ALL, Record, Step
from attnviz.core.tokens import Token

__all__ = ["SPECIAL", "AttentionView", "Groups", "SeenMask", "View", "as_tokens", "groups", "see", "see_mask"]

MERGED = "pieces are merged into words: weights summed over keys, averaged over queries"
HIDDEN = "special tokens are hidden: rows sum to less than 1"
READ_ONLY = "weights as the model gives them; its scores are not known"
MERGED_MASK = "pieces are merged into words: a word may attend where any of its pieces may"
HIDDEN_MASK = "special tokens are hidden"
MOST_MERGED, MOST_MAPS = 2**20, 16
"""Maximum number of cells of a cached map of groups (9 MB), and of cached maps per step."""
_merged: WeakKeyDictionary[Step, dict[tuple, tuple[np.ndarray, np.ndarray]]] = WeakKeyDictionary()
"""Cached maps of groups for each step, by head, sentence and groups."""


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some rows of `Cells`. A merged cell is blocked if all cells in it are, by the rule that blocks its first cell."""

    weights: np.ndarray
    blocked: np.ndarray
    scores: np.ndarray | None
    reasons: tuple[str, ...]

    def pooled(self, tile: int, rule_numbers: dict[str, int]) -> "RowBlock":
        """Reduce the rows to tiles; rules get their numbers in `rule_numbers`, which all rows of a map share."""
        numbers = [rule_numbers.setdefault(reason, len(rule_numbers) + 1) for reason in self.reasons]
        blocked = np.array([0, *numbers])[self.blocked]
        if tile == 1:
            return RowBlock(self.weights, blocked, self.scores, self.reasons)
        is_blocked = pool(torch.from_numpy(blocked > 0).float(), tile, "min").numpy() > 0
        weights = torch.from_numpy(self.weights)
        farthest = maps.farthest(pool(weights, tile, "max"), pool(weights, tile, "min")).numpy()
        return RowBlock(farthest, is_blocked * blocked[::tile, ::tile], None, self.reasons)


@dataclass(frozen=True, eq=False)
class _Window:
    """Groups of tokens that are the rows and columns of a map in a view, limited to a window of positions.

    `lengths` are the numbers of queries and keys of the whole map, without a sink.
    """

    sentence: int
    rows: slice
    columns: slice
    queries: Groups
    keys: Groups
    lengths: tuple[int, int]
    view: View

    @property
    def plain(self) -> bool:
        """Whether every token is shown on its own."""
        return self.view == View()

    @property
    def has_merged(self) -> bool:
        """Whether any row or column is made of several tokens."""
        return self.queries.merged or self.keys.merged

    @property
    def window(self) -> str:
        """Text with the positions of the window: "queries 0 to 9 of 20, keys ..."; "" for the whole map."""
        if (self.rows, self.columns) == (ALL, ALL) or not len(self.queries) or not len(self.keys):
            return ""
        queries, keys = self.queries.covered, self.keys.covered
        text = f"queries {queries.start} to {queries.stop - 1} of {self.lengths[0]:,}"
        return f"{text}, keys {keys.start} to {keys.stop - 1} of {self.lengths[1]:,}"


@dataclass(frozen=True, eq=False)
class AttentionView(_Window):
    """An attention call of a record in a view, limited to the groups that begin in a window; see `see`."""

    record: Record
    site: Site

    @property
    def step(self) -> Step:
        return self.record.step(self.site)

    @property
    def rule(self) -> tuple[str, ...]:
        """Sentences about the rule that makes the weights of linear attention; empty for a softmax."""
        return self.step.linear.notes if self.step.linear else ()

    @property
    def partial(self) -> bool:
        """Whether the view hides keys, so that rows do not sum to 1."""
        keys = self.record.tokens(self.site, sentence=self.sentence)[1]
        return self.view.special == "hide" and any(token.special for token in keys)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on tokens that are merged or hidden, and on unknown scores."""
        tokens = self.record.tokens(self.site, sentence=self.sentence)
        notes = _notes(self.view, tokens, (self.queries, self.keys), MERGED, HIDDEN)
        return (*notes, READ_ONLY) if self.record.read_only else notes

    @cached_property
    def padding(self) -> np.ndarray:
        """Whether a row is padding, boolean, (rows,)."""
        text, _ = self.record.texts(self.site, sentence=self.sentence)
        return (self.queries.starts >= text.length) & (self.queries.starts < len(text.tokens))

    @cached_property
    def predicted(self) -> tuple[str, ...] | None:
        """Most probable word after each row, or "NaN"; None if the model predicts no words.

        A merged word has the prediction of its last piece. Rows without a prediction, such as padding, have "".
        """
        if self.record.predicted(self.site, sentence=self.sentence) is None:
            return None
        words = {word.position: word.word for word in predicted_words(self.record, sentence=self.sentence)}
        return self.queries.last([words.get(i, "") for i in range(self.step.shape[2])])

    def cells(self, heads: Sequence[int | str], tile: int = 1) -> list[Cells]:
        """Compute the cells of heads, see `analysis.cells_of`; a merged cell is blocked if all cells in it are."""
        if self.plain:
            window = {"sentence": self.sentence, "rows": self.rows, "columns": self.columns}
            return maps.cells_of(self.step, heads, **window, tile=tile, scores=self.record.has_scores(self.site))
        return [self._cells(head, tile) for head in heads]

    def _cells(self, head: int | str, tile: int) -> Cells:
        """Compute the cells of a head in a view that merges or hides tokens."""
        rule_numbers: dict[str, int] = {}
        row_blocks = [self.block(head, rows).pooled(tile, rule_numbers) for rows in self.blocks(tile)]
        weights = np.concatenate([block.weights for block in row_blocks])
        blocked = np.concatenate([block.blocked for block in row_blocks])
        scores = [block.scores for block in row_blocks if block.scores is not None]
        scores = np.concatenate(scores) if scores else None
        states = maps.states_of(weights, blocked, self.empty(head), tile)
        queries, keys = self.queries.starts[::tile], self.keys.starts[::tile]
        return Cells(queries, keys, weights, scores, states, tuple(rule_numbers), blocked, tile)

    def has_scores(self, head: int | str) -> bool:
        """Whether cells have scores, which combined heads, merged tokens and linear attention lack."""
        return isinstance(head, int) and not self.has_merged and self.record.has_scores(self.site)

    def blocks(self, tile: int = 1) -> Iterator[slice]:
        """Iterate over slices of rows whose weights fit in memory at once, in whole tiles; at least one slice."""
        return iter(row_slices(len(self.queries), len(self.keys) if self.has_merged else self.step.shape[3], tile))

    def block(self, head: int | str, rows: slice) -> RowBlock:
        """Compute the cells of a slice of rows; there must be at least one row."""
        queries, step, sentence = self.queries[rows], self.step, self.sentence
        weights, is_open = self.weights(head, rows)
        first_cells = np.ix_(queries.starts - queries.covered.start, self.keys.starts)  # of each row and column
        reasons, blocked, scores = (), np.zeros(weights.shape, np.int64), None
        if step.mask is not None and is_open is not None:
            reasons, codes = first_reasons(step.mask, step.shape[2:], queries, self.keys, sentence=sentence)
            blocked = codes * ~is_open
        elif step.mask is not None:
            reasons, codes = reasons_of(step, head, queries.covered, sentence=sentence)
            blocked = codes.numpy()[first_cells]
        if self.has_scores(head):
            scores = step.scores(head, queries.covered, sentence=sentence).numpy()[first_cells]
        return RowBlock(weights, blocked, scores, reasons)

    def weights(self, head: int | str, rows: slice) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute the weights of rows, and which cells have an open cell in them (None if no cells are merged)."""
        queries = self.queries[rows]
        if len(self.keys) and self.has_merged:
            weights, is_open = self._merged(head, queries, self.keys)
            return weights / queries.sizes[:, None], is_open  # mean over queries
        weights = weights_of(self.step, head, queries.covered, sentence=self.sentence).numpy()
        return weights[queries.starts - queries.covered.start][:, self.keys.starts], None

    def _merged(self, head: int | str, queries: Groups, keys: Groups) -> tuple[np.ndarray, np.ndarray]:
        """Return the result of `grouped` for groups of queries and keys; the last results are cached."""
        positions = queries.starts, queries.stops, keys.starts, keys.stops
        cache_key = head, self.sentence, *(array.tobytes() for array in positions)
        cache = _merged.setdefault(self.step, {})
        if (result := cache.get(cache_key)) is None:
            window = (range(groups.covered.start, groups.covered.stop) for groups in (queries, keys))
            result = grouped(blocks(self.step, head, *window, sentence=self.sentence), queries, keys)
            if result[0].size <= MOST_MERGED:
                while len(cache) >= MOST_MAPS:
                    oldest = next(iter(cache))
                    cache.pop(oldest, None)
                cache[cache_key] = result
        return result

    def empty(self, head: int | str) -> np.ndarray:
        """Mark the rows without an open key, boolean, (rows,); a merged row has none if none of its tokens has one."""
        empty = empty_queries(self.step, head, sentence=self.sentence).numpy()
        return self.queries.every(empty)

    def row_sums(self, head: int | str) -> np.ndarray:
        """Sum each row's weights over all keys of the view, including those outside of the window."""
        if self.plain:
            return maps.row_sums(self.step, head, sentence=self.sentence, rows=self.rows).numpy()
        whole_rows = see(self.record, self.site, sentence=self.sentence, view=self.view, rows=self.rows)
        return np.concatenate([whole_rows.weights(head, rows)[0].sum(1) for rows in whole_rows.blocks()])

    def strongest(self, head: int | str) -> tuple[np.ndarray, np.ndarray]:
        """Find the weight of each row that is farthest from 0, ignoring NaN, and its column; both (rows,)."""
        if self.plain:
            return maps.strongest(self.step, head, sentence=self.sentence, rows=self.rows, columns=self.columns)
        largest, columns = [], []
        for rows in self.blocks():
            weights = np.nan_to_num(self.weights(head, rows)[0])
            columns.append(np.abs(weights).argmax(1))
            largest.append(weights[np.arange(len(weights)), columns[-1]])
        return np.concatenate(largest), np.concatenate(columns)

    def strongest_cell(self, head: int | str, query: int | None = None) -> tuple[int, int]:
        """Find the (query, key) of the largest weight of `query`; of all rows if it is None or not in the view.

        In the search over all rows, weights of 1 are ignored: a query with a single open key always has weight 1.
        """
        row = None if query is None else self.queries.index_of(query)
        if row is None:
            largest, columns = self.strongest(head)
            sizes = np.abs(largest) if self.step.linear else np.where(largest < 1 - 1e-6, largest, 0)
            row = int(np.where(self.padding, 0, sizes).argmax()) if largest.size else 0
            column = columns[row]
        else:
            weights, _ = self.weights(head, slice(row, row + 1))
            column = np.abs(np.nan_to_num(weights[0])).argmax()
        return int(self.queries.starts[row]), int(self.keys.starts[column])

    def around(
        self, head: int | str, selected: tuple[int, int] | None, picked: Mapping[str, int], most: int
    ) -> "AttentionView":
        """Restrict the view to at most `most` rows and columns around a cell.

        The center is the cell `selected`, (query, key), else the picked "query" and "key". A missing key is the key
        with the query's largest weight; if both are missing, the center is the cell with the largest weight of the map.
        """
        if max(len(self.queries), len(self.keys)) <= most:
            return self
        query, key = selected or (picked.get("query"), picked.get("key"))
        row = None if query is None else self.queries.index_of(query)
        column = None if key is None else self.keys.index_of(key)
        if row is None and column is None:
            query, key = self.strongest_cell(head)
            row, column = self.queries.index_of(query), self.keys.index_of(key)
        if column is None:
            _, key = self.strongest_cell(head, int(self.queries.starts[row]))
            column = self.keys.index_of(key)
        if row is None:
            row = column if len(self.queries) == len(self.keys) else 0
        window = []
        for index, axis in ((row, self.queries), (column, self.keys)):
            start = max(0, min(index - most // 2, len(axis) - most))
            window.append(axis[start : start + most].covered)
        rows, columns = window
        return see(self.record, self.site, sentence=self.sentence, view=self.view, rows=rows, columns=columns)

    def largest(self) -> float:
        """Return the largest weight of all heads in the whole map, ignoring NaN."""
        if self.plain:
            tile = max(1, math.ceil(max(self.step.shape[2:]) / 128))  # at most 128 tiles per side
            heads = maps.cells_of(self.step, range(self.step.num_heads), sentence=self.sentence, tile=tile)
            return max((float(np.nan_to_num(cells.weights).max(initial=0.0)) for cells in heads), default=0.0)
        whole = see(self.record, self.site, sentence=self.sentence, view=self.view)
        return max(float(whole.strongest(head)[0].max(initial=0.0)) for head in range(self.step.num_heads))


def see(
    record: Record, site: Site, *, sentence: int = 0, view: View = View(), rows: slice = ALL, columns: slice = ALL
) -> AttentionView:
    """Apply a view to an attention call of a record; only groups whose first position is in the window remain."""
    tokens = record.tokens(site, sentence=sentence)  # of queries, and of keys
    texts = record.texts(site, sentence=sentence)
    all_groups = [groups(part, view, text.text) for part, text in zip(tokens, texts, strict=True)]
    sides = _window_groups(all_groups, view, tokens, site, rows, columns)
    step = record.step(site)
    lengths = step.shape[2], step.shape[3] - step.has_sink
    return AttentionView(sentence, rows, columns, *sides, lengths, view, record, site)


@dataclass(frozen=True, eq=False)
class SeenMask(_Window):
    """A mask in a view, limited to a window; see `see_mask`. A merged word may attend if any of its pieces may."""

    mask: Mask
    notes: tuple[str, ...]

    @cached_property
    def all_open_keys(self) -> np.ndarray:
        """Number of open keys of each query position, among all keys, (Q,)."""
        return self.mask.keys_left(*self.lengths, sentence=self.sentence).numpy()

    @cached_property
    def open_keys(self) -> np.ndarray:
        """Number of open keys of each row, among the keys of the view, (rows,)."""
        if self.plain and self.columns == ALL:
            return self.all_open_keys[self.rows]
        return np.concatenate([(blocked == 0).sum(1) for _, _, blocked in self.blocks()])

    def blocked(self, tile: int = 1) -> tuple[tuple[str, ...], np.ndarray]:
        """Return the names of the rules and a code per cell or tile: 0 if it is open, i if names[i - 1] blocks it."""
        if self.plain and tile > 1:
            window = {"rows": self.rows, "columns": self.columns}
            tiles = maps.pooled_mask(self.mask, self.lengths, tile, sentence=self.sentence, **window)
            first_cells = {"rows": torch.from_numpy(tiles.queries), "columns": torch.from_numpy(tiles.keys)}
            reasons, rules = self.mask.reasons(*self.lengths, sentence=self.sentence, **first_cells)
            return reasons, rules.numpy() * (tiles.open == 0)
        rule_numbers: dict[str, int] = {}
        blocked = []
        for _, reasons, codes in self.blocks(tile):
            row_block = RowBlock(np.zeros(codes.shape), codes, None, reasons)
            blocked.append(row_block.pooled(tile, rule_numbers).blocked)
        return tuple(rule_numbers), np.concatenate(blocked)

    def blocks(self, tile: int = 1) -> Iterator[tuple[slice, tuple[str, ...], np.ndarray]]:
        """Iterate over slices of rows, in whole tiles: the slice, the names of its rules, and a code per cell."""
        for rows in row_slices(len(self.queries), len(self.keys), tile):
            queries, keys = self.queries[rows], self.keys
            reasons, codes = first_reasons(self.mask, self.lengths, queries, keys, sentence=self.sentence)
            if self.has_merged:
                window = (range(groups.covered.start, groups.covered.stop) for groups in (queries, keys))
                _, is_open = grouped(openings(self.mask, self.lengths, *window, sentence=self.sentence), queries, keys)
                codes = codes * ~is_open  # a merged cell is open if any cell in it is
            yield rows, reasons, codes


def see_mask(
    mask: Mask,
    queries: Sequence[Token],
    keys: Sequence[Token],
    *,
    sentence: int = 0,
    view: View = View(),
    rows: slice = ALL,
    columns: slice = ALL,
) -> SeenMask:
    """Apply a view to a mask over tokens; only groups whose first position is in the window remain."""
    tokens = tuple(queries), tuple(keys)
    sides = _window_groups([groups(part, view) for part in tokens], view, tokens, "the mask", rows, columns)
    notes = _notes(view, tokens, sides, MERGED_MASK, HIDDEN_MASK)
    return SeenMask(sentence, rows, columns, *sides, (len(queries), len(keys)), view, mask, notes)


def _window_groups(
    whole: Sequence[Groups], view: View, tokens: Sequence[Sequence[Token]], name: object, rows: slice, columns: slice
) -> list[Groups]:
    """Limit the queries and keys of the map `name` to a window; raise InputError if the view hides all of them."""
    if view != View() and not all(map(len, whole)):
        raise InputError(f"Nothing is left to see of {name}: it has only special tokens there, which are hidden.")
    sides = []
    for side, window, all_tokens in zip(whole, (rows, columns), tokens, strict=True):
        positions = np.arange(len(all_tokens))[window]
        sides.append(side if window == ALL else side[np.isin(side.starts, positions)])
    return sides


def _notes(
    view: View, tokens: Sequence[Sequence[Token]], sides: Sequence[Groups], merged: str, hidden: str
) -> tuple[str, ...]:
    """Return the notes on a view: `merged` if it merges tokens, and `hidden` if it hides special tokens."""
    if view.unit not in ("", "words"):  # the text is about pieces of words
        merged = merged.replace("pieces", "tokens").replace("words", view.unit)
    has_special = any(token.special for side in tokens for token in side)
    notes = [merged] if any(side.merged for side in sides) else []
    notes += [hidden] if view.special == "hide" and has_special else []
    return tuple(notes)
