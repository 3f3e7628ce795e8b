"""Cards of the shipped models, with facts and their evidence; `make evidence` measures the numbers."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Prediction
from attnviz.models.trained import folder


@dataclass(frozen=True)
class Measure:
    """One measured number: a share from 0 to 1, what it is a share of, and what it was meant to reach at least."""

    what: str
    value: float
    goal: float | None


@dataclass(frozen=True)
class Behavior:
    """A behavior of some heads of a site, and its evidence.

    Attributes:
        role: where they look, in a few words without a comma.
        does: a clause ("looks at ...").
        evidence: a sentence with numbers.
        rates: of each head, in what share of the rows its largest weight is there; none if that was not measured.
        shares: of each head, the share of its weight that is there; none if that was not measured.
        chance: the same for a head that looks by chance; None if that was not measured.
        off, on: how much the model gets right with each head off, and with all on; none if that was not measured.
        next: the words before which they look there; none if it is not the next word that says so.
    """

    site: Site
    heads: tuple[int, ...]
    role: str
    does: str
    evidence: str
    rates: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    chance: float | None = None
    off: tuple[float, ...] = ()
    on: float | None = None
    next: frozenset[str] = frozenset()

    def acts_at(self, prediction: Prediction, length: int, *, sentence: int = 0) -> int | None:
        """The position where it acts most surely: one of its words comes next there; None where none does."""
        words = prediction.words(sentence=sentence)[:length]
        there = [position for position, word in enumerate(words) if word in self.next]
        return max(
            there, key=lambda position: prediction.most_probable(position, 1, sentence=sentence)[0][1], default=None
        )

    @property
    def lost(self) -> float:
        """How much less the model gets right without the head of them that it needs most."""
        return self.on - min(self.off) if self.off and self.on is not None else 0.0


@dataclass(frozen=True)
class Card:
    """A model's training data, sizes, measured results, and limits.

    Attributes:
        title, does: a name for people, and one sentence.
        origin: how the weights came to be, and the minutes it took.
        trained_on: what it has read.
        sizes: numbers by their names.
        measured: after the last step of the training, on what it was not trained on.
        command: what measures it and, if it was trained, trains it again, in a folder of the source, a line each.
        behaviors: which heads do what; those without which most is lost come first.
        cannot: sentences.
        examples: texts in its vocabulary; the first is the one it opens with.
        opens: the site and the head to show first.
        curve: the learning curve: training step, loss (None before the first step) and held-out score; empty if
            nothing was trained.
        score: what the held-out score is a share of, and what a guess gets; "" if nothing was trained.
    """

    name: str
    title: str
    does: str
    origin: str
    trained_on: str
    sizes: dict[str, int]
    measured: tuple[Measure, ...]
    command: str
    behaviors: tuple[Behavior, ...]
    cannot: tuple[str, ...]
    examples: tuple[str, ...]
    opens: tuple[Site, int]
    curve: tuple[tuple[int, float | None, float], ...] = ()
    score: str = ""

    def behaviors_of(self, site: Site, head: int | str) -> tuple[Behavior, ...]:
        """Known behaviors of a head, one for each of its roles."""
        return tuple(behavior for behavior in self.behaviors if behavior.site == site and head in behavior.heads)

    def behavior(self, site: Site, head: int | str) -> Behavior | None:
        """Known behavior of a head, if any: of several roles the words, without their numbers."""
        return joined(self.behaviors_of(site, head))


def joined(behaviors: Sequence[Behavior]) -> Behavior | None:
    """Several roles of a head as one, without their numbers; None of none."""
    if len(behaviors) < 2:
        return behaviors[0] if behaviors else None
    roles, clauses, evidence = zip(
        *((behavior.role, behavior.does.rstrip(". "), behavior.evidence) for behavior in behaviors), strict=True
    )
    return Behavior(behaviors[0].site, behaviors[0].heads, ", ".join(roles), ", and ".join(clauses), " ".join(evidence))


@cache
def card(name: str) -> Card:
    """The card of a shipped model.

    Raises:
        AttnvizError: names the file if it cannot be read.
    """
    try:
        data = json.loads((folder(name) / "card.json").read_text(encoding="utf-8"))
        return _card(data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AttnvizError(f"The card {name}/card.json is missing or damaged.") from None


def _card(data: dict[str, Any]) -> Card:
    opens = data["opens"]
    curve = ((_whole(p["step"]), p["loss"] and _number(p["loss"]), _share(p["score"])) for p in data["curve"])
    return Card(
        **{name: _text(data[name]) for name in ("name", "title", "does", "trained_on", "command")},
        origin=_text(data["made"]),
        sizes={name: _whole(size) for name, size in data["sizes"].items()},
        measured=tuple(_measure(**measure) for measure in data["measured"]),
        behaviors=tuple(
            sorted((_behavior(**behavior) for behavior in data["findings"]), key=lambda behavior: -behavior.lost)
        ),
        cannot=tuple(map(_text, _list(data["cannot"]))),
        examples=tuple(map(_text, _list(data["examples"], least=1))),
        opens=(Site(opens["kind"], _whole(opens["layer"])), _whole(opens["head"])),
        curve=tuple(curve),
        score=_text(data.get("score", "")),
    )


def _measure(what: str, value: float, goal: float | None) -> Measure:
    return Measure(_text(what), _share(value), None if goal is None else _share(goal))


def _behavior(kind: str, layer: int, heads: list[int], role: str, does: str, **numbers: Any) -> Behavior:
    evidence = numbers.pop("known")
    each = {name: tuple(map(_share, _list(numbers.pop(name, [])))) for name in ("rates", "shares", "off")}
    if any(shares and len(shares) != len(heads) for shares in each.values()):
        raise ValueError
    words = frozenset(_text(numbers.pop("next", "")).split())
    shares = {name: None if share is None else _share(share) for name, share in numbers.items()}
    texts = map(_text, (role, does, evidence))
    return Behavior(Site(kind, _whole(layer)), tuple(map(_whole, _list(heads))), *texts, **each, **shares, next=words)


# What a value must be; else TypeError or ValueError.


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float) or not math.isfinite(value):
        raise TypeError
    return value


def _share(value: Any) -> float:
    if not 0 <= _number(value) <= 1:
        raise ValueError
    return value


def _list(value: Any, *, least: int = 0) -> list[Any]:
    if not isinstance(value, list) or len(value) < least:
        raise TypeError
    return value
