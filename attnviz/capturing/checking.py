"""The comparison of each map with the model's own numbers: some rows of the weights, or of the output, that it used."""

from dataclasses import dataclass, replace
from math import ceil
from typing import Self

import torch
from torch import Tensor

from attnviz.core import attention
from attnviz.core.record import Step
from attnviz.core.scoring import ALL, HALVES, Area

ROWS = 8
"""Rows of a call that are compared, at most, evenly spaced and the last one among them."""
BOUND, BOUND_OF_HALVES = 1e-4, 0.03
"""Differences of weights that rounding explains, as a share of 1, and of 1 in 16 bits."""
ROUNDING = 512
"""Times the resolution of a number type by which scores may differ, per unit of their size."""
NOTABLE = 1e-4
"""Difference of weights from which on it is reported."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows that a model computed itself.

    Attributes:
        rows: the queries that they are of.
        own: weights, (B, H, rows, K), or the output, (B, H, rows, d_v).
        is_output: which of the two.
        dtype: the coarsest type of the numbers that they were computed from.
    """

    rows: slice
    own: Tensor
    is_output: bool
    dtype: torch.dtype

    @classmethod
    def of(cls, own: Tensor, *dtypes: torch.dtype, is_output: bool = False) -> Self:
        """A sample of weights or of an output, (B, H, Q, ...), copied."""
        queries = own.shape[2]
        stride = max(1, ceil(queries / ROWS))
        rows = slice((queries - 1) % stride if queries else 0, queries, stride)
        coarsest = max((own.dtype, *dtypes), key=lambda dtype: torch.finfo(dtype).eps)
        return cls(rows, own.detach()[:, :, rows].clone(), is_output, coarsest)

    def moved(self, offset: int) -> Self:
        """The same rows in a map that has other queries before them."""
        return replace(self, rows=slice(self.rows.start + offset, self.rows.stop + offset, self.rows.step))

    def chosen(self, sentences: Tensor) -> Self:
        return replace(self, own=self.own[sentences.to(self.own.device)])


@dataclass(frozen=True)
class LargestDifference:
    """The largest difference between a map and a model's own numbers.

    Attributes:
        largest: of all rows compared; of outputs as a share of the largest value.
        excess: by how much it is above what rounding explains, as a factor; above 1 the map is wrong.
        rows_of_nan: how many of the model's own rows are not numbers.
        dtype: the type of the model's numbers.
    """

    largest: float = 0.0
    excess: float = 0.0
    rows_of_nan: int = 0
    dtype: torch.dtype = torch.float32


def difference(step: Step, samples: tuple[Sample, ...]) -> LargestDifference:
    """The largest difference of a step from the rows that the model used."""
    whole = LargestDifference()
    for sample in samples:
        current = _difference(step, sample)
        worst = max(whole, current, key=lambda each: each.excess)
        whole = replace(
            worst,
            largest=max(whole.largest, current.largest),
            rows_of_nan=whole.rows_of_nan + current.rows_of_nan,
        )
    return whole


@torch.no_grad()
def _difference(step: Step, sample: Sample) -> LargestDifference:
    weights, size = _weights(step, sample.rows)
    own, eps = sample.own.to(weights.device), torch.finfo(sample.dtype).eps
    unit = 1.0
    if sample.is_output:
        unit = float(step.value.abs().nan_to_num(0, 0, 0).amax()) if step.value.numel() else 0.0
        weights = weights.to(step.value.dtype) @ step.value
    width = min(weights.shape[-1], own.shape[-1])  # a pass has fewer keys than the generation, whose others it masks
    beyond = torch.cat([tensor[..., width:].flatten().double() for tensor in (weights, own)])
    rest = float(beyond.nan_to_num(0).abs().max()) if beyond.numel() else 0.0
    weights, own = weights[..., :width].double(), own[..., :width].double()
    is_on = torch.tensor(
        [[not step.is_off(head, sentence=b) for head in range(step.num_heads)] for b in range(step.shape[0])]
    )
    is_nan = own.isnan().any(-1)
    off = (weights - own).abs()
    off = off.masked_fill(weights.isnan() & own.isnan(), 0).nan_to_num(nan=torch.inf)
    is_empty = step.logsumexp[:, :, sample.rows, None] == -torch.inf
    off = off.masked_fill(~is_on[:, :, None, None] | is_empty, 0)  # a fully masked row follows a policy of its own
    bound = BOUND_OF_HALVES if sample.dtype in HALVES else BOUND
    within = bound * max(unit, 1e-30) + own.abs().nan_to_num(0) * min(ROUNDING * eps * (1 + size), 0.5)
    excess = max(float((off / within).max()) if off.numel() else 0.0, rest / bound)
    largest = max(float(off.max()) / max(unit, 1e-30) if off.numel() else 0.0, rest)
    return LargestDifference(largest, excess, int((is_nan & is_on[:, :, None]).sum()), sample.dtype)


def _weights(step: Step, rows: slice) -> tuple[Tensor, float]:
    """Some rows of the weights of a step, (B, H, rows, K), and the size of the largest open score."""
    _, _, queries, keys = step.shape
    scores = step.scoring.scores(step.query, step.key, Area(rows=rows))
    scores = attention.masked(scores, attention.window(step.mask, rows, ALL, queries=queries, keys=keys))
    logsumexp = step.logsumexp[:, :, rows]
    weights = attention.normalize(scores, logsumexp=logsumexp)
    is_empty = (logsumexp == -torch.inf).unsqueeze(-1)
    weights = attention.fill_empty(weights, is_empty, step.scoring.empty_rows, keys=keys)
    is_open = scores.isfinite()
    return weights, float(scores.abs().masked_fill(~is_open, 0).amax()) if scores.numel() else 0.0
