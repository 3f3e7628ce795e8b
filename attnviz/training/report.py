"""Measured parts of the cards of the shipped models, in the format of `attnviz.sources.cards`.

The text of a card, from its title to the limits of the model, is written by hand in assets/models/<name>/card.json;
each measurement replaces its numbers.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnviz.models import trained
from attnviz.training.probe import Head, Look
from attnviz.training.recipe import learning

Card = dict[str, Any]
RATE, WEIGHT = 0.6, 0.4
"""Least share of rows with their largest weight in the pattern, and least share of weight in it, for a role."""


@dataclass(frozen=True)
class Role:
    """A behavior of heads.

    Attributes:
        name: keys that a head with this role attends to, in a few words without a comma.
        does: clause that begins with "looks".
        rows: noun for the rows of the role.
        next: words before which a head does it, separated by spaces; empty if rows are chosen in another way.
    """

    name: str
    does: str
    rows: str = "rows"
    next: str = ""


def findings(
    measured: dict[Head, dict[str, Look]],
    roles: dict[str, Role],
    right: Callable[..., float],
    *,
    texts: str,
    answers: str,
    by: str = "rates",
) -> list[Card]:
    """Describe the roles of heads, each with its evidence.

    Args:
        measured: attention of each head to the pattern of each role.
        right: function that returns the share of correct answers with the given heads off.
        texts: number and kind of texts: "2,000 held-out texts".
        answers: noun for the answers that can be correct or wrong.
        by: number to show first: "rates", of rows with their largest weight in the pattern, or "shares" of weight.
    """
    cards, complete = [], right()
    for head, named in measured.items():
        telling = {name: look for name, look in named.items() if look.rate >= RATE and look.weight >= WEIGHT}
        without = right(head) if telling else complete
        for name, look in sorted(telling.items(), key=lambda item: -item[1].rate):
            role, first = roles[name], look.rate if by == "rates" else look.weight
            evidence = (
                f"On {texts}, {look.rate:.1%} of {look.rows:,} {role.rows} have their largest weight there. On average"
                f" {look.weight:.1%} of the weight is there; an even look would put {look.even:.1%} there. With this"
                f" head off, {without:.1%} of the {answers} are right instead of {complete:.1%}."
            )
            place = {"kind": head[0].kind, "layer": head[0].layer, "heads": [head[1]]}
            words = {"role": role.name, "does": role.does, "next": role.next, "known": evidence}
            numbers = {by: [first], "chance": look.even, "off": [without], "on": complete}
            cards.append(place | words | numbers)
    return cards


def card(
    name: str,
    *,
    opens: Head,
    sizes: dict[str, int],
    measured: list[tuple[str, float, float | None]],
    findings: list[Card],
    steps: int = 0,
) -> Card:
    """Insert measurements into the card of a shipped model.

    Args:
        opens: head to show first.
        measured: noun phrases, each with a share from 0 to 1 and its goal or None.
        steps: number of training steps; 0 if nothing was trained.
    """
    text = json.loads((trained.folder(name) / "card.json").read_text(encoding="utf-8"))
    if steps:
        result = learning(name)
        training = f"Trained here from random weights: {steps:,} steps, {result['minutes']:g} minutes on one CPU core."
        text |= {"made": f"{training} No head was told where to look.", "curve": result["curve"]}
    return text | {
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
