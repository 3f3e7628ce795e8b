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
"""Least share of rows with their largest weight in the pattern, and least share of weight in it, for a role."""


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


def measure_head(weights: Tensor, pattern: Tensor, allowed: Tensor) -> Look:
    """Measure the (B, Q, K) weights of a head against a pattern; `allowed` is the mask, of the same shape."""
    counted = pattern.any(-1)
    largest = pattern.gather(-1, weights.argmax(-1, keepdim=True)).squeeze(-1)
    within = (weights * pattern).sum(-1)
    even = pattern.sum(-1) / allowed.sum(-1)
    rate, weight, chance = (float(values[counted].double().mean()) for values in (largest, within, even))
    return Look(int(counted.sum()), rate, weight, chance)


def measure_heads(steps: Iterable[Step], patterns: dict[str, dict[str, Tensor]]) -> dict[Head, dict[str, Look]]:
    """Measure all heads of a run against the patterns for their kind of attention: by head, then by name of pattern."""
    measured = {}
    for step in steps:
        sentences = range(step.shape[0])
        allowed = torch.stack([step.may_attend(0, sentence=sentence) for sentence in sentences])
        for head in range(step.num_heads):
            weights = weights_of(step, head)
            named = patterns.get(step.site.kind, {})
            measured[step.site, head] = {name: measure_head(weights, part, allowed) for name, part in named.items()}
    return measured


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


def allowed(ids: Tensor) -> Tensor:
    """Mark the row's own position and all earlier ones."""
    batch, n = ids.shape
    return torch.ones(n, n, dtype=torch.bool).tril().expand(batch, n, n)


def back(ids: Tensor, by: int = 1) -> Tensor:
    """Mark the position `by` tokens before the row; the first rows have none."""
    positions = torch.arange(ids.shape[1])
    return allowed(ids) & (positions == positions.unsqueeze(1) - by)


def after_same(ids: Tensor) -> Tensor:
    """Mark all positions right after an earlier copy of the row's token; a row may have none."""
    equal = (ids.unsqueeze(2) == ids.unsqueeze(1)).roll(1, 2)
    equal[:, :, 0] = False
    return allowed(ids) & equal


# Cards of the shipped models; their texts are written by hand in assets/models/<name>/card.json.


@dataclass(frozen=True)
class Role:
    """A behavior of heads.

    Attributes:
        name: keys that a head with this role attends to, in a few words without a comma.
        does: description of the behavior, a clause that begins with "looks".
        rows: noun for the rows in which the behavior is measured.
        next: words whose prediction shows the behavior, separated by spaces; empty if rows are chosen otherwise.
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
    cards, complete = [], accuracy()
    for head, named in measured.items():
        matching = {name: part for name, part in named.items() if part.rate >= RATE and part.weight >= WEIGHT}
        without = accuracy(head) if matching else complete
        for name, part in sorted(matching.items(), key=lambda item: -item[1].rate):
            role, first = roles[name], part.rate if by == "rates" else part.weight
            evidence = (
                f"On {texts}, {part.rate:.1%} of {part.rows:,} {role.rows} have their largest weight there. On average"
                f" {part.weight:.1%} of the weight is there; an even look would put {part.even:.1%} there. With this"
                f" head off, {without:.1%} of the {answers} are right instead of {complete:.1%}."
            )
            place = {"kind": head[0].kind, "layer": head[0].layer, "heads": [head[1]]}
            words = {"role": role.name, "does": role.does, "next": role.next, "known": evidence}
            numbers = {by: [first], "chance": part.even, "off": [without], "on": complete}
            cards.append(place | words | numbers)
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
