"""Write the repair of a mistake in a mask: the code that makes the wrong part of the mask right."""

import torch
from torch import Tensor

from attnviz.check.mask_mistakes import Part
from attnviz.core.errors import MaskError
from attnviz.core.masks import Subsequent


def repair(part: Part | None, mistake: str, convention: str, values: Tensor) -> str:
    """Explain how to repair a `mistake`, one of `MISTAKES`, with code in the convention of the mask. `part` is the
    wrong part, or None for the whole mask; `values` is the mask as given, (B, H, Q, K)."""
    is_additive, is_missing = convention == "additive", mistake in ("missing", "open-future")
    if part is None and mistake == "transposed":
        return "Pass mask.mT: rows are queries, columns are keys."
    if part is None:
        opposite = "~mask" if values.dtype is torch.bool else "1 - mask"
        opposite = "torch.where(mask < 0, 0.0, -torch.inf)" if is_additive else opposite
        return f"Pass {opposite}, or state the other convention."
    if mistake == "extra":
        return "Leave the causal part out."
    if is_missing and is_additive:
        code, reason = code_of(part, is_masked=part.blocks)
        return f"Join it: mask = mask.masked_fill({code}, {'-torch.inf' if part.blocks else '0.0'}){reason}."
    is_masked = convention in ("true-is-masked", "additive")
    code, reason = code_of(part, is_masked=is_masked)
    if is_missing:
        mask = "mask.bool()" if values.is_floating_point() else "mask"
        operator = "&" if part.blocks != is_masked else "|"  # True = masked swaps the two operators
        return f"Join it: mask = {mask} {operator} {code}{reason}."
    if mistake == "repeat":
        return f"Repeat it with repeat_interleave({values.shape[1]}, 0), or write this part as: {code}{reason}."
    meaning = ", True = masked before it is filled with -inf," if is_additive else ""
    return f"Write this part{meaning} as: {code}{reason}."


def code_of(part: Part, *, is_masked: bool) -> tuple[str, str]:
    """Write code for the right cells of a part, True = masked if `is_masked`, and a phrase that explains the names."""
    *_, queries, keys = part.shape
    if part.rule is None:  # padding
        name, compared = ("padding", "==") if is_masked else ("tokens", "!=")
        return f"{name}[:, None, None, :]", f", where {name} is (B, K) and True at {name}, such as ids {compared} pad"
    size, first = "n, n" if queries == keys else f"{queries}, {keys}", part.offset
    if isinstance(part.rule, Subsequent):
        diagonal = first + part.rule.offset
        triangle = f"triu(diagonal={diagonal + 1})" if is_masked else f"tril(diagonal={diagonal})"
        reason = f", as query 0 is at position {first} (K - Q)" if first else ""
        return f"torch.ones({size}, dtype=torch.bool).{triangle}", reason
    try:
        shift = f".shifted({first})" if first else ""
        code = f'attnviz.mask("{part.rule.text}"){shift}.grid({size})'
    except MaskError:  # the rule has no text
        return "the intended rule", ""
    return f"~{code}" if is_masked else code, ""


def block_future(first: int) -> str:
    """Explain how to block the keys after each query; `first` is the position of query 0."""
    reason = f", as query 0 is at position {first} (K - Q)" if first else ""
    return f"Block them: at most tril(diagonal={first}) is open, triu(diagonal={first + 1}) blocked{reason}."
