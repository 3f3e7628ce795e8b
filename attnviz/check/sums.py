"""Why rows of weights do not sum to 1: dropout was on, masked after the softmax, a softmax over another axis."""

import math

import torch
from torch import Tensor

from attnviz.check.findings import Finding, Laid, future
from attnviz.core.amounts import counted

TOLERANCE = 1e-3
"""Scores of some hundreds in float32, rounded twice, already move a sum by 1e-4."""


def tolerance(laid: Laid) -> float:
    """How far a sum of K weights may be off: each is rounded to eps / 2 of itself, or to the last digit of a text."""
    return max(TOLERANCE, 2 * laid.eps) + laid.rounding * laid.values.shape[-1]


def check_sums(laid: Laid, valid: Tensor) -> list[Finding]:
    """Finding about sums of rows, with the likeliest reason.

    Args:
        valid: (B, H, Q), the rows to look at.
    """
    weights, near = laid.values, tolerance(laid)
    sums = weights.sum(-1, dtype=torch.float64)
    live = valid & (weights != 0).any(-1)
    off = live & ((sums - 1).abs() > near)
    if not off.any():
        return []
    rows = counted(int(off.count_nonzero()), "row")
    if (axis := _other_axis(weights, valid, near)) is not None:
        message = f"The rows do not sum to 1, but {axis}: the softmax ran over the wrong axis."
        return [laid.finding("wrong-axis", "error", message, "Take softmax(dim=-1), over the keys.", off)]
    # a key that is 0 for all may be padding, or the last one, which few queries see, dropped by chance
    ways = (dropped(weights, sums, valid, closed, near) for closed in (closed_cells(weights), _closed_future(weights)))
    if dropout := next(filter(None, ways), None):
        p, exact = dropout
        message = f"Dropout was on: rows that lost no weight sum to 1 / (1 - p) = {1 / (1 - p):.4g}, with p = {p:.2g}."
        if not exact:
            zeros = f"{p:.0%} of the weights are 0 (dropped, or blocked by a mask that is not known)"
            message = f"Dropout was on: {zeros}, and some rows sum to more than 1."
        fix = "Call model.eval(), or look at the weights before dropout."
        return [laid.finding("dropout-on", "error", message, fix, off)]
    zero = weights == 0
    of_heads = zero.all(1, keepdim=True) & (weights.shape[1] > 1)
    blocked = (closed_cells(weights) | of_heads).expand_as(weights)
    if (
        not (live & (sums > 1 + near)).any()
        and blocked.any(-1)[off].all()
        and not (zero & ~blocked & live[..., None]).any()
    ):
        message = f"Masked after the softmax: {rows} with blocked keys sum to less than 1."
        fix = "Mask the scores with -inf before the softmax, so that what is left is divided anew."
        return [laid.finding("masked-after-softmax", "error", message, fix, off)]
    of_live = sums[live]
    if bool((of_live < 1 - near).all()) and float(of_live.max() - of_live.min()) > near:
        message = f"Each row sums to less than 1, to {of_live.min():.4g} to {of_live.max():.4g}: right where sinks "
        message += "take the rest, and else keys were cut off."
        fix = "If the model has no sinks, look for what is done after the softmax."
        return [laid.finding("ambiguous", "note", message, fix)]
    least, most = sums[off].min().item(), sums[off].max().item()
    between = f"{least:.4g}" if math.isclose(least, most, rel_tol=1e-4) else f"{least:.4g} to {most:.4g}"
    message = f"{rows} of {off.numel():,} not summing to 1, but to {between}."
    fix = "Nothing may change weights after the softmax: keys cut off, heads summed, a mean over pieces, low precision."
    return [laid.finding("row-sum", "error", message, fix, off)]


def closed_cells(weights: Tensor) -> Tensor:
    """Cells that a mask blocks, by their form, (B, 1, Q, K): keys or queries that are 0 for all, the future if it is 0
    throughout, and what is 0 in every head of every sentence if these are 16 or more."""
    zero = (weights == 0).all(1, keepdim=True)
    closed = zero.all(2, keepdim=True) | zero.all(3, keepdim=True) | _closed_future(weights)
    return (closed | zero.all(0)) if weights.shape[0] * weights.shape[1] >= 16 else closed


def _closed_future(weights: Tensor) -> Tensor:
    after = future(*weights.shape[2:])
    return after & ((weights == 0) | ~after).all(3, keepdim=True).all(2, keepdim=True).all(1, keepdim=True)


def dropped(weights: Tensor, sums: Tensor, valid: Tensor, closed: Tensor, near: float) -> tuple[float, bool] | None:
    """The p of dropout after the softmax and whether it is exact, or None if zeros and sums do not follow it.

    A weight is zeroed with probability p, and else divided by 1 - p. So a row that lost none sums to 1 / (1 - p), no
    row sums to more, and p of the open cells, give or take 5 standard deviations, are 0. Where three rows or more have
    zeros and all sum to the same, as much as any row, nothing was lost: the zeros are those of a mask.
    """
    cells = valid[..., None] & ~closed
    zero = (weights == 0) & cells
    count, zeros = int(cells.count_nonzero()), int(zero.count_nonzero())
    whole = valid & cells.any(-1) & ~zero.any(-1)
    share = zeros / count if count else 0.0
    lost, top = sums[valid & zero.any(-1)], float(sums[valid].max())
    if len(lost) > 2 and bool((lost >= top - near * top).all()):
        return None
    if bool(whole.any()):
        whole_sums = sums[whole]
        middle = whole_sums.median().item()
        if middle <= 1 + near or bool(((whole_sums - middle).abs() > near * middle).any()):
            return None
        p, slack = 1 - 1 / middle, 0.0
        if (1 - p) ** count > 1e-3 and not zeros:  # so few cells that none may have been dropped: p is a round one
            return (p, True) if abs(p - round(20 * p) / 20) <= 2 * near and p <= 0.5 + near else None
    else:
        p = share
        if not 0 < p < 1 or top <= 1 + near:
            return None
        slack = 5 * math.sqrt(p * (1 - p) / count) / (1 - p)
    within = abs(share - p) <= 5 * math.sqrt(p * (1 - p) / count)
    return (p, not slack) if within and top <= (1 + slack + 2 * near) / (1 - p) else None


def _other_axis(weights: Tensor, valid: Tensor, near: float) -> str | None:
    """Along what the weights sum to 1 instead, in words."""
    if not bool(valid.all()):
        return None
    axes = ((2, "the columns do, over queries"), (1, "the heads of each cell do"), (0, "sentences do"))
    for axis, words in (pair for pair in axes if weights.shape[pair[0]] > 1):
        along = weights.sum(axis, dtype=torch.float64)
        used = along > 0
        if bool(used.any()) and bool(((along - 1).abs() <= near)[used].all()):
            return words
    whole = weights.sum((2, 3), dtype=torch.float64)
    sums_to_one = weights.shape[2] > 1 and bool(((whole - 1).abs() < near).all())
    return "all cells of a head together do" if sums_to_one else None
