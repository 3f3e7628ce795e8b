"""Check a mask, weights or scores: what it is, how it fits, and what is wrong with it, with cells and a way to mend it.

    from attnviz.check import check

    report = check(mask, convention="may-attend", shape=(2, 8, 10, 10))
    report.ok, report.findings

`attnviz.check` is this module, and `check` the function in it. `attnviz.check.reading` reads files and pasted text,
never a pickle. `CHECKS` lists every rule with its threshold.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.check.arrays import real_tensor
from attnviz.check.findings import AXES, CHECKS, MOST, NOT_SURE, SEVERITIES, Finding, Laid, Report
from attnviz.check.intent import MEANT, Intent
from attnviz.check.kinds import CONVENTIONS, KINDS, floats_if_many, kind_of
from attnviz.check.masks import check_mask
from attnviz.check.scores import check_scores
from attnviz.check.shapes import check_axes, is_batch_of_padding, lay, scores_shape
from attnviz.check.weights import check_weights
from attnviz.core.errors import InputError
from attnviz.core.masks import Mask
from attnviz.core.stack import Stack

AS_PADDING = "Its rows are read as sentences, (B, K): each is padded at one end, and (Q, K) is no known mask."
"""Why a mask of two axes is read as padding."""

MOST_CELLS = 2**24
"""Most cells of one check: 16 heads of 1,024 x 1,024."""


def check(
    array: Tensor | np.ndarray,
    *,
    kind: str | None = None,
    convention: str | None = None,
    causal: bool | None = None,
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
        intent: what the mask is meant to be: a name of `MEANT`, with any numbers and any padding, or a mask, the text of
            one, or a stack, cell by cell. What differs is then an error.
        shape: (B, H, Q, K) of the scores that the array is for: how it broadcasts is explained, and checked.
        rounding: half of the last digit if the numbers were written with few, such as 5e-5 for four digits.

    Raises:
        ShapeError: if the array has more than four axes, or no cells.
        InputError: if it holds no numbers, more than `MOST_CELLS`, or an option has another value than those above.
    """
    tensor = _numbers(array)
    eps = _eps(tensor)
    if tensor.is_floating_point() and tensor.element_size() < 2:  # of which PyTorch knows too little
        tensor = tensor.float()
    check_axes(tensor)
    size = scores_shape(shape)
    kind, reasons = kind_of(tensor, kind, convention)
    intended = None if intent is None else Intent.of(intent)
    as_padding = kind == "mask" and size is None and not causal and is_batch_of_padding(tensor, convention, intent)
    if as_padding:
        reasons = (*reasons, f"{AS_PADDING} If they are queries, say the shape of the scores.")
        tensor = tensor[:, None, None]
    values, axes, of_shape = lay(tensor, kind, size)
    if kind == "mask":
        axes = ("batch", "key") if as_padding else axes
        report = check_mask(Laid(floats_if_many(values), axes), convention, causal, intended, size and size[3])
    else:
        laid = Laid(values.double() if values.dtype is torch.float64 else values.float(), axes, eps, rounding)
        report = {"weights": check_weights, "scores": check_scores}[kind](laid, causal, intended)
    findings = sorted([*of_shape, *report.findings], key=lambda finding: -SEVERITIES.index(finding.severity))
    return replace(report, reasons=(*reasons, *report.reasons), findings=tuple(findings))


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
