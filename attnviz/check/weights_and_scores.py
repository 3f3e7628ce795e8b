"""Check weights and scores: the keys to which a query attends, and numbers that no softmax gives."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnviz.check.arrays import VERY_NEGATIVE
from attnviz.check.findings import Array, ArrayReport, Finding, future, read_rows
from attnviz.check.mask import find_cells
from attnviz.check.mask_mistakes import Intent, hides_future
from attnviz.check.repairs import block_future
from attnviz.core.amounts import counted
from attnviz.core.masks import Mask

TOLERANCE = 1e-3
"""Allowed error of the sum of a row: two roundings of float32 scores in the hundreds already change it by 1e-4."""


def tolerance(array: Tensor) -> float:
    """Choose the allowed error of a row sum: by the dtype, and for rounded weights half of the last decimal per key."""
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


def check_weights(grid: Array, intent: Intent | None, tokens: Tensor | None, near: float) -> ArrayReport:
    """Report whether the weights hide the future, and their errors; row sums may differ from 1 by up to `near`."""
    values = grid.values
    nan, valid = values.isnan(), values.isfinite().all(-1)
    rows, weights = nan.all(-1), values.nan_to_num(0.0, 0.0, 0.0)
    empty = (weights == 0).all(-1) & valid
    outside = (weights < -near) | (weights > 1 + near)
    example = f", such as {weights[outside][0].item():.4g}" if outside.any() else ""
    message = "with only NaN: no key was left, and -inf was filled in."
    fix = "Leave a key open in each row, or set these rows to zero: torch.nan_to_num after the softmax."
    findings = grid.findings("nan", "error", message, fix, rows, "row")
    message = "with NaN in rows that also hold numbers: no softmax makes such a row."
    fix = "Look for code that changes the weights after the softmax."
    findings += grid.findings("nan", "error", message, fix, nan & ~rows[..., None], "cell")
    fix = "Weights are at most 1. If these are masked scores, state that the kind is scores."
    findings += grid.findings("inf", "error", "Some weights are infinite.", fix, values.isinf())
    grid = Array(weights, grid.axes)
    findings += _sum_findings(grid, valid & ~empty, near)
    fix = "A softmax gives none. If these are scores, from before the softmax, state that kind."
    findings += grid.findings("range", "error", f"below 0 or above 1{example}.", fix, outside, "weight")
    message = "with only zeros: the query had no key left, and its output is 0."
    fix = "If they are not padding, fix the mask: leave each query a key."
    findings += grid.findings("empty-row", "warning", message, fix, empty & read_rows(weights, tokens), "row")
    hides, of_mask = _compare(grid, weights > 1e-6, intent, tokens)  # keys with a very negative score get less
    return ArrayReport("weights", None, hides, tuple(weights.shape), findings=(*findings, *of_mask))


def check_scores(grid: Array, intent: Intent | None, tokens: Tensor | None) -> ArrayReport:
    """Report whether the scores hide the future, and their errors."""
    scores, findings = grid.values, []
    fix = "Look for NaN in queries and keys: an empty row of the layer before, or numbers too large for float16."
    findings += grid.findings("nan", "error", "Some scores are NaN.", fix, scores.isnan())
    fix = "float16 ends at 65,504: scale the queries before the product, or compute scores in float32."
    findings += grid.findings("inf", "error", "Some scores are +inf: the row becomes NaN.", fix, scores == torch.inf)
    blocked = scores <= VERY_NEGATIVE
    fix = "Leave each query a key, or set these rows to zero after the softmax."
    empty = blocked.all(-1) & read_rows(scores, tokens)
    findings += grid.findings("empty-row", "error", "without a key left: every score blocks.", fix, empty, "row")
    hides, of_mask = False, []
    if blocked.any():
        hides, of_mask = _compare(grid, ~blocked, intent, tokens)
    elif intent is not None:
        intended, hides = _intended_mask(intent.mask, ~blocked)
        cells = ~intended.expand_as(scores)
        numbers = scores[cells].unique()
        if len(numbers) == 1 and int(cells[0, 0].count_nonzero()) > 2:
            message = f"Every cell that {intent.title} blocks holds {float(numbers):.4g}, which still gets weight."
            fix = "Fill with -inf before the softmax: scores.masked_fill(~mask, -torch.inf)."
            of_mask = grid.findings("weak-fill", "error", message, fix, cells)
        elif hides:
            message = "No score blocks a key: these are scores from before the mask, which show no leak."
            of_mask = grid.findings("future-leak", "note", message, "Check the mask or the weights.")
    return ArrayReport("scores", None, hides, tuple(scores.shape), findings=(*findings, *of_mask))


def _sum_findings(grid: Array, live: Tensor, near: float) -> Iterator[Finding]:
    """Find rows that do not sum to 1 among the `live` rows, (B, H, Q): finite and not all 0."""
    weights, sums = grid.values, grid.values.sum(-1, dtype=torch.float64)
    off = live & ((sums - 1).abs() > near)
    if not off.any():
        return
    for axis, words in ((2, "the columns do, over queries"), (1, "the heads of each cell do"), (0, "sentences do")):
        along = weights.sum(axis, dtype=torch.float64)
        if weights.shape[axis] > 1 and bool(((along - 1).abs() <= near)[along > 0].all()) and bool((along > 0).any()):
            message = f"The rows do not sum to 1, but {words}: the softmax ran over the wrong axis."
            yield from grid.findings("wrong-axis", "error", message, "Take softmax(dim=-1), over the keys.", off)
            return
    rows, of_live = counted(int(off.count_nonzero()), "row"), sums[live]
    least, most = float(sums[off].min()), float(sums[off].max())
    if most < 1 and (weights == 0).any(-1)[off].all():
        message = f"Masked after the softmax: {rows} with blocked keys sum to less than 1."
        fix = "Mask the scores with -inf before the softmax, so that the other weights sum to 1."
        yield from grid.findings("masked-after-softmax", "error", message, fix, off)
    elif float(of_live.max()) < 1 - near and float(of_live.max() - of_live.min()) > near:
        message = f"Each row sums to less than 1 ({least:.4g} to {most:.4g}). This is right if sinks take the rest; "
        message += "otherwise keys were cut off."
        fix = "If the model has no sinks, look for code that changes the weights after the softmax."
        yield from grid.findings("ambiguous", "note", message, fix)
    else:
        between = f"{least:.4g}" if most - least < 1e-4 * most else f"{least:.4g} to {most:.4g}"
        message = f"{rows} of {off.numel():,} with the sum {between} instead of 1."
        fix = "Change no weights after the softmax: by dropout (call model.eval()), cutting off keys or summing heads."
        yield from grid.findings("row-sum", "error", message, fix, off)


def _compare(grid: Array, is_open: Tensor, intent: Intent | None, tokens: Tensor | None) -> tuple[bool, list[Finding]]:
    """Compare open cells of weights or scores, (B, H, Q, K), with the intent, or a causal mask if they look causal.
    Return whether the future is hidden, and findings about open cells that should be blocked, also at padding."""
    is_read, findings = read_rows(is_open, tokens)[..., None], []
    queries, keys = is_open.shape[2:]
    if intent is None:
        hides = _looks_causal(is_open)
        leaks = is_open & future(queries, keys) & hides
        if leaks.any():
            query, key = leaks.nonzero()[0, 2:].tolist()
            first, number = max(0, keys - queries), counted(int(leaks.count_nonzero()), "open future cell")
            message = f"It looks causal, with {number}: position {query + first} saw position {key}."
            fix = f"{block_future(first)} If they are meant to be open: --intent two-way."
            findings += grid.findings("future-leak", "warning", message, fix, leaks)
    else:
        intended, hides = _intended_mask(intent.mask, is_open)
        findings += find_cells(grid, is_open, is_open & ~intended & is_read, intent.title, hides, has_faults=False)
    if tokens is not None:
        fix = "Join padding to the mask: mask & tokens[:, None, None, :], True at tokens."
        padding = is_open & ~tokens[:, None, None] & is_read
        findings += grid.findings("deviation", "error", "of padding open to tokens.", fix, padding, "cell")
    return hides, findings


def _looks_causal(is_open: Tensor) -> bool:
    """Whether half of the past is open, and half of the heads open at most a tenth of the future; used keys count."""
    queries, keys = is_open.shape[2:]
    used = is_open.any(2, keepdim=True) & is_open.any(3, keepdim=True)
    ahead, behind = used & future(queries, keys), used & ~future(queries, keys)
    hides_per_head = 10 * (is_open & ahead).sum((0, 2, 3)) <= ahead.sum((0, 2, 3))
    is_past_open = 2 * int((is_open & behind).count_nonzero()) >= int(behind.count_nonzero())
    has_past = bool(ahead.any()) and queries > 1 + (queries != keys)
    return has_past and is_past_open and 2 * int(hides_per_head.sum()) >= len(hides_per_head)


def _intended_mask(mask: Mask, is_open: Tensor) -> tuple[Tensor, bool]:
    """Compute the cells that the intended mask opens, (B or 1, 1, Q, K), and whether the mask hides the future."""
    batch, _, queries, keys = is_open.shape
    offset = max(0, keys - queries)
    return mask.shifted(offset).tensor(queries, keys)[:batch], hides_future(mask, offset, is_open.shape)
