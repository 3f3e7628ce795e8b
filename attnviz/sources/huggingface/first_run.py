"""The first run of a model of which only a narrow copy was tried: it has to be as the copy was.

What a trial holds for all of a model's numbers is held here to its own weights, at the cost of one attention call per
kind. A model that is not as its copy is loaded again, and tried itself, see `trial.disbelieve`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from attnviz.core.errors import AttnvizError
from attnviz.core.record import Step
from attnviz.sources.huggingface import eager
from attnviz.sources.huggingface.loaded import Loaded

BOUNDS = {torch.float64: 0.01, torch.float32: 0.01}
"""Relative difference of the same hidden states, computed in two ways: rounding is far below, another formula above."""
BOUND = 0.1
"""The same in 16 bits."""


def check(
    loaded: Loaded,
    steps: Sequence[Step],
    output: Any,
    hidden: Tensor,
    read: dict[str, Tensor],
    lengths: tuple[int, ...],
) -> None:
    """Hold a run to the trial: its sites, heads, maps and hidden states, and in a captured run the weights.

    Args:
        hidden: the last hidden states, (B, n, d_model).

    Raises:
        AttnvizError: if it is another one.
    """
    trial, expected = loaded.trial, eager.sizes(read)
    rows = *read.get("decoder_input_ids", read["input_ids"]).shape, trial.d_model
    alike = {step.site: step.num_heads for step in steps} == dict(trial.heads) and tuple(hidden.shape) == rows
    alike = alike and all(is_whole(step, expected) for step in steps)
    if trial.is_captured and alike:
        first = {step.site.kind: step for step in reversed(steps)}.values()
        own, family = eager.maps(output, steps[0].site.kind), loaded.config.model_type
        for step in (step for step in first if step.site in own):
            is_map = eager.is_map(family, step.site, own[step.site], *expected[step.site.kind])
            alike = alike and not (is_map and not eager.are_weights(step, own[step.site], family, lengths))
    if not alike:
        raise AttnvizError(f"{loaded.made_of} does not run as a narrow copy of it.")
    loaded.first_run.passed = True


def is_whole(step: Step, sizes: dict[str, tuple[int, int]]) -> bool:
    """Whether a step is one map of all queries and keys."""
    return (step.shape[2], step.shape[3] - step.has_sink) == sizes[step.site.kind]


def differ(hidden: Tensor, expected: Tensor, length: int | None = None) -> bool:
    """Whether hidden states of one sentence differ, without padding; NaN does not: a broken model is shown as it is."""
    off, own = (hidden - expected)[:length].double().norm(), expected[:length].double().norm()
    return bool(off > BOUNDS.get(hidden.dtype, BOUND) * own)
