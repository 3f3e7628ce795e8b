"""Attention as three well-known tutorials write it, down to their slips: exhibits, kept to be compared with ours.

They disagree about what a mask means, about what a masked score becomes, and about which weights are given back, and a
mask made for one does something else in another without an error. The tests of this module pin down what. Nothing in
attnviz calls these functions: the one attention that runs is `attnviz.core.attention`.

    tutorial                      mask                  masked score   weights given back   inputs
    The Annotated Transformer     0 = masked            -1e9           after dropout        any number of axes
    "true is masked"              True = masked         -inf           all there are        any number of axes
    "zero is masked"              0 = masked            -1e9           all there are        3-D only
    ours                          False = masked        -inf           before dropout       3-D and 4-D

Harvard NLP's "The Annotated Transformer" gives `subsequent_mask`, `attention`, `clones` and `MultiHeadedAttention`. The
other two tutorials both call theirs `scaled_dot_product_attention`; here they are named after their mask.
"""

import copy
import math

import torch
from torch import Tensor, nn


def subsequent_mask(size: int) -> Tensor:
    """(1, size, size), True = may attend: the same as ours."""
    future = torch.triu(torch.ones(1, size, size), diagonal=1).type(torch.uint8)
    return future == 0


def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout: nn.Module | None = None
) -> tuple[Tensor, Tensor]:
    """0 = masked, by -1e9. The weights given back are those after dropout, whose rows do not sum to 1."""
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


def clones(module: nn.Module, N: int) -> nn.ModuleList:
    """N copies of a module that start with the *same* parameters."""
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


class MultiHeadedAttention(nn.Module):
    """Four clones of one linear: W_Q = W_K = W_V = W_O until training parts them. The last weights stay in `attn`."""

    def __init__(self, h: int, d_model: int, dropout: float = 0.1):
        super().__init__()
        assert d_model % h == 0
        self.d_k = d_model // h
        self.h = h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        self.attn: Tensor | None = None
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """(B, n, d_model) each; the mask, (B or 1, Q or 1, K), gets its axis of heads here."""
        if mask is not None:
            mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        query, key, value = (
            linear(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for linear, x in zip(self.linears, (query, key, value), strict=False)
        )
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.linears[-1](x)


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
