"""Text to tokens and back: words, characters, and pieces of words (byte-pair encoding); padded batches."""

from collections.abc import Sequence
from functools import cache
from hashlib import blake2b
from typing import Protocol

from tokenizers import Regex
from tokenizers import Tokenizer as Encoder
from tokenizers.pre_tokenizers import Split

from attnviz.core import assets
from attnviz.core.display import without_surrogates
from attnviz.core.errors import InputError, quoted
from attnviz.core.tokens import Sentence, Token

PAD, SOS, EOS = "<pad>", "<sos>", "<eos>"
SPECIAL = {PAD: 0, SOS: 1, EOS: 2}
"""Special tokens and their ids, the same in every tokenizer."""

ID_BYTES = 6
"""An id without a vocabulary has 48 bits: among a million pieces, the probability of a shared id is 1 in 500."""


class Tokenizer(Protocol):
    """Cuts a text into tokens, in order; every character except whitespace is in a token, and no token is special."""

    def encode(self, text: str) -> tuple[Token, ...]: ...


def hash_to_id(piece: str) -> int:
    """Hash a piece of text to an id, which is the same on every machine, and never the id of a special token."""
    digest = blake2b(piece.encode("utf-8", "surrogatepass"), digest_size=ID_BYTES).digest()
    return len(SPECIAL) + int.from_bytes(digest) % (2 ** (8 * ID_BYTES) - len(SPECIAL))


CLUSTER = r"[🇦-🇿]{1,2}[\p{M}\u200d]*|\X"
"""One grapheme cluster. Flags come first, because `\\X` rescans a whole run of flags: 46 s for 100,000."""

_CLUSTERS = Split(Regex(CLUSTER), "isolated")


class Characters:
    """One token per grapheme cluster (Unicode Standard Annex 29), including whitespace.

    Code points would not do: "é" may be one or two, a family emoji is seven, and a lone combining mark or half a flag
    on the axis of a figure could not be read.
    """

    def encode(self, text: str) -> tuple[Token, ...]:
        spans = (span for _, span in _CLUSTERS.pre_tokenize_str(without_surrogates(text)))
        return tuple(Token(text[start:end], hash_to_id(text[start:end]), start, end) for start, end in spans)


_LETTER = r"[\p{L}\p{N}\p{M}\u200c\u200d&&[^\p{Han}]]"
"""Characters of words: letters, digits, combining marks, and the joiners in Persian and Indic words."""

_JOINER = r"(?:['’‐‑-](?!\p{M})|(?<=\p{N})[.,](?=\p{N}))"
"""Signs allowed within a word: don't, well-known, 3.14."""

_PARTS = Split(
    Regex(
        rf"{_LETTER}+(?:{_JOINER}{_LETTER}+)*"
        r"|\p{Han}\p{M}*"  # each ideograph is a token
        r"|\s"
        rf"|{CLUSTER}"  # punctuation, symbols, whole emoji and flags
    ),
    "isolated",
)


class Words:
    """Words with inner apostrophes and hyphens, case kept; each punctuation mark, ideograph or emoji is a token."""

    def encode(self, text: str) -> tuple[Token, ...]:
        return tuple(Token(text[start:end], hash_to_id(text[start:end]), start, end) for start, end in spans(text))


def spans(text: str) -> list[tuple[int, int]]:
    """Character ranges, (start, end), of all words and punctuation marks of a text."""
    pieces = _PARTS.pre_tokenize_str(without_surrogates(text))
    return [span for piece, span in pieces if not piece.isspace()]


class Subword:
    """Byte-level byte-pair encoding: frequent words are one token, others are cut into pieces; no text is unknown.

    As in GPT-2, the id of a word includes the space before it, so that ids spell the text exactly; its span and text
    exclude the space. The tokens of a character that is cut into bytes have the span and text of the whole character.
    """

    def __init__(self):
        self._encoder = Encoder.from_file(str(assets.path("tokenizers/bpe.json")))
        self._encoder.encode_special_tokens = True  # a typed "<pad>" is text

    def encode(self, text: str) -> tuple[Token, ...]:
        """Cut a text into words and pieces of words; a piece that continues a word is `joined`."""
        encoding = self._encoder.encode(without_surrogates(text), add_special_tokens=False)
        tokens, previous_word = [], None
        for id, (start, end), word in zip(encoding.ids, encoding.offsets, encoding.word_ids, strict=True):
            if text[start] == " " and not text[start:end].isspace():  # the space before a word
                start += 1
            piece = text[start:end]
            tokens.append(Token(piece, id, start, end, joined=word == previous_word))
            previous_word = None if piece.isspace() else word
        return tuple(tokens)


_KINDS = {"words": Words, "characters": Characters, "bpe": Subword}
NAMES = tuple(_KINDS)


@cache
def load(name: str) -> Tokenizer:
    """Return the tokenizer with this name, created once; raise InputError if there is none."""
    if name not in NAMES:
        raise InputError(f"There is no tokenizer {quoted(name)}. Available tokenizers: {', '.join(NAMES)}.")
    return _KINDS[name]()


def batch(tokenizer: Tokenizer, texts: Sequence[str], *, sos: bool = False, eos: bool = False) -> tuple[Sentence, ...]:
    """Cut texts into tokens, and pad the sentences at the end to the length of the longest.

    Args:
        sos: begin each sentence with ``<sos>``.
        eos: end each sentence with ``<eos>``, before the padding.

    Raises:
        InputError: if there is no text, or a text without tokens; the message counts texts from 1.
    """
    if not texts:
        raise InputError("There is no sentence; type at least one.")
    rows = []
    for number, text in enumerate(texts, 1):
        tokens = tokenizer.encode(text)
        if not tokens:
            problem = "holds only whitespace" if text else "is empty"
            raise InputError(f"Sentence {number} {problem}; type at least one word in it.")
        if sos:
            tokens = (_special_token(SOS, 0), *tokens)
        if eos:
            tokens = (*tokens, _special_token(EOS, len(text)))
        rows.append(tokens)
    longest = max(map(len, rows))
    sentences = []
    for text, tokens in zip(texts, rows, strict=True):
        padding = (_special_token(PAD, len(text)),) * (longest - len(tokens))
        sentences.append(Sentence(text, tokens + padding, len(tokens)))
    return tuple(sentences)


def _special_token(name: str, position: int) -> Token:
    """Make a special token, which has no characters, at a position in the text."""
    return Token(name, SPECIAL[name], position, position, special=True)
