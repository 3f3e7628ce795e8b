"""Tokens and sentences. Tokenizers make them, records carry them, pictures label their axes with them."""

import re
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from attnviz.core.places import Box, Picture


@dataclass(frozen=True)
class Token:
    """One piece of a text, or of a picture.

    Attributes:
        text: the piece as it stands in the text, or the name of a special token such as ``<pad>``; of a patch its row
            and column.
        id: its number in the vocabulary.
        start, end: where it stands, ``sentence[start:end]``; both are equal where it stands nowhere.
        special: whether it was added rather than typed.
        joined: whether it continues the word of the token before it.
        segment: of a pair of texts, whether it is of the first (0) or the second (1).
        role: of a chat, whose turn it is of: "system", "user" or "assistant"; else "answer" if a model wrote it, or "".
        box: where it stands in a picture; None where it stands in none.
    """

    text: str
    id: int
    start: int
    end: int
    special: bool = False
    joined: bool = False
    segment: int = 0
    role: str = ""
    box: Box | None = None

    def __str__(self) -> str:
        place = f"characters {self.start} to {self.end}" if self.end > self.start else "in no place of the text"
        if self.box is not None:
            place = "a patch of the picture"
        return f"“{self.text}” (id {self.id}, {place}{', special' if self.special else ''})"


CLOSING = "\"')]}»”’」』"
"""Pattern of the text between the end of a sentence and the next one."""


def begins_sentence(before: Token, token: Token, text: str) -> bool:
    """Whether a sentence of a text begins at a token, after the one before it; by a plain rule, without a dictionary.

    It does where the role changes, after a line break, after 。！？, and after . ! ? … where a space follows: so also
    after "Mr. ".
    """
    if before.role != token.role:
        return True
    if not (end := before.text.rstrip()):
        return False
    placed = text and before.start < before.end <= token.start < token.end
    space = "" if token.joined else " "
    between = before.text[len(end) :] + (text[before.end : token.start] if placed else space)
    between += token.text[: len(token.text) - len(token.text.lstrip())]
    ended = (text[max(0, before.end - 9) : before.end] if placed else before.text).rstrip().rstrip(CLOSING)
    if ended.endswith(("。", "！", "？")):
        return not _closes(token)
    return "\n" in between or (bool(between) and ended.endswith((".", "!", "?", "…")))


def _closes(token: Token) -> bool:
    return not token.text.strip(CLOSING + "。！？…")


@dataclass(frozen=True)
class Sentence:
    """A text, or a picture, and its tokens, padded at the end to the length of its batch.

    Attributes:
        text: as it was typed.
        tokens: with special tokens and padding.
        length: how many of the tokens are not padding.
        pictures: in which tokens have their boxes.
    """

    text: str
    tokens: tuple[Token, ...]
    length: int
    pictures: tuple[Picture, ...] = ()

    @cached_property
    def nbytes(self) -> int:
        """How much memory it takes."""
        parts = [self.text, *self.tokens, *(token.text for token in self.tokens)]
        pixels = sum(picture.nbytes for picture in self.pictures)
        return sum(map(sys.getsizeof, parts)) + sys.getsizeof(self.tokens) + pixels

    @cached_property
    def has_places(self) -> bool:
        """Whether some of its tokens stand in a picture."""
        return any(token.box is not None for token in self.tokens)

    @property
    def labels(self) -> tuple[str, ...]:
        """The text of each token."""
        return tuple(token.text for token in self.tokens)


def occurrences(text: str, tokens: Sequence[Token], pattern: str) -> Iterator[tuple[int, int, re.Match]]:
    """Each match of a pattern, whatever its case: its first token, the token after its last, the match itself."""
    begins = {token.start: i for i, token in reversed([*enumerate(tokens)]) if not token.special and token.text}
    starts = sorted(begins)
    for place in re.finditer(pattern, text, re.IGNORECASE):
        first, after = bisect_right(starts, place.start()) - 1, bisect_left(starts, place.end())
        if first >= 0:
            yield begins[starts[first]], begins[starts[max(first, after - 1)]] + 1, place
