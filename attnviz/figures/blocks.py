"""The blocks of a mask of FlexAttention: computed without the mask, computed with it, or skipped."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.charts.state import CellState
from attnviz.core.amounts import counted
from attnviz.core.errors import InputError
from attnviz.figures.states import StateGrid, States

KINDS = (
    CellState("empty (skipped)", "blocked", "hatch"),
    CellState("full (computed without the mask)", "open", "dot"),
    CellState("partial (the mask decides on each cell)", "open", "ring"),
)


def blocks(block_mask: Any, head: int = 0, batch: int = 0, **style: Any) -> StateGrid:
    """The blocks that FlexAttention has for one head of one sentence: full, partial or empty.

    Rows are blocks of queries, columns are blocks of keys, each with its first and last position.

    Args:
        block_mask: what `create_block_mask` of `torch.nn.attention.flex_attention` gives.
        head, batch: any number where all heads, or all sentences, share one table.
        style: as of every figure, such as dark=True.

    Raises:
        InputError: if it is no whole block mask, or has no such head or sentence, with what it has.
    """
    from torch.nn.attention.flex_attention import BlockMask

    if not isinstance(block_mask, BlockMask):
        hint = "give what torch.nn.attention.flex_attention.create_block_mask returns"
        raise InputError(f"A picture of blocks needs a BlockMask, not {type(block_mask).__name__}: {hint}.")
    sides = list(zip(block_mask.shape[-2:], block_mask.BLOCK_SIZE, strict=True))
    rows, columns = ([f"{i}–{min(i + size, length) - 1}" for i in range(0, length, size)] for length, size in sides)
    if len(block_mask.shape) < 4 or len(rows) != block_mask.kv_num_blocks.shape[-1]:
        raise InputError("The block mask is a part that was cut out of another one: give the whole one.")
    place, several = [], []
    for name, number, size in zip(("batch", "head"), (batch, head), block_mask.shape[:2], strict=True):
        if number < 0 or (size > 1 and number >= size):
            raise InputError(f"The block mask has no {name} {number}; it has {size}, counted from 0.")
        place.append(number if size > 1 else 0)
        several += [f"{name} {number}"] if size > 1 else []
    states = 2 * _listed(block_mask.kv_num_blocks, block_mask.kv_indices, place, len(columns))
    if block_mask.full_kv_num_blocks is not None:
        states += _listed(block_mask.full_kv_num_blocks, block_mask.full_kv_indices, place, len(columns))
    computed = f"{np.count_nonzero(states):,} of {counted(states.size, 'block')} computed"
    grid = States(
        title=f"Blocks of FlexAttention: {computed}",
        states=states,
        kinds=KINDS,
        rows=rows,
        columns=columns,
        titles=("Queries", "Keys"),
        lines=(f"blocks of {sides[0][1]:,} queries by {sides[1][1]:,} keys", *several),
        name=" ".join(["flex blocks", *several]),
        unit="Blocks",
    )
    return StateGrid(grid, **style)


def _listed(counts: Tensor, indices: Tensor, place: list[int], columns: int) -> np.ndarray:
    """The blocks in a table of one head and sentence, (rows, columns), 1 or 0.

    Args:
        counts: how many of a row's indices are listed, (B, H, rows).
        indices: their columns, (B, H, rows, at most).
    """
    row, nth = (torch.arange(indices.shape[-1]) < counts[*place, :, None].cpu()).nonzero(as_tuple=True)
    table = np.zeros((counts.shape[-1], columns), dtype=np.int64)
    table[row, indices[*place].cpu()[row, nth]] = 1
    return table
