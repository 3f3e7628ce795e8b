"""Numbers for people."""

import math

import pytest

from attnviz.core.amounts import percent, short


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (0, 1, "0.0%"),
        (0.0004, 1, "<0.1%"),
        (0.931, 1, "93.1%"),
        (0.9996, 1, ">99.9%"),
        (1, 1, "100.0%"),
        (1.5, 1, "150.0%"),
        (0.004, 0, "<1%"),
        (0.996, 0, ">99%"),
        (math.nan, 1, "NaN"),
        (math.inf, 1, "∞"),
        (-math.inf, 0, "−∞"),
    ],
)
def test_a_share_in_percent_is_never_rounded_to_none_or_all(share, digits, text):
    assert percent(share, digits) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (36, "36 B"), (999, "999 B"), (999.6, "1 kB"), (999_400, "999 kB"), (999_600, "1 MB"), (1e12, "1 TB")],
)
def test_three_digits_never_read_as_a_power_of_ten(number, text):
    """Just below a thousand of a unit it is one of the next; without a unit nothing follows."""
    assert short(number, "B") == text
    assert short(number) == text.removesuffix("B").strip()
