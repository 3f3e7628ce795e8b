"""The words of the stories, from words.toml beside this file."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

_TEXTS = tomllib.loads(Path(__file__).with_name("words.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Noun:
    """A word or a name, the pronoun that stands for it, and its group: "people", "animals", "things" or "places"."""

    word: str
    pronoun: str
    group: str
    named: bool = False

    @property
    def plural(self) -> bool:
        return self.pronoun == "they"


@dataclass(frozen=True)
class Verb:
    """The forms of one verb: they sit, it sits, it sat; and they sat, where that is another word."""

    many: str
    one: str
    past: str
    past_many: str = ""

    def form(self, plural: bool, past: bool) -> str:
        if past:
            return self.past_many or self.past if plural else self.past
        return self.many if plural else self.one


def _nouns(group: str) -> tuple[Noun, ...]:
    """Split "box/boxes" into a noun for one and a noun for many."""
    return tuple(
        Noun(word, p, group)
        for pronoun, text in _TEXTS["nouns"][group].items()
        for pair in text.split()
        for word, p in zip(pair.split("/"), (pronoun, "they"), strict=True)
    )


def _verbs(text: str) -> tuple[Verb, ...]:
    return tuple(Verb(*forms.split("/")) for forms in text.split())


def _each(table: str, read=str.split) -> dict:
    return {name: read(text) for name, text in _TEXTS[table].items()}


POSSESSIVES, REFLEXIVES = _TEXTS["possessives"], _TEXTS["reflexives"]
PRONOUNS = tuple(POSSESSIVES)
NAMES = tuple(Noun(name, of, "people", named=True) for of, names in _each("names").items() for name in names)
NOUNS = (*_nouns("people"), *_nouns("animals"), *_nouns("things"))
PLACES = _nouns("places")
STANDING, MEETINGS, DOWN, ADVERBS = (_TEXTS[name].split() for name in ("standing", "meetings", "down", "adverbs"))
WHERE, BELONGING, QUALITIES, ADJECTIVES = map(_each, ("where", "belonging", "qualities", "adjectives"))
BE, HAVE, GO, MEET, GIVE, FIND, LOSE = _verbs(" ".join(_TEXTS["verbs"].values()))
MOVES, OWN_MOVES, DEEDS = (_each(table, _verbs) for table in ("moves", "own_moves", "deeds"))
_ACTIONS = (verb for table in (MOVES, OWN_MOVES, DEEDS) for verbs in table.values() for verb in verbs)
VERBS = (BE, HAVE, GO, MEET, GIVE, FIND, LOSE, *_ACTIONS)
JOINS = _TEXTS["joins"]
