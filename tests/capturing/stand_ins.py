"""Stand-ins of kernels that run on GPUs alone: their signatures, and what their documentation says that they compute,
cell by cell in float64.
"""

from itertools import pairwise

import torch
from torch import Tensor


def weights(q, k, *, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0) -> Tensor:
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
    left, right = (m + n if size < 0 else size for size in window_size)
    closed = (distance < -left) | (distance > (min(right, 0) if causal else right))
    return scores.masked_fill(closed, -torch.inf).softmax(-1).nan_to_num(0)


def packed(q: Tensor, k: Tensor, ends: Tensor, **options) -> Tensor:
    """Weights of packed documents, (H, all n, all n): each document is a block of its own."""
    every = torch.zeros(q.shape[1], len(q), len(k), dtype=torch.float64)
    for a, b in pairwise(ends.tolist()):
        every[:, a:b, a:b] = weights(q[a:b], k[a:b], **options)
    return every


def batch(q: Tensor, k: Tensor, **options) -> Tensor:
    """Weights of a batch, (B, n, H, d) -> (B, H, n, m)."""
    return torch.stack([weights(*pair, **options) for pair in zip(q, k, strict=True)])


def output(every: Tensor, v: Tensor) -> Tensor:
    """(..., H, n, m) and (..., m, H or fewer, d) -> (..., n, H, d)."""
    v = v.double().transpose(-3, -2).repeat_interleave(every.shape[-3] // v.shape[-2], -3)
    return (every @ v).transpose(-3, -2)


def flash_attn_func(
    q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
    deterministic=False, return_attn_probs=False,
):  # fmt: skip
    options = {"window_size": window_size, "softcap": softcap}
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
    options = {"window_size": window_size, "softcap": softcap}
    every = packed(q, k, cu_seqlens_q, softmax_scale=softmax_scale, causal=causal, **options)
    return output(every, v).to(q)


def flash_attn_varlen_qkvpacked_func(qkv, cu_seqlens, max_seqlen, dropout_p=0.0, softmax_scale=None, causal=False):
    ends = cu_seqlens, cu_seqlens, max_seqlen, max_seqlen
    return flash_attn_varlen_func(*qkv.unbind(1), *ends, dropout_p, softmax_scale, causal)


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, cache_seqlens=None, softmax_scale=None):
    return flash_attn_func(q, k_cache, v_cache, softmax_scale=softmax_scale)


FLASH = {name: function for name, function in globals().items() if name.startswith("flash_attn_")}


def memory_efficient_attention(query, key, value):
    return flash_attn_func(query, key, value)


def varlen(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, is_causal, scale, window_size, *more):
    """Compute what torch's operator under `varlen_attn` computes on GPUs."""
    every = packed(query, key, cu_seq_q, softmax_scale=scale, causal=is_causal, window_size=window_size)
    return output(every, value).to(query), query.new_zeros(query.shape[1::-1]), torch.zeros(2).to(torch.uint64)
