"""Masks of other conventions, converted by name: inside attnviz True = may attend, and no mask is guessed at."""

import math

import torch
from torch import Tensor

from attnviz.core.errors import MaskError


def from_true_is_masked(mask: Tensor) -> Tensor:
    """From the convention of `nn.MultiheadAttention` (True or 1 = masked) to ours."""
    return ~_boolean(mask, "True = masked")


def to_true_is_masked(mask: Tensor) -> Tensor:
    """From ours to the convention of `nn.MultiheadAttention`: True = masked."""
    return ~_ours(mask)


def from_zero_is_masked(mask: Tensor) -> Tensor:
    """From Hugging Face's and the Annotated Transformer's 0 = masked, 1 = may attend."""
    return _boolean(mask, "0 = masked")


def to_zero_is_masked(mask: Tensor) -> Tensor:
    """From ours to 0 = masked, 1 = may attend, int64."""
    return _ours(mask).long()


def from_additive(mask: Tensor) -> Tensor:
    """From floats that are added to the scores: 0 = may attend, -inf or very negative (below -10,000) = masked.

    Raises:
        MaskError: if another value is in it; then it is a bias, and changes the weights instead of blocking keys.
    """
    blocked = mask < -1e4
    if not mask.is_floating_point() or not ((mask == 0) | blocked).all():
        raise MaskError("An additive mask holds floats: 0 = may attend, -inf (or below -10,000) = masked.")
    return ~blocked


def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32, *, fill: float = -math.inf) -> Tensor:
    """From ours to floats that are added to the scores: 0 = may attend, -inf (or another fill) = masked.

    Hugging Face fills with the lowest number of the dtype, ``torch.finfo(dtype).min``.
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~_ours(mask), fill)


def _ours(mask: Tensor) -> Tensor:
    if mask.dtype is not torch.bool:
        raise MaskError(f"A mask of ours holds booleans, True = may attend; this one holds {mask.dtype}.")
    return mask


def _boolean(mask: Tensor, convention: str) -> Tensor:
    if mask.dtype is not torch.bool and not ((mask == 0) | (mask == 1)).all():
        raise MaskError(f"A mask with {convention} holds 0 and 1 only; this one holds {mask.unique()[:4].tolist()}.")
    return mask.bool()
