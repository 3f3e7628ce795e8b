"""A mask that a model computes by itself, without a rule that anybody knows."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.masks import Mask, Painted
from attnviz.core.record import Step
from attnviz.ui import cache
from attnviz.ui.masks import words


@dataclass(frozen=True, eq=False)
class BuiltIn(Mask):
    """The cells of one head and sentence, (Q, K), True = may attend; nothing is blocked beyond them."""

    cells: Tensor
    title: str = words.MODELS_MASK

    def allows(self, query, key, sentence):
        last_query, last_key = (size - 1 for size in self.cells.shape)
        inside = (query >= 0) & (query <= last_query) & (key <= last_key)
        return ~inside | self.cells[query.clamp(0, last_query), key.clamp(0, last_key)]

    @property
    def text(self) -> str:
        return Painted(tuple(map(tuple, torch.nonzero(~self.cells).tolist()))).text

    def __str__(self) -> str:
        return self.title


@cache.cached
def of(step: Step, head: int, sentence: int) -> BuiltIn:
    return BuiltIn(step.may_attend(head, sentence=sentence))


@cache.cached
def of_weights(step: Step, head: int, sentence: int) -> BuiltIn | None:
    """Cells with a weight of weights whose mask nobody knows; None where every one has some."""
    cells = step.weights(head, sentence=sentence) > 0
    return None if cells.all() else BuiltIn(cells, words.ZERO_WEIGHTS)
