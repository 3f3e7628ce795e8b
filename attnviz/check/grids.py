"""The different grids of a mask, and cells of them as cells of the array."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MOST = 64
"""Different grids of a mask that are explained."""

MOST_CELLS = 2**24
"""Cells of all grids that are explained: one of 4,096 x 4,096."""


@dataclass(frozen=True, eq=False)
class Grids:
    """The different grids of a mask.

    Attributes:
        each: boolean, (Q, K), True = may attend.
        sentences: of which sentence each is.
        number: (B, H), which of them each sentence and head has; -1 for those beyond `MOST`.
    """

    each: tuple[Tensor, ...]
    sentences: tuple[int, ...]
    number: Tensor

    @classmethod
    def of(cls, may_attend: Tensor, *, apart: bool = False, cells: int | None = None) -> "Grids":
        """Of a mask, (B, H, Q, K); those that are alike are one, unless their sentences are to be kept apart.

        Args:
            cells: how many of all there are at most.
        """
        most = MOST if cells is None else min(MOST, cells // may_attend[0, 0].numel())
        numbers: dict[object, int] = {}
        each, sentences, number = [], [], []
        for sentence, heads in enumerate(may_attend):
            for grid in heads:
                place = numbers.setdefault((apart and sentence, grid.numpy().tobytes()), len(numbers))
                number.append(place if place < most else -1)
                if place == len(each) < most:
                    each.append(grid)
                    sentences.append(sentence)
        return cls(tuple(each), tuple(sentences), torch.tensor(number).view(may_attend.shape[:2]))

    def spread(self, cells: Sequence[Tensor]) -> Tensor:
        """Cells of each grid, (Q, K), or rows of it, (Q,), as those of the array, (B, H, ...)."""
        nothing = torch.zeros_like(cells[0])
        return torch.stack([*cells, nothing])[self.number]
