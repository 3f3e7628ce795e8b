"""What a sentence was cut into. Tokenizers make it, records carry it, pictures label their axes with it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Token:
    """One piece of a text.

    Attributes:
        text: the piece as it stands in the text, or the name of a special token such as ``<pad>``.
        id: its number in the vocabulary.
        start, end: where it stands, ``sentence[start:end]``; both are equal where it stands nowhere.
        special: whether it was added rather than typed.
        joined: whether it continues the word of the token before it.
        segment: of a pair of texts, whether it is of the first (0) or the second (1).
    """

    text: str
    id: int
    start: int
    end: int
    special: bool = False
    joined: bool = False
    segment: int = 0


@dataclass(frozen=True)
class Sentence:
    """A text and its tokens, padded at the end to the length of its batch.

    Attributes:
        text: as it was typed.
        tokens: with special tokens and padding.
        length: how many of the tokens are not padding.
    """

    text: str
    tokens: tuple[Token, ...]
    length: int

    @property
    def labels(self) -> tuple[str, ...]:
        """The text of each token."""
        return tuple(token.text for token in self.tokens)
