"""A text that a person opens from a file: one text, as the line breaks of a file seldom end a sentence."""

import codecs

from attnviz.core.errors import InputError, quoted
from attnviz.ui import cache
from attnviz.ui.shared import words

ENDINGS = (".txt", ".text", ".md")
"""Endings of the names of files that hold a text."""

WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def is_text(name: str) -> bool:
    return name.lower().endswith(ENDINGS)


def read(name: str, content: bytes) -> tuple[str, int]:
    """The text of a file with blanks for its line breaks, and how many lines it had.

    Raises:
        InputError: if it is in no encoding that can be told, holds no text, or more than the app takes.
    """
    try:
        text = content.decode("utf-16" if content.startswith(WIDE) else "utf-8-sig")
    except UnicodeDecodeError as error:
        encoding = error.encoding.upper()
        wrong = words.NOT_ENCODED.format(file=quoted(name), position=error.start, encoding=encoding)
        raise InputError(wrong) from None
    if "\0" in text:
        raise InputError(words.NOT_TEXT.format(file=quoted(name)))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError(words.EMPTY_FILE.format(file=quoted(name)))
    joined = " ".join(lines)
    cache.check_characters(joined)
    return joined, len(lines)
