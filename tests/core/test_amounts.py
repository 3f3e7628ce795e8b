"""Numbers for people."""

import math

import pytest

from attnviz.core.amounts import counted, decimals, in_cell, percent, rounding, size


@pytest.mark.parametrize(
    ("share", "digits", "text"),
    [
        (0.0004, 1, "<0.1%"),
        (0.9996, 1, ">99.9%"),
        (1.5, 1, "150.0%"),
        (0.996, 0, ">99%"),
        (math.nan, 1, "NaN"),
        (-math.inf, 0, "−∞"),
    ],
)
def test_a_share_in_percent_is_never_rounded_to_none_or_all(share, digits, text):
    assert percent(share, digits) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (90_900_000, "90.9 MB"), (5e12, "5000.0 GB")],
)
def test_bytes_have_one_digit_after_the_point_and_end_at_gigabytes(count, text):
    assert size(count) == text


def test_what_is_not_quite_nothing_does_not_read_as_nothing():
    assert [decimals(number, 2) for number in (0, 0.004, 0.005, 1, math.nan)] == [
        "0.00",
        "<0.01",
        "0.01",
        "1.00",
        "NaN",
    ]


def test_numbers_that_are_alike_differ_by_nothing():
    assert [rounding(apart) for apart in (0.0, 4.2e-7, 1.0, math.nan)] == ["0", "4.2e−07", "1.0e+00", "NaN"]


def test_one_thing_stands_in_the_singular():
    assert [counted(number, "row") for number in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]
    assert [counted(number, noun) for number in (1, 2) for noun in ("query", "key")] == [
        *("1 query", "1 key"),
        *("2 queries", "2 keys"),
    ]


def test_what_rounds_to_nothing_in_a_cell_has_no_sign():
    """A minus before 0.0 would say that the number is below nothing; one that is seen keeps it."""
    assert (in_cell(-0.02, short=True), in_cell(-0.004), in_cell(-0.0)) == ("0.0", "0.00", "0.00")
    assert (in_cell(-0.02), in_cell(-0.06, short=True)) == ("−0.02", "−0.1")
