"""How a link writes heads, cells, sites and views.

Heads off are written ``e0.1-e0.3``: encoder layer 0 head 1, encoder layer 0 head 3. A selected cell is ``2.1``: query
2, key 1. A site is ``c1``: cross layer 1. A view is ``words.hide.ab``: pieces merged, special tokens hidden, of a pair
only what text A sees of text B.
"""

import re

from attnviz.core.edits import BY_LETTER, Site
from attnviz.core.errors import InputError
from attnviz.views import SPECIAL, View

COMBINED = ("mean", "max", "min")
"""How all heads can be shown as one."""

PAIRS = {"aa": "A to A", "ab": "A to B", "ba": "B to A", "bb": "B to B"}
"""How the link writes which text of a pair looks at which."""

Heads = frozenset[tuple[Site, int]]


def encode_heads(heads: Heads) -> str:
    return "-".join(f"{site.kind[0]}{site.layer}.{head}" for site, head in sorted(heads))


def decode_heads(text: str) -> Heads:
    """Read what `encode_heads` wrote.

    Raises:
        InputError: if it is anything else.
    """
    parts = text.split("-") if text else []
    found = [re.fullmatch(r"([edc])(\d{1,3})\.(\d{1,3})", part, re.ASCII) for part in parts]
    if len(parts) > 2000 or not all(found):
        raise InputError(f"'{text[:40]}' does not name heads; it should look like e0.1-e0.3.")
    return frozenset((Site(BY_LETTER[m[1]], int(m[2])), int(m[3])) for m in found if m)


def encode_cell(cell: tuple[int, int] | None) -> str:
    return "" if cell is None else f"{cell[0]}.{cell[1]}"


def decode_cell(text: str) -> tuple[int, int] | None:
    """Read what `encode_cell` wrote.

    Raises:
        InputError: if it is anything else.
    """
    if not text:
        return None
    if not (m := re.fullmatch(r"(\d{1,6})\.(\d{1,6})", text, re.ASCII)):
        raise InputError(f"'{text[:40]}' does not name a cell; it should look like 2.1.")
    return int(m[1]), int(m[2])


def encode_site(site: Site | None) -> str:
    return "" if site is None else f"{site.kind[0]}{site.layer}"


def decode_site(text: str) -> Site | None:
    """Read what `encode_site` wrote.

    Raises:
        InputError: if it is anything else.
    """
    if not text:
        return None
    if not (m := re.fullmatch(r"([edc])(\d{1,3})", text, re.ASCII)):
        raise InputError(f"'{text[:40]}' does not name a layer; it should look like e0, d1 or c1.")
    return Site(BY_LETTER[m[1]], int(m[2]))


def encode_show(head: int | str | None) -> str:
    return "" if head is None else str(head)


def decode_show(text: str) -> int | str | None:
    """Read what `encode_show` wrote.

    Raises:
        InputError: if it is anything else.
    """
    if not text or text in COMBINED:
        return text or None
    if not re.fullmatch(r"\d{1,3}", text, re.ASCII):
        raise InputError(f"'{text[:40]}' does not name a head; it should be a number or one of {', '.join(COMBINED)}.")
    return int(text)


def encode_view(view: View) -> str:
    short = {pair: letters for letters, pair in PAIRS.items()}
    parts = ("words" * view.words, view.special if view.special != "show" else "", short.get(view.pair, ""))
    return ".".join(filter(None, parts))


def decode_view(text: str) -> View:
    """Read what `encode_view` wrote.

    Raises:
        InputError: if it is anything else.
    """
    parts = text.split(".") if text else []
    special = [part for part in parts if part in SPECIAL[1:]]
    pair = [PAIRS[part] for part in parts if part in PAIRS]
    view = View("words" in parts, (special or SPECIAL)[0], (pair or ["all"])[0])
    if encode_view(view) != text:
        raise InputError(f"'{text[:40]}' does not name a view; it should look like words.hide.ab.")
    return view
