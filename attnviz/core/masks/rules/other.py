"""Rules that go by tokens of a person's choice, by chance, or by how a model is trained."""

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
    """Every query may attend to every key."""

    rule = words = "full"
    meaning = "blocks nothing"
    of_keys = True

    def allows(self, query, key, sentence):
        return key >= 0

    def code(self, writer):
        return writer.printed(self.allows)


@dataclass(frozen=True)
class _Tokens(Mask):
    positions: tuple[int, ...] = parameter("positions", kind="numbers")

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "positions", tuple(sorted({*self.positions})))


@dataclass(frozen=True)
class Blank(_Tokens):
    """Some keys are blank: no query may attend to them, as if those patches or words were not there."""

    rule = "blank"
    meaning = "nobody sees some keys, such as patches of a picture"
    words = "blank keys {positions}"
    of_keys = True

    def allows(self, query, key, sentence):
        return ~is_in(key, self.positions)


@dataclass(frozen=True)
class Global(_Tokens):
    """Tokens that see all and are seen by all, as [CLS] or a question in Longformer (Beltagy et al. 2020, section 3.1).

    It opens their rows and columns and nothing else: ``Window(2, 2) | Global((0,))``.
    """

    rule = "global"
    meaning = "some tokens see all and are seen by all"
    words = "global tokens {positions}"
    join = "or"

    def allows(self, query, key, sentence):
        return is_in(query, self.positions) | is_in(key, self.positions)


@dataclass(frozen=True)
class Random(Mask):
    """Each query sees `count` keys drawn at random, without replacement, out of every `every` keys.

    With `every` at the number of keys or above, these are the random keys of BigBird (Zaheer et al. 2020, section 2).
    Nothing is drawn: whether a cell is open is a pure function of query, key and seed, all in whole numbers. A hash of
    seed, query and stretch of keys chooses a permutation of the stretch; a key is open if it lands below `count`. So a
    block of the mask equals that block of the whole, and the mask is the same on every machine.
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
            raise MaskError(f"{self.count} keys of every {self.every} cannot be drawn: there are not so many.")

    def allows(self, query, key, sentence):
        if not isinstance(query, Tensor):
            return UNKNOWN
        place, stretch = key % self.every, key // self.every
        hashes = _hash(_hash(_hash(torch.tensor(self.seed & WORD)) + query) + stretch)
        return _permute(place.expand(hashes.shape), hashes, self.every) < self.count

    def code(self, writer):
        """There is no formula that a person would paste."""


def _permute(place: Tensor, hashed: Tensor, size: int) -> Tensor:
    """Image of a place under a permutation of 0 to size - 1, another one for each hash.

    A Feistel network of four rounds on pairs of numbers below the root of the size permutes the square of the root; a
    place that lands beyond the size goes round again, which keeps it a permutation ("cycle walking", Black and Rogaway
    2002).
    """
    root = math.isqrt(size - 1) + 1
    left, right = place // root, place % root
    for turn in range(4):
        left, right = right, (left + _hash(hashed + right * 64 + turn)) % root
    place = left * root + right
    if (beyond := place >= size).any():
        place[beyond] = _permute(place[beyond], hashed[beyond], size)
    return place


def _hash(number: Tensor) -> Tensor:
    """A hash of the lower 32 bits of an integer: 32 bits, by two multiplications that fit into int64 (T. Mueller)."""
    number = (number + 0x9E3779B9) & WORD  # the golden ratio, so that 0 does not stay 0
    for _ in range(2):
        number = ((number ^ (number >> 16)) * 0x45D9F3B) & WORD
    return number ^ (number >> 16)


@dataclass(frozen=True)
class BlockDiffusion(Mask):
    """A text twice in one sequence, first with noise and then clean, in blocks of `size`; `length` is that of one copy.

    Noised tokens see their own noised block, and the clean blocks before it; clean tokens see the clean blocks up to
    their own, whole. Block diffusion (Arriola et al. 2025, "BD3-LM", section 3.3 and appendix B.6).
    """

    rule = "block_diffusion"
    meaning = "a noised text beside the clean one: own noised block, clean blocks before (BD3-LM)"
    words = "block diffusion (blocks of {size}, {length} tokens)"
    size: int = parameter("block size", least=1, start=2)
    length: int = parameter("tokens of one copy", least=1, start=4)

    def allows(self, query, key, sentence):
        mine, other = query % self.length // self.size, key % self.length // self.size
        noised, seen_noised = query < self.length, key < self.length
        inside = (query >= 0) & (query < self.length * 2) & (key < self.length * 2)
        own = noised & seen_noised & (mine == other)
        before = noised & ~seen_noised & (other < mine)
        clean = ~noised & ~seen_noised & (other <= mine)
        return inside & (own | before | clean)


@dataclass(frozen=True)
class _Cells(Mask):
    cells: tuple[tuple[int, int], ...] = parameter("cells", kind="cells", default=())

    def __post_init__(self):
        cells = {(operator.index(query), operator.index(key)) for query, key in self.cells}
        object.__setattr__(self, "cells", tuple(sorted(cells)))

    @property
    def text(self):
        if any(min(cell) < 0 for cell in self.cells):
            raise MaskError(f"The mask '{self}' has no text: it holds cells before the first query or key.")
        boxes = ", ".join(map(_rectangle, rectangles(self.cells)))
        return f"{self.keyword}({boxes})" if boxes else self.keyword

    def code(self, writer):
        return writer.painted(self.cells, opened=self.join == "or")


@dataclass(frozen=True)
class Painted(_Cells):
    """Blocks single cells, (query, key), chosen by hand."""

    rule = words = "painted"
    keyword = "blocked"
    meaning = "blocks single cells"

    def allows(self, query, key, sentence):
        return ~is_cell(query, key, self.cells)


@dataclass(frozen=True)
class Opened(_Cells):
    """Opens single cells, (query, key), chosen by hand, and no other: ``mask | Opened(cells)`` opens them in a mask."""

    rule = words = "opened"
    meaning = "opens single cells"
    join = "or"

    def allows(self, query, key, sentence):
        return is_cell(query, key, self.cells)


def rectangles(cells: Iterable[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Cells as few rectangles, each (first query, last query, first key, last key).

    Stretches of a row come first; equal ones in rows that follow each other are one rectangle.
    """
    runs: list[list[int]] = []  # row, first key, last key
    for query, key in sorted(set(cells)):
        if runs and runs[-1][0] == query and runs[-1][2] == key - 1:
            runs[-1][2] = key
        else:
            runs.append([query, key, key])
    grown: dict[tuple[int, int], list[int]] = {}  # the last rectangle of a stretch of keys
    boxes: list[list[int]] = []
    for query, first, last in runs:
        box = grown.get((first, last))
        if box and box[1] == query - 1:
            box[1] = query
        else:
            grown[first, last] = box = [query, query, first, last]
            boxes.append(box)
    return [tuple(box) for box in boxes]


def _rectangle(box: tuple[int, int, int, int]) -> str:
    """Queries and keys: "3:0", or "3-5:0-2" for several."""
    return ":".join(str(first) if first == last else f"{first}-{last}" for first, last in (box[:2], box[2:]))
