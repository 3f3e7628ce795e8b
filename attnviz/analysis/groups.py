"""Views of maps: a view merges consecutive tokens into groups, shown as one row or column, and hides special tokens.

A view does not change the record: weights of groups are sums of the record's weights, computed block by block.
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

SPECIAL = ("show", "hide")
"""Possible values of `View.special`."""

Spans = tuple[np.ndarray, np.ndarray]
"""First position of each group, and the position after its last, in the order of the text; no group is empty."""


@dataclass(frozen=True)
class View:
    """Options for reading a map; the defaults show every token on its own.

    Attributes:
        words: whether to merge the pieces of a word: weights are summed over keys and averaged over queries, so that
            row sums are kept.
        special: "show" or "hide" special tokens.
        sentences: whether to merge the tokens of a sentence like the pieces of a word; see `begins_sentence`.
        parts: number of parts of equal length to cut the text into, each shown as one row or column; 0 for no parts.

    Raises:
        InputError: if a value does not exist; the message names the values that do.
    """

    words: bool = False
    special: str = "show"
    sentences: bool = False
    parts: int = 0

    def __post_init__(self):
        check_whole("The number of parts of a view", self.parts, 0, 1_000)
        if self.special not in SPECIAL:
            raise InputError(f"A view cannot have special={self.special!r}; there are {', '.join(SPECIAL)}.")

    @property
    def unit(self) -> str:
        """Unit of a row or column: "10 parts", "sentences" or "words"; "" for tokens."""
        if self.parts:
            return f"{self.parts} parts"
        if self.sentences:
            return "sentences"
        return "words" if self.words else ""

    def in_short(self) -> str:
        """Describe the view in a few words for the name of a file, such as "words hide"."""
        return " ".join(part for part in (self.unit, self.special) if part not in ("", "show"))


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows or columns of a map: runs of positions, in order, each merged into one.

    Attributes:
        tokens: names of the groups.
        starts, stops: first position of each group and the position after its last, (groups,).
        is_answered: whether the text ends with a generated answer, so that tokens without a role are the prompt.
    """

    tokens: tuple[Token, ...]
    starts: np.ndarray
    stops: np.ndarray
    is_answered: bool = False

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: slice | np.ndarray) -> "Groups":
        tokens = tuple(self.tokens[i] for i in np.arange(len(self))[index].tolist())
        return Groups(tokens, self.starts[index], self.stops[index], self.is_answered)

    @property
    def sizes(self) -> np.ndarray:
        """Number of positions of each group."""
        return self.stops - self.starts

    @property
    def spans(self) -> Spans:
        return self.starts, self.stops

    @property
    def stretch(self) -> slice:
        """Slice of positions from the first group to the last; there must be at least one group."""
        return slice(int(self.starts[0]), int(self.stops[-1]))

    @property
    def merged(self) -> bool:
        """Whether any group has more than one position."""
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
        """Runs of groups with the same role: the role, the first group, and the group after the last."""
        runs = [(role, len([*run])) for role, run in groupby(self.roles)]
        stops = [*accumulate(count for _, count in runs)]
        return tuple((role, stop - count, stop) for (role, count), stop in zip(runs, stops, strict=True))

    def index_of(self, position: int) -> int | None:
        """Return the index of the group that contains a position; None if no group does."""
        index = np.flatnonzero((self.starts <= position) & (position < self.stops))
        return int(index[0]) if len(index) else None

    def place(self, i: int) -> int | str:
        """Return the position of group `i`, or its first and last position: "1–5"."""
        start, last = int(self.starts[i]), int(self.stops[i]) - 1
        return start if start == last else f"{start}–{last}"

    def last(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return the last text of each group that is not empty, or "", given a text for each position."""
        positions = (reversed(range(*span)) for span in zip(*self.spans, strict=True))
        return tuple(next(filter(None, (texts[i] for i in group)), "") for group in positions)

    def every(self, flags: np.ndarray) -> np.ndarray:
        """Whether a flag is True at all positions of each group, boolean, (groups,)."""
        return np.array([flags[start:stop].all() for start, stop in zip(*self.spans, strict=True)], bool)


def groups(tokens: Sequence[Token], view: View = View(), text: str = "") -> Groups:
    """Group the tokens of `text` into the words, sentences or parts of a view, and drop special tokens if hidden."""
    is_answered = any(token.role == "answer" for token in tokens)
    if view.special == "show" and not (view.words or view.sentences or view.parts):
        starts = np.arange(len(tokens))
        return Groups(tuple(tokens), starts, starts + 1, is_answered)
    n, parts = len(tokens), view.parts or 1
    spans: list[list[int]] = []
    for i, token in enumerate(tokens):
        is_same_part = i > 0 and i * parts // n == (i - 1) * parts // n
        if is_same_part and _is_merged(tokens[i - 1], token, view, text):
            spans[-1][1] = i + 1
        else:
            spans.append([i, i + 1])
    spans = [span for span in spans if view.special == "show" or not tokens[span[0]].special]
    merged = []
    for start, stop in spans:
        first, last = tokens[start], tokens[stop - 1]
        if view.parts:
            percent = f"{100 * start / n:.3g}–{100 * stop / n:.3g}%"
            merged.append(replace(first, text=percent, special=False, joined=False, box=None))
        elif start + 1 == stop:
            merged.append(first)
        else:  # text from the start of the first token to the end of the last
            rest = (piece.text if piece.joined else f" {piece.text}" for piece in tokens[start + 1 : stop])
            whole = text[first.start : last.end].strip() or first.text + "".join(rest)
            merged.append(replace(first, text=whole, end=last.end, box=None))
    starts, stops = (np.array([span[end] for span in spans], np.int64) for end in (0, 1))
    return Groups(tuple(merged), starts, stops, is_answered)


def as_tokens(tokens: Sequence[Token | str]) -> tuple[Token, ...]:
    """Turn texts into tokens that are neither special nor joined."""
    return tuple(Token(token, 0, 0, 0) if isinstance(token, str) else token for token in tokens)


def _is_merged(before: Token, token: Token, view: View, text: str) -> bool:
    """Whether a view merges a token with the one before it; it merges no tokens of different parts of the text."""
    if token.role != before.role:
        return False
    if view.parts:
        return token.segment == before.segment and (view.special == "show" or not (token.special or before.special))
    if token.special or before.special or token.segment != before.segment or token.box or before.box:
        return False
    if view.sentences:
        return not begins_sentence(before, token, text)
    return view.words and token.joined


def stretch(spans: Spans) -> range:
    """Return the range of positions from the first group to the last."""
    return range(int(spans[0][0]), int(spans[1][-1]))


def grouped(blocks: Iterable[Block], queries: Spans, keys: Spans) -> tuple[np.ndarray, np.ndarray]:
    """Merge the cells of each pair of groups: the sum of their weights, float64, and whether any of them is open.

    Both results have the shape (groups of queries, groups of keys).

    Args:
        blocks: blocks from `blocks.blocks` or `blocks.openings`, over the `stretch` of queries and keys.
    """
    numbers = []  # for both axes: group of each position from the first group on, -1 if no group has the position
    for starts, stops in (queries, keys):
        group_of = np.full(stops[-1] - starts[0], -1)
        for i, (start, stop) in enumerate(zip(starts - starts[0], stops - starts[0], strict=True)):
            group_of[start:stop] = i
        numbers.append(group_of)
    shape = len(queries[0]), len(keys[0])
    sums, is_open = np.zeros(shape), np.zeros(shape, bool)
    for block in blocks:
        runs = []  # for both axes of the block: first position and group of each run of the same group
        for group_of, part in zip(numbers, (block.down, block.across), strict=True):
            in_block = group_of[part.within]
            firsts = np.flatnonzero(np.diff(in_block, prepend=-2))
            runs.append((firsts, in_block[firsts]))
        (rows, i), (columns, j) = runs
        target, positions = np.ix_(i[i >= 0], j[j >= 0]), np.ix_(i >= 0, j >= 0)
        if block.weights is not None:
            over_keys = np.add.reduceat(block.weights.numpy(), columns, 1)
            sums[target] += np.add.reduceat(over_keys.astype(np.float64), rows, 0)[positions]
        if isinstance(block.open, torch.Tensor):
            over_keys = np.logical_or.reduceat(block.open.numpy(), columns, 1)
            is_open[target] |= np.logical_or.reduceat(over_keys, rows, 0)[positions]
        else:
            is_open[target] |= block.open
    return sums, is_open


def first_reasons(
    mask: Mask | torch.Tensor, lengths: tuple[int, int], queries: Spans, keys: Spans, *, sentence: int = 0
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return `Step.reasons` for the first query and key of each pair of groups; a tensor has one reason for all."""
    if isinstance(mask, torch.Tensor):
        return ("the model's mask",), np.ones((len(queries[0]), len(keys[0])), np.int64)
    firsts = {"rows": torch.from_numpy(queries[0]), "columns": torch.from_numpy(keys[0])}
    reasons, codes = mask.reasons(*lengths, sentence=sentence, **firsts)
    return reasons, codes.numpy()
