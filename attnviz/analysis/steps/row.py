"""All numbers of one query of an attention call, the spread of its weights, and why scores are divided by √d_k."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnviz.core import attention
from attnviz.core.amounts import rounding
from attnviz.core.edits import Site
from attnviz.core.errors import InputError, check_whole
from attnviz.core.record import Record, Step
from attnviz.core.scoring import ORDER

MOST_TOKENS = 64
"""Maximum number of rows or columns of a table if they are tokens."""
MOST_WIDTH = 512
"""Maximum number of rows or columns of a table if they are dimensions; further dimensions are left out."""
FIRST = slice(0, MOST_TOKENS)


def window_positions(window: slice, size: int, what: str) -> range:
    """Convert a slice of `what` ("queries" or "keys") to positions; raise InputError for a step or over 64 of them."""
    positions = range(*window.indices(size))
    if positions.step != 1:
        raise InputError(f"A window of {what} must be consecutive, first to last; its step is {positions.step}.")
    if len(positions) > MOST_TOKENS:
        raise InputError(f"{len(positions):,} {what} are too many for one table; ask for at most {MOST_TOKENS}.")
    return positions


def until(step: Step, stage: str) -> Step:
    """Return the call with scores that end after a stage of `scoring.ORDER`: "scale" has no softcap, bias, ..."""
    return replace(step, scoring=step.scoring.until(stage))


def _checked_step(record: Record, site: Site, head: int, query: int, sentence: int) -> Step:
    """Return the call at a site; raise InputError for a wrong query, head or sentence, or if only weights are known."""
    step = record.step(site)
    if record.read_only:
        raise InputError(f"'{record.source}' computes attention in its own code: only its weights are known.")
    if not 0 <= query < step.shape[2]:
        raise InputError(f"There is no query {query}; there are {step.shape[2]}, counted from 0.")
    step.scores(head, slice(0), sentence=sentence)  # raises if there is no such head or sentence, or no scores
    return step


@dataclass(frozen=True, eq=False)
class Row:
    """Numbers of one query and the keys of a window, in float64 from the queries, keys and values of the record.

    The maximum, the sums and the output are over all keys, including those outside of the window.

    Attributes:
        query, keys: position of the query, and positions of the k keys to show.
        query_vector, key_vectors: q, (d_k,), and the vectors of the keys, (k, d_k).
        products: q_i · k_i for each key and dimension, (k, d_k).
        sums, scaled, capped, biased, scores: q · k, and the score after scale, softcap, bias and temperature, all (k,).
        rules: rules that block each key, "" for an open key.
        masked: scores, -inf where blocked, (k,).
        maximum: largest of all masked scores; -inf if the row is empty.
        shifted: masked scores minus the maximum, (k,); -inf in an empty row.
        exps, sum_exps: e to the power of the shifted scores, (k,), 0 in an empty row; and the sum over all keys.
        weights, row_sum: exps / sum_exps, or the policy's weights of an empty row, (k,); and the sum over all keys.
        weighted_values, output: each weight times its value, (k, d_v), and the sum over all keys, (d_v,).
        state: "weights", "empty row" (no open key) or "nan".
        digits: sentence on the precision of these numbers and of the run, and on the difference of their weights.
    """

    query: int
    keys: range
    query_vector: Tensor
    key_vectors: Tensor
    products: Tensor
    sums: Tensor
    scaled: Tensor
    capped: Tensor
    biased: Tensor
    scores: Tensor
    rules: tuple[str, ...]
    masked: Tensor
    maximum: float
    shifted: Tensor
    exps: Tensor
    sum_exps: float
    weights: Tensor
    weighted_values: Tensor
    row_sum: float
    output: Tensor
    state: str
    digits: str


def row(record: Record, site: Site, head: int, query: int, *, sentence: int = 0, keys: slice = FIRST) -> Row:
    """Compute all numbers of one query, for the `keys` to show.

    Raises:
        InputError: if there is no such query, head or sentence, `keys` are more than 64, or only weights are known.
    """
    step = _checked_step(record, site, head, query, sentence)
    positions, rows = window_positions(keys, step.shape[3], "keys"), slice(query, query + 1)
    window = slice(positions.start, positions.stop)
    exact_tensors = {}  # in float64, in which a product of two float32 numbers is exact; only this head is copied
    for name in ("query", "key", "value"):
        tensor = getattr(step, name)
        exact_tensors[name] = tensor[sentence : sentence + 1, head : head + 1].double().expand_as(tensor)
    exact = replace(step, **exact_tensors)
    q, k, value = exact.query[sentence, head, query], exact.key[sentence, head, window], exact.value[sentence, head]
    masked = exact.masked_scores(head, rows, sentence=sentence)[0]
    maximum = float(masked.max()) if len(masked) else -math.inf
    if maximum == -math.inf:
        shifted, exps, state = masked, torch.zeros_like(masked), "empty row"
        is_empty = torch.ones(1, dtype=torch.bool)
        weights = attention.fill_empty(exps, is_empty, step.scoring.empty_rows, keys=len(masked))
    else:
        shifted, weights = masked - maximum, attention.normalize(masked)
        exps, state = shifted.exp(), "nan" if bool(weights.isnan().any()) else "weights"
    names = ("sums", "scaled", "capped", "biased", "scores")  # one after each stage of `ORDER`
    scores = [until(exact, stage).scores(head, rows, window, sentence=sentence)[0] for stage in ORDER]
    reasons, blocked = step.reasons(head, rows, window, sentence=sentence)
    recorded = step.weights(head, rows, sentence=sentence)[0]
    difference = float((weights - recorded.double()).abs().max()) if len(weights) else 0.0
    model, run = (str(tensor.dtype).removeprefix("torch.") for tensor in (step.query, recorded))
    precision = f"Computed with 16 digits (float64) from the {model} numbers of the model."
    return Row(
        query=query,
        keys=positions,
        query_vector=q,
        key_vectors=k,
        products=q * k,
        **dict(zip(names, scores, strict=True)),
        rules=tuple(reasons[code - 1] if code else "" for code in blocked[0].tolist()),
        masked=masked[window],
        maximum=maximum,
        shifted=shifted[window],
        exps=exps[window],
        sum_exps=float(exps.sum()),
        weights=weights[window],
        weighted_values=weights[window, None] * value[window],
        row_sum=float(weights.sum()),
        output=weights @ value,
        state=state,
        digits=f"{precision} The {run} weights of its run differ by at most {rounding(difference)}.",
    )


@dataclass(frozen=True)
class Measures:
    """Numbers that describe the spread of one row of weights.

    Attributes:
        entropy: entropy in nats: 0 if one key has all weight, log K if K keys have equal weights.
        largest: the largest weight.
        gradient: size of the softmax gradient, which tells how strongly the weights react to the scores.
    """

    entropy: float
    largest: float
    gradient: float


def measures(weights: Tensor) -> Measures:
    """Measure one row of weights, (K,), or the mean over many rows, (rows, K); NaN if a weight is NaN.

    The gradient of a row is the matrix diag(w) - w wᵀ, the derivative of each weight by each score. Its size is the
    Frobenius norm: 0 if one key has all the weight, and largest (1/2) if two keys have half the weight each. The code
    does not subtract nearly equal numbers, so the result is exact near 0.
    """
    rows = torch.atleast_2d(weights.double())
    entropy = torch.special.entr(rows).sum(-1).clamp(min=0)  # rounding may bring a weight slightly above 1
    largest = rows.amax(-1) if rows.shape[-1] else rows.new_zeros(len(rows))
    ordered = rows.sort(-1, descending=True).values
    squares, smaller = ordered.square(), ordered[..., 1:]
    sums_of_later_squares = (squares.flip(-1).cumsum(-1).flip(-1))[..., 1:]
    off_diagonal = 2 * (squares[..., :-1] * sums_of_later_squares).sum(-1)  # Σ (w_i w_j)² over all i != j
    one_minus_w = torch.cat([smaller.sum(-1, keepdim=True), 1 - smaller], -1)
    gradient = ((ordered * one_minus_w).square().sum(-1) + off_diagonal).sqrt()
    return Measures(*(float(numbers.mean()) for numbers in (entropy, largest, gradient)))


def compare(
    before: Record, after: Record, site: Site, head: int, query: int, *, sentence: int = 0
) -> tuple[Measures, Measures, str]:
    """Measure the weights of one query in two runs on the same tokens; return both and a comparison in words."""
    steps = [_checked_step(record, site, head, query, sentence) for record in (before, after)]
    old, new = (measures(step.weights(head, slice(query, query + 1), sentence=sentence)[0]) for step in steps)
    titles = {"entropy": "entropy (nats)", "largest": "largest weight", "gradient": "softmax gradient"}
    changes = [f"{title} {getattr(old, name):.4g} → {getattr(new, name):.4g}" for name, title in titles.items()]
    return old, new, f"{', '.join(changes).capitalize()}."


@dataclass(frozen=True)
class DotProducts:
    """Dot products of random queries and keys with independent standard normal components.

    Attributes:
        d_k: number of components per vector.
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
    """Measure dot products of 500 random queries with 16 keys each, for several d_k (1 to 1,024), and with 1/√d_k."""
    results = []
    for d_k in d_ks:
        check_whole(f"d_k ({d_k})", d_k, 1, 1024)
        generator = torch.Generator().manual_seed(d_k)
        query = torch.randn(500, 1, d_k, generator=generator)
        key = torch.randn(500, 16, d_k, generator=generator)
        products = (query @ key.mT)[:, 0].double()
        scaled = products / math.sqrt(d_k)
        weights = attention.normalize(products), attention.normalize(scaled)
        results.append(DotProducts(d_k, float(products.var()), float(scaled.var()), *map(measures, weights)))
    return tuple(results)
