"""Layouts of tensors of scores or weights: their axes are (*lead, Q, K), in some order."""

from dataclasses import dataclass, replace
from math import prod
from typing import Any, Self
from weakref import ref

import torch
from torch import Tensor

from attnviz.capturing.call import Call
from attnviz.capturing.shapes import folded_mask

KEEP = frozenset("dropout dropout_ to float half bfloat16 double type type_as contiguous clone detach cpu cuda".split())
"""Functions after which weights are the same ones; those that dropout leaves are not counted as changed."""


@dataclass(frozen=True)
class Plain:
    """Known properties of queries, keys and other tensors before their product.

    Attributes:
        factor: the number by which they were multiplied, as queries often are.
        axes: a letter for each axis since the last one was cut into heads, "h" and "d" for the two that came of it.
        heads_first: whether heads stand before sentences in the first axis.
    """

    factor: float = 1.0
    axes: str = ""
    heads_first: bool = False

    def viewed(self, before: torch.Size, after: torch.Size) -> "Plain":
        """After a view or a copy."""
        if after == before:
            return self
        if (*after[:-2], prod(after[-2:])) == tuple(before):
            return replace(self, axes=f"{'bnm'[: len(before) - 1]}hd" if len(before) < 5 else "")
        is_joined = bool(self.axes) and after[1:] == before[2:]
        return replace(self, axes="", heads_first=is_joined and self.axes[0] == "h")


@dataclass(frozen=True, eq=False, kw_only=True)
class TensorLayout:
    """A tensor whose canonical form is (*lead, Q, K).

    Attributes:
        lead: the sizes of the axes before (Q, K).
        axes: of each axis of the tensor, which of the canonical ones it is.
    """

    lead: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def queries_axis(self) -> int:
        return len(self.lead)

    @property
    def keys_axis(self) -> int:
        return len(self.lead) + 1

    def canonical(self, tensor: Tensor) -> Tensor:
        """(*lead, Q, K); axes of size 1 may be missing on the left."""
        tensor = tensor.reshape(*(1,) * (len(self.axes) - tensor.dim()), *tensor.shape)
        return tensor.permute([self.axes.index(axis) for axis in range(len(self.axes))])

    def back(self, tensor: Tensor) -> Tensor:
        """(*lead, Q, K) in the order of the tensor."""
        return tensor.permute(self.axes)

    def permuted(self, dims: tuple[int, ...]) -> Self:
        return replace(self, axes=tuple(self.axes[dim] for dim in dims))

    def reshaped(self, before: torch.Size, after: torch.Size) -> Self | None:
        """After the axes before (Q, K) were cut or joined; None if others were."""
        if after == before:
            return self
        is_lead_only = self.axes == tuple(range(len(self.axes))) and len(after) >= 2 and after[-2:] == before[-2:]
        if not is_lead_only or prod(after[:-2]) != prod(self.lead):
            return None
        return self._with_lead(tuple(after[:-2]))

    def _with_lead(self, lead: tuple[int, ...]) -> Self:
        return replace(self, lead=lead, axes=tuple(range(len(lead) + 2)))

    def with_last(self, axis: int) -> Self:
        """The same with one of the axes before (Q, K) as the last of these."""
        last = len(self.lead) - 1
        if axis == last:
            return self
        places = [*(dim for dim in range(last + 1) if dim != axis), axis]
        axes = tuple(places.index(dim) if dim <= last else dim for dim in self.axes)
        return replace(self, lead=tuple(self.lead[dim] for dim in places), axes=axes)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scores(TensorLayout):
    """A tensor as what it was computed from: outer · tanh(scale · q kᵀ) + terms, or scale · q kᵀ + terms.

    Attributes:
        query, key: (*lead, Q, d) and (*lead, K, d); axes before may have size 1.
        dtype: in which the product was computed.
        outer: the factor of the tanh; None if there is none.
        terms: what was added, each with a factor, shaped so that it broadcasts to (*lead, Q, K).
        has_sink: whether the last key stands for none.
        heads_first: whether heads stand before sentences in the first axis.
        same: whether queries and keys come from one text; None if not known.
        are_logs: whether a log_softmax made logarithms of weights of them.
    """

    query: Tensor
    key: Tensor
    dtype: torch.dtype
    scale: float = 1.0
    outer: float | None = None
    terms: tuple[tuple[Tensor, float], ...] = ()
    has_sink: bool = False
    heads_first: bool = False
    same: bool | None = None
    are_logs: bool = False

    def products(self) -> Tensor:
        """scale · q kᵀ, capped, (*lead, Q, K)."""
        products = (self.query * self.scale) @ self.key.mT
        return products if self.outer is None else torch.tanh(products) * self.outer

    def times(self, factor: float) -> "Scores":
        terms = tuple((term, own * factor) for term, own in self.terms)
        if self.outer is not None:
            return replace(self, outer=self.outer * factor, terms=terms)
        return replace(self, scale=self.scale * factor, terms=terms)

    def plus(self, term: Tensor, factor: float = 1.0) -> "Scores":
        return replace(self, terms=(*self.terms, (self.canonical(term), factor)))

    def facing(self, axis: int) -> "Scores | None":
        """The same with its keys on one axis of the tensor; None if that is none of queries or keys."""
        if self.axes[axis] == self.keys_axis:
            return self
        return self.turned() if self.axes[axis] == self.queries_axis and not self.has_sink else None

    def turned(self) -> "Scores":
        """The same with queries and keys exchanged."""
        q, k = self.queries_axis, self.keys_axis
        other = {q: k, k: q}
        terms = tuple((term.mT, factor) for term, factor in self.terms)
        axes = tuple(other.get(axis, axis) for axis in self.axes)
        return replace(self, query=self.key, key=self.query, terms=terms, axes=axes)

    def with_heads(self, counts: set[int]) -> "Scores":
        """The same with heads that were taken for queries in their place: where all heads share their keys, both are
        axes that the queries alone have, and the last one of the product need not be that of queries.

        Args:
            counts: how many heads there may be.
        """
        last, queries = len(self.lead) - 1, self.query.shape[-2]
        if last < 0 or self.key.shape[last] != 1 or queries not in counts or self.lead[last] in counts:
            return self
        other = {last: last + 1, last + 1: last}
        terms = tuple((_moved(term, last, last).transpose(-3, -2), factor) for term, factor in self.terms)
        parts = {"query": self.query.transpose(-3, -2), "terms": terms, "lead": (*self.lead[:-1], queries)}
        return replace(self, axes=tuple(other.get(axis, axis) for axis in self.axes), **parts)

    def with_last(self, axis: int) -> "Scores":
        last = len(self.lead) - 1
        q, k = (side.expand(*self.lead, *side.shape[-2:]).movedim(axis, last) for side in (self.query, self.key))
        terms = tuple((_moved(term, axis, last), factor) for term, factor in self.terms)
        return replace(super().with_last(axis), query=q, key=k, terms=terms)

    def _with_lead(self, lead: tuple[int, ...]) -> "Scores":
        q, k = (
            side.expand(*self.lead, *side.shape[-2:]).reshape(*lead, *side.shape[-2:])
            for side in (self.query, self.key)
        )
        terms = tuple((folded_mask(term, self.lead, lead), factor) for term, factor in self.terms)
        return replace(super()._with_lead(lead), query=q, key=k, terms=terms)


def _moved(term: Tensor, axis: int, last: int) -> Tensor:
    return term.reshape(*(1,) * (last + 3 - term.dim()), *term.shape).movedim(axis, last)


@dataclass(frozen=True, eq=False, kw_only=True)
class TracedWeights(TensorLayout):
    """A tensor of weights, on its way from the softmax to the values.

    Attributes:
        call: what they were computed from; None if only they are known.
        has_sink: whether the last key stands for none.
        is_changed: whether something was done to the numbers since; dropout does not count.
    """

    call: Call | None = None
    has_sink: bool = False
    is_changed: bool = False

    def after(self, name: str) -> "TracedWeights":
        """After a function that leaves the axes as they are."""
        return self if name in KEEP else replace(self, is_changed=True)

    def without_sink(self, before: torch.Size, after: torch.Size) -> "TracedWeights | None":
        """After all keys but the last were taken; None if others were."""
        is_cut = self.has_sink and after == (*before[:-1], before[-1] - 1) and self.axes[-1] == self.keys_axis
        return replace(self, has_sink=False) if is_cut else None


@dataclass(eq=False)
class Softmax:
    """A softmax whose scores are not known, until its weights meet values.

    Attributes:
        name: of the module in which it ran.
        shape: of its result.
        lost: the function after which a product of queries and keys was not followed; "" if none was lost.
        of_product: whether its scores come from a product of queries and keys.
        why_not: why its weights cannot be shown; "" if nothing is known against it.
        is_placed: whether its weights are shown, or named already.
    """

    name: str
    shape: tuple[int, ...]
    lost: str = ""
    of_product: bool = False
    why_not: str = ""
    is_placed: bool = False

    @property
    def sentence(self) -> str:
        shape = " x ".join(map(str, self.shape))
        after = f" of a product of queries and keys that was changed by {self.lost}()" if self.lost else ""
        return f"{self.name} takes a softmax of {shape}{after}, and {self.why_not or 'its weights meet no values'}"


@dataclass(frozen=True, eq=False)
class Loose:
    """A tensor of weights of which only the axis of the keys is known, on its way to the values.

    Attributes:
        axis: of the keys.
        softmax: that gave it.
        is_changed: whether something was done to the numbers since; dropout does not count.
    """

    axis: int
    softmax: Softmax
    is_changed: bool = False

    def after(self, name: str) -> "Loose":
        return self if name in KEEP else replace(self, is_changed=True)

    def permuted(self, dims: tuple[int, ...]) -> "Loose":
        return replace(self, axis=dims.index(self.axis))

    def reshaped(self, before: torch.Size, after: torch.Size) -> "Loose | None":
        """After axes were cut, joined or added, but for that of the keys."""
        left, keys = prod(before[: self.axis]), before[self.axis]
        places = [i for i, size in enumerate(after) if size == keys and prod(after[:i]) == left]
        return replace(self, axis=places[-1]) if places else None


@dataclass(frozen=True, eq=False)
class TracedProducts:
    """Weights times values, cell by cell, until they are summed over the keys."""

    weights: Tensor
    values: Tensor
    loose: Loose

    def permuted(self, dims: tuple[int, ...]) -> None:
        return None


class Tracked:
    """Layouts of tensors, for as long as each tensor exists."""

    def __init__(self):
        self._layouts: dict[int, tuple[Any, TensorLayout | Plain]] = {}

    def __bool__(self) -> bool:
        return bool(self._layouts)

    def get(self, value: object) -> Any:
        entry = self._layouts.get(id(value))
        return entry[1] if entry is not None and entry[0]() is value else None

    def put(self, tensor: Tensor, layout: TensorLayout | Plain | None) -> None:
        number = id(tensor)
        if layout is None:
            self._layouts.pop(number, None)
            return

        def forget(gone: Any) -> None:
            if self._layouts.get(number, (None,))[0] is gone:
                del self._layouts[number]

        self._layouts[number] = ref(tensor, forget), layout
