"""Checks of weights and of scores: what is open to whom, and numbers that a softmax does not give."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnviz.check.arrays import VERY_NEGATIVE, precision
from attnviz.check.findings import Finding, Laid, Report, future, read_rows, saw
from attnviz.check.intent import Intent, check_fits
from attnviz.core.amounts import counted

LEAK = 1e-6
"""A weight on the future above this leaks; a softmax leaves less of what was filled with a very negative number."""

TOLERANCE = 1e-3
"""Error of a sum of weights: scores of some hundreds in float32, rounded twice, already move it by 1e-4."""

PRINTED = (2, 3, 4)
"""Decimals with which numbers are printed."""

OTHER_AXES = {2: "the columns do, over queries", 1: "the heads of each cell do", 0: "sentences do"}
"""Axes along which weights sum to 1 by mistake, in words."""


def tolerance(array: Tensor) -> float:
    """How far a row of weights may be off from 1: by its precision, or by half a digit for each key if all numbers have
    the same few decimals."""
    digit = 0.0
    for decimals in PRINTED if array.is_floating_point() and array.element_size() > 2 else ():
        scaled = array.nan_to_num(0.0, 0.0, 0.0) * 10**decimals
        if not digit and bool(((scaled - scaled.round()).abs() < TOLERANCE).all()):
            digit = 0.5 * 10.0**-decimals
    return max(TOLERANCE, 2 * precision(array), digit * array.shape[-1])


def check_weights(laid: Laid, intent: Intent | None, tokens: Tensor | None, near: float) -> Report:
    """Whether the weights hide the future, and what is wrong with them.

    Args:
        near: how far a row may be off from 1.
    """
    values, findings = laid.values, []
    nan, valid = values.isnan(), values.isfinite().all(-1)
    rows = nan.all(-1)
    message = "of NaN throughout: no key was left, and -inf was filled in."
    fix = "Leave a key open in each row, or set these rows to zero: torch.nan_to_num after the softmax."
    findings += laid.some("nan", "error", rows, message, fix, "row")
    message = "of NaN in rows that hold numbers too: a softmax makes no such row."
    fix = "Look for what is done to the weights after the softmax."
    findings += laid.some("nan", "error", nan & ~rows[..., None], message, fix, "cell")
    fix = "Weights are at most 1. If these are masked scores, say that they are scores."
    findings += laid.some("inf", "error", values.isinf(), "Some weights are infinite.", fix)
    weights = values.nan_to_num(0.0, 0.0, 0.0)
    laid = Laid(weights, laid.axes)
    empty = (weights == 0).all(-1) & valid
    findings += _of_sums(laid, valid & ~empty, near)
    outside = (weights < -near) | (weights > 1 + near)
    such = f", such as {weights[outside][0].item():.4g}" if outside.any() else ""
    fix = "A softmax gives none. If these are scores, from before the softmax, say so."
    findings += laid.some("range", "error", outside, f"below 0 or above 1{such}.", fix, "weight")
    message = "of 0 throughout: the query had no key left, and its output is 0."
    fix = "If they are not padding, mend the mask: leave each query a key."
    findings += laid.some("empty-row", "warning", empty & read_rows(weights, tokens), message, fix, "row")
    is_open = weights > LEAK
    hides, reasons, of_mask = _of_open(laid, is_open, intent, tokens)
    return Report("weights", None, hides, tuple(weights.shape), reasons, (*findings, *of_mask))


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
    hides, reasons, of_mask = False, (), ()
    if blocked.any():
        hides, reasons, of_mask = _of_open(laid, ~blocked, intent, tokens)
    elif intent is not None:
        cells = ~_intended(intent, ~blocked, None).expand_as(scores)
        hides, numbers = _hides_future(intent, ~blocked), scores[cells].unique()
        message = "No score blocks a key: these are scores from before the mask, which show no leak."
        if len(numbers) == 1 and int(cells[0, 0].count_nonzero()) > 2:
            message = f"Every cell that {intent.title} blocks holds {float(numbers):.4g}, to which softmax "
            message += "gives weight."
            fix = "Fill with -inf before the softmax: scores.masked_fill(~mask, -torch.inf)."
            of_mask = [laid.finding("weak-fill", "error", message, fix, cells)]
        elif hides:
            of_mask = [laid.finding("future-leak", "note", message, "Check the mask or the weights.")]
    return Report("scores", None, hides, tuple(scores.shape), reasons, (*findings, *of_mask))


def _of_sums(laid: Laid, live: Tensor, near: float) -> Iterator[Finding]:
    """Finding about rows that do not sum to 1; `live`, (B, H, Q), are those with finite numbers that are not all 0."""
    weights, sums = laid.values, laid.values.sum(-1, dtype=torch.float64)
    off = live & ((sums - 1).abs() > near)
    if not off.any():
        return
    for axis, words in OTHER_AXES.items():
        along = weights.sum(axis, dtype=torch.float64)
        if weights.shape[axis] > 1 and bool(((along - 1).abs() <= near)[along > 0].all()) and bool((along > 0).any()):
            message = f"The rows do not sum to 1, but {words}: the softmax ran over the wrong axis."
            yield laid.finding("wrong-axis", "error", message, "Take softmax(dim=-1), over the keys.", off)
            return
    rows, of_live = counted(int(off.count_nonzero()), "row"), sums[live]
    least, most = float(sums[off].min()), float(sums[off].max())
    if most < 1 and (weights == 0).any(-1)[off].all():
        message = f"Masked after the softmax: {rows} with blocked keys sum to less than 1."
        fix = "Mask the scores with -inf before the softmax, so that what is left is divided anew."
        yield laid.finding("masked-after-softmax", "error", message, fix, off)
    elif float(of_live.max()) < 1 - near and float(of_live.max() - of_live.min()) > near:
        message = f"Each row sums to less than 1, to {least:.4g} to {most:.4g}: right where sinks take the rest, and "
        message += "else keys were cut off."
        fix = "If the model has no sinks, look for what is done after the softmax."
        yield laid.finding("ambiguous", "note", message, fix)
    else:
        between = f"{least:.4g}" if most - least < 1e-4 * most else f"{least:.4g} to {most:.4g}"
        message = f"{rows} of {off.numel():,} not summing to 1, but to {between}."
        fix = "Nothing may change weights after the softmax: dropout (call model.eval()), keys cut off, heads summed."
        yield laid.finding("row-sum", "error", message, fix, off)


def _of_open(
    laid: Laid, is_open: Tensor, intent: Intent | None, tokens: Tensor | None
) -> tuple[bool, tuple[str, ...], list[Finding]]:
    """Whether open cells hide the future, a remark if they do not, and what is open that should not be."""
    after, findings, reasons = future(*is_open.shape[2:]), [], ()
    read = read_rows(is_open, tokens)[..., None]
    if intent is None:
        used, is_leaking = after & is_open.any(2, keepdim=True), bool((is_open & after).any())
        hides = bool(used.any()) and not is_leaking
        if is_leaking:
            reasons = ("Keys after the query are open; if they must not be: --intent causal.",)
    else:
        hides, intended = _hides_future(intent, is_open), _intended(intent, is_open, tokens)
        extra = is_open & ~intended & read
        ahead = extra & after & (not (intended & after).any())
        fix = "Look for a mask that was not handed over, or is another one."
        for rule, cells in (("future-leak", ahead), ("deviation", extra & ~ahead)):
            message = f"open that {intent.title} blocks: {saw(cells)}." if cells.any() else ""
            findings += laid.some(rule, "error", cells, message, fix, "cell")
    if tokens is not None:
        fix = "Join padding to the mask: mask & tokens[:, None, None, :], True at tokens."
        padding = is_open & ~tokens[:, None, None] & read
        findings += laid.some("deviation", "error", padding, "of padding open to tokens.", fix, "cell")
    return hides, reasons, findings


def _hides_future(intent: Intent, is_open: Tensor) -> bool:
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
