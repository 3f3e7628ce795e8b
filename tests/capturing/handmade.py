"""Models of the tests, with attention as users write it."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

B, N, D, HEADS = 2, 5, 12, 3
"""Sentences, positions, width and heads of most models here."""


def attend(fused: bool, q, k, v, mask=None, bias=None, scale=None) -> Tensor:
    """Attention by PyTorch's function, or written out; True = may attend."""
    if fused:
        extra = mask if bias is None else bias if mask is None else bias.masked_fill(~mask, -torch.inf)
        return F.scaled_dot_product_attention(q, k, v, extra, scale=scale)
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if bias is None else scores + bias
    scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ v


def met(used: Tensor, v: Tensor, dropout: float = 0.0) -> tuple[Tensor, Tensor]:
    """Multiply weights and values; return the output and the weights."""
    return (F.dropout(used, dropout) if dropout else used) @ v, used


class Attention(nn.Module):
    """Attention of `a` to `b`, in one of three ways; the names of the arguments give no hint."""

    def __init__(self, way: str = "fused", causal: bool = False, bias: Tensor | None = None):
        super().__init__()
        self.way, self.num_heads, self.causal, self.bias = way, HEADS, causal, bias
        self.to_q, self.to_k, self.to_v, self.out = (nn.Linear(D, D) for _ in range(4))
        self.inner = nn.MultiheadAttention(D, HEADS, batch_first=True)

    def sides(self, a: Tensor, b: Tensor, c: Tensor) -> list[Tensor]:
        return [split(to(x)) for to, x in ((self.to_q, a), (self.to_k, b), (self.to_v, c))]

    def forward(self, a: Tensor, b: Tensor | None = None, c: Tensor | None = None) -> Tensor:
        b, c = (a if side is None else side for side in (b, c))
        if self.way == "multihead":
            return self.inner(a, b, c)[0]
        mask = torch.ones(a.shape[1], b.shape[1], dtype=torch.bool).tril() if self.causal else None
        q, k, v = self.sides(a, b, c)
        self.used = q.detach(), k.detach(), mask
        return self.out(join(attend(self.way == "fused", q, k, v, mask, self.bias)))


class Head(nn.Module):
    """One head, with a bias or without."""

    def __init__(self, with_bias: bool = False, scale: float = 0.5, size: int = D // HEADS):
        super().__init__()
        self.value, self.scale = nn.Linear(D, size), scale
        self.bias = torch.randn(N, N) if with_bias else torch.zeros(1)

    def forward(self, x: Tensor) -> Tensor:
        self.used = (x @ x.mT * self.scale + self.bias).softmax(-1)
        return self.used @ self.value(x)


class Heads(nn.Module):
    """Heads that are modules, as a first lesson writes them."""

    def __init__(self, *options: tuple):
        super().__init__()
        self.heads, self.proj = nn.ModuleList(Head(*each) for each in options), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(torch.cat([head(x) for head in self.heads], -1))


class Own(nn.Module):
    """A model around a function, with modules and attributes."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x, *given, **options):
        return self.function(x, *given, **options)


def split(x: Tensor, heads: int = HEADS) -> Tensor:
    """(B, n, D) -> (B, H, n, d)."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def join(x: Tensor) -> Tensor:
    """(B, H, n, d) -> (B, n, D)."""
    return x.transpose(1, 2).flatten(2)


def qkv(*lead: int, queries: int = N, keys: int = 7) -> list[Tensor]:
    """q, k and v of 4, 4 and 6 numbers."""
    return [torch.randn(*lead, n, d) for n, d in ((queries, 4), (keys, 4), (keys, 6))]
