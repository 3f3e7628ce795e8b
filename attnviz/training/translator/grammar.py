"""English sentences with their French translations and the alignment of the words, drawn at random by rule."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from attnviz.training import harness
from attnviz.training.translator import lexicon
from attnviz.training.translator.lexicon import Adjective, Noun, Verb, nouns
from attnviz.training.translator.phrases import Pair, Person, Phrase, noun_phrase, pair, say
from attnviz.training.translator.verbs import Manner, be, pronoun, verb_phrase

LONGEST = 30
"""Words of a sentence at most, in either language."""

LIVING = "people animals"
LIFELESS = "texts clothes openings vehicles things furniture ways places"
ALL = " ".join(lexicon.NOUNS)
DETERMINERS = ("the", "the", "the", "the", "a", "a", "this", "my", "your", "his", "her", "our", "their")
TOWARD = (*("alone",) * 3, "moves", "goes", "gives", *(kind for kind in lexicon.VERB_LISTS if kind.startswith("on ")))
"""Kinds of verbs; one named more often is drawn more often."""


def is_held_out(made: Pair) -> bool:
    """Whether a sentence is for measuring only; with and without its full stop alike."""
    return harness.is_held_out(made.text.removesuffix(".").lower())


def draw_pair(draw: random.Random, *, held_out: bool) -> Pair:
    """A sentence of at most LONGEST words, held out or for training."""
    while True:
        made = pair(_Draw(draw).sentence())
        if max(len(made.english), len(made.french)) <= LONGEST and is_held_out(made) == held_out:
            return made


@dataclass(frozen=True)
class Nominal:
    """A noun with what belongs to it; `person` is what a verb after it agrees with."""

    said: Phrase
    noun: Noun
    person: Person
    clear: bool = True
    """Whether no second noun is in it, so that "it" can only mean the first."""

    @property
    def thing(self) -> Person | None:
        """Noun that "it" stands for where something is wide, or None."""
        return self.person if self.clear and not self.person.living and not self.person.plural else None


class _Draw:
    """Random phrases. Only `Random.random` is used: Python promises its numbers in every version."""

    def __init__(self, draw: random.Random):
        self._random = draw.random

    def among(self, choices: Sequence):
        return choices[int(self._random() * len(choices))]

    def chance(self, share: float) -> bool:
        return self._random() < share

    def sentence(self) -> Phrase:
        kinds = (self.fragment, self.there_is, *(self.simple,) * 5, *(self.joined,) * 2, *(self.because,) * 3)
        said = self.among(kinds)()
        return said + say(".", ".", "punctuation") if self.chance(0.5) else said

    def fragment(self) -> Phrase:
        said = self.nominal(ALL).said
        return said + self.place().said if self.chance(0.25) else said

    def there_is(self) -> Phrase:
        """There is a cat in the garden: il y a un chat dans le jardin."""
        plural = self.chance(0.4)
        noun = self.among([noun for noun in nouns(ALL) if noun.counted])
        number = self.among([*lexicon.NUMBERS]) if plural and self.chance(0.5) else ""
        determiner = "" if number else "some" if plural else "a"
        some = noun_phrase(noun, determiner, plural=plural, number=number, adjectives=self.adjectives(noun))
        there = say("there", "il y", "pronoun") + say("are" if plural else "is", "a", "verb")
        return there + some + self.place().said

    def simple(self) -> Phrase:
        return self.clause()[0]

    def joined(self) -> Phrase:
        join = self.among([*lexicon.JOINS])
        two = self.clause(short=True)[0], self.clause(short=True)[0]
        return two[0] + say(join, lexicon.JOINS[join], "conjunction") + two[1]

    def because(self) -> Phrase:
        """Because it was tired: the pronoun agrees with the noun that can be tired, or wide."""
        said, who, thing = self.clause(short=True)
        if thing and self.chance(0.5):
            who = thing
        join = self.among(("because", "because", "but"))
        kinds = "feeling" if who.living else "property"
        return said + say(join, lexicon.JOINS[join], "conjunction") + pronoun(who) + self.quality(who, kinds)

    def clause(self, *, short: bool = False) -> tuple[Phrase, Person, Person | None]:
        """A clause, its subject, and the lifeless thing in it that "it" may stand for, if there is one alone."""
        if self.chance(0.15):
            return *self.copula(), None
        subject, person = self.subject()
        kind = self.among(TOWARD)
        verb = self.among(lexicon.VERB_LISTS[kind])
        manner = self.manner(verb, person)
        said = subject + verb_phrase(verb, person, manner)
        if manner.object:
            return said, person, None
        rest, thing = self.objects(kind, verb, denied=manner.negation != "")
        if self.chance(0.45 if kind in ("alone", "moves") else 0.0 if short else 0.15):
            place = self.place()
            rest, thing = rest + place.said, None if thing else place.thing
        elif not short and self.chance(0.08):
            day = "yesterday" if manner.tense in ("past", "imperfect") else "today"
            rest += say(day, lexicon.ADVERBS[day], "adverb")
        return said + rest, person, thing

    def objects(self, kind: str, verb: Verb, *, denied: bool) -> tuple[Phrase, Person | None]:
        """Object that follows a verb at once, and the lifeless thing in it."""
        if verb.objects:
            seen = self.nominal(" ".join(verb.objects), denied=denied)
            return seen.said, seen.thing
        if kind == "gives":
            given = self.nominal("texts clothes things food", denied=denied)
            to = self.nominal(LIVING, some=False)
            return given.said + say("to", "à", "preposition") + to.said, given.thing
        if kind == "goes":
            there = self.nominal(lexicon.DESTINATIONS, plain=True)
            return say("to", "à", "preposition") + there.said, there.thing
        if self.chance(0.15):
            adverb = self.among(("slowly", "quickly", "here"))
            return say(adverb, lexicon.ADVERBS[adverb], "adverb"), None
        return Phrase(), None

    def copula(self) -> tuple[Phrase, Person]:
        """The cat is black, the door was not closed."""
        if self.chance(0.5):
            subject, person = self.subject()
            kinds = "size color" if person.pronoun == "it" and self.chance(0.3) else "size feeling"
            return subject + self.quality(person, kinds), person
        thing = self.nominal(LIFELESS, count=self.chance(0.25))
        return thing.said + self.quality(thing.person, "size color property access"), thing.person

    def quality(self, person: Person, kinds: str) -> Phrase:
        """Is very tired, wasn't big."""
        adjective = self.among([a for a in lexicon.ADJECTIVE_LIST if a.kind in kinds.split()])
        negation = self.among(("", "", "", "", "not", "n't"))
        tense = self.among(("present", "imperfect"))
        if (negation, tense, person.form) == ("n't", "present", 0):
            negation = "not"
        said = be(person, tense, negation)
        if adjective.kind != "color" and self.chance(0.5):
            more = self.among(("very", "too"))
            said += say(more, lexicon.ADVERBS[more], "adverb")
        return said + say(adjective.english, adjective.agreed(person.gender, person.plural), "adjective")

    def subject(self) -> tuple[Phrase, Person]:
        if self.chance(0.3):
            english = self.among([*lexicon.PRONOUNS])
            written, _, form, gender = lexicon.PRONOUNS[english]
            return say(english, written, "pronoun"), Person(form, gender, english)
        if self.chance(0.12):
            name = self.among([*lexicon.NAMES])
            gender = lexicon.NAMES[name]
            return say(name, name, "name"), Person(2, gender, _he_or_she(gender))
        if self.chance(0.06):
            return self.both()
        one = self.nominal(LIVING, count=self.chance(0.28))
        return one.said, one.person

    def both(self) -> tuple[Phrase, Person]:
        """The cat and the dog: masculine unless both are feminine."""
        one, other = (self.nominal(LIVING, plain=True) for _ in range(2))
        gender = "f" if one.noun.gender == other.noun.gender == "f" else "m"
        return one.said + say("and", "et", "conjunction") + other.said, Person(4, gender, "they")

    def manner(self, verb: Verb, person: Person) -> Manner:
        _, past, ing = verb.english
        tenses = ["present"] * 3 + ["past"] * 4 * bool(past) + ["progressive", "imperfect"] * bool(ing)
        tense = self.among([*tenses, *lexicon.MODALS])
        negation = self.among(("", "", "", "", "", "not", "n't", "never"))
        shortened = tense == "progressive" and person.form == 0 and negation == "n't"
        if shortened or (negation == "never" and tense in ("progressive", "imperfect")):
            negation = "not"
        adverb = self.among(("often", "always")) if tense in ("present", "past") and self.chance(0.12) else ""
        target = ""
        if {"people", "animals"} <= set(verb.objects) and tense != "past" and self.chance(0.25):
            forms = {word: lexicon.PRONOUNS[of][2] for word, of in lexicon.OBJECTS.items()}
            target = self.among([word for word, form in forms.items() if form != person.form or form in (2, 4)])
        return Manner(tense, negation, "" if negation else adverb, target)

    def nominal(
        self, kinds: str, *, count: bool | None = None, denied: bool = False, some: bool = True, plain: bool = False
    ) -> Nominal:
        """A noun of some kinds with its determiner and adjectives.

        Args:
            count: whether it is plural; None leaves it to chance.
            denied: as the object of a negated verb, where "some" does not stand.
            some: whether it may be indefinite and plural.
            plain: singular, with "the", "this" or a possessive.
        """
        noun = self.among(nouns(kinds))
        counted = noun.counted and not plain
        plural = counted and (self.chance(0.22) if count is None else count)
        determiner, number = self.determiner(counted), ""
        if plural:
            determiner, number = self.plural_determiner(some and not denied)
        adjectives = () if plain and self.chance(0.6) else self.adjectives(noun)
        said = noun_phrase(noun, determiner, plural=plural, number=number, adjectives=adjectives, denied=denied)
        pronoun = "they" if plural else _he_or_she(noun.gender) if noun.kind == "people" else "it"
        word = next(piece.source[0] for piece in said.french if piece.role == "noun")
        person = Person(4 if plural else 2, noun.gender, pronoun, noun.living, word)
        if noun.kind in ("openings", "things", "furniture") and determiner == "the" and not plain and self.chance(0.25):
            owner = self.nominal(f"{LIVING} places", plain=True).said
            return Nominal(said + say("of", "de", "preposition") + owner, noun, person, clear=False)
        return Nominal(said, noun, person)

    def determiner(self, counted: bool) -> str:
        return self.among([word for word in DETERMINERS if counted or word != "a"])

    def plural_determiner(self, some: bool) -> tuple[str, str]:
        """Such as "these", and a number or nothing."""
        definite = [word for word in DETERMINERS if word not in ("a", "this")]
        determiner = self.among((*definite, "these", *(["some"] if some else []), "", ""))
        if not determiner or (determiner != "some" and self.chance(0.15)):
            return determiner, self.among([*lexicon.NUMBERS])
        return determiner, ""

    def adjectives(self, noun: Noun) -> tuple[Adjective, ...]:
        """None, or one that stands before a French noun, or one that stands after it, or both in this order."""
        fit = {kind: [a for a in lexicon.ADJECTIVE_LIST if a.kind == kind] for kind in lexicon.ADJECTIVES}
        kinds = lexicon.ATTRIBUTES[noun.kind].split()
        before = self.among(fit[self.among([kind for kind in kinds if kind in lexicon.BEFORE])])
        after = self.among(fit[self.among([kind for kind in kinds if kind not in lexicon.BEFORE])])
        return self.among(((), (), (), (before,), (after,), (after,), (before, after)))

    def place(self) -> Nominal:
        """On the red chair, in front of the house."""
        english = self.among(("on", "on", "in", "in", "under", "behind", "in front of", "near", "with"))
        written, kinds = lexicon.PREPOSITIONS[english]
        there = self.nominal(kinds, some=False, count=self.chance(0.12))
        return Nominal(say(english, written, "preposition") + there.said, there.noun, there.person, there.clear)


def _he_or_she(gender: str) -> str:
    return "she" if gender == "f" else "he"
