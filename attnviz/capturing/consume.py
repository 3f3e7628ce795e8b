"""Where weights meet the values: a product that sums over the keys. What is done to weights before is noticed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing import products
from attnviz.capturing.call import Call, kept
from attnviz.capturing.checking import Sample
from attnviz.capturing.layout import Plain, Scores, Weights
from attnviz.capturing.products import Product
from attnviz.capturing.scores import scores
from attnviz.capturing.shapes import folded, split
from attnviz.capturing.watched import Watched
from attnviz.capturing.where import causal
from attnviz.core.tap import Tap

CLOSE = {"atol": 1e-4, "rtol": 1e-2, "equal_nan": True}


def multiply(mode: Watched, func: Callable, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """The result of a product; weights in it meet their values, and two other tensors may be queries and keys."""
    product = products.read(func.__name__, args, kwargs)
    if product is None:
        return func(*args, **kwargs)
    for side, tensor in enumerate((product.left, product.right)):
        known = mode.tracked.get(tensor)
        if isinstance(known, Weights):
            changed = _meet(mode, product, side, known)
            if changed is not None:
                args = _with(args, tensor, changed)
                kwargs = {name: _with(one, tensor, changed) for name, one in kwargs.items()}
            output = func(*args, **kwargs)
            mode.origins.begin(output)
            return output
    given = func(*args, **kwargs)
    known = map(mode.tracked.get, (product.left, product.right))
    found = scores(product, given.dtype, *(one for one in known if isinstance(one, Plain)))
    if found is not None:
        found = replace(found, same=mode.origins.are_same(product.left, product.right))
    mode.tracked.put(given, found)
    return given


def _with(given: Any, old: Tensor, new: Tensor) -> Any:
    """Arguments with another tensor in the place of one."""
    if isinstance(given, tuple | list):
        return type(given)(_with(one, old, new) for one in given)
    return new if given is old else given


def _meet(mode: Watched, product: Product, side: int, known: Weights) -> Tensor | None:
    """Complete the call of some weights; gives other weights to multiply, if the edits ask for them here."""
    own, other, out = product.letters[side], product.letters[1 - side], product.letters[2]
    axis = {canonical: own[place] for place, canonical in enumerate(known.axes)}
    keys, queries = axis[known.keys_axis], axis[known.queries_axis]
    if keys not in other or keys in out or queries in other:
        name = known.call and (known.call.name or "the model")
        if set(own) & set(other) - set(out) and known.call is not None and known.call.value is None:
            known.call.unmet = f"{name} mixes the weights of heads or queries after the softmax"
        if keys in other and keys not in out and known.call is not None:
            mode.seen.note(f"{name} adds values that differ between queries")
        return None
    lead = "".join(axis[place] for place in range(len(known.lead)))
    rest = "".join(letter for letter in other if letter not in (*lead, keys))
    value = product.arranged(1 - side, lead, keys, rest)
    tensor = (product.left, product.right)[side]
    if known.call is None:
        if isinstance(mode.tracked.get((product.right, product.left)[side]), Scores):
            return mode.seen.note("what meets a softmax is a product of keys and values: linear attention has no map")
        same = mode.origins.are_same(tensor, (product.right, product.left)[side])
        return _only_weights(mode, known, tensor, value, same)
    if known.call.value is not None:
        return None
    if known.is_changed and not _as_before(mode, known, tensor):
        known.call.refused = f"{known.call.name} changes the weights after the softmax"
        return None
    known.call.value = kept(folded(value, known.lead, known.call.query.shape[:2]))
    return None


def _as_before(mode: Watched, known: Weights, tensor: Tensor) -> bool:
    """Whether weights to which something was done are still what the softmax gave; empty rows may have become zero."""
    call = known.call
    with torch.no_grad(), torch.device(tensor.device):
        expected = Tap(mode.edits_of(call), keep=False).weights(**call.computed_from(), site=call.site)
        now = known.canonical(tensor.detach())
        now = now.reshape(*expected.shape[:2], *now.shape[-2:]).to(expected.dtype)
        has_sink = expected.shape[-1] > now.shape[-1]
        expected = expected[..., : now.shape[-1]]
        if torch.allclose(now, expected, **CLOSE):
            return True
        if not torch.allclose(now, expected.masked_fill(~_filled(call, expected), 0), **CLOSE):
            return False
    call.empty_becomes("zero")
    if not has_sink:
        call.samples = (Sample.of(now, tensor.dtype),)
    return True


def _filled(call: Call, weights: Tensor) -> Tensor:
    """Which rows have an open key, (B, H, Q, 1)."""
    if call.mask is None:
        return torch.ones((), dtype=torch.bool, device=weights.device)
    return call.mask.any(-1, keepdim=True)


def _only_weights(mode: Watched, known: Weights, tensor: Tensor, value: Tensor, same: bool | None) -> Tensor | None:
    """Weights whose scores are not known: they are kept as they are, and edits that need no scores act."""
    place = mode.place((tensor,))
    weights = known.canonical(tensor)
    if place is None or products.is_learned(value) or known.has_sink:
        return None
    sizes = split(known.lead, mode.heads, place.said_heads, place.batches)
    weights = weights.reshape(*sizes, *weights.shape[-2:])
    parts = {"query": None, "key": None, "value": folded(value, known.lead, sizes), "weights": weights}
    call = mode.call(place, "weights", causal(weights > 0), same, **parts)
    stored = mode.keep(call, place)
    if not call.is_edited:
        stored.samples = (Sample.of(weights),)
        return None
    changed = mode.edited_weights(call, weights)
    stored.samples = (Sample.of(changed, weights.dtype),)
    return known.back(changed.reshape(*known.lead, *changed.shape[-2:])).to(tensor.dtype)
