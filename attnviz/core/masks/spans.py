"""Arguments of the predicate of a mask: tensors of positions, ranges of positions, or symbols, which print themselves.

A predicate uses only operators and the functions of this file. So the same code gives the cells of a mask, decides
whether a block is open without computing its cells, and is printed as code.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor


class Span:
    """All integers from `low` to `high`, as an argument of a predicate that is evaluated for all of them at once.

    A comparison gives a Span, too: 1 to 1 if it is true for all integers, 0 to 0 if for none, 0 to 1 if for some. The
    functions below call the methods from `is_in` on, which have the same names.
    """

    __slots__ = ("high", "low")

    def __init__(self, low: int, high: int):
        self.low, self.high = low, high

    def __add__(self, other: "int | Span") -> "Span":
        low, high = _ends(other)
        return Span(self.low + low, self.high + high)

    def __sub__(self, other: "int | Span") -> "Span":
        low, high = _ends(other)
        return Span(self.low - high, self.high - low)

    def __rsub__(self, other: int) -> "Span":
        return Span(other - self.high, other - self.low)

    def __floordiv__(self, other: int) -> "Span":
        return Span(self.low // other, self.high // other)

    def __mod__(self, other: int) -> "Span":
        has_one_quotient = self.low // other == self.high // other
        return Span(self.low % other, self.high % other) if has_one_quotient else Span(0, other - 1)

    def __le__(self, other: "int | Span") -> "Span":
        low, high = _ends(other)
        return Span(self.high <= low, self.low <= high)

    def __lt__(self, other: "int | Span") -> "Span":
        low, high = _ends(other)
        return Span(self.high < low, self.low < high)

    def __ge__(self, other: "int | Span") -> "Span":
        return ~(self < other)

    def __gt__(self, other: "int | Span") -> "Span":
        return ~(self <= other)

    def __eq__(self, other: "int | Span") -> "Span":
        return (self <= other) & (self >= other)

    __hash__ = None

    def __and__(self, other: "Span") -> "Span":
        return Span(min(self.low, other.low), min(self.high, other.high))

    def __or__(self, other: "Span") -> "Span":
        return Span(max(self.low, other.low), max(self.high, other.high))

    def __invert__(self) -> "Span":
        return Span(1 - self.high, 1 - self.low)

    def is_in(self, numbers: Sequence[int]) -> "Span":
        """Whether the integers of the span are in a sorted list: all, some or none of them."""
        count = bisect_right(numbers, self.high) - bisect_left(numbers, self.low)
        return Span(count == self.high - self.low + 1, count > 0)

    def num_up_to(self, numbers: Sequence[int]) -> "Span":
        return Span(bisect_right(numbers, self.low), bisect_right(numbers, self.high))

    def item_of(self, numbers: Sequence[int]) -> "Span":
        items = numbers[self.low : self.high + 1]
        return Span(min(items), max(items))

    def is_cell(self, key: "Span", cells: Sequence[tuple[int, int]]) -> "Span":
        """Whether the cells of queries, this span, and keys are in a sorted list: all, some or none of them."""
        first, end = bisect_left(cells, (self.low,)), bisect_left(cells, (self.high + 1,))
        count = sum(key.low <= column <= key.high for _, column in cells[first:end])
        return Span(count == (self.high - self.low + 1) * (key.high - key.low + 1), count > 0)


UNKNOWN = Span(0, 1)
WIDE = 2**32  # the index of a cell is query · WIDE + key


def is_in(number: Any, numbers: Sequence[int]) -> Any:
    """Whether a number is in a sorted list without duplicates."""
    if isinstance(number, Tensor):
        return torch.isin(number, torch.tensor(numbers, dtype=torch.int64))
    return number.is_in(numbers)


def num_up_to(number: Any, numbers: Sequence[int]) -> Any:
    """Count the entries of a sorted list that are at most `number`."""
    if isinstance(number, Tensor):
        return torch.searchsorted(torch.tensor(numbers, dtype=torch.int64), number.contiguous(), right=True)
    return number.num_up_to(numbers)


def num_ends(number: Any, lengths: Sequence[int]) -> Any:
    """Count how many consecutive ranges of the given lengths, from position 0 on, end at or before a position."""
    if isinstance(number, Tensor | Span):
        return num_up_to(number, [*accumulate(lengths)])
    return number.num_ends(lengths)


def item_of(number: Any, numbers: Sequence[int]) -> Any:
    """Look up the item of a list at an index."""
    return torch.tensor(numbers)[number] if isinstance(number, Tensor) else number.item_of(numbers)


def is_cell(query: Any, key: Any, cells: Sequence[tuple[int, int]]) -> Any:
    """Whether (query, key), as tensors, spans or symbols, is in a sorted list of cells without duplicates."""
    if isinstance(query, Tensor):  # one integer per cell
        return is_in(query * WIDE + key, [row * WIDE + column for row, column in cells])
    return query.is_cell(key, cells)


def size(numbers: Any) -> Any:
    """Return the length of a tuple; for a `writing.Symbol`, the code of the length."""
    return len(numbers) if isinstance(numbers, tuple) else numbers.size()


def _ends(number: int | Span) -> tuple[int, int]:
    """Smallest and largest value of a range, or of a single number."""
    return (number.low, number.high) if isinstance(number, Span) else (number, number)
