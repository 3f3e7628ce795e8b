"""The weights of heads, block by block: what a map of many tokens is looked through with, and never held."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import threshold_

from attnviz.core.masks import Mask
from attnviz.core.record import Step

TAME = 40.0
"""Size of logarithms below which another base costs a float32 weight less than 5e-6 of it; exp2 takes half as long."""


class RowCells(NamedTuple):
    """Functions that give the cells of some rows, (H, rows, columns).

    Attributes:
        cells: for some columns, and where one may attend, if not everywhere: numbers that rise with the weights.
        weigh: makes weights of cells, or of the largest of some; in place.
    """

    cells: Callable[[slice, Tensor | None], Tensor]
    weigh: Callable[[Tensor], Tensor]


class Blockwise:
    """Cells of some heads, a block at a time, each in the buffer of the one before.

    As one more number of every query stands -logsumexp, and 1 as that of every key: so a product of matrices gives the
    logarithm of each weight, and nothing is subtracted cell by cell. Weights near the smallest normal number of their
    type (below 2e-38 in float32) are 0. Rows and scores that need more go the way of `Step.weights`.
    """

    def __init__(self, step: Step, heads: Sequence[int], *, sentence: int = 0):
        self.step, self.heads, self.sentence = step, list(heads), sentence
        self._buffer = torch.empty(0)
        self._keys = None
        if step.scoring.is_linear:
            key = step.key[sentence, self.heads]
            key = key.to(torch.promote_types(key.dtype, torch.float32))
            self._longest = float(key.norm(dim=-1).max()) if key.numel() else 0.0
            self._keys = torch.cat([key, key.new_ones(*key.shape[:2], 2)], -1).mT

    def rows(self, rows: slice) -> RowCells:
        """The functions for the cells of these rows."""
        logsumexp = self.step.logsumexp[self.sentence, self.heads, rows]
        if self._keys is None or not logsumexp.isfinite().all():
            return RowCells(lambda columns, _: self._as_computed(rows, columns), lambda weights: weights)
        query = self.step.scoring.scaled(self.step.query[self.sentence, self.heads, rows].to(self._keys.dtype))
        reach = float(query.norm(dim=-1).max()) * self._longest + float(logsumexp.abs().max())
        if not math.isfinite(reach):
            return RowCells(lambda columns, _: self._as_computed(rows, columns), lambda weights: weights)
        exp, unit = (torch.exp2_, 1 / math.log(2)) if reach < TAME else (_exp, 1.0)
        query, logsumexp = query * unit, logsumexp * unit
        rounded = logsumexp.to(query.dtype)
        query = torch.cat([query, torch.stack([-rounded, (rounded - logsumexp).to(query.dtype)], -1)], -1)
        return RowCells(lambda columns, allowed: self._logarithms(query, columns, allowed), exp)

    def _as_computed(self, rows: slice, columns: slice) -> Tensor:
        weights = [self.step.weights(head, rows, columns, sentence=self.sentence) for head in self.heads]
        return torch.stack(weights)

    def _logarithms(self, query: Tensor, columns: slice, allowed: Tensor | None) -> Tensor:
        """Those of blocked cells are -infinity: by way of a minimum, which takes a fifth of the time of a choice."""
        keys = self._keys[:, :, columns]
        shape = (*query.shape[:2], keys.shape[2])
        if len(self._buffer) < math.prod(shape) or self._buffer.dtype != query.dtype:
            self._buffer = query.new_empty(math.prod(shape))
        cells = torch.bmm(query, keys, out=self._buffer[: math.prod(shape)].view(shape))
        if allowed is None:
            return cells
        above = torch.tensor(math.inf, dtype=cells.dtype)
        return torch.minimum(cells, torch.where(allowed, above, -above), out=cells)


def _exp(logarithms: Tensor) -> Tensor:
    """In place. torch's exp takes ten times as long where a result is too small for its type: those are cut before."""
    least = math.ceil(math.log(torch.finfo(logarithms.dtype).tiny))
    if not logarithms.numel() or not logarithms.amin() < least:
        return logarithms.exp_()
    return threshold_(logarithms.clamp_(min=least).exp_(), 1.001 * math.exp(least), 0.0)


def is_open(step: Step, rows: range, columns: range, *, sentence: int = 0) -> bool | None:
    """Whether all of a block may be attended to, or none; None if that has to be looked up. See `Mask.is_open`."""
    if step.mask is None:
        return True
    return step.mask.of_sentence(sentence).is_open(rows, columns) if isinstance(step.mask, Mask) else None
