"""The bug museum: texts about twelve mistakes that people made in attention, from ``assets/lessons/bugs.toml``.

The documentation has a page with the right and the wrong map of each.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from typing import Any

from attnviz.core import assets


@dataclass(frozen=True)
class Bug:
    """Texts about one mistake.

    Attributes:
        name: one word, for the link.
        symptom: what a person notices first.
        hints: from vague to nearly given.
        because: what is wrong.
        would: what would be seen if it was this one, for those who guess it and are wrong.
        fix: lines of code; those of the mistake begin with "-", those of the fix with "+", all others with a space.
        seen_in: a public place where it happened, in words.
        source: its address.
        rule: of docs/reference/check.md, the one that finds it; "" if none does.
        found_by: what finds it then.
    """

    name: str
    title: str
    symptom: str
    hints: tuple[str, ...]
    because: str
    would: str
    fix: str
    seen_in: str
    source: str
    rule: str = ""
    found_by: str = ""


@cache
def museum() -> tuple[Bug, ...]:
    """All bugs, in their order."""
    data = tomllib.loads(assets.path("lessons/bugs.toml").read_text(encoding="utf-8"))
    return tuple(Bug(**{name: _stripped(value) for name, value in bug.items()}) for bug in data["bug"])


def _stripped(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value.strip("\n")
