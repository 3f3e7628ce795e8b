"""One query in full: every product, the sum, the softmax by hand, and the weighted values. And element by element."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnviz.core import attention
from attnviz.core.amounts import rounding
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record, Step
from attnviz.core.scoring import ORDER
from attnviz.walk.measures import check_query
from attnviz.walk.windows import FIRST, MOST_WIDTH, slice_of, window_positions

WEIGHTS, EMPTY, NAN = "weights", "empty row", "nan"
"""States of a row."""


@dataclass(frozen=True, eq=False)
class Row:
    """One query against the keys of a window, worked in float64 from the queries, keys and values of the record.

    The maximum, the sums and the output are over *all* keys, also those outside of the window.

    Attributes:
        query: its position.
        keys: the positions shown, k of them.
        products: q_i · k_i for each key and dimension, (k, d_k).
        sums: q · k, (k,).
        scaled: times the scale, (k,).
        capped: after the softcap, or as they were, (k,).
        biased: with the bias added, (k,).
        scores: divided by the temperature, (k,): what is masked.
        rules: of each key the rules that block it, "" if it may be attended to.
        masked: the scores, -inf where blocked, (k,).
        maximum: of all masked scores; -inf if the row is empty.
        shifted: masked scores minus the maximum, (k,); -inf in an empty row.
        exps: e to the shifted, (k,); 0 in an empty row.
        sum_exps: over all keys.
        weights: exps / sum_exps, or what the policy gives an empty row, (k,).
        weighted_values: each weight times its value, (k, d_v).
        row_sum: of all weights.
        output: the sum of all weighted values, (d_v,).
        state: "weights", "empty row" or "nan".
        empty_rows: what an empty row gets.
        is_off: whether the head is off, so that zeros are handed on in place of the output.
        recorded: the weights that the run made, in the precision of the model, (k,).
        difference: the largest absolute difference between `weights` and `recorded`; NaN if the row is.
        digits: one sentence about these precisions.
    """

    query: int
    keys: range
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
    empty_rows: str
    is_off: bool
    recorded: Tensor
    difference: float
    digits: str


def row(record: Record, site: Site, head: int, query: int, *, sentence: int = 0, keys: slice = FIRST) -> Row:
    """Work one query in full.

    Raises:
        InputError: if there is no such query, head or sentence, more than 64 keys are asked for, or the model shows its
            weights alone.
    """
    step = checked_step(record, site, head, query, sentence)
    positions, rows = window_positions(keys, step.shape[3], "keys"), slice(query, query + 1)
    window, exact = slice_of(positions), _in_float64(step, head, sentence)
    masked = exact.masked_scores(head, rows, sentence=sentence)[0]
    weights, maximum, exps, state = _softmax(masked, step.scoring.empty_rows)
    value = exact.value[sentence, head]
    recorded = step.weights(head, rows, sentence=sentence)[0]
    difference = float((weights - recorded.double()).abs().max()) if len(weights) else 0.0
    return Row(
        query=query,
        keys=positions,
        products=exact.query[sentence, head, query] * exact.key[sentence, head, window],
        **_scores(exact, head, rows, window, sentence),
        rules=_rules(step, head, rows, window, sentence),
        masked=masked[window],
        maximum=maximum,
        shifted=(masked - maximum if state != EMPTY else masked)[window],
        exps=exps[window],
        sum_exps=float(exps.sum()),
        weights=weights[window],
        weighted_values=weights[window, None] * value[window],
        row_sum=float(weights.sum()),
        output=weights @ value,
        state=state,
        empty_rows=step.scoring.empty_rows,
        is_off=step.is_off(head, sentence=sentence),
        recorded=recorded[window],
        difference=difference,
        digits=_digits(step, recorded, difference),
    )


def _scores(exact: Step, head: int, rows: slice, window: slice, sentence: int) -> dict[str, Tensor]:
    """The scores of one query after each stage, each (k,), by their names in `Row`."""
    stages = zip(("sums", "scaled", "capped", "biased", "scores"), ORDER, strict=True)
    return {name: until(exact, stage).scores(head, rows, window, sentence=sentence)[0] for name, stage in stages}


def _softmax(masked: Tensor, empty_rows: str) -> tuple[Tensor, float, Tensor, str]:
    """Weights, maximum, exps and state of a row of masked scores, (K,)."""
    maximum = float(masked.max()) if len(masked) else -math.inf
    if maximum == -math.inf:
        zeros = masked.new_zeros(masked.shape)
        empty = torch.ones(1, dtype=torch.bool)
        return attention.fill_empty(zeros, empty, empty_rows, keys=len(masked)), maximum, zeros, EMPTY
    weights = attention.normalize(masked)
    return weights, maximum, (masked - maximum).exp(), NAN if bool(weights.isnan().any()) else WEIGHTS


def _in_float64(step: Step, head: int, sentence: int) -> Step:
    """The same step with wider numbers of one head; a product of two float32 numbers is exact in float64."""
    index = (slice(sentence, sentence + 1), slice(head, head + 1))
    wide = {name: getattr(step, name) for name in ("query", "key", "value")}
    return replace(step, **{name: part[index].double().expand_as(part) for name, part in wide.items()})


def until(step: Step, stage: str) -> Step:
    """The step with its scores made up to a stage of `scoring.ORDER` alone."""
    return replace(step, scoring=step.scoring.until(stage))


def _rules(step: Step, head: int, rows: slice, columns: slice, sentence: int) -> tuple[str, ...]:
    names, blocked = step.reasons(head, rows, columns, sentence=sentence)
    return tuple(names[code - 1] if code else "" for code in blocked[0].tolist())


def _digits(step: Step, recorded: Tensor, difference: float) -> str:
    result_type = str(recorded.dtype).removeprefix("torch.")
    input_type = str(step.query.dtype).removeprefix("torch.")
    return (
        f"Worked with 16 digits (float64) from the {input_type} numbers of the model. "
        f"The {result_type} weights of its run differ by at most {rounding(difference)}."
    )


@dataclass(frozen=True, eq=False)
class Neurons:
    """Element by element: one query against every key of a window and every dimension.

    Attributes:
        query: its position.
        keys: the positions shown, k of them.
        dimensions: those shown, d of them.
        query_vector: (d,).
        key_vectors: (k, d).
        products: q ∘ k, (k, d).
        sums: q · k over *all* dimensions, (k,).
        scores: before the mask, (k,).
        weights: (k,).
    """

    query: int
    keys: range
    dimensions: range
    query_vector: Tensor
    key_vectors: Tensor
    products: Tensor
    sums: Tensor
    scores: Tensor
    weights: Tensor


def neurons(
    record: Record,
    site: Site,
    head: int,
    query: int,
    *,
    sentence: int = 0,
    keys: slice = FIRST,
    dimensions: slice = slice(0, MOST_WIDTH),
) -> Neurons:
    """Take one query and the keys of a window apart, in the precision of the model.

    Raises:
        InputError: as `row`.
    """
    step = checked_step(record, site, head, query, sentence)
    positions, rows = window_positions(keys, step.shape[3], "keys"), slice(query, query + 1)
    columns = window_positions(dimensions, step.query.shape[-1], "dimensions", MOST_WIDTH)
    window, wide = slice_of(positions), slice_of(columns)
    q, k = step.query[sentence, head, query, wide], step.key[sentence, head, window, wide]
    each = [stage.scores(head, rows, window, sentence=sentence)[0] for stage in (until(step, "products"), step)]
    weights = step.weights(head, rows, window, sentence=sentence)[0]
    return Neurons(query, positions, columns, q, k, q * k, *each, weights)


def checked_step(record: Record, site: Site, head: int, query: int, sentence: int) -> Step:
    """The step at a site, if its queries and keys are known and it has that query, head and sentence."""
    step = record.step(site)
    if record.read_only:
        raise InputError(f"'{record.source}' computes attention in its own code: only its weights are known.")
    check_query(query, step.shape[2])
    step.empty_queries(head, sentence=sentence)  # refuses a head or sentence that is not there
    return step
