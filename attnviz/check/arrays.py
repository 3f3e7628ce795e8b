"""Read arrays of attention: convert to tensors, tell kind and mask convention, and align axes with (B, H, Q, K)."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.check.findings import AXES, Finding
from attnviz.core.errors import InputError, quoted

KINDS = ("mask", "weights", "scores")
CONVENTIONS = {
    "may-attend": "True = may attend, as F.scaled_dot_product_attention takes it",
    "true-is-masked": "True or 1 = masked, as nn.MultiheadAttention takes it",
    "zero-is-masked": "0 = masked, 1 = may attend, as Hugging Face's attention_mask",
    "additive": "0 = may attend, -inf or very negative = masked, added to the scores",
}
VERY_NEGATIVE = -1e4
"""Number at or below which an additive mask blocks."""


def real_tensor(array: Any, name: str = "array") -> Tensor:
    """Convert an array, called `name` in errors, to a dense CPU tensor, in its number type if PyTorch has that type;
    raise InputError if it holds anything but booleans and real numbers, such as complex numbers, texts or dates."""
    if not isinstance(array, Tensor):
        try:
            array = np.asarray(array)
        except (TypeError, ValueError):
            raise InputError(f"The {name} must be numbers, without rows of different lengths.") from None
        kind, size = array.dtype.kind, array.dtype.itemsize
        if kind in "biuf":  # booleans, signed and unsigned integers, floats
            is_unsupported = (kind == "u" and size > 1) or size > 8
            dtype = np.dtype(np.float64) if is_unsupported else array.dtype.newbyteorder("=")
            array = torch.from_numpy(np.require(array.astype(dtype, copy=False), requirements=["C", "W"]))
    packed = "float4" in str(array.dtype)  # two numbers per byte, which PyTorch stores but cannot convert
    if not isinstance(array, Tensor) or array.is_complex() or array.is_sparse or array.is_quantized or packed:
        remedy = " Give the real part, or the absolute values." if "complex" in str(array.dtype) else ""
        raise InputError(f"The {name} must hold booleans or real numbers, and be dense; given {array.dtype}.{remedy}")
    return array.detach().cpu()


def is_binary(array: Tensor) -> bool:
    """Whether an array holds only booleans, or 0 and 1."""
    return array.dtype is torch.bool or bool(((array == 0) | (array == 1)).all())


def kind_of(array: Tensor, stated: str | None, convention: str | None) -> tuple[str, tuple[str, ...]]:
    """Return the kind of an array, one of `KINDS`, and sentences with the reasons for a guess. The kind is `stated`, or
    "mask" if a convention is given, or else guessed from the numbers."""
    if stated is not None and stated not in KINDS:
        raise InputError(f"There is no kind {quoted(stated)}. Available kinds: {', '.join(KINDS)}.")
    if convention is not None and stated not in (None, "mask"):
        raise InputError(f"Only a mask has a convention, and the kind is {stated}. Omit one of the two options.")
    if stated is not None or convention is not None:
        return stated or "mask", ()
    numbers = array[~array.isnan()] if array.is_floating_point() else array
    if not numbers.numel():
        return "weights", ("It is read as weights, although every number is NaN.",)
    if is_binary(numbers):
        if array.is_floating_point() and array.shape[-1] > 1 and bool((array.nansum(-1) == 1).all()):
            return "weights", ("It is read as weights: each row holds one 1 and otherwise 0, in floating point.",)
        holds = "booleans" if array.dtype is torch.bool else "0 and 1 only"
        return "mask", (f"It is read as a mask: it holds {holds}.",)
    if fill_value(array) is not None or bool(((numbers == 0) | (numbers <= VERY_NEGATIVE)).all()):
        return "mask", ("It is read as an additive mask: it holds 0 and negative numbers that block.",)
    if bool(((numbers < 0) | (numbers == torch.inf)).any()):
        why = "it holds negative and other numbers" if bool((numbers < 0).any()) else "it holds +inf"
        return "scores", (f"It is read as scores: {why}.",)
    median = float(array.double().nansum(-1).flatten().median())
    if median <= 2:  # wrong weights may sum to 2; scores without negative numbers sum to more
        return "weights", ("It is read as weights: no number is below 0, and the median row sums to at most 2.",)
    return "scores", (f"It is read as scores: its rows sum to far more than 1 (the median to {median:.3g}).",)


def fill_value(array: Tensor) -> float | None:
    """Find the number with which an additive mask blocks: its only negative number, or the largest of several very
    negative numbers; None if the array holds anything else but 0."""
    nonzero = array[array != 0]
    if not array.is_floating_point() or not nonzero.numel() or not bool((nonzero < 0).all()):
        return None
    smallest, largest = float(nonzero.min()), float(nonzero.max())
    is_only_number = smallest == largest and nonzero.numel() < array.numel()
    return largest if is_only_number or largest <= VERY_NEGATIVE else None


def conventions_of(array: Tensor, stated: str | None) -> list[str]:
    """List the conventions that a mask may have: only the `stated` one, or else one or two that its values allow. Raise
    InputError if there is no such convention, or the values contradict it."""
    if stated is not None and stated not in CONVENTIONS:
        raise InputError(f"There is no convention {quoted(stated)}. Available conventions: {', '.join(CONVENTIONS)}.")
    has_flags, is_float, has_nonzero = is_binary(array), array.is_floating_point(), bool(array.any())
    if stated is None:
        usual = "may-attend" if array.dtype is torch.bool else "zero-is-masked"
        return [usual, "true-is-masked"] if has_flags and (has_nonzero or not is_float) else ["additive"]
    contradicts = has_flags and not is_float if stated == "additive" else not has_flags
    if contradicts and has_nonzero:
        holds = "booleans or 0 and 1" if has_flags else "other numbers than 0 and 1"
        raise InputError(f"The convention is '{stated}', but the mask holds {holds}. Give another convention, or none.")
    return [stated]


def to_may_attend(mask: Tensor, convention: str) -> Tensor:
    """Convert a mask from a convention to boolean, True = may attend."""
    if convention == "additive":
        return mask >= 0
    return ~mask.bool() if convention == "true-is-masked" else mask.bool()


def align(array: Tensor, kind: str, shape: tuple[int, ...] | None) -> tuple[Tensor, tuple[str, ...], list[Finding]]:
    """Reshape an array to (B, H, Q, K); return it, the names of the axes that it had, and findings about its shape.
    Axes are aligned from the right, as in broadcasting, unless the `shape` of the scores needs other axes."""
    dims, axes, findings = tuple(array.shape), AXES[-array.dim() :], []
    if kind == "mask" and shape is not None:
        axes, severity, message, fix = _broadcast(array, shape)
        findings.append(Finding("broadcast", severity, message, fix))
    elif kind == "mask" and dims[0] > 1 and (len(dims) == 3 or (len(dims) == 2 and dims[0] != dims[1])):
        message = f"The two axes of {dims} are read as (Q, K), as broadcasting does."
        fix = "If they are (B, K), padding, pass mask[:, None, None, :]."
        if len(dims) == 3:
            message = f"The first axis of {dims} is read as heads, as broadcasting to (B, H, Q, K) does."
            fix = "If it is the batch, pass mask.unsqueeze(1)."
        findings.append(Finding("broadcast", "note", message, fix))
    elif shape is not None and (1,) * (4 - len(dims)) + dims != shape:
        message = f"The {kind} have shape {dims}, and should have (B, H, Q, K) = {shape}."
        findings.append(Finding("broadcast", "error", message, "They are never broadcast: pass the whole array."))
    sizes = dict(zip(axes, dims, strict=True))
    return array.reshape([sizes.get(axis, 1) for axis in AXES]), axes, findings


def _broadcast(mask: Tensor, shape: tuple[int, ...]) -> tuple[tuple[str, ...], str, str, str]:
    """Infer the axes of a mask, and how it broadcasts to scores of `shape`, (B, H, Q, K). Return the names of the axes,
    and the severity, message and repair of a finding."""
    dims, (batch, heads, queries, keys), axes = tuple(mask.shape), shape, AXES[-mask.dim() :]
    first, last = dims[0], dims[-1]
    sizes = list(zip("BHQK"[-len(dims) :], dims, shape[-len(dims) :], strict=True))  # axis, size in mask and in scores
    wrong = [f"{axis} is {size} instead of {expected}" for axis, size, expected in sizes if size not in (1, expected)]
    intro = f"A mask of {dims} on scores of (B, H, Q, K) = {shape}"
    raises = f"{intro} raises an error"
    if wrong and all(size == expected or 1 in (size, expected) for _, size, expected in sizes):
        broadcast = tuple(torch.broadcast_shapes(dims, shape))
        raises += f" in F.scaled_dot_product_attention, and silently makes {broadcast} of scores + mask"
    if len(dims) == 3 and last in (1, keys) and first == batch * heads and first not in (1, heads):
        heads_first, texts_first = mask.view(heads, batch, -1), mask.view(batch, heads, -1)
        view = f"mask.view({batch}, {heads}, {dims[1]}, {last})."
        if (heads_first == heads_first[:1]).all() and not (texts_first == texts_first[:, :1]).all():
            message = f"{intro} gives heads the masks of other sentences: it was made by repeat."
            return axes, "error", message, f"Make it with repeat_interleave({heads}, 0)."
        if heads == 1:
            return axes, "error", f"{raises}; it is nn.MultiheadAttention's (B * H, Q, K).", f"Pass {view}"
        message = f"{intro} fits nn.MultiheadAttention, (B * H, Q, K); F.scaled_dot_product_attention raises an error."
        return axes, "note", message, f"For the latter, pass {view}"
    if first == batch > 1 and last in (1, keys):
        text_axes, fix = ("batch", "query", "key"), "Pass mask.unsqueeze(1), (B, 1, Q or 1, K)."
        if len(dims) == 3 and dims[1] in (1, queries) and wrong:
            message = f"{raises}: broadcasting aligns its first axis, the sentences, with the heads."
            return text_axes, "error", message, fix
        if len(dims) == 3 and dims[1] in (1, queries) and not (mask == mask[:1]).all():
            message = f"{intro} silently gives the mask of sentence i to head i of all sentences: B = H = {batch}."
            return text_axes, "error", message, fix
        if len(dims) == 2 and last == keys and wrong:
            message = f"{raises}: its rows are aligned with the queries, and they are sentences."
            return ("batch", "key"), "error", message, "Pass mask[:, None, None, :], (B, 1, 1, K)."
    if wrong:
        is_turned = queries != keys and dims[-2:] == (keys, queries)
        fix = "Pass mask.mT: rows are queries." if is_turned else "Each axis must have its full size or 1."
        return axes, "error", f"{raises}: {', '.join(wrong)}.", fix
    missing = list(zip("BHQK", shape, strict=True))[: 4 - len(dims)]
    repeated = [f"{axis} = {size}" for axis, size in missing if size > 1]
    repeated += [f"{axis} = {expected}" for axis, size, expected in sizes if size < expected]
    effect = f"is repeated over {', '.join(repeated)}" if repeated else "fits cell by cell"
    return axes, "note", f"{intro} {effect}.", ""
