"""Windows of a picture, held against Swin's own words: roll it, cut it, and keep apart what was not side by side."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.masks import PatchWindows


@given(rows=st.integers(1, 3), columns=st.integers(1, 3), size=st.integers(1, 4), data=st.data())
def test_a_patch_sees_its_window(rows, columns, size, data):
    """Of the rolled picture, and of it what came from the same strips of the picture."""
    shift = data.draw(st.integers(0, size - 1))
    height, width = rows * size, columns * size
    rolled = torch.arange(height * width).reshape(height, width).roll((-shift, -shift), (0, 1))
    part = {}
    for row in range(height):
        for column in range(width):
            from_start = row >= height - shift, column >= width - shift
            part[int(rolled[row, column])] = (row // size, column // size, from_start)
    grid = PatchWindows(width, size, shift).grid(height * width)

    assert all(
        bool(grid[query, key]) == (part[query] == part[key])
        for query in range(height * width)
        for key in range(height * width)
    )
