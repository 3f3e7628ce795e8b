"""Numbers and truths as text: what Python's operators do to them is printed, as it would be typed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partialmethod

import torch
from torch import Tensor

COMPARED, EITHER, BOTH, SUM, PRODUCT, DENIED, ATOM = range(7)
"""How tightly an expression holds together, from comparisons to single names, as Python reads it."""


@dataclass(frozen=True, eq=False)
class Symbol:
    """An expression.

    Attributes:
        text: what is printed.
        axes: which of the axes B, Q and K its value depends on.
        rank: how tightly it holds together.
    """

    text: str
    axes: frozenset[str]
    rank: int = ATOM

    @property
    def is_loose(self) -> bool:
        """Whether it needs parentheses beside &, | and ~."""
        return self.rank < DENIED

    def _joined(self, sign: str, other: "Symbol | int", rank: int) -> "Symbol":
        """With parentheses where the one or the other would fall apart."""
        other = other if isinstance(other, Symbol) else type(self)(str(other), frozenset())
        left = self.text if self.rank > rank or self.rank == rank != COMPARED else f"({self.text})"
        right = other.text if other.rank > rank else f"({other.text})"
        return type(self)(f"{left} {sign} {right}", self.axes | other.axes, rank)

    def __add__(self, other: "Symbol | int") -> "Symbol":
        if isinstance(other, int):
            return type(self)(plus(self.text, str(other)), self.axes, SUM) if other else self
        return self._joined("+", other, SUM)

    def __sub__(self, other: "Symbol | int") -> "Symbol":
        return self + -other if isinstance(other, int) else self._joined("-", other, SUM)

    def __rsub__(self, other: int) -> "Symbol":
        return type(self)(str(other), frozenset())._joined("-", self, SUM)

    def __invert__(self) -> "Symbol":
        return Symbol(f"~({self.text})" if self.is_loose else f"~{self.text}", self.axes, DENIED)

    __mul__ = partialmethod(_joined, "*", rank=PRODUCT)
    __floordiv__ = partialmethod(_joined, "//", rank=PRODUCT)
    __mod__ = partialmethod(_joined, "%", rank=PRODUCT)
    __and__ = partialmethod(_joined, "&", rank=BOTH)
    __or__ = partialmethod(_joined, "|", rank=EITHER)
    __lt__ = partialmethod(_joined, "<", rank=COMPARED)
    __le__ = partialmethod(_joined, "<=", rank=COMPARED)
    __gt__ = partialmethod(_joined, ">", rank=COMPARED)
    __ge__ = partialmethod(_joined, ">=", rank=COMPARED)
    __eq__ = partialmethod(_joined, "==", rank=COMPARED)
    __hash__ = None


def plus(text: str, number: str) -> str:
    """A sum in code, where the number may be 0 or begin with a minus."""
    if number == "0":
        return text
    return f"{text} - {number[1:]}" if number.startswith("-") else f"{text} + {number}"


class Script(Symbol):
    """An expression in JavaScript, where the numbers of a rule are names, too; a truth may be 1 or 0."""

    def __neg__(self) -> "Script":
        return Script(f"-{self.text}" if self.rank == ATOM else f"-({self.text})", self.axes, PRODUCT)

    def __rmul__(self, other: int) -> "Script":
        return Script(str(other), frozenset())._joined("*", self, PRODUCT)

    def __floordiv__(self, other: "Symbol | int") -> "Script":
        divided = self._joined("/", other, PRODUCT)
        return Script(f"Math.floor({divided.text})", divided.axes)

    def __mod__(self, other: "Symbol | int") -> "Script":
        other = other if isinstance(other, Symbol) else Script(str(other), frozenset())
        return Script(f"mod({self.text}, {other.text})", self.axes | other.axes)

    def __invert__(self) -> "Script":
        return Script(f"!({self.text})" if self.is_loose else f"!{self.text}", self.axes, DENIED)


def is_in(number: Tensor | Symbol, numbers: Sequence[int] | Symbol) -> Tensor | Symbol:
    """Whether a number is one of several."""
    if isinstance(number, Symbol):
        return type(number)(f"{numbers.text}.includes({number.text})", number.axes)
    return torch.isin(number, torch.tensor(numbers, dtype=torch.int64))


def num_ends(number: Tensor | Symbol, lengths: Sequence[int] | Symbol) -> Tensor | Symbol:
    """How many stretches of these lengths, laid one after another, end at a number or before it."""
    if isinstance(number, Symbol):
        return type(number)(f"numEnds({number.text}, {lengths.text})", number.axes)
    ends = torch.tensor(lengths, dtype=torch.int64).cumsum(0)
    return torch.searchsorted(ends, number.contiguous(), right=True)


def size(numbers: Sequence[int] | Symbol) -> "int | Symbol":
    """How many numbers a list has."""
    return type(numbers)(f"{numbers.text}.length", frozenset()) if isinstance(numbers, Symbol) else len(numbers)
