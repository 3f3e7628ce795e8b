"""Views: what is seen of a map: pieces merged into words or sentences, special tokens left out, a pair taken apart.

Of a record a view changes nothing: the weights that are seen are made of its own, row block by row block.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
import torch

from attnviz import metrics
from attnviz.core.edits import Site
from attnviz.core.errors import InputError, check_whole
from attnviz.core.masks import Mask
from attnviz.core.record import ALL, Record, Step
from attnviz.core.tokens import Token, begins_sentence
from attnviz.metrics import EMPTY, NAN, Cells, stream

SPECIAL = ("show", "hide", "renormalize")
"""What becomes of special tokens: "renormalize" hides them and divides what is left of each row by its sum."""

PAIRS = {"all": (None, None), "A to A": (0, 0), "A to B": (0, 1), "B to A": (1, 0), "B to B": (1, 1)}
"""Which text of a pair the queries and the keys are of, by `Token.segment`."""

MOST_PARTS = 1_000

MERGED = "pieces are merged into words: weights summed over keys, averaged over queries"
MERGED_MASK = "pieces are merged into words: one may attend where any of its pieces may"
HIDDEN_MASK = "special tokens are hidden"
HIDDEN = "special tokens are hidden: rows sum to less than 1"
RENORMALIZED = "special tokens are hidden: what is left of each row is divided by its sum"
READ_ONLY = "weights as the model gives them; its scores are not known"


@dataclass(frozen=True)
class View:
    """How a map is looked at; as it is given, everything is seen as it is.

    Attributes:
        words: whether pieces of a word are seen as one: their weights are summed over keys and averaged over queries,
            so that row sums are kept.
        special: one of `SPECIAL`.
        pair: one of `PAIRS`, of a pair of texts A and B.
        sentences: whether the tokens of a sentence are seen as one, as the pieces of a word are: see `begins_sentence`.
        parts: into how many stretches of as many tokens each the text is cut, which are seen as one each; 0 for none.

    Raises:
        InputError: names what there is.
    """

    words: bool = False
    special: str = "show"
    pair: str = "all"
    sentences: bool = False
    parts: int = 0

    def __post_init__(self):
        check_whole("The number of parts of a view", self.parts, 0, MOST_PARTS)
        for what, value, known in (("special", self.special, SPECIAL), ("pair", self.pair, PAIRS)):
            if value not in known:
                raise InputError(f"A view cannot have {what}={value!r}; there are {', '.join(known)}.")

    def in_short(self) -> str:
        """For the name of a file: "words hide A to B"."""
        parts = (
            f"{self.parts} parts" if self.parts else "sentences" if self.sentences else "words" if self.words else "",
            self.special if self.special != "show" else "",
        )
        return " ".join(filter(None, (*parts, self.pair if self.pair != "all" else "")))


@dataclass(frozen=True, eq=False)
class Groups:
    """What the rows or the columns of a map are: stretches of positions, in order, that are seen as one each.

    Attributes:
        tokens: what each is called.
        starts, stops: where each begins and ends, (groups,).
    """

    tokens: tuple[Token, ...]
    starts: np.ndarray
    stops: np.ndarray

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, picked: slice | np.ndarray) -> "Groups":
        starts, stops = self.starts[picked], self.stops[picked]
        chosen = np.arange(len(self))[picked].tolist()
        return Groups(tuple(self.tokens[i] for i in chosen), starts, stops)

    @property
    def sizes(self) -> np.ndarray:
        return self.stops - self.starts

    @property
    def spans(self) -> metrics.Spans:
        return self.starts, self.stops

    @property
    def stretch(self) -> slice:
        """The positions from the first group to the last, which are at least one."""
        return slice(int(self.starts[0]), int(self.stops[-1]))

    @property
    def merged(self) -> bool:
        return bool((self.sizes > 1).any())

    @cached_property
    def labels(self) -> tuple[str, ...]:
        return tuple(token.text for token in self.tokens)

    def at(self, position: int) -> int | None:
        """The group that holds a position; None if it is not seen."""
        found = np.flatnonzero((self.starts <= position) & (position < self.stops))
        return int(found[0]) if len(found) else None

    def place(self, i: int) -> int | str:
        """The position of a group; of several, the first and the last: "1–5"."""
        start, last = int(self.starts[i]), int(self.stops[i]) - 1
        return start if start == last else f"{start}–{last}"

    def last(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Of the texts at its positions, the last of each group that is not empty."""
        spans = zip(self.starts.tolist(), self.stops.tolist(), strict=True)
        return tuple(next(filter(None, (texts[i] for i in reversed(range(*span)))), "") for span in spans)

    def merge(self, cells: np.ndarray, axis: int, how: np.ufunc = np.add, begins: int = 0) -> np.ndarray:
        """Cells whose positions on an axis count from `begins`, made one per group."""
        sizes = self.sizes
        ends = np.cumsum(sizes)
        taken = np.arange(sizes.sum()) + np.repeat(self.starts - ends + sizes, sizes) - begins
        if not self.merged:
            return cells.take(taken, axis)
        return how.reduceat(cells.take(taken, axis), ends - sizes, axis)


def groups(tokens: Sequence[Token], view: View = View(), text: str = "") -> Groups:
    """Each token, word, sentence or part of a view, without special tokens if it hides them; `text` is what was cut."""
    if view.special == "show" and not (view.words or view.sentences or view.parts):
        starts = np.arange(len(tokens))
        return Groups(tuple(tokens), starts, starts + 1)
    n, cut = len(tokens), view.parts or 1
    begins = [
        i
        for i, token in enumerate(tokens)
        if not (i and i * cut // n == (i - 1) * cut // n and _continues(tokens[i - 1], token, view, text))
    ]
    spans = list(zip(begins, [*begins[1:], len(tokens)], strict=True))
    spans = [span for span in spans if view.special == "show" or not tokens[span[0]].special]
    starts, stops = (np.array([span[end] for span in spans], np.int64) for end in (0, 1))
    if view.parts:
        return Groups(tuple(_part(tokens[start], start / n, stop / n) for start, stop in spans), starts, stops)
    return Groups(tuple(_word(tokens[start:stop], text) for start, stop in spans), starts, stops)


def as_tokens(tokens: Sequence[Token | str]) -> tuple[Token, ...]:
    """Texts as tokens that are neither special nor joined."""
    return tuple(Token(token, 0, 0, 0) if isinstance(token, str) else token for token in tokens)


def _continues(before: Token, token: Token, view: View, text: str) -> bool:
    """Whether a view sees a token and the one before it as one, where they are in one part."""
    if view.parts:
        return token.segment == before.segment and (view.special == "show" or not (token.special or before.special))
    if token.special or before.special or token.segment != before.segment:
        return False
    return not begins_sentence(before, token, text) if view.sentences else view.words and token.joined


def _part(first: Token, begin: float, end: float) -> Token:
    """A part of a text, called by where it stands: "0–10%"."""
    return replace(first, text=f"{100 * begin:.3g}–{100 * end:.3g}%", special=False, joined=False)


def _word(pieces: Sequence[Token], text: str) -> Token:
    """Pieces as one token: the text from where the first begins to where the last ends."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return first
    rest = (piece.text if piece.joined else f" {piece.text}" for piece in pieces[1:])
    whole = text[first.start : last.end] or first.text + "".join(rest)
    return Token(whole, first.id, first.start, last.end, segment=first.segment, joined=first.joined)


@dataclass(frozen=True, eq=False)
class Seen:
    """A site of a record through a view, in a window; see `see`. A group is in a window that holds its first position.

    Attributes:
        queries, keys: the rows and the columns.
        every_key: also those that the pair and the window leave out; what is left of a row is divided by their sum.
    """

    record: Record
    site: Site
    sentence: int
    view: View
    rows: slice
    columns: slice
    queries: Groups
    keys: Groups
    every_key: Groups

    @property
    def step(self) -> Step:
        return self.record.step(self.site)

    @property
    def plain(self) -> bool:
        return self.view == View()

    @property
    def partial(self) -> bool:
        """Whether keys are left out, so that rows do not sum to 1."""
        hides = self.view.special == "hide" and any(token.special for token in self._tokens[1])
        return hides or self.view.pair != "all"

    @property
    def _tokens(self) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        return self.record.tokens(self.site, sentence=self.sentence)

    @property
    def notes(self) -> tuple[str, ...]:
        """What must be said of what is merged, hidden, divided or not known."""
        hidden = HIDDEN if self.view.special == "hide" else RENORMALIZED
        notes = _notes(self.view, self._tokens, (self.queries, self.keys), MERGED, hidden)
        return (*notes, READ_ONLY) if self.record.read_only else notes

    @property
    def window(self) -> str:
        """Which positions are seen, where not all are."""
        return window_in_words(self)

    @property
    def lengths(self) -> tuple[int, int]:
        """How many queries and keys there are, a sink aside."""
        return self.step.shape[2], self.step.shape[3] - self.step.has_sink

    @cached_property
    def predicted(self) -> tuple[str, ...] | None:
        """The most probable word after each row (of a word, after its last piece): "NaN" where there is none.

        "" after padding, and of a model that fills in at all that is no blank. None where nothing is predicted.
        """
        if self.record.predicted(self.site, sentence=self.sentence) is None:
            return None
        says = {said.position: said.word for said in metrics.predicted_words(self.record, sentence=self.sentence)}
        return self.queries.last([says.get(i, "") for i in range(self.step.shape[2])])

    def cells(self, heads: Sequence[int | str], tile: int = 1) -> list[Cells]:
        """The cells of several heads; see `metrics.cells_of`. A cell is blocked where all that it is made of is."""
        if self.plain:
            window = {"sentence": self.sentence, "rows": self.rows, "columns": self.columns}
            return metrics.cells_of(self.step, heads, **window, tile=tile, scores=not self.record.read_only)
        return [self._cells(head, tile) for head in heads]

    def _cells(self, head: int | str, tile: int) -> Cells:
        names: dict[str, int] = {}
        parts = [self.block(head, rows).pooled(tile).renamed(names) for rows in self.blocks(tile)]
        weights, blocked = (np.concatenate([getattr(part, name) for part in parts]) for name in ("weights", "blocked"))
        scores = None if parts[0].scores is None else np.concatenate([part.scores for part in parts])
        states = np.where(np.isnan(weights), NAN, np.where(blocked > 0, metrics.BLOCKED, metrics.WEIGHT))
        empty = metrics.pool(torch.from_numpy(self.empty(head)).float()[:, None], tile, "min", across=1)[:, 0].numpy()
        states[empty > 0] = EMPTY
        return Cells(
            self.queries.starts[::tile], self.keys.starts[::tile], weights, scores, states, tuple(names), blocked, tile
        )

    @cached_property
    def merges(self) -> bool:
        """Whether some cells stand for several of the record."""
        return self.queries.merged or self.every_key.merged

    def has_scores(self, head: int | str) -> bool:
        """Whether cells have scores: those of combined heads and of merged words have none."""
        merged = self.queries.merged or self.keys.merged
        return isinstance(head, int) and not merged and not self.record.read_only

    def blocks(self, tile: int = 1) -> Iterator[slice]:
        """Rows whose weights are held at once, whole tiles of them; at least one block."""
        each = len(self.every_key) if self.merges else self.step.shape[3]
        return iter(metrics.row_slices(len(self.queries), each, tile))

    def block(self, head: int | str, rows: slice) -> "Block":
        """The cells of some rows, which are at least one."""
        queries, step, sentence = self.queries[rows], self.step, self.sentence
        at, (weights, is_open) = queries.stretch, self._weights(head, rows)
        reasons, blocked = (), np.zeros(weights.shape, np.int64)
        if step.mask is not None and is_open is not None:
            firsts = queries.spans, self.keys.spans
            reasons, rules = metrics.first_reasons(step.mask, step.shape[2:], *firsts, sentence=sentence)
            blocked = rules * ~is_open
        elif step.mask is not None:
            reasons, rules = metrics.reasons_of(step, head, at, sentence=sentence)
            blocked = rules.numpy()[np.ix_(queries.starts - at.start, self.keys.starts)]
        scores = None
        if self.has_scores(head):
            scores = step.scores(head, at, sentence=sentence).numpy()[
                np.ix_(queries.starts - at.start, self.keys.starts)
            ]
        return Block(weights, blocked, scores, reasons)

    def weights(self, head: int | str, rows: slice) -> np.ndarray:
        """The weights of some rows; a row of which nothing is left stays zero."""
        return self._weights(head, rows)[0]

    def _weights(self, head: int | str, rows: slice) -> tuple[np.ndarray, np.ndarray | None]:
        """The same, and of cells that are merged whether any that they stand for may be attended to."""
        queries, at, is_open = self.queries[rows], np.searchsorted(self.every_key.starts, self.keys.starts), None
        if self.merges:
            spans = queries.spans, self.every_key.spans
            weights, is_open = self._merged(head, *spans)
            weights, is_open = weights / queries.sizes[:, None], is_open[:, at]
        else:
            weights = metrics.weights_of(self.step, head, queries.stretch, sentence=self.sentence).numpy()
            weights = weights[np.ix_(queries.starts - queries.stretch.start, self.every_key.starts)]
        if self.view.special == "renormalize":
            total = weights.sum(1, keepdims=True)
            weights = weights / np.where(total == 0, 1, total)
        return weights[:, at], is_open

    def _merged(self, head: int | str, *spans: metrics.Spans) -> tuple[np.ndarray, np.ndarray]:
        """The sums of the weights of groups, and where any may be attended to; the latest are kept."""
        name = head, self.sentence, *(at.tobytes() for span in spans for at in span)
        known = _merged.setdefault(self.step, {})
        if (made := known.get(name)) is None:
            read = stream.blocks(self.step, head, *map(metrics.stretch, spans), sentence=self.sentence)
            made = metrics.grouped(read, *spans)
            if made[0].size <= MOST_MERGED:
                while len(known) >= MOST_MAPS:
                    known.pop(next(iter(known)), None)
                known[name] = made
        return made

    def empty(self, head: int | str) -> np.ndarray:
        """Which rows have no key left, boolean; of a word, where none of its pieces has one."""
        empty = metrics.empty_queries(self.step, head, sentence=self.sentence).numpy()
        return self.queries.merge(empty, 0, np.logical_and)

    def row_sums(self, head: int | str) -> np.ndarray:
        """The sum of each row's weights: over all keys of the view, also those outside of the window."""
        if self.plain:
            return metrics.row_sums(self.step, head, sentence=self.sentence, rows=self.rows).numpy()
        every = see(self.record, self.site, sentence=self.sentence, view=self.view, rows=self.rows)
        return np.concatenate([every.weights(head, rows).sum(1) for rows in every.blocks()])

    def strongest(self, head: int | str) -> tuple[np.ndarray, np.ndarray]:
        """Each row's largest weight, NaN aside, and its column; both (rows,)."""
        if self.plain:
            window = {"sentence": self.sentence, "rows": self.rows, "columns": self.columns}
            return metrics.strongest(self.step, head, **window)
        found = [np.nan_to_num(self.weights(head, rows), nan=-1.0) for rows in self.blocks()]
        return np.concatenate([block.max(1) for block in found]), np.concatenate([block.argmax(1) for block in found])

    def strongest_cell(self, head: int | str, query: int | None = None) -> tuple[int, int]:
        """The (query, key) of a query's largest weight; where it has no row, of the largest of all below 1.

        A query that has but one key to look at gives it 1, or as near as rounding comes.
        """
        row = None if query is None else self.queries.at(query)
        if row is None:
            most, at = self.strongest(head)
            row = int(np.where(most < 1 - 1e-6, most, 0).argmax()) if most.size else 0
            column = at[row]
        else:
            column = np.nan_to_num(self.weights(head, slice(row, row + 1))[0], nan=-1.0).argmax()
        return int(self.queries.starts[row]), int(self.keys.starts[column])

    def largest(self) -> float:
        """The largest weight of all heads, NaN aside, of the whole map."""
        if self.plain:
            return metrics.largest_weight(self.record, self.site, sentence=self.sentence)
        every = see(self.record, self.site, sentence=self.sentence, view=self.view)
        return max(float(every.strongest(head)[0].max(initial=0.0)) for head in range(self.step.num_heads))


MOST_MERGED, MOST_MAPS = 2**20, 16
"""Cells of groups that are kept, 9 MB, and how many such windows: to go through all weights for each takes long."""

_merged: WeakKeyDictionary[Step, dict[tuple, tuple[np.ndarray, np.ndarray]]] = WeakKeyDictionary()
"""By head, sentence and groups, for as long as there is their step."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows of `Cells`; a cell is blocked where all that it is made of is, by the rule that blocks the first."""

    weights: np.ndarray
    blocked: np.ndarray
    scores: np.ndarray | None
    reasons: tuple[str, ...]

    def pooled(self, tile: int) -> "Block":
        """The same with a cell per tile, which has the largest weight of it."""
        if tile == 1:
            return self
        closed = metrics.pool(torch.from_numpy(self.blocked > 0).float(), tile, "min").numpy() > 0
        weights = metrics.pool(torch.from_numpy(self.weights), tile).numpy()
        return Block(weights, closed * self.blocked[::tile, ::tile], None, self.reasons)

    def renamed(self, names: dict[str, int]) -> "Block":
        """The same with the numbers that reasons have in `names`, where new ones are added: each block has its own."""
        numbers = np.array([0, *(names.setdefault(reason, len(names) + 1) for reason in self.reasons)])
        return Block(self.weights, numbers[self.blocked], self.scores, self.reasons)


def see(
    record: Record, site: Site, *, sentence: int = 0, view: View = View(), rows: slice = ALL, columns: slice = ALL
) -> Seen:
    """A site of a record through a view, and of that the groups whose first position is in a window.

    Raises:
        InputError: if the view leaves nothing to see.
    """
    tokens = record.tokens(site, sentence=sentence)
    looks = record.sentences if site.kind == "encoder" else record.read
    looked = record.read if site.kind == "decoder" else record.sentences
    texts = looks[sentence].text, looked[sentence].text
    every = [groups(part, view, text) for part, text in zip(tokens, texts, strict=True)]
    kept = _paired(every, view, tokens, site)
    windows = [_within(part, window, len(all)) for part, window, all in zip(kept, (rows, columns), tokens, strict=True)]
    return Seen(record, site, sentence, view, rows, columns, *windows, every[1])


@dataclass(frozen=True, eq=False)
class SeenMask:
    """A mask through a view, in a window; see `see_mask`. A word may attend where any of its pieces may.

    Attributes:
        lengths: how many queries and keys there are, also outside of the window.
    """

    mask: Mask
    sentence: int
    lengths: tuple[int, int]
    rows: slice
    columns: slice
    queries: Groups
    keys: Groups
    notes: tuple[str, ...]

    @cached_property
    def plain(self) -> bool:
        """Whether each row and column of the window is a position."""
        return all(
            len(part) == len(range(*seen.indices(n))) and not part.merged
            for part, seen, n in zip((self.queries, self.keys), (self.rows, self.columns), self.lengths, strict=True)
        )

    @property
    def window(self) -> str:
        """Which positions are seen, where not all are."""
        return window_in_words(self)

    @cached_property
    def left(self) -> np.ndarray:
        """How many of all keys each position of the queries may attend to, (Q,)."""
        return self.mask.keys_left(*self.lengths, sentence=self.sentence).numpy()

    @cached_property
    def open_keys(self) -> np.ndarray:
        """How many of the keys that are seen each row may attend to."""
        if self.plain and self.columns == ALL:
            return self.left[self.rows]
        return np.concatenate([(blocked == 0).sum(1) for _, _, blocked in self.blocks()])

    def blocked(self, tile: int = 1) -> tuple[tuple[str, ...], np.ndarray]:
        """Reasons, and 0 where one may attend, else the number of the reason; of a tile, where any of its cells may."""
        if self.plain and tile > 1:
            window = {"rows": self.rows, "columns": self.columns}
            found = metrics.pooled_mask(self.mask, self.lengths, sentence=self.sentence, **window, tile=tile)
            firsts = {name: torch.from_numpy(at) for name, at in (("rows", found.queries), ("columns", found.keys))}
            reasons, rules = self.mask.reasons(*self.lengths, sentence=self.sentence, **firsts)
            return reasons, rules.numpy() * (found.open == 0)
        names: dict[str, int] = {}
        blocks = (Block(np.zeros(blocked.shape), blocked, None, reasons) for _, reasons, blocked in self.blocks(tile))
        parts = [block.pooled(tile).renamed(names).blocked for block in blocks]
        return tuple(names), np.concatenate(parts)

    def blocks(self, tile: int = 1) -> Iterator[tuple[slice, tuple[str, ...], np.ndarray]]:
        """The same of some rows after the other, whole tiles of them, with the reasons of each block."""
        merged = self.queries.merged or self.keys.merged
        for rows in metrics.row_slices(len(self.queries), len(self.keys), tile):
            spans = self.queries[rows].spans, self.keys.spans
            reasons, rules = metrics.first_reasons(self.mask, self.lengths, *spans, sentence=self.sentence)
            if merged:
                places = map(metrics.stretch, spans)
                read = stream.openings(self.mask, self.lengths, *places, sentence=self.sentence)
                rules = rules * ~metrics.grouped(read, *spans)[1]
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
    """A mask over tokens through a view, and of that a window. It has no weights, so nothing is divided.

    Raises:
        InputError: if the view leaves nothing to see.
    """
    tokens = tuple(queries), tuple(keys)
    kept = _paired([groups(part, view) for part in tokens], view, tokens, "the mask")
    notes = _notes(view, tokens, kept, MERGED_MASK, HIDDEN_MASK)
    lengths = len(queries), len(keys)
    windows = [_within(part, seen, n) for part, seen, n in zip(kept, (rows, columns), lengths, strict=True)]
    return SeenMask(mask, sentence, lengths, rows, columns, *windows, notes)


def window_in_words(seen: Seen | SeenMask) -> str:
    """Which positions are seen, where not all are."""
    if seen.rows == seen.columns == ALL or not len(seen.queries) or not len(seen.keys):
        return ""
    spans = [(part.stretch, length) for part, length in zip((seen.queries, seen.keys), seen.lengths, strict=True)]
    said = [f"{span.start} to {span.stop - 1} of {length:,}" for span, length in spans]
    return "queries {}, keys {}".format(*said)


def _notes(
    view: View, tokens: Sequence[Sequence[Token]], kept: Sequence[Groups], merged: str, hidden: str
) -> tuple[str, ...]:
    """What a view did to rows and columns."""
    special = view.special != "show" and any(token.special for part in tokens for token in part)
    looks, looked = (("A", "B")[side or 0] for side in PAIRS[view.pair])
    pair = f"{view.pair}: the queries of text {looks} and the keys of text {looked} alone"
    unit = f"{view.parts} parts" if view.parts else "sentences" if view.sentences else "words"
    merged = merged if unit == "words" else merged.replace("pieces", "tokens").replace("words", unit)
    said = (any(part.merged for part in kept), merged), (special, hidden), (view.pair != "all", pair)
    return tuple(text for holds, text in said if holds)


def _paired(every: Sequence[Groups], view: View, tokens: Sequence[Sequence[Token]], what: object) -> list[Groups]:
    """The rows and columns of the texts of a view; an error if nothing is left."""
    kept = [_of(part, side) for part, side in zip(every, PAIRS[view.pair], strict=True)]
    if view != View() and not all(map(len, kept)):
        raise InputError(_nothing_left(view, tokens, what))
    return kept


def _of(every: Groups, side: int | None) -> Groups:
    """The groups of one text of a pair."""
    return every if side is None else every[np.array([token.segment == side for token in every.tokens], bool)]


def _within(every: Groups, window: slice, length: int) -> Groups:
    return every if window == ALL else every[np.isin(every.starts, np.arange(length)[window])]


def _nothing_left(view: View, tokens: Sequence[Sequence[Token]], where: object) -> str:
    for what, part, side in zip(("queries", "keys"), tokens, PAIRS[view.pair], strict=True):
        if side is not None and all(token.segment != side for token in part):
            return f"'{view.pair}' is of a pair of texts, but the {what} of {where} are all of text {'BA'[side]}."
    return f"Nothing is left to see of {where}: it has nothing but special tokens there, which are hidden."
