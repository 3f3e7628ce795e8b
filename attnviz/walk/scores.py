"""The stages from queries and keys to weights."""

from dataclasses import replace

import torch
from torch import Tensor

from attnviz.core.amounts import counted
from attnviz.walk import knobs
from attnviz.walk.rows import until
from attnviz.walk.stages import StageCall, Worked, attended, number, span, spread, works_out


@works_out("products", "Dot products", "B H Q K", attended, needs="vectors")
def products(call: StageCall) -> Worked:
    """Every query with every key."""
    scores = _scores(call, "products")
    many, each = counted(scores.numel(), "dot product"), counted(call.sizes["d_k"], "product")
    changed = f"{many} of {each} each: {span(scores)}, standard deviation {spread(scores)}."
    return _squares(call, changed, products=scores)


@works_out("scale", "Scale", "B H Q K", attended, needs="vectors")
def scale(call: StageCall) -> Worked:
    """So that the spread of the scores does not grow with d_k."""
    before, scores = _scores(call, "products"), _scores(call, "scale")
    factor, d_k = call.step.scoring.scale, call.sizes["d_k"]
    root = f" (1/√{d_k})" if abs(factor - d_k**-0.5) < 1e-9 else f", not 1/√{d_k} = {number(d_k**-0.5)}"
    by = f"Every product was multiplied by {number(factor)}{root}"
    changed = f"{by}: the standard deviation went from {spread(before)} to {spread(scores)}."
    return _squares(call, changed, scaled=scores)


@works_out("softcap", "Softcap", "B H Q K", attended, needs="vectors")
def softcap(call: StageCall) -> Worked:
    """Some models bound their scores."""
    cap = call.step.scoring.softcap
    if cap is None:
        return "This call has no softcap: its scores are not bounded."
    before, scores = _scores(call, "scale"), _scores(call, "softcap")
    changed = f"Scores stay within ±{number(cap)}: {span(before)} became {span(scores)}."
    return _squares(call, changed, capped=scores)


@works_out("bias", "Bias", "B H Q K", attended, needs="vectors")
def bias(call: StageCall) -> Worked:
    """Some models add a number to each score by where query and key stand."""
    if not call.step.scoring.bias:
        return "This call has no bias: nothing is added to its scores."
    scores = _scores(call, "bias")
    added = _scores(replace(call, step=replace(call.step, query=torch.zeros_like(call.step.query))), "bias")
    some = int((added != 0).sum())
    changed = f"{span(added)} was added; to {some} of {added.numel()} scores something other than 0."
    return _squares(call, changed, biased=scores, added=added)


@works_out("temperature", "Temperature", "B H Q K", attended, needs="vectors")
def temperature(call: StageCall) -> Worked:
    """Below 1 it sharpens, above 1 it flattens."""
    divisor = call.step.scoring.temperature
    if divisor == 1:
        return "The temperature is 1: nothing is divided."
    before, scores = _scores(call, "bias"), _scores(call, "temperature")
    changed = f"Scores were divided by {number(divisor)}: {span(before)} became {span(scores)}."
    return _squares(call, changed, tempered=scores)


@works_out("mask", "Mask", "B H Q K", attended)
def mask(call: StageCall) -> Worked:
    """Keys that a query may not attend to are masked."""
    if call.step.mask is None:
        return "This call has no mask: every query may attend to every key."
    allowed = call.step.may_attend(call.head, call.rows, call.columns, **call.where)
    closed = int((~allowed).sum())
    many = f"{closed} of {allowed.numel()} cells"
    if call.knobs.mask_after_softmax:
        scores = knobs.weights(call.step, call.head, call.rows, call.knobs, **call.where)[:, call.columns]
        changed = f"{many} were set to 0 after the softmax, which is wrong: what they had is lost, {_sums(call)}."
    else:
        options = {"knobs": call.knobs} | call.where
        scores = knobs.masked_scores(call.step, call.head, call.rows, **options)[:, call.columns]
        did = "were replaced by -∞" if call.knobs.masking == "replace" else "had -1e9 added"
        changed = f"{many} {did}; {allowed.numel() - closed} stay as they are."
    return _squares(call, changed, masked=scores, may_attend=allowed)


@works_out("softmax", "Softmax", "B H Q K", attended)
def softmax(call: StageCall) -> Worked:
    """Scores become weights."""
    rows = knobs.softmax(call.step, call.head, call.rows, call.knobs, **call.where)
    policy = not call.knobs.mask_after_softmax and call.knobs.masking == "replace"
    empty = int(call.step.empty_queries(call.head, **call.where)[call.rows].sum()) if policy else 0
    left = f" {empty} row(s) have no key left and get '{call.step.scoring.empty_rows}'." if empty else ""
    largest = number(rows.nan_to_num().max()) if rows.numel() else "0"
    changed = f"Each row became weights between 0 and 1 that sum to 1; the largest is {largest}.{left}"
    weights = rows[:, call.columns]
    return _squares(call, changed, None if call.knobs.mask_after_softmax else _closed(call, weights), weights=weights)


@works_out("dropout", "Dropout", "B H Q K", attended)
def dropout(call: StageCall) -> Worked:
    """In training some weights are left out."""
    p = call.knobs.dropout_p
    if not p:
        return "Nothing is dropped: dropout belongs to training, and this is evaluation."
    before = knobs.weights(call.step, call.head, call.rows, call.knobs, **call.where)
    weights = call.weights(call.head)
    lost = int(((before > 0) & (weights == 0)).sum())
    many = f"{lost} of {int((before > 0).sum())} weights above 0 were dropped"
    changed = f"{many}, the others divided by {number(1 - p)}: {_sums(call)}."
    dropped = weights[:, call.columns]
    return _squares(call, changed, _closed(call, dropped), dropped=dropped)


def _sums(call: StageCall) -> str:
    sums = call.weights(call.head).double().sum(-1)
    finite = sums[sums.isfinite()]
    if not len(finite):
        return "no row has a sum"
    return f"rows sum to between {number(finite.min())} and {number(finite.max())}"


def _scores(call: StageCall, stage: str) -> Tensor:
    """The scores as they are after a stage."""
    return until(call.step, stage).scores(call.head, call.rows, call.columns, **call.where)


def _closed(call: StageCall, weights: Tensor) -> Tensor | None:
    """The cells that the mask blocks and that have no weight; a fully masked row may have some."""
    if call.step.mask is None:
        return None
    return ~call.step.may_attend(call.head, call.rows, call.columns, **call.where) & (weights == 0)


def _squares(call: StageCall, changed: str, blocked: Tensor | None = None, **tables: Tensor) -> Worked:
    """Tables of queries and keys, by name; where a window is shown the sentence says so."""
    matrices = [call.square(key, key.replace("_", " "), table, blocked) for key, table in tables.items()]
    return matrices, f"{call.of_window} {changed[:1].upper()}{changed[1:]}".strip()
