"""Checks of whole heads: uniform, dead, identical, and scores that are the same both ways."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnviz.check.findings import Finding, Laid
from attnviz.core.amounts import counted

EVEN = 1e-3
"""Weights of a row that differ by less than this share of the largest are even."""

MOST_BY_CHANCE = 3
"""Even pairs of weights from which a head is called uniform."""

CHANCE = 1e-6
"""How probable it may be that heads are equal, or scores look symmetric, by chance."""

SURE = 0.99
"""Weight of one key from which a row tells nothing about others."""

SAME_WAY = (
    "Give W_Q and W_K weights of their own: clones and deep copies begin equal; or is query = key without projections?"
)


def check_heads(laid: Laid, usable: Tensor, valid: Tensor, dead: Tensor | None = None) -> Iterator[Finding]:
    """Findings about whole heads: dead, uniform, identical, symmetric.

    Args:
        usable: (B, H, Q, K), cells that no mask blocks, in rows that hold numbers.
        valid: (B, H, Q), the rows that hold numbers.
        dead: (H,), heads of weights whose every weight is 0; None for scores.
    """
    most = laid.values.masked_fill(~usable, -torch.inf).amax(-1)
    least = laid.values.masked_fill(~usable, torch.inf).amin(-1)
    even = most - least <= EVEN * torch.maximum(most.abs(), least.abs()) + 2 * laid.rounding
    even |= usable.sum(-1) < 2
    level = even.all(-1).all(0) & ((usable.sum(-1) - 1).clamp_min(0).sum((0, 2)) >= MOST_BY_CHANCE)
    scores = laid.values.masked_fill(~usable, -torch.inf) if dead is None else laid.values.log()
    plain = even.all(-1).all(0)
    if dead is not None:
        level, plain = level & ~dead, dead | (even | (laid.values.amax(-1) >= SURE)).all(-1).all(0)
        if dead.any():
            message = f"{counted(int(dead.sum()), 'head')} with the weight 0 everywhere: nothing is added by it."
            fix = "If they were not switched off, look for a mask or factor of 0."
            yield laid.finding("dead-head", "warning", message, fix, dead[None])
    if level.any():
        heads = counted(int(level.sum()), "uniform head")
        message = f"{heads}: every open key of a row counts the same, whatever it says."
        fix = "Look for queries or keys that are 0, a temperature that is far too high, or -1e9 added to all of a row."
        yield laid.finding("uniform-head", "warning", message, fix, level[None])
    yield from _identical(laid, plain)
    yield from symmetric(laid, scores, valid & ~level[:, None], relative=dead is not None)


def _identical(laid: Laid, plain: Tensor) -> Iterator[Finding]:
    """Heads that are equal in every number; `plain`, (H,), are those of which that says nothing."""
    values = laid.values.nan_to_num(0.0, 0.0, 0.0)
    groups: dict[int, list[int]] = {}
    for head in (~plain).nonzero().flatten().tolist():
        numbers = values[:, head].flatten()[:1000].unique()
        free = int(((numbers != 0) & (numbers != 1)).sum()) // 2  # of two weights of a row one follows from the other
        if laid.eps**free <= CHANCE:  # else another head may well hold the same few numbers of few digits
            same = (first for first in groups if torch.equal(values[:, first], values[:, head]))
            groups.setdefault(next(same, head), []).append(head)
    twins = [group for group in groups.values() if len(group) > 1]
    if not twins or laid.values.shape[3] < 2:
        return
    chosen = torch.zeros(values.shape[1], dtype=torch.bool)
    chosen[[head for group in twins for head in group]] = True
    named = "; ".join(", ".join(map(str, group[:8])) + (", ..." if len(group) > 8 else "") for group in twins[:4])
    message = f"Heads are identical in every number: {named}."
    fix = "Look for expand or repeat where heads are split, one head's weights copied, or a batch read as heads."
    yield laid.finding("identical-heads", "warning", message, fix, chosen[None])


def symmetric(laid: Laid, scores: Tensor, valid: Tensor, *, relative: bool) -> Iterator[Finding]:
    """Heads whose scores are s(i, j) = s(j, i) over all tokens that are not padding, in every sentence.

    From the logarithms of weights, w(i, j) = s(i, j) - l(i), the difference w(i, j) - w(j, i) = l(j) - l(i) must be a
    difference of two numbers for every pair. That leaves (n - 1)(n - 2) / 2 numbers that are 0 by chance only.

    Args:
        scores: (B, H, n, n), or the logarithms of weights if `relative`.
    """
    queries, keys = laid.values.shape[2:]
    if queries != keys:
        return
    judged = [_alike(laid, sentence, rows, relative) for sentence, rows in zip(scores, valid, strict=True)]
    can_judge = torch.stack([can for can, _ in judged])
    heads = torch.stack([alike | ~can for can, alike in judged]).all(0) & can_judge.any(0)
    if heads.any():
        message = f"{counted(int(heads.sum()), 'head')} with symmetric scores, s(i, j) = s(j, i). Is W_Q = W_K?"
        yield laid.finding("symmetric-scores", "warning", message, SAME_WAY, heads[None])


def _alike(laid: Laid, scores: Tensor, valid: Tensor, relative: bool) -> tuple[Tensor, Tensor]:
    """Heads of one sentence, (H, n, n), that can be judged, and those that are symmetric."""
    used = scores.isfinite().any(0).any(0) & valid.any(0)
    part = scores[:, used][:, :, used].double()
    n = part.shape[-1]
    nothing = torch.zeros(len(part), dtype=torch.bool)
    if n < 3:
        return nothing, nothing
    finite = part.isfinite().all(-1).all(-1) & valid[:, used].all(-1)
    part = part.masked_fill(~finite[:, None, None], 0)
    difference = part - part.mT
    if relative:
        difference = difference - (difference[..., :1] + difference[..., :1, :])
        least = part.exp().amin((-1, -2)).clamp_min(1e-30)
        near = 6 * (max(laid.eps, 1e-6) + laid.rounding / least)
    else:
        near = part.abs().amax((-1, -2)) * 4 * max(laid.eps, 1e-6) + 2 * laid.rounding
    mixed = part - part.mean(-1, keepdim=True) - part.mean(-2, keepdim=True) + part.mean((-1, -2), keepdim=True)
    free = (n - 1) * (n - 2) // 2 if relative else n * (n - 1) // 2
    telling = finite & (mixed.abs().amax((-1, -2)) > 20 * near) & (near**free < CHANCE)
    return telling, difference.abs().amax((-1, -2)) <= near
