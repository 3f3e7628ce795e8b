"""A story as data: its words, and which of them can only be right if the model looked back."""

from dataclasses import dataclass

from attnviz.training.harness import is_held_out
from attnviz.training.story.words import NAMES

_NAMED = {name.word for name in NAMES}


@dataclass(frozen=True)
class Tested:
    """A word of a story that can only be right if the model looked back.

    Attributes:
        kind: "pronoun", "verb" or "name".
        at: which word of the story it is.
        wrong: what it must not be: the other pronouns, the verb's other form, the other names.
        source: the words it agrees with: the subject's noun, two names joined by "and", or the name that is repeated.
        opening: the words from the beginning of the subject's sentence to the one before it.
    """

    kind: str
    at: int
    wrong: tuple[str, ...]
    source: tuple[int, ...]
    opening: str


@dataclass(frozen=True)
class Story:
    """The words of a story, in lower case and with punctuation marks as words of their own."""

    words: tuple[str, ...]
    tested: tuple[Tested, ...]

    @property
    def held_out(self) -> bool:
        """Whether an opening is kept for measuring, as one in ten is: no model is trained on it."""
        return any(is_held_out(test.opening) for test in self.tested)

    @property
    def text(self) -> str:
        """As a person would write it."""
        text, begins = "", True
        for word in self.words:
            text += "" if not text or word in ".," else " "
            text += word.capitalize() if begins or word in _NAMED else word
            begins = word == "."
        return text
