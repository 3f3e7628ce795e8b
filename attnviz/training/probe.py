"""Measurement of heads, for the cards of the shipped models: patterns of keys, and the share of weight on them.

A pattern is boolean, (B, Q, K), True at the expected keys of a row. A row without such a key does not count.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnviz.core.edits import Site
from attnviz.core.record import Step
from attnviz.models import trained

Head = tuple[Site, int]
"""Site of an attention call, and index of a head."""
Card = dict[str, Any]
RATE, WEIGHT = 0.6, 0.4
"""A head has a role if `Look.rate` and `Look.weight` are at least these shares."""


@dataclass(frozen=True)
class Look:
    """Attention of one head to a pattern.

    Attributes:
        rows: number of rows that have keys in the pattern; the shares and means are over these rows.
        rate: share of the rows whose largest weight is in the pattern.
        weight: mean weight in the pattern.
        even: mean weight in the pattern that a head with equal weights on all open keys would have.
    """

    rows: int
    rate: float
    weight: float
    even: float


def measure_head(weights: Tensor, pattern: Tensor, allowed: Tensor) -> Look:
    """Measure the (B, Q, K) weights of a head against a pattern; `allowed` is the mask, of the same shape."""
    has_keys = pattern.any(-1)
    key = weights.argmax(-1, keepdim=True)
    is_largest_in_pattern = pattern.gather(-1, key).squeeze(-1)
    weight_in_pattern = (weights * pattern).sum(-1)
    even_weight = pattern.sum(-1) / allowed.sum(-1)
    by_row = is_largest_in_pattern, weight_in_pattern, even_weight  # each (B, Q)
    return Look(int(has_keys.sum()), *[float(values[has_keys].double().mean()) for values in by_row])


def measure_heads(steps: Iterable[Step], patterns: dict[str, dict[str, Tensor]]) -> dict[Head, dict[str, Look]]:
    """Measure each head of a run against the named patterns for its kind of attention."""
    looks = {}
    for step in steps:
        allowed = torch.stack([step.may_attend(0, sentence=sentence) for sentence in range(step.shape[0])])
        for head in range(step.num_heads):
            weights = weights_of(step, head)
            kind_patterns = patterns.get(step.site.kind, {}).items()
            looks[step.site, head] = {name: measure_head(weights, pattern, allowed) for name, pattern in kind_patterns}
    return looks


def weights_of(step: Step, head: int) -> Tensor:
    """Compute the weights of a head for each sentence of the batch, (B, Q, K)."""
    return torch.stack([step.weights(head, sentence=sentence) for sentence in range(step.shape[0])])


def pattern_of(shape: tuple[int, int, int], cells: Iterable[tuple[int, int, Iterable[int]]]) -> Tensor:
    """Build a pattern from triples of sentence, row and keys."""
    pattern = torch.zeros(shape, dtype=torch.bool)
    for sentence, row, keys in cells:
        pattern[sentence, row, list(keys)] = True
    return pattern


# Patterns of a decoder with a causal mask, for (B, n) ids.


def causal(ids: Tensor) -> Tensor:
    """Mark each row's own position and all earlier positions."""
    batch, n = ids.shape
    return torch.ones(n, n, dtype=torch.bool).tril().expand(batch, n, n)


def back(ids: Tensor, by: int = 1) -> Tensor:
    """Mark the position `by` tokens before each row's own; the first `by` rows have none."""
    positions = torch.arange(ids.shape[1])
    return causal(ids) & (positions == positions.unsqueeze(1) - by)


def after_same(ids: Tensor) -> Tensor:
    """Mark all positions just after an earlier copy of the row's token; a row may have none."""
    follows_copy = (ids.unsqueeze(2) == ids.unsqueeze(1)).roll(1, 2)  # equal tokens, moved one key to the right
    follows_copy[:, :, 0] = False
    return causal(ids) & follows_copy


# Cards of the shipped models; their texts are written by hand in assets/models/<name>/card.json.


@dataclass(frozen=True)
class Role:
    """A behavior of heads.

    Attributes:
        name: keys that a head with this role attends to, in a few words without a comma.
        does: description of the behavior, a clause that begins with "looks".
        rows: noun for the rows in which the behavior is measured.
        next: next words for which the heads show the behavior, separated by spaces; empty for any next word.
    """

    name: str
    does: str
    rows: str = "rows"
    next: str = ""


def findings(
    measured: dict[Head, dict[str, Look]],
    roles: dict[str, Role],
    accuracy: Callable[..., float],
    *,
    texts: str,
    answers: str,
    by: str = "rates",
) -> list[Card]:
    """Describe the roles of heads, each with its evidence.

    Args:
        measured: attention of each head to the pattern of each role.
        accuracy: function that returns the share of correct answers with the given heads off.
        texts: number and kind of texts: "2,000 held-out texts".
        answers: noun for the answers that can be correct or wrong.
        by: number to show first: "rates", of rows with their largest weight in the pattern, or "shares" of weight.
    """
    cards, accuracy_on = [], accuracy()
    for (site, head), looks in measured.items():
        matching = {name: look for name, look in looks.items() if look.rate >= RATE and look.weight >= WEIGHT}
        accuracy_off = accuracy((site, head)) if matching else accuracy_on
        for name, look in sorted(matching.items(), key=lambda item: -item[1].rate):
            role, first = roles[name], look.rate if by == "rates" else look.weight
            evidence = (
                f"On {texts}, {look.rate:.1%} of {look.rows:,} {role.rows} have their largest weight there. On average"
                f" {look.weight:.1%} of the weight is there; an even look would put {look.even:.1%} there. With this"
                f" head off, {accuracy_off:.1%} of the {answers} are right instead of {accuracy_on:.1%}."
            )
            location = {"kind": site.kind, "layer": site.layer, "heads": [head]}
            words = {"role": role.name, "does": role.does, "next": role.next, "known": evidence}
            numbers = {by: [first], "chance": look.even, "off": [accuracy_off], "on": accuracy_on}
            cards.append(location | words | numbers)
    return cards


def card(
    name: str,
    *,
    opens: Head,
    sizes: dict[str, int],
    measured: list[tuple[str, float, float | None]],
    findings: list[Card],
    steps: int,
) -> Card:
    """Insert measurements into the card of a shipped model.

    Args:
        opens: head to show first.
        measured: noun phrases, each with a share from 0 to 1 and its goal or None.
        steps: number of training steps.
    """
    text = json.loads((trained.folder(name) / "card.json").read_text(encoding="utf-8"))
    minutes = json.loads((trained.folder(name) / "learning.json").read_text(encoding="utf-8"))["minutes"]
    training = f"Trained here from random weights: {steps:,} steps, {minutes:g} minutes on one CPU core."
    return text | {
        "made": f"{training} No head was told where to look.",
        "sizes": sizes,
        "measured": [{"what": what, "value": value, "goal": goal} for what, value, goal in measured],
        "findings": findings,
        "opens": {"kind": opens[0].kind, "layer": opens[0].layer, "head": opens[1]},
    }


def sizes(model: Any) -> dict[str, int]:
    """Count layers, heads, dimensions and weights of a model."""
    config = model.config
    return {
        "layers": config.num_layers,
        "heads per layer": config.num_heads,
        "numbers for each token (d_model)": config.d_model,
        "numbers of a query or a key (d_k)": config.d_model // config.num_heads,
        "weights": sum(weights.numel() for weights in model.parameters()),
    }
