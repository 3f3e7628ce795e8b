"""Compute weights block by block, for maps of many tokens that do not fit in memory."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import threshold_

from attnviz.core.masks import Mask
from attnviz.core.record import Step

TAME = 40.0
"""Size of log-weights below which exp2 changes a float32 weight by less than a share of 5e-6; exp2 is twice as fast."""


class RowCells(NamedTuple):
    """Functions that compute the cells of some rows, (H, rows, columns).

    Attributes:
        cells: function of columns and mask (or None) that gives numbers which increase with the weights.
        weigh: function that turns such numbers into weights, in place.
    """

    cells: Callable[[slice, Tensor | None], Tensor]
    weigh: Callable[[Tensor], Tensor]


class Blockwise:
    """Computes weights of some heads block by block; all blocks share one buffer.

    Queries are extended by -logsumexp and keys by 1, so that one matrix product gives the logarithms of the weights
    without a subtraction per cell. Weights near the smallest normal number of their dtype (below 2e-38 in float32)
    become 0. Empty rows, and scores with bias or softcap, are computed by `Step.weights`.
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
        """The functions that compute the cells of these rows."""
        logsumexp = self.step.logsumexp[self.sentence, self.heads, rows]
        if self._keys is None or not logsumexp.isfinite().all():
            return RowCells(lambda columns, _: self._step_weights(rows, columns), lambda weights: weights)
        query = self.step.scoring.scaled(self.step.query[self.sentence, self.heads, rows].to(self._keys.dtype))
        reach = float(query.norm(dim=-1).max()) * self._longest + float(logsumexp.abs().max())
        if not math.isfinite(reach):
            return RowCells(lambda columns, _: self._step_weights(rows, columns), lambda weights: weights)
        exp, unit = (torch.exp2_, 1 / math.log(2)) if reach < TAME else (_exp_in_place, 1.0)
        query, logsumexp = query * unit, logsumexp * unit
        rounded = logsumexp.to(query.dtype)
        query = torch.cat([query, torch.stack([-rounded, (rounded - logsumexp).to(query.dtype)], -1)], -1)
        return RowCells(lambda columns, allowed: self._logarithms(query, columns, allowed), exp)

    def _step_weights(self, rows: slice, columns: slice) -> Tensor:
        """Compute the weights of all heads by `Step.weights`, (H, rows, columns)."""
        weights = [self.step.weights(head, rows, columns, sentence=self.sentence) for head in self.heads]
        return torch.stack(weights)

    def _logarithms(self, query: Tensor, columns: slice, allowed: Tensor | None) -> Tensor:
        """Compute log-weights, -inf for blocked cells: the mask is a minimum, five times as fast as `where`."""
        keys = self._keys[:, :, columns]
        shape = (*query.shape[:2], keys.shape[2])
        if len(self._buffer) < math.prod(shape) or self._buffer.dtype != query.dtype:
            self._buffer = query.new_empty(math.prod(shape))
        cells = torch.bmm(query, keys, out=self._buffer[: math.prod(shape)].view(shape))
        if allowed is None:
            return cells
        above = torch.tensor(math.inf, dtype=cells.dtype)
        return torch.minimum(cells, torch.where(allowed, above, -above), out=cells)


def _exp_in_place(logarithms: Tensor) -> Tensor:
    """Compute exp in place, with arguments clamped first: exp is ten times slower where its result is denormal."""
    least = math.ceil(math.log(torch.finfo(logarithms.dtype).tiny))
    if not logarithms.numel() or not logarithms.amin() < least:
        return logarithms.exp_()
    return threshold_(logarithms.clamp_(min=least).exp_(), 1.001 * math.exp(least), 0.0)


def is_open(step: Step, rows: range, columns: range, *, sentence: int = 0) -> bool | None:
    """True if all cells of a block are open, False if none is, None if unknown; see `Mask.is_open`."""
    if step.mask is None:
        return True
    return step.mask.of_sentence(sentence).is_open(rows, columns) if isinstance(step.mask, Mask) else None
