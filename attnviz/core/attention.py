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
MIN_ROWS = 64
"""Minimum number of queries in a block: in smaller blocks, rereading the keys takes up to half of the time."""
LARGEST_BLOCK = 2**22
"""Maximum number of scores in a block; on a GPU, the usual number, because every block costs a kernel launch."""
SPAN_STEP = 2048
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
    for kind, row_flags in (("empty", empty), ("nan", nan)):
        if row_flags.any():
            indices = row_flags.squeeze(-1).nonzero()  # (rows, 3): batch, head, query
            first_rows = tuple(tuple(index) for index in indices[:1000].tolist())
            warnings.warn(AttentionWarning(kind, first_rows, len(indices), settings.empty_rows), stacklevel=2)
    return (output.squeeze(1), weights.squeeze(1)) if has_one_head else (output, weights)


def _add_head_axis(argument: Tensor | Mask | Bias | None) -> Tensor | Mask | Bias | None:
    """Add a head axis to a tensor: (B, n, d) -> (B, 1, n, d). Tensors (Q, K), named masks and None stay unchanged."""
    if not isinstance(argument, Tensor) or argument.dim() == 2:
        return argument
    if argument.dim() != 3:
        raise ShapeError(f"The query has 3 axes (B, n, d); the mask or bias has shape {tuple(argument.shape)}.")
    return argument.unsqueeze(1)


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
        AttnvizError: as `scaled_dot_product_attention`; `Canceled` if the run was canceled.
    """
    _check(query, key, value, mask, scoring)
    (batch, heads, queries, _), keys = query.shape, key.shape[2]
    output = value.new_empty(batch, heads, queries, value.shape[-1])
    logsumexp = query.new_empty(batch, heads, queries, dtype=torch.float64)
    needs_gradients = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    in_tiles = keys > LONG and not needs_gradients
    block_size = BLOCK if query.device.type == "cpu" else LARGEST_BLOCK
    blocks = _split_blocks(batch, heads, queries, keys, block_size, in_tiles=in_tiles)
    attend_block = _attend_in_tiles if in_tiles else _attend_rows
    for num_done, area in enumerate(blocks, 1):
        rows = (area.sentences, area.heads, area.rows)
        output[rows], logsumexp[rows] = attend_block(query, key, value, mask, scoring, area)
        tell(num_done / len(blocks))
    return output, logsumexp


def _split_blocks(batch: int, heads: int, queries: int, keys: int, block_size: int, *, in_tiles: bool) -> list[Area]:
    """Split scores, (batch, heads, queries, keys), into blocks of whole rows with about `block_size` scores each.

    A block has all rows and heads of several sentences, or some rows of all heads of one sentence; with `in_tiles`, it
    has TILE rows of one head.
    """
    if in_tiles:
        num_sentences, num_rows, head_slices = 1, TILE, [slice(head, head + 1) for head in range(heads)]
    else:
        row_size = max(1, heads * keys)  # scores of one query in all heads
        min_rows = min(MIN_ROWS, LARGEST_BLOCK // row_size)
        num_rows, head_slices = max(1, block_size // row_size, min_rows), [ALL]
        num_sentences = max(1, block_size // (row_size * max(1, queries)))
    return [
        Area(slice(first, first + num_sentences), head_slice, slice(start, min(start + num_rows, queries)))
        for first in range(0, batch, num_sentences)
        for head_slice in head_slices
        for start in range(0, max(1, queries), num_rows)
    ]


def _attend_rows(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None, scoring: Scoring, area: Area
) -> tuple[Tensor, Tensor]:
    """Compute the output and the log-sum-exp of some rows of all heads, with all scores of these rows in memory."""
    queries, keys = query.shape[2], key.shape[2]
    columns = ALL
    if isinstance(mask, Mask) and scoring.empty_rows in ("zero", "error"):  # no row has weight on blocked keys
        reached_keys = mask.span(range(queries)[area.rows], range(keys), SPAN_STEP)
        columns = slice(reached_keys.start, reached_keys.stop)
    allowed = window(mask, area.rows, columns, queries=queries, keys=keys)
    if allowed is not None:
        allowed = Area(area.sentences).of(allowed)
        allowed = None if allowed.all() else allowed  # spares `mask_scores` a copy of the scores
    scores = mask_scores(scoring.scores(query, key, area._replace(columns=columns)), allowed)
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

    As in FlashAttention, each row keeps the largest score m so far, and the sums over all keys so far of exp(score - m)
    and exp(score - m) · value; both sums are rescaled when m grows. Fully blocked tiles are skipped.
    """
    queries, keys = query.shape[2], key.shape[2]
    positions = range(queries)[area.rows]
    values = value[area.sentences, area.heads]
    values = values.to(torch.promote_types(value.dtype, torch.float32))
    largest = values.new_full((1, 1, len(positions), 1), -math.inf)
    total, output = torch.zeros_like(largest), values.new_zeros(1, 1, len(positions), values.shape[-1])
    for start in range(0, keys, TILE):
        columns = slice(start, min(start + TILE, keys))
        if isinstance(mask, Mask) and positions and mask.is_open(positions, range(keys)[columns]) is False:
            continue
        allowed = window(mask, area.rows, columns, queries=queries, keys=keys)
        if allowed is not None:
            allowed = Area(area.sentences, area.heads).of(allowed)
        scores = mask_scores(scoring.scores(query, key, area._replace(columns=columns)), allowed)
        old_largest, largest = largest, torch.maximum(largest, scores.amax(-1, keepdim=True))
        base = largest.masked_fill(largest == -math.inf, 0)  # 0 for rows without an open key so far: -inf - -inf is NaN
        weights = exp_in_place(scores.sub_(base))
        rescale = torch.exp(old_largest - base)
        total = total * rescale + weights.sum(-1, keepdim=True)
        output = output * rescale + weights @ values[:, :, columns]
    empty = largest == -math.inf
    logsumexp = (largest.double() + total.double().log()).masked_fill(empty, -math.inf)
    output = (output / total).masked_fill(empty, math.nan if scoring.empty_rows == "nan" else 0.0)
    if scoring.empty_rows in ("uniform", "error") and empty.any():
        weight = fill_empty(torch.zeros_like(total), empty, scoring.empty_rows, keys=keys)
        output = output.where(~empty, weight * values.sum(2, keepdim=True))
    return output.to(value.dtype), logsumexp.squeeze(-1)


def exp_in_place(logarithms: Tensor) -> Tensor:
    """Compute exp in place; results near the smallest normal number of the dtype become 0.

    Arguments are clamped first, because exp is ten times slower where its result is denormal.
    """
    lowest = math.ceil(math.log(torch.finfo(logarithms.dtype).tiny))
    if not logarithms.numel() or not logarithms.amin() < lowest:
        return logarithms.exp_()
    limit = 1.001 * math.exp(lowest)  # just above the exp of clamped arguments, so that these become 0
    return F.threshold_(logarithms.clamp_(min=lowest).exp_(), limit, 0.0)


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

    The arguments are those of `scaled_dot_product_attention`, (B, H, n, d). The kernel has no softcap, and gives empty
    rows zeros; for a softcap or another policy, the weights are computed explicitly.
    """
    may_have_empty_rows = mask is not None or bool(scoring.bias) or not key.shape[2]
    if scoring.softcap is not None or (scoring.empty_rows != "zero" and may_have_empty_rows):
        return _attend_whole(query, key, value, mask, scoring, dropout_p)[0]
    _check(query, key, value, mask, scoring, dropout_p)
    attn_mask = window(mask, ALL, queries=query.shape[2], keys=key.shape[2])
    bias = scoring.added(query, key)
    if bias is not None:
        attn_mask = mask_scores((bias / scoring.temperature).to(query.dtype), attn_mask)
    scale = query.shape[-1] ** -0.5 if scoring.scale is None else scoring.scale
    return F.scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, scale=scale / scoring.temperature)


def attention_weights(
    query: Tensor, key: Tensor, mask: Tensor | Mask | None = None, scoring: Scoring = Scoring()
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute only the weights, with gradients, for a model that multiplies them by the values itself.

    The arguments are those of `scaled_dot_product_attention`, (B, H, n, d).

    Returns:
        The weights, (B, H, Q, K), and two boolean tensors, empty rows and NaN rows, (B, H, Q, 1).
    """
    _check(query, key, key, mask, scoring)  # there are no values; the keys stand for them
    allowed = window(mask, ALL, queries=query.shape[2], keys=key.shape[2])
    weights, empty, nan = _weights_and_row_flags(mask_scores(scoring.scores(query, key), allowed))
    return fill_empty(weights, empty, scoring.empty_rows, keys=key.shape[2]), empty, nan


def mask_scores(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Replace the scores of blocked cells by -inf; without a mask, return the scores unchanged."""
    return scores if mask is None else scores.where(mask, -math.inf)


def normalize(scores: Tensor, *, logsumexp: Tensor | None = None) -> Tensor:
    """Turn masked scores, (..., Q, K), into weights by a softmax over the keys; a row of -inf gives NaN.

    A block with only some of the columns also needs the log-sum-exp of the whole rows, (..., Q).
    """
    if logsumexp is None:
        return torch.softmax(scores, -1)
    return torch.exp(logarithms(scores, logsumexp))


def logarithms(scores: Tensor, logsumexp: Tensor) -> Tensor:
    """Compute log-weights of open cells, (..., Q, K), from scores and the log-sum-exp of the whole rows, (..., Q).

    The log-sum-exp is subtracted in two parts, to keep its float64 precision if the scores are float32.
    """
    rounded = logsumexp.to(scores.dtype)
    rounding_error = (logsumexp - rounded).to(scores.dtype)
    return (scores - rounded.unsqueeze(-1)).sub_(rounding_error.unsqueeze(-1))


def fill_empty(rows: Tensor, empty: Tensor, policy: str, *, keys: int) -> Tensor:
    """Fill the rows of weights, (..., Q, K), that `empty` marks, (..., Q, 1), by a policy of `scoring.EMPTY_ROWS`.

    The rows may be a block with only some of the columns; `keys` is the number of all keys.
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
    columns: slice = ALL,
    *,
    queries: int | None = None,
    keys: int | None = None,
) -> Tensor | None:
    """Cut rows and columns out of a mask, as a boolean tensor that broadcasts to (B, H, rows, columns).

    For a named mask, `queries` and `keys` are the sizes of the whole mask. None if there is no mask, or if a named mask
    blocks no cell of the window.
    """
    if mask is None:
        return None
    if isinstance(mask, Mask):
        ranges = range(queries)[rows], range(keys)[columns]
        is_ascending = all(positions and positions.step > 0 for positions in ranges)  # as `is_open` needs them
        if is_ascending and mask.is_open(*ranges):
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
    if not weights.shape[-1]:  # there are no keys
        empty = torch.ones_like(weights.sum(-1, keepdim=True), dtype=torch.bool)
        return weights, empty, ~empty
    has_nan = weights[..., :1].isnan()  # one key suffices: softmax makes NaN of a whole row
    if not has_nan.any():
        return weights, has_nan, has_nan
    empty = (masked_scores == -math.inf).all(-1, keepdim=True)
    return weights, empty, has_nan & ~empty
