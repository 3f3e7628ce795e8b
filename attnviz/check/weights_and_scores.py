"""Check weights and scores: the keys to which a query attends, and numbers that no softmax gives."""

from collections.abc import Iterator

import torch
from torch import Tensor

from attnviz.check.arrays import VERY_NEGATIVE
from attnviz.check.findings import Array, ArrayReport, Finding, future, rows_to_check
from attnviz.check.mask import find_cells
from attnviz.check.mask_mistakes import Intent, hides_future
from attnviz.check.repairs import block_future
from attnviz.core.amounts import counted
from attnviz.core.masks import Mask

TOLERANCE = 1e-3
"""Allowed error of the sum of a row: two roundings of float32 scores in the hundreds already change it by 1e-4."""


def row_sum_tolerance(array: Tensor) -> float:
    """Return how far the sum of a row of weights may be from 1, given the number type and the decimals of the array."""
    if not array.is_floating_point():
        return TOLERANCE
    eps, rounding_per_key = torch.finfo(array.dtype).eps, 0.0
    if array.element_size() > 2:
        numbers = array.nan_to_num(0.0, 0.0, 0.0)
        for dtype in (torch.float16, torch.bfloat16):
            if torch.equal(numbers.to(dtype).to(array.dtype), numbers):  # then they were probably computed in this type
                eps = max(eps, torch.finfo(dtype).eps)
        for decimals in (4, 3, 2):
            scaled = numbers * 10**decimals
            if ((scaled - scaled.round()).abs() < TOLERANCE).all():
                rounding_per_key = 0.5 * 10.0**-decimals
    return max(TOLERANCE, 2 * eps, rounding_per_key * array.shape[-1])


def check_weights(grid: Array, intent: Intent | None, tokens: Tensor | None, sum_tolerance: float) -> ArrayReport:
    """Check weights, (B, H, Q, K): report their errors, and whether they hide the future. `tokens` is boolean (B, K),
    False at padding. The sum of a row may differ from 1 by at most `sum_tolerance`."""
    is_nan, has_finite_row = grid.values.isnan(), grid.values.isfinite().all(-1)
    is_nan_row, weights = is_nan.all(-1), grid.values.nan_to_num(0.0, 0.0, 0.0)
    is_zero_row = (weights == 0).all(-1) & has_finite_row
    outside = (weights < -sum_tolerance) | (weights > 1 + sum_tolerance)
    message = "with only NaN: no key was left, and -inf was filled in."  # follows the number of rows
    fix = "Leave a key open in each row, or set these rows to zero: torch.nan_to_num after the softmax."
    findings = grid.findings("nan", "error", message, fix, is_nan_row, "row")
    message = "with NaN in rows that also hold numbers: no softmax makes such a row."
    fix = "Look for code that changes the weights after the softmax."
    findings += grid.findings("nan", "error", message, fix, is_nan & ~is_nan_row[..., None], "cell")
    fix = "Weights are at most 1. If these are masked scores, state that the kind is scores."
    findings += grid.findings("inf", "error", "Some weights are infinite.", fix, grid.values.isinf())
    grid = Array(weights, grid.axes)  # NaN and infinite numbers are replaced by 0
    findings += _find_row_sums(grid, has_finite_row & ~is_zero_row, sum_tolerance)
    example = f", such as {weights[outside][0].item():.4g}" if outside.any() else ""
    fix = "A softmax gives none. If these are scores, from before the softmax, state that kind."
    findings += grid.findings("range", "error", f"below 0 or above 1{example}.", fix, outside, "weight")
    message = "with only zeros: the query had no key left, and its output is 0."
    fix = "If they are not padding, fix the mask: leave each query a key."
    findings += grid.findings("empty-row", "warning", message, fix, is_zero_row & rows_to_check(weights, tokens), "row")
    is_open = weights > 1e-6  # a key that is blocked by a large finite number may keep a smaller weight
    hides, mask_findings = _find_open_cells(grid, is_open, intent, tokens)
    return ArrayReport("weights", None, hides, tuple(weights.shape), findings=(*findings, *mask_findings))


def check_scores(grid: Array, intent: Intent | None, tokens: Tensor | None) -> ArrayReport:
    """Check scores, (B, H, Q, K): report errors, and if they hide the future. `tokens`, (B, K), is False at padding."""
    scores, findings = grid.values, []
    fix = "Look for NaN in queries and keys: an empty row of the layer before, or numbers too large for float16."
    findings += grid.findings("nan", "error", "Some scores are NaN.", fix, scores.isnan())
    fix = "float16 ends at 65,504: scale the queries before the product, or compute scores in float32."
    findings += grid.findings("inf", "error", "Some scores are +inf: the row becomes NaN.", fix, scores == torch.inf)
    blocked = scores <= VERY_NEGATIVE
    fix = "Leave each query a key, or set these rows to zero after the softmax."
    empty = blocked.all(-1) & rows_to_check(scores, tokens)
    findings += grid.findings("empty-row", "error", "without a key left: every score blocks.", fix, empty, "row")
    hides, mask_findings = False, []
    if blocked.any():
        hides, mask_findings = _find_open_cells(grid, ~blocked, intent, tokens)
    elif intent is not None:
        intended, hides = _intended_mask(intent.mask, ~blocked)
        cells = ~intended.expand_as(scores)
        numbers = scores[cells].unique()
        if len(numbers) == 1 and int(cells[0, 0].count_nonzero()) > 2:  # the same number in all cells: a weak fill
            message = f"Every cell that {intent.title} blocks holds {float(numbers):.4g}, which still gets weight."
            fix = "Fill with -inf before the softmax: scores.masked_fill(~mask, -torch.inf)."
            mask_findings = grid.findings("weak-fill", "error", message, fix, cells)
        elif hides:
            message = "No score blocks a key: these are scores from before the mask, which show no leak."
            mask_findings = grid.findings("future-leak", "note", message, "Check the mask or the weights.")
    return ArrayReport("scores", None, hides, tuple(scores.shape), findings=(*findings, *mask_findings))


def _find_row_sums(grid: Array, is_checked: Tensor, tolerance: float) -> Iterator[Finding]:
    """Find rows of weights that do not sum to 1, and the likely reason; only rows in `is_checked`, (B, H, Q)."""
    weights, sums = grid.values, grid.values.sum(-1, dtype=torch.float64)
    is_off = is_checked & ((sums - 1).abs() > tolerance)
    if not is_off.any():
        return
    for axis, words in ((2, "the columns do, over queries"), (1, "the heads of each cell do"), (0, "sentences do")):
        other_sums = weights.sum(axis, dtype=torch.float64)
        other_sums = other_sums[other_sums > 0]
        if weights.shape[axis] > 1 and len(other_sums) and bool(((other_sums - 1).abs() <= tolerance).all()):
            message = f"The rows do not sum to 1, but {words}: the softmax ran over the wrong axis."
            yield from grid.findings("wrong-axis", "error", message, "Take softmax(dim=-1), over the keys.", is_off)
            return
    rows, checked_sums = counted(int(is_off.count_nonzero()), "row"), sums[is_checked]
    least, most = float(sums[is_off].min()), float(sums[is_off].max())
    largest, spread = float(checked_sums.max()), float(checked_sums.max() - checked_sums.min())
    if most < 1 and (weights == 0).any(-1)[is_off].all():
        message = f"Masked after the softmax: {rows} with blocked keys sum to less than 1."
        fix = "Mask the scores with -inf before the softmax, so that the other weights sum to 1."
        yield from grid.findings("masked-after-softmax", "error", message, fix, is_off)
    elif largest < 1 - tolerance and spread > tolerance:
        message = f"Each row sums to less than 1 ({least:.4g} to {most:.4g}). This is right if sinks take the rest; "
        message += "otherwise keys were cut off."
        fix = "If the model has no sinks, look for code that changes the weights after the softmax."
        yield from grid.findings("ambiguous", "note", message, fix)
    else:
        between = f"{least:.4g}" if most - least < 1e-4 * most else f"{least:.4g} to {most:.4g}"
        message = f"{rows} of {is_off.numel():,} with the sum {between} instead of 1."
        fix = "Change no weights after the softmax: by dropout (call model.eval()), cutting off keys or summing heads."
        yield from grid.findings("row-sum", "error", message, fix, is_off)


def _find_open_cells(
    grid: Array, is_open: Tensor, intent: Intent | None, tokens: Tensor | None
) -> tuple[bool, list[Finding]]:
    """Return whether the open cells, (B, H, Q, K), hide the future, and findings about open cells that should be
    blocked: by the intent (without an intent, by a causal mask if the array looks causal), or as keys of padding."""
    is_checked, findings = rows_to_check(is_open, tokens)[..., None], []
    queries, keys = is_open.shape[2:]
    if intent is None:
        hides = _looks_causal(is_open)
        leaks = is_open & future(queries, keys) & hides
        if leaks.any():
            query, key = leaks.nonzero()[0, 2:].tolist()
            first, number = max(0, keys - queries), counted(int(leaks.count_nonzero()), "open future cell")
            message = f"It looks causal, with {number}: position {query + first} saw position {key}."
            fix = f"{block_future(first)} If they are meant to be open, give --intent two-way."
            findings += grid.findings("future-leak", "warning", message, fix, leaks)
    else:
        intended, hides = _intended_mask(intent.mask, is_open)
        wrong = is_open & ~intended & is_checked
        findings += find_cells(grid, is_open, wrong, intent.title, hides, has_mistakes=False)
    if tokens is not None:
        fix = "Join padding to the mask: mask & tokens[:, None, None, :], True at tokens."
        padding = is_open & ~tokens[:, None, None] & is_checked
        findings += grid.findings("deviation", "error", "of padding open to tokens.", fix, padding, "cell")
    return hides, findings


def _looks_causal(is_open: Tensor) -> bool:
    """Whether open cells, boolean (B, H, Q, K), look like a causal mask with a few errors: half of the past is open,
    and half of the heads open at most a tenth of the future. Rows and columns without an open cell do not count."""
    queries, keys = is_open.shape[2:]
    is_used = is_open.any(2, keepdim=True) & is_open.any(3, keepdim=True)
    ahead, behind = is_used & future(queries, keys), is_used & ~future(queries, keys)
    hides_per_head = 10 * (is_open & ahead).sum((0, 2, 3)) <= ahead.sum((0, 2, 3))  # at most a tenth is open
    is_past_open = 2 * int((is_open & behind).count_nonzero()) >= int(behind.count_nonzero())
    has_past = bool(ahead.any()) and queries > (1 if queries == keys else 2)
    return has_past and is_past_open and 2 * int(hides_per_head.sum()) >= len(hides_per_head)


def _intended_mask(mask: Mask, is_open: Tensor) -> tuple[Tensor, bool]:
    """Compute the intended mask, (B or 1, 1, Q, K), for cells (B, H, Q, K), and whether it hides the future."""
    batch, _, queries, keys = is_open.shape
    offset = max(0, keys - queries)
    return mask.shifted(offset).tensor(queries, keys)[:batch], hides_future(mask, offset, is_open.shape)
