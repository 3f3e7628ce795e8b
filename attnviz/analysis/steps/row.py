"""One query of an attention call in full: every product, the softmax, the weighted values; and a check of the call."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from attnviz.core import attention
from attnviz.core.amounts import counted, rounding
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record, Step
from attnviz.core.scoring import ORDER

MOST_TOKENS = 64
"""Rows or columns of a table that stand for tokens."""

MOST_WIDTH = 512
"""Rows or columns of a table that stand for dimensions; of wider vectors the first."""

FIRST = slice(0, MOST_TOKENS)


def window_positions(window: slice, size: int, what: str) -> range:
    """The positions of a window, at most 64; what is beyond the end is left out.

    Raises:
        InputError: if they are not neighbors, or too many.
    """
    positions = range(*window.indices(size))
    if positions.step != 1:
        raise InputError(f"A window of {what} holds neighbors, first to last; given steps of {positions.step}.")
    if len(positions) > MOST_TOKENS:
        raise InputError(f"{len(positions):,} {what} are too many for one table; ask for at most {MOST_TOKENS}.")
    return positions


def slice_of(positions: range) -> slice:
    """The slice that cuts out neighboring positions."""
    return slice(positions.start, positions.stop)


def until(step: Step, stage: str) -> Step:
    """The call with its scores made up to one of `scoring.ORDER`."""
    return replace(step, scoring=step.scoring.until(stage))


def checked_step(record: Record, site: Site, head: int, query: int, sentence: int) -> Step:
    """The call at a site.

    Raises:
        InputError: if it has no such query, head or sentence, or only its weights are known.
    """
    step = record.step(site)
    if record.read_only:
        raise InputError(f"'{record.source}' computes attention in its own code: only its weights are known.")
    if not 0 <= query < step.shape[2]:
        raise InputError(f"There is no query {query}; there are {step.shape[2]}, counted from 0.")
    step.empty_queries(head, sentence=sentence)  # refuses a head or sentence that is not there
    return step


@dataclass(frozen=True, eq=False)
class Row:
    """One query against the keys of a window, in float64 from the queries, keys and values of the record.

    The maximum, the sums and the output are over all keys, also those outside of the window.

    Attributes:
        query: position of the query.
        keys: positions shown, k of them.
        query_vector: q, (d_k,).
        key_vectors: the keys, (k, d_k).
        products: q_i · k_i for each key and dimension, (k, d_k).
        sums: q · k, (k,).
        scaled: sums times the scale, (k,).
        capped: scores after the softcap, (k,).
        biased: scores with the bias, (k,).
        scores: scores divided by the temperature, (k,): the mask's input.
        rules: for each key the rules that block it, "" if it may be attended to.
        masked: scores, -inf where blocked, (k,).
        maximum: largest of all masked scores; -inf if the row is empty.
        shifted: masked scores minus the maximum, (k,); -inf in an empty row.
        exps: e to the shifted scores, (k,); 0 in an empty row.
        sum_exps: sum over all keys.
        weights: exps / sum_exps, or what the policy gives an empty row, (k,).
        weighted_values: each weight times its value, (k, d_v).
        row_sum: sum of all weights.
        output: sum of all weighted values, (d_v,).
        state: "weights", "empty row" or "nan".
        recorded: weights of the run, in the precision of the model, (k,).
        digits: sentence about these precisions, with the largest difference.
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
    recorded: Tensor
    digits: str


def row(record: Record, site: Site, head: int, query: int, *, sentence: int = 0, keys: slice = FIRST) -> Row:
    """Compute one query in full.

    Raises:
        InputError: if there is no such query, head or sentence, more than 64 keys are asked for, or only the weights of
            the model are known.
    """
    step = checked_step(record, site, head, query, sentence)
    positions, rows = window_positions(keys, step.shape[3], "keys"), slice(query, query + 1)
    window, exact = slice_of(positions), _in_float64(step, head, sentence)
    masked = exact.masked_scores(head, rows, sentence=sentence)[0]
    weights, maximum, exps, state = _softmax(masked, step.scoring.empty_rows)
    value, q, k = exact.value[sentence, head], exact.query[sentence, head, query], exact.key[sentence, head, window]
    sums, scaled, capped, biased, scores = (
        until(exact, stage).scores(head, rows, window, sentence=sentence)[0] for stage in ORDER
    )
    reasons, blocked = step.reasons(head, rows, window, sentence=sentence)
    recorded = step.weights(head, rows, sentence=sentence)[0]
    return Row(
        query=query,
        keys=positions,
        query_vector=q,
        key_vectors=k,
        products=q * k,
        sums=sums,
        scaled=scaled,
        capped=capped,
        biased=biased,
        scores=scores,
        rules=tuple(reasons[code - 1] if code else "" for code in blocked[0].tolist()),
        masked=masked[window],
        maximum=maximum,
        shifted=(masked if state == "empty row" else masked - maximum)[window],
        exps=exps[window],
        sum_exps=float(exps.sum()),
        weights=weights[window],
        weighted_values=weights[window, None] * value[window],
        row_sum=float(weights.sum()),
        output=weights @ value,
        state=state,
        recorded=recorded[window],
        digits=_digits(step, weights, recorded),
    )


def _softmax(masked: Tensor, empty_rows: str) -> tuple[Tensor, float, Tensor, str]:
    """Weights, maximum, exps and state of a row of masked scores, (K,)."""
    maximum = float(masked.max()) if len(masked) else -math.inf
    if maximum == -math.inf:
        zeros, empty = masked.new_zeros(masked.shape), torch.ones(1, dtype=torch.bool)
        return attention.fill_empty(zeros, empty, empty_rows, keys=len(masked)), maximum, zeros, "empty row"
    weights = attention.normalize(masked)
    return weights, maximum, (masked - maximum).exp(), "nan" if bool(weights.isnan().any()) else "weights"


def _in_float64(step: Step, head: int, sentence: int) -> Step:
    """The call with wider numbers of one head; a product of two float32 numbers is exact in float64."""
    index = (slice(sentence, sentence + 1), slice(head, head + 1))
    tensors = {name: getattr(step, name) for name in ("query", "key", "value")}
    return replace(step, **{name: part[index].double().expand_as(part) for name, part in tensors.items()})


def _digits(step: Step, weights: Tensor, recorded: Tensor) -> str:
    difference = float((weights - recorded.double()).abs().max()) if len(weights) else 0.0
    model, run = (str(tensor.dtype).removeprefix("torch.") for tensor in (step.query, recorded))
    return (
        f"Worked with 16 digits (float64) from the {model} numbers of the model. "
        f"The {run} weights of its run differ by at most {rounding(difference)}."
    )


FUNCTION = "F.scaled_dot_product_attention"


@dataclass(frozen=True)
class Check:
    """Largest absolute differences over all heads of a call.

    Attributes:
        output, weights: difference of the outputs, and of the weights; None if PyTorch cannot compute this call.
        message: one sentence; why not, if it cannot.
    """

    output: float | None
    weights: float | None
    message: str


def check(record: Record, site: Site, *, sentence: int = 0, queries: slice = FIRST, keys: slice = FIRST) -> Check:
    """Compare the outputs of a window of queries, and their weights on a window of keys, with PyTorch's function.

    Heads that are off are compared as if they were on. A query with no key left is left out: there PyTorch gives NaN.

    Raises:
        InputError: if there is no such site or sentence, a window is too large, or only the weights are known.
    """
    step, where = checked_step(record, site, 0, 0, sentence), {"sentence": sentence}
    if step.scoring.softcap is not None:
        return Check(None, None, f"{FUNCTION} has no softcap, and this call has one.")
    rows = slice_of(window_positions(queries, step.shape[2], "queries"))
    columns = window_positions(keys, step.shape[3], "keys")
    wide = torch.promote_types(step.query.dtype, torch.float32)  # halves are raised, as in our attention
    query, key, value = (tensor[sentence].to(wide) for tensor in (step.query[:, :, rows], step.key, step.value))

    def of_heads(function: Callable[..., Tensor]) -> Tensor:
        return torch.stack([function(head, rows, **where) for head in range(step.num_heads)])

    mask = allowed = of_heads(step.may_attend)
    if step.scoring.bias:
        bias = of_heads(replace(step, query=torch.zeros_like(step.query)).scores)  # those of a query of zeros
        mask = bias.to(wide).masked_fill(~allowed, -math.inf)
    picks = torch.zeros(step.num_heads, step.shape[3], len(columns), dtype=wide)  # values that pick single weights
    picks[:, columns] = torch.eye(len(columns), dtype=wide)
    theirs = F.scaled_dot_product_attention(
        query, key, torch.cat([value, picks], -1), attn_mask=mask, scale=step.scoring.scale / step.scoring.temperature
    )
    weights = of_heads(step.weights)
    ours = torch.cat([weights.to(wide) @ value, weights[:, :, columns]], -1)
    compared = allowed.any(-1)
    difference = (ours.double() - theirs.double()).abs()[compared]
    largest = [float(part.max()) if part.numel() else 0.0 for part in difference.tensor_split([value.shape[-1]], -1)]
    empty = int((~compared).sum())
    left_out = f" {counted(empty, 'row')} with no key left not compared." if empty else ""
    differ = f"outputs differ by at most {rounding(largest[0])}, weights by at most {rounding(largest[1])}"
    return Check(*largest, f"{FUNCTION}: {differ}.{left_out}")
