"""Views, and the groups that they make of the tokens of a text: stretches of positions that are seen as one each.

A view changes nothing in a record: weights of groups are sums of its weights, computed block by block.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, groupby

import numpy as np
import torch

from attnviz.analysis.blocks import Block
from attnviz.core.errors import InputError, check_whole
from attnviz.core.masks import Mask
from attnviz.core.tokens import Token, begins_sentence

SPECIAL = ("show", "hide", "renormalize")
"""Treatments of special tokens: "renormalize" hides them and divides what is left of each row by its sum."""

PAIRS = {"all": (None, None), "A to A": (0, 0), "A to B": (0, 1), "B to A": (1, 0), "B to B": (1, 1)}
"""Which text of a pair the queries and the keys are of, by `Token.segment`."""

MOST_PARTS = 1_000

Spans = tuple[np.ndarray, np.ndarray]
"""The first position of each group and the one after its last, in the order of the text; no group is empty."""


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
        for what, value, options in (("special", self.special, SPECIAL), ("pair", self.pair, PAIRS)):
            if value not in options:
                raise InputError(f"A view cannot have {what}={value!r}; there are {', '.join(options)}.")

    @property
    def unit(self) -> str:
        """Unit of a row or column: "10 parts", "sentences" or "words"; "" for tokens."""
        if self.parts:
            return f"{self.parts} parts"
        if self.sentences:
            return "sentences"
        return "words" if self.words else ""

    def in_short(self) -> str:
        """For the name of a file: "words hide A to B"."""
        special, pair = (self.special if self.special != "show" else ""), (self.pair if self.pair != "all" else "")
        return " ".join(filter(None, (self.unit, special, pair)))


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows or columns of a map: stretches of positions, in order, that are seen as one each.

    Attributes:
        tokens: what each is called.
        starts, stops: where each begins and ends, (groups,).
        is_answered: whether tokens without a role are the prompt of an answer, which may be outside of a window.
    """

    tokens: tuple[Token, ...]
    starts: np.ndarray
    stops: np.ndarray
    is_answered: bool = False

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, picked: slice | np.ndarray) -> "Groups":
        starts, stops = self.starts[picked], self.stops[picked]
        chosen = np.arange(len(self))[picked].tolist()
        return Groups(tuple(self.tokens[i] for i in chosen), starts, stops, self.is_answered)

    @property
    def sizes(self) -> np.ndarray:
        return self.stops - self.starts

    @property
    def spans(self) -> Spans:
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

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """Role of each group: "prompt" before an answer; "" in a text without roles."""
        return tuple(token.role or ("prompt" if self.is_answered else "") for token in self.tokens)

    @cached_property
    def turns(self) -> tuple[tuple[str, int, int], ...]:
        """Stretches of groups with one role: the role, the first group, and the one after the last."""
        ends = [(role, len([*run])) for role, run in groupby(self.roles)]
        stops = [*accumulate(count for _, count in ends)]
        return tuple((role, stop - count, stop) for (role, count), stop in zip(ends, stops, strict=True))

    def index_of(self, position: int) -> int | None:
        """The group that holds a position; None if it is not seen."""
        index = np.flatnonzero((self.starts <= position) & (position < self.stops))
        return int(index[0]) if len(index) else None

    def place(self, i: int) -> int | str:
        """The position of a group; of several, the first and the last: "1–5"."""
        start, last = int(self.starts[i]), int(self.stops[i]) - 1
        return start if start == last else f"{start}–{last}"

    def last(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Last text of each group that is not empty, by the texts of all positions."""
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
    is_answered = any(token.role == "answer" for token in tokens)
    if view.special == "show" and not (view.words or view.sentences or view.parts):
        starts = np.arange(len(tokens))
        return Groups(tuple(tokens), starts, starts + 1, is_answered)
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
        percents = [f"{100 * start / n:.3g}–{100 * stop / n:.3g}%" for start, stop in spans]
        whole = {"special": False, "joined": False, "box": None}
        merged = tuple(
            replace(tokens[start], text=text, **whole) for (start, _), text in zip(spans, percents, strict=True)
        )
    else:
        merged = tuple(_word(tokens[start:stop], text) for start, stop in spans)
    return Groups(merged, starts, stops, is_answered)


def as_tokens(tokens: Sequence[Token | str]) -> tuple[Token, ...]:
    """Texts as tokens that are neither special nor joined."""
    return tuple(Token(token, 0, 0, 0) if isinstance(token, str) else token for token in tokens)


def _continues(before: Token, token: Token, view: View, text: str) -> bool:
    """Whether a view sees a token and the one before it as one, where they are in one part."""
    if token.role != before.role:
        return False
    if view.parts:
        return token.segment == before.segment and (view.special == "show" or not (token.special or before.special))
    if token.special or before.special or token.segment != before.segment or token.box or before.box:
        return False
    return not begins_sentence(before, token, text) if view.sentences else view.words and token.joined


def _word(pieces: Sequence[Token], text: str) -> Token:
    """Pieces as one token: the text from where the first begins to where the last ends."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return first
    rest = (piece.text if piece.joined else f" {piece.text}" for piece in pieces[1:])
    whole = text[first.start : last.end].strip() or first.text + "".join(rest)
    return Token(whole, first.id, first.start, last.end, segment=first.segment, joined=first.joined, role=first.role)


def stretch(spans: Spans) -> range:
    """The positions from the first group to the last."""
    return range(int(spans[0][0]), int(spans[1][-1]))


def grouped(blocks: Iterable[Block], queries: Spans, keys: Spans) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the weights between groups, float64, and whether any query of the one may attend to any key of the
    other; both (queries, keys).

    Args:
        blocks: those of `blocks.blocks`, or of `blocks.openings`, of the `stretch` of both.
    """
    numbers = [_groups(spans) for spans in (queries, keys)]
    shape = len(queries[0]), len(keys[0])
    sums, is_open = np.zeros(shape), np.zeros(shape, bool)
    for block in blocks:
        (rows, i), (columns, j) = (
            _runs(of[part.start : part.start + len(part.places)])
            for of, part in zip(numbers, (block.down, block.across), strict=True)
        )
        groups, positions = np.ix_(i[i >= 0], j[j >= 0]), np.ix_(i >= 0, j >= 0)
        if block.weights is not None:
            of_keys = np.add.reduceat(block.weights.numpy(), columns, 1)
            sums[groups] += np.add.reduceat(of_keys.astype(np.float64), rows, 0)[positions]
        if isinstance(block.open, torch.Tensor):
            of_keys = np.logical_or.reduceat(block.open.numpy(), columns, 1)
            is_open[groups] |= np.logical_or.reduceat(of_keys, rows, 0)[positions]
        else:
            is_open[groups] |= block.open
    return sums, is_open


def _groups(spans: Spans) -> np.ndarray:
    """The group of each position of a stretch; -1 for none."""
    places = stretch(spans)
    numbers = np.full(len(places), -1)
    for i, (start, stop) in enumerate(zip(*(ends - places.start for ends in spans), strict=True)):
        numbers[start:stop] = i
    return numbers


def _runs(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start of each run of the same number, and that number."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-2))
    return starts, numbers[starts]


def first_reasons(
    mask: Mask | torch.Tensor, lengths: tuple[int, int], queries: Spans, keys: Spans, *, sentence: int = 0
) -> tuple[tuple[str, ...], np.ndarray]:
    """`Step.reasons` of the first query of each group for the first key of each, as if none of them were open."""
    if isinstance(mask, torch.Tensor):
        return ("the model's mask",), np.ones((len(queries[0]), len(keys[0])), np.int64)
    firsts = {"rows": torch.from_numpy(queries[0]), "columns": torch.from_numpy(keys[0])}
    reasons, codes = mask.reasons(*lengths, sentence=sentence, **firsts)
    return reasons, codes.numpy()
