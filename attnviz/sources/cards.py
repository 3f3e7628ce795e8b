"""Cards of the shipped models, with facts and their evidence; `make evidence` measures the numbers."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.models.trained import folder


@dataclass(frozen=True)
class Measure:
    """A measured share from 0 to 1, its description, and the smallest value that was the goal, if there was one."""

    what: str
    value: float
    goal: float | None


@dataclass(frozen=True)
class Behavior:
    """A behavior of some heads of a site, and its evidence.

    Attributes:
        role: name of the behavior in a few words, without a comma.
        does: clause on the behavior ("looks at ...").
        evidence: sentence with the measured numbers.
        rates: share of rows with the largest weight on a fitting key, per head; empty if not measured.
        shares: share of the attention weight on fitting keys, per head; empty if not measured.
        off, on: accuracy of the model with each head off, and with all heads on; empty or None if not measured.
        next: next words for which the heads show the behavior; empty if it does not depend on the next word.
    """

    site: Site
    heads: tuple[int, ...]
    role: str
    does: str
    evidence: str
    rates: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    off: tuple[float, ...] = ()
    on: float | None = None
    next: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Card:
    """A model's training data, sizes, measured results, and limits.

    Attributes:
        title, does: display name, and a description in one sentence.
        origin: origin of the weights, and the minutes of training.
        measured: results of the trained model on held-out texts.
        behaviors: behaviors of heads; first those without which the model loses the most accuracy.
        cannot: limits of the model, a sentence each.
        examples: texts in the model's vocabulary; the first one is shown when the model is opened.
        opens: site and head to show first.
    """

    title: str
    does: str
    origin: str
    trained_on: str
    sizes: dict[str, int]
    measured: tuple[Measure, ...]
    behaviors: tuple[Behavior, ...]
    cannot: tuple[str, ...]
    examples: tuple[str, ...]
    opens: tuple[Site, int]

    def behaviors_of(self, site: Site, head: int | str) -> tuple[Behavior, ...]:
        """Known behaviors of a head, one per role."""
        return tuple(behavior for behavior in self.behaviors if behavior.site == site and head in behavior.heads)


@cache
def card(name: str) -> Card:
    """Read the card of a shipped model; raise AttnvizError if the file is missing or damaged, with its name."""
    try:
        return from_json(json.loads((folder(name) / "card.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, LookupError, TypeError):
        raise AttnvizError(f"The card {name}/card.json is missing or damaged.") from None


def from_json(data: dict[str, Any]) -> Card:
    """Build a card from the data of its file, which `training.probe.card` writes."""

    def behavior(role: str, does: str, known: str, **more: Any) -> Behavior:
        """Build a behavior from an entry of "findings", in which the evidence is named "known"."""
        numbers = {name: tuple(more.get(name, ())) for name in ("heads", "rates", "shares", "off")}
        words = {"role": role, "does": does, "evidence": known, "next": frozenset(more.get("next", "").split())}
        return Behavior(Site(more["kind"], more["layer"]), **numbers, **words, on=more.get("on"))

    def lost_accuracy(behavior: Behavior) -> float:
        """Largest loss of accuracy with one of the heads off, as a negative number; 0 if not measured."""
        return min(behavior.off) - behavior.on if behavior.off else 0

    behaviors = sorted((behavior(**finding) for finding in data["findings"]), key=lost_accuracy)
    return Card(
        **{name: data[name] for name in ("title", "does", "trained_on", "sizes")},
        **{name: tuple(data[name]) for name in ("cannot", "examples")},
        origin=data["made"],
        measured=tuple(Measure(**measure) for measure in data["measured"]),
        behaviors=tuple(behaviors),
        opens=(Site(data["opens"]["kind"], data["opens"]["layer"]), data["opens"]["head"]),
    )
