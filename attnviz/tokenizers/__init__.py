"""Text to tokens and back: words, characters, and pieces of words (byte-pair encoding)."""

from functools import cache

from attnviz.core.errors import InputError, quoted
from attnviz.tokenizers.base import Tokenizer, batch
from attnviz.tokenizers.characters import Characters
from attnviz.tokenizers.subword import Subword
from attnviz.tokenizers.words import Words

_KINDS = {"words": Words, "characters": Characters, "bpe": Subword}
NAMES = tuple(_KINDS)


def load(name: str) -> Tokenizer:
    """The tokenizer of that name, made once.

    Raises:
        InputError: names the tokenizers that there are.
    """
    if name not in NAMES:
        raise InputError(f"There is no tokenizer {quoted(name)}. There are: {', '.join(NAMES)}.")
    return _cached(name)


@cache
def _cached(name: str) -> Tokenizer:
    return _KINDS[name]()
