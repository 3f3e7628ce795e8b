"""Text made safe to draw and to name files by. Tokenizers and models get the text as it was typed."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

LONGEST = 24
"""How many code points of a text are shown."""

LONGEST_TITLE = 40
LONGEST_LABEL = 44
"""Characters of the name of a model in a title, at most."""

LONGEST_NAME = 80
"""Characters of the name of a file without its extension, at most."""

LONGEST_END = 40
"""Characters kept at the end of a shortened name."""

_MARKS = 4
_WHITESPACE = {"\t": "⇥", "\n": "↵", "\r": "↵", "\x85": "↵", "\u2028": "↵", "\u2029": "↵"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEVICE = re.compile(r"con|prn|aux|nul|(com|lpt)\d", re.IGNORECASE)
"""Names that Windows keeps for itself."""
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that draw nothing."""


@lru_cache(maxsize=16_384)
def visible_text(text: str, longest: int = LONGEST) -> str:
    """A text as it may be drawn: short, never empty, every character visible and harmless.

    Whitespace becomes ␣ ↵ ⇥, control characters their pictures, surrogates and non-characters U+FFFD, direction marks
    and characters without width a middle dot; at most 4 combining marks follow each other; what is cut ends with an
    ellipsis. vl-convert aborts the whole process on some of what is replaced here.
    """
    characters: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if marks > _MARKS:
            continue
        if marks and not characters:
            characters.append("◌")
        characters.append(_visible(character, category))
        if len(characters) > longest:
            return "".join(characters[: longest - 1]) + "…"
    return "".join(characters) or "∅"


def label_text(name: str) -> str:
    """The name of a class, which may be of several words, with its blanks as blanks."""
    return visible_text(name, LONGEST_LABEL).replace("␣", " ")


def in_title(text: str) -> str:
    """The name of a model as it stands in a title: as `visible_text`, but with its blanks as blanks."""
    return visible_text(text, LONGEST_TITLE).replace("␣", " ")


def as_sentence(note: str) -> str:
    """A remark that stands alone: with a capital, and a period."""
    return f"{note[:1].upper()}{note[1:]}."


@lru_cache(maxsize=16_384)
def isolated(text: str) -> str:
    """A text that stands among others; one that runs from right to left is kept from reordering what is around it.

    It is set between FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE.
    """
    return f"\u2068{text}\u2069" if any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text) else text


def without_surrogates(text: str) -> str:
    """The text with each lone surrogate, which no file and no browser takes, replaced by U+FFFD, one for one."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def file_stem(*parts: object, end: str = "") -> str:
    """The name of a file from what is in it: letters, digits and hyphens of ASCII, safe in every file system.

    A name that is too long is cut before its `end`.
    """
    last = _hyphened([end])[:LONGEST_END].rstrip("-")
    room = LONGEST_NAME - len(last) - 1 if last else LONGEST_NAME
    stem = "-".join(filter(None, (_hyphened(parts)[:room].rstrip("-"), last))) or "figure"
    return f"figure-{stem}" if _DEVICE.fullmatch(stem) else stem


def _hyphened(parts: Iterable[object]) -> str:
    plain = (unicodedata.normalize("NFKD", str(part)).encode("ascii", "ignore").decode() for part in parts)
    return "-".join(filter(None, (re.sub(r"[^A-Za-z0-9]+", "-", part).strip("-") for part in plain)))


def _visible(character: str, category: str) -> str:
    if character in _WHITESPACE:
        return _WHITESPACE[character]
    if category == "Zs":
        return "␣"
    if category == "Cf" or character in _INVISIBLE:
        return "·"
    if category == "Cc":
        code = ord(character)
        if code < 0x20:
            return chr(0x2400 + code)
        return "␡" if code == 0x7F else "\ufffd"
    if category == "Cs" or 0xFDD0 <= ord(character) <= 0xFDEF or ord(character) & 0xFFFE == 0xFFFE:
        return "\ufffd"
    return character
