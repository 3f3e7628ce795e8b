"""What every tokenizer promises, and padded batches."""

from typing import Protocol

from attnviz.core.tokens import Sentence, Token
from attnviz.core.errors import InputError


class Tokenizer(Protocol):
    """Cuts a text into tokens that know where they stand in it."""

    name: str

    def encode(self, text: str) -> tuple[Token, ...]:
        """The tokens of a text, without special tokens; the spans of all tokens and the whitespace between them cover the text."""
        ...


def load(name: str):
    """TO BE WRITTEN by the tokenizer work: 'words', 'characters', 'bpe'."""
    import re, zlib

    class W:
        def encode(self, text):
            return tuple(Token(m[0], zlib.crc32(m[0].encode('utf-8','surrogatepass')), m.start(), m.end()) for m in re.finditer(r"\w+|[^\w\s]", text))
    return W()


def batch(tokenizer, texts, *, sos=False, eos=False):
    all_ = [tokenizer.encode(t) for t in texts]
    n = max(map(len, all_))
    return tuple(Sentence(t, (*a, *(Token("<pad>", 0, len(t), len(t), True) for _ in range(n-len(a)))), len(a)) for t, a in zip(texts, all_))
