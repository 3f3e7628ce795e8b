"""The third route: attention written by hand. What is known of a product q kᵀ is carried along to its softmax."""

from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from attnviz.capturing.layout import KEEP, Loose, Plain, Scores, TensorLayout, TracedProducts, TracedWeights
from attnviz.capturing.products import Product
from attnviz.capturing.softmax import weighed
from attnviz.capturing.watched import Watched

TIMES = frozenset({"mul", "mul_", "multiply", "multiply_", "__mul__", "__rmul__", "__imul__"})
OVER = frozenset({"div", "div_", "divide", "divide_", "true_divide", "__truediv__", "__itruediv__", "__div__"})
PLUS = frozenset({"add", "add_", "__add__", "__radd__", "__iadd__"})
MINUS = frozenset({"sub", "sub_", "subtract", "__sub__", "__isub__"})
TURNS = frozenset({"permute", "transpose", "transpose_", "swapaxes", "swapdims", "movedim"})
VIEWS = frozenset("view reshape flatten unflatten contiguous expand unsqueeze squeeze to float clone".split())
STARTS = TIMES | OVER | {"view", "reshape", "unflatten"}
"""Functions after which something is known of a tensor of which nothing was known."""
EXP = ("exp", "exp_", "exp2", "sigmoid", "relu")
"""Functions that are taken of scores instead of a softmax, or on the way to one."""
CELLS = frozenset(
    "__setitem__ __getitem__ masked_fill masked_fill_ where dropout dropout_ tanh tanh_ nan_to_num nan_to_num_ "
    "clamp clamp_ clip tril tril_ triu triu_ log_softmax special_log_softmax index_fill index_fill_ index_put "
    "index_put_ copy_ scatter scatter_ masked_scatter view reshape expand squeeze unsqueeze square pow __pow__ "
    "relu relu_ abs max min maximum minimum addcmul requires_grad_".split()
)
CELLS |= TIMES | OVER | PLUS | MINUS | KEEP
"""Functions each of whose cells comes from the cell in the same place."""
SUM = 1e-3
"""Difference from 1 of a sum of weights."""
OTHERS = ("_like", "new_", "exp", "sigmoid")
"""Parts of the names of functions that give a tensor of the same shape and other scores."""


def scores(product: Product, dtype: torch.dtype, *plain: Plain) -> Scores | None:
    """A product as scores, if it may be one: queries and keys are the axes that only one side has.

    Args:
        dtype: in which it was computed.
        plain: known properties of either side.
    """
    left, right, out = product.letters
    both, only_left, only_right = set(left) & set(right), set(left) - set(right), set(right) - set(left)
    summed = "".join(letter for letter in left if letter in both and letter not in out)
    if not summed or not only_left <= set(out) or not only_right <= set(out) or not only_left or not only_right:
        return None
    query, key = (max(own, key=out.index) for own in (only_left, only_right))
    lead = "".join(letter for letter in out if letter not in (query, key))
    order = {letter: place for place, letter in enumerate((*lead, query, key))}
    q, k = product.arranged(0, lead, query, summed), product.arranged(1, lead, key, summed)
    sizes = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2])
    axes = tuple(order[letter] for letter in out)
    factor, heads_first = prod(side.factor for side in plain), any(side.heads_first for side in plain)
    sides = {"query": q if factor == 1 else q / factor, "key": k, "dtype": dtype, "scale": product.factor * factor}
    result = Scores(lead=tuple(sizes), axes=axes, **sides, heads_first=heads_first)
    return result if product.added is None else result.plus(*product.added)


def carry(mode: Watched, name: str, args: tuple, kwargs: dict[str, Any], result: Any) -> Any:
    """Carry the layout of an argument on to the result of a function; gives this result."""
    source = next((argument for argument in args if mode.tracked.get(argument) is not None), None)
    layout: TensorLayout | Plain | None = mode.tracked.get(source)
    if layout is None or isinstance(layout, Plain):
        if isinstance(result, Tensor):
            mode.tracked.put(result, _plain(name, args, kwargs, layout or Plain(), result))
        return result
    if name == "__setitem__" and isinstance(layout, TracedWeights | Loose):
        mode.tracked.put(source, layout.after(name))
        return result
    if isinstance(layout, Loose) and name in TIMES and (spread := _spread(layout, source, args, result)):
        mode.tracked.put(result, spread)
        return result
    if name == "exp" and isinstance(layout, Scores) and layout.are_logs and (axis := _sums_to_one(result)) is not None:
        return weighed(mode, source, result, axis)
    if name in EXP and isinstance(layout, Scores) and (place := mode.place((source,))):
        where = place.name or mode.captured.name
        what = f"{where} takes {name}() of products of queries and keys, where a softmax would be seen"
        mode.captured.awaited[where] = what
    if isinstance(result, Tensor) and result.is_floating_point():
        mode.tracked.put(result, result_layout(layout, name, source, args, kwargs, result))
    return result


def _spread(loose: Loose, source: Tensor, args: tuple, result: Any) -> TracedProducts | None:
    """Weights times values, before they are summed: the axes of the values are more."""
    values = next((argument for argument in args[:2] if isinstance(argument, Tensor) and argument is not source), None)
    if values is None or values.shape != result.shape or result.shape == source.shape or source.dim() != result.dim():
        return None
    return TracedProducts(source, values, loose)


def _sums_to_one(weights: Tensor) -> int | None:
    """The axis along which the exponentials of scores are weights already, as after a log_softmax."""
    for axis in (-1, -2) if weights.dim() > 1 else ():
        if bool(((weights.sum(axis) - 1).abs() < SUM).all()):
            return axis
    return None


def result_layout(
    layout: TensorLayout, name: str, source: Tensor, args: tuple, kwargs: dict, result: Tensor
) -> TensorLayout | None:
    """Layout of the result of one function; None if unknown."""
    if name in TURNS:
        return layout.permuted(_order(name, source.dim(), args[1:], kwargs))
    if isinstance(layout, TracedProducts):
        return None
    if result.shape == source.shape:
        if not isinstance(layout, Scores):
            return layout.after(name) if name in CELLS else mixed(layout, name)
        return _rescored(layout, name, source, args, kwargs) if name in CELLS else None
    if result.numel() == source.numel():
        return layout.reshaped(source.shape, result.shape)
    return layout.without_sink(source.shape, result.shape) if isinstance(layout, TracedWeights) else None


def mixed(layout: TracedWeights | Loose, name: str) -> None:
    """Weights after a function that may take one cell from many are none any more."""
    why = f"{name}() changes its weights before they meet values"
    if isinstance(layout, Loose):
        layout.softmax.why_not = why if layout.softmax.of_product else ""
    elif layout.call is not None and layout.call.value is None:
        layout.call.unmet = f"{layout.call.name or 'the model'} mixes weights after the softmax: {why}"


def _rescored(layout: Scores, name: str, source: Tensor, args: tuple, kwargs: dict) -> Scores | None:
    """Scores after a function that changes numbers; of most, only the mask."""
    if any(part in name for part in OTHERS):
        return None
    if "log_softmax" in name:
        return replace(layout, are_logs=True)
    if name.startswith("tanh"):
        return None if layout.outer is not None or layout.terms else replace(layout, outer=1.0)
    others = [argument for argument in args[:2] if argument is not source] + [
        kwargs[key] for key in ("other",) if key in kwargs
    ]
    if not others or name not in TIMES | OVER | PLUS | MINUS:
        return layout
    other, is_first = others[0], args[0] is source
    if name in PLUS or (name in MINUS and is_first):
        factor = float(kwargs.get("alpha", 1)) * (1 if name in PLUS else -1)
        return layout.plus(other, factor) if isinstance(other, Tensor) and other.dim() else layout
    if name in MINUS or (name in OVER and not is_first):
        return None
    return _scaled(layout, other, -1 if name in OVER else 1)


def _plain(name: str, args: tuple, kwargs: dict[str, Any], plain: Plain, result: Tensor) -> Plain | None:
    """Known properties of queries and keys after one function."""
    number = next((argument for argument in args[:2] if isinstance(argument, float)), None)
    if name in TIMES and number:
        plain = replace(plain, factor=plain.factor * number)
    elif name in OVER and number and number is args[1]:
        plain = replace(plain, factor=plain.factor / number)
    elif name in TURNS and plain.axes:
        order = _order(name, len(plain.axes), args[1:], kwargs)
        plain = replace(plain, axes="".join(plain.axes[axis] for axis in order))
    elif name in VIEWS:
        plain = plain.viewed(args[0].shape, result.shape)
    elif name not in TURNS:
        return None
    return None if plain == Plain() else plain


def _scaled(layout: Scores, other: Any, power: int) -> Scores | None:
    """Scores times a number, or times numbers of each head or query, which become part of the queries."""
    if not isinstance(other, Tensor):
        return layout.times(float(other) ** power)
    if other.numel() == 1 and not other.requires_grad:
        return layout.times(float(other) ** power)
    factor = layout.canonical(other)
    if factor.shape[-1] != 1:
        return layout  # a mask: one where a key is open
    if layout.terms or layout.outer is not None:
        return None
    return replace(layout, query=layout.query * factor**power)


def join(mode: Watched, name: str, args: tuple, kwargs: dict[str, Any], result: Tensor) -> Tensor:
    """Scores beside one more column are scores with a sink."""
    parts, dim = args[0], kwargs.get("dim", args[1] if len(args) > 1 else 0)
    layout = mode.tracked.get(parts[0])
    is_sink = isinstance(layout, Scores) and len(parts) == 2 and dim in (-1, result.dim() - 1) and not layout.has_sink
    if is_sink and parts[1].shape[-1] == 1 and layout.axes[-1] == layout.keys_axis:
        mode.tracked.put(result, replace(layout, has_sink=True))
    return result


def _order(name: str, count: int, dims: tuple, kwargs: dict) -> tuple[int, ...]:
    """Which axis comes to stand where."""
    if name == "permute":
        dims = kwargs.get("dims", dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)
        return tuple(dim % count for dim in dims)
    names = ("source", "destination") if name == "movedim" else ("dim0", "dim1", "axis0", "axis1")
    a, b = [*dims, *(kwargs[key] for key in names if key in kwargs)][:2]
    order = list(range(count))
    if name == "movedim":
        if not isinstance(a, int):
            return tuple(order)
        order.insert(b % count, order.pop(a % count))
    else:
        order[a % count], order[b % count] = order[b % count], order[a % count]
    return tuple(order)
