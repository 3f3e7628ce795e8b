"""How a row of weights is spread, and how much a change of the scores would still move it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record


@dataclass(frozen=True)
class Measures:
    """One row of weights.

    Attributes:
        entropy: in nats; 0 where one key has all, log K where all K are alike.
        largest: the largest weight.
        gradient: `gradient_size`: how much the weights move with the scores; 0 where the softmax is saturated.
        row_sum: 1, but for an empty row, a NaN or an example bug.
    """

    entropy: float
    largest: float
    gradient: float
    row_sum: float


def measures(weights: Tensor) -> Measures:
    """The measures of one row of weights, (K,); NaN if a weight is."""
    row = weights.double()
    largest = float(row.max()) if len(row) else 0.0
    entropy = float(torch.special.entr(row).sum())
    if -1e-4 < entropy < 0:  # of one weight that float32 rounded to a little more than 1
        entropy = 0.0
    return Measures(entropy, largest, float(gradient_size(row)), float(row.sum()))


def gradient_size(weights: Tensor) -> Tensor:
    """The size of the softmax gradient of rows of weights, (..., K) -> (...), float64.

    The gradient of a row is the matrix diag(w) - w wᵀ, (K, K): how each weight moves with each score. Its size is the
    Frobenius norm, the root of the sum of its squared entries. It is 0 where one key has all the weight, and largest
    (1/2) where two keys share it. It is worked out from the K weights alone, in a way that stays exact near 0.
    """
    w = weights.double()
    if not w.shape[-1]:
        return w.new_zeros(w.shape[:-1])
    ordered = w.sort(-1, descending=True).values
    top, rest = ordered[..., 0], ordered[..., 1:]
    squares = rest.square().sum(-1)
    on_diagonal = (top * rest.sum(-1)).square() + (rest * (1 - rest)).square().sum(-1)
    beside = 2 * top.square() * squares + (squares.square() - rest.pow(4).sum(-1)).clamp(min=0)
    beside = beside.where(~w.isnan().any(-1), torch.nan)
    return (on_diagonal + beside).sqrt()


@dataclass(frozen=True)
class Compared:
    """One row before and after something was changed, with a sentence."""

    before: Measures
    after: Measures
    message: str


def compare(before: Record, after: Record, site: Site, head: int, query: int, *, sentence: int = 0) -> Compared:
    """Compare one row of two runs of the same tokens, with other edits or of another source.

    Raises:
        InputError: if one of them has no such query.
    """
    rows = [_row(record, site, head, query, sentence) for record in (before, after)]
    return compare_rows(*rows)


def compare_rows(before: Tensor, after: Tensor) -> Compared:
    """Compare two rows of weights, (K,) each."""
    old, new = measures(before), measures(after)
    names = {"entropy": "entropy (nats)", "largest": "largest weight", "gradient": "softmax gradient"}
    parts = [f"{title} {getattr(old, name):.4g} → {getattr(new, name):.4g}" for name, title in names.items()]
    return Compared(old, new, f"{', '.join(parts).capitalize()}.")


def _row(record: Record, site: Site, head: int, query: int, sentence: int) -> Tensor:
    step = record.step(site)
    check_query(query, step.shape[2])
    return step.weights(head, slice(query, query + 1), sentence=sentence)[0]


def check_query(query: int, queries: int) -> None:
    """Raises InputError if there is no such query."""
    if not 0 <= query < queries:
        raise InputError(f"There is no query {query}; there are {queries}, counted from 0.")
