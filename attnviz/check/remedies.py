"""Ways to mend a mask. One for the whole of it is tried on it first: it gives the mask that was meant."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnviz.core.explain import Explanation, Judgement, words

STAY = " The cells that are named beside it stay wrong."
ANEW = "No change of the whole mask mends it: make it anew, and check it again."


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
