"""Checks of a mask: what it is, inverted, transposed, empty rows, leaks of the future, and numbers that are no mask."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from attnviz.check import kinds
from attnviz.check.findings import Finding, Laid, Report
from attnviz.check.future import leaks, looks_causal
from attnviz.check.guessing import evidence
from attnviz.check.intent import Intent
from attnviz.check.judged import Judged
from attnviz.check.judged import findings as of_judgement
from attnviz.core.amounts import counted
from attnviz.core.explain import MISTAKEN, words

WEAK = -1000.0
"""An additive mask should block by less than this: scores of some hundreds occur."""

CERTAIN = "It is read as {convention}."
PROBABLE = "It is probably meant as {convention}, and is read so."
UNKNOWN = "Nothing in it tells the convention. It is read as {convention}."
"""In which convention a mask is read, and how certain that is."""

READINGS = tuple(mistake for mistake in MISTAKEN if mistake != "inverted")
"""What can be wrong with a mask in either of two conventions: of these it is inverted in one."""


def check_mask(laid: Laid, stated: str | None, causal: bool | None, meant: Intent | None) -> Report:
    """The convention of a mask, what it is, whether it hides the future, and what is wrong with it."""
    mask = laid.values
    convention = kinds.convention_of(mask, stated)
    if convention == "additive" and kinds.of_ones(mask) and bool((mask == 1).any()):
        zeros = Laid(mask.masked_fill(mask == 1, 0), laid.axes, laid.eps, laid.rounding)
        says = "What is open holds 1 instead of 0: every open score grows by 1, which leaves the weights as they are."
        ones = laid.finding("values", "note", says, "Fill what is open with 0.", mask == 1)
        found = check_mask(zeros, stated, causal, meant)
        return replace(found, findings=(ones, *found.findings))
    if convention == "additive" and bool((mask != 0).any()) and kinds.fill(mask) is None:
        return laid.report("mask", convention, bool(causal), (), _values(laid))
    findings = list(_weak_fill(laid)) if convention == "additive" else []
    if convention is None:
        convention, judged, guess = _guess(laid, meant)
        findings.append(guess)
    else:
        judged = Judged.of(kinds.opened(mask, convention), meant)
    hides, reasons = _future(judged, causal)
    leaking = [] if causal is False else [*_leaks(laid, judged, causal, hides)]
    told = {"future-leak", "ambiguous"} if leaking else {"future-leak"} if causal is False else set()
    findings += [one for one in of_judgement(laid, judged) if one.rule not in told]
    findings += [*leaking, *_empty(laid, judged, convention)]
    return laid.report("mask", convention, hides, reasons, findings, judged.judgement)


def _leaks(laid: Laid, judged: Judged, causal: bool | None, hides: bool) -> Iterator[Finding]:
    """All of the future that is open, if it was said to be blocked, or if nothing else is known of the mask."""
    if causal or (hides and not judged.judgement.found):
        yield from leaks(laid, judged.may_attend, stated=causal is not None)


def _future(judged: Judged, causal: bool | None) -> tuple[bool, tuple[str, ...]]:
    """Whether the mask hides the future, and why it is taken to: for what it is, or for how much of it is open."""
    if found := judged.judgement.found:
        what = "It is exactly" if judged.judgement.is_exact else "It is taken for"
        known = f"{what} {words.named(judged.judgement)}{words.source(judged.judgement)}."
        return judged.hides_future if causal is None else causal, () if found[0].mistake else (known,)
    if causal is None and looks_causal(judged.may_attend):
        return True, ("It is taken to be causal.",)
    return bool(causal), ()


def _weak_fill(laid: Laid) -> list[Finding]:
    """Whether an additive mask blocks enough."""
    value = kinds.fill(laid.values)
    if value is None or value <= WEAK:
        return []
    left = torch.tensor(value, dtype=torch.float64).exp().item()
    says = f"Blocked scores are lowered by {-value:.4g} only: {left:.2g} of their weight stays."
    severity, fix = "error" if value > -20 else "warning", "Fill with -inf, or torch.finfo(dtype).min."
    return [laid.finding("weak-fill", severity, says, fix, laid.values < 0)]


def _guess(laid: Laid, meant: Intent | None) -> tuple[str, Judged, Finding]:
    """True = masked or its opposite, by which of them the mask is a known one; may attend where nothing tells."""
    mask, numbers = laid.values == 1, laid.values.dtype is not torch.bool
    open_where, masked_where = (Judged.of(one, meant, READINGS) for one in (mask, ~mask))
    points, reasons = evidence(open_where, masked_where)
    convention = "true-is-masked" if points < 0 else "zero-is-masked" if numbers else "may-attend"
    judged = masked_where if points < 0 else open_where
    says = CERTAIN if abs(points) >= 4 else PROBABLE if points else UNKNOWN
    says = says.format(convention=f"'{convention}' ({kinds.CONVENTIONS[convention]})")
    fix = "If that is wrong, say the convention. "
    if points < 0:
        fix += "To F.scaled_dot_product_attention hand over the opposite: it reads True as may attend."
    elif points:
        fix += "To nn.MultiheadAttention hand over the opposite: it reads True as masked."
    rule, says = "convention" if points else "ambiguous", " ".join([says, *reasons])
    return convention, judged, laid.finding(rule, "note", says, fix.strip())


def _values(laid: Laid) -> Iterator[Finding]:
    values = laid.values
    fix = "0 * -inf is NaN: do not multiply by -inf, use torch.where or masked_fill."
    yield from laid.some("nan", "error", values.isnan(), "The mask holds NaN.", fix)
    yield from laid.some("inf", "error", values == torch.inf, "The mask holds +inf.", "Blocked is -inf, open is 0.")
    odd = (values != 0) & (values > kinds.VERY_NEGATIVE) & values.isfinite()
    if odd.any():
        says = f"The mask holds {values[odd][0].item():.4g} and other numbers that neither block nor leave open."
        fix = "Numbers added to scores that change them are a bias; if they are scores or weights, say that kind."
        yield laid.finding("values", "error", says, fix, odd)


def _empty(laid: Laid, judged: Judged, convention: str) -> Iterator[Finding]:
    """Rows without a key: as a known mask has them, such as those of padding, or by mistake."""
    empty, judgement = ~judged.may_attend.any(-1), judged.judgement
    as_known = judgement.found and not judgement.mistake
    meant = ~judged.expected.any(-1) if as_known else torch.zeros_like(empty)
    value = kinds.fill(laid.values) if convention == "additive" else None
    spreads = value is not None and value > -torch.inf
    what = "such a row " + ("spreads over masked keys" if spreads else "is NaN after a softmax, or zeros")
    zero = "ero these rows of the output, and keep them out of the loss."
    wrong = empty & ~meant
    says = f"{counted(int(wrong.sum()), 'row')} of {empty.numel():,} without a key left: {what}."
    fix = f"Leave a key open (the first, or its own), or z{zero}"
    yield from laid.some("empty-row", "error", wrong, says, fix)
    if (known := empty & meant).any():
        says = f"without a key left, as {words.named(judgement)} has: {what}."
        yield from laid.some("empty-row", "note", known, says, f"Z{zero}", "row")
