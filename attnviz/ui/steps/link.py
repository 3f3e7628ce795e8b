"""How a link writes what the page Steps sets.

What changes the scores of all calls is ``unscaled.temperature-0.5``; what is done in the shown call alone
``after.add.dropout-0.3-7`` (share, seed); numbers set by hand ``e0_1_wq_3_4_0_n0.5``: encoder layer 0, head 1, W_Q, row
3, column 4, sentence 0, -0.5; several with a hyphen between them.
"""

import re
from dataclasses import dataclass

from attnviz.core.edits import BY_LETTER, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.origin import MATRICES, Change
from attnviz.walk import Knobs

HIGHEST = 100.0
"""The temperature at most."""

PARTS = ("Query in full", "Element by element", "Why the scale", "Word order", "Edit numbers", "PyTorch and cost")
"""The tabs under the stages."""

MOST_CHANGES = 200
"""So many numbers set by hand fit into a link."""

SHORT = {matrix.replace("_", ""): matrix for matrix in MATRICES}


@dataclass(frozen=True)
class Tuned:
    """What is done to the scores of every call.

    Attributes:
        temperature: divides them.
        scaled: whether they are multiplied by the model's own scale; else by 1.
    """

    temperature: float = 1.0
    scaled: bool = True

    @property
    def scale(self) -> float | None:
        """The scale in the place of the model's own; None for that."""
        return None if self.scaled else 1.0


def encode_tuned(tuned: Tuned) -> str:
    temperature = "" if tuned.temperature == 1 else f"temperature-{tuned.temperature:g}"
    return ".".join(filter(None, ("unscaled" * (not tuned.scaled), temperature)))


def decode_tuned(text: str) -> Tuned:
    """Read what `encode_tuned` wrote.

    Raises:
        InputError: if it is anything else.
    """
    found = re.fullmatch(r"(unscaled)?\.?(?:temperature-(\d{1,3}(?:\.\d{1,3})?))?", text, re.ASCII)
    tuned = found and Tuned(float(found[2] or 1), not found[1])
    if not tuned or not 0 < tuned.temperature <= HIGHEST or encode_tuned(tuned) != text:
        raise InputError(f"'{text[:40]}' cannot be read; it should look like unscaled.temperature-0.5.")
    return tuned


def encode_knobs(knobs: Knobs) -> str:
    after, add = "after" * knobs.mask_after_softmax, "add" * (knobs.masking == "add")
    dropout = f"dropout-{knobs.dropout_p:g}-{knobs.dropout_seed}" if knobs.dropout_p else ""
    return ".".join(filter(None, (after, add, dropout)))


def decode_knobs(text: str) -> Knobs:
    """Read what `encode_knobs` wrote.

    Raises:
        InputError: if it is anything else.
    """
    found = re.fullmatch(r"(after)?\.?(add)?\.?(?:dropout-(0\.\d{1,2})-(\d{1,9}))?", text, re.ASCII)
    knobs = found and Knobs(bool(found[1]), "add" if found[2] else "replace", float(found[3] or 0), int(found[4] or 0))
    if not knobs or encode_knobs(knobs) != text:
        raise InputError(f"'{text[:40]}' cannot be read; it should look like after.add.dropout-0.3-7.")
    return knobs


def encode_changes(changes: tuple[Change, ...]) -> str:
    return "-".join(map(_encode_change, changes))


def decode_changes(text: str) -> tuple[Change, ...]:
    """Read what `encode_changes` wrote.

    Raises:
        InputError: if it is anything else.
    """
    parts = text.split("-") if text else []
    if len(parts) > MOST_CHANGES:
        raise InputError(f"{len(parts)} numbers are set by hand; a link takes {MOST_CHANGES}.")
    return tuple(map(_decode_change, parts))


def _encode_change(change: Change) -> str:
    place = f"{change.site.kind[0]}{change.site.layer}", change.head, change.matrix.replace("_", "")
    value = f"{change.value:.9g}".replace("-", "n").replace("+", "")
    return "_".join(map(str, (*place, change.row, change.column, change.sentence, value)))


def _decode_change(text: str) -> Change:
    names, number = "|".join(SHORT), r"n?\d{1,7}(?:\.\d{1,12})?(?:en?\d{1,2})?"
    found = re.fullmatch(rf"([edc])(\d{{1,3}})_(\d{{1,3}})_({names})_(\d+)_(\d+)_(\d+)_({number})", text, re.ASCII)
    try:
        if not found or len(text) > 60:
            raise InputError("")
        site, value = Site(BY_LETTER[found[1]], int(found[2])), float(found[8].replace("n", "-"))
        return Change(site, int(found[3]), SHORT[found[4]], int(found[5]), int(found[6]), value, int(found[7]))
    except AttnvizError:
        raise InputError(f"'{text[:40]}' is no number set by hand; it should look like e0_1_wq_3_4_0_n0.5.") from None
