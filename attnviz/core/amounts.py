"""Format numbers: shares, amounts, bytes, decimals and counts, the same way everywhere."""

import math
import re


def percent(share: float, digits: int = 1) -> str:
    """Format a share in percent; a share just above 0 or below 1 gets "<" or ">" and is not rounded to 0 % or 100 %."""
    smallest = 10 ** -(digits + 2)
    if not math.isfinite(share):
        return _format_not_finite(share)
    if 0 < share < smallest / 2:
        return f"<{smallest:.{digits}%}"
    return f">{1 - smallest:.{digits}%}" if 1 - smallest / 2 <= share < 1 else f"{share:.{digits}%}"


def size(count: float) -> str:
    """Format a number of bytes: "90.9 MB"; the largest unit is GB."""
    for power, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= power:
            return f"{count / power:.1f} {unit}"
    return f"{count:.0f} bytes"


def decimals(number: float, digits: int) -> str:
    """Format a number with `digits` digits after the point; a smaller positive number becomes "<0.01"."""
    if number != number:
        return "NaN"
    smallest = 10.0**-digits
    return f"<{smallest:g}" if 0 < number < smallest / 2 else f"{number:.{digits}f}"


def digits(value: float) -> str:
    """Format a number with four digits after the point; very large and very small numbers with an exponent."""
    value = float(value)
    if not math.isfinite(value):
        return _format_not_finite(value)
    plain = value == 0 or 1e-4 <= abs(value) < 1e5
    return (f"{value + 0.0:.4f}" if plain else f"{value:.2e}").replace("-", "−")


def rounding(difference: float) -> str:
    """Format a rounding difference: "4.2e−07", or "0" if it is 0."""
    if not math.isfinite(difference):
        return _format_not_finite(difference)
    return f"{difference:.1e}".replace("-", "−") if difference else "0"


NOISE = 1e-4
"""Share of a sum below which a remainder counts as rounding."""


def remainder(left: float, whole: float) -> str:
    """Format the rest `left` of a sum `whole`; "0 (rounding)" if it is so small that it depends on the processor."""
    return "0 (rounding)" if abs(left) <= NOISE * max(1.0, abs(whole)) else digits(left)


def in_cell(value: float, short: bool = False) -> str:
    """Format a number for a cell of a map with three digits, or two if the cell is narrow."""
    value = float(value)
    if not math.isfinite(value):
        return _format_not_finite(value)
    amount = abs(value)
    value = 0.0 if amount < 0.005 else value
    decimals = sum(amount < limit for limit in (9.995, 99.95))
    plain = f"{value:z.{max(0, decimals - short)}f}"  # a number that rounds to 0 has no sign
    return (plain if amount < 1e4 else f"{value:.0e}").replace("-", "−")


def written(value: float, form: str) -> str:
    """Format a number by a format specification, such as ".4f"; also NaN and infinity."""
    return format(value, form) if math.isfinite(value) else _format_not_finite(value)


def counted(number: int, noun: str) -> str:
    """Format a count with its noun: "1 row", "2,000 rows"."""
    return f"{number:,} {plural(noun, number)}"


def plural(noun: str, number: int) -> str:
    """Return the singular or plural of a noun for a count: "row", "rows"; "query", "queries"."""
    return noun if number == 1 else re.sub(r"(?<![aeiou])y$", "ie", noun) + "s"


def _format_not_finite(value: float) -> str:
    """Format NaN or an infinite number."""
    if math.isnan(value):
        return "NaN"
    return "∞" if value > 0 else "−∞"
