"""How a link writes in what B differs from A.

Another sentence is ``sentence-The dog sat.``, another model ``model-story``, another head ``head-c1.2`` (cross layer 1,
head 2), another step of the training ``step-100``, and the untouched model ``untouched``.
"""

import re
from dataclasses import dataclass

from attnviz.core.edits import BY_LETTER, Site
from attnviz.core.errors import InputError

LONGEST = 2_000
"""Characters of a sentence, and of the name of a model."""

WHATS = ("sentence", "head", "model", "untouched", "step")
"""In what B may differ from A."""

LOOKS = "it should look like sentence-The dog sat, head-c1.2, model-story, step-100 or untouched"


@dataclass(frozen=True)
class Other:
    """The one thing in which B differs from A.

    Attributes:
        what: one of `WHATS`.
        value: a sentence, the name of a model, a (site, head), or the step of a training; "" of the untouched model.
    """

    what: str
    value: str | int | tuple[Site, int] = ""


def encode_other(other: Other | None) -> str:
    if other is None:
        return ""
    value = other.value
    if isinstance(value, tuple):
        site, head = value
        value = f"{site.kind[0]}{site.layer}.{head}"
    return other.what if other.what == "untouched" else f"{other.what}-{value}"


def decode_other(text: str) -> Other | None:
    """Read what `encode_other` wrote.

    Raises:
        InputError: if it is anything else.
    """
    if not text:
        return None
    what, _, value = text.partition("-")
    if what in ("sentence", "model") and len(value) <= LONGEST and value.isprintable() and (value or what != "model"):
        return Other(what, value)
    if text == "untouched":
        return Other(what)
    if what == "step" and re.fullmatch(r"\d{1,9}", value, re.ASCII):
        return Other(what, int(value))
    if what == "head" and (m := re.fullmatch(r"([edc])(\d{1,3})\.(\d{1,3})", value, re.ASCII)):
        return Other(what, (Site(BY_LETTER[m[1]], int(m[2])), int(m[3])))
    raise InputError(f"'{text[:40]}' does not say in what B differs from A; {LOOKS}.")
