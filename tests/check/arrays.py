"""Arrays of attention, right and wrong, for the tests of checks."""

import math

import torch

B, H, N = 2, 3, 7


def scores(shape=(B, H, N, N), seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def causal(n=N):
    """(n, n), True = may attend."""
    return torch.ones(n, n, dtype=torch.bool).tril()


def padded(lengths, keys):
    """(B, 1, 1, K), True = may attend."""
    return (torch.arange(keys) < torch.tensor(lengths)[:, None])[:, None, None]


def weights(mask=None, seed=0, shape=(B, H, N, N), fill=-math.inf):
    found = scores(shape, seed)
    return (found if mask is None else found.masked_fill(~mask, fill)).softmax(-1)


def additive(mask, fill=-math.inf):
    return torch.zeros(mask.shape).masked_fill(~mask, fill)
