"""Compare each recomputed map with rows that the model itself computed, and report unusual scales."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import ceil
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import pad

from attnviz.core import attention
from attnviz.core.amounts import counted
from attnviz.core.record import Step
from attnviz.core.scoring import ALL, HALVES, Area

ROWS = 8
"""Maximum number of rows that are compared per call; they are evenly spaced and include the last row."""
BOUND, BOUND_OF_HALVES = 1e-4, 0.03
"""Largest differences of weights that count as rounding: in general, and for 16-bit dtypes."""
ROUNDING = 512
"""Tolerance of scores in units of the machine epsilon, relative to their size."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Some rows that the model itself computed, with which a map is compared."""

    rows: slice  # queries of these rows
    values: Tensor  # weights, (B, H, rows, K), or if `is_output` outputs, (B, H, rows, d_v)
    is_output: bool
    dtype: torch.dtype  # coarsest number type of the computation, which gives the tolerance

    @classmethod
    def of(cls, values: Tensor, *dtypes: torch.dtype, is_output: bool = False) -> Self:
        """Copy evenly spaced rows of weights or of an output, (B, H, Q, ...), computed from tensors of `dtypes`."""
        queries = values.shape[2]
        stride = max(1, ceil(queries / ROWS))
        rows = slice((queries - 1) % stride, queries, stride)  # with the last row
        coarsest = max((values.dtype, *dtypes), key=lambda dtype: torch.finfo(dtype).eps)
        return cls(rows, values.detach()[:, :, rows].clone(), is_output, coarsest)

    def shift(self, start: int, keys: int, all_keys: int) -> Self:
        """Shift the rows by `start` queries, and pad weights from `keys` to `all_keys` keys; a sink stays last."""
        values = self.values
        if not self.is_output:
            key_weights, sink_weights = values[..., :keys], values[..., keys:]
            values = torch.cat([pad(key_weights, (0, all_keys - keys)), sink_weights], -1)
        return replace(self, rows=slice(self.rows.start + start, self.rows.stop + start, self.rows.step), values=values)


def difference(step: Step, samples: Iterable[Sample]) -> tuple[float, float]:
    """Compare a step with rows that the model computed. Return the largest difference, first as a multiple of its
    tolerance (above 1, the step is wrong), then relative to the size of the numbers."""
    excess = largest = 0.0
    for sample in samples:
        sample_excess, sample_largest = _difference(step, sample)
        excess, largest = max(excess, sample_excess), max(largest, sample_largest)
    return excess, largest


@torch.no_grad()
def _difference(step: Step, sample: Sample) -> tuple[float, float]:
    """Return the largest error of a sample: as a multiple of its tolerance, and relative to the size of the numbers."""
    queries, keys = step.shape[2:]
    scores = step.scoring.scores(step.query, step.key, Area(rows=sample.rows))
    scores = attention.mask_scores(scores, attention.window(step.mask, sample.rows, ALL, queries=queries, keys=keys))
    if not scores.numel():
        return 0.0, 0.0
    logsumexp, expected = step.logsumexp[:, :, sample.rows], sample.values.to(scores.device).double()
    computed, is_nan = attention.normalize(scores, logsumexp=logsumexp), expected.isnan()
    size = max(_largest(step.value), 1e-30) if sample.is_output else 1.0  # of the numbers; never 0
    if sample.is_output:
        computed = computed.to(step.value.dtype) @ step.value
    else:  # weights: one may lack the unfilled keys at the end of a cache, whose weight is 0
        width, is_nan = max(computed.shape[-1], expected.shape[-1]), is_nan.any(-1, keepdim=True)
        computed, expected = (pad(weights, (0, width - weights.shape[-1])) for weights in (computed, expected))
    is_on = [[not step.is_off(head, sentence=b) for head in range(step.num_heads)] for b in range(step.shape[0])]
    is_empty = (logsumexp == -torch.inf).unsqueeze(-1)  # rows without an open key are not compared
    is_ignored = (computed.isnan() & is_nan) | is_empty | ~torch.tensor(is_on)[:, :, None, None]
    error = (computed.double() - expected).abs().masked_fill(is_ignored, 0).nan_to_num(nan=torch.inf)
    bound, eps = (BOUND_OF_HALVES if sample.dtype in HALVES else BOUND), torch.finfo(sample.dtype).eps
    rounding_of_scores = min(ROUNDING * eps * (1 + _largest(scores)), 0.5)
    tolerance = bound * size + expected.abs().nan_to_num(0) * rounding_of_scores
    return float((error / tolerance).max()), float(error.max()) / size


def _largest(numbers: Tensor) -> float:
    """Find the largest absolute value of the finite numbers."""
    return float(numbers.abs().nan_to_num(0, 0, 0).max())


def scale_findings(steps: Iterable[Step]) -> list[str]:
    """Report scales other than 1/√d_k: one sentence per scale, for all calls that have it."""
    calls: dict[str, list[str]] = {}
    for step in steps:
        width, scale = step.query.shape[-1], step.scoring.scale
        if not step.weights_only and scale is not None and width > 1 and abs(scale * width**0.5 - 1) >= 0.01:
            problem = "the scores have no factor" if abs(scale - 1) < 1e-6 else f"scores are scaled by {scale:.4g}"
            sentence = f"{problem}, where 1/√d_k is {width**-0.5:.4g}"
            calls.setdefault(sentence, []).append(f"{step.site} ({step.name or 'the model'})")
    return [f"In {counted(len(names), 'call')} {sentence} (first: {names[0]})" for sentence, names in calls.items()]
