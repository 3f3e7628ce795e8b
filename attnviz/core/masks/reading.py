"""Masks from JSON, which may come from a link or a file of anybody."""

import json
from dataclasses import fields
from typing import Any

from attnviz.core.errors import MaskError, quoted
from attnviz.core.masks.base import KEYWORDS, RULES, Mask

DEEPEST = 32
LARGEST = 100_000
"""Bounds of what `from_json` accepts: levels of nesting; numbers in one list, and the size of each number."""


def from_json(data: str | dict[str, Any]) -> Mask:
    """Make the mask that `Mask.to_json` described, from the object or its text.

    Raises:
        MaskError: says what is wrong, for data from a link or a file.
    """
    if isinstance(data, str):
        try:
            data = json.loads(data)
        except (ValueError, RecursionError):
            raise MaskError("The mask is not valid JSON.") from None
    return _read(data, 0)


def _read(data: Any, depth: int) -> Mask:
    if depth > DEEPEST:
        raise MaskError(f"The mask is nested more than {DEEPEST} deep.")
    if not isinstance(data, dict) or not isinstance(data.get("rule"), str):
        raise MaskError(f"A mask is an object with a rule; given {quoted(data)}.")
    rule, values = data["rule"], {name: value for name, value in data.items() if name != "rule"}
    kind = RULES.get(rule) or KEYWORDS.get(rule)
    if kind is None:
        raise MaskError(f"There is no mask rule {quoted(rule)}. There are: {', '.join(sorted(RULES))}.")
    names = {f.name for f in fields(kind)}
    if unknown := set(values) - names:
        options = ", ".join(sorted(names)) or "nothing"
        raise MaskError(f"The rule '{rule}' has no {quoted(unknown.pop())}; it has: {options}.")
    values = {name: _field(name, value, rule, depth) for name, value in values.items()}
    try:
        mask = kind(**values)
        mask.tensor(1, 1)
    except MaskError:
        raise
    except (TypeError, ValueError):
        raise MaskError(f"The rule '{rule}' cannot be read from {quoted(data)}.") from None
    return mask


def _field(name: str, value: Any, rule: str, depth: int) -> Any:
    """The value of one field of a rule: a mask, masks, or numbers."""
    if name == "mask":
        return _read(value, depth + 1)
    if name == "masks":
        _check_list(value, rule)
        return tuple(_read(mask, depth + 1) for mask in value)
    return _numbers(value, rule)


def _numbers(value: Any, rule: str, deep: int = 2) -> Any:
    """Integers, and lists of them two deep, within bounds; None stays."""
    if isinstance(value, list) and deep:
        _check_list(value, rule)
        return tuple(_numbers(item, rule, deep - 1) for item in value)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST:
        raise MaskError(f"The rule '{rule}' takes whole numbers up to {LARGEST:,}; given {quoted(value)}.")
    return value


def _check_list(value: Any, rule: str) -> None:
    if not isinstance(value, list) or len(value) > LARGEST:
        raise MaskError(f"The rule '{rule}' takes a list of at most {LARGEST:,} items.")
