"""Tokens and sentences: made by tokenizers, stored in records, used as axis labels in figures."""

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
        text: the piece of the text, the name of a special token such as ``<pad>``, or the row and column of a patch.
        id: index in the vocabulary.
        start, end: character range in the text, ``sentence[start:end]``; start equals end for a token without a range.
        special: whether the tokenizer added the token.
        joined: whether the token continues the word of the token before it.
        segment: index of the text in a pair of texts, 0 or 1.
        role: speaker in a chat, "system", "user" or "assistant"; else "answer" for a token that the model wrote, or "".
        box: rectangle in a picture; None for a token of a text.
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
        location = f"characters {self.start} to {self.end}" if self.end > self.start else "in no place of the text"
        if self.box is not None:
            location = "a patch of the picture"
        return f"“{self.text}” (id {self.id}, {location}{', special' if self.special else ''})"


CLOSING = "\"')]}»”’」』"
"""Characters that may stand between the end of a sentence and the space after it."""


def begins_sentence(before: Token, token: Token, text: str) -> bool:
    """Whether a sentence begins at a token, given the token before it.

    A sentence begins where the role changes, after a line break, after 。！？, and after . ! ? … followed by a space.
    There is no list of abbreviations, so a sentence also begins after "Mr. ".
    """
    if before.role != token.role:
        return True
    if not before.text.strip():
        return False
    ending, between = before.text, "" if token.joined else " "  # end of the text before the token; space between them
    if text and before.start < before.end <= token.start < token.end:  # the tokens have character ranges
        ending, between = text[max(0, before.end - 9) : before.end], text[before.end : token.start]
    trailing_space = before.text[len(before.text.rstrip()) :]
    leading_space = token.text[: len(token.text) - len(token.text.lstrip())]
    between = trailing_space + between + leading_space
    ending = ending.rstrip().rstrip(CLOSING)
    if ending.endswith(("。", "！", "？")):
        return bool(token.text.strip(CLOSING + "。！？…"))
    return "\n" in between or (bool(between) and ending.endswith((".", "!", "?", "…")))


@dataclass(frozen=True)
class Sentence:
    """A text, or a picture, and its tokens, padded at the end to the length of its batch.

    Attributes:
        text: the text as typed.
        tokens: all tokens, with special tokens and padding.
        length: number of tokens that are not padding.
        pictures: pictures to which the boxes of the tokens refer.
    """

    text: str
    tokens: tuple[Token, ...]
    length: int
    pictures: tuple[Picture, ...] = ()

    @cached_property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        objects = [self.text, self.tokens, *self.tokens, *self.labels]
        return sum(map(sys.getsizeof, objects)) + sum(picture.nbytes for picture in self.pictures)

    @cached_property
    def has_places(self) -> bool:
        """Whether a token has a box in a picture."""
        return any(token.box is not None for token in self.tokens)

    @property
    def labels(self) -> tuple[str, ...]:
        """The text of each token."""
        return tuple(token.text for token in self.tokens)


def occurrences(text: str, tokens: Sequence[Token], pattern: str) -> Iterator[tuple[int, int, re.Match]]:
    """Find a regular expression in a text, ignoring case; yield the range of tokens, start and end, and the match."""
    token_at: dict[int, int] = {}  # index of the token that starts at a character; of several, the first
    for index, token in enumerate(tokens):
        if token.text and not token.special:
            token_at.setdefault(token.start, index)
    starts = sorted(token_at)
    for match in re.finditer(pattern, text, re.IGNORECASE):
        first = bisect_right(starts, match.start()) - 1
        last = max(first, bisect_left(starts, match.end()) - 1)
        if first >= 0:
            yield token_at[starts[first]], token_at[starts[last]] + 1, match
