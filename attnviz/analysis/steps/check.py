"""Comparison of a call's numbers with PyTorch's own attention, on the same queries, keys and values."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from attnviz.analysis.steps.row import FIRST, checked_step, slice_of, window_positions
from attnviz.core.amounts import counted, rounding
from attnviz.core.edits import Site
from attnviz.core.record import Record

FUNCTION = "F.scaled_dot_product_attention"


@dataclass(frozen=True)
class Check:
    """Largest absolute differences over all heads of a call.

    Attributes:
        output, weights: difference of the outputs, and of the weights; None if PyTorch cannot compute this call.
        message: one sentence; why not, if it cannot.
    """

    output: float | None
    weights: float | None
    message: str


def check(record: Record, site: Site, *, sentence: int = 0, queries: slice = FIRST, keys: slice = FIRST) -> Check:
    """Compare the outputs of a window of queries, and their weights on a window of keys, with PyTorch's function.

    Heads that are off are compared as if they were on. A query with no key left is left out: there PyTorch gives NaN.

    Raises:
        InputError: if there is no such site or sentence, a window is too large, or only the weights are known.
    """
    step, where = checked_step(record, site, 0, 0, sentence), {"sentence": sentence}
    if step.scoring.softcap is not None:
        return Check(None, None, f"{FUNCTION} has no softcap, and this call has one.")
    rows = slice_of(window_positions(queries, step.shape[2], "queries"))
    columns = window_positions(keys, step.shape[3], "keys")
    wide = torch.promote_types(step.query.dtype, torch.float32)  # halves are raised, as in our attention
    query, key, value = (tensor[sentence].to(wide) for tensor in (step.query[:, :, rows], step.key, step.value))

    def of_heads(function: Callable[..., Tensor]) -> Tensor:
        return torch.stack([function(head, rows, **where) for head in range(step.num_heads)])

    mask = allowed = of_heads(step.may_attend)
    if step.scoring.bias:
        bias = of_heads(replace(step, query=torch.zeros_like(step.query)).scores)  # those of a query of zeros
        mask = bias.to(wide).masked_fill(~allowed, -math.inf)
    picks = torch.zeros(step.num_heads, step.shape[3], len(columns), dtype=wide)  # values that pick single weights
    picks[:, columns] = torch.eye(len(columns), dtype=wide)
    theirs = F.scaled_dot_product_attention(
        query, key, torch.cat([value, picks], -1), attn_mask=mask, scale=step.scoring.scale / step.scoring.temperature
    )
    weights = of_heads(step.weights)
    ours = torch.cat([weights.to(wide) @ value, weights[:, :, columns]], -1)
    compared = allowed.any(-1)
    difference = (ours.double() - theirs.double()).abs()[compared]
    largest = [float(part.max()) if part.numel() else 0.0 for part in difference.tensor_split([value.shape[-1]], -1)]
    empty = int((~compared).sum())
    left_out = f" {counted(empty, 'row')} with no key left not compared." if empty else ""
    differ = f"outputs differ by at most {rounding(largest[0])}, weights by at most {rounding(largest[1])}"
    return Check(*largest, f"{FUNCTION}: {differ}.{left_out}")
