"""Products of two tensors as letters: which axes both have, which one is summed, and which only one of them has."""

from dataclasses import dataclass
from string import ascii_letters
from typing import Any

from torch import Tensor
from torch.nn import Parameter

NAMES = frozenset({"matmul", "bmm", "mm", "baddbmm", "baddbmm_", "einsum", "__matmul__", "__rmatmul__"})


@dataclass(frozen=True, eq=False)
class Product:
    """left, right -> out, each axis by a letter, as `torch.einsum` writes them.

    Attributes:
        added: what `baddbmm` adds, with its factor.
        factor: of the product.
    """

    left: Tensor
    right: Tensor
    letters: tuple[str, str, str]
    added: tuple[Tensor, float] | None = None
    factor: float = 1.0

    def arranged(self, side: int, lead: str, free: str, summed: str) -> Tensor:
        """One side as (*lead, kept, summed); axes that it lacks have size 1, those of several letters become one."""
        tensor, own = (self.left, self.right)[side], self.letters[side]
        order = [own.index(letter) for letter in (*lead, *free, *summed) if letter in own]
        tensor = tensor.permute(order)
        for place, letter in enumerate(lead):
            if letter not in own:
                tensor = tensor.unsqueeze(place)
        before = tensor.shape[: len(lead)]
        return tensor.flatten(-len(summed)) if len(free) == 1 else tensor.reshape(*before, -1, tensor.shape[-1])


def read(name: str, args: tuple, kwargs: dict[str, Any]) -> Product | None:
    """The product that a function of torch computes; None if it is none of two tensors that a model computed."""
    added, factor = None, 1.0
    if name == "einsum":
        operands = args[1] if len(args) == 2 and isinstance(args[1], list | tuple) else args[1:]
        if len(operands) != 2 or not isinstance(args[0], str):
            return None
        left, right = operands
        letters = _letters(args[0], left, right)
    else:
        tensors = [*args, *(kwargs[key] for key in ("other", "mat2", "tensor2", "batch1", "batch2") if key in kwargs)]
        if name.startswith("baddbmm"):
            base = kwargs.get("input", tensors[0])
            added, factor = (base, float(kwargs.get("beta", 1))), float(kwargs.get("alpha", 1))
            tensors = tensors[-2:]
        left, right = tensors[:2] if name != "__rmatmul__" else tensors[1::-1]
        letters = _of_matrices(left, right)
    if letters is None or is_learned(left) or is_learned(right):
        return None
    return Product(left, right, letters, added, factor)


def is_learned(tensor: Tensor) -> bool:
    """Whether a tensor is a parameter or a view of one."""
    return isinstance(tensor, Parameter) or isinstance(tensor._base, Parameter)


def _of_matrices(left: Any, right: Any) -> tuple[str, str, str] | None:
    """The letters of left @ right: Q, d and d, K after the axes that both have."""
    if not all(isinstance(side, Tensor) and side.dim() > 1 and side.is_floating_point() for side in (left, right)):
        return None
    lead = ascii_letters[: max(left.dim(), right.dim()) - 2]
    left, right = (lead[len(lead) - side.dim() + 2 :] for side in (left, right))
    return f"{left}QD", f"{right}DK", f"{lead}QK"


def _letters(equation: str, left: Tensor, right: Tensor) -> tuple[str, str, str] | None:
    """The letters of an equation; what "..." stands for gets letters of its own."""
    inputs, arrow, out = equation.replace(" ", "").partition("->")
    sides = inputs.split(",")
    if len(sides) != 2:
        return None
    rest = [letter for letter in ascii_letters if letter not in inputs]
    wide = [
        tensor.dim() - len(side) + 3 if "..." in side else 0 for side, tensor in zip(sides, (left, right), strict=True)
    ]
    dots = "".join(rest[: max(wide)])
    letters = [side.replace("...", dots[len(dots) - size :]) for side, size in zip(sides, wide, strict=True)]
    if not arrow:
        once = sorted(letter for letter in set(inputs) - set(".,") if inputs.count(letter) == 1)
        out = dots + "".join(once)
    return letters[0], letters[1], out.replace("...", dots)
