"""Parameters of masks and sources, declared once at the dataclass field, for controls, links and the command line."""

import operator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any

from attnviz.core.errors import MaskError, quoted

MOST = 4096
"""Largest number that a control offers; equal to the maximum number of tokens of a page."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a mask or a source.

    Attributes:
        name: name of the field.
        label: label of the control.
        least, most: bounds of the number in a control.
        kind: "number", "numbers" for a list of numbers, "cells" to be painted in a map, "flag" or "choice".
        default: default value; None if it depends on the tokens, or if no value is needed.
        needed: whether the control must not be empty.
        required: whether the field has no default.
        signed: whether Python code may pass a number below `least`.
        choices: options, for the kind "choice".
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
    """A dataclass field with the metadata that controls, links and the command line need.

    Args:
        default: default value of the field; without it, the field is required.
        start: first value in the control of a field without a default.
        options: attributes of `Parameter`.
    """
    first_value = start if default is MISSING else default
    return field(default=default, metadata={"parameter": {"label": label, "default": first_value, **options}})


@cache
def parameters(owner: type) -> tuple[Parameter, ...]:
    """List the parameters of a mask class or source class, in the order of the fields."""
    all_fields = fields(owner) if is_dataclass(owner) else ()
    declared = [f for f in all_fields if "parameter" in f.metadata]
    return tuple(Parameter(f.name, **f.metadata["parameter"], required=f.default is MISSING) for f in declared)


def check_numbers(mask: Any) -> None:
    """Convert the numbers of a mask, in place, to int or tuples of int; raise MaskError for a number out of bounds."""
    for parameter in mask.parameters():
        value = getattr(mask, parameter.name)
        is_missing = value is None and not parameter.needed
        if parameter.kind == "cells" or is_missing:
            continue
        is_list = parameter.kind == "numbers"
        try:
            numbers = tuple(map(operator.index, value if is_list else (value,)))
        except TypeError:
            expected = "are a list of whole numbers" if is_list else "is a whole number"
            raise MaskError(f"The {parameter.name} of '{mask.rule}' {expected}; given {quoted(value)}.") from None
        if numbers and min(numbers) < parameter.least and not parameter.signed:
            subject = f"A {parameter.name.removesuffix('s')}" if is_list else f"The {parameter.name}"
            raise MaskError(f"{subject} of '{mask.rule}' is {min(numbers)}; it must be {parameter.least} or more.")
        object.__setattr__(mask, parameter.name, numbers if is_list else numbers[0])
