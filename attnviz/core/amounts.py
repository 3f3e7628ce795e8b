"""Format numbers: shares, amounts, bytes, decimals and counts, the same way everywhere."""

import math
import re


def percent(share: float, digits: int = 1) -> str:
    """Format a share from 0 to 1 in percent: "12.3%"; close to 0 or 1 "<0.1%" or ">99.9%", not "0.0%" or "100.0%"."""
    if not math.isfinite(share):
        return _format_not_finite(share)
    smallest = 10 ** -(digits + 2)  # the smallest share that can be written: 0.1% with one digit
    if 0 < share < smallest / 2:
        return f"<{smallest:.{digits}%}"
    if 1 - smallest / 2 <= share < 1:
        return f">{1 - smallest:.{digits}%}"
    return f"{share:.{digits}%}"


def size(count: float) -> str:
    """Format a number of bytes: "90.9 MB"; the largest unit is GB."""
    for power, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= power:
            return f"{count / power:.1f} {unit}"
    return f"{count:.0f} bytes"


def decimals(number: float, digits: int) -> str:
    """Format a number with `digits` digits after the point; a positive number that rounds to 0 becomes "<0.01"."""
    if math.isnan(number):
        return "NaN"
    smallest = 10.0**-digits
    return f"<{smallest:g}" if 0 < number < smallest / 2 else f"{number:.{digits}f}"


def digits(value: float) -> str:
    """Format a number with four digits after the point, "0.1250"; very large or small ones as "1.25e−07"."""
    value = float(value)
    if not math.isfinite(value):
        return _format_not_finite(value)
    needs_exponent = value != 0 and not 1e-4 <= abs(value) < 1e5
    text = f"{value:.2e}" if needs_exponent else f"{value:z.4f}"  # z: no sign before 0
    return text.replace("-", "−")


def rounding(difference: float) -> str:
    """Format a rounding difference: "4.2e−07", or "0" if it is 0."""
    if not math.isfinite(difference):
        return _format_not_finite(difference)
    return f"{difference:.1e}".replace("-", "−") if difference else "0"


NOISE = 1e-4
"""Share of a sum below which a remainder counts as rounding."""


def remainder(difference: float, total: float) -> str:
    """Format the part of `total` that no known term explains; "0 (rounding)" if it is not above rounding errors."""
    return "0 (rounding)" if abs(difference) <= NOISE * max(1.0, abs(total)) else digits(difference)


def in_cell(value: float, short: bool = False) -> str:
    """Format a number for a cell of a map: "0.12", "12.3", "123", "1e+04"; if `short`, with one decimal fewer."""
    value = float(value)
    if not math.isfinite(value):
        return _format_not_finite(value)
    if abs(value) >= 1e4:
        return f"{value:.0e}".replace("-", "−")
    num_decimals = 2
    if abs(value) >= 9.995:  # from here on, it rounds to "10.0"
        num_decimals = 1 if abs(value) < 99.95 else 0
    num_decimals = max(0, num_decimals - short)
    return f"{value:z.{num_decimals}f}".replace("-", "−")  # z: no sign before 0


def written(value: float, specification: str) -> str:
    """Format a number by a format specification of Python, such as ".4f"; NaN and infinity as "NaN", "∞" and "−∞"."""
    return format(value, specification) if math.isfinite(value) else _format_not_finite(value)


def counted(count: int, noun: str) -> str:
    """Format a count with its noun: "1 row", "2,000 rows"."""
    return f"{count:,} {plural(noun, count)}"


def plural(noun: str, count: int) -> str:
    """Return the singular or plural of a noun for a count: "row", "rows"; "query", "queries"."""
    return noun if count == 1 else re.sub(r"(?<![aeiou])y$", "ie", noun) + "s"


def _format_not_finite(value: float) -> str:
    """Format NaN or an infinite number."""
    if math.isnan(value):
        return "NaN"
    return "∞" if value > 0 else "−∞"
