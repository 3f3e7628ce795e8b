"""Numbers and truths as text: what Python's operators do to them is printed, as it would be typed."""

from dataclasses import dataclass
from functools import partialmethod

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
        other = other if isinstance(other, Symbol) else Symbol(str(other), frozenset())
        left = self.text if self.rank > rank or self.rank == rank != COMPARED else f"({self.text})"
        right = other.text if other.rank > rank else f"({other.text})"
        return Symbol(f"{left} {sign} {right}", self.axes | other.axes, rank)

    def __add__(self, other: "Symbol | int") -> "Symbol":
        if isinstance(other, int):
            return Symbol(plus(self.text, str(other)), self.axes, SUM) if other else self
        return self._joined("+", other, SUM)

    def __sub__(self, other: "Symbol | int") -> "Symbol":
        return self + -other if isinstance(other, int) else self._joined("-", other, SUM)

    def __rsub__(self, other: int) -> "Symbol":
        return Symbol(str(other), frozenset())._joined("-", self, SUM)

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
