"""Padding: what fills the shorter sentences of a batch."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from attnviz.core.errors import MaskError
from attnviz.core.masks.base import Mask
from attnviz.core.masks.known import within
from attnviz.core.masks.observed import Observed, counts
from attnviz.core.masks.pen import GRID, PREDICATE, ROW, Expression, Pen
from attnviz.core.parameters import numbers_of, parameter


@dataclass(frozen=True)
class Padding(Mask):
    """Blocks keys that are padding: sentence b keeps its first lengths[b] keys, or its last if padded on the left.

    Attributes:
        left: the padded length, if the padding stands on the left.
    """

    rule = "padding"
    meaning = "blocks the padding of each sentence, given its length"
    lengths: tuple[int, ...] = parameter("lengths", kind="numbers")
    left: int | None = parameter("left-padded to", default=None, needed=False)

    def __post_init__(self):
        object.__setattr__(self, "lengths", numbers_of(self, "lengths", item="length"))
        if not self.lengths:
            raise MaskError("Padding needs the length of at least one sentence.")

    @classmethod
    def started(cls, keys, lengths):
        return cls(lengths)

    @property
    def batch_size(self):
        return len(self.lengths)

    def allows(self, query, key, sentence):
        lengths = torch.tensor(self.lengths)[sentence]
        return key < lengths if self.left is None else key >= self.left - lengths

    def is_open(self, queries, keys):
        ends = ((-math.inf, n - 1) if self.left is None else (self.left - n, math.inf) for n in self.lengths)
        answers = {within(keys[0], keys[-1], *limits) for limits in ends}
        return answers.pop() if len(answers) == 1 else None

    def shifted(self, offset):
        return self

    @classmethod
    def fits(cls, observed: Observed) -> Iterator[Mask]:
        """Keys that no query sees at the end, or at the start; once more where a single cell is open there."""
        for most in (0, 1) if observed.queries > 5 else (0,):
            used = (counts(observed.known_open, 0) > most).nonzero().flatten()
            if len(used) and used[-1] < observed.keys - 1:
                yield cls((int(used[-1]) + 1,))
            if len(used) and used[0] > 0:
                yield cls((observed.keys - int(used[0]),), observed.keys)

    def of_sentence(self, sentence):
        self._check_sentence(sentence)
        return Padding((self.lengths[sentence],), self.left)

    def code(self, pen: Pen) -> Expression:
        axis = {GRID: "[:, None, None, None]", ROW: "[:, None]", PREDICATE: "[b]"}[pen.style]
        name = pen.numbers("lengths", self.lengths)
        compared = f"< {name}{axis}" if self.left is None else f">= {self.left} - {name}{axis}"
        return Expression(f"{pen.lone_key} {compared}", frozenset("BK"), True)

    def __str__(self) -> str:
        return "padding"
