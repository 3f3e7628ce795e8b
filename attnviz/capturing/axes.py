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

    sides: tuple[Tensor, Tensor]  # left and right tensor
    letters: tuple[str, str, str]  # letters of the axes of left, right and out, such as ("abQD", "abDK", "abQK")

    def arrange(self, side: int, lead: Sequence[str], positions: str, summed: str) -> Tensor:
        """Rearrange one side (0: left, 1: right) to (*lead, positions, summed), with all summed axes as one and size 1
        for missing axes. Axes are given by their letters."""
        tensor, letters = self.sides[side], self.letters[side]
        tensor = tensor.permute([letters.index(letter) for letter in (*lead, *positions, *summed) if letter in letters])
        for index, letter in enumerate(lead):
            if letter not in letters:
                tensor = tensor.unsqueeze(index)
        return tensor.flatten(len(lead) + 1) if tensor.dim() > len(lead) + 1 else tensor.unsqueeze(-1)

    def values(self, weight_side: int, lead: Sequence[str], keys: str) -> Tensor:
        """Arrange the values, which are multiplied by the weights on `weight_side` (0 or 1), to (*lead, K, d_v)."""
        value_side = 1 - weight_side
        width_letters = "".join(letter for letter in self.letters[value_side] if letter not in (*lead, keys))
        value = self.arrange(value_side, lead, keys, width_letters)
        size = dict(zip(self.letters[weight_side], self.sides[weight_side].shape, strict=True))
        return value.expand(*(size[letter] for letter in lead), *value.shape[-2:])


def read_product(name: str, args: tuple, kwargs: dict[str, Any]) -> Product | None:
    """Read the product that a torch function computes, without added terms; None unless it multiplies two tensors."""
    if name == "einsum":
        operands = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
        if len(operands) != 2 or not isinstance(args[0], str):
            return None
    else:
        names = ("input", "other", "mat2", "tensor2", "batch1", "batch2")
        operands = [*args, *(kwargs[key] for key in names if key in kwargs)]
        if name.startswith("baddbmm"):  # the first tensor is an added term
            operands = operands[1:]
    left, right = operands[:2]
    if name == "__rmatmul__":
        left, right = right, left
    if not is_plain(left) or not is_plain(right):
        return None
    letters = _einsum_letters(args[0], left, right) if name == "einsum" else _matrix_letters(left.dim(), right.dim())
    return letters and Product((left, right), letters)


def is_plain(value: Any) -> bool:
    """Whether a value is a nonempty, dense float tensor whose numbers can be read."""
    if not isinstance(value, Tensor) or not value.is_floating_point() or why_not_captured((value,)):
        return False
    return value.layout is torch.strided and not value.is_meta and value.numel() > 0


def why_not_captured(tensors: Sequence[Tensor]) -> str:
    """Reason why a call on these tensors is not captured, "on nested tensors" or "under vmap"; "" if it is captured."""
    if any(tensor.is_nested for tensor in tensors):
        return "on nested tensors"
    return "under vmap" if any(map(torch._C._functorch.is_batchedtensor, tensors)) else ""


def is_learned(tensor: Tensor) -> bool:
    """Whether a tensor is a parameter or a view of one."""
    return isinstance(tensor, Parameter) or isinstance(tensor._base, Parameter)


def _matrix_letters(left_dim: int, right_dim: int) -> tuple[str, str, str] | None:
    """Name the axes of left @ right by letters, given how many axes each side has; None if a side is a vector."""
    common = ascii_letters[: max(left_dim, right_dim) - 2]
    left, right = (common[len(common) - (dim - 2) :] for dim in (left_dim, right_dim))
    return (f"{left}QD", f"{right}DK", f"{common}QK") if min(left_dim, right_dim) > 1 else None


def _einsum_letters(equation: str, left: Tensor, right: Tensor) -> tuple[str, str, str] | None:
    """Read the letters of an einsum equation, with new letters for "..."; None unless it has the form "ab,bc->ac"."""
    inputs, arrow, out = equation.replace(" ", "").partition("->")
    sides = inputs.split(",")
    is_diagonal = any(len({*side} - {"."}) < len(side.replace(".", "")) for side in sides)  # a letter occurs twice
    if len(sides) != 2 or is_diagonal or not arrow:
        return None
    unused = [letter for letter in ascii_letters if letter not in inputs]
    tensors = zip(sides, (left, right), strict=True)
    num_dots = [tensor.dim() - len(side) + 3 if "..." in side else 0 for side, tensor in tensors]  # axes in "..."
    dots = "".join(unused[: max(num_dots)])
    left_letters, right_letters = (
        side.replace("...", dots[len(dots) - number :]) for side, number in zip(sides, num_dots, strict=True)
    )
    return left_letters, right_letters, out.replace("...", dots)


@dataclass(frozen=True)
class Lead:
    """The leading axes of one attention call: those before (n, d), which hold sentences and heads."""

    axes: tuple[int, ...]  # sizes of these axes
    heads_axis: int  # index of the axis with the heads; `fold` moves it last
    sizes: tuple[int, int]  # numbers of sentences and heads, (B, H)

    @classmethod
    def of(cls, axes: tuple[int, ...], heads: int | None, module_heads: set[int], batches: set[int]) -> Self:
        """Determine which of the `axes` (their sizes) hold sentences and heads, from the user's number of `heads`, or
        from the module's possible head counts and batch sizes. Raise ShapeError if a single axis is ambiguous."""
        counts, total = module_heads if heads is None else {heads}, prod(axes)
        joined_sizes = [prod(axes[start:]) for start in range(1, len(axes))]  # of the last axes, taken as one
        joined_heads = [size for size in joined_sizes if size in counts]
        possible_axes = [axis for axis, size in enumerate(axes) if size in counts and size > 1]
        axis = possible_axes[0] if len(possible_axes) == 1 and not joined_heads else max(0, len(axes) - 1)
        if heads is not None and total % heads:
            raise ShapeError(f"heads={heads} does not divide the axes {axes} before (n, d) of an attention call.")
        if heads is None and len(axes) > 1:
            heads = joined_heads[0] if joined_heads and len(axes) > 2 else axes[axis]
        elif heads is None:
            possible = {count for count in counts if total % count == 0}
            with_batch = {count for count in possible if total // count in batches}
            has_one_head = not counts or not axes or (not with_batch and total in batches)
            possible = {1} if has_one_head else with_batch or possible
            if len(possible) != 1:
                problem = f"one axis of {total} before (n, d), and the module has counts of {sorted(counts)} heads"
                raise ShapeError(f"An attention call has {problem}: give capture(model, heads=...).")
            heads = possible.pop()
        return cls(axes, axis, (total // heads, heads))

    def fold(self, tensor: Tensor) -> Tensor:
        """Reshape a tensor (*axes, n, d), or one that broadcasts to it or has `axes` as one axis, to (B, H, n, d)."""
        matrix, last = tensor.shape[-2:], max(0, len(self.axes) - 1)
        if tensor.dim() == len(self.axes) + 2:
            tensor = tensor.expand(*self.axes, *matrix)
        heads_last = tensor.reshape(*self.axes, *matrix).movedim(self.heads_axis, last)
        return heads_last.reshape(*self.sizes, *matrix)

    def fold_mask(self, mask: Tensor) -> Tensor:
        """Reshape a mask or bias that broadcasts to (*axes, Q, K), so that it broadcasts to (B, H, Q, K)."""
        while mask.dim() < 2:
            mask = mask.unsqueeze(0)
        before, matrix = mask.shape[:-2], mask.shape[-2:]
        if prod(before) == 1:
            return mask.reshape(matrix)
        if self.axes == self.sizes and self.heads_axis == 1:  # the axes are (B, H) already
            return mask.unsqueeze(0) if len(before) == 1 else mask
        return self.fold(mask.expand(*self.axes, *matrix))

    def unfold(self, tensor: Tensor) -> Tensor:
        """Reshape (B, H, n, d) to (*axes, n, d), the inverse of `fold`."""
        sizes, last = self.axes, max(0, len(self.axes) - 1)
        heads_size = sizes[self.heads_axis : self.heads_axis + 1]  # (), if there are no axes
        other_sizes = sizes[: self.heads_axis] + sizes[self.heads_axis + 1 :]
        return tensor.reshape(*other_sizes, *heads_size, *tensor.shape[-2:]).movedim(last, self.heads_axis)
