"""What the link says of how a head is shown.

`as` is ``lines`` or ``text``, and a map without it. Tokens that are picked are ``q2-k5``: query 2 and key 5. The heads
that are drawn beside the one in focus are ``0-3``.
"""

import re

from attnviz.core.errors import InputError

FORMS = ("map", "lines", "text")
SIDES = ("from", "to")
LEAST = (None, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Weights from which on there can be lines; None for the strongest."""

Pins = frozenset[tuple[str, int]]
_ENDS = {"q": "query", "k": "key"}


def encode_pins(pins: Pins) -> str:
    return "-".join(f"{side[0]}{position}" for side, position in sorted(pins, reverse=True))


def decode_pins(text: str) -> Pins:
    """Read what `encode_pins` wrote.

    Raises:
        InputError: if it is anything else.
    """
    parts = text.split("-") if text else []
    found = [re.fullmatch(r"([qk])(\d{1,6})", part, re.ASCII) for part in parts]
    if len(parts) > 200 or not all(found):
        raise InputError(f"'{text[:40]}' does not name tokens; it should look like q2-k5.")
    return frozenset((_ENDS[m[1]], int(m[2])) for m in found if m)


def encode_also(heads: tuple[int, ...]) -> str:
    return "-".join(map(str, heads))


def decode_also(text: str) -> tuple[int, ...]:
    """Read what `encode_also` wrote.

    Raises:
        InputError: if it is anything else.
    """
    parts = text.split("-") if text else []
    if len(parts) > 64 or not all(re.fullmatch(r"\d{1,3}", part, re.ASCII) for part in parts):
        raise InputError(f"'{text[:40]}' does not name heads to draw; it should look like 0-3.")
    return tuple(dict.fromkeys(map(int, parts)))
