"""Views of maps: a view merges consecutive tokens into groups, shown as one row or column, and hides special tokens.

A view does not change the record: weights of groups are sums of the record's weights, computed block by block.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby

import numpy as np
import torch

from attnviz.analysis.blocks import Block
from attnviz.core.errors import InputError, check_whole
from attnviz.core.masks import Mask
from attnviz.core.tokens import Token, begins_sentence

SPECIAL = ("show", "hide")
"""Possible values of `View.special`."""


@dataclass(frozen=True)
class View:
    """Options for what a row or column of a map stands for; by default for one token.

    Attributes:
        words: whether to merge the tokens of a word; weights are summed over keys and averaged over queries.
        special: whether to "show" or "hide" special tokens.
        sentences: whether to merge the tokens of a sentence in the same way; see `begins_sentence`.
        parts: number of parts of equal length into which the text is cut, each one row or column; 0 to cut nothing.

    Raises:
        InputError: if `special` or `parts` has an invalid value; the message has the valid ones.
    """

    words: bool = False
    special: str = "show"
    sentences: bool = False
    parts: int = 0

    def __post_init__(self):
        check_whole("The number of parts of a view", self.parts, 0, 1_000)
        if self.special not in SPECIAL:
            raise InputError(f"A view cannot have special={self.special!r}; available: {', '.join(SPECIAL)}.")

    @property
    def unit(self) -> str:
        """Name of what a row or column stands for: "10 parts", "sentences" or "words"; "" for tokens."""
        if self.parts:
            return f"{self.parts} parts"
        if self.sentences:
            return "sentences"
        return "words" if self.words else ""

    def in_short(self) -> str:
        """Describe the view in a few words for a file name, such as "words hide"."""
        return " ".join(part for part in (self.unit, self.special) if part not in ("", "show"))


@dataclass(frozen=True, eq=False)
class Groups:
    """Rows or columns of a map in a view: each is a group of consecutive tokens, in the order of the text.

    Attributes:
        tokens: a token per group, with the text of the whole group.
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
    def covered(self) -> slice:
        """Slice of positions from the first group to the last, inclusive; there must be at least one group."""
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
        """Turns of a conversation, consecutive groups of one role: (role, first group, group after the last)."""
        turns, start = [], 0
        for role, roles in groupby(self.roles):
            stop = start + len([*roles])
            turns.append((role, start, stop))
            start = stop
        return tuple(turns)

    def index_of(self, position: int) -> int | None:
        """Return the index of the group that contains a position; None if no group does."""
        index = np.flatnonzero((self.starts <= position) & (position < self.stops))
        return int(index[0]) if len(index) else None

    def place(self, i: int) -> int | str:
        """Return the position of group `i` for readers: 3 for a single token, "1–5" for tokens 1 to 5."""
        start, last = int(self.starts[i]), int(self.stops[i]) - 1
        return start if start == last else f"{start}–{last}"

    def last(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return one text per group, given one per position: the last in the group that is not empty, else ""."""
        result = []
        for start, stop in zip(self.starts, self.stops, strict=True):
            in_group = [text for text in texts[start:stop] if text]
            result.append(in_group[-1] if in_group else "")
        return tuple(result)

    def every(self, flags: np.ndarray) -> np.ndarray:
        """Whether all positions of a group have the flag True, boolean, (positions,) -> (groups,)."""
        return np.array([flags[start:stop].all() for start, stop in zip(self.starts, self.stops, strict=True)], bool)


def groups(tokens: Sequence[Token], view: View = View(), text: str = "") -> Groups:
    """Group the tokens of `text` into the words, sentences or parts of a view; leave out special tokens if hidden."""
    is_answered = any(token.role == "answer" for token in tokens)
    if view.special == "show" and not (view.words or view.sentences or view.parts):
        starts = np.arange(len(tokens))
        return Groups(tuple(tokens), starts, starts + 1, is_answered)
    n, parts = len(tokens), view.parts or 1
    spans: list[list[int]] = []  # first position of each group, and the position after its last
    for i, token in enumerate(tokens):
        part, part_before = i * parts // n, (i - 1) * parts // n
        if i > 0 and part == part_before and _is_merged(tokens[i - 1], token, view, text):
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
        else:
            later_pieces = (piece.text if piece.joined else f" {piece.text}" for piece in tokens[start + 1 : stop])
            whole = text[first.start : last.end].strip() or first.text + "".join(later_pieces)
            merged.append(replace(first, text=whole, end=last.end, box=None))
    starts = np.array([start for start, _ in spans], np.int64)
    stops = np.array([stop for _, stop in spans], np.int64)
    return Groups(tuple(merged), starts, stops, is_answered)


def as_tokens(tokens: Sequence[Token | str]) -> tuple[Token, ...]:
    """Turn texts into tokens that are neither special nor joined to the token before."""
    return tuple(Token(token, 0, 0, 0) if isinstance(token, str) else token for token in tokens)


def _is_merged(before: Token, token: Token, view: View, text: str) -> bool:
    """Whether a view merges a token with the one before it; never if their roles, or their texts in a pair, differ."""
    if token.role != before.role or token.segment != before.segment:
        return False
    has_special = token.special or before.special
    if view.parts:
        return view.special == "show" or not has_special
    if has_special or token.box or before.box:
        return False
    if view.sentences:
        return not begins_sentence(before, token, text)
    return view.words and token.joined


def grouped(blocks: Iterable[Block], queries: Groups, keys: Groups) -> tuple[np.ndarray, np.ndarray]:
    """Merge cells by groups of queries and groups of keys: the sum of their weights, float64, and whether any is open.

    Both results have the shape (groups of queries, groups of keys).

    Args:
        blocks: result of `blocks.blocks` or `blocks.openings` over the `covered` positions of the groups.
    """
    group_of = []  # for both axes: group of each covered position, -1 if no group has the position
    for axis in (queries, keys):
        group_of_position = np.full(axis.stops[-1] - axis.starts[0], -1)
        for group, (start, stop) in enumerate(zip(axis.starts, axis.stops, strict=True)):
            group_of_position[start - axis.starts[0] : stop - axis.starts[0]] = group
        group_of.append(group_of_position)
    shape = len(queries), len(keys)
    sums, is_open = np.zeros(shape), np.zeros(shape, bool)
    for block in blocks:
        segments = []  # for both axes: where the group changes within the block, and the group that begins there
        for group_of_position, axis in zip(group_of, (block.rows, block.columns), strict=True):
            in_block = group_of_position[axis.in_window]
            changes = np.flatnonzero(np.diff(in_block, prepend=-2))
            segments.append((changes, in_block[changes]))
        (rows, row_groups), (columns, column_groups) = segments
        is_in_groups = np.ix_(row_groups >= 0, column_groups >= 0)
        target = np.ix_(row_groups[row_groups >= 0], column_groups[column_groups >= 0])
        if block.weights is not None:
            over_keys = np.add.reduceat(block.weights.numpy(), columns, 1)
            sums[target] += np.add.reduceat(over_keys.astype(np.float64), rows, 0)[is_in_groups]
        if isinstance(block.open, torch.Tensor):
            over_keys = np.logical_or.reduceat(block.open.numpy(), columns, 1)
            is_open[target] |= np.logical_or.reduceat(over_keys, rows, 0)[is_in_groups]
        else:
            is_open[target] |= block.open
    return sums, is_open


def first_reasons(
    mask: Mask | torch.Tensor, lengths: tuple[int, int], queries: Groups, keys: Groups, *, sentence: int = 0
) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the names of a mask's rules, and a code for the first cell of each pair of groups, (queries, keys).

    The code is 0 for an open cell, i for a cell blocked by names[i - 1]; for a tensor, 1 everywhere. `lengths`: (Q, K).
    """
    if isinstance(mask, torch.Tensor):
        return ("the model's mask",), np.ones((len(queries), len(keys)), np.int64)
    first_cells = {"rows": torch.from_numpy(queries.starts), "columns": torch.from_numpy(keys.starts)}
    reasons, codes = mask.reasons(*lengths, sentence=sentence, **first_cells)
    return reasons, codes.numpy()
