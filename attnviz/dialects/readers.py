"""Readers of each dialect: PyTorch's own functions where there are, run as they are.

A reader takes the mask as it came and gives the weights, and the floats that the mask came to: 0 where a key was left
as it was, far below 0 where it was blocked, and anything else where the mask moved a score instead of blocking it.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask

from attnviz.core.attention import fill_empty, normalize
from attnviz.core.conventions import to_additive
from attnviz.core.scoring import Scoring

Reader = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""(tensor, query, key) -> (weights, added), (B, H, Q, K) each; it raises what PyTorch raises."""


def sdpa(tensor: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """With the unit vectors as values, the output is the weights."""
    unit = torch.eye(key.shape[2], dtype=query.dtype).expand(*key.shape[:3], -1)
    return F.scaled_dot_product_attention(query, key, unit, tensor), _added(tensor, query, key)


def multihead(tensor: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    mask = tensor.expand(*query.shape[:3], key.shape[2]).flatten(0, 1)
    return _module(query, key, attn_mask=mask), _added(_may_attend(tensor), query, key)


def padding(tensor: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Axes of size 1 are dropped if there are more than two, as a person would try."""
    mask = tensor if tensor.dim() == 2 else tensor.squeeze(1).squeeze(0)
    mask = mask.expand(len(query), -1) if len(mask) == 1 else mask
    return _module(query, key, key_padding_mask=mask), _added(_may_attend(mask)[:, None, None], query, key)


def flex(tensor: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """`create_block_mask` decides what it takes; what its kernel then computes is computed here."""
    mask = tensor.expand(len(query), 1, query.shape[2], key.shape[2])
    sizes = len(query), None, query.shape[2], key.shape[2]
    create_block_mask(lambda b, h, q_idx, kv_idx: mask[b, 0, q_idx, kv_idx], *sizes, device="cpu")
    weights = normalize(_scores(query, key), mask)
    return fill_empty(weights, ~mask.any(-1, keepdim=True), "zero", keys=key.shape[2]), _added(mask, query, key)


def huggingface(tensor: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """An eager encoder: with two axes what is not 0 is a token, with four the numbers are added as they are."""
    added = tensor
    if tensor.dim() == 2:
        added = to_additive(tensor.bool(), query.dtype, fill=torch.finfo(query.dtype).min)[:, None, None]
    return normalize(_scores(query, key) + added), _added(added.to(query.dtype), query, key)


def zero_is_masked(tensor: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    masked = tensor == 0
    return normalize(_scores(query, key).masked_fill(masked, -1e9)), _added(~masked, query, key)


def true_is_masked(tensor: Tensor, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    return normalize(_scores(query, key).masked_fill(tensor, float("-inf"))), _added(~tensor, query, key)


READERS: dict[str, Reader] = {
    "sdpa": sdpa,
    "sdpa_additive": sdpa,
    "attn_mask": multihead,
    "key_padding_mask": padding,
    "flex_attention": flex,
    "huggingface": huggingface,
    "zero_is_masked": zero_is_masked,
    "true_is_masked": true_is_masked,
}
"""Who reads a dialect, by its name; `is_causal` takes no mask."""


def _module(query: Tensor, key: Tensor, **masks: Tensor) -> Tensor:
    """The weights of an `nn.MultiheadAttention` whose projections leave everything as it is."""
    heads, width = query.shape[1], query.shape[1] * query.shape[3]
    with torch.no_grad():
        module = nn.utils.skip_init(
            nn.MultiheadAttention, width, heads, bias=False, batch_first=True, dtype=query.dtype
        )
        module.in_proj_weight.copy_(torch.eye(width).repeat(3, 1))
        module.out_proj.weight.copy_(torch.eye(width))
        query, key = (tensor.transpose(1, 2).flatten(2) for tensor in (query, key))
        return module(query, key, key, average_attn_weights=False, **masks)[1]


def _scores(query: Tensor, key: Tensor) -> Tensor:
    return Scoring().scores(query, key)


def _may_attend(tensor: Tensor) -> Tensor:
    """A boolean of `nn.MultiheadAttention` as ours; floats are added, and stay."""
    return ~tensor if tensor.dtype is torch.bool else tensor


def _added(read: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Mask as it is read, True = may attend or floats, as floats of (B, H, Q, K)."""
    floats = to_additive(read, query.dtype) if read.dtype is torch.bool else read.to(query.dtype)
    return floats.expand(*query.shape[:3], key.shape[2])
