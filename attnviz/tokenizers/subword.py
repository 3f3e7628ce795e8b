"""Pieces of words: byte-pair encoding, as in GPT-2."""

from collections.abc import Iterable

from tokenizers import Tokenizer as Encoder

from attnviz.core import assets
from attnviz.core.display import without_surrogates
from attnviz.core.tokens import Token


class Subword:
    """Byte-level byte-pair encoding: frequent words are one token, others are cut, and nothing is ever unknown.

    A word's token includes the space before it, as in GPT-2, so that ids spell the text exactly; its span and text
    leave that space out. Where one character is cut into several bytes, each of those tokens has the character's span
    and text.
    """

    name = "bpe"

    def __init__(self):
        self._encoder = Encoder.from_file(str(assets.path("tokenizers/bpe.json")))
        self._encoder.encode_special_tokens = True  # a typed "<pad>" is text

    def encode(self, text: str) -> tuple[Token, ...]:
        encoding = self._encoder.encode(without_surrogates(text), add_special_tokens=False)
        tokens, before = [], None
        for number, (start, end), word in zip(encoding.ids, encoding.offsets, encoding.word_ids, strict=True):
            if text[start] == " " and not text[start:end].isspace():
                start += 1
            piece = text[start:end]
            tokens.append(Token(piece, number, start, end, joined=word == before))
            before = None if piece.isspace() else word
        return tuple(tokens)

    def decode(self, ids: Iterable[int]) -> str:
        """The text that ids spell, special tokens left out; bytes that are not UTF-8 come out as U+FFFD."""
        return self._encoder.decode(list(ids), skip_special_tokens=True)
