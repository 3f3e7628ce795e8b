"""Write the repair of a mistake in a mask: the code that makes the wrong part of the mask right."""

import torch
from torch import Tensor

from attnviz.check.mask_mistakes import Part
from attnviz.core.errors import MaskError
from attnviz.core.masks import Subsequent


def repair(part: Part | None, mistake: str, convention: str, values: Tensor) -> str:
    """Write the repair of a mistake in a part, or in the whole mask (None), as code in the convention of the mask."""
    is_masked, additive = convention in ("true-is-masked", "additive"), convention == "additive"
    if part is None and mistake == "transposed":
        return "Pass mask.mT: rows are queries, columns are keys."
    if part is None:
        opposite = "~mask" if values.dtype is torch.bool else "1 - mask"
        opposite = "torch.where(mask < 0, 0.0, -torch.inf)" if additive else opposite
        return f"Pass {opposite}, or state the other convention."
    blocks, is_missing = part.when_missing, mistake in ("missing", "open-future")
    code, reason = code_of(part, is_masked=blocks if is_missing and additive else is_masked)
    change = f"Write this part{', True = masked before it is filled with -inf,' if additive else ''} as: {code}"
    if mistake == "extra":
        change, reason = "Leave the causal part out", ""
    elif mistake == "repeat":
        change = f"Repeat it with repeat_interleave({values.shape[1]}, 0), or write this part as: {code}"
    elif is_missing and additive:
        change = f"Join it: mask = mask.masked_fill({code}, {'-torch.inf' if blocks else '0.0'})"
    elif is_missing:
        mask = "mask.bool()" if values.is_floating_point() else "mask"
        change = f"Join it: mask = {mask} {'&' if blocks is not is_masked else '|'} {code}"
    return f"{change}{reason}."


def code_of(part: Part, *, is_masked: bool) -> tuple[str, str]:
    """Write a correct part as code, True = may attend or True = masked, and explain the names in the code."""
    *_, queries, keys = part.shape
    if part.rule is None:
        name, compared = ("padding", "==") if is_masked else ("tokens", "!=")
        return f"{name}[:, None, None, :]", f", where {name} is (B, K) and True at {name}, such as ids {compared} pad"
    size, first = "n, n" if queries == keys else f"{queries}, {keys}", part.offset
    ones = f"torch.ones({size}, dtype=torch.bool)"
    reason = f", as query 0 is at position {first} (K - Q)" if first else ""
    if isinstance(part.rule, Subsequent):
        first += part.rule.offset
        return f"{ones}.{f'triu(diagonal={first + 1})' if is_masked else f'tril(diagonal={first})'}", reason
    try:
        shift = f".shifted({first})" if first else ""
        code = f'attnviz.mask("{part.rule.text}"){shift}.grid({size})'
    except MaskError:
        return "the intended rule", ""
    return f"~{code}" if is_masked else code, ""


def block_future(first: int) -> str:
    """Write how to block the future in code, if query 0 is at the position `first` of the keys."""
    reason = f", as query 0 is at position {first} (K - Q)" if first else ""
    return f"Block them: at most tril(diagonal={first}) is open, triu(diagonal={first + 1}) blocked{reason}."
