"""Numbers for people: shares, and amounts of any size."""

import math


def percent(share: float, digits: int = 1) -> str:
    """A share in percent; what is not quite none or all of it does not read as if it were."""
    smallest = 10 ** -(digits + 2)
    if not math.isfinite(share):
        return "NaN" if math.isnan(share) else "∞" if share > 0 else "−∞"
    if 0 < share < smallest / 2:
        return f"<{smallest:.{digits}%}"
    return f">{1 - smallest:.{digits}%}" if 1 - smallest / 2 <= share < 1 else f"{share:.{digits}%}"


def short(number: float, unit: str = "") -> str:
    """Three digits, a letter, and a unit: 12.3 M, or 12.3 MB."""
    for power, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= 0.9995 * power:  # what would read 1e+03 of the smaller unit
            return f"{number / power:.3g} {letter}{unit}"
    return f"{number:.3g} {unit}".rstrip()
