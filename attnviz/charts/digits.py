"""Numbers as they stand in tables and beside pictures: the same digits everywhere."""

import math


def digits(value: float) -> str:
    """Four places after the point; very large and very small numbers with an exponent."""
    value = float(value)
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    plain = value == 0 or 1e-4 <= abs(value) < 1e5
    return (f"{value + 0.0:.4f}" if plain else f"{value:.2e}").replace("-", "−")


def short(value: float) -> str:
    """Three digits, for the inside of a cell."""
    value = float(value)
    if not math.isfinite(value):
        return digits(value)
    size = abs(value)
    value = 0.0 if size < 0.005 else value
    plain = f"{value:.2f}" if size < 9.995 else f"{value:.1f}" if size < 99.95 else f"{value:.0f}"
    return (plain if size < 1e4 else f"{value:.0e}").replace("-", "−")
