"""Patterns of heads that do one thing and nothing else, and how much of a head's weight is on its pattern.

Patterns are boolean, (B, Q, K), True where the weight of a row should be, for a decoder, which sees no future.
"""

import torch
from torch import Tensor

from attnviz.core.record import Step


def weights(step: Step, head: int) -> Tensor:
    """Weights of every sentence of the batch, (B, Q, K)."""
    return torch.stack([step.weights(head, sentence=sentence) for sentence in range(step.shape[0])])


def share(weights: Tensor, pattern: Tensor, rows: Tensor | None = None) -> float:
    """The mean over rows, all or those that are True in (B, Q), of a row's weight within a pattern."""
    within = (weights * pattern).sum(-1)
    return float((within if rows is None else within[rows.expand(within.shape)]).mean())


def ideal(pattern: Tensor) -> Tensor:
    """The weights of a head that looks evenly at a pattern and nowhere else."""
    return pattern / pattern.sum(-1, keepdim=True)


def seen(ids: Tensor) -> Tensor:
    """Keys that a row may look at: itself and everything before."""
    batch, n = ids.shape
    return torch.ones(n, n, dtype=torch.bool).tril().expand(batch, n, n)


def back(ids: Tensor, by: int = 1) -> Tensor:
    """The position so many before; where there is none, the first."""
    n = ids.shape[1]
    target = (torch.arange(n) - by).clamp(min=0)
    return (torch.arange(n) == target.unsqueeze(1)).expand_as(seen(ids))


def first(ids: Tensor) -> Tensor:
    return back(ids, ids.shape[1])


def same(ids: Tensor) -> Tensor:
    """Every position up to the row's own that holds the same token."""
    return (ids.unsqueeze(2) == ids.unsqueeze(1)) & seen(ids)


def after_same(ids: Tensor) -> Tensor:
    """Every position right after an earlier one with the row's token; a row may have none."""
    follows = torch.zeros_like(seen(ids))
    follows[:, :, 1:] = (ids.unsqueeze(2) == ids.unsqueeze(1))[:, :, :-1]
    return follows & seen(ids)


def same_before(ids: Tensor) -> Tensor:
    """Every position up to the row's own whose token before is that before the row's; the first has only itself."""
    alike = torch.zeros_like(seen(ids))
    alike[:, 0, 0] = True
    alike[:, 1:, 1:] = ids[:, :-1].unsqueeze(2) == ids[:, :-1].unsqueeze(1)
    return alike & seen(ids)
