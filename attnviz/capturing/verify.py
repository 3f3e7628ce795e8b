"""Compare each recomputed map with the numbers of the model itself, and note unusual scales."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnviz.core import attention
from attnviz.core.amounts import counted
from attnviz.core.record import Step
from attnviz.core.scoring import ALL, HALVES, Area

ROWS = 8
"""Rows compared per call, at most; evenly spaced, and including the last row."""
BOUND, BOUND_OF_HALVES = 1e-4, 0.03
"""Differences of weights that rounding can explain, in general and for 16-bit dtypes."""
ROUNDING = 512
"""Tolerance of scores in units of the machine epsilon, relative to their size."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows that the model itself computed: weights, (B, H, rows, K), or outputs, (B, H, rows, d_v)."""

    rows: slice
    own: Tensor
    is_output: bool
    dtype: torch.dtype

    @classmethod
    def of(cls, own: Tensor, *dtypes: torch.dtype, is_output: bool = False) -> Self:
        """Copy evenly spaced rows of weights or of an output, (B, H, Q, ...)."""
        queries = own.shape[2]
        stride = -(-queries // ROWS) or 1
        rows = slice((queries - 1) % stride, queries, stride)
        coarsest = max((own.dtype, *dtypes), key=lambda dtype: torch.finfo(dtype).eps)
        return cls(rows, own.detach()[:, :, rows].clone(), is_output, coarsest)

    def moved(self, start: int, keys: int, all_keys: int) -> Self:
        """Shift the rows by `start` queries, and pad weights from `keys` to `all_keys` keys; a sink stays last."""
        own = self.own
        if not self.is_output:
            own = torch.cat([pad(own[..., :keys], (0, all_keys - keys)), own[..., keys:]], -1)
        return replace(self, rows=slice(self.rows.start + start, self.rows.stop + start, self.rows.step), own=own)


class LargestDifference(NamedTuple):
    """Largest difference of a map from the model, and `excess`, the ratio to the tolerance: above 1 is wrong."""

    excess: float = 0.0
    largest: float = 0.0
    has_nan: bool = False


def difference(step: Step, samples: tuple[Sample, ...]) -> LargestDifference:
    """Compute the largest difference between a step and the rows that the model computed."""
    each = [LargestDifference(), *(_difference(step, sample) for sample in samples)]
    return LargestDifference(*map(max, zip(*each, strict=True)))


@torch.no_grad()
def _difference(step: Step, sample: Sample) -> LargestDifference:
    """Compute the difference for one sample; rows without an open key follow other policies and are skipped."""
    queries, keys = step.shape[2:]
    scores = step.scoring.scores(step.query, step.key, Area(rows=sample.rows))
    scores = attention.masked(scores, attention.window(step.mask, sample.rows, ALL, queries=queries, keys=keys))
    if not scores.numel():
        return LargestDifference()
    logsumexp = step.logsumexp[:, :, sample.rows]
    rows, own = attention.normalize(scores, logsumexp=logsumexp), sample.own.to(scores.device).double()
    is_nan, unit = own.isnan(), 1.0
    if sample.is_output:
        rows, unit = rows.to(step.value.dtype) @ step.value, max(_largest(step.value), 1e-30)
    else:  # keys beyond the filled part of a cache have no weight
        width, is_nan = max(rows.shape[-1], own.shape[-1]), is_nan.any(-1, keepdim=True)
        rows, own = (pad(part, (0, width - part.shape[-1])) for part in (rows, own))
    heads = [[not step.is_off(head, sentence=b) for head in range(step.num_heads)] for b in range(step.shape[0])]
    is_on = torch.tensor(heads)[:, :, None, None]
    is_empty = (logsumexp == -torch.inf).unsqueeze(-1)
    is_left_out = (rows.isnan() & is_nan) | is_empty | ~is_on
    off = (rows.double() - own).abs().masked_fill(is_left_out, 0).nan_to_num(nan=torch.inf)
    bound, eps = (BOUND_OF_HALVES if sample.dtype in HALVES else BOUND), torch.finfo(sample.dtype).eps
    within = bound * unit + own.abs().nan_to_num(0) * min(ROUNDING * eps * (1 + _largest(scores)), 0.5)
    is_nan = is_nan & is_on & ~(is_empty & (step.scoring.empty_rows == "zero"))  # the model may have put zeros there
    return LargestDifference(float((off / within).max()), float(off.max()) / unit, bool(is_nan.any()))


def _largest(numbers: Tensor) -> float:
    """The largest absolute value of the finite numbers."""
    return float(numbers.abs().nan_to_num(0, 0, 0).max())


def notes(steps: Iterable[Step]) -> list[str]:
    """Report scales other than 1/√d_k, in one sentence per scale for all calls with it."""
    places: dict[str, list[str]] = {}
    for step in steps:
        width, scale = step.query.shape[-1], step.scoring.scale
        usual = width**-0.5
        if step.weights_only or scale is None or width < 2 or abs(scale / usual - 1) < 0.01:
            continue
        what = "the scores have no factor" if abs(scale - 1) < 1e-6 else f"scores are scaled by {scale:.4g}"
        sentence = f"{what}, where 1/√d_k is {usual:.4g}"
        places.setdefault(sentence, []).append(f"{step.site} ({step.name or 'the model'})")
    return [f"In {counted(len(names), 'call')} {what} (first: {names[0]})" for what, names in places.items()]
