"""Stand-ins of flash-attn and xformers, which run on GPUs alone: their signatures, and what their documentation says
that they compute, cell by cell in float64.
"""

from itertools import pairwise

import torch
from torch import Tensor


def weights(
    q, k, *, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None
) -> Tensor:  # fmt: skip
    """Weights of one document, (n, H, d) and (m, H or fewer, d) -> (H, n, m).

    "Query at position i will only attend to keys between [i + seqlen_k - seqlen_q - window_size[0],
    i + seqlen_k - seqlen_q + window_size[1]] inclusive", and "if the row of the mask is all zero, the output will be
    zero".
    """
    (n, heads, width), (m, few, _) = q.shape, k.shape
    distance = torch.arange(m) - torch.arange(m - n, m)[:, None]
    k = k.repeat_interleave(heads // few, 1)
    scores = torch.einsum("nhd,mhd->hnm", q.double(), k.double()) * (softmax_scale or width**-0.5)
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    scores = scores if alibi_slopes is None else scores - alibi_slopes.double()[:, None, None] * distance.abs()
    left, right = (m + n if size < 0 else size for size in window_size)
    closed = (distance < -left) | (distance > (min(right, 0) if causal else right))
    return scores.masked_fill(closed, -torch.inf).softmax(-1).nan_to_num(0)


def each(slopes: Tensor | None, count: int) -> list[Tensor | None]:
    """The slopes of each document or sentence."""
    return [None] * count if slopes is None else list(slopes.expand(count, -1))


def packed(q: Tensor, k: Tensor, ends_q: Tensor, ends_k: Tensor, *, alibi_slopes=None, **options) -> Tensor:
    """Weights of packed documents, (H, all n, all m): each document is a block of its own."""
    every, documents = torch.zeros(q.shape[1], len(q), len(k), dtype=torch.float64), len(ends_q) - 1
    ends = zip(pairwise(ends_q.tolist()), pairwise(ends_k.tolist()), each(alibi_slopes, documents), strict=True)
    for (a, b), (c, d), slopes in ends:
        every[:, a:b, c:d] = weights(q[a:b], k[c:d], alibi_slopes=slopes, **options)
    return every


def batch(q: Tensor, k: Tensor, *, alibi_slopes=None, **options) -> Tensor:
    """Weights of a batch, (B, n, H, d) -> (B, H, n, m)."""
    sentences = zip(q, k, each(alibi_slopes, len(q)), strict=True)
    return torch.stack([weights(*pair, alibi_slopes=slopes, **options) for *pair, slopes in sentences])


def output(every: Tensor, v: Tensor) -> Tensor:
    """(..., H, n, m) and (..., m, H or fewer, d) -> (..., n, H, d)."""
    v = v.double().transpose(-3, -2).repeat_interleave(every.shape[-3] // v.shape[-2], -3)
    return (every @ v).transpose(-3, -2)


def flash_attn_func(
    q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
    deterministic=False, return_attn_probs=False,
):  # fmt: skip
    options = {"window_size": window_size, "softcap": softcap, "alibi_slopes": alibi_slopes}
    out = output(batch(q, k, softmax_scale=softmax_scale, causal=causal, **options), v).to(q)
    return (out, "log-sum-exp", "dropout") if return_attn_probs else out


def flash_attn_qkvpacked_func(qkv, dropout_p=0.0, softmax_scale=None, causal=False, return_attn_probs=False):
    return flash_attn_func(*qkv.unbind(2), dropout_p, softmax_scale, causal, return_attn_probs=return_attn_probs)


def flash_attn_kvpacked_func(q, kv, dropout_p=0.0, softmax_scale=None, causal=False, return_attn_probs=False):
    return flash_attn_func(q, *kv.unbind(2), dropout_p, softmax_scale, causal, return_attn_probs=return_attn_probs)


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
    causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, block_table=None,
):  # fmt: skip
    options = {"window_size": window_size, "softcap": softcap, "alibi_slopes": alibi_slopes}
    every = packed(q, k, cu_seqlens_q, cu_seqlens_k, softmax_scale=softmax_scale, causal=causal, **options)
    return output(every, v).to(q)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, dropout_p=0.0, softmax_scale=None, causal=False):
    ends = cu_seqlens, cu_seqlens, max_seqlen, max_seqlen
    return flash_attn_varlen_func(*qkv.unbind(1), *ends, dropout_p, softmax_scale, causal)


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, cache_seqlens=None, softmax_scale=None):
    return flash_attn_func(q, k_cache, v_cache, softmax_scale=softmax_scale)


FLASH = {name: function for name, function in globals().items() if name.startswith("flash_attn_")}


class LowerTriangularMask(Tensor):
    """The causal mask of xformers, which some versions make a tensor without numbers: its corner is the top left."""

    def materialize(self, shape, dtype=torch.float32, device="cpu"):
        return torch.full(shape[-2:], -torch.inf, dtype=dtype, device=device).triu(1).expand(shape)


class BlockDiagonalMask:
    """Packed documents of xformers; each block is causal if asked for."""

    def __init__(self, queries, keys, is_causal=False):
        self.queries, self.keys, self.is_causal = queries, keys, is_causal

    def materialize(self, shape, dtype=torch.float32, device="cpu"):
        blocks = [
            torch.ones(n, m).tril(0 if self.is_causal else m) for n, m in zip(self.queries, self.keys, strict=True)
        ]
        return torch.block_diag(*blocks).log().to(dtype).expand(shape)


def scores_bias(query: Tensor, key: Tensor, bias) -> Tensor:
    """What xformers adds to scores: (B, H, n, m), or (B, n, m) of three axes."""
    shape = (query.shape[0], *query.shape[2:-1], query.shape[1], key.shape[1])
    return bias.materialize(shape) if hasattr(bias, "materialize") else bias


def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None, output_dtype=None):
    """The PyTorch code that its documentation gives."""
    q, k, v = (x.double().movedim(1, -2) for x in (query, key, value))
    scores = q * (query.shape[-1] ** -0.5 if scale is None else scale) @ k.transpose(-2, -1)
    scores = scores if attn_bias is None else scores + scores_bias(query, key, attn_bias).double()
    return (scores.softmax(-1) @ v).movedim(-2, 1).to(query)


def varlen(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal, scale, window_size, *more):
    """Compute what torch's operator under `varlen_attn` computes on GPUs."""
    every = packed(query, key, cu_seq_q, cu_seq_k, softmax_scale=scale, causal=is_causal, window_size=window_size)
    return output(every, value).to(query), query.new_zeros(query.shape[1::-1]), torch.zeros(2).to(torch.uint64)
