"""Check a mask, weights or scores: find its kind, how it broadcasts, and its errors, each with cells and a repair.

    report = check(mask, intent="causal", padding=tokens, convention="may-attend", shape=(2, 8, 10, 10))
    report.ok, report.findings, report.repaired

`attnviz.check` is this module, and `check` the function in it. docs/reference/check.md lists every rule.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np
import torch
from torch import Tensor

from attnviz.check.arrays import CONVENTIONS, align, is_binary, kind_of, real_tensor, to_may_attend
from attnviz.check.findings import AXES, NOT_SURE, SEVERITIES, Array, ArrayReport, Finding, Report
from attnviz.check.mask import check_mask
from attnviz.check.mask_mistakes import MEANT, Intent
from attnviz.check.weights_and_scores import check_scores, check_weights, row_sum_tolerance
from attnviz.core.conventions import to_additive
from attnviz.core.errors import InputError, MaskError, ShapeError, quoted
from attnviz.core.masks import Full, Mask, Padding

MOST_CELLS = 2**24
"""Maximum number of cells per check: 16 heads of 1,024 x 1,024, or one head of 4,096 x 4,096."""


def check(
    array: Tensor | np.ndarray,
    *,
    intent: str | Mask | None = None,
    padding: Tensor | np.ndarray | None = None,
    convention: str | None = None,
    kind: str | None = None,
    shape: Sequence[int] | None = None,
) -> ArrayReport:
    """Read an array of attention and list its errors. Without an intent, a mask is compared with a few usual masks; if
    it equals none of them, the report asks a question.

    Args:
        array: booleans or numbers, (B, H, Q, K), (H, Q, K), (Q, K) or (K,). A padding mask may be (B, K), as in
            PyTorch, if `convention` and a two-way `intent` are given.
        intent: intended mask: a name in `MEANT`, a mask, or the text of a mask. The report then names the smallest set
            of mistakes that gives the mask, and every cell that still differs.
        padding: boolean (B, K), True at tokens; by default, padding at the ends of texts is inferred from the mask.
        convention: one of `CONVENTIONS`; implies that the array is a mask.
        kind: "mask", "weights" (after the softmax) or "scores" (before it).
        shape: (B, H, Q, K) of the scores; the report then checks and explains how the array broadcasts to them.

    Raises:
        ShapeError: if the array has more than four axes, or no cells.
        InputError: if the array holds no numbers or more than `MOST_CELLS`, or an option has an unknown value.
    """
    tensor = real_tensor(array)
    dims, full_shape = tuple(tensor.shape), None if shape is None else tuple(shape)
    if prod(dims) > MOST_CELLS:
        raise InputError(f"The array has {prod(dims):,} cells; at most {MOST_CELLS:,} are checked. Check a part of it.")
    if not 1 <= len(dims) <= 4:
        more = "Check one layer at a time: array[0]" if dims else "Give at least the keys of one query"
        raise ShapeError(f"The array has {len(dims)} axes, {dims}; attention has (B, H, Q, K), or fewer. {more}.")
    if not tensor.numel():
        raise ShapeError(f"The array has shape {dims}, and so no cells to check.")
    if full_shape and (len(full_shape) != 4 or not all(isinstance(n, int) and n > 0 for n in full_shape)):
        raise InputError(f"The shape of the scores is four whole numbers above 0, B,H,Q,K; given {quoted(full_shape)}.")
    original = tensor
    if tensor.is_floating_point() and tensor.element_size() < 2:  # PyTorch lacks most operations for float8
        tensor = tensor.float()
    tokens = None if padding is None else real_tensor(padding, "padding")
    if tokens is not None:
        tokens = tokens[None] if tokens.dim() == 1 else tokens
        if tokens.dim() != 2 or not is_binary(tokens):
            raise InputError(f"The padding must be (B, K) of booleans, True at tokens; it is {tuple(tokens.shape)}.")
        tokens = tokens.bool()
    intended = None if intent is None else Intent.of(intent)
    kind, reasons = kind_of(tensor, kind, convention)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for such short sums, several threads are ten times slower
    try:
        if kind == "mask":
            report = _mask_report(tensor, convention, intended, tokens, full_shape)
        else:
            values, axes, shape_findings = align(tensor, kind, full_shape)
            values = values.double() if values.dtype is torch.float64 else values.float()
            grid = Array(_expand_texts(values, tokens, intended), axes)
            if kind == "weights":
                report = check_weights(grid, intended, tokens, row_sum_tolerance(original))
            else:
                report = check_scores(grid, intended, tokens)
            report = replace(report, findings=(*shape_findings, *report.findings))
        repaired = None
        if report.repaired is not None and report.faults:  # convert from True = may attend, and check the result
            write = {"additive": to_additive, "zero-is-masked": torch.Tensor.long, "true-is-masked": torch.logical_not}
            repaired = write.get(report.convention, torch.clone)(report.repaired)
            new_report = _mask_report(repaired, report.convention, intended, tokens, full_shape)
            repaired = None if new_report.question or new_report.faults else repaired
    finally:
        torch.set_num_threads(threads)
    findings = sorted(report.findings, key=lambda finding: -SEVERITIES.index(finding.severity))
    return replace(report, reasons=(*reasons, *report.reasons), findings=tuple(findings), repaired=repaired)


def _mask_report(
    tensor: Tensor, convention: str | None, intent: Intent | None, tokens: Tensor | None, shape: tuple[int, ...] | None
) -> ArrayReport:
    """Check a mask of one to four axes, on scores of a `shape` if that is known. In the mask `repaired` of the report,
    True = may attend; it is not checked yet."""
    is_padding = False  # whether the mask is (B, K), not (Q, K)
    if shape is None and tensor.dim() == 2 and len(tensor) not in (1, tensor.shape[1]):
        is_padding = tokens is not None and tensor.shape == tokens.shape
        if intent and isinstance(intent.mask, Full | Padding) and convention not in (None, "additive"):
            changes = to_may_attend(tensor, convention).int().diff(dim=1)  # padding is at the same end of every row
            is_padding |= bool((changes <= 0).all() | (changes >= 0).all())
    values, axes, shape_findings = align(tensor[:, None, None] if is_padding else tensor, "mask", shape)
    axes = ("batch", "key") if is_padding else axes
    values = _expand_texts(values, tokens, intent)
    if intent is not None and shape is not None and values.shape[2] == 1:  # one row holds for all queries
        values = values.expand(-1, -1, shape[2], -1)
    if values.dtype is not torch.bool and not values.is_floating_point() and not is_binary(values):
        values = values.float()  # integers such as -10,000 are an additive mask
    report = check_mask(Array(values, axes), convention, intent, tokens)
    reason = "Its rows are read as texts, (B, K). If they are queries, give the shape of the scores."
    reasons = (reason, *report.reasons) if is_padding else report.reasons
    return replace(report, reasons=reasons, findings=(*shape_findings, *report.findings))


def _expand_texts(values: Tensor, tokens: Tensor | None, intent: Intent | None) -> Tensor:
    """Expand an array, (B, H, Q, K), to the batch size of `tokens`, (B, K); raise InputError if sizes do not fit."""
    if tokens is not None:
        batch, keys = tokens.shape
        if values.shape[2:] == (keys, 1):  # one column holds for all keys
            values = values.expand(-1, -1, -1, keys)
        if values.shape[3] != keys or values.shape[0] not in (1, batch):
            array = f"the array is (B, H, Q, K) = {tuple(values.shape)}"
            raise InputError(f"The padding is (B, K) = {(batch, keys)}; {array}.")
        values = values.expand(batch, -1, -1, -1)
    try:
        if intent:
            intent.mask.of_sentence(len(values) - 1)  # raises an error for a mask of fewer texts
    except MaskError as error:
        raise InputError(f"The intent does not fit: {error}") from None
    return values
