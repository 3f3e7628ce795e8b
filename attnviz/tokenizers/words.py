"""One token per word or punctuation mark."""

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from attnviz.core.display import without_surrogates
from attnviz.core.tokens import Token
from attnviz.tokenizers.base import hashed
from attnviz.tokenizers.characters import CLUSTER

_LETTER = r"[\p{L}\p{N}\p{M}\u200c\u200d&&[^\p{Han}]]"
"""Characters of words: letters, digits, combining marks and the joiners inside Persian and Indic words."""

_JOINER = r"(?:['’‐‑-](?!\p{M})|(?<=\p{N})[.,](?=\p{N}))"
"""Signs that may stand inside a word: don't, well-known, 3.14."""

_PARTS = Split(
    Regex(
        rf"{_LETTER}+(?:{_JOINER}{_LETTER}+)*"
        r"|\p{Han}\p{M}*"  # ideographs stand alone
        r"|\s"
        rf"|{CLUSTER}"  # punctuation, symbols, whole emoji and flags
    ),
    "isolated",
)


class Words:
    """Words with their inner apostrophes and hyphens, case kept; each punctuation mark, ideograph and emoji alone."""

    name = "words"

    def encode(self, text: str) -> tuple[Token, ...]:
        return tuple(Token(text[start:end], hashed(text[start:end]), start, end) for start, end in spans(text))


def spans(text: str) -> list[tuple[int, int]]:
    """Begin and end of each word and mark, in characters."""
    return [span for part, span in _PARTS.pre_tokenize_str(without_surrogates(text)) if not part.isspace()]
