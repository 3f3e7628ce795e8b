"""Neighborhood attention, held against the papers' definition in plain steps."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.errors import MaskError
from attnviz.core.masks import Neighborhood, Window


def neighbors(i, size, length, step):
    """The keys of query i: its group, and of that a stretch that is moved inward at the ends."""
    group = list(range(i % step, length, step))
    start = min(max(group.index(i) - size // 2, 0), max(len(group) - size, 0))
    return group[start : start + size]


@given(size=st.integers(1, 9), length=st.integers(1, 15), step=st.integers(1, 5))
def test_each_query_sees_its_neighborhood(size, length, step):
    """Also where a group has fewer tokens than the neighborhood; beyond the length there is nothing."""
    grid = Neighborhood(size, length, step).grid(length + 2)

    for i in range(length + 2):
        seen = grid[i].nonzero().flatten().tolist()
        assert seen == (neighbors(i, size, length, step) if i < length else [])


@given(size=st.integers(1, 7), length=st.integers(7, 20))
def test_every_query_sees_as_many_keys(size, length):
    """Which is what sets it apart from a window; away from the ends it is one."""
    grid, side = Neighborhood(size, length).grid(length), size // 2

    assert grid.sum(1).tolist() == [size] * length
    window = Window(side, size - 1 - side).grid(length)
    assert torch.equal(grid[side : length - side], window[side : length - side])


def test_a_neighborhood_of_nothing_is_refused():
    with pytest.raises(MaskError, match="The size of 'neighborhood' is 0; it must be 1 or more"):
        Neighborhood(0, 5)
