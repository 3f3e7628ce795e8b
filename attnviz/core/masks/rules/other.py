"""Rules for chosen tokens, random keys, block diffusion, single cells, and neighboring places or patches."""

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.errors import MaskError
from attnviz.core.masks.base import Mask
from attnviz.core.masks.spans import UNKNOWN, is_cell, is_in
from attnviz.core.parameters import parameter

WORD = 2**32 - 1


@dataclass(frozen=True)
class Full(Mask):
    """Full attention: every query may attend to every key."""

    rule = words = "full"
    meaning = "blocks nothing"
    of_keys = True

    def allows(self, query, key, sentence):
        return key >= 0


@dataclass(frozen=True)
class _Tokens(Mask):
    """Base class of rules for a set of positions, which are sorted and without duplicates."""

    positions: tuple[int, ...] = parameter("positions", kind="numbers")

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "positions", tuple(sorted({*self.positions})))


@dataclass(frozen=True)
class Blank(_Tokens):
    """Blank keys, which no query may attend to, as if these words or patches were removed."""

    rule = "blank"
    meaning = "nobody sees some keys, such as patches of a picture"
    words = "blank keys {positions}"
    of_keys = True

    def allows(self, query, key, sentence):
        return ~is_in(key, self.positions)


@dataclass(frozen=True)
class Global(_Tokens):
    """Global tokens, which see all keys and which all queries see (Longformer, Beltagy et al. 2020, section 3.1).

    Opens only the rows and columns of these tokens: ``Window(2, 2) | Global((0,))``.
    """

    rule = "global"
    meaning = "some tokens see all and are seen by all"
    words = "global tokens {positions}"
    join = "or"

    def allows(self, query, key, sentence):
        return is_in(query, self.positions) | is_in(key, self.positions)


@dataclass(frozen=True)
class Random(Mask):
    """Random keys: each query sees `count` of every `every` consecutive keys, chosen at random without replacement.

    If `every` is at least the number of keys, these are the random keys of BigBird (Zaheer et al. 2020, section 2).
    The keys are split into groups of `every` keys. A hash of the seed, the query and the group's index selects a
    permutation of the group, and the keys that it moves to the first `count` places are open. So any block of the mask
    can be computed alone, and the mask is the same on every machine.
    """

    rule = "random"
    meaning = "each query sees some keys drawn at random"
    words = "random ({count} of every {every}, seed {seed})"
    join = "or"
    count: int = parameter("keys", start=1)
    every: int = parameter("of every", least=1, start=8)
    seed: int = parameter("seed", default=0)

    def __post_init__(self):
        super().__post_init__()
        if self.count > self.every:
            raise MaskError(f"{self.count} keys of every {self.every} cannot be chosen; choose at most {self.every}.")

    def allows(self, query, key, sentence):
        if not isinstance(query, Tensor):
            return UNKNOWN
        index_in_group, group = key % self.every, key // self.every
        query_hashes = _hash(_hash(torch.tensor(self.seed & WORD)) + query)
        hashes = _hash(query_hashes + group)
        return _permute(index_in_group.expand(hashes.shape), hashes, self.every) < self.count

    def code(self, writer):
        """Return None, because there is no short formula."""


def _permute(index: Tensor, hashes: Tensor, size: int) -> Tensor:
    """Permute indices from 0 to size - 1, by a permutation that the hash beside each index selects.

    A Feistel network of four rounds permutes 0 to root² - 1, where root is the square root of size, rounded up. An
    index that is permuted to size or above is permuted again, which gives a permutation of 0 to size - 1 ("cycle
    walking", Black and Rogaway 2002).
    """
    root = math.isqrt(size - 1) + 1
    high, low = index // root, index % root
    for turn in range(4):
        high, low = low, (high + _hash(hashes + low * 64 + turn)) % root  # low * 64 + turn: differs in every round
    index = high * root + low
    is_outside = index >= size
    if is_outside.any():
        index[is_outside] = _permute(index[is_outside], hashes[is_outside], size)
    return index


def _hash(number: Tensor) -> Tensor:
    """Hash the lower 32 bits of an integer to 32 bits, by two multiplications that fit into int64 (T. Mueller)."""
    number = (number + 0x9E3779B9) & WORD  # the golden ratio, so that 0 does not stay 0
    for _ in range(2):
        number = ((number ^ (number >> 16)) * 0x45D9F3B) & WORD
    return number ^ (number >> 16)


@dataclass(frozen=True)
class BlockDiffusion(Mask):
    """Block diffusion: a sequence of two copies of a text, noised and clean, each `length` long, in blocks of `size`.

    Noised tokens see their own noised block and the clean blocks before it; clean tokens see the clean blocks up to and
    including their own (Arriola et al. 2025, "BD3-LM", section 3.3 and appendix B.6).
    """

    rule = "block_diffusion"
    meaning = "a noised text beside the clean one: own noised block, clean blocks before (BD3-LM)"
    words = "block diffusion (blocks of {size}, {length} tokens)"
    size: int = parameter("block size", least=1, start=2)
    length: int = parameter("tokens of one copy", least=1, start=4)

    def allows(self, query, key, sentence):
        query_block, key_block = query % self.length // self.size, key % self.length // self.size
        query_noised, key_noised = query < self.length, key < self.length
        in_copies = (query >= 0) & (query < self.length * 2) & (key < self.length * 2)
        own_noised_block = query_noised & key_noised & (query_block == key_block)
        earlier_clean_blocks = query_noised & ~key_noised & (key_block < query_block)
        clean_to_clean = ~query_noised & ~key_noised & (key_block <= query_block)
        return in_copies & (own_noised_block | earlier_clean_blocks | clean_to_clean)


@dataclass(frozen=True)
class _Cells(Mask):
    """Base class of rules for a set of single cells, (query, key)."""

    cells: tuple[tuple[int, int], ...] = parameter("cells", kind="cells", default=())

    def __post_init__(self):
        cells = {(operator.index(query), operator.index(key)) for query, key in self.cells}
        object.__setattr__(self, "cells", tuple(sorted(cells)))

    @property
    def text(self):
        """The cells as rectangles, queries:keys: "blocked(3:0, 4-6:0-2)"."""
        if any(min(cell) < 0 for cell in self.cells):
            raise MaskError(f"The mask '{self}' has no text: it holds cells before the first query or key.")
        boxes = []
        for first_query, last_query, first_key, last_key in rectangles(self.cells):
            queries = str(first_query) if first_query == last_query else f"{first_query}-{last_query}"
            keys = str(first_key) if first_key == last_key else f"{first_key}-{last_key}"
            boxes.append(f"{queries}:{keys}")
        return f"{self.keyword}({', '.join(boxes)})" if boxes else self.keyword

    def code(self, writer):
        return writer.write_cells(self.cells, opened=self.join == "or")


@dataclass(frozen=True)
class Painted(_Cells):
    """Blocked single cells, (query, key), chosen by the user; all others are open."""

    rule = words = "painted"
    keyword = "blocked"
    meaning = "blocks single cells"

    def allows(self, query, key, sentence):
        return ~is_cell(query, key, self.cells)


@dataclass(frozen=True)
class Opened(_Cells):
    """Opened single cells, (query, key), chosen by the user: ``mask | Opened(cells)`` opens them in a mask."""

    rule = words = "opened"
    meaning = "opens single cells"
    join = "or"

    def allows(self, query, key, sentence):
        return is_cell(query, key, self.cells)


def rectangles(cells: Iterable[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Group cells into few rectangles, each (first query, last query, first key, last key).

    Each row is split into segments of consecutive keys; equal segments in consecutive rows become one rectangle.
    """
    segments: list[list[int]] = []  # [query, first key, last key]
    for query, key in sorted(set(cells)):
        if segments and segments[-1][0] == query and segments[-1][2] == key - 1:  # the cell continues the last segment
            segments[-1][2] = key
        else:
            segments.append([query, key, key])
    boxes: list[list[int]] = []  # [first query, last query, first key, last key]
    last_box: dict[tuple[int, int], list[int]] = {}  # the last box with these first and last keys
    for query, first_key, last_key in segments:
        box = last_box.get((first_key, last_key))
        if box and box[1] == query - 1:  # the row before has the same segment
            box[1] = query
        else:
            last_box[first_key, last_key] = box = [query, query, first_key, last_key]
            boxes.append(box)
    return [tuple(box) for box in boxes]


@dataclass(frozen=True)
class Neighborhood(Mask):
    """Neighborhood attention: each query sees the `size` nearest keys, `step` apart, also at the ends of the sequence.

    The window moves inward at the ends instead of being cut: of `length` tokens, query i sees `size` keys from
    clamp(i - size // 2, 0, length - size) on. With a `step`, positions with the same remainder, i % step, form a group,
    and a query sees neighbors in its group. In one dimension, as NATTEN computes it: neighborhood attention (Hassani et
    al. 2023, "NAT", section 3) and its dilated form (Hassani and Shi 2022, "DiNAT", section 3).
    """

    rule = "neighborhood"
    meaning = "a window that stops at the ends: every query sees as many keys (NATTEN)"
    words = "neighborhood ({size} of {length} tokens[, step {step}])"
    size: int = parameter("neighbors", least=1, start=3)
    length: int = parameter("tokens", least=1, start=8)
    step: int = parameter("step", default=1, least=1)

    def allows(self, query, key, sentence):
        in_group = (query >= 0) & (query < self.length) & (key < self.length) & ((key - query) % self.step == 0)
        query_index, key_index = query // self.step, key // self.step  # within the group
        last = (self.length - 1 - query % self.step) // self.step  # last index of the group
        first_key = query_index - self.size // 2
        after_start = (key_index >= first_key) | (key_index > last - self.size)  # at the end: the last `size`
        before_end = (key_index < first_key + self.size) | (key_index < self.size)  # at the start: the first `size`
        return in_group & after_start & before_end


@dataclass(frozen=True)
class PatchWindows(Mask):
    """Windows of a picture: each patch sees the patches of its own window of `size` x `size` patches.

    Patches are numbered row by row, `columns` per row. With a `shift`, the first full window begins `shift` rows and
    columns from the top left, and the strips before it are separate windows, as in Swin (Liu et al. 2021, section 3.2),
    where the picture is rolled and patches that were not neighbors before are masked.
    """

    rule = "patch_windows"
    meaning = "a patch sees its own window of the picture (Swin)"
    words = "windows of {size} x {size} patches ({columns} columns[, shifted by {shift}])"
    columns: int = parameter("columns", least=1, start=8)
    size: int = parameter("window size", least=1, start=4)
    shift: int = parameter("shift", default=0)

    def allows(self, query, key, sentence):
        offset = self.size - self.shift
        query_row, query_column = query // self.columns + offset, query % self.columns + offset
        key_row, key_column = key // self.columns + offset, key % self.columns + offset
        in_same_row = query_row // self.size == key_row // self.size
        return in_same_row & (query_column // self.size == key_column // self.size)
