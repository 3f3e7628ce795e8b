"""Checks of a mask: inverted, empty rows, leaks of the future, and numbers that are no mask."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnviz.check import kinds
from attnviz.check.findings import Finding, Laid, future, many

WEAK = -1000.0
"""An additive mask should block by less than this: scores of some hundreds occur."""


def check_mask(laid: Laid, told: str | None, causal: bool | None) -> tuple[str, bool, list[Finding]]:
    """The convention of a mask, whether it hides the future, and what is wrong with it."""
    mask = laid.values
    convention = kinds.convention_of(mask, told)
    if convention == "additive" and kinds.of_ones(mask) and bool((mask == 1).any()):
        zeros = Laid(mask.masked_fill(mask == 1, 0), laid.axes, laid.eps, laid.rounding)
        says = "What is open holds 1 instead of 0: every open score grows by 1, which leaves the weights as they are."
        ones = laid.finding("values", "note", says, "Fill what is open with 0.", mask == 1)
        convention, hides, findings = check_mask(zeros, told, causal)
        return convention, hides, [ones, *findings]
    if convention == "additive" and bool((mask != 0).any()) and kinds.fill(mask) is None:
        return convention, bool(causal), list(_values(laid))
    findings = list(_convention(laid, convention)) if convention else []
    if convention is None:
        convention, guess = _guess(laid)
        findings.append(guess)
    may_attend = kinds.opened(mask, convention)
    hides = looks_causal(may_attend) if causal is None else causal
    if not any(found.rule == "inverted" for found in findings):
        findings += _own_key(laid, may_attend)
    findings += _empty(laid, may_attend, convention)
    if hides:
        findings += leaks(laid, may_attend, told=causal is not None)
    return convention, hides, findings


def looks_causal(may_attend: Tensor) -> bool:
    """Whether most heads hide the future: at most a tenth of it is open in all, or none in half of the heads, or the
    very next key alone, while at least half of the past is open. Keys and queries that are blocked throughout (padding)
    are left out. (B, H, Q, K), boolean."""
    queries, keys = may_attend.shape[2:]
    after = future(queries, keys)
    if queries < (2 if queries == keys else 3) or not after.any():
        return False
    used = may_attend.any(2, keepdim=True) & may_attend.any(3, keepdim=True)
    ahead, behind = used & after, used & ~after
    open_ahead, open_behind = (may_attend & ahead).sum((0, 2, 3)), (may_attend & behind).sum((0, 2, 3))
    if 2 * int(open_behind.sum()) < int(behind.sum()) or not bool(ahead.any()):
        return False
    if 10 * int(open_ahead.sum()) <= int(ahead.sum()) or 2 * int((open_ahead == 0).sum()) >= len(open_ahead):
        return True
    shifted = torch.ones_like(after).tril(max(0, keys - queries) + 1)
    return bool((used & ~shifted).any()) and torch.equal(may_attend, used & shifted)


def leaks(laid: Laid, may_attend: Tensor, *, told: bool) -> Iterator[Finding]:
    """The open cells of the future."""
    open_ahead = may_attend & future(*may_attend.shape[2:])
    if not open_ahead.any():
        return
    queries, keys = may_attend.shape[2:]
    nearest = open_ahead & ~torch.ones(queries, keys, dtype=torch.bool).tril(max(0, keys - queries) + 1)
    whom = "the key after it" if not nearest.any() else "keys after it"
    seen = open_ahead.nonzero()[0].tolist()
    says = f"Open to {whom} in {many(int(open_ahead.any(-1).sum()), 'row')}: position {seen[2]} saw position {seen[3]}."
    fix = "Block them: tril(diagonal=0) is open, triu(diagonal=1) blocked."
    if not told:
        says = f"Nearly all of the future is hidden. {says}"
        fix += " If they are meant, say that it is not causal."
    yield laid.finding("future-leak", "error" if told else "warning", says, fix, open_ahead)


def _values(laid: Laid) -> Iterator[Finding]:
    values = laid.values
    if values.isnan().any():
        says = "The mask holds NaN."
        fix = "0 * -inf is NaN: do not multiply by -inf, use torch.where or masked_fill."
        yield laid.finding("nan", "error", says, fix, values.isnan())
    if (values == torch.inf).any():
        yield laid.finding("inf", "error", "The mask holds +inf.", "Blocked is -inf, open is 0.", values == torch.inf)
    odd = (values != 0) & (values > kinds.VERY_NEGATIVE) & values.isfinite()
    if odd.any():
        says = f"The mask holds {values[odd][0].item():.4g} and other numbers that neither block nor leave open."
        fix = (
            "Numbers that are added to scores and change them are a bias; if they are scores or weights, say that kind."
        )
        yield laid.finding("values", "error", says, fix, odd)


def _convention(laid: Laid, convention: str) -> Iterator[Finding]:
    """Whether the mask contradicts the convention that it is in, and whether it blocks enough."""
    may_attend = kinds.opened(laid.values, convention)
    points, _ = kinds.evidence(may_attend)
    if points < 0 and (found := kinds.suspicion(may_attend)):
        ahead = may_attend & future(*may_attend.shape[2:])
        unless = f", unless it is {found.otherwise}" if found.otherwise else ""
        says = f"Open and blocked are swapped{unless}: {kinds.small(kinds.seen(found))}."
        fix = "Swap 0 and -inf." if convention == "additive" else "Hand over ~mask, or say the other convention."
        severity = "warning" if unless else "error"
        yield laid.finding("inverted", severity, says, fix, ahead if ahead.any() else ~may_attend)
    value = kinds.fill(laid.values) if convention == "additive" else None
    if value is not None and value > WEAK:
        says = f"Blocked scores are lowered by {-value:.4g} only: {_power(value)} of their weight stays."
        fix = "Fill with -inf, or torch.finfo(dtype).min."
        yield laid.finding("weak-fill", "error" if value > -20 else "warning", says, fix, laid.values < 0)


def _power(value: float) -> str:
    return f"{torch.tensor(value, dtype=torch.float64).exp().item():.2g}"


def _guess(laid: Laid) -> tuple[str, Finding]:
    """True = masked or its opposite, by the evidence; may attend where there is none."""
    mask = laid.values
    points, reasons = kinds.evidence(mask == 1)
    numbers = mask.dtype is not torch.bool
    convention = "true-is-masked" if points < 0 else "zero-is-masked" if numbers else "may-attend"
    sure = "clearly" if abs(points) >= 4 else "probably" if points else "by default, for nothing in the mask tells"
    says = f"It is read as '{convention}' ({kinds.CONVENTIONS[convention]}), {sure}."
    fix = "If that is wrong, say the convention. "
    if points < 0:
        fix += "To F.scaled_dot_product_attention hand over the opposite: it reads True as may attend."
    elif points:
        fix += "To nn.MultiheadAttention hand over the opposite: it reads True as masked."
    telling = ((mask == 1) == (points < 0)) & future(*mask.shape[2:])
    chosen = telling if points and telling.any() else None
    return convention, laid.finding("convention", "note", " ".join([says, *reasons]), fix.strip(), chosen)


def _empty(laid: Laid, may_attend: Tensor, convention: str) -> Iterator[Finding]:
    empty = ~may_attend.any(-1)
    if not empty.any():
        return
    value = kinds.fill(laid.values) if convention == "additive" else None
    what = (
        "spreads over masked keys" if value is not None and value > -torch.inf else "is NaN after a softmax, or zeros"
    )
    says = f"{many(int(empty.sum()), 'row')} of {empty.numel():,} without a key left: such a row {what}."
    fix = "Leave a key open (the first, or its own), or zero these rows of the output, and keep them out of the loss."
    yield laid.finding("empty-row", "error", says, fix, empty)


def _own_key(laid: Laid, may_attend: Tensor) -> Iterator[Finding]:
    """The diagonal blocked where the past is open and the future blocked; not by padding, which blocks it for all."""
    queries, keys = may_attend.shape[2:]
    after = future(queries, keys)
    own = torch.ones(queries, keys, dtype=torch.bool).tril(max(0, keys - queries)) & ~after
    own &= torch.ones(queries, keys, dtype=torch.bool).triu(max(0, keys - queries))
    past = ~after & ~own
    if not (own & may_attend.any(2, keepdim=True)).any():
        return
    if queries < 3 or (may_attend & (after | own)).any() or 2 * int((may_attend & past).sum()) < int(past.sum()):
        return
    none = "" if may_attend[:, :, 0].any() else ": query 0 has none at all"
    says = f"The future is hidden, and so is each query's own key{none}."
    fix = "It is off by one: tril(diagonal=0) is open, triu(diagonal=1) blocked."
    yield laid.finding("blocks-itself", "warning", says, fix, own.expand_as(may_attend))
