"""Capture the softmax, whose weights are attention if they are later multiplied by values; edits act on its scores. The
product with the values is recognized by its numbers, so the operations in between need not be known."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations
from math import prod
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing.axes import Lead, Product, is_learned, is_plain, read_product
from attnviz.capturing.call import BLOCKED, Call, score_fields
from attnviz.capturing.call_site import CallPlace, hides_future
from attnviz.capturing.scores import LOST, Scores, compact, empty_rows_of
from attnviz.capturing.tracker import Tracker
from attnviz.capturing.verify import Sample
from attnviz.core.errors import ShapeError
from attnviz.core.scoring import Scoring

SOFTMAXES = ("softmax", "_softmax", "special_softmax")
DROPOUTS = ("dropout", "dropout_")
WRONG_AXIS = "rows do not sum to 1, so they are not weights"
LATE_MASK = "masks after the softmax"
"""Phrase in `Capture.findings` for a mask that is applied after the softmax."""
CLOSE = {"atol": 1e-7, "rtol": 1e-4, "equal_nan": True}
CLOSE_AFTER_CAST = {"atol": 1e-6, "rtol": 1e-2, "equal_nan": True}
"""Tolerances for weights: for rounding, and for a cast to another dtype."""


@dataclass(eq=False)
class Softmax:
    """A softmax of the model, kept until its weights are multiplied by values."""

    name: str  # name of the module that called it
    shape: tuple[int, ...]
    axes: tuple[int, ...]  # order of its axes: (*lead, Q, K) for tracked scores, else the axis of the softmax last
    of_product: bool  # whether its scores come from a product of queries and keys
    weights: Tensor | None = None  # copy of its result, in this axis order
    passed_on: Tensor | None = None  # weights after dropout, without a sink
    scores: Tensor | None = None  # copy of its input, in this axis order, if only the weights are known
    call: Call | None = None  # attention call; None until one is recognized
    lead: Lead | None = None  # axes of the call before (Q, K)
    why_not: str = ""  # reason why its weights cannot be shown; "" if there is none so far
    is_placed: bool = False  # whether its weights are shown, or reported already

    @property
    def sentence(self) -> str:
        """Message that names the softmax, and says why its weights cannot be shown."""
        shape = " x ".join(map(str, self.shape))
        why_not = self.why_not or "its weights are not multiplied by values, or change after the softmax"
        return f"{self.name} takes a softmax of {shape}, and {why_not}"

    def refuse(self, why: str) -> None:
        """Record why the weights cannot be shown as a map, unless a product with values shows that they can."""
        if self.call is None:  # not recognized as attention so far: `sentence` gives the reason
            self.why_not = why
        elif self.call.value is None:  # the report on this attention call gives it
            self.call.no_values = f"{self.name} {why}"

    @property
    def is_met(self) -> bool:
        """Whether the weights of this softmax were multiplied by values."""
        return self.call is not None and self.call.value is not None

    @torch.no_grad()
    def find(self, tensor: Tensor, is_exact: bool) -> tuple[int, ...] | None:
        """Find the axis order that permutes a tensor to the weights of this softmax; None if it holds other numbers.
        The axes before queries and keys may be joined or split; unless `is_exact`, cells may be zeroed or rounded."""
        weights, numbers = self.passed_on, tensor.detach()
        if weights is None or numbers.numel() != weights.numel() or numbers.device != weights.device:
            return None
        corner = (slice(2),) * weights.dim()  # compared first: a cheap test that rejects nearly all other tensors
        tolerances = CLOSE if numbers.dtype == weights.dtype else CLOSE_AFTER_CAST
        is_equal = torch.equal if is_exact else partial(torch.allclose, **tolerances)
        for order in self._orders(numbers):
            values = numbers.permute(order).reshape(weights.shape).to(weights.dtype)
            expected = weights if is_exact else weights.masked_fill(values == 0, 0)
            if is_equal(values[corner], expected[corner]) and is_equal(values, expected):
                return order if values.any() or not weights.any() else None
        return None

    def _orders(self, tensor: Tensor) -> Iterator[tuple[int, ...]]:
        """Yield the axis orders in which a tensor may have the shape of the weights, the likeliest first."""
        sizes, axes = self.passed_on.shape, range(tensor.dim())
        if len(axes) == len(sizes):
            for order in sorted(permutations(axes), key=lambda order: order != self.axes):
                if tuple(tensor.shape[axis] for axis in order) == sizes:
                    yield order
        else:
            for key_axis in reversed(axes):
                if tensor.shape[key_axis] == sizes[-1]:
                    yield (*(axis for axis in axes if axis != key_axis), key_axis)

    def forget(self) -> None:
        """Free the copies of weights and scores."""
        self.weights = self.passed_on = self.scores = None


def softmax(mode: Tracker, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Run a softmax and register it; return its result, edited if its scores are a product of queries and keys."""
    scores = args[0] if args else kwargs.get("input", kwargs.get("self"))
    tracked = mode.tracked.get(scores)
    result = func(*args, **kwargs)
    dims = [dim for dim in (kwargs.get("dim"), *args[1:]) if type(dim) is int]
    place = mode.place((scores,)) if dims and result.dim() > 1 else None
    if place is None:
        return result
    edited = _register_softmax(mode, place, tracked, scores, result, dims[0] % result.dim())
    return result if edited is None else edited.to(result.dtype)


def _register_softmax(
    mode: Tracker, place: CallPlace, tracked: Scores | str | None, scores: Tensor, weights: Tensor, axis: int
) -> Tensor | None:
    """Register a softmax until its weights are multiplied by values; return edited weights, or None without edits.
    `tracked` is the entry of the scores in `mode.tracked`: see `carry`."""
    of_product = tracked == LOST or isinstance(tracked, Scores)
    form = tracked.for_softmax(axis) if isinstance(tracked, Scores) else None
    if form is None and not of_product and any(size > 1 for size in weights.shape[axis + 1 :]):
        return None  # a softmax over features, as in linear attention
    axes = (*(other for other in range(weights.dim()) if other != axis), axis)
    pending = Softmax(mode.name(place), tuple(weights.shape), axes, of_product)
    mode.begin_softmax(pending)
    solution = form and form.solve(form.arranged(scores.detach()))
    if not solution:  # keep weights and scores; the queries and keys stay unknown
        pending.scores = scores.permute(axes).clone()
        pending.weights = pending.passed_on = weights.detach().permute(axes).clone()
        return None
    try:
        pending.lead = mode.lead(place, form.lead)
    except ShapeError as error:
        pending.refuse(str(error))
        return None
    pending.axes, pending.is_placed = tuple(form.order), True
    fold, fold_mask, sizes = pending.lead.fold, pending.lead.fold_mask, pending.lead.sizes
    tensors = [solution[name] for name in ("mask", "bias", "sink")]
    mask, bias, sinks = (tensor if tensor is None else fold_mask(tensor) for tensor in tensors)
    sinks = None if sinks is None else sinks.expand(*sizes, *sinks.shape[-2:])
    scale = form.scale * (form.outer or 1.0)
    scoring = Scoring(scale=scale, softcap=form.outer, bias=bias, empty_rows=solution["empty_rows"])
    fields = {"query": fold(form.query), "key": fold(form.key), "value": None, "sinks": sinks}
    call = mode.call(place, hides_future(mask), mask=mask, scoring=scoring, **fields)
    pending.call = mode.keep(call, place)
    folded, edited = fold(form.arranged(weights)), None
    if call.is_edited:
        known_scores = None if form.has_sink else fold(form.arranged(scores))
        folded = mode.edited_weights(call, folded, known_scores)
        shape = tuple(weights.shape[other] for other in pending.axes)
        edited = pending.lead.unfold(folded).reshape(shape).movedim([*range(len(shape))], pending.axes)
    pending.call.samples = (Sample.of(folded, weights.dtype, form.dtype, scores.dtype),)
    pending.weights = form.arranged(weights if edited is None else edited).detach().clone()
    pending.passed_on = pending.weights[..., :-1] if form.has_sink else pending.weights
    return edited


def multiply(mode: Tracker, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Run a product: if one side holds weights, complete their call, else track the result as possible scores."""
    name = func.__name__.partition(".")[0]
    product = read_product(name, args, kwargs)
    matches = [None, None] if product is None else [mode.find_softmax(side) for side in product.sides]
    pending = None  # softmax whose weights are one side of the product
    if all(matches):
        matches[0][0].refuse("multiplies weights after the softmax by weights, not by values")
    elif any(matches):
        side = 0 if matches[0] else 1
        pending, order = matches[side]
        edited = _match_values(mode, product, side, pending, order)
        if edited is not None:
            args = _replace_tensor(args, product.sides[side], edited)
            kwargs = {key: _replace_tensor(value, product.sides[side], edited) for key, value in kwargs.items()}
    result = func(*args, **kwargs)
    if pending is not None and pending.is_met:
        mode.await_order(pending.call, result)
    elif product is not None and not any(map(is_learned, product.sides)):
        factor = prod(known for known in map(mode.tracked.get, product.sides) if isinstance(known, float))
        scores = Scores.of(product, result.dtype, factor, mode.num_heads)
        if scores is not None and name.startswith("baddbmm"):
            added = args[0] if args else kwargs["input"]
            scores = scores.times(kwargs.get("alpha", 1), 1).plus(added, float(kwargs.get("beta", 1)))
        if scores is not None:
            mode.tracked[result] = scores
    return result


def dropout(mode: Tracker, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Run dropout, and remember its result if it was applied to weights."""
    match = mode.find_softmax(args[0]) if args and is_plain(args[0]) else None
    result = func(*args, **kwargs)
    if match:
        pending, order = match
        pending.passed_on = result.detach().permute(order).reshape(pending.passed_on.shape).clone()
    return result


def _replace_tensor(arguments: Any, old: Tensor, new: Tensor) -> Any:
    """Replace a tensor in an argument, also in nested tuples and lists."""
    if isinstance(arguments, tuple | list):
        return type(arguments)(_replace_tensor(argument, old, new) for argument in arguments)
    return new if arguments is old else arguments


def _match_values(
    mode: Tracker, product: Product, side: int, pending: Softmax, order: tuple[int, ...]
) -> Tensor | None:
    """Complete the call of a softmax with the values that a product multiplies its weights by; refuse the softmax if
    that is not attention. The weights are on `side` of the product, 0 or 1; `order` permutes this side to the axes of
    the softmax, keys last. Return edited weights to multiply instead, or None."""
    weight_axes, value_axes, out = product.letters[side], product.letters[1 - side], product.letters[2]
    weights, values = product.sides[side], product.sides[1 - side]
    *others, keys = (weight_axes[axis] for axis in order)  # letters
    has_scores = pending.call is not None and not pending.call.weights_only
    if keys not in value_axes or keys in out:  # the product does not sum over the keys
        summed = [letter for letter in weight_axes if letter in value_axes and letter not in out]
        if summed and keys not in value_axes and others[-1:] != summed[:1]:
            pending.refuse("mixes the weights of heads or queries after the softmax")
        elif summed and pending.of_product:
            axes = f"the softmax is over axis {weight_axes.index(keys)}, and the values are summed over axis"
            pending.refuse(f"{axes} {weight_axes.index(summed[0])} of {len(weight_axes)}: {WRONG_AXIS}")
    elif has_scores and others[-1] in value_axes:  # the values have an axis of queries
        mode.captured.notes.append(f"{pending.name} adds values that differ between queries")
    elif is_learned(values):  # a table of words or classes
        pending.is_placed = True
        pending.refuse("multiplies weights by learned numbers after the softmax")
    elif pending.is_met and pending.call.weights_only and pending.call.is_edited:
        pending.call.refused = f"{pending.name} multiplies its weights by several values; edits act on only one"
    elif pending.call is None:
        return _keep_unknown_call(mode, product, side, pending, order)
    elif not pending.is_met:
        multiplied = weights.permute(order).reshape(pending.passed_on.shape)
        _report_zeros(mode, pending.call, pending.lead.fold(multiplied), pending.lead.fold(pending.passed_on))
        pending.call.value = pending.lead.fold(product.values(side, others[:-1], keys)).detach().clone()
    return None


def _keep_unknown_call(
    mode: Tracker, product: Product, side: int, pending: Softmax, order: tuple[int, ...]
) -> Tensor | None:
    """Keep an attention call of which only the weights are known; arguments and result as in `_match_values`."""
    tensor, letters = product.sides[side], product.letters[side]
    values, value_letters = product.sides[1 - side], product.letters[1 - side]
    place, size_of = mode.place((tensor,)), dict(zip(letters, tensor.shape, strict=True))
    keys, queries = letters[order[-1]], [letter for letter in letters if letter not in value_letters]
    has_lead = any(letter in value_letters for letter in letters if letter != keys)
    if len(queries) > 1 and has_lead:
        queries = [letter for letter in queries if size_of[letter] not in mode.num_heads()]
    if len(queries) != 1:
        pending.refuse(f"has values that are the same along {len(queries)} of its axes, not one of queries")
        return None
    lead = [letter for letter in letters if letter not in (*queries, keys)]
    sizes = tuple(size_of[letter] for letter in lead)
    pending.is_placed = True
    if isinstance(mode.tracked.get(values), Scores):
        mode.captured.notes.append("a softmax is multiplied by keys and values: linear attention has no map")
        return None
    if place is None:
        return None
    if not pending.of_product and size_of[queries[0]] == 1 and place.batches:
        counts = {batch * count for batch in place.batches for count in (1, *mode.num_heads())}
        if prod(sizes) not in {1, *counts}:
            return None  # a convolution with one kernel per position
    pending.lead, axes = mode.lead(place, sizes), [letters.index(letter) for letter in (*lead, *queries, keys)]

    def fold(softmax_tensor: Tensor) -> Tensor:
        """Reshape a tensor in the axis order of the softmax to (B, H, Q, K)."""
        ordered = softmax_tensor.reshape(tuple(tensor.shape[axis] for axis in order))
        return pending.lead.fold(ordered.permute([order.index(axis) for axis in axes]))

    weights, scores = fold(pending.weights), fold(pending.scores)
    blocked = scores.detach() < BLOCKED
    empty_rows = empty_rows_of(blocked, scores.detach())
    if empty_rows is None:  # rows without an open key have unequal weights: treat all their keys as open
        blocked, empty_rows = blocked & ~blocked.all(-1, keepdim=True), "zero"
    mask = compact(~blocked) if bool(blocked.any()) else None
    value = pending.lead.fold(product.values(side, lead, keys))
    fields = score_fields(scores, mask, empty_rows)
    call = mode.call(place, hides_future(mask), **fields, value=value, weights_only=True)
    pending.call = mode.keep(call, place)
    _report_zeros(mode, pending.call, fold(tensor.permute(order)), fold(pending.passed_on))
    edited = mode.edited_weights(call, weights, None) if call.is_edited else weights
    pending.call.samples = (Sample.of(edited, pending.weights.dtype),)
    if not call.is_edited:
        return None
    multiplied = fold(tensor.detach().permute(order))
    if not torch.equal(multiplied, weights):  # dropout or a mask zeroed and scaled cells after the softmax
        edited = edited * (multiplied / weights).nan_to_num(1.0)
    return pending.lead.unfold(edited).movedim([*range(len(axes))], axes).to(tensor.dtype)


@torch.no_grad()
def _report_zeros(mode: Tracker, call: Call, weights: Tensor, softmax_weights: Tensor) -> None:
    """Report weights, (B, H, Q, K), that were set to 0 after the softmax, except in rows without an open key."""
    was_positive = (softmax_weights > CLOSE_AFTER_CAST["atol"]) | softmax_weights.isnan()
    is_zeroed = (weights == 0) & was_positive
    has_keys = torch.tensor(True) if call.mask is None else call.mask.any(-1, keepdim=True)
    is_zeroed_open = is_zeroed & has_keys.to(weights.device)
    is_whole_row = ~(weights != 0).any(-1, keepdim=True)  # may be a query of padding
    if bool((is_zeroed_open & ~is_whole_row).any()):
        lowest = f"rows sum to as little as {weights.sum(-1).min():.2g}. The map shows the result of the softmax"
        problem = f"{LATE_MASK}: {int(is_zeroed.sum())} weights become 0, and {lowest}"
        mode.captured.findings.append(f"{call.site} ({call.name or mode.captured.name}) {problem}")
    elif bool(is_zeroed.any()) and not bool(is_zeroed_open.any()):
        call.scoring = replace(call.scoring, empty_rows="zero")
