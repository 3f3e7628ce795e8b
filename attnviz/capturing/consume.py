"""Products of weights and values, which sum over the keys. Changes to the weights before them are noticed."""

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing import products
from attnviz.capturing.call import Call, detached_copy
from attnviz.capturing.checking import Sample
from attnviz.capturing.layout import Loose, Plain, Scores, TracedProducts, TracedWeights
from attnviz.capturing.products import Product
from attnviz.capturing.scores import SUM, mixed, scores
from attnviz.capturing.shapes import axis_of_heads, folded, split
from attnviz.capturing.watched import Watched
from attnviz.capturing.where import causal
from attnviz.core.tap import Tap

WRONG_AXIS = "rows do not sum to 1, so they are no weights"
LATE_MASK = "masks after the softmax"
"""Part of a sentence of `Capture.findings` about a mask that is applied after the softmax."""
CLOSE = {"atol": 1e-4, "rtol": 1e-2, "equal_nan": True}


def multiply(mode: Watched, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """The result of a product; weights in it meet their values, and two other tensors may be queries and keys."""
    product = products.read(func.__name__, args, kwargs)
    if product is None:
        for layout in map(mode.tracked.get, args):
            if isinstance(layout, TracedWeights | Loose):
                mixed(layout, func.__name__)  # with learned numbers
        return func(*args, **kwargs)
    for side, tensor in enumerate((product.left, product.right)):
        layout = mode.tracked.get(tensor)
        if isinstance(layout, TracedWeights | Loose):
            layout = _arranged(mode, product, side, layout) if isinstance(layout, Loose) else layout
            changed = layout and _meet(mode, product, side, layout)
            if changed is not None:
                args = _with(args, tensor, changed)
                kwargs = {name: _with(argument, tensor, changed) for name, argument in kwargs.items()}
            output = func(*args, **kwargs)
            mode.origins.begin(output)
            return output
    result = func(*args, **kwargs)
    layouts = map(mode.tracked.get, (product.left, product.right))
    candidate = scores(product, result.dtype, *(plain for plain in layouts if isinstance(plain, Plain)))
    if candidate is not None:
        candidate = replace(candidate, same=mode.origins.are_same(product.left, product.right))
    mode.tracked.put(result, candidate)
    return result


def total(mode: Watched, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result of a sum; weights times values in it meet there, as in additive attention."""
    result, spread = func(*args, **kwargs), mode.tracked.get(args[0]) if args else None
    if not isinstance(spread, TracedProducts):
        return result
    dim = kwargs.get("dim", kwargs.get("axis", args[1] if len(args) > 1 else None))
    dim = dim[0] if isinstance(dim, tuple | list) and len(dim) == 1 else dim
    axis, softmax, weights = spread.loose.axis, spread.loose.softmax, spread.weights
    if type(dim) is not int or dim % args[0].dim() != axis:
        return result
    after = [place for place in range(axis + 1, weights.dim()) if weights.shape[place] > 1]
    if after:
        softmax.why_not = "its weights differ along an axis of the values"
        return result
    lead = tuple(weights.shape[:axis])
    softmax.is_placed = True
    layout = TracedWeights(lead=lead, axes=tuple(range(axis + 2)))
    value = spread.values.flatten(axis + 1) if axis + 1 < spread.values.dim() else spread.values.unsqueeze(-1)
    own = weights.reshape(*lead, 1, weights.shape[axis])
    changed = _only_weights(mode, layout, own, value, False)
    if changed is not None:
        result = func(changed.reshape(weights.shape) * spread.values, *args[1:], **kwargs)
    mode.origins.begin(result)
    return result


def _with(arguments: Any, old: Tensor, new: Tensor) -> Any:
    """Arguments with another tensor in the place of one."""
    if isinstance(arguments, tuple | list):
        return type(arguments)(_with(argument, old, new) for argument in arguments)
    return new if arguments is old else arguments


def _arranged(mode: Watched, product: Product, side: int, loose: Loose) -> TracedWeights | None:
    """Weights of unknown scores with their axes as the product has them; None if they do not meet values there."""
    own, other, out = product.letters[side], product.letters[1 - side], product.letters[2]
    keys, softmax = own[loose.axis], loose.softmax
    tensor, values = (product.left, product.right)[side], (product.right, product.left)[side]
    if keys not in other or keys in out:
        summed = [place for place, letter in enumerate(own) if letter in other and letter not in out]
        if summed and keys in out and softmax.of_product:
            axes = f"the softmax is over axis {loose.axis}, and the values are summed over axis {summed[0]}"
            softmax.why_not = f"{axes} of {tensor.dim()}: {WRONG_AXIS}"
        return None
    if products.is_learned(values):
        softmax.is_placed = True  # a table of words or classes
        return None
    lead = [place for place, letter in enumerate(own) if letter in other and letter in out]
    queries = [place for place, letter in enumerate(own) if letter not in other and place != loose.axis]
    if len(queries) != 1:
        softmax.why_not = f"its values are the same along {len(queries)} of its axes, not along one of queries"
        return None
    sums = tensor.detach().sum(loose.axis)
    if loose.is_changed and not torch.allclose(sums, torch.ones_like(sums), atol=SUM):
        softmax.why_not = "its weights are changed after it, so that they do not sum to 1"
        return None
    softmax.is_placed = True
    if tensor.shape[queries[0]] == 1 and not softmax.of_product and prod(tensor.shape) != tensor.shape[loose.axis]:
        place = mode.place((tensor,))
        if place is not None and prod(tensor.shape[axis] for axis in lead) not in place.batches:
            return None  # the kernel of a convolution, one for each position
    order = [*lead, *queries, loose.axis]
    axes = tuple(order.index(place) for place in range(tensor.dim()))
    return TracedWeights(lead=tuple(tensor.shape[place] for place in lead), axes=axes)


def _meet(mode: Watched, product: Product, side: int, layout: TracedWeights) -> Tensor | None:
    """Complete the call of some weights; gives other weights to multiply, if the edits ask for them here."""
    own, other, out = product.letters[side], product.letters[1 - side], product.letters[2]
    axis = {canonical: own[place] for place, canonical in enumerate(layout.axes)}
    keys, queries = axis[layout.keys_axis], axis[layout.queries_axis]
    if keys not in other or keys in out or queries in other:
        name = layout.call and (layout.call.name or "the model")
        is_turned = queries in other and queries not in out and keys in out and not layout.is_changed
        if is_turned and layout.call is not None and layout.call.value is None:
            layout.call.unmet = f"{name} takes the softmax over its queries, not over the keys: {WRONG_AXIS}"
        elif set(own) & set(other) - set(out) and layout.call is not None and layout.call.value is None:
            layout.call.unmet = f"{name} mixes the weights of heads or queries after the softmax"
        if keys in other and keys not in out and layout.call is not None:
            mode.captured.note(f"{name} adds values that differ between queries")
        return None
    lead = "".join(axis[place] for place in range(len(layout.lead)))
    rest = "".join(letter for letter in other if letter not in (*lead, keys))
    value = product.arranged(1 - side, lead, keys, rest)
    tensor = (product.left, product.right)[side]
    if layout.call is None:
        if isinstance(mode.tracked.get((product.right, product.left)[side]), Scores):
            return mode.captured.note(
                "what meets a softmax is a product of keys and values: linear attention has no map"
            )
        same = mode.origins.are_same(tensor, (product.right, product.left)[side], is_weights=True)
        return _only_weights(mode, layout, tensor, value, same)
    if layout.call.value is not None:
        return None
    if layout.is_changed and not _as_before(mode, layout, tensor):
        layout.call.refused = f"{layout.call.name or 'the model'} changes the weights after the softmax"
        return None
    layout.call.value = detached_copy(folded(value, layout.lead, layout.call.query.shape[:2]))
    return None


def _as_before(mode: Watched, layout: TracedWeights, tensor: Tensor) -> bool:
    """Whether weights to which something was done are still what the softmax gave; empty rows may have become zero."""
    call = layout.call
    with torch.no_grad(), torch.device(tensor.device):
        expected = Tap(mode.edits_of(call), keep=False).weights(**call.computed_from(), site=call.site)
        now = layout.canonical(tensor.detach())
        now = now.reshape(*expected.shape[:2], *now.shape[-2:]).to(expected.dtype)
        has_sink = expected.shape[-1] > now.shape[-1]
        expected = expected[..., : now.shape[-1]]
        if torch.allclose(now, expected, **CLOSE):
            return True
        if not torch.allclose(now, expected.masked_fill(~_filled(call, expected), 0), **CLOSE):
            return _is_masked(mode, call, now, expected)
    call.empty_becomes("zero")
    if not has_sink:
        call.samples = (Sample.of(now, tensor.dtype),)
    return True


def _is_masked(mode: Watched, call: Call, now: Tensor, expected: Tensor) -> bool:
    """Whether some weights became 0 after the softmax and all others are as they were; that is told."""
    is_zero = (now == 0) & (expected > 0)
    if not torch.allclose(now, expected.masked_fill(is_zero, 0), **CLOSE) or bool(is_zero.all()):
        return False
    least, name = float(now.sum(-1).min()), call.name or mode.captured.name
    what = f"{LATE_MASK}: {int(is_zero.sum())} weights become 0, and rows sum to as little as {least:.2g}"
    mode.captured.findings.append(f"{call.site} ({name}) {what}. Shown are the weights that the softmax gave")
    return True


def _filled(call: Call, weights: Tensor) -> Tensor:
    """Which rows have an open key, (B, H, Q, 1)."""
    if call.mask is None:
        return torch.ones((), dtype=torch.bool, device=weights.device)
    return call.mask.any(-1, keepdim=True)


def _only_weights(
    mode: Watched, layout: TracedWeights, tensor: Tensor, value: Tensor, same: bool | None
) -> Tensor | None:
    """Weights whose scores are not known: they are kept as they are, and edits that need no scores act."""
    place = mode.place((tensor,))
    if place is None or products.is_learned(value) or layout.has_sink:
        return None
    axis = axis_of_heads(layout.lead, mode.heads_of(place))
    value = value.expand(*layout.lead, *value.shape[-2:]).movedim(axis, max(0, len(layout.lead) - 1))
    layout = layout.with_last(axis)
    weights = layout.canonical(tensor)
    sizes = split(layout.lead, mode.heads, place.said_heads, place.batches)
    weights = weights.reshape(*sizes, *weights.shape[-2:])
    parts = {"query": None, "key": None, "value": folded(value, layout.lead, sizes), "weights": weights}
    if weights.shape[2] == 1 < weights.shape[3]:
        same = False  # one query, of a recurrent decoder or learned
    call = mode.call(place, "weights", causal(weights > 0), same, **parts)
    stored = mode.keep(call, place)
    if not call.is_edited:
        stored.samples = (Sample.of(weights),)
        return None
    changed = mode.edited_weights(call, weights)
    stored.samples = (Sample.of(changed, weights.dtype),)
    return layout.back(changed.reshape(*layout.lead, *changed.shape[-2:])).to(tensor.dtype)
