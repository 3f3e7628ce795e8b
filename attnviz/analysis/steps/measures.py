"""Spread of a row of weights, before and after a change; and why scores are divided by √d_k."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.analysis.steps.row import checked_step
from attnviz.core import attention
from attnviz.core.edits import Site
from attnviz.core.errors import check_whole
from attnviz.core.record import Record

MOST_D_K, SAMPLES, NUM_KEYS = 1024, 500, 16
"""Width of a random vector at most; random queries, and keys for each."""


@dataclass(frozen=True)
class Measures:
    """Spread of one row of weights.

    Attributes:
        entropy: entropy in nats: 0 where one key has all, log K where all K are alike.
        largest: the largest weight.
        gradient: size of the softmax gradient: how far the weights move with the scores.
    """

    entropy: float
    largest: float
    gradient: float


@dataclass(frozen=True)
class Compared:
    """One row before and after a change, with a sentence."""

    before: Measures
    after: Measures
    message: str


def measures(weights: Tensor) -> Measures:
    """Measure one row of weights, (K,), or the mean of many, (rows, K); NaN if a weight is NaN."""
    rows = torch.atleast_2d(weights.double())
    entropy = torch.special.entr(rows).sum(-1).clamp(min=0)  # a weight may be rounded to a little more than 1
    largest = rows.amax(-1) if rows.shape[-1] else rows.new_zeros(len(rows))
    return Measures(*(float(each.mean()) for each in (entropy, largest, gradient_size(rows))))


def gradient_size(weights: Tensor) -> Tensor:
    """Size of the softmax gradient of rows of weights, (..., K) -> (...), float64.

    The gradient of a row is the matrix diag(w) - w wᵀ: how each weight moves with each score. Its size is the Frobenius
    norm: 0 where one key has all the weight, and largest (1/2) where two keys share it. Nothing is subtracted from a
    larger number, so that it stays exact near 0.
    """
    ordered = weights.double().sort(-1, descending=True).values
    squares, rest = ordered.square(), ordered[..., 1:]
    tails = squares.flip(-1).cumsum(-1).flip(-1)
    beside = 2 * (squares[..., :-1] * tails[..., 1:]).sum(-1)
    on_diagonal = ordered * torch.cat([rest.sum(-1, keepdim=True), 1 - rest], -1)
    return (on_diagonal.square().sum(-1) + beside).sqrt()


def compare(before: Record, after: Record, site: Site, head: int, query: int, *, sentence: int = 0) -> Compared:
    """Compare one row of two runs of the same tokens, with other edits or of another source.

    Raises:
        InputError: if one of them has no such query, or only its weights are known.
    """
    rows = slice(query, query + 1)
    old, new = (
        measures(checked_step(record, site, head, query, sentence).weights(head, rows, sentence=sentence)[0])
        for record in (before, after)
    )
    names = {"entropy": "entropy (nats)", "largest": "largest weight", "gradient": "softmax gradient"}
    parts = [f"{title} {getattr(old, name):.4g} → {getattr(new, name):.4g}" for name, title in names.items()]
    return Compared(old, new, f"{', '.join(parts).capitalize()}.")


@dataclass(frozen=True)
class DotProducts:
    """Dot products of random queries and keys, whose numbers are independent and standard normal.

    Attributes:
        d_k: numbers of each vector.
        variance: measured variance of q · k; in theory d_k.
        scaled_variance: measured variance of q · k / √d_k; in theory 1.
        unscaled, scaled: mean measures of rows of weights without and with the scale.
    """

    d_k: int
    variance: float
    scaled_variance: float
    unscaled: Measures
    scaled: Measures


def dot_product_variance(d_ks: Sequence[int]) -> tuple[DotProducts, ...]:
    """Measure why scores are divided by √d_k, on 500 random queries with 16 random keys each.

    Raises:
        InputError: if a d_k is below 1 or above 1,024.
    """
    results = []
    for d_k in d_ks:
        check_whole(f"d_k ({d_k})", d_k, 1, MOST_D_K)
        generator = torch.Generator().manual_seed(d_k)
        query = torch.randn(SAMPLES, 1, d_k, generator=generator)
        key = torch.randn(SAMPLES, NUM_KEYS, d_k, generator=generator)
        products = (query @ key.mT)[:, 0].double()
        scaled = products / math.sqrt(d_k)
        weights = attention.normalize(products), attention.normalize(scaled)
        results.append(DotProducts(d_k, float(products.var()), float(scaled.var()), *map(measures, weights)))
    return tuple(results)
