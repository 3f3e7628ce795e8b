"""Stories written by rule: who does what, and which word must agree with which, said by the grammar itself.

The rule of the pronouns: he, she, it and they stand for the subject with which the sentence began, or the sentence
before. The rule of the verbs: they agree with the subject's own noun, whatever stands between.
"""

from dataclasses import dataclass, field
from typing import Any

from attnviz.training.story import words as w
from attnviz.training.story.told import Story, Tested
from attnviz.training.story.words import Noun, Verb

LONGEST = 40
"""No story has more words than this."""

_AMONG = ("he", "she", "it", "it", "it", "they", "they", "they", "they")
"""The pronouns of the nouns, as often as they are drawn: many things are told of as often as one."""

_CLUES = {*w.PRONOUNS, *w.POSSESSIVES.values(), *w.REFLEXIVES.values()}
_ONE = {noun.word: noun for noun in (*w.NOUNS, *w.PLACES) if not noun.plural}
_PAIRS = dict(zip(w.NOUNS[::2] + w.PLACES[::2], w.NOUNS[1::2] + w.PLACES[1::2], strict=True))
_SINGULAR = {many: one for one, many in _PAIRS.items()}


@dataclass(frozen=True)
class _Subject:
    """Whom a sentence is about, where it stands in the story, and how."""

    noun: Noun
    source: tuple[int, ...]
    begins: int

    @property
    def kind(self) -> Noun:
        """The noun for one of these."""
        return _SINGULAR.get(self.noun, self.noun)


@dataclass
class Writer:
    """One story while it is written. `nouns` are the nouns so far and where they stand."""

    chance: Any
    words: list[str] = field(default_factory=list)
    nouns: list[tuple[int, Noun]] = field(default_factory=list)
    tested: list[Tested] = field(default_factory=list)
    past: bool = False

    def story(self) -> Story | None:
        """One story, or None if it has become too long."""
        self.past = self.maybe(0.5)
        subject = self.giving() if self.maybe(0.12) else self.sentence()
        for _ in range(self.among((0, 0, 0, 1, 1, 2, 3))):
            how = self.chance()
            if how < 0.5:
                self.say("then" if self.maybe(0.15) else "")
                self.pronoun(subject)
                self.predicate(subject)
                self.say(".")
            elif how < 0.65 and subject.noun.named:
                subject = self.sentence(subject.noun)
            else:
                subject = self.sentence()
        if self.maybe(0.08):
            self.words.pop()
        return Story(tuple(self.words), tuple(self.tested)) if len(self.words) <= LONGEST else None

    def sentence(self, noun: Noun | None = None) -> _Subject:
        """A subject, what it does, and often why."""
        subject = self.subject(noun)
        self.predicate(subject)
        if self.maybe(0.55):
            self.say(self.among(w.JOINS))
            if self.maybe(0.85):
                self.pronoun(subject)
                self.predicate(subject)
            else:
                self.predicate(self.subject(other=subject.noun.pronoun))
        self.say(".")
        return subject

    def giving(self) -> _Subject:
        """Two people are somewhere; one gives something to the other, whose name must come again."""
        begins, (one, other) = len(self.words), self.two_names()
        if self.maybe(0.5):
            sources = self.name(one), (self.say("and") or self.name(other))
            self.say(w.GO.form(True, self.past), "to")
        else:
            sources = self.name(one), (self.say(w.MEET.form(False, self.past)) or self.name(other))
            self.say("in")
        self.noun_phrase(_ONE[self.among(w.MEETINGS)])
        self.say(".")
        giver, taker = (0, 1) if self.maybe(0.5) else (1, 0)
        pair, start = (one, other), len(self.words)
        subject = _Subject(pair[giver], (self.name(pair[giver]),), start)
        self.say(w.GIVE.form(False, self.past))
        self.noun_phrase(self.among([noun for noun in w.NOUNS if noun.group == "things"]))
        self.say("to")
        wrong = tuple(name.word for name in w.NAMES if name != pair[taker])
        self.test("name", wrong, _Subject(pair[taker], (sources[taker],), begins))
        self.name(pair[taker])
        if self.maybe(0.5):
            self.say(self.among(w.JOINS))
            self.pronoun(subject)
            self.predicate(subject)
        self.say(".")
        return subject

    def subject(self, noun: Noun | None = None, other: str | None = None) -> _Subject:
        """Someone or something to tell of; `other` is a pronoun that must not stand for it."""
        begins, kind = len(self.words), self.chance()
        if noun is None and other != "they" and kind < 0.08:
            one, two = self.two_names()
            source = self.name(one), self.say("and") or len(self.words) - 1, self.name(two)
            return _Subject(Noun("", "they", "people"), source, begins)
        if noun is None and kind < 0.38:
            noun = self.among([name for name in w.NAMES if name.pronoun != other])
        if noun is not None:
            return _Subject(noun, (self.name(noun),), begins)
        pronoun = self.among([p for p in _AMONG if p != other])
        noun = self.among([noun for noun in w.NOUNS if noun.pronoun == pronoun])
        subject = _Subject(noun, (self.noun_phrase(noun),), begins)
        if self.maybe(0.65):
            self.modifier(subject)
        return subject

    def modifier(self, subject: _Subject) -> None:
        """Something between a subject and its verb, mostly of the other number."""
        plural = subject.noun.plural == self.maybe(0.2)
        if subject.noun.group != "people" and self.maybe(0.2):
            people = [n for n in w.NOUNS if n.plural == plural and n.group == "people"]
            self.say("that")
            noun = self.among([*people, *(w.NAMES[::2] if not plural else ())])
            self.name(noun) if noun.named else self.noun_phrase(noun)
            self.say(self.among(w.DEEDS["people"]).form(plural, self.past))
        elif subject.kind.word in w.BELONGING and self.maybe(0.65):
            preposition, *nouns = w.BELONGING[subject.kind.word]
            one = _ONE[self.among(nouns)]
            self.say(preposition)
            self.noun_phrase(_PAIRS[one] if plural else one)
        else:
            self.say(self.among(("near", "behind", "beside")))
            self.noun_phrase(self.among([n for n in (*w.NOUNS, *w.PLACES) if n.plural == plural]))

    def predicate(self, subject: _Subject) -> None:
        """Predicate of a subject: what it is, has or does."""
        group, kind = subject.noun.group, self.chance()
        if kind < 0.3:
            self.verb(w.BE, subject)
            self.say(self.among(w.QUALITIES[group]))
        elif kind < 0.42:
            self.verb(w.BE, subject)
            self.place(subject)
        elif kind < 0.68 or group == "things":
            own = w.OWN_MOVES.get(subject.kind.word, ())
            verb = self.among((*w.MOVES[group], *own, *own, *own, *own))
            self.verb(verb, subject)
            self.manner(verb, subject)
        elif kind < 0.78 and group == "people":
            self.verb(w.HAVE, subject)
            self.noun_phrase(self.among([n for n in w.NOUNS if n.group != "people" and not n.plural]), a=True)
        elif kind < 0.84:
            self.verb(self.among((w.LOSE, w.FIND)), subject)
            self.say(w.POSSESSIVES[subject.noun.pronoun])
            self.bare(self.among([n for n in w.NOUNS if n.group == "things"]))
        elif kind < 0.86:
            self.verb(w.DEEDS[group][0], subject)
            self.say(w.REFLEXIVES[subject.noun.pronoun], "in", "the", "mirror")
        else:
            self.verb(self.among(w.DEEDS[group]), subject)
            self.object(subject)
            if self.maybe(0.35):
                self.place(subject)

    def manner(self, verb: Verb, subject: _Subject) -> None:
        """Manner: where or how something is done; empty if nobody says it."""
        how = self.chance()
        if how < 0.6:
            self.place(subject)
        elif how < 0.72 and verb.many in w.DOWN:
            self.say("down")
        elif how < 0.72 and verb.many in ("run", "walk"):
            self.say("home")
        elif how < 0.85:
            self.say(self.among(w.ADVERBS))

    def place(self, subject: _Subject) -> None:
        """A place; often of a number that the subject has not, so that its noun misleads."""
        if self.maybe(0.25):
            self.say(self.among(("near", "behind", "beside")))
            self.object(subject)
            return
        plural = subject.noun.pronoun == "it" if self.maybe(0.6) else self.maybe(0.2)
        noun = self.among([n for n in w.PLACES if n.plural == plural])
        self.say(self.among(w.WHERE.get(_SINGULAR.get(noun, noun).word, w.STANDING)))
        self.noun_phrase(noun)

    def object(self, subject: _Subject) -> None:
        """Someone or something else, mostly with another pronoun than the subject's."""
        pronoun = subject.noun.pronoun if self.maybe(0.15) else None
        pronoun = pronoun or self.among([p for p in w.PRONOUNS if p != subject.noun.pronoun])
        said = {word for _, noun in self.nouns for word in (noun.word, _SINGULAR.get(noun, noun).word)}
        names = [n for n in w.NAMES if n.pronoun == pronoun and n.word not in said]
        if names and self.maybe(0.4):
            self.name(self.among(names))
        else:
            self.noun_phrase(self.among([n for n in w.NOUNS if n.pronoun == pronoun and n.word not in said]))

    def verb(self, verb: Verb, subject: _Subject) -> None:
        """A verb that agrees; it is tested if the noun before it has the other number."""
        right, wrong = (verb.form(plural, self.past) for plural in (subject.noun.plural, not subject.noun.plural))
        last, noun = self.nouns[-1]
        if (
            right != wrong
            and last > subject.source[-1]
            and noun.plural != subject.noun.plural
            and not self.clue(subject)
        ):
            self.test("verb", (wrong,), subject)
        self.say(right)

    def pronoun(self, subject: _Subject) -> None:
        """The subject's pronoun; it is tested if the noun before it has another one."""
        right = subject.noun.pronoun
        last, noun = self.nouns[-1]
        if last > subject.source[-1] and noun.pronoun != right and not self.clue(subject):
            self.test("pronoun", tuple(p for p in w.PRONOUNS if p != right), subject)
        self.say(right)

    def clue(self, subject: _Subject) -> bool:
        """Whether some word since the subject's noun gives away its pronoun."""
        return not _CLUES.isdisjoint(self.words[subject.source[-1] :])

    def test(self, kind: str, wrong: tuple[str, ...], subject: _Subject) -> None:
        opening = " ".join(self.words[subject.begins :])
        self.tested.append(Tested(kind, len(self.words), wrong, subject.source, opening))

    def noun_phrase(self, noun: Noun, *, a: bool = False) -> int:
        """An article, perhaps an adjective, and a noun; says where the noun stands."""
        adjective = self.among(w.ADJECTIVES[noun.group]) if self.maybe(0.2) else ""
        first = adjective or noun.word
        self.say(("an" if first[0] in "aeiou" else "a") if a else "the", adjective)
        return self.bare(noun)

    def bare(self, noun: Noun) -> int:
        self.nouns.append((len(self.words), noun))
        self.say(noun.word)
        return len(self.words) - 1

    name = bare

    def two_names(self) -> tuple[Noun, Noun]:
        one = self.among(w.NAMES)
        return one, self.among([name for name in w.NAMES if name != one])

    def say(self, *phrases: str) -> None:
        self.words += [word for phrase in phrases for word in phrase.split()]

    def among(self, choices: Any) -> Any:
        return choices[int(self.chance() * len(choices))]

    def maybe(self, share: float) -> bool:
        return self.chance() < share
