"""Interface of all tokenizers, ids without a vocabulary, and padded batches."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol

from attnviz.core.errors import InputError
from attnviz.core.tokens import Sentence, Token

PAD, SOS, EOS = "<pad>", "<sos>", "<eos>"
SPECIAL = {PAD: 0, SOS: 1, EOS: 2}
"""The special tokens and their ids, the same in every tokenizer."""

ID_BYTES = 6
"""An id without a vocabulary has 48 bits: among a million pieces, two share an id with a chance of 1 in 500."""


class Tokenizer(Protocol):
    """Cuts a text into tokens that know where they stand in it."""

    @property
    def name(self) -> str: ...

    def encode(self, text: str) -> tuple[Token, ...]:
        """The tokens of a text in their order, without special tokens; each holds `text[start:end]`.

        Every character that is not whitespace is in a token. Any text is allowed, lone surrogates and control
        characters too.
        """
        ...


def hashed(piece: str) -> int:
    """An id for a piece where there is no vocabulary: the same on every machine, and never a special token's."""
    digest = blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=ID_BYTES).digest()
    return len(SPECIAL) + int.from_bytes(digest) % (2 ** (8 * ID_BYTES) - len(SPECIAL))


def batch(tokenizer: Tokenizer, texts: Sequence[str], *, sos: bool = False, eos: bool = False) -> tuple[Sentence, ...]:
    """Cut texts into tokens, padded at the end to the length of the longest.

    Args:
        sos: begin each sentence with ``<sos>``.
        eos: end each sentence with ``<eos>``, before the padding.

    Raises:
        InputError: if there is no text, or one without tokens; it says which, counted from 1.
    """
    if not texts:
        raise InputError("There is no sentence; type at least one.")
    rows = [_framed(tokenizer, text, number, sos, eos) for number, text in enumerate(texts, 1)]
    longest = max(map(len, rows))
    return tuple(
        Sentence(text, row + (_special(PAD, len(text)),) * (longest - len(row)), len(row))
        for text, row in zip(texts, rows, strict=True)
    )


def _framed(tokenizer: Tokenizer, text: str, number: int, sos: bool, eos: bool) -> tuple[Token, ...]:
    """The tokens of sentence `number`, between ``<sos>`` and ``<eos>`` if asked for."""
    tokens = tokenizer.encode(text)
    if not tokens:
        what = "holds only whitespace" if text else "is empty"
        raise InputError(f"Sentence {number} {what}; type at least one word in it.")
    begin, end = [_special(SOS, 0)] if sos else [], [_special(EOS, len(text))] if eos else []
    return (*begin, *tokens, *end)


def _special(name: str, place: int) -> Token:
    return Token(name, SPECIAL[name], place, place, special=True)
