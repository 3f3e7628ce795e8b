"""Scaled dot-product attention: softmax(q kᵀ / √d_k) v, equation (1) of Vaswani et al. 2017.

This is the only module that turns scores into weights. Symbols, as in the paper and everywhere in attnviz:

    B batch   H heads   Q query positions   K key positions   d_k width of query and key   d_v width of value

`scaled_dot_product_attention` gives the (B, H, Q, K) weights; `attend` gives the output and the log-sum-exp of each
row without storing Q x K numbers; `attention_output` gives the output only. From the log-sum-exp, `core.blocks`
recomputes the weights block by block, for maps that do not fit in memory.
"""

import math
import warnings
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from attnviz.core.errors import AttentionWarning, AttnvizError, EmptyRowError, MaskError, ShapeError
from attnviz.core.masks import Mask
from attnviz.core.progress import tell
from attnviz.core.scoring import ALL, Area, Bias, Scoring, check_broadcast, check_shapes

BLOCK = 2**19
"""Number of scores that `attend` holds at once: 2 MB of float32, which fit in the cache of a processor."""

ROWS = 64
"""Minimum number of queries in a block: in smaller blocks, rereading the keys takes up to half of the time."""

ON_DEVICE = 2**22
"""Maximum number of scores in a block, and their number on a GPU, where every block costs a kernel launch."""

STRETCH = 2048
"""Number of keys per block in the search for keys that a named mask blocks for all queries."""

LONG = 4096
"""Number of keys above which `attend` works in tiles that fit in the cache of a processor."""

TILE = 512
"""Queries, and keys, per tile: 1 MB of float32."""


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Mask | None = None,
    *,
    dropout_p: float = 0.0,
    **scoring: object,
) -> tuple[Tensor, Tensor]:
    """Compute softmax((q kᵀ · scale + bias) / temperature) v, and the weights.

    Args:
        query: queries, (B, H, Q, d_k), or (B, Q, d_k) for one head.
        key: keys, (B, H, K, d_k) or (B, K, d_k).
        value: values, (B, H, K, d_v) or (B, K, d_v).
        mask: boolean tensor, True = may attend, (Q, K) or with as many axes as the scores, each of full size or 1; or a
            named `Mask`. For other conventions, see `attnviz.core.conventions`.
        dropout_p: share of the weights that is zeroed for the output (the rest is divided by 1 - dropout_p). The
            returned weights are those *before* dropout.
        scoring: `scale`, `softcap`, `bias`, `temperature` and `empty_rows`; see `Scoring`; a bias is shaped like
            `mask`.

    Returns:
        The output, (B, H, Q, d_v) or (B, Q, d_v), and the weights, (B, H, Q, K) or (B, Q, K).

    Raises:
        ShapeError: if the shapes do not fit exactly; only axes of size 1 of the mask and bias are broadcast.
        MaskError: if the mask is not boolean, or the bias is not floating point.
        EmptyRowError: if a row is empty and `empty_rows` is "error".

    Warns:
        AttentionWarning: if rows are empty or NaN, with their batch, head and query.
    """
    settings = Scoring(**scoring)
    has_one_head = query.dim() == key.dim() == value.dim() == 3
    if has_one_head:
        check_shapes(query, key, value)
        settings = replace(settings, bias=tuple(map(_add_head_axis, settings.bias)))
        query, key, value, mask = map(_add_head_axis, (query, key, value, mask))
    output, weights, empty, nan = _attend_whole(query, key, value, mask, settings, dropout_p)
    for kind, rows in (("empty", empty), ("nan", nan)):
        if rows.any():
            indices = rows.squeeze(-1).nonzero()
            first = tuple(map(tuple, indices[:1000].tolist()))
            warnings.warn(AttentionWarning(kind, first, len(indices), settings.empty_rows), stacklevel=2)
    return (output.squeeze(1), weights.squeeze(1)) if has_one_head else (output, weights)


def _add_head_axis(value: Tensor | Mask | Bias | None) -> Tensor | Mask | Bias | None:
    """Add a head axis: (B, n, d) -> (B, 1, n, d); named masks and biases, and those of (Q, K), stay unchanged."""
    if not isinstance(value, Tensor) or value.dim() == 2:
        return value
    if value.dim() != 3:
        raise ShapeError(f"The query has 3 axes (B, n, d); the mask or bias has shape {tuple(value.shape)}.")
    return value.unsqueeze(1)


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None = None, scoring: Scoring = Scoring()
) -> tuple[Tensor, Tensor]:
    """Compute the output and the log-sum-exp of each row, from which any block of the weights can be recomputed.

    The arguments are those of `scaled_dot_product_attention`, (B, H, n, d). Rows are processed in blocks, so memory
    grows with Q, not with Q x K. Above `LONG` keys, each head is processed in tiles with a running maximum and sum per
    row, and tiles that the mask blocks entirely are skipped: 1.5 times as fast.

    Returns:
        The output, (B, H, Q, d_v), and the log-sum-exp of each row of masked scores, (B, H, Q), float64: -inf for an
        empty row, NaN for a row with NaN.

    Raises:
        Canceled: if the run was canceled; see `core.progress`.
    """
    _check(query, key, value, mask, scoring)
    (batch, heads, queries, _), keys = query.shape, key.shape[2]
    output = value.new_empty(batch, heads, queries, value.shape[-1])
    logsumexp = query.new_empty(batch, heads, queries, dtype=torch.float64)
    needs_gradients = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    in_tiles = keys > LONG and not needs_gradients
    block_size = BLOCK if query.device.type == "cpu" else ON_DEVICE
    blocks = _split_blocks(batch, heads, queries, keys, block_size, in_tiles=in_tiles)
    attend_block = _attend_in_tiles if in_tiles else _attend_rows
    for i, area in enumerate(blocks, 1):
        output[area[:3]], logsumexp[area[:3]] = attend_block(query, key, value, mask, scoring, area)
        tell(i / len(blocks))
    return output, logsumexp


def _split_blocks(batch: int, heads: int, queries: int, keys: int, held: int, *, in_tiles: bool) -> list[Area]:
    """Split the scores, (batch, heads, queries, keys), into blocks of about `held` scores.

    A block has all heads of several sentences, or of some rows of one sentence; with `in_tiles`, TILE rows of one head.
    """
    if in_tiles:
        num_sentences, num_rows, head_slices = 1, TILE, [slice(head, head + 1) for head in range(heads)]
    else:
        row_size = max(1, heads * keys)
        num_sentences = max(1, held // (row_size * max(1, queries)))
        num_rows, head_slices = max(1, held // row_size, min(ROWS, ON_DEVICE // row_size)), [ALL]
    return [
        Area(slice(first, first + num_sentences), head_slice, slice(start, min(start + num_rows, queries)))
        for first in range(0, batch, num_sentences)
        for head_slice in head_slices
        for start in range(0, max(1, queries), num_rows)
    ]


def _attend_rows(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None, scoring: Scoring, area: Area
) -> tuple[Tensor, Tensor]:
    """Compute the output and the log-sum-exp of a block, all heads and some rows, from all its scores at once."""
    queries, keys = query.shape[2], key.shape[2]
    columns = ALL
    if isinstance(mask, Mask) and scoring.empty_rows in ("zero", "error"):  # others give empty rows weights on all keys
        span = mask.span(range(queries)[area.rows], range(keys), STRETCH)
        columns = slice(span.start, span.stop)
    allowed = window(mask, area.rows, columns, queries=queries, keys=keys)
    allowed = None if allowed is None else Area(area.sentences).of(allowed)
    allowed = None if allowed is None or allowed.all() else allowed
    scores = masked(scoring.scores(query, key, area._replace(columns=columns)), allowed)
    weights, empty, _ = _weights_and_row_flags(scores)
    logsumexp = torch.full(weights.shape[:-1], -math.inf, dtype=torch.float64, device=weights.device)
    if weights.shape[-1]:  # the largest weight of a row is exp(largest score - logsumexp)
        logsumexp = scores.amax(-1).double() - weights.amax(-1).double().log()
        logsumexp = logsumexp.masked_fill(empty.squeeze(-1), -math.inf)
    weights = fill_empty(weights, empty, scoring.empty_rows, keys=keys).to(query.dtype)
    return weights @ value[area.sentences, :, columns], logsumexp


def _attend_in_tiles(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None, scoring: Scoring, area: Area
) -> tuple[Tensor, Tensor]:
    """Compute the output and the log-sum-exp of some rows of one head, (1, 1, rows, ...), tile by tile along the keys.

    Per row it keeps a running maximum of the scores, and relative to it the sums of exp(score) and exp(score) · value.
    Fully blocked tiles are skipped.
    """
    values = value[area.sentences, area.heads]
    values = values.to(torch.promote_types(value.dtype, torch.float32))
    top = values.new_full((1, 1, len(range(query.shape[2])[area.rows]), 1), -math.inf)
    total, output = top.new_zeros(top.shape), top.new_zeros(*top.shape[:3], values.shape[-1])
    queries, keys = query.shape[2], key.shape[2]
    for start in range(0, keys, TILE):
        columns = slice(start, min(start + TILE, keys))
        ranges = range(queries)[area.rows], range(keys)[columns]
        if isinstance(mask, Mask) and len(ranges[0]) and mask.is_open(*ranges) is False:
            continue
        allowed = window(mask, area.rows, columns, queries=queries, keys=keys)
        allowed = allowed if allowed is None else Area(area.sentences, area.heads).of(allowed)
        scores = masked(scoring.scores(query, key, area._replace(columns=columns)), allowed)
        old_top, top = top, torch.maximum(top, scores.amax(-1, keepdim=True))
        base = top.masked_fill(top == -math.inf, 0)  # rows without an open key so far
        weights = exp_in_place(scores.sub_(base))
        shrink = torch.exp(old_top - base)
        total = total * shrink + weights.sum(-1, keepdim=True)
        output = output * shrink + weights @ values[:, :, columns]
    empty = top == -math.inf
    logsumexp = (top.double() + total.double().log()).masked_fill(empty, -math.inf)
    filled = fill_empty(output / total, empty, "nan" if scoring.empty_rows == "nan" else "zero", keys=1)
    if scoring.empty_rows in ("uniform", "error") and empty.any():
        weight = fill_empty(torch.zeros_like(total), empty, scoring.empty_rows, keys=keys)
        filled = filled.where(~empty, weight * values.sum(2, keepdim=True))
    return filled.to(value.dtype), logsumexp.squeeze(-1)


def exp_in_place(logarithms: Tensor) -> Tensor:
    """Compute exp in place; results near the smallest normal number of the dtype become 0.

    Arguments are clamped first, because exp is ten times slower where its result is denormal.
    """
    lowest = math.ceil(math.log(torch.finfo(logarithms.dtype).tiny))
    if not logarithms.numel() or not logarithms.amin() < lowest:
        return logarithms.exp_()
    return F.threshold_(logarithms.clamp_(min=lowest).exp_(), 1.001 * math.exp(lowest), 0.0)


def attention_output(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Mask | None = None,
    scoring: Scoring = Scoring(),
    *,
    dropout_p: float = 0.0,
) -> Tensor:
    """Compute only the output, (B, H, Q, d_v), with PyTorch's fused kernel, for training and sweeps; has gradients.

    The arguments are those of `scaled_dot_product_attention`, (B, H, n, d). The kernel has no softcap; with a
    softcap, or if empty rows of a mask or bias are not zero, the weights are computed explicitly.
    """
    fills_rows = scoring.empty_rows != "zero" and not (mask is None and not scoring.bias and key.shape[2])
    if scoring.softcap is not None or fills_rows:
        return _attend_whole(query, key, value, mask, scoring, dropout_p)[0]
    _check(query, key, value, mask, scoring, dropout_p)
    allowed = window(mask, ALL, queries=query.shape[2], keys=key.shape[2])
    bias = scoring.added(query, key)
    added = allowed if bias is None else masked((bias / scoring.temperature).to(query.dtype), allowed)
    scale = (query.shape[-1] ** -0.5 if scoring.scale is None else scoring.scale) / scoring.temperature
    return F.scaled_dot_product_attention(query, key, value, added, dropout_p, scale=scale)


def attention_weights(
    query: Tensor, key: Tensor, mask: Tensor | Mask | None = None, scoring: Scoring = Scoring()
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute only the weights, with gradients, for a model that multiplies them by the values itself.

    The arguments are those of `scaled_dot_product_attention`, (B, H, n, d).

    Returns:
        The weights, (B, H, Q, K), and two boolean tensors, empty rows and NaN rows, (B, H, Q, 1).
    """
    _check(query, key, key, mask, scoring)
    allowed = window(mask, ALL, queries=query.shape[2], keys=key.shape[2])
    weights, empty, nan = _weights_and_row_flags(masked(scoring.scores(query, key), allowed))
    return fill_empty(weights, empty, scoring.empty_rows, keys=key.shape[2]), empty, nan


def masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Replace the scores of blocked cells by -inf."""
    return scores if mask is None else scores.where(mask, -math.inf)


def normalize(scores: Tensor, *, logsumexp: Tensor | None = None) -> Tensor:
    """Turn scores into weights by a softmax over the keys whose score is not -inf. An empty row gives NaN.

    Args:
        scores: masked scores, (..., Q, K), or any block of rows and columns if `logsumexp` is given.
        logsumexp: log-sum-exp of the whole rows, (..., Q); needed for blocks with only some of the columns. It is
            subtracted in two parts to keep its float64 precision even if the scores are float32.
    """
    if logsumexp is None:
        return torch.softmax(scores, -1)
    return torch.exp(logarithms(scores, logsumexp))


def logarithms(scores: Tensor, logsumexp: Tensor) -> Tensor:
    """Compute log-weights of open cells, (..., Q, K), from scores and the log-sum-exp of the whole rows, (..., Q)."""
    rounded = logsumexp.to(scores.dtype)
    remainder = (logsumexp - rounded).to(scores.dtype)
    return (scores - rounded.unsqueeze(-1)).sub_(remainder.unsqueeze(-1))


def fill_empty(rows: Tensor, empty: Tensor, policy: str, *, keys: int) -> Tensor:
    """Fill the empty rows of weights by the `empty_rows` policy.

    Args:
        rows: weights, (..., Q, K), or any block of rows and columns.
        empty: booleans that mark empty rows and broadcast to (..., Q, 1).
        policy: policy from `scoring.EMPTY_ROWS`.
        keys: number of keys K of the whole rows.
    """
    if not empty.any():
        return rows
    if policy == "error":
        raise EmptyRowError(
            'A query has no key left to attend to. Choose empty_rows="zero", "nan" or "uniform", or correct the mask.'
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
    """Cut rows and columns out of a mask or bias; axes of size 1 of a tensor stay as they are.

    Returns None if there is no mask, and if a named mask blocks no cell of the window.
    """
    if mask is None:
        return None
    if isinstance(mask, Mask):
        ranges = range(*rows.indices(queries)), range(*columns.indices(keys))
        if all(len(positions) and positions.step > 0 for positions in ranges) and mask.is_open(*ranges):
            return None
        return mask.tensor(queries, keys, rows=rows, columns=columns)
    return Area(rows=rows, columns=columns).of(mask)


def _attend_whole(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None, scoring: Scoring, dropout_p: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Compute output and weights, (B, H, Q, ...), and two boolean tensors, empty rows and NaN rows, (B, H, Q, 1)."""
    _check(query, key, value, mask, scoring, dropout_p)
    weights, empty, nan = attention_weights(query, key, mask, scoring)
    weights = weights.to(query.dtype)
    return (F.dropout(weights, dropout_p) if dropout_p else weights) @ value, weights, empty, nan


def _check(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None, scoring: Scoring, dropout_p: float = 0.0
) -> None:
    """Refuse arguments whose shapes or dtypes do not fit (B, H, n, d)."""
    check_shapes(query, key, value)
    if query.dim() != 4:
        raise ShapeError(f"Query, key and value need 4 axes (B, H, n, d); the query has shape {tuple(query.shape)}.")
    shape = (*query.shape[:3], key.shape[2])
    if isinstance(mask, Tensor):
        if mask.dtype is not torch.bool:
            raise MaskError(
                f"The mask holds {mask.dtype}, and attnviz takes booleans only, True = may attend. "
                "Convert it with from_true_is_masked, from_zero_is_masked or from_additive."
            )
        check_broadcast("mask", mask, shape)
    elif not (mask is None or isinstance(mask, Mask)):
        raise MaskError(f"The mask is a {type(mask).__name__}; it must be a boolean tensor or a named mask.")
    elif mask is not None and mask.batch_size not in (None, shape[0]):
        raise ShapeError(f"The mask '{mask}' is for {mask.batch_size} sentence(s); the query has {shape[0]}.")
    scoring.check(shape)
    if not 0 <= dropout_p < 1:
        raise AttnvizError(f"dropout_p is {dropout_p}; it must be at least 0 and below 1.")


def _weights_and_row_flags(masked_scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the weights and two boolean tensors, (B, H, Q, 1): rows without an open key, and other rows with NaN."""
    weights = normalize(masked_scores)
    if not weights.shape[-1]:
        empty = torch.ones_like(weights.sum(-1, keepdim=True), dtype=torch.bool)
        return weights, empty, ~empty
    broken = weights[..., :1].isnan()
    if not broken.any():
        return weights, broken, broken
    empty = (masked_scores == -math.inf).all(-1, keepdim=True)
    return weights, empty, broken & ~empty
