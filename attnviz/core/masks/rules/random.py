"""Random keys."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.errors import MaskError
from attnviz.core.masks.base import Mask
from attnviz.core.masks.pen import Pen
from attnviz.core.parameters import check_numbers, parameter

WORD = 2**32 - 1


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
    join = "or"
    count: int = parameter("keys", start=1)
    every: int = parameter("of every", least=1, start=8)
    seed: int = parameter("seed", default=0)

    def __post_init__(self):
        check_numbers(self, count=0, every=1)
        if self.count > self.every:
            raise MaskError(f"{self.count} keys of every {self.every} cannot be drawn: there are not so many.")

    def allows(self, query, key, sentence):
        place, stretch = key % self.every, key // self.every
        hashes = _mixed(_mixed(_mixed(torch.tensor(self.seed & WORD)) + query) + stretch)
        return _permuted(place.expand(hashes.shape), hashes, self.every) < self.count

    @classmethod
    def started(cls, keys, lengths):
        return cls(1, max(1, keys))

    def code(self, pen: Pen) -> None:
        """There is no formula that a person would paste."""

    def __str__(self) -> str:
        return f"random ({self.count} of every {self.every}, seed {self.seed})"


def _permuted(place: Tensor, hashed: Tensor, size: int) -> Tensor:
    """Image of a place under a permutation of 0 to size - 1, another one for each hash.

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
