"""English sentences with their French translations and the alignment of the words, drawn at random by rule.

A phrase knows for each French word the English words it comes from, so that the alignment is known by construction.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random

from attnviz.training import recipe
from attnviz.training import translator_words as words
from attnviz.training.translator_words import Adjective, Noun, Verb, nouns

LONGEST = 30
"""Words of a sentence at most, in either language."""


@dataclass(eq=False)
class Word:
    """English word of one sentence: two words "the" are two values."""

    text: str


@dataclass(frozen=True)
class Written:
    """French word, the English words it comes from, its part of speech, and the noun that such a pronoun stands for."""

    text: str
    source: tuple[Word, ...]
    role: str
    refers: Word | None = None


@dataclass(frozen=True)
class Phrase:
    """English words, and the French words in their own order."""

    english: tuple[Word, ...] = ()
    french: tuple[Written, ...] = ()

    def __add__(self, other: "Phrase") -> "Phrase":
        return Phrase(self.english + other.english, self.french + other.french)


@dataclass(frozen=True)
class Person:
    """Person or thing that a verb or an adjective agrees with: `form` is its index among je, tu, il, nous, ils.

    Living ones can be tired, others can be wide. The pronoun is English, and so is the noun, if there is one.
    """

    form: int
    gender: str
    pronoun: str
    living: bool = True
    noun: Word | None = None

    @property
    def plural(self) -> bool:
        return self.form > 2


@dataclass(frozen=True)
class Pair:
    """Sentence in both languages.

    Attributes:
        alignment: for each French word, the positions of the English words it comes from; never empty.
        roles: for each French word, its part of speech.
        refers: for each French word, the position of the English noun that it stands for, if it is such a pronoun.
    """

    english: tuple[str, ...]
    french: tuple[str, ...]
    alignment: tuple[frozenset[int], ...]
    roles: tuple[str, ...]
    refers: tuple[int | None, ...]

    @property
    def text(self) -> str:
        """English sentence as a person types it."""
        return " ".join(self.english).replace(" .", ".")

    @property
    def held_out(self) -> bool:
        """Whether it is for measuring only; with and without its full stop alike."""
        return recipe.is_held_out(self.text.removesuffix(".").lower())


def say(english: str, french: str, role: str) -> Phrase:
    """Put words together that belong together: each French word comes from all the English ones."""
    source = tuple(Word(text) for text in english.split())
    return Phrase(source, tuple(Written(text, source, role) for text in french.split()))


def pair(phrase: Phrase) -> Pair:
    """Finish a sentence: contract ("du", "au"), elide ("l'", "n'"), and put positions in the place of words."""
    french: list[Written] = []
    for i, piece in enumerate(phrase.french):
        both = (french[-1].text if french else "", piece.text)
        elides = piece.text == "le" and words.begins_with_vowel(phrase.french[i + 1].text)
        if both in words.CONTRACTED and not elides:
            french[-1] = Written(words.CONTRACTED[both], french[-1].source + piece.source, "article")
        else:
            french.append(piece)
    texts = [piece.text for piece in french]
    for i, after in enumerate(texts[1:]):
        if texts[i] in words.ELIDED and words.begins_with_vowel(after):
            texts[i] = words.ELIDED[texts[i]]
    position = {word: i for i, word in enumerate(phrase.english)}
    return Pair(
        tuple(word.text for word in phrase.english),
        tuple(texts),
        tuple(frozenset(position[word] for word in piece.source) for piece in french),
        tuple(piece.role for piece in french),
        tuple(position[piece.refers] if piece.refers else None for piece in french),
    )


def noun_phrase(
    noun: Noun,
    determiner: str = "the",
    *,
    plural: bool = False,
    number: str = "",
    adjectives: tuple[Adjective, ...] = (),
    denied: bool = False,
) -> Phrase:
    """Build "the small black cat", "le petit chat noir": French adjectives agree, and most follow their noun.

    Args:
        determiner: English word; "" if a number stands alone.
        adjectives: in English order.
        denied: whether it is the object of a negated verb: "a" is then "de".
    """
    parts = []
    if determiner:
        article = words.DETERMINERS[determiner][2 if plural else int(noun.gender == "f")]
        is_described = any(adjective.before for adjective in adjectives)
        if (determiner == "some" and is_described) or (determiner == "a" and denied):
            article = "de"
        parts.append(say(determiner, article, "article"))
    if number:
        parts.append(say(number, words.NUMBERS[number], "number"))
    described = [(word, say(word.english, word.agreed(noun.gender, plural), "adjective")) for word in adjectives]
    head = say(noun.english[plural], noun.french[plural], "noun")
    english = [word for part in (*parts, *(part for _, part in described), head) for word in part.english]
    if english[0].text == "a" and english[1].text[0] in "aeiou":
        english[0].text = "an"
    before, after = ([part for word, part in described if word.before == stands] for stands in (True, False))
    french = [piece for part in (*parts, *before, head, *after) for piece in part.french]
    if not plural:
        for i in range(french.index(head.french[0])):
            if words.begins_with_vowel(french[i + 1].text):
                french[i] = replace(french[i], text=words.BEFORE_VOWEL.get(french[i].text, french[i].text))
    return Phrase(tuple(english), tuple(french))


@dataclass(frozen=True)
class Manner:
    """Tense and company of a verb.

    Attributes:
        tense: "present", "past", "progressive", "imperfect" ("was sleeping"), "can" or "want".
        negation: "", "not", "n't" or "never".
        adverb: "", "often" or "always"; only without a negation.
        object: English object pronoun, or "".
    """

    tense: str = "present"
    negation: str = ""
    adverb: str = ""
    object: str = ""


def verb_phrase(verb: Verb, person: Person, manner: Manner) -> Phrase:
    """Build "does not sleep", "ne dort pas"."""
    lead, auxiliary, form = _english_forms(verb, person, manner)
    helper, adverb, target = (tuple(map(Word, text.split())) for text in (auxiliary, manner.adverb, manner.object))
    meaning = tuple(map(Word, (*lead.split(), form, *verb.particle)))
    alone = manner.negation == "never" or (manner.negation == "not" and manner.tense != "can")
    apart = (Word(manner.negation),) if alone else ()
    pronouns = [Written(words.PRONOUNS[words.OBJECTS[word.text]][1], (word,), "pronoun") for word in target]
    if verb.helper == "se":
        own = meaning[len(lead.split()) :]
        pronouns = [Written(words.REFLEXIVES[person.form], own, "pronoun")]
    finite, *rest = _french_forms(verb, person, manner.tense, helper, meaning)
    conjugated = [*pronouns, finite]
    if manner.tense in words.MODALS:  # pronouns stand before the infinitive
        conjugated, rest = [finite], [*pronouns, *rest]
    does = helper if alone and auxiliary in ("do", "does", "did") else ()
    denies = apart or (helper if manner.negation else ())
    adverbs = [Written(words.ADVERBS[word.text], (word,), "adverb") for word in adverb]
    english = helper + apart + adverb + meaning + target
    return Phrase(english, (*negated(conjugated, manner.negation, does + denies), *adverbs, *rest))


def negated(finite: Sequence[Written], negation: str, source: tuple[Word, ...]) -> tuple[Written, ...]:
    """Put "ne" and "pas" or "jamais" around the conjugated verb and the pronouns before it."""
    if not negation:
        return tuple(finite)
    second = "jamais" if negation == "never" else "pas"
    return Written("ne", source, "negation"), *finite, Written(second, source[-1:], "negation")


def _english_forms(verb: Verb, person: Person, manner: Manner) -> tuple[str, str, str]:
    """Choose the words before the verb ("want to"), its auxiliary, and its own form."""
    base, past, ing = verb.english
    tense, third = manner.tense, person.form == 2
    is_negated = manner.negation in ("not", "n't")
    lead, auxiliary, form = "", ("does" if third else "do") if is_negated else "", base
    if tense == "present" and third and not is_negated:
        form = words.english_s(base)
    elif tense == "past":
        auxiliary, form = ("did", base) if is_negated else ("", past)
    elif tense in ("progressive", "imperfect"):
        auxiliary, form = words.BE["present" if tense == "progressive" else tense][person.form], ing
    elif tense == "can":
        auxiliary = {"not": "cannot", "n't": "can't"}.get(manner.negation, "can")
    elif tense == "want":
        lead = "wants to" if third and not is_negated else "want to"
    if manner.negation == "n't" and tense != "can":
        auxiliary = f"{auxiliary}n't"
    return lead, auxiliary, form


def _french_forms(
    verb: Verb, person: Person, tense: str, helper: tuple[Word, ...], meaning: tuple[Word, ...]
) -> tuple[Written, ...]:
    """Choose the conjugated verb, then a participle or an infinitive if there is one."""
    form, every = person.form, helper + meaning
    if tense in words.MODALS:
        lead, rest = (helper, meaning) if tense == "can" else (meaning[:1], meaning[1:])
        return Written(words.MODALS[tense][form], lead, "verb"), Written(verb.infinitive, rest, "verb")
    if tense == "past":
        auxiliary, participle = words.HAVE[form], verb.participle
        if verb.helper:
            auxiliary = words.ETRE["present"][form]
            participle = words.agreed(participle, person.gender, person.plural)
        return Written(auxiliary, every, "verb"), Written(participle, meaning, "verb")
    if tense == "imperfect":
        return (Written(verb.imperfect[form], every, "verb"),)
    return (Written(verb.present[form], every if tense == "progressive" else meaning, "verb"),)


def be(person: Person, tense: str, negation: str = "") -> Phrase:
    """Build a form of "to be", alone: "is not", "n' est pas"."""
    joined = negation == "n't"
    verb = Word(words.BE[tense][person.form] + (negation if joined else ""))
    apart = (Word(negation),) if negation and not joined else ()
    finite = Written(words.ETRE[tense][person.form], (verb,), "verb")
    return Phrase((verb, *apart), negated([finite], negation, apart or (verb,)))


def pronoun(person: Person) -> Phrase:
    """Build the pronoun of a subject, feminine if what it stands for is: "it", "elle"."""
    french = words.PRONOUNS[person.pronoun][0]
    if person.gender == "f":
        french = {"il": "elle", "ils": "elles"}.get(french, french)
    word = Word(person.pronoun)
    return Phrase((word,), (Written(french, (word,), "pronoun", person.noun),))


def draw_pair(generator: Random, *, held_out: bool) -> Pair:
    """Draw a sentence of at most LONGEST words, held out or for training."""
    while True:
        candidate = pair(_Sentences(generator).sentence())
        if max(len(candidate.english), len(candidate.french)) <= LONGEST and candidate.held_out == held_out:
            return candidate


def held_out_pairs(count: int, seed: int) -> list[Pair]:
    """Draw different sentences that training never shows."""
    generator, pairs = Random(seed), {}
    while len(pairs) < count:
        candidate = draw_pair(generator, held_out=True)
        pairs.setdefault(candidate.english, candidate)
    return list(pairs.values())


LIVING = "people animals"
LIFELESS = "texts clothes openings vehicles things furniture ways places"
ANY = f"{LIVING} food meals drinks {LIFELESS}"
DETERMINERS = ("the", "the", "the", "the", "a", "a", "this", "my", "your", "his", "her", "our", "their")
ACTIONS = (*("alone",) * 3, "moves", "goes", "gives", *(kind for kind in words.VERB_LISTS if kind.startswith("on ")))
"""Kinds of verbs; a kind that is named more often is drawn more often."""


@dataclass(frozen=True)
class Nominal:
    """Noun with all that belongs to it.

    Attributes:
        person: the noun as a verb after it agrees with it.
        clear: whether no second noun is in it, so that "it" can only mean the first.
    """

    phrase: Phrase
    noun: Noun
    person: Person
    clear: bool = True

    @property
    def thing(self) -> Person | None:
        """Noun that "it" stands for where something is wide, or None."""
        return self.person if self.clear and not self.person.living and not self.person.plural else None


class _Sentences(recipe.Dice):
    """Random phrases."""

    def sentence(self) -> Phrase:
        kinds = (self.fragment, self.there_is, *(self.simple,) * 5, *(self.joined,) * 2, *(self.because,) * 3)
        phrase = self.choose(kinds)()
        return phrase + say(".", ".", "punctuation") if self.chance(0.5) else phrase

    def fragment(self) -> Phrase:
        phrase = self.nominal(ANY).phrase
        return phrase + self.place().phrase if self.chance(0.25) else phrase

    def there_is(self) -> Phrase:
        """There is a cat in the garden: il y a un chat dans le jardin."""
        plural = self.chance(0.4)
        noun = self.choose([noun for noun in nouns(ANY) if noun.counted])
        number = self.choose([*words.NUMBERS]) if plural and self.chance(0.5) else ""
        article = "some" if plural else "a"
        adjectives = self.adjectives(noun)
        subject = noun_phrase(noun, "" if number else article, plural=plural, number=number, adjectives=adjectives)
        there = say("there", "il y", "pronoun") + say("are" if plural else "is", "a", "verb")
        return there + subject + self.place().phrase

    def simple(self) -> Phrase:
        return self.clause()[0]

    def joined(self) -> Phrase:
        join = self.choose([*words.JOINS])
        first, second = (self.clause(short=True)[0] for _ in range(2))
        return first + say(join, words.JOINS[join], "conjunction") + second

    def because(self) -> Phrase:
        """Because it was tired: the pronoun agrees with the noun that can be tired, or wide."""
        phrase, person, thing = self.clause(short=True)
        if thing and self.chance(0.5):
            person = thing
        join = self.choose(("because", "because", "but"))
        reason = pronoun(person) + self.quality(person, "feeling" if person.living else "property")
        return phrase + say(join, words.JOINS[join], "conjunction") + reason

    def clause(self, *, short: bool = False) -> tuple[Phrase, Person, Person | None]:
        """Draw a clause; return its subject, too, and the thing in it that "it" may stand for, if there is just one."""
        if self.chance(0.15):
            return *self.copula(), None
        subject, person = self.subject()
        kind = self.choose(ACTIONS)
        verb = self.choose(words.VERB_LISTS[kind])
        manner = self.manner(verb, person)
        phrase = subject + verb_phrase(verb, person, manner)
        if manner.object:
            return phrase, person, None
        rest, thing = self.objects(kind, verb, denied=manner.negation != "")
        share = 0.0 if short else 0.15
        if self.chance(0.45 if kind in ("alone", "moves") else share):
            place = self.place()
            rest, thing = rest + place.phrase, None if thing else place.thing
        elif not short and self.chance(0.08):
            day = "yesterday" if manner.tense in ("past", "imperfect") else "today"
            rest += say(day, words.ADVERBS[day], "adverb")
        return phrase + rest, person, thing

    def objects(self, kind: str, verb: Verb, *, denied: bool) -> tuple[Phrase, Person | None]:
        """Draw the object that follows a verb at once, with the lifeless thing in it."""
        if verb.objects:
            target = self.nominal(" ".join(verb.objects), denied=denied)
            return target.phrase, target.thing
        if kind == "gives":
            gift = self.nominal("texts clothes things food", denied=denied)
            taker = self.nominal(LIVING, some=False)
            return gift.phrase + say("to", "à", "preposition") + taker.phrase, gift.thing
        if kind == "goes":
            there = self.nominal(words.DESTINATIONS, plain=True)
            return say("to", "à", "preposition") + there.phrase, there.thing
        if self.chance(0.15):
            adverb = self.choose(("slowly", "quickly", "here"))
            return say(adverb, words.ADVERBS[adverb], "adverb"), None
        return Phrase(), None

    def copula(self) -> tuple[Phrase, Person]:
        """The cat is black, the door was not closed."""
        if self.chance(0.5):
            subject, person = self.subject()
            kinds = "size color" if person.pronoun == "it" and self.chance(0.3) else "size feeling"
            return subject + self.quality(person, kinds), person
        thing = self.nominal(LIFELESS, count=self.chance(0.25))
        return thing.phrase + self.quality(thing.person, "size color property access"), thing.person

    def quality(self, person: Person, kinds: str) -> Phrase:
        """Draw "is very tired", "wasn't big"."""
        adjective = self.choose([a for a in words.ADJECTIVE_LIST if a.kind in kinds.split()])
        negation = self.choose(("", "", "", "", "not", "n't"))
        tense = self.choose(("present", "imperfect"))
        if (negation, tense, person.form) == ("n't", "present", 0):
            negation = "not"
        phrase = be(person, tense, negation)
        if adjective.kind != "color" and self.chance(0.5):
            more = self.choose(("very", "too"))
            phrase += say(more, words.ADVERBS[more], "adverb")
        return phrase + say(adjective.english, adjective.agreed(person.gender, person.plural), "adjective")

    def subject(self) -> tuple[Phrase, Person]:
        """Draw a pronoun, a name, two nouns or a noun."""
        if self.chance(0.3):
            english = self.choose([*words.PRONOUNS])
            french, _, form, gender = words.PRONOUNS[english]
            return say(english, french, "pronoun"), Person(form, gender, english)
        if self.chance(0.12):
            name = self.choose([*words.NAMES])
            gender = words.NAMES[name]
            return say(name, name, "name"), Person(2, gender, _he_or_she(gender))
        if self.chance(0.06):  # masculine unless both are feminine
            first, second = (self.nominal(LIVING, plain=True) for _ in range(2))
            gender = "f" if first.noun.gender == second.noun.gender == "f" else "m"
            return first.phrase + say("and", "et", "conjunction") + second.phrase, Person(4, gender, "they")
        single = self.nominal(LIVING, count=self.chance(0.28))
        return single.phrase, single.person

    def manner(self, verb: Verb, person: Person) -> Manner:
        _, past, ing = verb.english
        tenses = ["present"] * 3 + (["past"] * 4 if past else []) + (["progressive", "imperfect"] if ing else [])
        tense = self.choose([*tenses, *words.MODALS])
        negation = self.choose(("", "", "", "", "", "not", "n't", "never"))
        is_shortened = tense == "progressive" and person.form == 0 and negation == "n't"
        if is_shortened or (negation == "never" and tense in ("progressive", "imperfect")):
            negation = "not"
        adverb = self.choose(("often", "always")) if tense in ("present", "past") and self.chance(0.12) else ""
        target = ""
        if {"people", "animals"} <= set(verb.objects) and tense != "past" and self.chance(0.25):
            forms = {word: words.PRONOUNS[subject][2] for word, subject in words.OBJECTS.items()}
            target = self.choose([word for word, form in forms.items() if form != person.form or form in (2, 4)])
        return Manner(tense, negation, "" if negation else adverb, target)

    def nominal(
        self, kinds: str, *, count: bool | None = None, denied: bool = False, some: bool = True, plain: bool = False
    ) -> Nominal:
        """Draw a noun of some kinds with its determiner and adjectives.

        Args:
            count: whether it is plural; None leaves it to chance.
            denied: whether it is the object of a negated verb, where "some" does not stand.
            some: whether it may be indefinite and plural.
            plain: whether it is singular, with "the", "this" or a possessive.
        """
        noun = self.choose(nouns(kinds))
        is_counted = noun.counted and not plain
        plural = is_counted and (self.chance(0.22) if count is None else count)
        determiner, number = self.choose([word for word in DETERMINERS if is_counted or word != "a"]), ""
        if plural:
            determiner, number = self.plural_determiner(some and not denied)
        adjectives = () if plain and self.chance(0.6) else self.adjectives(noun)
        phrase = noun_phrase(noun, determiner, plural=plural, number=number, adjectives=adjectives, denied=denied)
        english = "they" if plural else "it"
        if noun.kind == "people" and not plural:
            english = _he_or_she(noun.gender)
        word = next(piece.source[0] for piece in phrase.french if piece.role == "noun")
        person = Person(4 if plural else 2, noun.gender, english, noun.living, word)
        if noun.kind in ("openings", "things", "furniture") and determiner == "the" and not plain and self.chance(0.25):
            owner = self.nominal(f"{LIVING} places", plain=True).phrase
            return Nominal(phrase + say("of", "de", "preposition") + owner, noun, person, clear=False)
        return Nominal(phrase, noun, person)

    def plural_determiner(self, some: bool) -> tuple[str, str]:
        """Draw such as "these", and a number or nothing."""
        definite = [word for word in DETERMINERS if word not in ("a", "this")]
        determiner = self.choose((*definite, "these", *(["some"] if some else []), "", ""))
        if not determiner or (determiner != "some" and self.chance(0.15)):
            return determiner, self.choose([*words.NUMBERS])
        return determiner, ""

    def adjectives(self, noun: Noun) -> tuple[Adjective, ...]:
        """Draw none, or one that stands before a French noun, or one that stands after it, or both in this order."""
        kinds = words.ATTRIBUTES[noun.kind].split()
        before = self.adjective([kind for kind in kinds if kind in words.BEFORE])
        after = self.adjective([kind for kind in kinds if kind not in words.BEFORE])
        return self.choose(((), (), (), (before,), (after,), (after,), (before, after)))

    def adjective(self, kinds: list[str]) -> Adjective:
        kind = self.choose(kinds)
        return self.choose([adjective for adjective in words.ADJECTIVE_LIST if adjective.kind == kind])

    def place(self) -> Nominal:
        """Draw "on the red chair", "in front of the house"."""
        english = self.choose(("on", "on", "in", "in", "under", "behind", "in front of", "near", "with"))
        french, kinds = words.PREPOSITIONS[english]
        there = self.nominal(kinds, some=False, count=self.chance(0.12))
        return replace(there, phrase=say(english, french, "preposition") + there.phrase)


def _he_or_she(gender: str) -> str:
    return "she" if gender == "f" else "he"
