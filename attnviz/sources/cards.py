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
        does: clause ("looks at ...").
        evidence: sentence with numbers.
        rates: share of the rows of each head whose largest weight is there; none if that was not measured.
        shares: share of the weight of each head that is there; none if that was not measured.
        chance: the same for a head that looks by chance; None if that was not measured.
        off, on: share that the model gets right with each head off, and with all on; none if that was not measured.
        next: words before which they look there; none if it is not the next word that says so.
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
        """The position where one of its words comes next most surely; None where none does."""
        words = prediction.words(sentence=sentence)[:length]
        there = [position for position, word in enumerate(words) if word in self.next]
        return max(
            there, key=lambda position: prediction.most_probable(position, 1, sentence=sentence)[0][1], default=None
        )

    @property
    def lost(self) -> float:
        """Share that the model no longer gets right without the head of them that it needs most."""
        return self.on - min(self.off) if self.off and self.on is not None else 0.0


@dataclass(frozen=True)
class Card:
    """A model's training data, sizes, measured results, and limits.

    Attributes:
        title, does: name for people, and one sentence.
        origin: origin of the weights, and the minutes it took.
        trained_on: texts that it has read.
        sizes: numbers by their names.
        measured: results after the last step of the training, on what it was not trained on.
        command: lines that measure it and, if it was trained, train it again, in a folder of the source.
        behaviors: what heads do; those without which most is lost come first.
        cannot: sentences.
        examples: texts in its vocabulary; the first is the one it opens with.
        opens: site and head to show first.
        curve: learning curve: training step, loss (None before the first step) and held-out score; empty if nothing was
            trained.
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
    roles = ", ".join(behavior.role for behavior in behaviors)
    evidence = " ".join(behavior.evidence for behavior in behaviors)
    clauses = ", and ".join(behavior.does.rstrip(". ") for behavior in behaviors)
    return Behavior(behaviors[0].site, behaviors[0].heads, roles, clauses, evidence)


@cache
def card(name: str) -> Card:
    """The card of a shipped model.

    Raises:
        AttnvizError: names the file if it cannot be read.
    """
    try:
        return _card(json.loads((folder(name) / "card.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AttnvizError(f"The card {name}/card.json is missing or damaged.") from None


def _card(data: dict[str, Any]) -> Card:
    """A card from its file; TypeError, ValueError or KeyError where a value is none that it may be."""
    texts = {name: _a(str, data[name]) for name in ("name", "title", "does", "trained_on", "command")}
    measured = [Measure(**measure) for measure in data["measured"]]
    for measure in measured:
        _a(str, measure.what)
        _all(float, [measure.value, measure.goal or 0], 1)
    curve = [(point["step"], point["loss"], point["score"]) for point in data["curve"]]
    return Card(
        **texts,
        origin=_a(str, data["made"]),
        sizes={name: _a(int, size) for name, size in data["sizes"].items()},
        measured=tuple(measured),
        behaviors=tuple(sorted((_behavior(**each) for each in data["findings"]), key=lambda each: -each.lost)),
        cannot=_all(str, data["cannot"]),
        examples=_all(str, data["examples"] or [None]),
        opens=(Site(data["opens"]["kind"], _a(int, data["opens"]["layer"])), _a(int, data["opens"]["head"])),
        curve=tuple((_a(int, step), loss and _a(float, loss), _a(float, score, 1)) for step, loss, score in curve),
        score=_a(str, data.get("score", "")),
    )


def _behavior(kind: str, layer: int, heads: list[int], role: str, does: str, known: str, **more: Any) -> Behavior:
    site, texts, words = Site(kind, _a(int, layer)), _all(str, [role, does, known]), _a(str, more.pop("next", ""))
    each = {name: _all(float, more.pop(name, []), 1) for name in ("rates", "shares", "off")}
    if any(shares and len(shares) != len(heads) for shares in each.values()):
        raise ValueError
    shares = {name: None if share is None else _a(float, share, 1) for name, share in more.items()}
    return Behavior(site, _all(int, heads), *texts, **each, **shares, next=frozenset(words.split()))


def _a(kind: type, value: Any, most: float = math.inf) -> Any:
    """A text, or a finite number from 0 to `most`; a whole number is a float, too."""
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise TypeError
    if kind is not str and not (0 <= value <= most and math.isfinite(value)):
        raise ValueError
    return value


def _all(kind: type, values: Any, most: float = math.inf) -> tuple:
    """The same of each of a list."""
    if not isinstance(values, list):
        raise TypeError
    return tuple(_a(kind, value, most) for value in values)
