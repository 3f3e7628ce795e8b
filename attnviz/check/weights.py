"""Checks of weights and of scores: what is open to whom, numbers that a softmax does not give, and heads."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnviz.check import heads, sums
from attnviz.check.arrays import VERY_NEGATIVE
from attnviz.check.findings import Finding, Laid, Report, block_future, future, in_numbers, read_rows, saw
from attnviz.check.intent import Intent, check_fits
from attnviz.core.amounts import counted

LEAK = 1e-6
"""A weight on the future above this leaks; a softmax leaves less of what was filled with a very negative number."""


def check_weights(laid: Laid, intent: Intent | None, tokens: Tensor | None) -> Report:
    """Whether the weights hide the future, and what is wrong with them."""
    values, findings = laid.values, []
    nan, valid = values.isnan(), values.isfinite().all(-1)
    rows = nan.all(-1)
    message = "of NaN throughout: no key was left, and -inf was filled in."
    fix = "Leave a key open in each row, or set these rows to zero: torch.nan_to_num after the softmax."
    findings += laid.some("nan", "error", rows, message, fix, "row")
    single = nan & ~rows[..., None]
    cells = counted(int(single.count_nonzero()), "cell")
    message = f"NaN in {cells} of rows that hold numbers too: a softmax makes no such row."
    fix = "Look for what is done to the weights after the softmax."
    findings += laid.some("nan", "error", single, message, fix)
    fix = "Weights are at most 1. If these are masked scores, say that they are scores."
    findings += laid.some("inf", "error", values.isinf(), "Some weights are infinite.", fix)
    weights = values.nan_to_num(0.0, 0.0, 0.0)
    laid = Laid(weights, laid.axes, laid.eps, laid.rounding)
    dead = (weights == 0).all(-1).all(-1).all(0) & valid.any(-1).any(0)
    live = valid & ~dead[:, None]
    of_sums = list(sums.check_sums(laid, live))
    findings += of_sums
    near, dropped = sums.tolerance(laid), any(finding.rule == "dropout-on" for finding in of_sums)
    outside = (weights < -near) | ((weights > 1 + near) & (not dropped))
    such = f", such as {weights[outside][0].item():.4g}" if outside.any() else ""
    fix = "A softmax gives none. If these are scores, from before the softmax, say so."
    findings += laid.some("range", "error", outside, f"below 0 or above 1{such}.", fix, "weight")
    read = read_rows(weights, tokens)
    message = "of 0 throughout: the query had no key left, and its output is 0."
    fix = "If they are not padding, mend the mask: leave each query a key."
    empty = (weights == 0).all(-1) & live & read & (not dropped)
    findings += laid.some("empty-row", "warning", empty, message, fix, "row")
    spread = weights.amax(-1) - weights.amin(-1)
    even = (spread <= heads.EVEN * weights.amax(-1) + 2 * laid.rounding) & (weights.amin(-1) > 0) & valid
    findings += _over_masked(laid, even, valid)
    is_open = weights > LEAK
    telling = is_open & ~even[..., None]
    hides, reasons = looks_causal(telling), ()
    if intent is not None:
        findings, hides = [*findings, *_beyond(laid, is_open, intent, tokens)], hides_future(intent, is_open)
    elif hides:
        leaking = list(leaks(laid, telling))
        findings += leaking
        follows = ", so an open cell of the future counts as a leak" if leaking else f": {in_numbers(telling)}"
        reasons = (f"The weights look causal{follows}.",)
    findings += _padding_seen(laid, is_open, tokens)
    findings += heads.check_heads(laid, ~sums.closed_cells(weights) & valid[..., None], valid, dead)
    return Report("weights", None, hides, tuple(weights.shape), reasons, tuple(findings))


def check_scores(laid: Laid, intent: Intent | None, tokens: Tensor | None) -> Report:
    """Whether the scores hide the future, and what is wrong with them."""
    scores, findings = laid.values, []
    fix = "Look for NaN in queries and keys: an empty row of the layer before, or numbers too large for float16."
    findings += laid.some("nan", "error", scores.isnan(), "Some scores are NaN.", fix)
    fix = "float16 ends at 65,504: scale the queries before the product, or compute scores in float32."
    findings += laid.some("inf", "error", scores == torch.inf, "Some scores are +inf: the row becomes NaN.", fix)
    blocked = scores <= VERY_NEGATIVE
    fix = "Leave each query a key, or set these rows to zero after the softmax."
    empty = blocked.all(-1) & read_rows(scores, tokens)
    findings += laid.some("empty-row", "error", empty, "without a key left: every score blocks.", fix, "row")
    hides, reasons = bool(blocked.any()) and looks_causal(~blocked), ()
    if intent is not None:
        hides = hides_future(intent, ~blocked)
        if blocked.any():
            findings += _beyond(laid, ~blocked, intent, tokens)
        elif filled := _filled(laid, intent):
            findings += filled
        elif hides:
            message = "No score blocks a key: these are scores from before the mask, which show no leak."
            findings.append(laid.finding("future-leak", "note", message, "Check the mask or the weights."))
    elif hides:
        findings += leaks(laid, ~blocked)
        reasons = (f"The scores look causal: {in_numbers(~blocked)}.",)
    if blocked.any():
        findings += _padding_seen(laid, ~blocked, tokens)
    valid = ~scores.isnan().any(-1)
    findings += heads.check_heads(laid, ~blocked & valid[..., None], valid)
    return Report("scores", None, hides, tuple(scores.shape), reasons, tuple(findings))


def looks_causal(may_attend: Tensor) -> bool:
    """Whether most heads hide the future: at most a tenth of it is open in all, or none in half of the heads, while at
    least half of the past is open. Keys and queries that are blocked throughout (padding) are left out. (B, H, Q, K)"""
    queries, keys = may_attend.shape[2:]
    after = future(queries, keys)
    if queries < (2 if queries == keys else 3) or not after.any():
        return False
    used = may_attend.any(2, keepdim=True) & may_attend.any(3, keepdim=True)
    ahead, behind = used & after, used & ~after
    if 2 * int((may_attend & behind).count_nonzero()) < int(behind.count_nonzero()) or not bool(ahead.any()):
        return False
    open_ahead = [int(head.count_nonzero()) for head in (may_attend & ahead).unbind(1)]
    return 10 * sum(open_ahead) <= int(ahead.count_nonzero()) or 2 * open_ahead.count(0) >= len(open_ahead)


def leaks(laid: Laid, may_attend: Tensor) -> Iterator[Finding]:
    """Open cells of the future, where the rest of the array hides it and nobody said that it must."""
    open_ahead = may_attend & future(*may_attend.shape[2:])
    if open_ahead.any():
        rows = counted(int(open_ahead.any(-1).sum()), "row")
        message = f"Keys after the query are open in {rows}: {saw(open_ahead)}. In all, {in_numbers(may_attend)}."
        fix = f"{block_future(*may_attend.shape[2:])} If they are meant to be open: --intent two-way."
        yield laid.finding("future-leak", "warning", message, fix, open_ahead)


def hides_future(intent: Intent, is_open: Tensor) -> bool:
    """Whether the intended mask hides the future."""
    after = future(*is_open.shape[2:])
    return bool(after.any()) and not (_intended(intent, is_open, None) & after).any()


def _intended(intent: Intent, is_open: Tensor, tokens: Tensor | None) -> Tensor:
    """Cells that the intended mask opens, (B or 1, 1, Q, K); a kind whose number does not follow opens none."""
    batch, _, queries, keys = is_open.shape
    offset = max(0, keys - queries)
    rules = intent.rules(is_open, tokens, offset)
    if rules is None:
        return torch.zeros(1, 1, queries, keys, dtype=torch.bool)
    check_fits(rules, batch)
    return rules.shifted(offset).tensor(queries, keys)[:batch]


def _beyond(laid: Laid, is_open: Tensor, intent: Intent, tokens: Tensor | None) -> Iterator[Finding]:
    """Cells with a weight, or a score that does not block, that the intended mask blocks; the future's apart."""
    intended, after = _intended(intent, is_open, tokens), future(*is_open.shape[2:])
    extra = is_open & ~intended & read_rows(is_open, tokens)[..., None]
    ahead = extra & after & (not (intended & after).any())
    for rule, cells in (("future-leak", ahead), ("deviation", extra & ~ahead)):
        if cells.any():
            message = f"open that {intent.title} blocks: {saw(cells)}."
            fix = "Look for a mask that was not handed over, or is another one."
            yield from laid.some(rule, "error", cells, message, fix, "cell")


def _padding_seen(laid: Laid, is_open: Tensor, tokens: Tensor | None) -> list[Finding]:
    """Keys of padding that queries which are tokens see; `tokens` is (B, K)."""
    if tokens is None:
        return []
    seen = is_open & ~tokens[:, None, None] & read_rows(is_open, tokens)[..., None]
    fix = "Join padding to the mask: mask & tokens[:, None, None, :], True at tokens."
    return laid.some("deviation", "error", seen, "of padding open to tokens.", fix, "cell")


def _over_masked(laid: Laid, even: Tensor, valid: Tensor) -> list[Finding]:
    """Rows spread evenly over all keys, where every other row of every head blocks some of them."""
    others = (valid & ~even)[..., None]
    is_open, after = (laid.values > LEAK) & others, future(*laid.values.shape[2:])
    causal = bool(others.any()) and looks_causal(is_open)
    backwards = not bool((is_open & after).any())
    could = (others & ~after if backwards else others).any(2, keepdim=True).any(1, keepdim=True)
    blocked = could & ~is_open.any(2, keepdim=True).any(1, keepdim=True)
    own = torch.eye(*after.shape, dtype=torch.bool)  # the last of a causal mask is seen by its own query alone
    over = even & ((blocked & ~own).any(-1) | (after.any(-1) & causal))
    message = "even over all keys, masked ones too: no key was left, and -1e9 filled in."
    fix = "Leave each query a key, or fill with -inf and set empty rows to zero."
    return laid.some("uniform-over-masked", "error", over, message, fix, "row")


def _filled(laid: Laid, intent: Intent) -> list[Finding]:
    """Scores that one number replaces wherever the intended mask blocks, though that number does not block."""
    cells = ~_intended(intent, laid.values > -torch.inf, None).expand_as(laid.values)
    numbers = laid.values[cells].unique()
    if len(numbers) != 1 or int(cells[0, 0].count_nonzero()) < 3:
        return []
    message = f"Every cell that {intent.title} blocks holds {float(numbers):.4g}, to which softmax gives weight."
    fix = "Fill with -inf before the softmax: scores.masked_fill(~mask, -torch.inf)."
    return [laid.finding("weak-fill", "error", message, fix, cells)]
