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
    other. A text of more than `longest` characters is cut and ends with an ellipsis; an empty text becomes ∅. Some of
    the replaced characters would crash vl-convert and the process.
    """
    characters: list[str] = []
    num_marks = 0  # combining marks, such as accents, since the last other character
    for character in text:
        category = unicodedata.category(character)
        num_marks = num_marks + 1 if category in ("Mn", "Me") else 0
        if num_marks > 4:
            continue
        if num_marks and not characters:
            characters.append("◌")  # a mark needs a character to sit on
        characters.append(_replace_unsafe(character, category))
        if len(characters) > longest:
            return "".join(characters[: longest - 1]) + "…"
    return "".join(characters) or "∅"


def in_title(name: str, longest: int = LONGEST_TITLE) -> str:
    """Make the name of a model or class safe for a title, as `visible_text` does, but keep spaces."""
    return visible_text(name, longest).replace("␣", " ")


label_text = partial(in_title, longest=LONGEST_LABEL)
"""`in_title` for the name of a class."""


def as_sentence(phrase: str) -> str:
    """Turn a phrase into a sentence: capitalize its first letter and add a period."""
    return f"{phrase[:1].upper()}{phrase[1:]}."


@lru_cache(maxsize=16_384)
def isolated(text: str) -> str:
    """Isolate right-to-left text, so that it does not reorder the text around it; other text stays unchanged.

    The isolated text stands between FIRST STRONG ISOLATE and POP DIRECTIONAL ISOLATE.
    """
    right_to_left = ("R", "AL", "AN")  # Hebrew and others, Arabic letters, Arabic numbers
    return f"\u2068{text}\u2069" if any(unicodedata.bidirectional(c) in right_to_left for c in text) else text


def without_surrogates(text: str) -> str:
    """Replace each lone surrogate, which no file and no browser accepts, by U+FFFD."""
    return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def file_stem(*parts: object, end: str = "") -> str:
    """Build a file name without extension from ASCII letters, digits and hyphens; if too long, cut it before `end`."""
    end = _join_with_hyphens([end])[:LONGEST_END].rstrip("-")
    longest_start = LONGEST_NAME - len(end) - 1 if end else LONGEST_NAME
    start = _join_with_hyphens(parts)[:longest_start].rstrip("-")
    stem = "-".join(filter(None, (start, end))) or "figure"
    return f"figure-{stem}" if _DEVICE.fullmatch(stem) else stem


def _join_with_hyphens(parts: Iterable[object]) -> str:
    """Join all words of the parts, their runs of ASCII letters and digits, by hyphens; accents are removed."""
    text = unicodedata.normalize("NFKD", "-".join(map(str, parts))).encode("ascii", "ignore").decode()
    return "-".join(re.findall("[A-Za-z0-9]+", text))


def _replace_unsafe(character: str, category: str) -> str:
    """Replace a character that is invisible or unsafe to draw by a visible sign, by its Unicode category."""
    code = ord(character)
    if character in _WHITESPACE:
        return _WHITESPACE[character]
    if category == "Zs":  # spaces
        return "␣"
    if category == "Cf" or character in _INVISIBLE:  # direction marks, zero-width characters
        return "·"
    if category == "Cc":  # control characters; the pictures of the first 32 begin at U+2400
        if code < 0x20:
            return chr(0x2400 + code)
        return "␡" if code == 0x7F else "\ufffd"
    is_noncharacter = 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE
    return "\ufffd" if category == "Cs" or is_noncharacter else character  # Cs: surrogates
