"""Scaled dot-product attention: softmax(q kᵀ / √d_k) v, equation (1) of Vaswani et al. 2017.

This is the one place where scores become weights. Symbols, as in the paper and everywhere in attnviz:

    B batch   H heads   Q query positions   K key positions   d_k width of query and key   d_v width of value

Three functions share it: `scaled_dot_product_attention` gives the (B, H, Q, K) weights, `attend` gives the output and
each row's log-sum-exp without ever holding Q x K numbers, `attention_output` gives the output alone. From the kept
log-sum-exp `core.blocks` gives the same weights block by block, for maps that are too large to be held.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from attnviz.core.errors import AttentionWarning, AttnvizError, EmptyRowError, MaskError, ShapeError
from attnviz.core.masks import Mask
from attnviz.core.progress import tell
from attnviz.core.scoring import ALL, Area, Scoring
from attnviz.core.shapes import check_broadcast, check_shapes, with_one_head

BLOCK = 2**19
"""How many scores `attend` holds at once: 2 MB of float32, which stay in a processor's cache."""

ROWS = 64
"""Queries of a block, also where their scores are more: with fewer, keys are read too often: up to half the time."""

ON_DEVICE = 2**22
"""How many at most, and where a device, not the processor, computes them: each block is started by itself there."""

STRETCH = 2048
"""Keys that a named mask is asked about at once, whether it blocks all of them."""

LONG = 4096
"""Keys from which on `attend` works in tiles that stay in a processor's cache."""

TILE = 512
"""Queries, and keys, of a tile: 1 MB of float32."""


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
        query: (B, H, Q, d_k), or (B, Q, d_k), which is the same with one head.
        key: (B, H, K, d_k) or (B, K, d_k).
        value: (B, H, K, d_v) or (B, K, d_v).
        mask: True means "may attend". Boolean, (Q, K) or with as many axes as the scores, each of full size or 1; or a
            named `Mask`. Other conventions are converted by name: see `attnviz.core.masks`.
        dropout_p: share of the weights zeroed on the way to the output (the rest is divided by 1 - dropout_p). The
            weights given back are those *before* dropout.
        scoring: `scale`, `softcap`, `bias`, `temperature` and `empty_rows`; see `Scoring`; a bias is shaped like
            `mask`.

    Returns:
        The output, (B, H, Q, d_v) or (B, Q, d_v), and the weights, (B, H, Q, K) or (B, Q, K).

    Raises:
        ShapeError: if the shapes do not fit exactly; nothing is broadcast silently but axes of size 1 of the mask.
        MaskError: if the mask is not boolean, or the bias is.
        EmptyRowError: if a row is empty and `empty_rows` is "error".

    Warns:
        AttentionWarning: names batch, head and query of rows that are empty or NaN.
    """
    settings = Scoring(**scoring)
    if query.dim() == key.dim() == value.dim() == 3:
        check_shapes(query, key, value)
        settings = replace(settings, bias=tuple(map(with_one_head, settings.bias)))
        q, k, v, m = map(with_one_head, (query, key, value, mask))
        output, weights, empty, nan = _whole(q, k, v, m, settings, dropout_p)
        output, weights = output.squeeze(1), weights.squeeze(1)
    else:
        output, weights, empty, nan = _whole(query, key, value, mask, settings, dropout_p)
    _warn(empty, nan, settings.empty_rows)
    return output, weights


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None = None, scoring: Scoring = Scoring()
) -> tuple[Tensor, Tensor]:
    """Compute the output and what any window of the weights can be computed from later.

    The arguments are those of `scaled_dot_product_attention`, (B, H, n, d). Rows are worked in blocks, so memory grows
    with Q, never with Q x K. Of more than `LONG` keys a head is worked in tiles, with a maximum and a sum of each row
    that run along, and of tiles that a mask blocks none is: 1.5 times as fast.

    Returns:
        The output, (B, H, Q, d_v), and the log-sum-exp of each row of masked scores, (B, H, Q), float64; it is -inf
        where a row is empty, and NaN where the row is.

    Raises:
        Canceled: if nobody waits for it any more; see `core.progress`.
    """
    _check(query, key, value, mask, scoring)
    (batch, heads, queries, _), keys = query.shape, key.shape[2]
    output = value.new_empty(batch, heads, queries, value.shape[-1])
    sums = query.new_empty(batch, heads, queries, dtype=torch.float64)
    learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (query, key, value))
    in_tiles = keys > LONG and not learns
    held = BLOCK if query.device.type == "cpu" else ON_DEVICE
    blocks = _blocks_in_tiles(batch, heads, queries) if in_tiles else _blocks(batch, heads, queries, keys, held)
    for i, area in enumerate(blocks, 1):
        work = _tiled if in_tiles else _whole_rows
        output[area[:3]], sums[area[:3]] = work(query, key, value, mask, scoring, area)
        tell(i / len(blocks))
    return output, sums


def _blocks(batch: int, heads: int, queries: int, keys: int, held: int) -> list[Area]:
    """The parts that `attend` works one after another: all heads of some sentences, or of some rows of one."""
    row = max(1, heads * keys)
    sentences = max(1, held // (row * max(1, queries)))
    rows = max(1, held // row, min(ROWS, ON_DEVICE // row))
    return [
        Area(slice(first, first + sentences), ALL, slice(start, min(start + rows, queries)))
        for first in range(0, batch, sentences)
        for start in range(0, max(1, queries), rows)
    ]


def _blocks_in_tiles(batch: int, heads: int, queries: int) -> list[Area]:
    """Rows of one head of one sentence."""
    pairs = [(slice(b, b + 1), slice(h, h + 1)) for b in range(batch) for h in range(heads)]
    starts = range(0, max(1, queries), TILE)
    return [Area(*pair, slice(start, min(start + TILE, queries))) for pair in pairs for start in starts]


def _whole_rows(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None, scoring: Scoring, area: Area
) -> tuple[Tensor, Tensor]:
    """The output and the log-sum-exp of some rows of all heads, from all of their scores at once."""
    queries, keys = query.shape[2], key.shape[2]
    columns = _open_span(mask, area.rows, queries, keys, scoring)
    allowed = window(mask, area.rows, columns, queries=queries, keys=keys)
    allowed = None if allowed is None else Area(area.sentences).of(allowed)
    allowed = None if allowed is None or allowed.all() else allowed
    scores = masked(scoring.scores(query, key, area._replace(columns=columns)), allowed)
    weights, empty, _ = _distributions(scores)
    sums = _logsumexp(scores, weights, empty)
    weights = fill_empty(weights, empty, scoring.empty_rows, keys=keys).to(query.dtype)
    return weights @ value[area.sentences, :, columns], sums


def _tiled(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None, scoring: Scoring, area: Area
) -> tuple[Tensor, Tensor]:
    """The output and the log-sum-exp of some rows of one head, (1, 1, rows, ...), a tile of keys after another.

    Of each row it holds the largest score so far, and relative to that the sum of exponentials and of their values.
    """
    values = value[area.sentences, area.heads]
    values = values.to(torch.promote_types(value.dtype, torch.float32))
    top = values.new_full((1, 1, len(range(query.shape[2])[area.rows]), 1), -math.inf)
    total, output = top.new_zeros(top.shape), top.new_zeros(*top.shape[:3], values.shape[-1])
    for columns, scores, allowed in _tiles(query, key, mask, scoring, area):
        before, top = top, torch.maximum(top, scores.amax(-1, keepdim=True))
        base = top.masked_fill(top == -math.inf, 0)  # a row that has seen no key yet
        weights = _raised(scores.sub_(base))
        weights = weights if allowed is None else weights.masked_fill_(~allowed, 0)
        shrink = torch.exp(before - base)
        total = total * shrink + weights.sum(-1, keepdim=True)
        output = output * shrink + weights @ values[:, :, columns]
    empty = top == -math.inf
    sums = (top.double() + total.double().log()).masked_fill(empty, -math.inf)
    filled = fill_empty(output / total, empty, "nan" if scoring.empty_rows == "nan" else "zero", keys=1)
    if scoring.empty_rows in ("uniform", "error") and empty.any():
        weight = fill_empty(torch.zeros_like(total), empty, scoring.empty_rows, keys=key.shape[2])
        filled = filled.where(~empty, weight * values.sum(2, keepdim=True))
    return filled.to(value.dtype), sums.squeeze(-1)


def _tiles(
    query: Tensor, key: Tensor, mask: Tensor | Mask | None, scoring: Scoring, area: Area
) -> Iterator[tuple[slice, Tensor, Tensor | None]]:
    """Columns, masked scores and mask of each tile of some rows of one head, but of those known to be blocked."""
    queries, keys = query.shape[2], key.shape[2]
    for start in range(0, keys, TILE):
        columns = slice(start, min(start + TILE, keys))
        places = range(queries)[area.rows], range(keys)[columns]
        if isinstance(mask, Mask) and len(places[0]) and mask.is_open(*places) is False:
            continue
        allowed = window(mask, area.rows, columns, queries=queries, keys=keys)
        allowed = allowed if allowed is None else Area(area.sentences, area.heads).of(allowed)
        yield columns, masked(scoring.scores(query, key, area._replace(columns=columns)), allowed), allowed


def _raised(logarithms: Tensor) -> Tensor:
    """exp in place. It takes ten times as long where a result is too small for its type: those are cut before."""
    return logarithms.clamp_(min=math.ceil(math.log(torch.finfo(logarithms.dtype).tiny))).exp_()


def _open_span(mask: Tensor | Mask | None, rows: slice, queries: int, keys: int, scoring: Scoring) -> slice:
    """Smallest key range that holds every unmasked key of these rows; all keys where weights may be filled in."""
    if not isinstance(mask, Mask) or scoring.empty_rows not in ("zero", "error"):
        return ALL
    span = mask.span(range(queries)[rows], range(keys), STRETCH)
    return slice(span.start, span.stop)


def attention_output(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Mask | None = None,
    scoring: Scoring = Scoring(),
    *,
    dropout_p: float = 0.0,
) -> Tensor:
    """Compute the output alone, (B, H, Q, d_v), by PyTorch's fused kernel: for training and sweeps, with gradients.

    The arguments are those of `scaled_dot_product_attention`, (B, H, n, d). The kernel knows no softcap: with one, the
    weights are computed.
    """
    if scoring.softcap is not None:
        return _whole(query, key, value, mask, scoring, dropout_p)[0]
    _check(query, key, value, mask, scoring, dropout_p)
    keys = key.shape[2]
    allowed = window(mask, ALL, queries=query.shape[2], keys=keys)
    bias = scoring.added(query, key)
    added = allowed if bias is None else masked((bias / scoring.temperature).to(query.dtype), allowed)
    scale = (query.shape[-1] ** -0.5 if scoring.scale is None else scoring.scale) / scoring.temperature
    output = F.scaled_dot_product_attention(query, key, value, added, dropout_p, scale=scale)
    if scoring.empty_rows == "zero" or (added is None and keys):
        return output
    if not keys:
        fill_empty(output, torch.ones(1, dtype=torch.bool), scoring.empty_rows, keys=0)
        return output
    empty = ~(added if bias is None else added > -math.inf).any(-1, keepdim=True)
    weights = fill_empty(output.new_zeros(empty.shape), empty, scoring.empty_rows, keys=keys)
    return output.where(~empty, weights * value.sum(2, keepdim=True))


def attention_weights(
    query: Tensor, key: Tensor, mask: Tensor | Mask | None = None, scoring: Scoring = Scoring()
) -> Tensor:
    """Compute the weights alone, (B, H, Q, K), with gradients, for a model that takes them to its values itself.

    The arguments are those of `scaled_dot_product_attention`, (B, H, n, d).
    """
    _check(query, key, key, mask, scoring)
    allowed = window(mask, ALL, queries=query.shape[2], keys=key.shape[2])
    weights, empty, _ = _distributions(masked(scoring.scores(query, key), allowed))
    return fill_empty(weights, empty, scoring.empty_rows, keys=key.shape[2])


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
    return torch.exp(logarithms(scores, logsumexp))


def logarithms(scores: Tensor, logsumexp: Tensor) -> Tensor:
    """The logarithms of the weights of open cells, (..., Q, K), from their scores and the (..., Q) of whole rows."""
    rounded = logsumexp.to(scores.dtype)
    rest = (logsumexp - rounded).to(scores.dtype)
    return (scores - rounded.unsqueeze(-1)).sub_(rest.unsqueeze(-1))


def fill_empty(rows: Tensor, empty: Tensor, policy: str, *, keys: int) -> Tensor:
    """Give rows of weights that have no key left what the policy says.

    Args:
        rows: (..., Q, K) weights, or any window of them.
        empty: boolean, (..., Q, 1) or an axis of 1.
        policy: one of `scoring.EMPTY_ROWS`.
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
    """Rows and columns of a mask or bias: a tensor, whose axes of size 1 stay as they are, a named rule or nothing.

    None also where a named mask is known to block nothing.
    """
    if mask is None:
        return None
    if isinstance(mask, Mask):
        places = range(*rows.indices(queries)), range(*columns.indices(keys))
        if all(len(part) and part.step > 0 for part in places) and mask.is_open(*places):
            return None
        return mask.tensor(queries, keys, rows=rows, columns=columns)
    return Area(rows=rows, columns=columns).of(mask)


def _whole(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | Mask | None, scoring: Scoring, dropout_p: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Output and weights, (B, H, Q, ...), and which rows are empty or NaN, (B, H, Q, 1)."""
    _check(query, key, value, mask, scoring, dropout_p)
    allowed = window(mask, ALL, queries=query.shape[2], keys=key.shape[2])
    weights, empty, nan = _distributions(masked(scoring.scores(query, key), allowed))
    weights = fill_empty(weights, empty, scoring.empty_rows, keys=key.shape[2]).to(query.dtype)
    return (F.dropout(weights, dropout_p) if dropout_p else weights) @ value, weights, empty, nan


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | Mask | None,
    scoring: Scoring,
    dropout_p: float = 0.0,
) -> None:
    """Refuse what does not fit (B, H, n, d), with both shapes named."""
    check_shapes(query, key, value)
    if query.dim() != 4:
        raise ShapeError(f"Query, key and value need 4 axes (B, H, n, d); the query has shape {tuple(query.shape)}.")
    shape = (*query.shape[:3], key.shape[2])
    if isinstance(mask, Tensor):
        if mask.dtype is not torch.bool:
            raise MaskError(
                f"The mask holds {mask.dtype}, and attnviz takes booleans only, True = may attend. "
                "Say its convention: from_true_is_masked, from_zero_is_masked or from_additive."
            )
        check_broadcast("mask", mask, shape)
    elif not (mask is None or isinstance(mask, Mask)):
        raise MaskError(f"The mask is a {type(mask).__name__}; it must be a boolean tensor or a named mask.")
    elif mask is not None and mask.batch_size not in (None, shape[0]):
        raise ShapeError(f"The mask '{mask}' is for {mask.batch_size} sentence(s); the query has {shape[0]}.")
    scoring.check(shape)
    if not 0 <= dropout_p < 1:
        raise AttnvizError(f"dropout_p is {dropout_p}; it must be at least 0 and below 1.")


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
