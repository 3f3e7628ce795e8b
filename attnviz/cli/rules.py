"""Masks as the shell says them."""

from functools import reduce
from operator import or_
from typing import Any

from attnviz.cli.parser import MASKS
from attnviz.core import masks
from attnviz.core.errors import InputError, quoted


def read(text: str) -> masks.Mask:
    """A mask from JSON, or from rules joined by "|", each a name and its numbers: "subsequent | prefix=3".

    Raises:
        AttnvizError: names the rules that there are.
    """
    if text.lstrip().startswith("{"):
        return masks.from_json(text)
    return reduce(or_, [masks.from_json(_rule(part.strip())) for part in text.split("|")])


def _rule(text: str) -> dict[str, Any]:
    """The JSON of "window=2,1" and its like."""
    name, _, values = text.partition("=")
    try:
        numbers = [int(value) for value in values.split(",")] if values else []
    except ValueError:
        numbers = None
    match name, numbers:
        case (("subsequent" | "full"), []):
            return {"rule": name}
        case "window", [before]:
            return {"rule": name, "before": before}
        case "window", [before, after]:
            return {"rule": name, "before": before, "after": after}
        case "prefix", [length]:
            return {"rule": name, "length": length}
        case "documents", [_, *_]:
            return {"rule": name, "lengths": numbers}
    raise InputError(f"There is no mask {quoted(text)}. There are: {MASKS}.")
