"""Kind of an array (mask, weights or scores) and convention of a mask: stated, or guessed with reasons."""

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


def kind_of(array: Tensor, stated: str | None, convention: str | None) -> tuple[str, tuple[str, ...]]:
    """Kind of the numbers, and why: `stated`, a mask if a convention is given, or a guess from the numbers alone."""
    if stated is not None and stated not in KINDS:
        raise InputError(f"There is no kind {quoted(stated)}. There are: {', '.join(KINDS)}.")
    if convention is not None and stated not in (None, "mask"):
        raise InputError(f"Only a mask has a convention, and this is said to be {stated}. Leave one of the two out.")
    if stated is not None:
        return stated, ()
    if convention is not None:
        return "mask", ("It is read as a mask: a convention was said.",)
    if array.dtype is torch.bool:
        return "mask", ("It is read as a mask: it holds booleans.",)
    numbers = array[~array.isnan()] if array.is_floating_point() else array
    if not numbers.numel():
        return "weights", ("It is read as weights: every number is NaN, so that nothing else tells.",)
    if bool(((numbers == 0) | (numbers == 1)).all()):
        if array.is_floating_point() and array.shape[-1] > 1 and bool((array.nansum(-1) == 1).all()):
            return "weights", ("It is read as weights: each row holds one 1 and else 0, in floating point.",)
        return "mask", ("It is read as a mask: it holds 0 and 1 only.",)
    if fill(array) is not None or bool(((numbers == 0) | (numbers <= VERY_NEGATIVE)).all()):
        return "mask", ("It is read as an additive mask: it holds 0 and negative numbers that block, and no other.",)
    if of_ones(array):
        return "mask", ("It is read as an additive mask: it holds 1 and negative numbers that block, and no other.",)
    for what, holds in (("numbers below 0 are among many others", numbers < 0), ("it holds +inf", numbers.isinf())):
        if bool(holds.any()):
            return "scores", (f"It is read as scores: {what}.",)
    sums = array.double().nansum(-1).flatten()
    if float(sums.median()) <= 2:
        return "weights", ("It is read as weights: no number is below 0, and the middle row sums to at most 2.",)
    return "scores", (
        f"It is read as scores: its rows sum to far more than 1 (the middle one to {sums.median():.3g}).",
    )


def fill(array: Tensor) -> float | None:
    """By what an additive mask blocks: the number beside 0, or the largest of several very negative ones."""
    if not array.is_floating_point():
        return None
    below = array[array != 0]
    if not below.numel() or bool(below.isnan().any()) or not bool((below < 0).all()):
        return None
    least, most = float(below.min()), float(below.max())
    two_numbers = least == most and below.numel() < array.numel()
    return most if two_numbers or most <= VERY_NEGATIVE else None


def of_ones(array: Tensor) -> bool:
    """Whether it holds 1 and numbers that block, and no other: ``tril.masked_fill(tril == 0, -inf)``."""
    blocks = array <= VERY_NEGATIVE
    return bool(blocks.any()) and bool(((array == 1) | blocks).all())


def convention_of(array: Tensor, stated: str | None) -> str | None:
    """The convention that the values leave no choice about, or `stated`; None if it is True = masked or the opposite.

    Raises:
        InputError: if there is no such convention, or the values do not fit it.
    """
    if stated is not None and stated not in CONVENTIONS:
        raise InputError(f"There is no convention {quoted(stated)}. There are: {', '.join(CONVENTIONS)}.")
    binary = array.dtype is torch.bool or bool(((array == 0) | (array == 1)).all())
    added = stated == "additive" and array.is_floating_point()  # zeros and ones that are added: a finding, no refusal
    if stated is not None and (stated == "additive") == binary and bool((array != 0).any()) and not added:
        holds = "booleans or 0 and 1" if binary else "other numbers than 0 and 1"
        raise InputError(f"The convention is said to be '{stated}', and the mask holds {holds}. Say another, or none.")
    return stated if stated or binary else "additive"


def floats_if_many(mask: Tensor) -> Tensor:
    """Whole numbers that are not 0 and 1 alone, such as -10,000, are added to scores: as floats."""
    if mask.dtype is torch.bool or mask.is_floating_point() or bool(((mask == 0) | (mask == 1)).all()):
        return mask
    return mask.float()


def opened(mask: Tensor, convention: str) -> Tensor:
    """A mask of any convention as ours, True = may attend."""
    if convention == "additive":
        blocks = fill(mask)
        return conventions.from_additive(mask.masked_fill(mask < 0, -torch.inf) if blocks is not None else mask)
    adapters = {
        "may-attend": conventions.from_zero_is_masked,
        "zero-is-masked": conventions.from_zero_is_masked,
        "true-is-masked": conventions.from_true_is_masked,
    }
    return adapters[convention](mask)


def closed(mask: Tensor, convention: str) -> Tensor:
    """A mask of ours, True = may attend, in any convention."""
    if convention == "may-attend":
        return mask
    adapters = {
        "additive": conventions.to_additive,
        "zero-is-masked": conventions.to_zero_is_masked,
        "true-is-masked": conventions.to_true_is_masked,
    }
    return adapters[convention](mask)


def small(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]
