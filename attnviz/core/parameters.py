"""Parameters of masks and sources, each declared once beside its field for controls, links and the shell."""

import operator
from collections.abc import Iterable
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
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
        signed: whether Python takes a number below `least`, too.
        choices: of a choice.
    """

    name: str
    label: str
    least: int = 0
    most: int = MOST
    kind: str = "number"
    default: Any = None
    needed: bool = True
    required: bool = False
    signed: bool = False
    choices: tuple[str, ...] = ()


def parameter(label: str, *, default: Any = MISSING, start: int | None = None, **options: Any) -> Any:
    """A field with what a control, a link and the shell need to know of it.

    Args:
        default: of the field; without one it must be given.
        start: what a control begins with, where the field has no default.
        options: of `Parameter`.
    """
    value = start if default is MISSING else default
    return field(default=default, metadata={"parameter": {"label": label, "default": value, **options}})


@cache
def parameters(owner: type) -> tuple[Parameter, ...]:
    """The parameters of a class of masks or sources, in the order of its fields."""
    declared: Iterable[Field] = fields(owner) if is_dataclass(owner) else ()
    return tuple(
        Parameter(f.name, **f.metadata["parameter"], required=f.default is MISSING)
        for f in declared
        if "parameter" in f.metadata
    )


def check_numbers(mask: Any) -> None:
    """Hold the numbers of a rule as whole numbers, and its lists as tuples of them.

    Raises:
        MaskError: if one is no whole number, or less than it must be.
    """
    for parameter in mask.parameters():
        value = getattr(mask, parameter.name)
        if parameter.kind == "cells" or (value is None and not parameter.needed):
            continue
        many = parameter.kind == "numbers"
        try:
            numbers = tuple(map(operator.index, value if many else (value,)))
        except TypeError:
            kind = "are a list of whole numbers" if many else "is a whole number"
            raise MaskError(f"The {parameter.name} of '{mask.rule}' {kind}; given {quoted(value)}.") from None
        if numbers and min(numbers) < parameter.least and not parameter.signed:
            what = f"A {parameter.name.removesuffix('s')}" if many else f"The {parameter.name}"
            raise MaskError(f"{what} of '{mask.rule}' is {min(numbers)}; it must be {parameter.least} or more.")
        object.__setattr__(mask, parameter.name, numbers if many else numbers[0])
