"""Numbers for people: shares, amounts, bytes, decimals and counts, said the same everywhere."""

import math
import re

POWERS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def percent(share: float, digits: int = 1) -> str:
    """A share in percent; what is not quite none or all of it does not read as if it were."""
    smallest = 10 ** -(digits + 2)
    if not math.isfinite(share):
        return _odd(share)
    if 0 < share < smallest / 2:
        return f"<{smallest:.{digits}%}"
    return f">{1 - smallest:.{digits}%}" if 1 - smallest / 2 <= share < 1 else f"{share:.{digits}%}"


def short(number: float, unit: str = "") -> str:
    """Three digits, a letter, and a unit: 12.3 M, or 12.3 MB."""
    for power, letter in POWERS:
        if number >= 0.9995 * power:  # what would read 1e+03 of the smaller unit
            return f"{number / power:.3g} {letter}{unit}"
    return f"{number:.3g} {unit}".rstrip()


def size(count: float) -> str:
    """Bytes: "90.9 MB"; the largest unit is GB."""
    power, letter = next((unit for unit in POWERS[1:] if count >= unit[0]), (1, ""))
    return f"{count / power:.1f} {letter}B" if letter else f"{count:.0f} bytes"


def decimals(number: float, digits: int) -> str:
    """A number with some digits after the point; what is not quite nothing does not read as if it were."""
    if number != number:
        return "NaN"
    smallest = 10.0**-digits
    return f"<{smallest:g}" if 0 < number < smallest / 2 else f"{number:.{digits}f}"


def digits(value: float) -> str:
    """Four places after the point; very large and very small numbers with an exponent."""
    value = float(value)
    if not math.isfinite(value):
        return _odd(value)
    plain = value == 0 or 1e-4 <= abs(value) < 1e5
    return (f"{value + 0.0:.4f}" if plain else f"{value:.2e}").replace("-", "−")


def rounding(apart: float) -> str:
    """How far numbers differ that should be alike: "4.2e−07"; "0" where they do not."""
    if not math.isfinite(apart):
        return _odd(apart)
    return f"{apart:.1e}".replace("-", "−") if apart else "0"


NOISE = 1e-4
"""Share of a sum below which what is left of it is rounding."""


def remainder(left: float, whole: float) -> str:
    """Remainder of a sum in digits; one that is rounding, which differs between processors, is 0."""
    return "0 (rounding)" if abs(left) <= NOISE * max(1.0, abs(whole)) else digits(left)


def in_cell(value: float, short: bool = False) -> str:
    """Three digits, for the inside of a cell; two where it is narrow."""
    value = float(value)
    if not math.isfinite(value):
        return _odd(value)
    amount = abs(value)
    value = 0.0 if amount < 0.005 else value
    places = sum(amount < limit for limit in (9.995, 99.95))
    plain = f"{value:z.{max(0, places - short)}f}"  # what rounds to nothing has no sign
    return (plain if amount < 1e4 else f"{value:.0e}").replace("-", "−")


def written(value: float, form: str) -> str:
    """A number in a form of its own, such as ".4f"."""
    return format(value, form) if math.isfinite(value) else _odd(value)


def counted(number: int, noun: str) -> str:
    """A number of things: "1 row", "2,000 rows"."""
    return f"{number:,} {plural(noun, number)}"


def plural(noun: str, number: int) -> str:
    """A noun for a number of things: "row", "rows"; "query", "queries"."""
    return noun if number == 1 else re.sub(r"(?<![aeiou])y$", "ie", noun) + "s"


def _odd(value: float) -> str:
    """A number that is not finite."""
    if math.isnan(value):
        return "NaN"
    return "∞" if value > 0 else "−∞"
