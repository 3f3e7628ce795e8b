"""The bug museum: texts about twelve real bugs in attention code, from ``assets/lessons/bugs.toml``.

The documentation has a page with the right and the wrong map of each bug.
"""

import tomllib
from dataclasses import dataclass
from functools import cache

from attnviz.core import assets


@dataclass(frozen=True)
class Bug:
    """Texts about one bug.

    Attributes:
        name: single word for the link.
        symptom: first visible effect of the bug.
        because: cause of the bug.
        fix: code diff: lines of the bug begin with "-", lines of the fix with "+", all others with a space.
        seen_in: public project or place where the bug happened, in words.
        source: address of that place.
        rule: name of the check in docs/reference/check.md that finds the bug; "" if none does.
        found_by: other way to find the bug, if no check does.
    """

    name: str
    title: str
    symptom: str
    because: str
    fix: str
    seen_in: str
    source: str
    rule: str = ""
    found_by: str = ""


@cache
def museum() -> tuple[Bug, ...]:
    """All bugs in order."""
    data = tomllib.loads(assets.path("lessons/bugs.toml").read_text(encoding="utf-8"))
    return tuple(Bug(**{name: text.strip("\n") for name, text in bug.items()}) for bug in data["bug"])
