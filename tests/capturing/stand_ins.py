"""Stand-ins of flash-attn and xformers, which run on GPUs alone: their signatures, and what their documentation says
that they compute, cell by cell in float64.
"""

from itertools import pairwise
from types import ModuleType

import torch
from torch import Tensor


def weights(q: Tensor, k: Tensor, *, scale=None, causal=False, window=(-1, -1), softcap=0.0, slopes=None) -> Tensor:
    """Weights of one document, (n, H, d) and (m, H or fewer, d) -> (H, n, m).

    "Query at position i will only attend to keys between [i + seqlen_k - seqlen_q - window_size[0],
    i + seqlen_k - seqlen_q + window_size[1]] inclusive", and "if the row of the mask is all zero, the output will be
    zero".
    """
    (n, heads, width), (m, few, _) = q.shape, k.shape
    every = torch.zeros(heads, n, m, dtype=torch.float64)
    for head in range(heads):
        for i in range(n):
            scores = {}
            for j in range(m):
                distance = j - (i + m - n)
                if (causal and distance > 0) or 0 <= window[0] < -distance or 0 <= window[1] < distance:
                    continue
                score = q[i, head].double() @ k[j, head * few // heads].double()
                score = score * (width**-0.5 if scale is None else scale)
                score = softcap * torch.tanh(score / softcap) if softcap > 0 else score
                scores[j] = score - (0 if slopes is None else slopes[head].double() * abs(distance))
            if scores:
                every[head, i, list(scores)] = torch.stack(list(scores.values())).softmax(0)
    return every


def packed(q: Tensor, k: Tensor, ends_q: Tensor, ends_k: Tensor, *, slopes=None, **options) -> Tensor:
    """Weights of packed documents, (H, all n, all m): each document is a block of its own."""
    every = torch.zeros(q.shape[1], len(q), len(k), dtype=torch.float64)
    for one, ((a, b), (c, d)) in enumerate(zip(pairwise(ends_q.tolist()), pairwise(ends_k.tolist()), strict=True)):
        own = slopes if slopes is None or slopes.dim() == 1 else slopes[one]
        every[:, a:b, c:d] = weights(q[a:b], k[c:d], slopes=own, **options)
    return every


def batch(q: Tensor, k: Tensor, *, slopes=None, **options) -> Tensor:
    """Weights of a batch, (B, n, H, d) -> (B, H, n, m)."""
    own = [slopes if slopes is None or slopes.dim() == 1 else slopes[b] for b in range(len(q))]
    return torch.stack([weights(*pair, slopes=one, **options) for *pair, one in zip(q, k, own, strict=True)])


def output(every: Tensor, v: Tensor) -> Tensor:
    """(..., H, n, m) and (..., m, H or fewer, d) -> (..., n, H, d)."""
    v = v.double().transpose(-3, -2).repeat_interleave(every.shape[-3] // v.shape[-2], -3)
    return (every @ v).transpose(-3, -2)


def flash_attn_func(
    q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
    deterministic=False, return_attn_probs=False,
):  # fmt: skip
    every = batch(q, k, scale=softmax_scale, causal=causal, window=window_size, softcap=softcap, slopes=alibi_slopes)
    out = output(every, v).to(q)
    return (out, "log-sum-exp", "dropout") if return_attn_probs else out


def flash_attn_qkvpacked_func(
    qkv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
    deterministic=False, return_attn_probs=False,
):  # fmt: skip
    more = dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs
    return flash_attn_func(*qkv.unbind(2), *more)


def flash_attn_kvpacked_func(
    q, kv, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None,
    deterministic=False, return_attn_probs=False,
):  # fmt: skip
    more = dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, deterministic, return_attn_probs
    return flash_attn_func(q, *kv.unbind(2), *more)


def flash_attn_varlen_func(
    q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, dropout_p=0.0, softmax_scale=None,
    causal=False, window_size=(-1, -1), softcap=0.0, alibi_slopes=None, deterministic=False,
    return_attn_probs=False, block_table=None,
):  # fmt: skip
    options = {"scale": softmax_scale, "causal": causal, "window": window_size, "softcap": softcap}
    every = packed(q, k, cu_seqlens_q, cu_seqlens_k, slopes=alibi_slopes, **options)
    return output(every, v).to(q)


def flash_attn_varlen_qkvpacked_func(
    qkv, cu_seqlens, max_seqlen, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
    alibi_slopes=None, deterministic=False, return_attn_probs=False,
):  # fmt: skip
    more = dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes
    return flash_attn_varlen_func(*qkv.unbind(1), cu_seqlens, cu_seqlens, max_seqlen, max_seqlen, *more)


def flash_attn_with_kvcache(q, k_cache, v_cache, k=None, v=None, cache_seqlens=None, softmax_scale=None):
    return flash_attn_func(q, k_cache, v_cache, softmax_scale=softmax_scale)


def flash_attn() -> ModuleType:
    """The functions of flash-attn 2.8, with their signatures."""
    module = ModuleType("flash_attn")
    vars(module).update({name: function for name, function in globals().items() if name.startswith("flash_attn_")})
    return module


class LowerTriangularMask(Tensor):
    """The causal mask of xformers, which some versions make a tensor without numbers: its corner is the top left."""

    def materialize(self, shape, dtype=torch.float32, device="cpu"):
        return torch.full(shape[-2:], -torch.inf, dtype=dtype, device=device).triu(1).expand(shape)


class BlockDiagonalMask:
    """Packed documents of xformers; each block is causal if asked for."""

    def __init__(self, queries, keys, is_causal=False):
        self.queries, self.keys, self.is_causal = queries, keys, is_causal

    def materialize(self, shape, dtype=torch.float32, device="cpu"):
        assert shape[-2:] == (sum(self.queries), sum(self.keys))
        mask, i, j = torch.full(shape[-2:], -torch.inf, dtype=dtype, device=device), 0, 0
        for n, m in zip(self.queries, self.keys, strict=True):
            mask[i : i + n, j : j + m] = torch.full((n, m), -torch.inf).triu(1) if self.is_causal else 0
            i, j = i + n, j + m
        return mask[(None,) * (len(shape) - 2)].expand(shape)


def scores_bias(query: Tensor, key: Tensor, bias) -> Tensor:
    """What xformers adds to scores: (B, H, n, m), or (B, n, m) of three axes."""
    shape = (query.shape[0], *query.shape[2:-1], query.shape[1], key.shape[1])
    return bias.materialize(shape) if hasattr(bias, "materialize") else bias


def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None, output_dtype=None):
    """The PyTorch code that its documentation gives."""
    q, k, v = (x.double().movedim(1, -2) for x in (query, key, value))
    attn = q * (query.shape[-1] ** -0.5 if scale is None else scale) @ k.transpose(-2, -1)
    if attn_bias is not None:
        attn = attn + scores_bias(query, key, attn_bias).double()
    return (attn.softmax(-1) @ v).movedim(-2, 1).to(query)


def xformers() -> ModuleType:
    """`xformers.ops` with the one function."""
    module = ModuleType("xformers.ops")
    module.memory_efficient_attention = memory_efficient_attention
    return module
