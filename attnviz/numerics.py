"""Effects of filling masked scores in each floating-point type, measured: right, NaN, uniform, or an error.

Nothing here is looked up. Each outcome is computed as PyTorch computes it, in the type that is asked for, and compared
with the same softmax in float64 where blocked keys are left out.
"""

import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.amounts import counted
from attnviz.core.attention import masked, normalize, scaled_dot_product_attention
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttentionWarning, AttnvizError, EmptyRowError, MaskError, ShapeError, quoted
from attnviz.core.masks import Mask
from attnviz.core.scoring import EMPTY_ROWS
from attnviz.core.tap import Tap
from attnviz.models.transformer import Layers

FILLS = ("-inf", "-1e9", "finfo.min")
"""Fill values for masked scores; the last is the lowest number of the type."""

HOWS = ("replaced", "added", "multiplied")
"""The fill takes the place of a score; or it is added to it; or what is added is 1 - mask, times the fill."""

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

RIGHT, ZEROS, NAN, UNIFORM, SWALLOWED, ROUNDED, UNMASKED, RAISES, WRONG = WORDS = (
    "right",
    "zeros",
    "NaN",
    "uniform over masked keys",
    "swallows the scores",
    "rounds the scores",
    "as if nothing were masked",
    "raises",
    "wrong",
)
"""Verdicts on a row of weights.

A fully masked row is "uniform over masked keys" also where the fill "swallows the scores": then the scores differed,
and the type has not the digits to hold them beside the fill. Where it holds some of them it "rounds the scores".
"""


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of one way of masking in one type.

    Attributes:
        fill, how, dtype: the way; of `FILLS`, `HOWS` and `DTYPES`.
        scores: (..., Q, K), as the softmax got them; None if PyTorch raised.
        weights: (..., Q, K), as they came out; None if PyTorch raised.
        error: what PyTorch said, or "".
        with_keys: one of `WORDS` for the rows with a key left, or several with commas between; "" if there is none.
        empty: the same for the rows without a key.
    """

    fill: str
    how: str
    dtype: torch.dtype
    scores: Tensor | None
    weights: Tensor | None
    error: str
    with_keys: str
    empty: str

    def row(self) -> dict[str, object]:
        """The same as one row of a table; `lowest` is the lowest score that the softmax got, None if it got none."""
        low = None if self.scores is None else float(self.scores.double().nan_to_num(torch.nan).amin())
        return {
            "fill": self.fill,
            "how": self.how,
            "type": str(self.dtype).removeprefix("torch."),
            "rows with keys": self.with_keys,
            "rows without": self.empty,
            "lowest score": low,
            "error": self.error,
        }


def outcomes(scores: Tensor, mask: Tensor, fill: str, how: str, dtype: torch.dtype) -> Outcome:
    """Mask scores by a fill in a type, as PyTorch does it, and say what became of the rows.

    "replaced" is ``scores.masked_fill(~mask, fill)``; "added" is ``scores + zeros.masked_fill(~mask, fill)``; and
    "multiplied" is ``scores + (1 - mask) * fill``, where 0 times -inf is NaN.

    Args:
        scores: (..., Q, K) floating point, before the mask.
        mask: boolean, True = may attend, broadcasts to the scores.

    Raises:
        AttnvizError: for a fill, a way or a type that is not of `FILLS`, `HOWS` or `DTYPES`.
        MaskError, ShapeError: if the mask is not boolean or does not broadcast to the scores.
    """
    for name, value, options in (("fill", fill, FILLS), ("way", how, HOWS), ("type", dtype, DTYPES)):
        if value not in options:
            raise AttnvizError(f"There is no {name} {quoted(value)}; there are: {', '.join(map(str, options))}.")
    mask = _fitting(mask, scores)
    typed = scores.to(dtype)
    try:
        filled = _filled(typed, mask, _number(fill, dtype), how)
    except RuntimeError as error:
        message = f"PyTorch refuses it: {str(error).splitlines()[0]}"
        with_keys, empty = (RAISES if rows.any() else "" for rows in (mask.any(-1), ~mask.any(-1)))
        return Outcome(fill, how, dtype, None, None, message, with_keys, empty)
    weights = normalize(filled)
    return Outcome(fill, how, dtype, filled, weights, "", *_words(typed, mask, weights, how))


def table(scores: Tensor, mask: Tensor) -> tuple[Outcome, ...]:
    """Every fill in every way in every type: 36 outcomes; the arguments are those of `outcomes`."""
    return tuple(outcomes(scores, mask, fill, how, dtype) for how in HOWS for fill in FILLS for dtype in DTYPES)


@dataclass(frozen=True, eq=False)
class Policy:
    """Result of a policy for rows without a key.

    Attributes:
        name: one of `attnviz.core.scoring.EMPTY_ROWS`.
        output, weights: of the attention; None if it raised.
        error: its sentence, or "".
        empty: one of `WORDS` for the rows without a key; "" if there is none.
    """

    name: str
    output: Tensor | None
    weights: Tensor | None
    error: str
    empty: str


def policies(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None) -> tuple[Policy, ...]:
    """The same attention under each policy for rows without a key; shapes as in `scaled_dot_product_attention`."""
    return tuple(_policy(name, query, key, value, mask) for name in EMPTY_ROWS)


def _policy(name: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None) -> Policy:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AttentionWarning)
        try:
            output, weights = scaled_dot_product_attention(query, key, value, mask, empty_rows=name)
        except EmptyRowError as error:
            return Policy(name, None, None, str(error), RAISES)
    if mask is None:
        return Policy(name, output, weights, "", "")
    allowed = mask.tensor(*weights.shape[-2:]) if isinstance(mask, Mask) else mask
    products = query @ key.mT / query.shape[-1] ** 0.5
    return Policy(name, output, weights, "", _words(products, allowed.expand(weights.shape), weights, "replaced")[1])


@dataclass(frozen=True, eq=False)
class Spread:
    """Positions of NaN in a stack of layers.

    Attributes:
        empty: boolean, (B, n): the rows of the mask without a key.
        layers: boolean, (B, n), one per layer: whose vector holds a NaN behind it.
        says: the same in a sentence.
    """

    empty: Tensor
    layers: tuple[Tensor, ...]
    says: str


def spread(
    mask: Mask,
    n: int,
    *,
    layers: int = 3,
    empty_rows: str = "nan",
    d_model: int = 16,
    num_heads: int = 2,
    seed: int = 0,
) -> Spread:
    """Send numbers through a stack of attention layers and see which positions are NaN behind each.

    A blocked key gets the weight 0, and 0 times NaN is NaN: one NaN vector makes every query of its sentence NaN in the
    next layer, also those that may not attend to it.

    Args:
        mask: of every layer.
        n: how many positions there are.
        empty_rows: what a query without a key gets; "nan" is what a softmax of -inf gives.

    Raises:
        EmptyRowError: if `empty_rows` is "error" and a row is empty.
    """
    batch, tap = mask.batch_size or 1, Tap(Edits(empty_rows=empty_rows))
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        stack = Layers("decoder", d_model, num_heads, layers)
        x, is_nan = torch.randn(batch, n, d_model), []
        for number, layer in enumerate(stack.layers):
            x = layer(x, mask, None, None, tap=tap, site=Site("decoder", number))
            is_nan.append(x.isnan().any(-1))
    empty = ~mask.tensor(n, n)[:, 0].any(-1)
    return Spread(empty, tuple(is_nan), _spread_words(empty, is_nan))


def _number(fill: str, dtype: torch.dtype) -> float:
    return torch.finfo(dtype).min if fill == "finfo.min" else float(fill)


def _fitting(mask: Tensor, scores: Tensor) -> Tensor:
    if mask.dtype is not torch.bool or not scores.is_floating_point():
        raise MaskError(f"The mask is boolean and the scores are floats; they are {mask.dtype} and {scores.dtype}.")
    try:
        return mask.expand(scores.shape)
    except RuntimeError:
        shapes = f"{tuple(mask.shape)} and {tuple(scores.shape)}"
        raise ShapeError(f"The mask must broadcast to the scores; their shapes are {shapes}.") from None


def _filled(scores: Tensor, mask: Tensor, number: float, how: str) -> Tensor:
    if how == "replaced":
        return scores.masked_fill(~mask, number)
    if how == "added":
        return scores + torch.zeros_like(scores).masked_fill(~mask, number)
    return scores + (1 - mask.to(scores.dtype)) * number


def _words(scores: Tensor, mask: Tensor, weights: Tensor, how: str) -> tuple[str, str]:
    """Verdicts on the rows with a key left, and on those without; (..., Q, K) each, the scores before the mask."""
    left, scores, weights, digits = mask.any(-1), scores.double(), weights.double(), torch.finfo(weights.dtype).eps
    expected = normalize(masked(scores, mask))
    with_keys = (_open_row(*row, 4 * digits) for row in zip(expected[left], weights[left], strict=True))
    empty = (_empty(*row, 4 * digits, how) for row in zip(scores[~left], weights[~left], strict=True))
    return ", ".join(dict.fromkeys(with_keys)), ", ".join(dict.fromkeys(empty))


def _open_row(expected: Tensor, weights: Tensor, near: float) -> str:
    """A row with a key left, (K,)."""
    if weights.isnan().any():
        return NAN
    return RIGHT if ((weights - expected).abs() <= near).all() else WRONG


def _empty(scores: Tensor, weights: Tensor, near: float, how: str) -> str:
    """A fully masked row, (K,); 1 in 100 is near enough to be called unmasked."""
    if weights.isnan().all():
        return NAN
    if not weights.any():
        return ZEROS
    if ((weights - 1 / len(weights)).abs() <= near).all():
        return UNIFORM if how == "replaced" or scores.amax() == scores.amin() else SWALLOWED
    if how == "replaced":
        return WRONG
    return UNMASKED if ((weights - normalize(scores)).abs() <= 0.01).all() else ROUNDED


def _spread_words(empty: Tensor, layers: list[Tensor]) -> str:
    counts, rows = [int(layer.sum()) for layer in layers], empty.numel()
    first, *changes = [number for number, count in enumerate(counts) if number == 0 or count != counts[number - 1]]
    are = f"{counted(counts[first], 'row')} {'is' if counts[first] == 1 else 'are'} NaN after layer {first}"
    more = (f"{'all ' if counts[i] == rows else ''}{counts[i]:,} after layer {i}" for i in changes)
    left = f"{int(empty.sum())} of {rows} rows {'has' if empty.sum() == 1 else 'have'} no key left."
    return f"{left} If the softmax makes NaN of that, {', '.join([are, *more])}."
