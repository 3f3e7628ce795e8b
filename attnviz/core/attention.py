"""Scaled dot-product attention: softmax(q kᵀ / √d_k) v, equation (1) of Vaswani et al. 2017.

This is the one place where scores become weights. Symbols, as in the paper and everywhere in attnviz:

    B batch   H heads   Q query positions   K key positions   d_k width of query and key   d_v width of value

Three functions share it: `scaled_dot_product_attention` gives the (B, H, Q, K) weights, `attend` gives the output and
each row's log-sum-exp without ever holding Q x K numbers, `attention_output` gives the output alone.
"""

import math
import warnings

import torch
from torch import Tensor
from torch.nn import functional as F

from attnviz.core.errors import AttentionWarning, AttnvizError, EmptyRowError, MaskError, ShapeError
from attnviz.core.masks import Mask
from attnviz.core.modifiers import ALL, Bias

EMPTY_ROWS = ("zero", "nan", "uniform", "error")
BLOCK = 2**22
"""How many scores `attend` holds at once (16 MB of float32)."""


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Mask | None = None,
    *,
    bias: Tensor | Bias | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    temperature: float = 1.0,
    dropout_p: float = 0.0,
    empty_rows: str = "zero",
) -> tuple[Tensor, Tensor]:
    """Compute softmax((q kᵀ · scale + bias) / temperature) v, and the weights.

    Args:
        query: (B, H, Q, d_k), or (B, Q, d_k), which is the same with one head.
        key: (B, H, K, d_k) or (B, K, d_k).
        value: (B, H, K, d_v) or (B, K, d_v).
        mask: True means "may attend". Boolean, (Q, K) or with as many axes as the scores, each of full size or 1; or a
            named `Mask`. Other conventions are converted by name: see `attnviz.core.masks`.
        bias: float, added to the scores; shaped like `mask`, or a named `Bias`, such as ALiBi.
        scale: factor of the dot products; defaults to 1/√d_k.
        softcap: c, above 0: the scaled dot products s become c · tanh(s / c) before the bias, as in Gemma 2.
        temperature: divides the biased scores of every row; 1 changes nothing.
        dropout_p: share of the weights zeroed on the way to the output (the rest is divided by 1 - dropout_p). The
            weights given back are those *before* dropout.
        empty_rows: what a query with no key left gets: "zero" weights, "nan", "uniform" over all keys, or an "error".

    Returns:
        The output, (B, H, Q, d_v) or (B, Q, d_v), and the weights, (B, H, Q, K) or (B, Q, K).

    Raises:
        ShapeError: if the shapes do not fit exactly; nothing is broadcast silently but axes of size 1 of the mask.
        MaskError: if the mask is not boolean, or the bias is.
        EmptyRowError: if a row is empty and `empty_rows` is "error".

    Warns:
        AttentionWarning: names batch, head and query of rows that are empty or NaN.
    """
    if query.dim() == key.dim() == value.dim() == 3:
        _check_shapes(query, key, value)
        q, k, v, m, b = map(_with_one_head, (query, key, value, mask, bias))
        settings = {"scale": scale, "softcap": softcap, "temperature": temperature}
        output, weights = scaled_dot_product_attention(
            q, k, v, m, bias=b, dropout_p=dropout_p, empty_rows=empty_rows, **settings
        )
        return output.squeeze(1), weights.squeeze(1)
    scale = _check(query, key, value, mask, bias, scale, softcap, temperature, dropout_p, empty_rows)
    allowed = window(mask, slice(None), queries=query.shape[2], keys=key.shape[2])
    bias = bias_window(bias, query, key)
    raw = scores(query, key, scale=scale, softcap=softcap, bias=bias, temperature=temperature)
    weights, empty, nan = _distributions(masked(raw, allowed))
    weights = fill_empty(weights, empty, empty_rows, keys=key.shape[2]).to(query.dtype)
    _warn(empty, nan, empty_rows)
    kept = F.dropout(weights, dropout_p) if dropout_p else weights
    return kept @ value, weights


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Mask | None = None,
    *,
    bias: Tensor | Bias | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    temperature: float = 1.0,
    empty_rows: str = "zero",
) -> tuple[Tensor, Tensor]:
    """Compute the output and what any window of the weights can be computed from later.

    The arguments are those of `scaled_dot_product_attention`, (B, H, n, d). Rows are worked in blocks, so memory grows
    with Q, never with Q x K.

    Returns:
        The output, (B, H, Q, d_v), and the log-sum-exp of each row of masked scores, (B, H, Q), float64; it is -inf
        where a row is empty, and NaN where the row is.
    """
    scale = _check(query, key, value, mask, bias, scale, softcap, temperature, 0.0, empty_rows)
    (batch, heads, queries, _), keys = query.shape, key.shape[2]
    rows_at_once = max(1, BLOCK // max(1, batch * heads * keys))
    outputs, sums = [], []
    for start in range(0, max(1, queries), rows_at_once):
        rows = slice(start, min(start + rows_at_once, queries))
        settings = {"scale": scale, "softcap": softcap, "temperature": temperature}
        block = scores(query[:, :, rows], key, bias=bias_window(bias, query, key, rows), **settings)
        allowed = window(mask, rows, queries=queries, keys=keys)
        block = masked(block, allowed)
        weights, empty, _ = _distributions(block)
        sums.append(_logsumexp(block, weights, empty))
        outputs.append(fill_empty(weights, empty, empty_rows, keys=keys).to(query.dtype) @ value)
    return torch.cat(outputs, 2), torch.cat(sums, 2)


def attention_output(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Mask | None = None,
    *,
    bias: Tensor | Bias | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    temperature: float = 1.0,
    dropout_p: float = 0.0,
    empty_rows: str = "zero",
) -> Tensor:
    """Compute the output alone, (B, H, Q, d_v), by PyTorch's fused kernel: for training and sweeps, with gradients.

    The arguments are those of `scaled_dot_product_attention`, (B, H, n, d). The kernel knows no softcap: with one, the
    weights are computed.
    """
    scale = _check(query, key, value, mask, bias, scale, softcap, temperature, dropout_p, empty_rows)
    allowed = window(mask, slice(None), queries=query.shape[2], keys=key.shape[2])
    bias = bias_window(bias, query, key)
    if softcap is not None:
        raw = scores(query, key, scale=scale, softcap=softcap, bias=bias, temperature=temperature)
        weights, empty, _ = _distributions(masked(raw, allowed))
        weights = fill_empty(weights, empty, empty_rows, keys=key.shape[2]).to(query.dtype)
        return F.dropout(weights, dropout_p) @ value
    added = allowed
    if bias is not None:
        added = masked((bias / temperature).to(query.dtype), allowed)
    output = F.scaled_dot_product_attention(query, key, value, added, dropout_p, scale=scale / temperature)
    if empty_rows == "zero" or (added is None and key.shape[2]):
        return output
    if not key.shape[2]:
        fill_empty(output, torch.ones(1, dtype=torch.bool), empty_rows, keys=0)
        return output
    empty = ~(added if bias is None else added > -math.inf).any(-1, keepdim=True)
    weights = fill_empty(output.new_zeros(empty.shape), empty, empty_rows, keys=key.shape[2])
    return output.where(~empty, weights * value.sum(2, keepdim=True))


def scores(
    query: Tensor,
    key: Tensor,
    *,
    scale: float,
    softcap: float | None = None,
    bias: Tensor | None = None,
    temperature: float = 1.0,
) -> Tensor:
    """Scaled, capped, biased, tempered dot products, (B, H, Q, K), before mask and softmax.

    Half precision is raised to float32 here, because float16 overflows at 65,504.
    """
    if query.dtype in (torch.float16, torch.bfloat16):
        query, key = query.float(), key.float()
    if softcap is None:
        products = (query * (scale / temperature)) @ key.mT
    else:
        products = torch.tanh((query * (scale / softcap)) @ key.mT) * (softcap / temperature)
    return products if bias is None else products + bias.to(products.dtype) / temperature


def masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The scores with every blocked cell *replaced* by -inf."""
    return scores if mask is None else scores.where(mask, -math.inf)


def normalize(scores: Tensor, mask: Tensor | None = None, *, logsumexp: Tensor | None = None) -> Tensor:
    """Turn scores into weights: a softmax over the keys that may be attended to. An empty row comes out NaN.

    Args:
        scores: (..., Q, K), or any window of it if `logsumexp` is given.
        mask: boolean, broadcasts to the scores.
        logsumexp: (..., Q), of the whole rows. With it a window of the scores gives that window of the weights. It is
            subtracted in two parts, so that its float64 digits count even if the scores are float32.
    """
    scores = masked(scores, mask)
    if logsumexp is None:
        return torch.softmax(scores, -1)
    rounded = logsumexp.to(scores.dtype)
    rest = (logsumexp - rounded).to(scores.dtype)
    return torch.exp(scores - rounded.unsqueeze(-1) - rest.unsqueeze(-1))


def fill_empty(rows: Tensor, empty: Tensor, policy: str, *, keys: int) -> Tensor:
    """Give rows of weights that have no key left what the policy says.

    Args:
        rows: (..., Q, K) weights, or any window of them.
        empty: boolean, (..., Q, 1) or an axis of 1.
        policy: one of `EMPTY_ROWS`.
        keys: K of the whole rows.
    """
    if not empty.any():
        return rows
    if policy == "error":
        raise EmptyRowError(
            'A query has no key left to attend to. Choose empty_rows="zero", "nan" or "uniform", or mend the mask.'
        )
    return rows.masked_fill(empty, {"zero": 0.0, "nan": math.nan, "uniform": 1 / max(1, keys)}[policy])


def window(
    mask: Tensor | Mask | None,
    rows: slice,
    columns: slice = slice(None),
    *,
    queries: int | None = None,
    keys: int | None = None,
) -> Tensor | None:
    """Rows and columns of a mask or bias: a tensor, whose axes of size 1 stay as they are, a named rule or nothing."""
    if mask is None:
        return None
    if isinstance(mask, Mask):
        return mask.tensor(queries, keys, rows=rows, columns=columns)
    if mask.shape[-2] > 1:
        mask = mask[..., rows, :]
    return mask[..., columns] if mask.shape[-1] > 1 else mask


def bias_window(
    bias: Tensor | Bias | None,
    query: Tensor,
    key: Tensor,
    rows: slice = ALL,
    columns: slice = ALL,
    *,
    only: slice = ALL,
) -> Tensor | None:
    """Rows, columns and heads of a bias for the scores of a query, (B, H, Q, d_k), and a key, (B, H, K, d_k)."""
    if not isinstance(bias, Bias):
        bias = window(bias, rows, columns)
        return bias[:, only] if bias is not None and bias.dim() == 4 and bias.shape[1] > 1 else bias
    (_, heads, queries, _), keys = query.shape, key.shape[2]
    dtype = torch.promote_types(query.dtype, torch.float32)
    return bias.tensor(heads, queries, keys, only=only, rows=rows, columns=columns, dtype=dtype)


def check_bias(bias: Tensor | Bias | None, shape: tuple[int, int, int, int]) -> None:
    """Refuse a bias that does not fit scores of a shape, (B, H, Q, K)."""
    if isinstance(bias, Bias):
        bias.tensor(*shape[1:], rows=slice(0), columns=slice(0))  # refuses another number of heads
    elif bias is not None:
        if not bias.is_floating_point():
            raise MaskError(f"The bias holds {bias.dtype}; it is added to the scores and must be floating point.")
        _check_broadcast("bias", bias, shape)


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Mask | None,
    bias: Tensor | Bias | None,
    scale: float | None,
    softcap: float | None,
    temperature: float,
    dropout_p: float,
    empty_rows: str,
) -> float:
    """Refuse what does not fit (B, H, n, d), with both shapes named; give the scale to use."""
    _check_shapes(query, key, value)
    if query.dim() != 4:
        raise ShapeError(f"Query, key and value need 4 axes (B, H, n, d); the query has shape {tuple(query.shape)}.")
    shape = (*query.shape[:3], key.shape[2])
    if isinstance(mask, Tensor):
        if mask.dtype is not torch.bool:
            raise MaskError(
                f"The mask holds {mask.dtype}, and attnviz takes booleans only, True = may attend. "
                "Say its convention: from_true_is_masked, from_zero_is_masked or from_additive."
            )
        _check_broadcast("mask", mask, shape)
    elif not (mask is None or isinstance(mask, Mask)):
        raise MaskError(f"The mask is a {type(mask).__name__}; it must be a boolean tensor or a named mask.")
    elif mask is not None and mask.batch_size not in (None, shape[0]):
        raise ShapeError(f"The mask '{mask}' is for {mask.batch_size} sentence(s); the query has {shape[0]}.")
    check_bias(bias, shape)
    if scale is not None and not math.isfinite(scale):
        raise AttnvizError(f"The scale is {scale}; it multiplies the scores and must be a finite number.")
    if softcap is not None and not (softcap > 0 and math.isfinite(softcap)):
        raise AttnvizError(f"The softcap is {softcap}; the scores stay below it, so it must be finite and above 0.")
    if not (temperature > 0 and math.isfinite(temperature)):
        raise AttnvizError(f"The temperature is {temperature}; it divides the scores and must be finite and above 0.")
    if not 0 <= dropout_p < 1:
        raise AttnvizError(f"dropout_p is {dropout_p}; it must be at least 0 and below 1.")
    if empty_rows not in EMPTY_ROWS:
        raise AttnvizError(f"empty_rows is {empty_rows!r}; it must be one of {', '.join(EMPTY_ROWS)}.")
    return 1 / math.sqrt(query.shape[-1]) if scale is None else scale


def _check_shapes(query: Tensor, key: Tensor, value: Tensor) -> None:
    def shapes() -> str:
        return f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"

    if not (query.dim() in (3, 4) and query.dim() == key.dim() == value.dim()):
        raise ShapeError(f"Query, key and value need the same 3 (B, n, d) or 4 (B, H, n, d) axes; given {shapes()}.")
    if query.shape[-1] != key.shape[-1]:
        raise ShapeError(f"Query and key differ in d_k ({query.shape[-1]} and {key.shape[-1]}): {shapes()}.")
    if query.shape[-1] == 0:
        raise ShapeError(f"d_k is 0, so there is no dot product to take: {shapes()}.")
    if key.shape[-2] != value.shape[-2]:
        raise ShapeError(f"Key and value differ in length ({key.shape[-2]} and {value.shape[-2]}): {shapes()}.")
    for axis, name in enumerate(("batch", "heads")[: query.dim() - 2]):
        sizes = [t.shape[axis] for t in (query, key, value)]
        if len(set(sizes)) > 1:
            would = "Broadcasting would have repeated the one of size 1" if 1 in sizes else "They cannot be broadcast"
            differ = ", ".join(map(str, sizes))
            raise ShapeError(f"Query, key and value differ in {name} ({differ}): {shapes()}. {would}.")
    if not query.dtype == key.dtype == value.dtype:
        dtypes = f"{query.dtype}, {key.dtype}, {value.dtype}"
        raise ShapeError(f"Query, key and value must share a dtype; they have {dtypes}.")
    if not query.is_floating_point():
        raise ShapeError(f"Query, key and value must be floating point; they are {query.dtype}.")


def _check_broadcast(name: str, tensor: Tensor, shape: tuple[int, int, int, int]) -> None:
    """Accept (Q, K) and (B, H, Q, K) with axes of full size or 1; say what broadcasting would do with the rest."""
    given, axes = tuple(tensor.shape), "(B, H, Q, K)"
    if len(given) not in (2, 4):
        expected = f"It must be (Q, K) = {shape[2:]} or {axes} = {shape}, where an axis may have size 1."
        if len(given) == 3:
            aligned = "an error" if given[0] not in (1, shape[1]) else f"its first axis ({given[0]}) read as heads"
            hint = f" Broadcasting would have given {aligned}; say which you mean with {name}.unsqueeze(1), for {axes}."
        else:
            hint = ""
        raise ShapeError(f"The {name} has shape {given}, {len(given)} axes. {expected}{hint}")
    for have, want, axis in zip(given[::-1], shape[::-1], "KQHB", strict=False):
        if have not in (1, want):
            raise ShapeError(
                f"The {name} has shape {given}, and {have} on axis {axis} where the scores have {want}: "
                f"they are {axes} = {shape}. An axis must have full size or 1."
            )


def _with_one_head(given: Tensor | Mask | Bias | None) -> Tensor | Mask | Bias | None:
    """(B, n, d) -> (B, 1, n, d); what is named, and masks and biases of (Q, K), stay."""
    if not isinstance(given, Tensor) or given.dim() == 2:
        return given
    if given.dim() != 3:
        raise ShapeError(f"The query has 3 axes (B, n, d); the mask or bias has shape {tuple(given.shape)}.")
    return given.unsqueeze(1)


def _distributions(masked_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The weights, and which rows have no key left, and which are NaN besides; both boolean, (B, H, Q, 1)."""
    weights = normalize(masked_scores)
    if not weights.shape[-1]:
        empty = torch.ones_like(weights.sum(-1, keepdim=True), dtype=torch.bool)
        return weights, empty, ~empty
    broken = weights[..., :1].isnan()
    if not broken.any():
        return weights, broken, broken
    empty = (masked_scores == -math.inf).all(-1, keepdim=True)
    return weights, empty, broken & ~empty


def _logsumexp(masked_scores: Tensor, weights: Tensor, empty: Tensor) -> Tensor:
    """(B, H, Q), from the largest weight of a row, which is exp(largest score - logsumexp)."""
    if not weights.shape[-1]:
        return weights.new_full(weights.shape[:-1], -math.inf, dtype=torch.float64)
    logsumexp = masked_scores.amax(-1).double() - weights.amax(-1).double().log()
    return logsumexp.masked_fill(empty.squeeze(-1), -math.inf)


def _warn(empty: Tensor, nan: Tensor, empty_rows: str) -> None:
    """Name the rows that are not distributions, (B, H, Q, 1)."""
    for kind, rows in (("empty", empty), ("nan", nan)):
        if rows.any():
            places = rows.squeeze(-1).nonzero()
            named = tuple(tuple(place) for place in places[:1000].tolist())
            warnings.warn(AttentionWarning(kind, named, len(places), empty_rows), stacklevel=3)
