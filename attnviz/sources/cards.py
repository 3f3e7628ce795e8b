"""What is known about a shipped model, and how: its card, written by `attnviz.training.evidence`."""

import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.models.trained import folder


@dataclass(frozen=True)
class Measure:
    """One measured number: a share from 0 to 1, what it is a share of, and what it was meant to reach at least."""

    what: str
    value: float
    goal: float | None


@dataclass(frozen=True)
class Finding:
    """What some heads of a site do, as a clause ("looks at ..."), and how that is known, as a sentence with numbers."""

    site: Site
    heads: tuple[int, ...]
    does: str
    known: str


@dataclass(frozen=True)
class Card:
    """What a model was trained on, its sizes, what was measured, and what it cannot do.

    Attributes:
        title, does: a name for people, and one sentence.
        made: how the weights came to be, with the command that makes them again and the minutes it takes.
        trained_on: what it has read.
        sizes: numbers by their names.
        measured: with the `command` that measures them.
        findings: which heads do what.
        cannot: sentences.
        examples: texts in its vocabulary; the first is the one it opens with.
        opens: the site and the head to show first.
        curve: the learning curve: training step, loss (None before the first step) and held-out score.
    """

    name: str
    title: str
    does: str
    made: str
    trained_on: str
    sizes: dict[str, int]
    measured: tuple[Measure, ...]
    command: str
    findings: tuple[Finding, ...]
    cannot: tuple[str, ...]
    examples: tuple[str, ...]
    opens: tuple[Site, int]
    curve: tuple[tuple[int, float | None, float], ...] = ()

    def finding(self, site: Site, head: int | str) -> Finding | None:
        """What is known of a head, if anything is."""
        return next((found for found in self.findings if found.site == site and head in found.heads), None)


@cache
def card(name: str) -> Card:
    """The card of a shipped model.

    Raises:
        AttnvizError: names the file if it cannot be read.
    """
    try:
        data = json.loads((folder(name) / "card.json").read_text(encoding="utf-8"))
        return _card(data)
    except (OSError, ValueError, KeyError, TypeError, AttnvizError):
        raise AttnvizError(f"The card {name}/card.json is missing or damaged.") from None


def _card(data: dict[str, Any]) -> Card:
    opens = data["opens"]
    findings = (
        Finding(Site(found["kind"], found["layer"]), tuple(found["heads"]), found["does"], found["known"])
        for found in data["findings"]
    )
    return Card(
        **{name: data[name] for name in ("name", "title", "does", "made", "trained_on", "sizes", "command")},
        measured=tuple(Measure(**measure) for measure in data["measured"]),
        findings=tuple(findings),
        cannot=tuple(data["cannot"]),
        examples=tuple(data["examples"]),
        opens=(Site(opens["kind"], opens["layer"]), opens["head"]),
        curve=tuple((point["step"], point["loss"], point["score"]) for point in data["curve"]),
    )
