"""The stages from queries and keys to weights."""

from dataclasses import replace

import torch
from torch import Tensor

from attnviz.walk import equations, knobs
from attnviz.walk.before import READ_ONLY
from attnviz.walk.rows import until
from attnviz.walk.stages import Call, Stage, number, span, spread


def products(call: Call) -> Stage:
    """Every query with every key."""
    found = _scores(call, "products")
    n, d_k = found.numel(), call.sizes["d_k"]
    changed = f"{n} dot products of {d_k} products each: {span(found)}, standard deviation {spread(found)}."
    return _stage(call, "products", "Q Kᵀ", "products", found, changed)


def scale(call: Call) -> Stage:
    """So that the spread of the scores does not grow with d_k."""
    before, found = _scores(call, "products"), _scores(call, "scale")
    factor, d_k = call.step.scoring.scale, call.sizes["d_k"]
    root = f" (1/√{d_k})" if abs(factor - d_k**-0.5) < 1e-9 else f", not 1/√{d_k} = {number(d_k**-0.5)}"
    by = f"Every product was multiplied by {number(factor)}{root}"
    changed = f"{by}: the standard deviation went from {spread(before)} to {spread(found)}."
    return _stage(call, "scale", "Scale", "scaled", found, changed)


def softcap(call: Call) -> Stage:
    """Some models bound their scores."""
    cap = call.step.scoring.softcap
    if cap is None:
        return _stage(call, "softcap", "Softcap", missing="This call has no softcap: its scores are not bounded.")
    before, found = _scores(call, "scale"), _scores(call, "softcap")
    changed = f"Scores stay within ±{number(cap)}: {span(before)} became {span(found)}."
    return _stage(call, "softcap", "Softcap", "capped", found, changed)


def bias(call: Call) -> Stage:
    """Some models add a number to each score by where query and key stand."""
    if not call.step.scoring.bias:
        return _stage(call, "bias", "Bias", missing="This call has no bias: nothing is added to its scores.")
    found = _scores(call, "bias")
    added = _scores(replace(call, step=replace(call.step, query=torch.zeros_like(call.step.query))), "bias")
    some = int((added != 0).sum())
    changed = f"{span(added)} was added; to {some} of {added.numel()} scores something other than 0."
    return _stage(call, "bias", "Bias", "biased", found, changed, extra={"added": added})


def temperature(call: Call) -> Stage:
    """Below 1 it sharpens, above 1 it flattens."""
    divisor = call.step.scoring.temperature
    if divisor == 1:
        return _stage(call, "temperature", "Temperature", missing="The temperature is 1: nothing is divided.")
    before, found = _scores(call, "bias"), _scores(call, "temperature")
    changed = f"Scores were divided by {number(divisor)}: {span(before)} became {span(found)}."
    return _stage(call, "temperature", "Temperature", "tempered", found, changed)


def mask(call: Call) -> Stage:
    """What a query may not look at."""
    if call.step.mask is None:
        return _stage(call, "mask", "Mask", missing="This call has no mask: every query may attend to every key.")
    allowed = call.step.may_attend(call.head, call.rows, call.columns, **call.where)
    closed = int((~allowed).sum())
    many = f"{closed} of {allowed.numel()} cells"
    if call.knobs.mask_after_softmax:
        found = knobs.weights(call.step, call.head, call.rows, call.knobs, **call.where)[:, call.columns]
        changed = f"{many} were set to 0 after the softmax, which is wrong: what they had is lost, {_sums(call)}."
    else:
        given = {"knobs": call.knobs} | call.where
        found = knobs.masked_scores(call.step, call.head, call.rows, **given)[:, call.columns]
        did = "were replaced by -∞" if call.knobs.masking == "replace" else "had -1e9 added"
        changed = f"{many} {did}; {allowed.numel() - closed} stay as they are."
    return _stage(call, "mask", "Mask", "masked", found, changed, extra={"may_attend": allowed})


def softmax(call: Call) -> Stage:
    """Scores become weights."""
    found = knobs.softmax(call.step, call.head, call.rows, call.knobs, **call.where)
    policy = not call.knobs.mask_after_softmax and call.knobs.masking == "replace"
    empty = int(call.step.empty_queries(call.head, **call.where)[call.rows].sum()) if policy else 0
    left = f" {empty} row(s) have no key left and get '{call.step.scoring.empty_rows}'." if empty else ""
    largest = number(found.nan_to_num().max()) if found.numel() else "0"
    changed = f"Each row became weights between 0 and 1 that sum to 1; the largest is {largest}.{left}"
    return _stage(call, "softmax", "Softmax", "weights", found[:, call.columns], changed)


def dropout(call: Call) -> Stage:
    """In training some weights are left out."""
    p = call.knobs.dropout_p
    if not p:
        missing = "Nothing is dropped: dropout belongs to training, and this is evaluation."
        return _stage(call, "dropout", "Dropout", missing=missing)
    before = knobs.weights(call.step, call.head, call.rows, call.knobs, **call.where)
    found = call.weights(call.head)
    lost = int(((before > 0) & (found == 0)).sum())
    many = f"{lost} of {int((before > 0).sum())} weights above 0 were dropped"
    changed = f"{many}, the others divided by {number(1 - p)}: {_sums(call)}."
    return _stage(call, "dropout", "Dropout", "dropped", found[:, call.columns], changed)


def _sums(call: Call) -> str:
    sums = call.weights(call.head).double().sum(-1)
    known = sums[sums.isfinite()]
    return f"rows sum to between {number(known.min())} and {number(known.max())}" if len(known) else "no row has a sum"


def _scores(call: Call, stage: str) -> Tensor:
    """The scores as they are after a stage."""
    return until(call.step, stage).scores(call.head, call.rows, call.columns, **call.where)


def _stage(
    call: Call,
    key: str,
    title: str,
    name: str = "",
    values: Tensor | None = None,
    changed: str = "",
    *,
    extra: dict[str, Tensor] | None = None,
    missing: str | None = None,
) -> Stage:
    """A stage of the shape of the scores; of a read-only model only weights are known."""
    shown = {"equation": equations.equation(equations.attend(call.step, call.knobs), key)}
    shown |= call.shape("B", "H", "Q", "K")
    if call.record.read_only and key in ("products", "scale", "softcap", "bias", "temperature"):
        return Stage(key, title, **shown, missing=READ_ONLY)
    if missing is not None:
        return Stage(key, title, **shown, missing=missing)
    tables = {name: values} | (extra or {})
    matrices = tuple(call.square(key, key.replace("_", " "), table) for key, table in tables.items())
    changed = f"{call.of_window} {changed[:1].upper()}{changed[1:]}".strip()
    return Stage(key, title, **shown, matrices=matrices, changed=changed)
