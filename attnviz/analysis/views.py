"""Weights of a record, or a mask, in a view: with pieces of words merged, or special tokens hidden.

Rows are computed block by block; a large map is never in memory as a whole.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import torch

from attnviz.analysis import maps
from attnviz.analysis.blocks import blocks, empty_queries, openings, pool, reasons_of, row_slices, weights_of
from attnviz.analysis.groups import SPECIAL, Groups, Spans, View, as_tokens, first_reasons, grouped, groups, span_range
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
    """A block of rows of `Cells`. A merged cell is blocked if all its parts are, by the rule of its first part."""

    weights: np.ndarray
    blocked: np.ndarray
    scores: np.ndarray | None
    reasons: tuple[str, ...]

    def pooled(self, tile: int, names: dict[str, int]) -> "RowBlock":
        """Pool the rows into tiles, with the largest weight of each; `names` numbers the rules, and gets new rules."""
        numbers = np.array([0, *(names.setdefault(reason, len(names) + 1) for reason in self.reasons)])
        blocked = numbers[self.blocked]
        if tile == 1:
            return RowBlock(self.weights, blocked, self.scores, self.reasons)
        is_closed = pool(torch.from_numpy(blocked > 0).float(), tile, "min").numpy() > 0
        weights = maps.farthest(*(pool(torch.from_numpy(self.weights), tile, how) for how in ("max", "min"))).numpy()
        return RowBlock(weights, is_closed * blocked[::tile, ::tile], None, self.reasons)


@dataclass(frozen=True, eq=False)
class _Window:
    """Rows and columns of a view, limited to a window; `lengths` are the numbers of queries and keys without a sink."""

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
    def window(self) -> str:
        """Text with the positions of the window: "queries 0 to 9 of 20, keys ..."; "" for the whole map."""
        if (self.rows, self.columns) == (ALL, ALL) or not len(self.queries) or not len(self.keys):
            return ""
        spans = [(part.covered, n) for part, n in zip((self.queries, self.keys), self.lengths, strict=True)]
        texts = [f"{span.start} to {span.stop - 1} of {n:,}" for span, n in spans]
        return "queries {}, keys {}".format(*texts)


@dataclass(frozen=True, eq=False)
class AttentionView(_Window):
    """An attention call of a record in a view, limited to a window; see `see`.

    A group is in the window if its first position is in the window.
    """

    record: Record
    site: Site

    @property
    def step(self) -> Step:
        return self.record.step(self.site)

    @property
    def rule(self) -> tuple[str, ...]:
        """Lines about the rule that makes the weights of linear attention; empty for a softmax."""
        return self.step.linear.notes if self.step.linear else ()

    @property
    def partial(self) -> bool:
        """Whether keys are left out, so that rows do not sum to 1."""
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

        A merged word has the prediction of its last piece. Rows of padding have "", and so do rows that are not blanks
        if the model fills in blanks.
        """
        if self.record.predicted(self.site, sentence=self.sentence) is None:
            return None
        words = {word.position: word.word for word in predicted_words(self.record, sentence=self.sentence)}
        return self.queries.last([words.get(i, "") for i in range(self.step.shape[2])])

    def cells(self, heads: Sequence[int | str], tile: int = 1) -> list[Cells]:
        """Compute the cells of heads, see `analysis.cells_of`; a merged cell is blocked if all its parts are."""
        if self.plain:
            window = {"sentence": self.sentence, "rows": self.rows, "columns": self.columns}
            return maps.cells_of(self.step, heads, **window, tile=tile, scores=self.record.has_scores(self.site))
        return [self._cells(head, tile) for head in heads]

    def _cells(self, head: int | str, tile: int) -> Cells:
        """Compute the cells of a head in a view that merges or hides tokens."""
        names: dict[str, int] = {}
        parts = [self.block(head, rows).pooled(tile, names) for rows in self.blocks(tile)]
        weights, blocked = (np.concatenate([getattr(part, name) for part in parts]) for name in ("weights", "blocked"))
        scores = None if parts[0].scores is None else np.concatenate([part.scores for part in parts])
        states = maps.states_of(weights, blocked, self.empty(head), tile)
        positions = self.queries.starts[::tile], self.keys.starts[::tile]
        return Cells(*positions, weights, scores, states, tuple(names), blocked, tile)

    def has_scores(self, head: int | str) -> bool:
        """Whether cells have scores, which combined heads, merged tokens and linear attention lack."""
        has_merged = self.queries.merged or self.keys.merged
        return isinstance(head, int) and not has_merged and self.record.has_scores(self.site)

    def blocks(self, tile: int = 1) -> Iterator[slice]:
        """Iterate over slices of rows whose weights fit in memory at once, in whole tiles; at least one slice."""
        has_merged = self.queries.merged or self.keys.merged
        return iter(row_slices(len(self.queries), len(self.keys) if has_merged else self.step.shape[3], tile))

    def block(self, head: int | str, rows: slice) -> RowBlock:
        """Compute the cells of a slice of rows; there must be at least one row."""
        queries, step, sentence = self.queries[rows], self.step, self.sentence
        window, (weights, is_open) = queries.covered, self.weights(head, rows)
        first_cells = np.ix_(queries.starts - window.start, self.keys.starts)  # first cell of each merged cell
        reasons, blocked = (), np.zeros(weights.shape, np.int64)
        if step.mask is not None and is_open is not None:
            reasons, rules = first_reasons(step.mask, step.shape[2:], queries.spans, self.keys.spans, sentence=sentence)
            blocked = rules * ~is_open
        elif step.mask is not None:
            reasons, rules = reasons_of(step, head, window, sentence=sentence)
            blocked = rules.numpy()[first_cells]
        scores = step.scores(head, window, sentence=sentence).numpy()[first_cells] if self.has_scores(head) else None
        return RowBlock(weights, blocked, scores, reasons)

    def weights(self, head: int | str, rows: slice) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute the weights of a slice of rows and, if tokens are merged, whether any part of a cell is open."""
        queries = self.queries[rows]
        if len(self.keys) and (self.queries.merged or self.keys.merged):
            weights, is_open = self._merged(head, queries.spans, self.keys.spans)
            return weights / queries.sizes[:, None], is_open
        weights = weights_of(self.step, head, queries.covered, sentence=self.sentence).numpy()
        return weights[queries.starts - queries.covered.start][:, self.keys.starts], None

    def _merged(self, head: int | str, *spans: Spans) -> tuple[np.ndarray, np.ndarray]:
        """Sum the weights between groups, and tell whether any part of a cell is open; the last results are cached."""
        name = head, self.sentence, *(positions.tobytes() for span in spans for positions in span)
        cached = _merged.setdefault(self.step, {})
        if (result := cached.get(name)) is None:
            result = grouped(blocks(self.step, head, *map(span_range, spans), sentence=self.sentence), *spans)
            if result[0].size <= MOST_MERGED:
                while len(cached) >= MOST_MAPS:
                    cached.pop(next(iter(cached)), None)
                cached[name] = result
        return result

    def empty(self, head: int | str) -> np.ndarray:
        """Whether a row has no open key, boolean, (rows,); for a merged word, whether none of its pieces has one."""
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
        parts = [np.nan_to_num(self.weights(head, rows)[0]) for rows in self.blocks()]
        columns = [np.abs(part).argmax(1) for part in parts]
        most = [np.take_along_axis(part, column[:, None], 1)[:, 0] for part, column in zip(parts, columns, strict=True)]
        return np.concatenate(most), np.concatenate(columns)

    def strongest_cell(self, head: int | str, query: int | None = None) -> tuple[int, int]:
        """Find the position (query, key) of the largest weight of a query, or of all rows if the query is not shown.

        In the search over all rows, weights of 1 are ignored: a query with a single open key always has weight 1.
        """
        row = None if query is None else self.queries.index_of(query)
        if row is None:
            most, columns = self.strongest(head)
            sizes = np.abs(most) if self.step.linear else np.where(most < 1 - 1e-6, most, 0)
            row = int(np.where(self.padding, 0, sizes).argmax()) if most.size else 0
            column = columns[row]
        else:
            column = np.abs(np.nan_to_num(self.weights(head, slice(row, row + 1))[0][0])).argmax()
        return int(self.queries.starts[row]), int(self.keys.starts[column])

    def around(
        self, head: int | str, selected: tuple[int, int] | None, picked: Mapping[str, int], most: int
    ) -> "AttentionView":
        """Restrict the view to at most `most` queries and keys around a cell, or around the picked "query" and "key".

        If only a query is picked, the keys are those around its largest weight. If nothing is picked, the window is
        around the largest weight of the map.
        """
        parts = self.queries, self.keys
        if max(map(len, parts)) <= most:
            return self
        pairs = zip(parts, selected or map(picked.get, ("query", "key")), strict=True)
        row, column = (None if position is None else part.index_of(position) for part, position in pairs)
        if row is None and column is None:
            pairs = zip(parts, self.strongest_cell(head), strict=True)
            row, column = (part.index_of(position) for part, position in pairs)
        if column is None:
            column = self.keys.index_of(self.strongest_cell(head, int(self.queries.starts[row]))[1])
        if row is None:
            row = column if len(self.queries) == len(self.keys) else 0
        indices = zip((row, column), parts, strict=True)
        starts = (max(0, min(index - most // 2, len(part) - most)) for index, part in indices)
        rows, columns = (part[start : start + most].covered for start, part in zip(starts, parts, strict=True))
        window = {"rows": rows, "columns": columns, "view": self.view}
        return see(self.record, self.site, sentence=self.sentence, **window)

    def largest(self) -> float:
        """Return the largest weight of all heads in the whole map, ignoring NaN."""
        if self.plain:
            tile = max(1, -(-max(self.step.shape[2:]) // 128))
            heads = maps.cells_of(self.step, range(self.step.num_heads), sentence=self.sentence, tile=tile)
            return max((float(np.nan_to_num(part.weights).max(initial=0.0)) for part in heads), default=0.0)
        whole = see(self.record, self.site, sentence=self.sentence, view=self.view)
        return max(float(whole.strongest(head)[0].max(initial=0.0)) for head in range(self.step.num_heads))


def see(
    record: Record, site: Site, *, sentence: int = 0, view: View = View(), rows: slice = ALL, columns: slice = ALL
) -> AttentionView:
    """Apply a view to an attention call of a record; only groups whose first position is in the window remain."""
    tokens = record.tokens(site, sentence=sentence)
    texts = record.texts(site, sentence=sentence)
    whole = [groups(part, view, text.text) for part, text in zip(tokens, texts, strict=True)]
    sides = _window_groups(whole, view, tokens, site, rows, columns)
    step = record.step(site)
    lengths = step.shape[2], step.shape[3] - step.has_sink
    return AttentionView(sentence, rows, columns, *sides, lengths, view, record, site)


@dataclass(frozen=True, eq=False)
class SeenMask(_Window):
    """A mask in a view, limited to a window; see `see_mask`. A merged word may attend if any of its pieces may."""

    mask: Mask
    notes: tuple[str, ...]

    @cached_property
    def left(self) -> np.ndarray:
        """Number of open keys of each query position, among all keys, (Q,)."""
        return self.mask.keys_left(*self.lengths, sentence=self.sentence).numpy()

    @cached_property
    def open_keys(self) -> np.ndarray:
        """Number of open keys of each row, among the keys of the view, (rows,)."""
        if self.plain and self.columns == ALL:
            return self.left[self.rows]
        return np.concatenate([(blocked == 0).sum(1) for _, _, blocked in self.blocks()])

    def blocked(self, tile: int = 1) -> tuple[tuple[str, ...], np.ndarray]:
        """Return the reasons, and the number (from 1) of the reason that blocks each cell or tile; 0 if it is open."""
        if self.plain and tile > 1:
            window = {"rows": self.rows, "columns": self.columns}
            tiles = maps.pooled_mask(self.mask, self.lengths, tile, sentence=self.sentence, **window)
            firsts = {"rows": torch.from_numpy(tiles.queries), "columns": torch.from_numpy(tiles.keys)}
            reasons, rules = self.mask.reasons(*self.lengths, sentence=self.sentence, **firsts)
            return reasons, rules.numpy() * (tiles.open == 0)
        names: dict[str, int] = {}
        row_blocks = (RowBlock(np.zeros(codes.shape), codes, None, reasons) for _, reasons, codes in self.blocks(tile))
        parts = [block.pooled(tile, names).blocked for block in row_blocks]
        return tuple(names), np.concatenate(parts)

    def blocks(self, tile: int = 1) -> Iterator[tuple[slice, tuple[str, ...], np.ndarray]]:
        """Iterate over slices of rows, in whole tiles, with the reasons of the slice and the rule of each cell."""
        merged = self.queries.merged or self.keys.merged
        for rows in row_slices(len(self.queries), len(self.keys), tile):
            spans = self.queries[rows].spans, self.keys.spans
            reasons, rules = first_reasons(self.mask, self.lengths, *spans, sentence=self.sentence)
            if merged:
                mask_blocks = openings(self.mask, self.lengths, *map(span_range, spans), sentence=self.sentence)
                rules = rules * ~grouped(mask_blocks, *spans)[1]
            yield rows, reasons, rules


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
    whole: Sequence[Groups],
    view: View,
    tokens: Sequence[Sequence[Token]],
    what: object,
    rows: slice,
    columns: slice,
) -> list[Groups]:
    """Limit the groups of queries and keys to a window; raise InputError if a view hides all tokens of a side."""
    if view != View() and not all(map(len, whole)):
        raise InputError(f"Nothing is left to see of {what}: it has only special tokens there, which are hidden.")
    return [
        part if window == ALL else part[np.isin(part.starts, np.arange(len(side))[window])]
        for part, window, side in zip(whole, (rows, columns), tokens, strict=True)
    ]


def _notes(
    view: View, tokens: Sequence[Sequence[Token]], sides: Sequence[Groups], merged: str, hidden: str
) -> tuple[str, ...]:
    """Return the notes on a view: `merged` if it merges tokens, and `hidden` if it hides special tokens."""
    special = view.special != "show" and any(token.special for part in tokens for token in part)
    if view.unit not in ("", "words"):
        merged = merged.replace("pieces", "tokens").replace("words", view.unit)
    notes = (any(part.merged for part in sides), merged), (special, hidden)
    return tuple(text for holds, text in notes if holds)
