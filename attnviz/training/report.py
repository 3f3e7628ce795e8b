"""Measured parts of the cards of the shipped models, as `attnviz.sources.cards` reads them.

The texts of a card, from its title to what the model cannot do, are written by hand in assets/models/<name>/card.json;
its numbers are replaced by each measurement.
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
"""Share of rows with their largest weight there, and of all weight there, from which on a head has a role."""


@dataclass(frozen=True)
class Role:
    """Behavior that heads may have.

    Attributes:
        name: keys that a head looks at, in a few words without a comma.
        does: clause that begins with "looks".
        rows: noun for the rows that the role is about.
        next: words before which a head does it, separated by blanks; empty if another thing says where.
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
    """Describe the roles that heads have, each with its evidence.

    Args:
        measured: attention of each head towards the pattern of each role.
        right: function that returns the share of right answers with the given heads off.
        texts: number and kind of what was read: "2,000 held-out texts".
        answers: noun for what can be right or wrong.
        by: number that is shown first: "rates", of the rows with their largest weight there, or "shares" of weight.
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
    """Put measurements into the card of a shipped model.

    Args:
        opens: head that is shown first.
        measured: noun phrases, each with a share from 0 to 1 and its goal, if there is one.
        steps: number of training steps; 0 if nothing was trained.
    """
    text = json.loads((trained.folder(name) / "card.json").read_text(encoding="utf-8"))
    if steps:
        result = learning(name)
        made = f"Trained here from random weights: {steps:,} steps, {result['minutes']:g} minutes on one CPU core."
        text |= {"made": f"{made} No head was told where to look.", "curve": result["curve"]}
    return text | {
        "sizes": sizes,
        "measured": [{"what": what, "value": value, "goal": goal} for what, value, goal in measured],
        "findings": findings,
        "opens": {"kind": opens[0].kind, "layer": opens[0].layer, "head": opens[1]},
    }


def sizes(model: Any) -> dict[str, int]:
    """Count the parts of a model."""
    config = model.config
    return {
        "layers": config.num_layers,
        "heads per layer": config.num_heads,
        "numbers for each token (d_model)": config.d_model,
        "numbers of a query or a key (d_k)": config.d_model // config.num_heads,
        "weights": sum(weights.numel() for weights in model.parameters()),
    }
