"""The training mask of block diffusion, held against the three parts that its paper writes it in."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.masks import BlockDiffusion


@given(size=st.integers(1, 6), length=st.integers(1, 12))
def test_it_is_the_three_masks_of_the_paper(size, length):
    """Block-diagonal over the noised copy, offset block-causal to the clean one, block-causal over that."""
    block = torch.arange(length) // size
    own, before, so_far = (op(block[:, None], block) for op in (torch.eq, torch.gt, torch.ge))
    nothing = torch.zeros(length, length, dtype=torch.bool)
    paper = torch.cat([torch.cat([own, before], 1), torch.cat([nothing, so_far], 1)])

    grid = BlockDiffusion(size, length).grid(2 * length + 1)
    assert torch.equal(grid[:-1, :-1], paper)
    assert not grid[-1].any()
    assert not grid[:, -1].any()
