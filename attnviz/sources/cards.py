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
    """A measured share from 0 to 1, what it is a share of, and the least value that was the goal, if any."""

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
        chance: share on these keys of a head with equal weights; None if not measured.
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
    chance: float | None = None
    off: tuple[float, ...] = ()
    on: float | None = None
    next: frozenset[str] = frozenset()

    def acts_at(self, prediction: Prediction, length: int, *, sentence: int = 0) -> int | None:
        """Position with the most probable predicted word that is in `next`; None if no predicted word is in it."""
        words = prediction.words(sentence=sentence)[:length]
        there = [position for position, word in enumerate(words) if word in self.next]
        return max(
            there, key=lambda position: prediction.most_probable(position, 1, sentence=sentence)[0][1], default=None
        )

    @property
    def lost(self) -> float:
        """Accuracy that the model loses without the most important of these heads."""
        return self.on - min(self.off) if self.off and self.on is not None else 0.0


@dataclass(frozen=True)
class Card:
    """A model's training data, sizes, measured results, and limits.

    Attributes:
        title, does: display name, and a description in one sentence.
        origin: origin of the weights, and the minutes of training.
        trained_on: description of the training texts.
        sizes: sizes of the model by their names.
        measured: results of the trained model on held-out texts.
        command: shell commands that measure the model and train it again, for a checkout of the source.
        behaviors: behaviors of heads, sorted by `Behavior.lost`, largest first.
        cannot: limits of the model, a sentence each.
        examples: texts in the model's vocabulary; the first one is shown when the model is opened.
        opens: site and head to show first.
        curve: learning curve: training step, loss (None before the first step) and held-out score; empty if nothing was
            trained.
        score: description of the held-out score, with the score of a guess; "" if nothing was trained.
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
        """Known behaviors of a head, one per role."""
        return tuple(behavior for behavior in self.behaviors if behavior.site == site and head in behavior.heads)

    def behavior(self, site: Site, head: int | str) -> Behavior | None:
        """Known behavior of a head, if any; several roles are joined into one text, without their numbers."""
        return joined(self.behaviors_of(site, head))


def joined(behaviors: Sequence[Behavior]) -> Behavior | None:
    """Join the behaviors of a head into one, without their numbers; None if there are no behaviors."""
    if len(behaviors) < 2:
        return behaviors[0] if behaviors else None
    roles = ", ".join(behavior.role for behavior in behaviors)
    evidence = " ".join(behavior.evidence for behavior in behaviors)
    clauses = ", and ".join(behavior.does.rstrip(". ") for behavior in behaviors)
    return Behavior(behaviors[0].site, behaviors[0].heads, roles, clauses, evidence)


@cache
def card(name: str) -> Card:
    """Read the card of a shipped model.

    Raises:
        AttnvizError: if the file is missing or damaged, with its name.
    """
    try:
        return _card_from(json.loads((folder(name) / "card.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise AttnvizError(f"The card {name}/card.json is missing or damaged.") from None


def _card_from(data: dict[str, Any]) -> Card:
    """Build a card from its JSON; raise TypeError, ValueError or KeyError if a value is not valid."""
    texts = {name: _as(str, data[name]) for name in ("name", "title", "does", "trained_on", "command")}
    measured = [Measure(**measure) for measure in data["measured"]]
    for measure in measured:
        _as(str, measure.what)
        _all_as(float, [measure.value, measure.goal or 0], 1)
    curve = [(point["step"], point["loss"], point["score"]) for point in data["curve"]]
    return Card(
        **texts,
        origin=_as(str, data["made"]),
        sizes={name: _as(int, size) for name, size in data["sizes"].items()},
        measured=tuple(measured),
        behaviors=tuple(sorted((_behavior(**each) for each in data["findings"]), key=lambda each: -each.lost)),
        cannot=_all_as(str, data["cannot"]),
        examples=_all_as(str, data["examples"] or [None]),
        opens=(Site(data["opens"]["kind"], _as(int, data["opens"]["layer"])), _as(int, data["opens"]["head"])),
        curve=tuple((_as(int, step), loss and _as(float, loss), _as(float, score, 1)) for step, loss, score in curve),
        score=_as(str, data.get("score", "")),
    )


def _behavior(kind: str, layer: int, heads: list[int], role: str, does: str, known: str, **more: Any) -> Behavior:
    site, texts, words = Site(kind, _as(int, layer)), _all_as(str, [role, does, known]), _as(str, more.pop("next", ""))
    each = {name: _all_as(float, more.pop(name, []), 1) for name in ("rates", "shares", "off")}
    if any(shares and len(shares) != len(heads) for shares in each.values()):
        raise ValueError
    shares = {name: None if share is None else _as(float, share, 1) for name, share in more.items()}
    return Behavior(site, _all_as(int, heads), *texts, **each, **shares, next=frozenset(words.split()))


def _as(kind: type, value: Any, most: float = math.inf) -> Any:
    """Return a value if it is a text, or a finite number from 0 to `most`; an int passes as a float. Else raise."""
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise TypeError
    if kind is not str and not (0 <= value <= most and math.isfinite(value)):
        raise ValueError
    return value


def _all_as(kind: type, values: Any, most: float = math.inf) -> tuple:
    """Check each value of a list with `_as`."""
    if not isinstance(values, list):
        raise TypeError
    return tuple(_as(kind, value, most) for value in values)
