"""The words of the translator, from lexicon.toml beside this file: each English word has one French translation."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from attnviz.training.translator import french

_TEXTS = tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Noun:
    """A noun; `english` and `french` are (singular, plural), `gender` is "m" or "f"."""

    english: tuple[str, str]
    french: tuple[str, str]
    gender: str
    kind: str

    @property
    def living(self) -> bool:
        return self.kind in ("people", "animals")

    @property
    def counted(self) -> bool:
        """Whether it has "a" and a plural here; "milk" has not."""
        return self.kind not in ("meals", "drinks")


@dataclass(frozen=True)
class Adjective:
    """An adjective; `french` is (masculine, feminine), singular. It stands before its noun if `before`."""

    english: str
    french: tuple[str, str]
    before: bool
    kind: str

    def agreed(self, gender: str, plural: bool) -> str:
        singular = self.french[gender == "f"]
        return french.plural(singular) if plural else singular


@dataclass(frozen=True)
class Verb:
    """A verb; `english` is (base, past, -ing), of which base may have a second word: "look at".

    `present` and `imperfect` are for je, tu, il, nous, ils. `helper` is the verb of its past: "avoir" or "être".
    """

    english: tuple[str, str, str]
    particle: tuple[str, ...]
    infinitive: str
    present: tuple[str, ...]
    participle: str
    helper: str
    reflexive: bool
    objects: tuple[str, ...]

    @property
    def imperfect(self) -> tuple[str, ...]:
        return french.imperfect(self.present[3])


def _entries(text: str) -> list[list[str]]:
    return [entry.split() for entry in text.split(";")]


def _pairs(text: str) -> dict[str, str]:
    return {english: " ".join(written) for english, *written in _entries(text)}


def _noun(english: str, written: str, gender: str, *, kind: str) -> Noun:
    one, _, many = english.partition("/")
    return Noun((one, many or one_to_many(one)), (written, french.plural(written)), gender, kind)


def one_to_many(word: str) -> str:
    """The English -s of plurals and of "he sleeps"."""
    if word.endswith(("s", "x", "ch", "sh", "go")):
        return f"{word}es"
    if word.endswith("y") and word[-2] not in "aeiou":
        return f"{word[:-1]}ies"
    return "has" if word == "have" else f"{word}s"


def _verb(english: str, infinitive: str, *forms: str, objects: tuple[str, ...]) -> Verb:
    base, past, ing = english.split("/")
    base, *particle = base.split("_")
    helper, _, infinitive = infinitive.rpartition("·")
    *present, participle = forms or french.like_parler(infinitive)
    return Verb(
        (base, past, ing),
        tuple(particle),
        infinitive,
        tuple(present),
        participle,
        "être" if helper else "avoir",
        helper == "se",
        objects,
    )


ATTRIBUTES, ADJECTIVES, NOUNS = _TEXTS["attributes"], _TEXTS["adjectives"], _TEXTS["nouns"]
BEFORE = _TEXTS["before"].split()
NOUN_LIST = tuple(_noun(*entry, kind=kind) for kind, text in NOUNS.items() for entry in _entries(text))
ADJECTIVE_LIST = tuple(
    Adjective(english, (masculine, feminine), kind in BEFORE, kind)
    for kind, text in ADJECTIVES.items()
    for english, masculine, feminine in _entries(text)
)
VERB_LISTS = {
    kind: tuple(_verb(*entry, objects=tuple(kind.split()[1:])) for entry in _entries(text))
    for kind, text in _TEXTS["verbs"].items()
}
MODALS, BE, HAVE, REFLEXIVES = (_TEXTS[name] for name in ("modals", "be", "have", "reflexives"))
DETERMINERS, PRONOUNS, PREPOSITIONS = (_TEXTS[name] for name in ("determiners", "pronouns", "prepositions"))
NUMBERS, NAMES, OBJECTS, JOINS, ADVERBS = (
    _pairs(_TEXTS[name]) for name in ("numbers", "names", "objects", "joins", "adverbs")
)
DESTINATIONS = _TEXTS["destinations"]


def nouns(chosen: str) -> tuple[Noun, ...]:
    """The nouns of some kinds, or single ones by their English name."""
    wanted = set(chosen.split())
    return tuple(noun for noun in NOUN_LIST if noun.kind in wanted or noun.english[0] in wanted)
