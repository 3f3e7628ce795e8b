"""Track how a model computes its scores: product of queries and keys, factor, softcap and added terms. Other operations
are not tracked, but checked at the softmax: the tracked parts and a mask must reproduce the scores."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from attnviz.capturing.axes import Product
from attnviz.capturing.call import BLOCKED
from attnviz.core.scoring import HALVES

TIMES = frozenset({"mul", "mul_", "multiply", "multiply_", "__mul__", "__rmul__", "__imul__"})
OVER = frozenset({"div", "div_", "divide", "divide_", "true_divide", "__truediv__", "__itruediv__", "__div__"})
PLUS = frozenset({"add", "add_", "__add__", "__radd__", "__iadd__"})
MINUS = frozenset({"sub", "sub_", "subtract", "__sub__", "__isub__"})
CASTS = frozenset("contiguous to float half bfloat16 double type type_as clone expand dropout".split())
VIEWS = {"view", "reshape", "flatten", "unflatten", "permute", "transpose", "transpose_", "swapaxes", "swapdims"}
VIEWS |= {"movedim", "unsqueeze", "squeeze", "__getitem__", "__get__"}
"""Names of functions, per set: multiply, divide, add, subtract, keep the numbers, change only the view of a tensor."""
ROUNDING, ROUNDING_OF_HALVES = 256, 8
"""Tolerance between scores and their recomputation, in units of the machine epsilon: many roundings in long sums, or
few in 16-bit types, whose numbers are rounded once each."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores:
    """A tensor of scores in the form outer · tanh(scale · q kᵀ) + terms."""

    query: Tensor  # (*lead, Q, d); axes of `lead` may have size 1
    key: Tensor  # (*lead, K, d)
    lead: tuple[int, ...]  # sizes of the axes before (Q, K)
    probe: Tensor  # meta tensor, first (*lead, Q, K), with the same views as the scores: its strides tell the axes
    dtype: torch.dtype  # dtype in which the product was computed
    scale: float = 1.0
    outer: float | None = None  # factor of the tanh; None if there is no tanh
    terms: tuple[tuple[Tensor, float, tuple[int, ...]], ...] = ()  # added term, its factor, `lead_now` at that time
    is_turned: bool = False  # whether queries and keys were swapped after the product
    has_sink: bool = False  # whether the last key is a sink

    @classmethod
    def of(cls, product: Product, dtype: torch.dtype, factor: float, heads: Callable[[], set[int]]) -> Self | None:
        """Interpret a product as scores; None unless one axis of each side, queries or keys, is absent from the other.
        `factor` is the number by which the sides were multiplied; `heads` gives the possible numbers of heads."""
        left, right, out = product.letters
        summed = "".join(letter for letter in left if letter in right and letter not in out)
        only_left = [letter for letter in out if letter not in right]
        only_right = [letter for letter in out if letter not in left]
        if not (summed and only_left and only_right) or {*left, *right} != {*out, *summed}:
            return None
        size = dict(zip((*left, *right), (*product.sides[0].shape, *product.sides[1].shape), strict=True))
        query, key = only_left[-1], only_right[-1]
        others = [size[letter] for letter in out if letter not in (query, key)]
        if len(only_left) > 1 and not any(prod(others[start:]) in heads() for start in range(len(others))):
            no_heads = [letter for letter in only_left if size[letter] not in heads()]  # then the queries may be there
            query = no_heads[-1] if no_heads else only_left[0]
        lead = "".join(letter for letter in out if letter not in (query, key))
        q, k = product.arrange(0, lead, query, summed), product.arrange(1, lead, key, summed)
        sizes = tuple(torch.broadcast_shapes(q.shape[:-2], k.shape[:-2]))
        order = [(*lead, query, key).index(letter) for letter in out]
        probe = torch.empty(*sizes, q.shape[-2], k.shape[-2], device="meta").permute(order)
        q = q if factor == 1 else q / factor
        return cls(query=q, key=k, lead=sizes, probe=probe, dtype=dtype, scale=factor)

    @property
    def order(self) -> list[int]:
        """The axis order that permutes the tensor to (*lead, Q, K): a larger stride comes from an earlier axis."""
        probe = self.probe
        *lead, queries, keys = sorted(range(probe.dim()), key=lambda axis: (-probe.stride(axis), -probe.shape[axis]))
        return [*lead, keys, queries] if self.is_turned else [*lead, queries, keys]

    @property
    def lead_now(self) -> tuple[int, ...]:
        """Sizes of the tensor's current axes before (Q, K), which may be joined or split."""
        return tuple(self.probe.shape[axis] for axis in self.order[:-2])

    def permuted(self, tensor: Tensor) -> Tensor:
        """Permute a tensor that broadcasts to the scores to (*lead_now, Q, K)."""
        while tensor.dim() < self.probe.dim():
            tensor = tensor.unsqueeze(0)
        return tensor.permute(self.order)

    def arranged(self, tensor: Tensor) -> Tensor:
        """Rearrange a tensor with the shape of the scores to (*lead, Q, K), or (*lead, Q, K + 1) with a sink."""
        tensor = tensor.permute(self.order)
        return tensor.reshape(*self.lead, *tensor.shape[-2:])

    def apply(self, name: str, source: Tensor, args: tuple, kwargs: dict[str, Any]) -> "Scores | None":
        """Apply a torch function, by its `name`, to the scores in the tensor `source`; None if the result no longer has
        the form outer · tanh(scale · q kᵀ) + terms."""
        operands = [value for value in (*args[:2], kwargs.get("other")) if value is not None and value is not source]
        if name.startswith("tanh"):
            return None if self.outer is not None or self.terms else replace(self, outer=1.0)
        if name not in TIMES | OVER | PLUS | MINUS or not operands:
            return self  # such as a mask or a cast; `solve` rejects scores that another function changed
        is_reversed = args[0] is not source  # such as 1 - scores
        if name in MINUS | OVER and is_reversed:
            return None
        if name in PLUS | MINUS:
            return self.plus(operands[0], float(kwargs.get("alpha", 1)) * (1 if name in PLUS else -1))
        return self.times(operands[0], 1 if name in TIMES else -1)

    def plus(self, term: Any, factor: float) -> "Scores | None":
        """Add factor · term, unless it is a single number (no effect in a softmax); None if it also changes a sink."""
        if not isinstance(term, Tensor) or not term.dim():
            return self
        term = self.permuted(term)
        changes_sink = self.has_sink and term.shape[-1] > 1
        return None if changes_sink else replace(self, terms=(*self.terms, (term, factor, self.lead_now)))

    def times(self, other: Any, power: int) -> "Scores | None":
        """Multiply the scores by `other`, or divide them if `power` is -1; None if the result has another form. A
        factor per head or query is merged into the queries. A factor per key is ignored; `solve` detects it later."""
        if isinstance(other, Tensor) and (other.numel() > 1 or other.requires_grad):
            factor = self.permuted(other)
            if factor.shape[-1] != 1 or self.key.shape[-2] == 1:  # a single key has weight 1
                return self
            is_product = not self.terms and self.outer is None and self.lead_now == self.lead
            return replace(self, query=self.query * factor**power) if is_product else None
        factor = float(other) ** power
        terms = tuple((term, term_factor * factor, lead) for term, term_factor, lead in self.terms)
        if self.outer is None:
            return replace(self, scale=self.scale * factor, terms=terms)
        return replace(self, outer=self.outer * factor, terms=terms)

    def change_view(self, func: Callable, args: tuple, kwargs: dict[str, Any], result: Tensor) -> "Scores | None":
        """Apply a function that only changes the view of the scores; None if the function mixes axes."""
        try:
            probe = func(self.probe, *args[1:], **kwargs)
        except (RuntimeError, IndexError):  # the view joined axes that are not contiguous
            return None
        old_storage, storage = self.probe.untyped_storage(), probe.untyped_storage()
        is_view = storage._cdata == old_storage._cdata  # not a copy, which a reshape may make
        return replace(self, probe=probe) if is_view and probe.shape == result.shape else None

    def append_sink(self, args: tuple, kwargs: dict[str, Any], result: Tensor) -> "Scores | None":
        """Apply a torch.cat that appends one column, a sink, to the scores; None if it appends anything else."""
        (first, *others), dim = args[0], kwargs.get("dim", args[1] if len(args) > 1 else 0)
        last = result.dim() - 1
        is_last_axis = dim % result.dim() == last and self.order[-1] == last
        is_sink = is_last_axis and [part.shape[-1] for part in others] == [1] and first.shape == self.probe.shape
        return replace(self, has_sink=True) if is_sink and not self.has_sink else None

    def for_softmax(self, axis: int) -> "Scores | None":
        """Prepare the scores for a softmax over an axis, which must hold the keys; swap query and key if it holds the
        queries. None if it holds neither, or the axes of queries and keys were joined or split."""
        *_, query_axis, key_axis = self.order
        if axis == query_axis and not self.has_sink:
            terms = tuple((term.mT, factor, lead) for term, factor, lead in self.terms)
            turned = replace(self, query=self.key, key=self.query, terms=terms, is_turned=not self.is_turned)
        elif axis == key_axis:
            turned = self
        else:
            return None
        lead = max(self.lead_now, self.lead, key=len)  # with more axes, sentences and heads are separate
        *_, query_axis, key_axis = turned.order
        shape = self.probe.shape[query_axis], self.probe.shape[key_axis]
        if shape != (turned.query.shape[-2], turned.key.shape[-2]):
            return None
        q, k = (_reshape_lead(side, self.lead, lead) for side in (turned.query, turned.key))
        per_key = [term for term in turned.terms if term[0].shape[-1] > 1]  # terms per query have no effect
        terms = tuple((_reshape_lead(term, before, lead), factor, lead) for term, factor, before in per_key)
        return replace(turned, query=q, key=k, terms=terms, lead=lead)

    @torch.no_grad()
    def solve(self, scores: Tensor) -> dict[str, Any] | None:
        """Find the mask, bias and sink that, added to the products of queries and keys, give `scores`, (*lead, Q, K).
        None if a mask and the tracked terms do not explain the scores."""
        products, sink = (self.query * self.scale) @ self.key.mT, None
        products = products if self.outer is None else torch.tanh(products) * self.outer
        dtypes = (self.dtype, scores.dtype)
        rounding = max(torch.finfo(t).eps * (ROUNDING_OF_HALVES if t in HALVES else ROUNDING) for t in dtypes)
        scores, products = (tensor.float() if tensor.dtype in HALVES else tensor for tensor in (scores, products))
        if self.has_sink:
            scores, sink = scores[..., :-1], scores[..., -1:]
        difference = scores - products  # mask and bias together
        blocked = difference < BLOCKED
        bias = sum((term.to(difference.dtype) * factor for term, factor, _ in self.terms), difference.new_zeros(()))
        remainder = (difference - bias).masked_fill_(blocked, 0)
        bias = bias.masked_fill(bias < BLOCKED, 0)
        allowed = rounding * (1 + float(products.abs().max()) + float(bias.abs().max()))
        is_explained = bool((remainder.abs() <= allowed).all())
        if not is_explained:  # perhaps a constant per row was added, which does not change the softmax
            shift = remainder.masked_fill(blocked, -torch.inf).amax(-1, keepdim=True)
            shift = shift.where(shift > -torch.inf, 0.0)
            if not bool(((remainder - shift).masked_fill(blocked, 0).abs() <= allowed).all()):
                return None
            sink = None if sink is None else sink - shift
        is_masked = bool(blocked.any())
        empty_rows = empty_rows_of(blocked, scores) if is_masked else "zero"
        if empty_rows is None:
            return None
        mask, bias = compact(~blocked) if is_masked else None, bias if bool(bias.any()) else None
        return {"mask": mask, "bias": bias, "sink": sink, "empty_rows": empty_rows}


def _reshape_lead(tensor: Tensor, lead: tuple[int, ...], other: tuple[int, ...]) -> Tensor:
    """Reshape a tensor that broadcasts to (*lead, n, d) to (*other, n, d)."""
    if lead == other:
        return tensor
    return tensor.expand(*lead, *tensor.shape[-2:]).reshape(*other, *tensor.shape[-2:])


def empty_rows_of(blocked: Tensor, scores: Tensor) -> str | None:
    """Find what the model does in rows without an open key: "zero" if there are none, "nan" if all scores are -inf,
    "uniform" if all finite scores are equal; else None."""
    is_empty = blocked.all(-1)
    if not bool(is_empty.any()):
        return "zero"
    rows = scores[is_empty]
    if bool((rows == -torch.inf).all()):
        return "nan"
    is_equal = (rows == rows.amax(-1, keepdim=True)) | (rows == -torch.inf)
    return "uniform" if bool(is_equal.all()) else None


def compact(mask: Tensor) -> Tensor:
    """Shrink to size 1 each axis before (Q, K) along which a mask is constant."""
    for axis in range(mask.dim() - 2):
        first = mask.narrow(axis, 0, 1)
        if mask.shape[axis] > 1 and bool((mask == first).all()):
            mask = first
    return mask


LOST = "lost"
"""Marker for tensors that were computed from scores, but in a way that is not tracked."""
ENDS = frozenset("layer_norm group_norm conv1d conv2d mean amax max norm sum".split())
"""Functions whose result no longer counts as scores."""
JOINS = ("cat", "concat")


def carry(
    tracked: WeakTensorKeyDictionary, func: Callable, name: str, args: tuple, kwargs: dict[str, Any], result: Tensor
) -> None:
    """Track the result of a torch function if one of its arguments is tracked. An entry of `tracked` is the `Scores` of
    a tensor; `LOST`, for scores of another form; or the number by which queries or keys were multiplied."""
    tensors = args[0] if name in JOINS else args
    source = next((tensor for tensor in tensors if isinstance(tensor, Tensor) and tensor in tracked), None)
    before = None if source is None else tracked[source]
    if isinstance(before, Scores | str):
        after = _scores_after(before, source, func, name, args, kwargs, result)
    else:
        after = before if name in VIEWS | CASTS else None
        number = next((argument for argument in args[:2] if type(argument) in (int, float)), None)
        if number and (name in TIMES or (name in OVER and number is args[1])):
            after = (before or 1.0) * (number if name in TIMES else 1 / number)
    if after is not None:
        tracked[result] = after
    elif result in tracked:
        del tracked[result]


def _scores_after(
    before: Scores | str, source: Tensor, func: Callable, name: str, args: tuple, kwargs: dict[str, Any], result: Tensor
) -> Scores | str | None:
    """Return the `tracked` entry for the result of a function of `source`, whose entry is `before`; None for none."""
    same_shape, scores = result.shape == source.shape, None
    if isinstance(before, Scores):
        if name in JOINS:
            scores = before.append_sink(args, kwargs, result)
        elif name in VIEWS and result.numel() == source.numel() and not before.has_sink:
            scores = before.change_view(func, args, kwargs, result)
        elif same_shape:
            scores = before.apply(name, source, args, kwargs)
    is_end = name in ENDS or (name == "linear" and not same_shape)
    return scores or (None if is_end else LOST)
