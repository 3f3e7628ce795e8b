"""Tokens as tokenizers call them, "Ġcat", "▁cat" or "##s", as what stands in the text."""

import re
from collections.abc import Sequence
from itertools import pairwise

STARTS = ("Ġ", "▁")
"""Signs before a piece that begins a word: of byte-level BPE, and of SentencePiece."""

CONTINUES = "##"
"""Sign before a piece that continues a word: of WordPiece."""

NAMED = re.compile(r"<.+>|\[[A-Z]+\]")
"""Special tokens, which are of no word."""

SHARE = 1 / 4
"""Share of tokens that begin with such a sign; fewer are words that happen to."""

_PLAIN = [*range(33, 127), *range(161, 173), *range(174, 256)]
_REST = [byte for byte in range(256) if byte not in _PLAIN]
BYTES = {chr(byte): byte for byte in _PLAIN} | {chr(256 + i): byte for i, byte in enumerate(_REST)}
"""The byte for which each sign of byte-level BPE stands, as GPT-2 writes them."""


def read(words: Sequence[str]) -> list[tuple[str, bool, bool]]:
    """The text of each token, whether a blank stands before it, and whether it continues the word before it.

    What are words already stay so.
    """

    def often(sign: str) -> bool:
        return sum(word.startswith(sign) for word in words) >= max(1, SHARE * len(words))

    start = next((sign for sign in STARTS if often(sign)), None)
    if start:
        parts = [(_text(word, start), _begins(word, before, start)) for before, word in pairwise(["<s>", *words])]
        return [(text, apart, not apart and text[:1].isalnum()) for text, apart in parts]
    if often(CONTINUES):
        joined = [word.startswith(CONTINUES) for word in words]
        return [
            (word.removeprefix(CONTINUES) or word, not continues, continues)
            for word, continues in zip(words, joined, strict=True)
        ]
    return [(word, True, False) for word in words]


def _begins(word: str, before: str, start: str) -> bool:
    return word.startswith(start) or bool(NAMED.fullmatch(word) or NAMED.fullmatch(before))


def _text(word: str, start: str) -> str:
    """A piece without its sign; of bytes the text, if they are a whole one."""
    if start == "▁":
        return word.removeprefix(start) or word
    try:
        text = bytes(BYTES[sign] for sign in word).decode()
    except (KeyError, UnicodeDecodeError):
        return word.removeprefix(start) or word
    return text.removeprefix(" ") or text or word
