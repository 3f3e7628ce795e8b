"""The weights of one head, block by block: what a map of many tokens is looked through with, and never held."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import threshold_

from attnviz.core.masks import Mask
from attnviz.core.record import Step

TAME = 40.0
"""Size of logarithms below which another base costs a float32 weight less than 5e-6 of it; exp2 takes half as long."""


class Blockwise:
    """Weights of one head, a block at a time, each in the buffer of the one before.

    As one more number of every query stands -logsumexp, and 1 as that of every key: so a product of matrices gives the
    logarithm of each weight, and nothing is subtracted cell by cell. Weights near the smallest normal number of their
    type (below 2e-38 in float32) are 0. Rows and scores that need more go the way of `Step.weights`.
    """

    def __init__(self, step: Step, head: int, *, sentence: int = 0):
        self.step, self.head, self.sentence = step, head, sentence
        self._buffer = torch.empty(0)
        self._keys = None
        if step.scoring.is_linear:
            key = step.key[sentence, head]
            key = key.to(torch.promote_types(key.dtype, torch.float32))
            self._longest = float(key.norm(dim=1).max()) if len(key) else 0.0
            self._keys = torch.cat([key, key.new_ones(len(key), 2)], 1).T

    def rows(self, rows: slice) -> Callable[[slice, Tensor | None], Tensor]:
        """What gives the weights of these rows: for some columns, and where one may attend, if not everywhere."""
        logsumexp = self.step.logsumexp[self.sentence, self.head, rows]
        if self._keys is None or not logsumexp.isfinite().all():
            return lambda columns, _: self.step.weights(self.head, rows, columns, sentence=self.sentence)
        query = self.step.scoring.scaled(self.step.query[self.sentence, self.head, rows].to(self._keys.dtype))
        reach = float(query.norm(dim=1).max()) * self._longest + float(logsumexp.abs().max())
        exp, unit = (torch.exp2_, 1 / math.log(2)) if reach < TAME else (_exp, 1.0)
        query, logsumexp = query * unit, logsumexp * unit
        rounded = logsumexp.to(query.dtype)
        query = torch.cat([query, torch.stack([-rounded, (rounded - logsumexp).to(query.dtype)], 1)], 1)
        return lambda columns, allowed: self._block(query, columns, allowed, exp)

    def _block(self, query: Tensor, columns: slice, allowed: Tensor | None, exp: Callable[[Tensor], Tensor]) -> Tensor:
        keys = self._keys[:, columns]
        size = len(query) * keys.shape[1]
        if len(self._buffer) < size or self._buffer.dtype != query.dtype:
            self._buffer = query.new_empty(size)
        weights = exp(torch.mm(query, keys, out=self._buffer[:size].view(len(query), -1)))
        return weights if allowed is None else weights.masked_fill_(~allowed, 0)


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
