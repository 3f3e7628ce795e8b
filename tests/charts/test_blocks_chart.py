"""A block mask of FlexAttention as a picture: which blocks are full, partial or empty. PyTorch's own table decides."""

import numpy as np
import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, create_mask

from attnviz import figures
from attnviz.core.errors import InputError

EMPTY, FULL, PARTIAL = range(3)
MODS = {
    "causal": lambda b, h, q, k: q >= k,
    "window of each head": lambda b, h, q, k: (q >= k) & (q - k < 20 + 9 * h),
    "documents of each sentence": lambda b, h, q, k: q // (20 + 7 * b) == k // (20 + 7 * b),
    "nothing": lambda b, h, q, k: q < 0,
    "all": lambda b, h, q, k: q >= 0,
}


@pytest.mark.parametrize("case", MODS)
@pytest.mark.parametrize(("lengths", "size"), [((64, 96), 16), ((70, 45), 16), ((70, 45), (32, 8))])
def test_blocks_are_those_of_pytorch(case, lengths, size):
    """Its dense table, the counts of its rows, and the cells themselves."""
    batch, heads = 2, 3
    mask = create_block_mask(MODS[case], batch, heads, *lengths, device="cpu", BLOCK_SIZE=size)
    cells = create_mask(MODS[case], batch, heads, *lengths, device="cpu")
    high, wide = (size, size) if isinstance(size, int) else size
    for b in range(batch):
        for h in range(heads):
            figure = figures.blocks(mask, h, b)
            states = figure.arrays["states"]
            assert np.array_equal(states > 0, mask.to_dense()[b, h].bool())
            assert np.array_equal((states == FULL).sum(1), mask.full_kv_num_blocks[b, h])
            assert np.array_equal((states == PARTIAL).sum(1), mask.kv_num_blocks[b, h])
            for (i, j), state in np.ndenumerate(states):
                block = cells[b, h, i * high : (i + 1) * high, j * wide : (j + 1) * wide]
                expected = (
                    EMPTY if not block.any() else FULL if block.numel() == high * wide and block.all() else PARTIAL
                )
                assert state == expected
    assert figure.rows[-1] == f"{(len(states) - 1) * high}–{lengths[0] - 1}"


def test_a_mask_without_full_blocks_has_partial_ones_alone():
    """As where a mask is made of its tables by hand."""
    from torch.nn.attention.flex_attention import BlockMask

    counts, indices = torch.tensor([[[1, 2]]]), torch.tensor([[[[1, 0], [1, 0]]]])
    mask = BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=16)
    assert figures.blocks(mask).arrays["states"].tolist() == [[EMPTY, PARTIAL], [PARTIAL, PARTIAL]]


def test_what_is_no_such_mask_is_refused():
    mask = create_block_mask(MODS["causal"], 2, 3, 64, 64, device="cpu", BLOCK_SIZE=16)
    with pytest.raises(InputError, match=r"The block mask has no head 3; it has 3, counted from 0\."):
        figures.blocks(mask, head=3)
    with pytest.raises(InputError, match="no batch -1"):
        figures.blocks(mask, batch=-1)
    with pytest.raises(InputError, match="needs a BlockMask, not Tensor"):
        figures.blocks(torch.ones(4, 4))
    with pytest.raises(InputError, match="cut out of another one"):
        figures.blocks(mask[:, :, torch.tensor([1])])
