"""One token per character, as a reader counts them."""

from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

from attnviz.core.display import without_surrogates
from attnviz.core.tokens import Token
from attnviz.tokenizers.base import hashed

CLUSTER = r"[🇦-🇿]{1,2}[\p{M}\u200d]*|\X"
"""One grapheme cluster. Flags first: `\\X` looks back over a whole run of them, 46 s for 100,000."""

_CLUSTERS = Split(Regex(CLUSTER), "isolated")


class Characters:
    """One token per grapheme cluster (Unicode Standard Annex 29), whitespace included.

    Not per code point: "é" may be one code point or two, a family emoji is seven, and a lone combining mark or half a
    flag on an axis of a picture could not be read.
    """

    name = "characters"

    def encode(self, text: str) -> tuple[Token, ...]:
        spans = (span for _, span in _CLUSTERS.pre_tokenize_str(without_surrogates(text)))
        return tuple(Token(text[start:end], hashed(text[start:end]), start, end) for start, end in spans)
