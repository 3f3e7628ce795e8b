"""Stories written by rule, with the words that can only be right if a reader looked back.

The rule of the pronouns: he, she, it and they stand for the subject with which the sentence began, or the sentence
before. The rule of the verbs: they agree with the subject's own noun, whatever stands between.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from attnviz.training.recipe import Dice, is_held_out

_TABLES = tomllib.loads(Path(__file__).with_name("story.toml").read_text(encoding="utf-8"))
LONGEST = 40
"""Words of a story at most."""


@dataclass(frozen=True)
class Noun:
    """Word or name, the pronoun that stands for it, and its group: "people", "animals", "things" or "places"."""

    word: str
    pronoun: str
    group: str
    named: bool = False

    @property
    def plural(self) -> bool:
        return self.pronoun == "they"


@dataclass(frozen=True)
class Verb:
    """Forms of a verb: they sit, it sits, it sat; and they sat, where that is another word."""

    many: str
    single: str
    past: str
    past_many: str = ""

    def form(self, plural: bool, past: bool) -> str:
        if past:
            return self.past_many if plural and self.past_many else self.past
        return self.many if plural else self.single


def _nouns(group: str) -> tuple[Noun, ...]:
    """Split "box/boxes" into a singular and a plural noun."""
    return tuple(
        Noun(word, number, group)
        for pronoun, text in _TABLES["nouns"][group].items()
        for pair in text.split()
        for word, number in zip(pair.split("/"), (pronoun, "they"), strict=True)
    )


def _verbs(text: str) -> tuple[Verb, ...]:
    return tuple(Verb(*forms.split("/")) for forms in text.split())


def _table(name: str) -> dict[str, list[str]]:
    return {key: text.split() for key, text in _TABLES[name].items()}


POSSESSIVES, REFLEXIVES = _TABLES["possessives"], _TABLES["reflexives"]
PRONOUNS = tuple(POSSESSIVES)
NAMES = tuple(Noun(name, key, "people", named=True) for key, names in _table("names").items() for name in names)
NOUNS = (*_nouns("people"), *_nouns("animals"), *_nouns("things"))
PLACES = _nouns("places")
STANDING, MEETINGS, DOWN, ADVERBS = (_TABLES[name].split() for name in ("standing", "meetings", "down", "adverbs"))
JOINS = _TABLES["joins"]
WHERE, BELONGING, QUALITIES, ADJECTIVES = map(_table, ("where", "belonging", "qualities", "adjectives"))
BE, HAVE, GO, MEET, GIVE, FIND, LOSE = _verbs(" ".join(_TABLES["verbs"].values()))
MOVES, OWN_MOVES, DEEDS = (
    {key: _verbs(text) for key, text in _TABLES[name].items()} for name in ("moves", "own_moves", "deeds")
)
VERBS = (BE, HAVE, GO, MEET, GIVE, FIND, LOSE)
VERBS += tuple(verb for table in (MOVES, OWN_MOVES, DEEDS) for verbs in table.values() for verb in verbs)
_OFTEN = ("he", "she", "it", "it", "it", "they", "they", "they", "they")
"""Pronouns of the subjects, as often as they are drawn: singular and plural come alike."""
_CLUES = {*PRONOUNS, *POSSESSIVES.values(), *REFLEXIVES.values()}
_SINGULAR_NOUNS = {noun.word: noun for noun in (*NOUNS, *PLACES) if not noun.plural}
_PLURAL = dict(zip(NOUNS[::2] + PLACES[::2], NOUNS[1::2] + PLACES[1::2], strict=True))
_SINGULAR = {many: single for single, many in _PLURAL.items()}
_NAMED = {name.word for name in NAMES}


def vocabulary() -> tuple[str, ...]:
    """List every word that a story may hold, sorted: those of the tables, and small words of the rules."""

    def words(table: Any) -> set[str]:
        parts = table.values() if isinstance(table, dict) else table
        if isinstance(table, str):
            return set(table.replace("/", " ").split())
        return {word for part in parts for word in words(part)}

    return tuple(sorted(words(_TABLES) | {*PRONOUNS, *"a an the and that then to down home with mirror .".split()}))


@dataclass(frozen=True)
class HardWord:
    """Word of a story that can only be right if the model looked back.

    Attributes:
        kind: "pronoun", "verb" or "name".
        position: index of the word in the story.
        wrong: words in its place that would be wrong: the other pronouns, the verb's other form, the other names.
        source: positions of the words that it agrees with: a noun, two names joined by "and", or a repeated name.
        opening: text from the beginning of the subject's sentence to the word before.
    """

    kind: str
    position: int
    wrong: tuple[str, ...]
    source: tuple[int, ...]
    opening: str


@dataclass(frozen=True)
class Story:
    """Words of a story, in lower case and with punctuation marks as words of their own."""

    words: tuple[str, ...]
    tested: tuple[HardWord, ...]

    @property
    def held_out(self) -> bool:
        """Whether an opening is kept for measuring, as one in ten is: no model is trained on it."""
        return any(is_held_out(test.opening) for test in self.tested)

    @property
    def text(self) -> str:
        """Text as a person would write it."""
        text, begins = "", True
        for word in self.words:
            text += "" if not text or word in ".," else " "
            text += word.capitalize() if begins or word in _NAMED else word
            begins = word == "."
        return text


def stories(generator: Random, *, held_out: bool) -> Iterator[Story]:
    """Write stories without end, all held out or all for training."""
    while True:
        story = Writer(generator).story()
        if story is not None and story.held_out == held_out:
            yield story


@dataclass(frozen=True)
class _Subject:
    """Person or thing that a sentence is about, its positions in the story, and where its sentence begins."""

    noun: Noun
    source: tuple[int, ...]
    begins: int

    @property
    def kind(self) -> str:
        """Its noun in the singular."""
        return _SINGULAR.get(self.noun, self.noun).word


class Writer(Dice):
    """Writer of one story.

    Attributes:
        words: words of the story so far.
        nouns: nouns so far, with their positions.
        tested: words so far that agree with a subject.
        past: whether the story is told in the past tense.
    """

    def __init__(self, generator: Random, *, past: bool = False):
        super().__init__(generator)
        self.words: list[str] = []
        self.nouns: list[tuple[int, Noun]] = []
        self.tested: list[HardWord] = []
        self.past = past

    def say(self, *phrases: str) -> None:
        self.words += [word for phrase in phrases for word in phrase.split()]

    def story(self) -> Story | None:
        """Write the story; None if it has become too long."""
        self.past = self.chance(0.5)
        subject = self.giving() if self.chance(0.12) else self.sentence()
        for _ in range(self.choose((0, 0, 0, 1, 1, 2, 3))):
            kind = self.random()
            if kind < 0.5:
                self.say("then" if self.chance(0.15) else "")
                self.clause(subject)
                self.say(".")
            else:
                subject = self.sentence(subject.noun if kind < 0.65 and subject.noun.named else None)
        if self.chance(0.08):
            self.words.pop()
        return Story(tuple(self.words), tuple(self.tested)) if len(self.words) <= LONGEST else None

    def sentence(self, noun: Noun | None = None) -> _Subject:
        """Write a subject, what it does, and often why."""
        subject = self.subject(noun)
        self.predicate(subject)
        if self.chance(0.55):
            self.say(self.choose(JOINS))
            if self.chance(0.85):
                self.clause(subject)
            else:
                self.predicate(self.subject(other=subject.noun.pronoun))
        self.say(".")
        return subject

    def clause(self, subject: _Subject) -> None:
        """Write the subject's pronoun and a predicate."""
        right = subject.noun.pronoun
        if self.misleading(subject).pronoun != right:
            self.test("pronoun", tuple(pronoun for pronoun in PRONOUNS if pronoun != right), subject)
        self.say(right)
        self.predicate(subject)

    def giving(self) -> _Subject:
        """Write of two people somewhere; one gives something to the other, whose name must come again."""
        begins, people = len(self.words), self.two_names()
        together = self.chance(0.5)
        first = self.name(people[0])
        self.say("and" if together else MEET.form(False, self.past))
        sources = first, self.name(people[1])
        self.say(f"{GO.form(True, self.past)} to" if together else "in")
        self.noun_phrase(_SINGULAR_NOUNS[self.choose(MEETINGS)])
        self.say(".")
        giver, taker = (0, 1) if self.chance(0.5) else (1, 0)
        start = len(self.words)
        subject = _Subject(people[giver], (self.name(people[giver]),), start)
        self.say(GIVE.form(False, self.past))
        self.noun_phrase(self.choose([noun for noun in NOUNS if noun.group == "things"]))
        self.say("to")
        wrong = tuple(name.word for name in NAMES if name != people[taker])
        self.test("name", wrong, _Subject(people[taker], (sources[taker],), begins))
        self.name(people[taker])
        if self.chance(0.5):
            self.say(self.choose(JOINS))
            self.clause(subject)
        self.say(".")
        return subject

    def subject(self, noun: Noun | None = None, other: str | None = None) -> _Subject:
        """Write a subject; `other` is a pronoun that must not stand for it."""
        begins, kind = len(self.words), self.random()
        if noun is None and other != "they" and kind < 0.08:
            people = self.two_names()
            start = self.name(people[0])
            self.say("and")
            return _Subject(Noun("", "they", "people"), (start, start + 1, self.name(people[1])), begins)
        if noun is None and kind < 0.38:
            noun = self.choose([name for name in NAMES if name.pronoun != other])
        if noun is not None:
            return _Subject(noun, (self.name(noun),), begins)
        pronoun = self.choose([pronoun for pronoun in _OFTEN if pronoun != other])
        noun = self.choose([noun for noun in NOUNS if noun.pronoun == pronoun])
        subject = _Subject(noun, (self.noun_phrase(noun),), begins)
        if self.chance(0.65):
            self.modifier(subject)
        return subject

    def modifier(self, subject: _Subject) -> None:
        """Write something between a subject and its verb, mostly of the other number."""
        plural = subject.noun.plural == self.chance(0.2)
        if subject.noun.group != "people" and self.chance(0.2):
            self.say("that")
            people = [noun for noun in NOUNS if noun.plural == plural and noun.group == "people"]
            self.either(self.choose([*people, *(() if plural else NAMES[::2])]))
            self.say(self.choose(DEEDS["people"]).form(plural, self.past))
        elif subject.kind in BELONGING and self.chance(0.65):
            preposition, *nouns = BELONGING[subject.kind]
            single = _SINGULAR_NOUNS[self.choose(nouns)]
            self.say(preposition)
            self.noun_phrase(_PLURAL[single] if plural else single)
        else:
            self.say(self.choose(("near", "behind", "beside")))
            self.noun_phrase(self.choose([noun for noun in (*NOUNS, *PLACES) if noun.plural == plural]))

    def predicate(self, subject: _Subject) -> None:
        """Write what a subject is, has or does."""
        group, kind = subject.noun.group, self.random()
        if kind < 0.3:
            self.verb(BE, subject)
            self.say(self.choose(QUALITIES[group]))
        elif kind < 0.42:
            self.verb(BE, subject)
            self.place(subject)
        elif kind < 0.68 or group == "things":
            verb = self.choose((*MOVES[group], *OWN_MOVES.get(subject.kind, ()) * 4))
            self.verb(verb, subject)
            self.manner(verb, subject)
        elif kind < 0.78 and group == "people":
            self.verb(HAVE, subject)
            things = [noun for noun in NOUNS if noun.group != "people" and not noun.plural]
            self.noun_phrase(self.choose(things), definite=False)
        elif kind < 0.84:
            self.verb(self.choose((LOSE, FIND)), subject)
            self.say(POSSESSIVES[subject.noun.pronoun])
            self.name(self.choose([noun for noun in NOUNS if noun.group == "things"]))
        elif kind < 0.86:
            self.verb(DEEDS[group][0], subject)
            self.say(REFLEXIVES[subject.noun.pronoun], "in the mirror")
        else:
            self.verb(self.choose(DEEDS[group]), subject)
            self.object(subject)
            if self.chance(0.35):
                self.place(subject)

    def manner(self, verb: Verb, subject: _Subject) -> None:
        """Write where or how something is done, or nothing."""
        kind = self.random()
        if kind < 0.6:
            self.place(subject)
        elif kind < 0.72 and verb.many in DOWN:
            self.say("down")
        elif kind < 0.72 and verb.many in ("run", "walk"):
            self.say("home")
        elif kind < 0.85:
            self.say(self.choose(ADVERBS))

    def place(self, subject: _Subject) -> None:
        """Write a place; often of a number that the subject has not, so that its noun misleads."""
        if self.chance(0.25):
            self.say(self.choose(("near", "behind", "beside")))
            self.object(subject)
            return
        plural = subject.noun.pronoun == "it" if self.chance(0.6) else self.chance(0.2)
        noun = self.choose([noun for noun in PLACES if noun.plural == plural])
        self.say(self.choose(WHERE.get(_SINGULAR.get(noun, noun).word, STANDING)))
        self.noun_phrase(noun)

    def object(self, subject: _Subject) -> None:
        """Write another person or thing, mostly with another pronoun than the subject's."""
        pronoun = subject.noun.pronoun
        if not self.chance(0.15):
            pronoun = self.choose([other for other in PRONOUNS if other != pronoun])
        before = {word for _, noun in self.nouns for word in (noun.word, _SINGULAR.get(noun, noun).word)}
        names, nouns = (
            [noun for noun in group if noun.pronoun == pronoun and noun.word not in before] for group in (NAMES, NOUNS)
        )
        self.either(self.choose(names if names and self.chance(0.4) else nouns))

    def verb(self, verb: Verb, subject: _Subject) -> None:
        """Write a verb that agrees; it is tested if the noun before it has the other number."""
        plural = subject.noun.plural
        right, wrong = verb.form(plural, self.past), verb.form(not plural, self.past)
        if right != wrong and self.misleading(subject).plural != plural:
            self.test("verb", (wrong,), subject)
        self.say(right)

    def misleading(self, subject: _Subject) -> Noun:
        """Find the noun that stands nearest; the subject's own if a word since then gives away its pronoun."""
        position, noun = self.nouns[-1]
        is_nearer = position > subject.source[-1] and _CLUES.isdisjoint(self.words[subject.source[-1] :])
        return noun if is_nearer else subject.noun

    def test(self, kind: str, wrong: tuple[str, ...], subject: _Subject) -> None:
        opening = " ".join(self.words[subject.begins :])
        self.tested.append(HardWord(kind, len(self.words), wrong, subject.source, opening))

    def either(self, noun: Noun) -> int:
        return self.name(noun) if noun.named else self.noun_phrase(noun)

    def noun_phrase(self, noun: Noun, *, definite: bool = True) -> int:
        """Write an article, perhaps an adjective, and a noun; return the position of the noun."""
        adjective = self.choose(ADJECTIVES[noun.group]) if self.chance(0.2) else ""
        article = "an" if (adjective or noun.word)[0] in "aeiou" else "a"
        self.say("the" if definite else article, adjective)
        return self.name(noun)

    def name(self, noun: Noun) -> int:
        """Write a noun without an article; return its position."""
        self.nouns.append((len(self.words), noun))
        self.say(noun.word)
        return len(self.words) - 1

    def two_names(self) -> tuple[Noun, Noun]:
        first = self.choose(NAMES)
        return first, self.choose([name for name in NAMES if name != first])
