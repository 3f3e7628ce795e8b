"""One head of a step, or all of them combined by a name: weights and rules."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnviz.core.errors import InputError
from attnviz.core.record import ALL, Step

AGGREGATIONS = ("mean", "max", "min")
"""Ways to see all heads of a step as one."""


def combined_weights(step: Step, how: str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """The weights of all heads as one, (rows, columns): their mean, or the largest or smallest of each cell."""
    if how not in AGGREGATIONS:
        raise InputError(f"Heads cannot be combined by {how!r}; there are {', '.join(AGGREGATIONS)}.")
    together = step.weights(0, rows, columns, sentence=sentence)
    for head in range(1, step.num_heads):
        weights = step.weights(head, rows, columns, sentence=sentence)
        join = {"mean": torch.add, "max": torch.maximum, "min": torch.minimum}[how]
        together = join(together, weights)
    return together / step.num_heads if how == "mean" else together


def weights_of(step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """The weights of one head, or of all heads combined by a name of `AGGREGATIONS`."""
    if isinstance(head, str):
        return combined_weights(step, head, rows, columns, sentence=sentence)
    return step.weights(head, rows, columns, sentence=sentence)


def reasons_of(
    step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0
) -> tuple[tuple[str, ...], Tensor]:
    """`Step.reasons` for one head; of combined heads a cell counts as blocked where every head blocks it."""
    reasons = [step.reasons(h, rows, columns, sentence=sentence) for h in heads_that_differ(step, head)]
    if len(reasons) == 1:
        return reasons[0]
    return reasons[0][0], torch.stack([blocked for _, blocked in reasons]).amin(0)


def may_attend(step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """`Step.may_attend` for one head; of combined heads, where any may."""
    masks = [step.may_attend(h, rows, columns, sentence=sentence) for h in heads_that_differ(step, head)]
    return torch.stack(masks).any(0)


def heads_that_differ(step: Step, head: int | str) -> Sequence[int]:
    """The heads to ask about masks: of combined heads that share one mask, the first stands for all."""
    if not isinstance(head, str):
        return (head,)
    return range(step.num_heads) if has_own_masks(step) else (0,)


def has_own_masks(step: Step) -> bool:
    """Whether heads may have different masks."""
    return isinstance(step.mask, Tensor) and step.mask.dim() == 4 and step.mask.shape[1] > 1


def empty_queries(step: Step, head: int | str, *, sentence: int = 0) -> Tensor:
    """Which queries have no key left, boolean, (Q,); of combined heads, those that no head can answer."""
    heads = range(step.num_heads) if isinstance(head, str) else (head,)
    return torch.stack([step.empty_queries(h, sentence=sentence) for h in heads]).all(0)
