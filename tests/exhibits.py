"""Attention as three well-known tutorials write it, down to their slips: exhibits, kept to be compared with ours.

They disagree about what a mask means and about what a masked score becomes. Nothing in attnviz calls these functions.

    tutorial                      mask                  masked score   inputs
    The Annotated Transformer     0 = masked            -1e9           any number of axes
    "true is masked"              True = masked         -inf           any number of axes
    "zero is masked"              0 = masked            -1e9           3-D only
    ours                          False = masked        -inf           3-D and 4-D
"""

import math

import torch
from torch import Tensor


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """0 = masked, by -1e9."""
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value), p_attn


def true_is_masked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """True = masked, by -inf; a row with no key left is NaN, and a line is printed."""
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    if torch.isnan(weights).any():
        print("Warning: the attention weights contain NaN.")
    return torch.matmul(weights, value), weights


def zero_is_masked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """0 = masked, by -1e9, for 3-D inputs only; a row with no key left is uniform over its *masked* keys."""
    scores = torch.bmm(query, key.transpose(1, 2)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = torch.softmax(scores, dim=-1)
    return torch.bmm(weights, value), weights
