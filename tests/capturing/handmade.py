"""Attention as people write it, and the same computed by hand in float64."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

D, HEADS = 12, 3


class Fused(nn.Module):
    """Self-attention by PyTorch's function."""

    def __init__(self, **options):
        super().__init__()
        self.n_head, self.options = HEADS, options
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (one.unflatten(-1, (self.n_head, -1)).transpose(-3, -2) for one in self.qkv(x).chunk(3, -1))
        given = F.scaled_dot_product_attention(q, k, v, mask, **self.options)
        return self.out(given.transpose(-3, -2).flatten(-2))


class Layers(nn.Module):
    """Several layers of attention with what is around them."""

    def __init__(self, make, count: int = 2):
        super().__init__()
        self.layers = nn.ModuleList(make() for _ in range(count))

    def forward(self, x: Tensor, *given) -> Tensor:
        for layer in self.layers:
            x = x + layer(x, *given)
        return x


def weights(query: Tensor, key: Tensor, mask: Tensor | None = None, scale: float | None = None, bias=0.0) -> Tensor:
    """softmax(q kᵀ · scale + bias) in float64, True = may attend; empty rows are zero."""
    query, key = query.double(), key.double()
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale) + bias
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1).nan_to_num(0)


def shown(step) -> Tensor:
    """The weights of a step, (B, H, Q, K)."""
    batch, heads = step.shape[:2]
    return torch.stack([torch.stack([step.weights(h, sentence=b) for h in range(heads)]) for b in range(batch)])


def without_head(linear: nn.Linear, head: int, heads: int = HEADS):
    """A hook by which one head's output is zero before the output projection, as a person would do it by hand."""

    def zeroed(_, given):
        (x,) = given
        width = x.shape[-1] // heads
        x = x.clone()
        x[..., head * width : (head + 1) * width] = 0
        return (x,)

    return linear.register_forward_pre_hook(zeroed)


def gradients(model: nn.Module, output: Tensor) -> list[Tensor]:
    model.zero_grad()
    output.square().sum().backward()
    return [one.grad.clone() for one in model.parameters() if one.grad is not None]
