"""Fixed vocabularies of the models trained for attnviz."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path

from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.tokens import Sentence, Token
from attnviz.tokenizers import SPECIAL, spans

UNK = "<unk>"
UNKNOWN = "(?)"
"""Mark after a word that the model reads as `UNK`."""
NEAREST, ALIKE = 3, 0.8
"""Maximum number of suggestions for an unknown word, and minimum similarity of their spelling."""

_ELISION = ("'", "’")
_CLOSING = (".", ",", "!", "?")


@dataclass(frozen=True)
class Vocabulary:
    """The words of one language of a model, with their ids; any other word becomes ``<unk>``.

    Ids 0 to 3 are ``<pad>``, ``<sos>``, ``<eos>`` and ``<unk>``; words follow in order. A word is looked up as typed,
    then in lower case, then with a straight apostrophe.
    """

    words: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All entries in the order of their ids, including special tokens."""
        return (*SPECIAL, UNK, *self.words)

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, text: str) -> tuple[Token, ...]:
        """Cut a text into tokens; unknown words are marked."""
        return tuple(self._token(text[start:end], start, end) for start, end in spans(text))

    def unknown(self, text: str) -> tuple[str, ...]:
        """List the distinct words of a text that are not in the vocabulary."""
        words = (text[start:end] for start, end in spans(text))
        return tuple(dict.fromkeys(word for word in words if self._id(word) is None))

    def nearest(self, word: str) -> tuple[str, ...]:
        """Known words with a spelling similar to a word; empty if there are none."""
        return tuple(get_close_matches(word.lower()[:64], self.words, NEAREST, ALIKE))

    def sentence(self, ids: Sequence[int], length: int) -> Sentence:
        """Build a sentence from generated ids, with its text and tokens; tokens from `length` on are padding.

        Words are separated by spaces, except before punctuation and after an elision ("l' oiseau").
        """
        sentence = Sentence("", (), 0)
        for id in ids:
            sentence = self.extended(sentence, id)
        return replace(sentence, length=length)

    def extended(self, sentence: Sentence, id: int) -> Sentence:
        """Append the token with an id, and its word, to a sentence; raise InputError if there is no such id."""
        if not 0 <= id < len(self):
            raise InputError(f"There is no token with the id {id}; there are {len(self):,}, counted from 0.")
        text, name, special = sentence.text, self.names[id], id < len(SPECIAL)
        needs_space = text and not text.endswith(_ELISION) and name not in _CLOSING
        if not special:
            text += f" {name}" if needs_space else name
        start = len(text) if special else len(text) - len(name)
        token = Token(name, id, start, len(text), special=special)
        return Sentence(text, (*sentence.tokens, token), sentence.length + 1)

    def ids(self, words: Iterable[str]) -> list[int]:
        """Look up the ids of words; raise AttnvizError if a word is unknown."""
        ids = []
        for word in words:
            id = self._id(word)
            if id is None:
                raise AttnvizError(f"The vocabulary has no '{word}'.")
            ids.append(id)
        return ids

    def _token(self, word: str, start: int, end: int) -> Token:
        """Make the token of a word with a character range; the text of an unknown word ends with `UNKNOWN`."""
        id = self._id(word)
        return Token(f"{word}{UNKNOWN}", self._ids[UNK], start, end) if id is None else Token(word, id, start, end)

    def _id(self, word: str) -> int | None:
        """Id of a typed word, or None; a typed "<sos>" never matches, because it was cut into three words before."""
        for spelling in (word, word.lower(), word.lower().replace("’", "'")):
            if spelling in self._ids:
                return self._ids[spelling]
        return None

    @cached_property
    def _ids(self) -> dict[str, int]:
        """Id of each entry of the vocabulary."""
        return {name: id for id, name in enumerate(self.names)}


def read(path: Path) -> dict[str, Vocabulary]:
    """Read the vocabularies of a shipped model, by language, from a file; raise AttnvizError if it cannot be read."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {language: Vocabulary(tuple(words)) for language, words in data.items()}
    except (OSError, ValueError, AttributeError):
        raise AttnvizError(f"The vocabulary {path.parent.name}/{path.name} is missing or damaged.") from None
