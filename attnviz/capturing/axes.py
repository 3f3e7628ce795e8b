"""Axes of tensors: the axes of a product by letters, and the axes of sentences and heads before (n, d)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from string import ascii_letters
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import Parameter

from attnviz.core.errors import ShapeError

PRODUCTS = frozenset({"matmul", "bmm", "mm", "baddbmm", "baddbmm_", "einsum", "__matmul__", "__rmatmul__"})


@dataclass(frozen=True, eq=False)
class Product:
    """A product of two tensors, with one letter per axis, as in `torch.einsum`: left, right -> out."""

    sides: tuple[Tensor, Tensor]
    letters: tuple[str, str, str]

    def arrange(self, side: int, lead: Sequence[str], positions: str, summed: str) -> Tensor:
        """Rearrange one side to (*lead, positions, summed): missing axes get size 1, and all summed axes become one."""
        tensor, letters = self.sides[side], self.letters[side]
        tensor = tensor.permute([letters.index(letter) for letter in (*lead, *positions, *summed) if letter in letters])
        for index, letter in enumerate(lead):
            if letter not in letters:
                tensor = tensor.unsqueeze(index)
        return tensor.reshape(*tensor.shape[: len(lead) + 1], prod(tensor.shape[len(lead) + 1 :]))

    def values(self, side: int, lead: Sequence[str], keys: str) -> Tensor:
        """Arrange the side opposite to the weights, which are on side `side`, as values (*lead, K, d_v)."""
        width_letters = "".join(letter for letter in self.letters[1 - side] if letter not in (*lead, keys))
        value = self.arrange(1 - side, lead, keys, width_letters)
        size = dict(zip(self.letters[side], self.sides[side].shape, strict=True))
        return value.expand(*(size[letter] for letter in lead), *value.shape[-2:])


def read_product(name: str, args: tuple, kwargs: dict[str, Any]) -> Product | None:
    """Read the product that a torch function computes, without added terms; None unless it multiplies two tensors."""
    if name == "einsum":
        operands = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
        if len(operands) != 2 or not isinstance(args[0], str):
            return None
        left, right = operands
    else:
        names = ("input", "other", "mat2", "tensor2", "batch1", "batch2")
        tensors = [*args, *(kwargs[key] for key in names if key in kwargs)]
        tensors = tensors[1:] if name.startswith("baddbmm") else tensors
        left, right = tensors[:2] if name != "__rmatmul__" else tensors[1::-1]
    if not is_plain(left) or not is_plain(right):
        return None
    letters = _einsum_letters(args[0], left, right) if name == "einsum" else _matrix_letters(left.dim(), right.dim())
    return letters and Product((left, right), letters)


def is_plain(value: Any) -> bool:
    """Whether a value is a nonempty, dense float tensor whose numbers can be read."""
    if not isinstance(value, Tensor) or not value.is_floating_point() or why_not((value,)):
        return False
    return value.layout is torch.strided and not value.is_meta and value.numel() > 0


def why_not(tensors: Sequence[Tensor]) -> str:
    """Reason why a call on these tensors is not captured; "" if it is."""
    if any(tensor.is_nested for tensor in tensors):
        return "on nested tensors"
    return "under vmap" if any(map(torch._C._functorch.is_batchedtensor, tensors)) else ""


def is_learned(tensor: Tensor) -> bool:
    """Whether a tensor is a parameter or a view of one."""
    return isinstance(tensor, Parameter) or isinstance(tensor._base, Parameter)


def _matrix_letters(*dims: int) -> tuple[str, str, str] | None:
    """Name the axes of left @ right by letters: common axes, then QD, DK and QK; None if a side is a vector."""
    lead = ascii_letters[: max(dims) - 2]
    left, right = (lead[len(lead) - dim + 2 :] for dim in dims)
    return (f"{left}QD", f"{right}DK", f"{lead}QK") if min(dims) > 1 else None


def _einsum_letters(equation: str, left: Tensor, right: Tensor) -> tuple[str, str, str] | None:
    """Read the letters of an einsum equation, with new letters for "..."; None if it is not a product of two tensors,
    or has no explicit output."""
    inputs, arrow, out = equation.replace(" ", "").partition("->")
    sides = inputs.split(",")
    is_twice = any(len({*side} - {"."}) < len(side.replace(".", "")) for side in sides)
    if len(sides) != 2 or is_twice or not arrow:
        return None
    rest = [letter for letter in ascii_letters if letter not in inputs]
    pairs = zip(sides, (left, right), strict=True)
    wide = [tensor.dim() - len(side) + 3 if "..." in side else 0 for side, tensor in pairs]
    dots = "".join(rest[: max(wide)])
    letters = [side.replace("...", dots[len(dots) - size :]) for side, size in zip(sides, wide, strict=True)]
    return letters[0], letters[1], out.replace("...", dots)


@dataclass(frozen=True)
class Lead:
    """The axes before (n, d) of one attention call.

    Attributes:
        axes: sizes of these axes.
        heads_axis: index of the axis with the heads; `fold` moves it last.
        sizes: numbers of sentences and heads, (B, H).
    """

    axes: tuple[int, ...]
    heads_axis: int
    sizes: tuple[int, int]

    @classmethod
    def of(cls, axes: tuple[int, ...], heads: int | None, module_heads: set[int], batches: set[int]) -> Self:
        """Determine sentences and heads from the user's `heads`, or from the module's head counts and batch sizes.

        Raises:
            ShapeError: if one axis may hold heads or sentences and it is not known which.
        """
        counts, total = module_heads if heads is None else {heads}, prod(axes)
        trailing = [prod(axes[start:]) for start in range(1, len(axes)) if prod(axes[start:]) in counts]
        fitting = [axis for axis, size in enumerate(axes) if size in counts and size > 1]
        axis = fitting[0] if len(fitting) == 1 and not trailing else max(0, len(axes) - 1)
        if heads is not None and total % heads:
            raise ShapeError(f"heads={heads} does not divide the axes {axes} before (n, d) of an attention call.")
        if heads is None and len(axes) > 1:
            heads = trailing[0] if trailing and len(axes) > 2 else axes[axis]
        elif heads is None:
            fitting = {count for count in counts if total % count == 0}
            exact = {count for count in fitting if total // count in batches}
            has_one_head = not counts or not axes or (not exact and total in batches)
            fitting = {1} if has_one_head else exact or fitting
            if len(fitting) != 1:
                problem = f"one axis of {total} before (n, d), and the module has counts of {sorted(counts)} heads"
                raise ShapeError(f"An attention call has {problem}: give capture(model, heads=...).")
            heads = fitting.pop()
        return cls(axes, axis, (total // heads, heads))

    def fold(self, tensor: Tensor) -> Tensor:
        """Reshape (*axes, n, d) to (B, H, n, d); the axes may also be joined, or broadcast."""
        rest = tensor.shape[-2:]
        if tensor.dim() == len(self.axes) + 2:
            tensor = tensor.expand(*self.axes, *rest)
        moved = tensor.reshape(*self.axes, *rest).movedim(self.heads_axis, max(0, len(self.axes) - 1))
        return moved.reshape(*self.sizes, *rest)

    def fold_mask(self, mask: Tensor) -> Tensor:
        """Reshape a mask or bias that broadcasts to (*axes, Q, K), so that it broadcasts to (B, H, Q, K)."""
        mask = mask.reshape(*(1,) * (2 - mask.dim()), *mask.shape)
        before = mask.shape[:-2]
        if prod(before) == 1:
            return mask.reshape(mask.shape[-2:])
        if self.axes == self.sizes and self.heads_axis == 1:
            return mask.reshape(*(1,) * (2 - len(before)), *mask.shape)
        return self.fold(mask.expand(*self.axes, *mask.shape[-2:]))

    def unfold(self, tensor: Tensor) -> Tensor:
        """Reshape (B, H, n, d) to (*axes, n, d)."""
        axis = self.heads_axis
        heads_last = (*self.axes[:axis], *self.axes[axis + 1 :], *self.axes[axis : axis + 1])
        return tensor.reshape(*heads_last, *tensor.shape[-2:]).movedim(max(0, len(self.axes) - 1), axis)
