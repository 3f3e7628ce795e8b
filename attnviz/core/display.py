"""Make text safe for figures and file names; tokenizers and models read the text as it was typed."""

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache, partial

LONGEST = 24
"""Maximum number of code points of a text that are shown."""

LONGEST_TITLE, LONGEST_LABEL = 40, 44
"""Maximum number of characters of a model's name in a title, and of the name of a class."""

LONGEST_NAME, LONGEST_END = 80, 40
"""Maximum number of characters of a file name without its extension, and of the end that a shortened name keeps."""

_WHITESPACE = {"\t": "⇥", "\n": "↵", "\r": "↵", "\x85": "↵", "\u2028": "↵", "\u2029": "↵"}
_SURROGATE = re.compile("[\ud800-\udfff]")
_DEVICE = re.compile(r"con|prn|aux|nul|(com|lpt)\d", re.IGNORECASE)
"""File names that Windows reserves."""
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Characters that are classed as letters or symbols, but are drawn blank."""


@lru_cache(maxsize=16_384)
def visible_text(text: str, longest: int = LONGEST) -> str:
    """Make a text safe to draw: short, never empty, every character visible and harmless.

    Whitespace becomes ␣ ↵ ⇥; control characters become their Unicode pictures; surrogates and non-characters become
    U+FFFD; direction marks and zero-width characters become a middle dot. At most 4 combining marks may follow each
    other. A cut text ends with an ellipsis. Some of the replaced characters would crash vl-convert and the process.
    """
    characters: list[str] = []
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        if marks > 4:
            continue
        if marks and not characters:
            characters.append("◌")
        characters.append(_replace_unsafe(character, category))
        if len(characters) > longest:
            return "".join(characters[: longest - 1]) + "…"
    return "".join(characters) or "∅"


def in_title(name: str, longest: int = LONGEST_TITLE) -> str:
    """Make the name of a model or class safe for a title, as `visible_text` does, but keep spaces."""
    return visible_text(name, longest).replace("␣", " ")


label_text = partial(in_title, longest=LONGEST_LABEL)
"""`in_title` for the name of a class."""


def as_sentence(note: str) -> str:
    """Turn a remark into a sentence: capitalize the first letter and add a period."""
    return f"{note[:1].upper()}{note[1:]}."


@lru_cache(maxsize=16_384)
def isolated(text: str) -> str:
    """Isolate right-to-left text, so that it does not reorder the text around it; other text stays unchanged.

    The isolated text stands between FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE.
    """
    return f"\u2068{text}\u2069" if any(unicodedata.bidirectional(c) in ("R", "AL", "AN") for c in text) else text


def without_surrogates(text: str) -> str:
    """Replace each lone surrogate, which no file and no browser accepts, by U+FFFD."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def file_stem(*parts: object, end: str = "") -> str:
    """Build a file name, without extension, from parts: ASCII letters, digits and hyphens, safe in every file system.

    A name that is too long is cut before its `end`.
    """
    last = _join_with_hyphens([end])[:LONGEST_END].rstrip("-")
    room = LONGEST_NAME - len(last) - 1 if last else LONGEST_NAME
    stem = "-".join(filter(None, (_join_with_hyphens(parts)[:room].rstrip("-"), last))) or "figure"
    return f"figure-{stem}" if _DEVICE.fullmatch(stem) else stem


def _join_with_hyphens(parts: Iterable[object]) -> str:
    plain = (unicodedata.normalize("NFKD", str(part)).encode("ascii", "ignore").decode() for part in parts)
    return "-".join(filter(None, (re.sub(r"[^A-Za-z0-9]+", "-", part).strip("-") for part in plain)))


def _replace_unsafe(character: str, category: str) -> str:
    """Replace one character, of a Unicode category, by a visible and harmless sign; other characters stay."""
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
