"""Check weights and scores: which keys each query attends to, and numbers that no softmax gives."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnviz.check.arrays import VERY_NEGATIVE
from attnviz.check.findings import ArrayReport, Finding, Laid, block_future, future, read_rows, saw
from attnviz.check.intent import Intent, hides_future
from attnviz.core.amounts import counted
from attnviz.core.masks import Full, Mask, Subsequent

LEAK = 1e-6
"""Weight on a future key above which it leaks; a softmax gives less to keys filled with a very negative score."""

TOLERANCE = 1e-3
"""Allowed error of the sum of a row: two roundings of float32 scores in the hundreds already change it by 1e-4."""

OTHER_AXES = {2: "the columns do, over queries", 1: "the heads of each cell do", 0: "sentences do"}
"""Wrong axes over which a softmax may have run, each with the words for its sums."""


def tolerance(array: Tensor) -> float:
    """Choose the allowed error of the sum of a row from the number type, or, if all weights are rounded to 2 to 4
    decimals, as half a unit of the last decimal per key."""
    if not array.is_floating_point():
        return TOLERANCE
    eps, digit = torch.finfo(array.dtype).eps, 0.0
    if array.element_size() > 2:
        numbers = array.nan_to_num(0.0, 0.0, 0.0)
        narrow = (torch.float16, torch.bfloat16)  # numbers that fit exactly were probably computed in that type
        eps = max([eps, *(torch.finfo(t).eps for t in narrow if torch.equal(numbers.to(t).to(array.dtype), numbers))])
        for decimals in (4, 3, 2):
            scaled = numbers * 10**decimals
            digit = 0.5 * 10.0**-decimals if ((scaled - scaled.round()).abs() < TOLERANCE).all() else digit
    return max(TOLERANCE, 2 * eps, digit * array.shape[-1])


def check_weights(laid: Laid, intent: Intent | None, tokens: Tensor | None, near: float) -> ArrayReport:
    """Report whether the weights hide the future, and their errors.

    Args:
        near: allowed error of the sum of a row.
    """
    values = laid.values
    nan, valid = values.isnan(), values.isfinite().all(-1)
    rows, weights = nan.all(-1), values.nan_to_num(0.0, 0.0, 0.0)
    empty = (weights == 0).all(-1) & valid
    outside = (weights < -near) | (weights > 1 + near)
    such = f", such as {weights[outside][0].item():.4g}" if outside.any() else ""
    message = "of NaN throughout: no key was left, and -inf was filled in."
    fix = "Leave a key open in each row, or set these rows to zero: torch.nan_to_num after the softmax."
    findings = laid.findings("nan", "error", message, fix, rows, "row")
    message = "of NaN in rows that hold numbers too: a softmax makes no such row."
    fix = "Look for what is done to the weights after the softmax."
    findings += laid.findings("nan", "error", message, fix, nan & ~rows[..., None], "cell")
    fix = "Weights are at most 1. If these are masked scores, say that they are scores."
    findings += laid.findings("inf", "error", "Some weights are infinite.", fix, values.isinf())
    laid = Laid(weights, laid.axes)
    findings += _sum_findings(laid, valid & ~empty, near)
    fix = "A softmax gives none. If these are scores, from before the softmax, say so."
    findings += laid.findings("range", "error", f"below 0 or above 1{such}.", fix, outside, "weight")
    message = "of 0 throughout: the query had no key left, and its output is 0."
    fix = "If they are not padding, mend the mask: leave each query a key."
    findings += laid.findings("empty-row", "warning", message, fix, empty & read_rows(weights, tokens), "row")
    hides, of_mask = _compare(laid, weights > LEAK, intent, tokens)
    return ArrayReport("weights", None, hides, tuple(weights.shape), findings=(*findings, *of_mask))


def check_scores(laid: Laid, intent: Intent | None, tokens: Tensor | None) -> ArrayReport:
    """Report whether the scores hide the future, and their errors."""
    scores, findings = laid.values, []
    fix = "Look for NaN in queries and keys: an empty row of the layer before, or numbers too large for float16."
    findings += laid.findings("nan", "error", "Some scores are NaN.", fix, scores.isnan())
    fix = "float16 ends at 65,504: scale the queries before the product, or compute scores in float32."
    findings += laid.findings("inf", "error", "Some scores are +inf: the row becomes NaN.", fix, scores == torch.inf)
    blocked = scores <= VERY_NEGATIVE
    fix = "Leave each query a key, or set these rows to zero after the softmax."
    empty = blocked.all(-1) & read_rows(scores, tokens)
    findings += laid.findings("empty-row", "error", "without a key left: every score blocks.", fix, empty, "row")
    hides, of_mask = False, []
    if blocked.any():
        hides, of_mask = _compare(laid, ~blocked, intent, tokens)
    elif intent is not None:
        intended, hides = _intended_mask(intent.mask, ~blocked)
        cells = ~intended.expand_as(scores)
        numbers = scores[cells].unique()
        if len(numbers) == 1 and int(cells[0, 0].count_nonzero()) > 2:
            message = f"Every cell that {intent.title} blocks holds {float(numbers):.4g}, which still gets weight."
            fix = "Fill with -inf before the softmax: scores.masked_fill(~mask, -torch.inf)."
            of_mask = laid.findings("weak-fill", "error", message, fix, cells)
        elif hides:
            message = "No score blocks a key: these are scores from before the mask, which show no leak."
            of_mask = laid.findings("future-leak", "note", message, "Check the mask or the weights.")
    return ArrayReport("scores", None, hides, tuple(scores.shape), findings=(*findings, *of_mask))


def _sum_findings(laid: Laid, live: Tensor, near: float) -> Iterator[Finding]:
    """Find rows that do not sum to 1 among the `live` rows, (B, H, Q): finite and not all 0."""
    weights, sums = laid.values, laid.values.sum(-1, dtype=torch.float64)
    off = live & ((sums - 1).abs() > near)
    if not off.any():
        return
    for axis, words in OTHER_AXES.items():
        along = weights.sum(axis, dtype=torch.float64)
        if weights.shape[axis] > 1 and bool(((along - 1).abs() <= near)[along > 0].all()) and bool((along > 0).any()):
            message = f"The rows do not sum to 1, but {words}: the softmax ran over the wrong axis."
            yield from laid.findings("wrong-axis", "error", message, "Take softmax(dim=-1), over the keys.", off)
            return
    rows, of_live = counted(int(off.count_nonzero()), "row"), sums[live]
    least, most = float(sums[off].min()), float(sums[off].max())
    if most < 1 and (weights == 0).any(-1)[off].all():
        message = f"Masked after the softmax: {rows} with blocked keys sum to less than 1."
        fix = "Mask the scores with -inf before the softmax, so that what is left is divided anew."
        yield from laid.findings("masked-after-softmax", "error", message, fix, off)
    elif float(of_live.max()) < 1 - near and float(of_live.max() - of_live.min()) > near:
        message = f"Each row sums to less than 1, to {least:.4g} to {most:.4g}: right where sinks take the rest, and "
        message += "else keys were cut off."
        fix = "If the model has no sinks, look for what is done after the softmax."
        yield from laid.findings("ambiguous", "note", message, fix)
    else:
        between = f"{least:.4g}" if most - least < 1e-4 * most else f"{least:.4g} to {most:.4g}"
        message = f"{rows} of {off.numel():,} not summing to 1, but to {between}."
        fix = "Nothing may change weights after the softmax: dropout (call model.eval()), keys cut off, heads summed."
        yield from laid.findings("row-sum", "error", message, fix, off)


def _compare(laid: Laid, is_open: Tensor, intent: Intent | None, tokens: Tensor | None) -> tuple[bool, list[Finding]]:
    """Find cells open against the intent or an apparent causal mask; also return whether that hides the future."""
    mask = Subsequent() if intent is None and _looks_causal(is_open) else Full()
    mask = mask if intent is None else intent.mask
    (intended, hides), read, findings = _intended_mask(mask, is_open), read_rows(is_open, tokens)[..., None], []
    extra = is_open & ~intended & (read | (intent is None))
    ahead = extra & future(*is_open.shape[2:]) & hides
    if intent is None and ahead.any():
        number, total = int(ahead.count_nonzero()), int((~intended).count_nonzero()) * ahead[..., 0, 0].numel()
        message = f"It looks causal, and {number:,} of {total:,} future cells {'is' if number == 1 else 'are'} open: "
        fix = f"{block_future(*is_open.shape[2:])} If they are meant to be open: --intent two-way."
        findings += laid.findings("future-leak", "warning", f"{message}{saw(ahead)}.", fix, ahead)
    elif intent is not None:
        fix = "Look for a mask that was not handed over, or is another one."
        for rule, cells in (("future-leak", ahead), ("deviation", extra & ~ahead)):
            message = f"open that {intent.title} blocks: {saw(cells)}." if cells.any() else ""
            findings += laid.findings(rule, "error", message, fix, cells, "cell")
    if tokens is not None:
        fix = "Join padding to the mask: mask & tokens[:, None, None, :], True at tokens."
        padding = is_open & ~tokens[:, None, None] & read
        findings += laid.findings("deviation", "error", "of padding open to tokens.", fix, padding, "cell")
    return hides, findings


def _looks_causal(may_attend: Tensor) -> bool:
    """Whether at least half of the heads open at most a tenth of the future, and half of all past cells are open. Fully
    blocked keys and queries are ignored."""
    queries, keys = may_attend.shape[2:]
    used = may_attend.any(2, keepdim=True) & may_attend.any(3, keepdim=True)
    ahead, behind = used & future(queries, keys), used & ~future(queries, keys)
    hiding = 10 * (may_attend & ahead).sum((0, 2, 3)) <= ahead.sum((0, 2, 3))  # per head
    is_past_open = 2 * int((may_attend & behind).count_nonzero()) >= int(behind.count_nonzero())
    has_past = bool(ahead.any()) and queries >= 2 + (queries != keys)
    return has_past and is_past_open and 2 * int(hiding.sum()) >= len(hiding)


def _intended_mask(mask: Mask, is_open: Tensor) -> tuple[Tensor, bool]:
    """Compute the cells that the intended mask opens, (B or 1, 1, Q, K), and whether the mask hides the future."""
    batch, _, queries, keys = is_open.shape
    offset = max(0, keys - queries)
    return mask.shifted(offset).tensor(queries, keys)[:batch], hides_future(mask, offset, is_open.shape)
