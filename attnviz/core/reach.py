"""The receptive field: which inputs can have reached a position after some layers under one mask."""

import torch
from torch import Tensor

from attnviz.core.errors import MaskError
from attnviz.core.masks import Mask

LARGEST = 2048
"""The largest size: one layer is a product of two (size, size) matrices, 17 GFLOP at 2,048."""
MOST_LAYERS = 128
"""The most layers; at the largest size each takes 4 MB."""


def reach(mask: Mask | Tensor, size: int, layers: int, *, sentence: int = 0) -> Tensor:
    """Which inputs each position can see after 1, 2, ..., `layers` layers of self-attention with the same mask.

    With A the mask, and the diagonal added, because the residual connection keeps a position's own vector whatever the
    mask says, position i sees input j after l layers where (A^l)[i, j] > 0: a path of l steps leads from i to j.
    Causal attention sees no further after any number of layers; a window of w keys before sees l · w.

    Args:
        mask: who may attend to whom in one layer: a named mask, or booleans (size, size), True = may attend.
        size: the number of positions, at most `LARGEST`.
        layers: from 1 to `MOST_LAYERS`.
        sentence: of a mask that differs between sentences, the one.

    Returns:
        Boolean, (layers, size, size): layer, position, input. Summed over the last axis: how many inputs each sees.

    Raises:
        MaskError: if the mask is not square, or the size or the number of layers is beyond what is computed.
    """
    if not 0 <= size <= LARGEST:
        raise MaskError(f"The receptive field is computed for 0 to {LARGEST:,} positions; given {size}.")
    if not 1 <= layers <= MOST_LAYERS:
        raise MaskError(f"The receptive field is computed for 1 to {MOST_LAYERS} layers; given {layers}.")
    step = mask.grid(size, sentence=sentence) if isinstance(mask, Mask) else mask
    if step.dtype is not torch.bool or step.shape != (size, size):
        actual = f"{tuple(step.shape)} of {step.dtype}"
        raise MaskError(f"A mask of self-attention holds ({size}, {size}) booleans, True = may attend; given {actual}.")
    step = (step | torch.eye(size, dtype=torch.bool)).float()
    reached = [step > 0]
    for _ in range(1, layers):
        further = (step @ reached[-1].float()) > 0
        if torch.equal(further, reached[-1]):  # nobody sees more, and so will nobody in any further layer
            break
        reached.append(further)
    return torch.stack(reached + reached[-1:] * (layers - len(reached)))
