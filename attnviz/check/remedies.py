"""Ways to mend a mask. One for the whole of it is tried on it first: it gives the mask that was meant."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnviz.check.meant import Combination, Part
from attnviz.core.errors import MaskError
from attnviz.core.explain import Explanation, Judgement, words
from attnviz.core.masks import Subsequent
from attnviz.core.masks.writing import MaskWriter

STAY = " The cells that are named beside it stay wrong."
ANEW = "No change of the whole mask mends it: make it anew, and check it again."

OF_RULE = {
    "ahead": ("shifted", "off by one: each query has the keys of the next one"),
    "behind": ("shifted", "off by one: each query has the keys of the one before"),
    "longer": ("deviation", "off by one: it is one key too long"),
    "shorter": ("deviation", "off by one: it is one key too short"),
    "transposed": ("transposed", "transposed"),
    "inverted": ("inverted", "inverted"),
    "missing": ("deviation", "missing"),
}
OF_CAUSAL = OF_RULE | {
    "ahead": ("future-leak", "off by one: it opens the next key"),
    "behind": ("blocks-itself", "off by one: it blocks each query's own key"),
    "missing": ("future-leak", "missing"),
    "extra": ("deviation", "not meant: it hides the future"),
}
OF_PADDING = {
    "ahead": ("shifted", "off by one: it opens the first key of padding"),
    "behind": ("shifted", "off by one: it blocks a token at its edge"),
    "inverted": ("inverted", "inverted"),
    "wrong-axis": ("wrong-axis", "blocks queries instead of keys"),
    "as-queries": ("broadcast", "of (B, K) is read as (Q, K): query i has the padding of text i"),
    "as-heads": ("broadcast", "of (B, K) is read as (H, K): head i has the padding of text i"),
    "repeat": ("broadcast", "made by repeat instead of repeat_interleave: heads have the padding of other texts"),
    "missing": ("deviation", "missing"),
}
"""The rule of `CHECKS` for each mistake, and how a sentence about the part goes on."""


def off_by_one(first: int) -> str:
    """Code of a causal mask whose first query stands at a position."""
    return f"It is off by one: {_causal(first)}."


def block_future(queries: int, keys: int) -> str:
    """Code that blocks the future, where the last query stands at the last key."""
    return f"Block them: at most {_causal(max(0, keys - queries))}."


def open_own(first: int) -> str:
    """Code that opens each query's own key in a mask that hides the future."""
    return f"Open them. In a causal mask {_causal(first)}."


def _causal(first: int) -> str:
    where = f", as query 0 stands at position {first} (K - Q)" if first else ""
    return f"tril(diagonal={first}) is open, triu(diagonal={first + 1}) blocked{where}"


def remedy(values: Tensor, grids: Sequence[Tensor], judgement: Judgement) -> str:
    """Fix of a mistake in a whole mask, naming any part that it does not mend.

    Args:
        values: the mask as it was given.
        grids: the different ones of it, (Q, K), True = may attend.
    """
    mistake, least = judgement.mistake, judgement.differing
    if mistake == "shifted":
        first = judgement.explanations[0].reading.seen.first
        return (
            off_by_one(first)
            if all(_is_tril(explanation, first) for explanation in judgement.explanations)
            else words.FIXES[mistake]
        )
    if mistake == "wrong-axis":
        return words.FIXES[mistake]
    turned = [grid.mT if mistake == "transposed" else ~grid for grid in grids]
    pairs = list(zip(turned, judgement.explanations, strict=True))
    if sum(int((mended ^ explanation.grid()).count_nonzero()) for mended, explanation in pairs) <= least:
        fix = words.FIXES[mistake].replace("~mask", _opposite(values))
        return f"{fix}{STAY}" if least else fix
    if (
        sum(
            int((mended & _of_padding(explanation) ^ explanation.grid()).count_nonzero())
            for mended, explanation in pairs
        )
        <= least
    ):
        fix = f"Its padding is right: turn the rest alone, {_code(mistake)}, before padding is joined to it."
        return f"{fix}{STAY}" if least else fix
    return ANEW


def _is_tril(explanation: Explanation, first: int) -> bool:
    """Whether a causal mask whose first query stands at a position is what was meant, beside its padding."""
    return torch.equal(torch.ones_like(explanation.wrong).tril(first) & _of_padding(explanation), explanation.grid())


def _of_padding(explanation: Explanation) -> Tensor:
    """The cells of a grid that padding leaves open."""
    padding = explanation.reading.padding
    return torch.ones_like(explanation.wrong) if padding is None else padding.grid(*explanation.wrong.shape)


def _code(mistake: str) -> str:
    return "with ~" if mistake == "inverted" else "with .mT"


def _opposite(values: Tensor) -> str:
    """The opposite of a mask as code, by what it holds."""
    if values.dtype is torch.bool:
        return "~mask"
    return "1 - mask" if bool(((values == 0) | (values == 1)).all()) else "torch.where(mask < 0, 0.0, -torch.inf)"


def mistake_in_words(part: Part | None, mistake: str) -> tuple[str, str]:
    """The rule of `CHECKS`, and the sentence: "Causal part off by one: it opens the next key."

    Args:
        part: None for the whole mask.
    """
    if part is None:
        return mistake, f"The whole mask is {mistake}."
    if part.tokens is not None:
        rule, sentence = OF_PADDING[mistake]
        return rule, f"Padding {sentence}."
    is_causal = mistake == "extra" or isinstance(part.mask, Subsequent)
    rule, sentence = (OF_CAUSAL if is_causal else OF_RULE)[mistake]
    keyword = "causal" if is_causal else getattr(part.mask, "keyword", "") or "other"
    return rule, f"{keyword.capitalize()} part {sentence}."


def repair(part: Part | None, mistake: str, combination: Combination, values: Tensor) -> str:
    """Repair of one mistake, for a mask in the convention in which it was given.

    Args:
        part: None for the whole mask.
        combination: the mistakes of the mask.
        values: the mask as it was given.
    """
    if part is None:
        return words.FIXES[mistake].replace("~mask", _opposite(values))
    if mistake == "extra":
        return "Leave the causal part out."
    convention = combination.reading.convention
    code, where = _code_of(part, is_masked=convention == "true-is-masked")
    sign = "&" if part.when_missing is (convention != "true-is-masked") else "|"
    change = f"Join it to the rest with {sign}" if mistake == "missing" else "Write this part as"
    if mistake == "repeat":
        change = f"Repeat it with repeat_interleave({values.shape[1]}, 0), or write this part as"
    numbers = " Do so in booleans, True = may attend, before they become numbers."
    return f"{change}: {code}{where}.{numbers if values.is_floating_point() else ''}"


def _code_of(part: Part, *, is_masked: bool) -> tuple[str, str]:
    """A right part as code, True = may attend or True = masked, and what its names stand for."""
    *_, queries, keys = part.shape
    if part.tokens is not None:
        name, compared = ("padding", "==") if is_masked else ("tokens", "!=")
        return f"{name}[:, None, None, :]", f", where {name} is (B, K) and True at {name}, such as ids {compared} pad"
    size = "n, n" if queries == keys else f"{queries}, {keys}"
    if isinstance(part.mask, Subsequent):
        first = part.offset + part.mask.offset
        half = f"triu(diagonal={first + 1})" if is_masked else f"tril(diagonal={first})"
        where = f", as query 0 stands at position {part.offset} (K - Q)" if part.offset else ""
        return f"torch.ones({size}, dtype=torch.bool).{half}", where
    writer = MaskWriter(queries, keys)
    try:
        code = writer.write(part.mask.shifted(part.offset)).text.replace(", device=query.device", "")
        code = code.replace("queries, keys", size).replace("queries", size.split(", ")[0])
        code = code.replace("keys", size.split(", ")[1])
        if writer.lines:
            moved = f".shifted({part.offset})" if part.offset else ""
            code = f'attnviz.mask("{part.mask.text}"){moved}.grid({size})'
    except MaskError:
        return "the rule that is meant", ""
    return f"~({code})" if is_masked else code, ""
