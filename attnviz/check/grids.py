"""The different grids of a mask, and cells of them as cells of the array."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MOST = 256
"""Different grids of a mask that are explained."""


@dataclass(frozen=True, eq=False)
class Grids:
    """The different grids of a mask.

    Attributes:
        each: boolean, (Q, K), True = may attend.
        sentences: of which sentence each is.
        number: (B, H), which of them each sentence and head has; -1 for none of them.
        left_out: how many more different ones there are.
    """

    each: tuple[Tensor, ...]
    sentences: tuple[int, ...]
    number: Tensor
    left_out: int = 0

    @classmethod
    def of(cls, may_attend: Tensor, *, apart: bool = False) -> "Grids":
        """Different grids of a mask, (B, H, Q, K); `apart` keeps equal grids of two sentences."""
        numbers: dict[object, int] = {}
        each, sentences, number = [], [], []
        for sentence, heads in enumerate(may_attend):
            for grid in heads:
                place = numbers.setdefault((apart and sentence, grid.numpy().tobytes()), len(numbers))
                number.append(place if place < MOST else -1)
                if place == len(each) < MOST:
                    each.append(grid)
                    sentences.append(sentence)
        left_out = len(numbers) - len(each)
        return cls(tuple(each), tuple(sentences), torch.tensor(number).view(may_attend.shape[:2]), left_out)

    def only(self, chosen: Sequence[bool]) -> "Grids":
        """Some of them; the sentences and heads that have others have none."""
        places = [place for place, is_chosen in enumerate(chosen) if is_chosen]
        number = torch.full_like(self.number, -1)
        for new, old in enumerate(places):
            number[self.number == old] = new
        each, sentences = ([whole[place] for place in places] for whole in (self.each, self.sentences))
        return Grids(tuple(each), tuple(sentences), number, self.left_out)

    def spread(self, cells: Sequence[Tensor]) -> Tensor:
        """Cells of each grid, (Q, K), or rows of it, (Q,), as those of the array, (B, H, ...)."""
        nothing = torch.zeros_like(cells[0])
        return torch.stack([*cells, nothing])[self.number]
