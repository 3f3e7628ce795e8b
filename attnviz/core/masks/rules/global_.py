"""Tokens that all share."""

from dataclasses import dataclass

import torch

from attnviz.core.masks.base import Mask
from attnviz.core.masks.parameters import numbers_of, parameter
from attnviz.core.masks.writing import Part, Pen


@dataclass(frozen=True)
class Global(Mask):
    """Tokens that see all and are seen by all, as [CLS] or a question in Longformer (Beltagy et al. 2020, section 3.1).

    It opens their rows and columns and nothing else: ``Window(2, 2) | Global((0,))``.
    """

    rule = "global"
    meaning = "some tokens see all and are seen by all"
    join = "or"
    positions: tuple[int, ...] = parameter("positions", kind="numbers")

    def __post_init__(self):
        object.__setattr__(self, "positions", tuple(sorted({*numbers_of(self, "positions", one="position")})))

    @classmethod
    def started(cls, keys, lengths):
        return cls((0,))

    def allows(self, query, key, sentence):
        positions = torch.tensor(self.positions, dtype=torch.int64)
        return torch.isin(query, positions) | torch.isin(key, positions)

    def code(self, pen: Pen) -> Part:
        positions = pen.numbers("positions", self.positions)
        both = pen.looked_up("is_global", lambda places: f"torch.isin({places}, {positions})")
        return Part(" | ".join(both), frozenset("QK"), True)

    def __str__(self) -> str:
        return f"global tokens {', '.join(map(str, self.positions)) or 'none'}"
