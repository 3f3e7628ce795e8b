"""The comparison of each map with the model's own numbers, and what is unusual about it."""

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
"""Rows of a call that are compared, at most, evenly spaced and the last one among them."""
BOUND, BOUND_OF_HALVES = 1e-4, 0.03
"""Differences of weights that rounding explains, as a share of 1, and of 1 in 16 bits."""
ROUNDING = 512
"""Times the resolution of a number type by which scores may differ, per unit of their size."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows that a model computed itself: of its weights, (B, H, rows, K), or of its output, (B, H, rows, d_v)."""

    rows: slice
    own: Tensor
    is_output: bool
    dtype: torch.dtype

    @classmethod
    def of(cls, own: Tensor, *dtypes: torch.dtype, is_output: bool = False) -> Self:
        """A sample of weights or of an output, (B, H, Q, ...), copied."""
        queries = own.shape[2]
        stride = -(-queries // ROWS) or 1
        rows = slice((queries - 1) % stride, queries, stride)
        coarsest = max((own.dtype, *dtypes), key=lambda dtype: torch.finfo(dtype).eps)
        return cls(rows, own.detach()[:, :, rows].clone(), is_output, coarsest)

    def moved(self, start: int, keys: int, all_keys: int) -> Self:
        """The same rows in a map with other queries before them and other keys behind theirs; a sink is last."""
        own = self.own
        if not self.is_output:
            own = torch.cat([pad(own[..., :keys], (0, all_keys - keys)), own[..., keys:]], -1)
        return replace(self, rows=slice(self.rows.start + start, self.rows.stop + start, self.rows.step), own=own)


class LargestDifference(NamedTuple):
    """How far a map is from a model's own numbers, and how many times what rounding explains: above 1 it is wrong."""

    excess: float = 0.0
    largest: float = 0.0
    has_nan: bool = False


def difference(step: Step, samples: tuple[Sample, ...]) -> LargestDifference:
    """The largest difference of a step from the rows that the model used."""
    each = [LargestDifference(), *(_difference(step, sample) for sample in samples)]
    return LargestDifference(*map(max, zip(*each, strict=True)))


@torch.no_grad()
def _difference(step: Step, sample: Sample) -> LargestDifference:
    """The difference of some rows. Those without an open key follow a policy of their own, and are not compared."""
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
    else:  # keys of a buffer that is not full have no weight
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
    """The largest number in size, but for those without an end."""
    return float(numbers.abs().nan_to_num(0, 0, 0).max())


def notes(steps: Iterable[Step]) -> list[str]:
    """Scales of scores other than 1/√d_k, each in one sentence for all calls that have it."""
    places: dict[str, list[str]] = {}
    for step in steps:
        width, scale = step.query.shape[-1], step.scoring.scale
        usual = width**-0.5
        if step.weights_only or scale is None or width < 2 or abs(scale / usual - 1) < 0.01:
            continue
        what = "no factor of the scores was seen" if abs(scale - 1) < 1e-6 else f"scores are scaled by {scale:.4g}"
        sentence = f"{what}, where 1/√d_k is {usual:.4g}"
        places.setdefault(sentence, []).append(f"{step.site} ({step.name or 'the model'})")
    return [f"In {counted(len(names), 'call')} {what} (first: {names[0]})" for what, names in places.items()]
