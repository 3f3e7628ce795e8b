"""Large masks: read to the last cell, whatever their size, and what was not compared is said."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.check import check
from attnviz.core.masks.observed import Observed

LARGE = 1100


def lower(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


@pytest.mark.parametrize("said", [{}, {"convention": "may-attend"}, {"intent": "causal", "convention": "may-attend"}])
def test_a_large_causal_mask_is_known(said):
    report = check(lower(LARGE), **said)

    assert report.causal
    assert report.rules("warning", "error") == set()


@pytest.mark.parametrize(
    ("cell", "value", "rule"), [((100, 200), True, "future-leak"), ((200, 100), False, "deviation")]
)
def test_one_wrong_cell_of_a_large_mask_is_named(cell, value, rule):
    """With a convention and without."""
    mask = lower(300)
    mask[cell] = value

    for said in ({}, {"convention": "may-attend"}):
        (found,) = [one for one in check(mask, **said).findings if one.severity == "warning"]
        assert (found.rule, found.cells) == (rule, (cell,))


@pytest.mark.parametrize("mistake", [torch.logical_not, torch.t, lambda mask: mask.roll(-1, 0)])
def test_a_mistake_in_a_large_mask_is_named(mistake):
    """Inverted, transposed, and with its rows one place too early."""
    mask = mistake(lower(300))

    assert check(mask, convention="may-attend").rules("warning", "error")
    assert not check(lower(300), convention="may-attend").rules("warning", "error")


def test_kinds_that_are_left_out_of_large_masks_are_said():
    """Masks with random keys, and those that some rows already rule out; only where nothing explains the mask."""
    noise = torch.rand(300, 300, generator=torch.Generator().manual_seed(0)) < 0.3
    (found,) = [one for one in check(noise, convention="may-attend").findings if one.rule == "ambiguous"]

    assert "not compared with masks that have random keys" in found.message
    assert "in full only where 1 row of 9 comes near" in found.message


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 4), st.integers(0, 10**6))
def test_diagonals_are_counted_as_they_lie(queries, keys, first, seed):
    """Most of the cells at each distance of key and query, counted one by one."""
    generator = torch.Generator().manual_seed(seed)
    grid, known = (torch.rand(queries, keys, generator=generator) < share for share in (0.5, 0.8))
    seen = Observed(grid, known, first)

    at = {int(one): (known & (seen.distance == one)) for one in seen.distance.unique()}
    assert seen.at_distance == {
        distance: 2 * int((grid & cells).sum()) > int(cells.sum()) for distance, cells in at.items() if cells.any()
    }
