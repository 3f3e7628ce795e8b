"""What the link says of how a head is shown.

`as` is ``lines`` or ``text``, and a map without it. Tokens that are picked are ``q2-k5``: query 2 and key 5. The heads
that are drawn beside the one in focus are ``0-3``, the weight from which on there are lines ``0.05``, and the side of a
text ``to``.
"""

import re

from attnviz.core.errors import InputError

FORMS = ("map", "lines", "text")
SIDES = ("from", "to")
LEAST = (None, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Weights from which on there can be lines; None for the strongest."""

Pins = frozenset[tuple[str, int]]
_ENDS = {"q": "query", "k": "key"}


def encode_form(form: str) -> str:
    return "" if form == FORMS[0] else form


def decode_form(text: str) -> str:
    """Read what `encode_form` wrote.

    Raises:
        InputError: if it is anything else.
    """
    return _one_of(text, FORMS)


def encode_side(side: str) -> str:
    return "" if side == SIDES[0] else side


def decode_side(text: str) -> str:
    """Read what `encode_side` wrote.

    Raises:
        InputError: if it is anything else.
    """
    return _one_of(text, SIDES)


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


def encode_least(least: float | None) -> str:
    return "" if least is None else f"{least:g}"


def decode_least(text: str) -> float | None:
    """Read what `encode_least` wrote.

    Raises:
        InputError: if it is anything else.
    """
    found = {encode_least(least): least for least in LEAST}
    if text not in found:
        raise InputError(f"'{text[:40]}' is no weight to draw lines from; there are {', '.join(filter(None, found))}.")
    return found[text]


def _one_of(text: str, known: tuple[str, ...]) -> str:
    if text and text not in known:
        raise InputError(f"'{text[:40]}' is not one of {', '.join(known)}.")
    return text or known[0]


ENCODED = {
    "as": (encode_form, decode_form, FORMS[0]),
    "pins": (encode_pins, decode_pins, frozenset()),
    "also": (encode_also, decode_also, ()),
    "least": (encode_least, decode_least, None),
    "side": (encode_side, decode_side, SIDES[0]),
}
"""Of each part: how it is written and read, and what it is without a link."""
