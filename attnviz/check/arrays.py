"""Arrays of attention: as tensors, their kind (mask, weights or scores), and the convention of a mask."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.core import conventions
from attnviz.core.errors import InputError, quoted

KINDS = ("mask", "weights", "scores")
CONVENTIONS = {
    "may-attend": "True = may attend, as F.scaled_dot_product_attention takes it",
    "true-is-masked": "True or 1 = masked, as nn.MultiheadAttention takes it",
    "zero-is-masked": "0 = masked, 1 = may attend, as Hugging Face's attention_mask",
    "additive": "0 = may attend, -inf or very negative = masked, added to the scores",
}
VERY_NEGATIVE = -1e4
"""A number that blocks when it is added to scores."""


def real_tensor(array: Any, name: str = "array") -> Tensor:
    """An array as a dense tensor on the CPU, with its own precision where PyTorch has it.

    Args:
        name: of the array, in an error.

    Raises:
        InputError: if it holds anything but booleans and real numbers, such as complex numbers, texts or dates.
    """
    dtype = getattr(array, "dtype", None)
    if not isinstance(array, Tensor):
        try:
            plain = np.asarray(array)
        except (TypeError, ValueError):
            raise InputError(f"The {name} must be numbers, without rows of different lengths.") from None
        dtype = f"{type(array).__name__} of objects" if plain.dtype == object else plain.dtype
        if plain.dtype.kind in "biuf":
            wide = (plain.dtype.kind == "u" and plain.dtype.itemsize > 1) or plain.dtype.itemsize > 8
            dtype_here = np.dtype(np.float64) if wide else plain.dtype.newbyteorder("=")  # what PyTorch lacks
            array = torch.from_numpy(np.require(plain.astype(dtype_here, copy=False), None, ["C", "W"]))
    packed = "float4" in str(dtype)  # two numbers in a byte, which PyTorch stores and does not read
    if not isinstance(array, Tensor) or array.is_complex() or array.is_sparse or array.is_quantized or packed:
        remedy = " Give the real part, or the absolute values." if "complex" in str(dtype) else ""
        raise InputError(f"The {name} must hold booleans or real numbers, and be dense; given {dtype}.{remedy}")
    return array.detach().cpu()


def precision(array: Tensor) -> float:
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


def is_binary(array: Tensor) -> bool:
    return array.dtype is torch.bool or bool(((array == 0) | (array == 1)).all())


def kind_of(array: Tensor, stated: str | None, convention: str | None) -> tuple[str, tuple[str, ...]]:
    """Kind of the numbers, and why: `stated`, a mask if a convention is given, or a guess from the numbers alone."""
    if stated is not None and stated not in KINDS:
        raise InputError(f"There is no kind {quoted(stated)}. There are: {', '.join(KINDS)}.")
    if convention is not None and stated not in (None, "mask"):
        raise InputError(f"Only a mask has a convention, and this is said to be {stated}. Leave one of the two out.")
    if stated is not None or convention is not None:
        return stated or "mask", ()
    numbers = array[~array.isnan()] if array.is_floating_point() else array
    if not numbers.numel():
        return "weights", ("It is read as weights: every number is NaN, so that nothing else tells.",)
    if is_binary(numbers):
        if array.is_floating_point() and array.shape[-1] > 1 and bool((array.nansum(-1) == 1).all()):
            return "weights", ("It is read as weights: each row holds one 1 and else 0, in floating point.",)
        holds = "booleans" if array.dtype is torch.bool else "0 and 1 only"
        return "mask", (f"It is read as a mask: it holds {holds}.",)
    if fill(array) is not None or bool(((numbers == 0) | (numbers <= VERY_NEGATIVE)).all()) or of_ones(array):
        number = 1 if of_ones(array) else 0
        return "mask", (f"It is read as an additive mask: it holds {number} and negative numbers that block.",)
    if bool(((numbers < 0) | (numbers == torch.inf)).any()):
        why = "numbers below 0 are among many others" if bool((numbers < 0).any()) else "it holds +inf"
        return "scores", (f"It is read as scores: {why}.",)
    middle = float(array.double().nansum(-1).flatten().median())
    if middle <= 2:
        return "weights", ("It is read as weights: no number is below 0, and the middle row sums to at most 2.",)
    return "scores", (f"It is read as scores: its rows sum to far more than 1 (the middle one to {middle:.3g}).",)


def fill(array: Tensor) -> float | None:
    """Number by which an additive mask blocks: the one beside 0, or the largest of several very negative ones."""
    below = array[array != 0]
    if not array.is_floating_point() or not below.numel() or not bool((below < 0).all()):
        return None
    least, most = float(below.min()), float(below.max())
    two_numbers = least == most and below.numel() < array.numel()
    return most if two_numbers or most <= VERY_NEGATIVE else None


def of_ones(array: Tensor) -> bool:
    """Whether it holds 1 and numbers that block, and no other: ``tril.masked_fill(tril == 0, -inf)``."""
    blocks = array <= VERY_NEGATIVE
    return bool(blocks.any() & (array == 1).any() & ((array == 1) | blocks).all())


def conventions_of(array: Tensor, stated: str | None) -> list[str]:
    """Conventions that a mask may be in: `stated`, what its values leave no choice about, or one and its opposite.

    Raises:
        InputError: if there is no such convention, or the values do not fit it.
    """
    if stated is not None and stated not in CONVENTIONS:
        raise InputError(f"There is no convention {quoted(stated)}. There are: {', '.join(CONVENTIONS)}.")
    binary, floats = is_binary(array), array.is_floating_point()
    if stated is None:
        plain = "may-attend" if array.dtype is torch.bool else "zero-is-masked"
        return [plain, "true-is-masked"] if binary and bool(not floats or (array != 0).any()) else ["additive"]
    if (stated == "additive") == binary and bool((array != 0).any()) and not (stated == "additive" and floats):
        holds = "booleans or 0 and 1" if binary else "other numbers than 0 and 1"
        raise InputError(f"The convention is said to be '{stated}', and the mask holds {holds}. Say another, or none.")
    return [stated]


def opened(mask: Tensor, convention: str) -> Tensor:
    """A mask of any convention as ours, True = may attend."""
    if convention == "additive":
        blocks = fill(mask)
        return conventions.from_additive(mask.masked_fill(mask < 0, -torch.inf) if blocks is not None else mask)
    is_masked = convention == "true-is-masked"
    return (conventions.from_true_is_masked if is_masked else conventions.from_zero_is_masked)(mask)


def closed(mask: Tensor, convention: str) -> Tensor:
    """A mask of ours, True = may attend, in any convention."""
    adapters = {"additive": conventions.to_additive, "zero-is-masked": conventions.to_zero_is_masked}
    adapters["true-is-masked"] = conventions.to_true_is_masked
    return adapters[convention](mask) if convention in adapters else mask
