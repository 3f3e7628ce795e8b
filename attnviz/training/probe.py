"""Measurement of heads: patterns of keys, and the share of weight on them.

A pattern is boolean, (B, Q, K), True at the expected keys of a row. A row without such a key does not count.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.edits import Edits, Site
from attnviz.core.record import Step

Head = tuple[Site, int]
"""Site of an attention call, and index of a head."""


@dataclass(frozen=True)
class Look:
    """Attention of one head to a pattern.

    Attributes:
        rows: number of rows that count.
        rate: share of the rows whose largest weight is in the pattern.
        weight: mean weight in the pattern.
        even: mean weight in the pattern if the head attended to all open keys evenly.
    """

    rows: int
    rate: float
    weight: float
    even: float


def look(weights: Tensor, pattern: Tensor, allowed: Tensor) -> Look:
    """Measure the (B, Q, K) weights of a head against a pattern; `allowed` is the mask, of the same shape."""
    counted = pattern.any(-1)
    largest = pattern.gather(-1, weights.argmax(-1, keepdim=True)).squeeze(-1)
    within = (weights * pattern).sum(-1)
    even = pattern.sum(-1) / allowed.sum(-1)
    rate, weight, chance = (float(values[counted].double().mean()) for values in (largest, within, even))
    return Look(int(counted.sum()), rate, weight, chance)


def looks(steps: Iterable[Step], patterns: dict[str, dict[str, Tensor]]) -> dict[Head, dict[str, Look]]:
    """Measure all heads of a run against the patterns for their kind of attention: by head, then by name of pattern."""
    measured = {}
    for step in steps:
        sentences = range(step.shape[0])
        allowed = torch.stack([step.may_attend(0, sentence=sentence) for sentence in sentences])
        for head in range(step.num_heads):
            weights = weights_of(step, head)
            named = patterns.get(step.site.kind, {})
            measured[step.site, head] = {name: look(weights, part, allowed) for name, part in named.items()}
    return measured


def weights_of(step: Step, head: int) -> Tensor:
    """Compute the weights of a head for each sentence of the batch, (B, Q, K)."""
    return torch.stack([step.weights(head, sentence=sentence) for sentence in range(step.shape[0])])


def off(*heads: Head) -> Edits:
    """Make edits that switch heads off."""
    return Edits(heads_off=frozenset(heads))


def marked(shape: tuple[int, int, int], cells: Iterable[tuple[int, int, Iterable[int]]]) -> Tensor:
    """Build a pattern from triples of sentence, row and keys."""
    pattern = torch.zeros(shape, dtype=torch.bool)
    for sentence, row, keys in cells:
        pattern[sentence, row, list(keys)] = True
    return pattern


# Patterns of a decoder with a causal mask, for (B, n) ids.


def allowed(ids: Tensor) -> Tensor:
    """Mark the row's own position and all earlier ones."""
    batch, n = ids.shape
    return torch.ones(n, n, dtype=torch.bool).tril().expand(batch, n, n)


def back(ids: Tensor, by: int = 1) -> Tensor:
    """Mark the position `by` tokens before the row; the first rows have none."""
    positions = torch.arange(ids.shape[1])
    return allowed(ids) & (positions == positions.unsqueeze(1) - by)


def first(ids: Tensor) -> Tensor:
    """Mark the first position."""
    return allowed(ids) & (torch.arange(ids.shape[1]) == 0)


def same(ids: Tensor) -> Tensor:
    """Mark all positions with the row's token, up to the row itself."""
    return allowed(ids) & (ids.unsqueeze(2) == ids.unsqueeze(1))


def after_same(ids: Tensor) -> Tensor:
    """Mark all positions right after an earlier copy of the row's token; a row may have none."""
    return allowed(ids) & same_shifted(ids)


def same_shifted(ids: Tensor) -> Tensor:
    """Mark the keys right after a copy of the row's token."""
    equal = (ids.unsqueeze(2) == ids.unsqueeze(1)).roll(1, 2)
    equal[:, :, 0] = False
    return equal


def same_before(ids: Tensor) -> Tensor:
    """Mark all positions up to the row that follow the same token as the row; the first row has itself."""
    equal = same_shifted(ids).roll(1, 1)
    equal[:, 0] = torch.arange(ids.shape[1]) == 0
    return allowed(ids) & equal
