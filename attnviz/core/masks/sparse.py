"""The rules of sparse attention: each query sees some keys near it, some far from it, and a few that all share."""

import math
import operator
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from attnviz.core.errors import MaskError, quoted
from attnviz.core.masks.base import Mask

WORD = 2**32 - 1


@dataclass(frozen=True)
class Dilated(Mask):
    """A sliding window with gaps: query i sees `before` keys before itself and `after` after it, `step` apart.

    The keys are i - before · step, ..., i - step, i, i + step, ..., i + after · step. With a step of 1 it is `Window`.
    The dilated sliding window of Longformer (Beltagy et al. 2020, section 3.1).
    """

    rule = "dilated"
    before: int
    after: int = 0
    step: int = 2

    def __post_init__(self):
        _check(self, step=1)

    def allows(self, query, key, sentence):
        distance = key - query
        near = (distance >= -self.before * self.step) & (distance <= self.after * self.step)
        return near & (distance % self.step == 0)

    def __str__(self) -> str:
        return f"dilated window ({self.before} before, {self.after} after, step {self.step})"


@dataclass(frozen=True)
class Global(Mask):
    """Tokens that see all and are seen by all, as [CLS] or a question in Longformer (Beltagy et al. 2020, section 3.1).

    It opens their rows and columns and nothing else: ``Window(2, 2) | Global((0,))``.
    """

    rule = "global"
    positions: tuple[int, ...]

    def __post_init__(self):
        try:
            positions = sorted({operator.index(position) for position in self.positions})
        except TypeError:
            given = quoted(self.positions)
            raise MaskError(f"The positions of 'global' are a list of whole numbers; given {given}.") from None
        if positions and positions[0] < 0:
            raise MaskError(f"A position of 'global' is {positions[0]}; it must be 0 or more.")
        object.__setattr__(self, "positions", tuple(positions))

    def allows(self, query, key, sentence):
        positions = torch.tensor(self.positions, dtype=torch.int64)
        return torch.isin(query, positions) | torch.isin(key, positions)

    def __str__(self) -> str:
        return f"global tokens {', '.join(map(str, self.positions)) or 'none'}"


@dataclass(frozen=True)
class Blocks(Mask):
    """Block-sparse: positions fall into blocks of `size`, and a query sees whole blocks of keys.

    It sees its own block, `before` blocks before it and `after` after it; the `first` blocks see all and are seen by
    all. These are the window and the global blocks of BigBird (Zaheer et al. 2020, section 2 and appendix D, "ITC");
    its random keys are `Random`.
    """

    rule = "blocks"
    size: int
    before: int = 1
    after: int = 1
    first: int = 0

    def __post_init__(self):
        _check(self, size=1, first=0)

    def allows(self, query, key, sentence):
        looking, seen = query // self.size, key // self.size
        near = (seen >= looking - self.before) & (seen <= looking + self.after)
        return near | (seen < self.first) | ((looking >= 0) & (looking < self.first))

    def __str__(self) -> str:
        first = f", first {self.first}" if self.first else ""
        return f"blocks of {self.size} ({self.before} before, {self.after} after{first})"


@dataclass(frozen=True)
class Strided(Mask):
    """Query i sees itself and the `stride` keys before it, and before those every `stride`-th key.

    Both heads of the strided pattern of the Sparse Transformer at once (Child et al. 2019, section 4.2), which sees
    nothing of the future: key j where j <= i, and i - j <= stride or i - j is a multiple of the stride.
    """

    rule = "strided"
    stride: int

    def __post_init__(self):
        _check(self, stride=1)

    def allows(self, query, key, sentence):
        distance = query - key
        return (distance >= 0) & ((distance <= self.stride) | (distance % self.stride == 0))

    def __str__(self) -> str:
        return f"strided by {self.stride}"


@dataclass(frozen=True)
class Random(Mask):
    """Each query sees `count` keys drawn at random, without replacement, out of every `every` keys.

    With `every` at the number of keys or above, these are the random keys of BigBird (Zaheer et al. 2020, section 2).
    Nothing is drawn: whether a cell is open is a pure function of query, key and seed, all in whole numbers. A hash of
    seed, query and stretch of keys chooses a permutation of the stretch; a key is open if it lands below `count`. So a
    block of the mask equals that block of the whole, and the mask is the same on every machine.
    """

    rule = "random"
    count: int
    every: int
    seed: int = 0

    def __post_init__(self):
        _check(self, count=0, every=1)
        if self.count > self.every:
            raise MaskError(f"{self.count} keys of every {self.every} cannot be drawn: there are not so many.")

    def allows(self, query, key, sentence):
        place, stretch = key % self.every, key // self.every
        drawn = _mixed(_mixed(_mixed(torch.tensor(self.seed & WORD)) + query) + stretch)
        return _permuted(place.expand(drawn.shape), drawn, self.every) < self.count

    def __str__(self) -> str:
        return f"random ({self.count} of every {self.every}, seed {self.seed})"


def _permuted(place: Tensor, hashed: Tensor, size: int) -> Tensor:
    """Where a permutation of 0 to size - 1, another one for each hash, takes a place.

    A Feistel network of four rounds on pairs of numbers below the root of the size permutes the square of the root; a
    place that lands beyond the size goes round again, which keeps it a permutation ("cycle walking", Black and Rogaway
    2002).
    """
    root = math.isqrt(size - 1) + 1
    left, right = place // root, place % root
    for turn in range(4):
        left, right = right, (left + _mixed(hashed + right * 64 + turn)) % root
    place = left * root + right
    if (beyond := place >= size).any():
        place[beyond] = _permuted(place[beyond], hashed[beyond], size)
    return place


def _mixed(number: Tensor) -> Tensor:
    """A hash of the lower 32 bits of an integer: 32 bits, by two multiplications that fit into int64 (T. Mueller)."""
    number = (number + 0x9E3779B9) & WORD  # the golden ratio, so that 0 does not stay 0
    for _ in range(2):
        number = ((number ^ (number >> 16)) * 0x45D9F3B) & WORD
    return number ^ (number >> 16)


def _check(mask: Mask, **least: int) -> None:
    """Refuse a rule whose fields are not whole numbers, or that are less than they must be."""
    for field in fields(mask):
        value = getattr(mask, field.name)
        try:
            object.__setattr__(mask, field.name, operator.index(value))
        except TypeError:
            name = f"The {field.name} of '{mask.rule}'"
            raise MaskError(f"{name} is a whole number; given {quoted(value)}.") from None
        if value < least.get(field.name, value):
            raise MaskError(f"The {field.name} of '{mask.rule}' is {value}; it must be {least[field.name]} or more.")
