"""Check a mask, weights or scores: what it is, how it fits, and what is wrong with it, with cells and a way to mend it.

    from attnviz.check import check

    report = check(mask, convention="may-attend", shape=(2, 8, 10, 10))
    report.ok, report.findings

`attnviz.check` is this module, and `check` the function in it. `attnviz.check.reading` reads files and pasted text,
never a pickle. `CHECKS` lists every rule with its threshold.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.check.arrays import real_tensor
from attnviz.check.findings import AXES, CHECKS, MOST, NOT_SURE, SEVERITIES, Finding, Laid, Report
from attnviz.check.future import padding_seen
from attnviz.check.intent import MEANT, Intent
from attnviz.check.kinds import CONVENTIONS, KINDS, VERY_NEGATIVE, closed, floats_if_many, kind_of
from attnviz.check.masks import check_mask
from attnviz.check.scores import check_scores
from attnviz.check.shapes import check_axes, is_batch_of_padding, lay, scores_shape
from attnviz.check.weights import LEAK, check_weights
from attnviz.core.errors import InputError
from attnviz.core.masks import Mask
from attnviz.core.stack import Stack

AS_PADDING = "Its rows are read as sentences, (B, K): each is padded at one end, and (Q, K) is no known mask."
"""Why a mask of two axes is read as padding."""

MOST_CELLS = 2**24
"""Most cells of one check: 16 heads of 1,024 x 1,024, or one of 4,096 x 4,096."""


def check(
    array: Tensor | np.ndarray,
    *,
    kind: str | None = None,
    convention: str | None = None,
    causal: bool | None = None,
    padding: Tensor | np.ndarray | None = None,
    intent: str | Mask | Stack | None = None,
    shape: Sequence[int] | None = None,
    rounding: float = 0.0,
) -> Report:
    """Read an array of attention and list what is wrong with it.

    What is not said is guessed, and the guess and its reasons are part of the report.

    Args:
        array: (B, H, Q, K), (H, Q, K), (Q, K) or (K,): booleans or numbers; or a BlockMask of FlexAttention. A mask of
            padding may be (B, K), PyTorch's own form, where its convention is said.
        kind: "mask", "weights" (after the softmax) or "scores" (before it).
        convention: one of `CONVENTIONS`; the array is then a mask.
        causal: whether the future must be blocked.
        padding: boolean (B, K), True at tokens, where it is known which keys are padding.
        intent: what the mask is meant to be: a name of `MEANT` or "two-way", with any numbers and any padding, or a
            mask, the text of one, or a stack, cell by cell. What differs is then an error.
        shape: (B, H, Q, K) of the scores that the array is for: how it broadcasts is explained, and checked.
        rounding: half of the last digit if the numbers were written with few, such as 5e-5 for four digits.

    Raises:
        ShapeError: if the array has more than four axes, or no cells.
        InputError: if it holds no numbers, more than `MOST_CELLS`, or an option has another value than those above.
    """
    tensor = _numbers(array)
    tokens = None if padding is None else _tokens(padding)
    intended = None if intent is None else Intent.of(intent)
    stated = {"causal": causal, "tokens": tokens, "intended": intended, "size": scores_shape(shape)}
    with _one_thread():
        report = _report(tensor, kind=kind, convention=convention, rounding=rounding, **stated)
        if report.repaired is None or report.worst not in ("error", "warning"):
            return replace(report, repaired=None)
        repaired = closed(report.repaired, report.convention)
        again = _report(repaired, kind="mask", convention=report.convention, **stated)
        return replace(
            report, repaired=None if again.rules("error") or again.rules("warning") - {"empty-row"} else repaired
        )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run on one core: several wait for each other ten times as long as such short sums take."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _report(
    tensor: Tensor,
    *,
    kind: str | None,
    convention: str | None,
    causal: bool | None,
    tokens: Tensor | None,
    intended: Intent | None,
    size: tuple[int, int, int, int] | None,
    rounding: float = 0.0,
) -> Report:
    """Report in which `repaired` is not tried yet, and True = may attend."""
    eps = _eps(tensor)
    if tensor.is_floating_point() and tensor.element_size() < 2:  # of which PyTorch knows too little
        tensor = tensor.float()
    check_axes(tensor)
    kind, reasons = kind_of(tensor, kind, convention)
    as_padding = kind == "mask" and size is None and not causal and is_batch_of_padding(tensor, convention, intended)
    if tokens is not None and kind == "mask" and tensor.shape == tokens.shape and len(tensor) != tensor.shape[1]:
        as_padding = size is None
    if as_padding:
        reasons = (*reasons, f"{AS_PADDING} If they are queries, say the shape of the scores.")
        tensor = tensor[:, None, None]
    values, axes, of_shape = lay(tensor, kind, size)
    if tokens is not None:
        values = _for_sentences(values, tokens)
    if kind == "mask":
        if intended is not None and size is not None and values.shape[2] == 1:  # a query has what all have
            values = values.expand(-1, -1, size[2], -1)
        axes = ("batch", "key") if as_padding else axes
        report = check_mask(Laid(floats_if_many(values), axes), convention, causal, intended, size and size[3], tokens)
    else:
        laid = Laid(values.double() if values.dtype is torch.float64 else values.float(), axes, eps, rounding)
        report = {"weights": check_weights, "scores": check_scores}[kind](laid, causal, intended)
        if tokens is not None:
            is_open = laid.values > (LEAK if kind == "weights" else VERY_NEGATIVE)
            report = replace(report, findings=(*report.findings, *padding_seen(laid, is_open, tokens)))
    findings = sorted([*of_shape, *report.findings], key=lambda finding: -SEVERITIES.index(finding.severity))
    return replace(report, reasons=(*reasons, *report.reasons), findings=tuple(findings))


def _tokens(padding: Tensor | np.ndarray) -> Tensor:
    """Boolean (B, K), True at tokens."""
    tokens = real_tensor(padding, "padding")
    tokens = tokens[None] if tokens.dim() == 1 else tokens
    if tokens.dim() != 2 or not bool(((tokens == 0) | (tokens == 1)).all()):
        raise InputError(f"The padding must be (B, K) of booleans, True at tokens; it is {tuple(tokens.shape)}.")
    return tokens.bool()


def _for_sentences(values: Tensor, tokens: Tensor) -> Tensor:
    """An array, (B, H, Q, K), with a sentence for each of those whose padding is known."""
    batch, keys = tokens.shape
    if values.shape[3] == 1 and values.shape[2] == keys:
        values = values.expand(-1, -1, -1, keys)
    if values.shape[3] != keys or values.shape[0] not in (1, batch):
        raise InputError(f"The padding is (B, K) = {(batch, keys)}; the array is (B, H, Q, K) = {tuple(values.shape)}.")
    return values.expand(batch, -1, -1, -1)


def _numbers(array: Tensor | np.ndarray) -> Tensor:
    """As a tensor of booleans, whole numbers or floats."""
    if hasattr(array, "mask_mod"):  # a BlockMask of FlexAttention
        array = _cells(array)
    array = real_tensor(array)
    if array.numel() > MOST_CELLS:
        raise InputError(
            f"The array has {array.numel():,} cells; at most {MOST_CELLS:,} are checked. Check a part of it."
        )
    return array


def _cells(mask: Any) -> Tensor:
    """The cells of a BlockMask, (B, H, Q, K)."""
    from torch.nn.attention.flex_attention import create_mask

    shape = tuple(mask.shape)
    if prod(shape) > MOST_CELLS:
        raise InputError(f"The BlockMask has {prod(shape):,} cells; at most {MOST_CELLS:,} are checked.")
    return create_mask(mask.mask_mod, *shape, device=mask.kv_num_blocks.device)


def _eps(array: Tensor) -> float:
    """Eps of the numbers' precision: those that float16 or bfloat16 hold exactly were probably computed so."""
    if not array.is_floating_point():
        return 0.0
    if array.element_size() < 2:
        return torch.finfo(array.dtype).eps
    numbers = array.nan_to_num(0.0, 0.0, 0.0)
    for narrow in (torch.bfloat16, torch.float16):
        if array.dtype is narrow or torch.equal(numbers.to(narrow).to(array.dtype), numbers):
            return torch.finfo(narrow).eps
    return torch.finfo(torch.float32).eps
