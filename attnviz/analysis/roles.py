"""Roles of a head, from its numbers on the text at hand: a suggestion with its evidence, never more."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from attnviz.core.amounts import percent


@dataclass(frozen=True)
class Threshold:
    """A name for heads one of whose numbers reaches a threshold.

    Attributes:
        name: of the role.
        metric: the number, a share of the weight or of what it could be.
        least: the threshold: from there on the role is suggested.
        unless: a metric that must stay below `least`, because it would explain the same number.
    """

    name: str
    metric: str
    least: float
    unless: str | None = None


THRESHOLDS: tuple[Threshold, ...] = (
    Threshold("previous token", "previous", 0.6),
    Threshold("next token", "next", 0.6),
    Threshold("itself", "self", 0.6),
    Threshold("first token (sink)", "first", 0.6),
    Threshold("special tokens", "special", 0.6, unless="first"),
    Threshold("same token elsewhere", "duplicate", 0.5),
    Threshold("induction", "induction", 0.5),
    Threshold("looks evenly", "evenness", 0.9),
)
"""More than half of the weight must be where the name says. Duplicates and induction are rarer, so half is enough."""


@dataclass(frozen=True)
class Role:
    """A suggestion: what a head does on this text, with the number it is known by, from 0 to 1.

    Attributes:
        fails: of many texts, the share of those on which the number stays below the threshold; None if not known.
    """

    name: str
    evidence: str
    value: float
    fails: float | None = None


TELLING = ("previous token", "next token", "same token elsewhere", "induction")
"""Roles that say where a head looks for a reason of the text."""


def clearest(table: pd.DataFrame) -> int | None:
    """The row of the head with the clearest telling role; None if no head has one.

    Args:
        table: a row per head, as `head_metrics` gives it.
    """
    rows = [row for _, row in table.iterrows()]
    ranked = [(role.value, -index) for index, row in enumerate(rows) for role in roles(row) if role.name in TELLING]
    return -max(ranked)[1] if ranked else None


def roles(row: Mapping[str, Any] | pd.Series) -> tuple[Role, ...]:
    """Roles of a head on the text at hand, the strongest first; empty where no number reaches a threshold.

    Args:
        row: one of `head_metrics`, or of the means that `texts.over_texts` gives, with its column `texts`; or of
            `Atlas.heads`, with the columns `<metric>_fails`.
    """
    suggested = [role for rule in THRESHOLDS if (role := _role(rule, row)) is not None]
    return tuple(sorted(suggested, key=lambda role: -role.value))


def _role(rule: Threshold, row: Mapping[str, Any] | pd.Series) -> Role | None:
    value = _value(rule.metric, row)
    if value is None or value < rule.least:
        return None
    if rule.unless is not None and (_value(rule.unless, row) or 0.0) >= rule.least:
        return None
    fails = _value(f"{rule.metric}_fails", row)
    often = "" if fails is None else f"; in {percent(fails, 0)} of them it fails (is below {rule.least:g})"
    return Role(rule.name, f"{rule.name}: {value:.2f} {_where(rule.metric, row)}{often}", value, fails)


def _where(name: str, row: Mapping[str, Any] | pd.Series) -> str:
    """The text at hand, or how many texts the number is of: not all of them may hold such a token."""
    texts = int(row.get("texts", 1))
    measured = int(row.get(f"{name}_texts", texts))
    if texts == 1:
        return "on this text"
    return f"on average over {texts} texts" if measured == texts else f"on {measured} of {texts} texts"


def _value(name: str, row: Mapping[str, Any] | pd.Series) -> float | None:
    value = row.get(name)
    return None if value is None or pd.isna(value) else float(value)
