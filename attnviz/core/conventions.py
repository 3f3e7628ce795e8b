"""Convert masks from and to other conventions. In attnviz True = may attend; the convention is never guessed."""

import math

import torch
from torch import Tensor

from attnviz.core.errors import MaskError


def from_true_is_masked(mask: Tensor) -> Tensor:
    """Convert from the convention of `nn.MultiheadAttention` (True or 1 = masked) to that of attnviz."""
    return ~_to_boolean(mask, "True = masked")


def to_true_is_masked(mask: Tensor) -> Tensor:
    """Convert from the convention of attnviz to that of `nn.MultiheadAttention`: True = masked."""
    return ~_check_boolean(mask)


def from_zero_is_masked(mask: Tensor) -> Tensor:
    """Convert from 0 = masked, 1 = may attend (Hugging Face, Annotated Transformer) to the convention of attnviz."""
    return _to_boolean(mask, "0 = masked")


def to_zero_is_masked(mask: Tensor) -> Tensor:
    """Convert from the convention of attnviz to 0 = masked, 1 = may attend, int64."""
    return _check_boolean(mask).long()


def from_additive(mask: Tensor) -> Tensor:
    """Convert from floats added to the scores: 0 = may attend, -inf or very negative (below -10,000) = masked.

    Raises:
        MaskError: if the mask has other values; it is then a bias, which changes weights and blocks no keys.
    """
    blocked = mask < -1e4
    if not mask.is_floating_point() or not ((mask == 0) | blocked).all():
        raise MaskError("An additive mask holds floats: 0 = may attend, -inf (or below -10,000) = masked.")
    return ~blocked


def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32, *, fill: float = -math.inf) -> Tensor:
    """Convert from the convention of attnviz to floats added to the scores: 0 = may attend, `fill` = masked.

    Hugging Face fills with the lowest number of the dtype, ``torch.finfo(dtype).min``.
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(~_check_boolean(mask), fill)


def _check_boolean(mask: Tensor) -> Tensor:
    if mask.dtype is not torch.bool:
        raise MaskError(f"A mask of attnviz holds booleans, True = may attend; this one holds {mask.dtype}.")
    return mask


def _to_boolean(mask: Tensor, convention: str) -> Tensor:
    if mask.dtype is not torch.bool and not ((mask == 0) | (mask == 1)).all():
        raise MaskError(f"A mask with {convention} holds 0 and 1 only; this one holds {mask.unique()[:4].tolist()}.")
    return mask.bool()
