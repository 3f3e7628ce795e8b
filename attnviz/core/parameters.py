"""Parameters of masks and sources, each declared once beside its field for controls, links and the shell."""

import operator
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from typing import Any

from attnviz.core.errors import MaskError, quoted

MOST = 4096
"""The largest number a control offers: a page takes as many tokens."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a mask or a source.

    Attributes:
        name: of its field.
        label: what the control is called.
        least, most: the bounds of its numbers in a control.
        kind: "number", "numbers" for a list of them, "cells", which are painted and not typed, "flag" or "choice".
        default: what goes without saying; None where it depends on the tokens, or where it may be nothing.
        needed: whether a control may not be empty.
        required: whether nothing can be made without it.
        choices: of a choice.
        help: one sentence beside the control.
        on_page: whether the app has a control for it; links, the shell and Python have it always.
    """

    name: str
    label: str
    least: int = 0
    most: int = MOST
    kind: str = "number"
    default: Any = None
    needed: bool = True
    required: bool = False
    choices: tuple[str, ...] = ()
    help: str | None = None
    on_page: bool = True


def parameter(label: str, *, default: Any = MISSING, start: int | None = None, **options: Any) -> Any:
    """A field with what a control, a link and the shell need to know of it.

    Args:
        default: of the field; without one it must be given.
        start: what a control begins with, where the field has no default.
        options: of `Parameter`.
    """
    value = start if default is MISSING else default
    return field(default=default, metadata={"parameter": {"label": label, "default": value, **options}})


def parameters(owner: type) -> tuple[Parameter, ...]:
    """The parameters of a class of masks or sources, in the order of its fields."""
    declared: Iterable[Field] = fields(owner) if is_dataclass(owner) else ()
    return tuple(
        Parameter(f.name, **f.metadata["parameter"], required=f.default is MISSING)
        for f in declared
        if "parameter" in f.metadata
    )


def check_numbers(mask: Any, names: Iterable[str] = (), **least: int) -> None:
    """Hold the fields of a rule as whole numbers: those of these names, or all.

    Raises:
        MaskError: if a field is no whole number, or less than it must be.
    """
    for name in names or [parameter.name for parameter in fields(mask)]:
        value = getattr(mask, name)
        try:
            object.__setattr__(mask, name, operator.index(value))
        except TypeError:
            raise MaskError(f"The {name} of '{mask.rule}' is a whole number; given {quoted(value)}.") from None
        if value < least.get(name, value):
            raise MaskError(f"The {name} of '{mask.rule}' is {value}; it must be {least[name]} or more.")


def numbers_of(mask: Any, name: str, *, item: str) -> tuple[int, ...]:
    """A list that a rule holds, as whole numbers of 0 or more.

    Args:
        item: name of one of them: "length".

    Raises:
        MaskError: if it is anything else.
    """
    values = getattr(mask, name)
    try:
        numbers = tuple(operator.index(number) for number in values)
    except TypeError:
        raise MaskError(f"The {name} of '{mask.rule}' are a list of whole numbers; given {quoted(values)}.") from None
    if numbers and min(numbers) < 0:
        raise MaskError(f"A {item} of '{mask.rule}' is {min(numbers)}; it must be 0 or more.")
    return numbers
