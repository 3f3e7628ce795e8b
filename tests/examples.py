"""Numbers of examples of a law, and of the cases that are tried."""

from collections.abc import Sequence
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")

USUAL, FEWER = 40, 15
"""Examples of a law without a number of its own: the basis of other numbers, and the number that `make test` draws."""


def examples(count: int, **others) -> settings:
    """Settings with another number of examples, for laws whose examples take long or whose faults are rare."""
    return settings(max_examples=max(1, count * settings().max_examples // USUAL), **others)


def sweeps() -> bool:
    """Whether this is `make sweep`, which tries every case."""
    return settings().max_examples > USUAL


def some(cases: Sequence[T], most: int) -> Sequence[T]:
    """Pick `most` of the cases at even distances; in `make sweep` all of them."""
    if sweeps() or len(cases) <= most:
        return cases
    return [cases[i * len(cases) // most] for i in range(most)]
