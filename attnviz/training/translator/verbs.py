"""Verbs in both languages: tenses, negation around the verb, reflexive and object pronouns before it."""

from dataclasses import dataclass

from attnviz.training.translator import french, lexicon
from attnviz.training.translator.lexicon import Verb, one_to_many
from attnviz.training.translator.phrases import Person, Phrase, Word, Written

BE = {
    "present": ("am", "are", "is", "are", "are"),
    "imperfect": ("was", "were", "was", "were", "were"),
}


@dataclass(frozen=True)
class Manner:
    """How a verb is said.

    Attributes:
        tense: "present", "past", "progressive", "imperfect" ("was sleeping"), "can" or "want".
        negation: "", "not", "n't" or "never".
        adverb: "", "often" or "always"; only without a negation.
        object: an English object pronoun, or "".
    """

    tense: str = "present"
    negation: str = ""
    adverb: str = ""
    object: str = ""


def verb_phrase(verb: Verb, person: Person, manner: Manner) -> Phrase:
    """Such as "does not sleep", "ne dort pas"."""
    auxiliary, negation, main, particle = _english(verb, person, manner)
    adverb = (Word(manner.adverb),) if manner.adverb else ()
    target = (Word(manner.object),) if manner.object else ()
    apart = negation if negation != auxiliary else ()
    meaning = main + particle
    finite, *rest = _french(verb, person, manner, auxiliary, meaning)
    pronouns = [Written(lexicon.PRONOUNS[lexicon.OBJECTS[word.text]][1], (word,), "pronoun") for word in target]
    if verb.reflexive:
        own = main[-1:] + particle
        pronouns = [Written(lexicon.REFLEXIVES[person.form], own, "pronoun")]
    if manner.tense in lexicon.MODALS:  # pronouns stand before the infinitive
        conjugated, rest = (finite,), [*pronouns, *rest]
    else:
        conjugated = (*pronouns, finite)
    does = auxiliary if apart and auxiliary and auxiliary[0].text in ("do", "does", "did") else ()
    return Phrase(
        auxiliary + apart + adverb + meaning + target,
        wrap(conjugated, manner.negation, does + negation)
        + tuple(Written(lexicon.ADVERBS[word.text], (word,), "adverb") for word in adverb)
        + tuple(rest),
    )


def wrap(finite: tuple[Written, ...], negation: str, source: tuple[Word, ...]) -> tuple[Written, ...]:
    """Put "ne" and "pas" or "jamais" around the conjugated verb and the pronouns before it."""
    if not negation:
        return finite
    word = "jamais" if negation == "never" else "pas"
    return (Written("ne", source, "negation"), *finite, Written(word, source[-1:], "negation"))


def _english(verb: Verb, person: Person, manner: Manner) -> tuple[tuple[Word, ...], ...]:
    """The auxiliary, the words that negate, the verb itself, and what belongs to it, such as "at" of "look at"."""
    base, past, ing = verb.english
    tense, negated = manner.tense, manner.negation in ("not", "n't")
    third, lead = person.form == 2, ()
    auxiliary, form = ("does" if third else "do") if negated else "", base
    if tense == "present" and third and not negated:
        form = one_to_many(base)
    elif tense == "past":
        auxiliary, form = ("did", base) if negated else ("", past)
    elif tense in ("progressive", "imperfect"):
        auxiliary, form = BE["present" if tense == "progressive" else tense][person.form], ing
    elif tense == "can":
        auxiliary = {"not": "cannot", "n't": "can't"}.get(manner.negation, "can")
    elif tense == "want":
        lead = (Word("wants" if third and not negated else "want"), Word("to"))
    if manner.negation == "n't" and tense != "can":
        auxiliary = f"{auxiliary}n't"
    helpers = (Word(auxiliary),) if auxiliary else ()
    return helpers, _negating(manner, helpers), (*lead, Word(form)), tuple(Word(text) for text in verb.particle)


def _negating(manner: Manner, auxiliary: tuple[Word, ...]) -> tuple[Word, ...]:
    """A word of its own, or the auxiliary: "didn't", "cannot"."""
    alone = manner.negation == "never" or (manner.negation == "not" and manner.tense != "can")
    return (Word(manner.negation),) if alone else auxiliary if manner.negation else ()


def _french(
    verb: Verb, person: Person, manner: Manner, auxiliary: tuple[Word, ...], meaning: tuple[Word, ...]
) -> tuple[Written, ...]:
    """The conjugated verb, then a participle or an infinitive if there is one."""
    form, tense = person.form, manner.tense
    said = auxiliary + meaning
    if tense in lexicon.MODALS:
        lead, rest = (auxiliary, meaning) if tense == "can" else (meaning[:1], meaning[1:])
        return Written(lexicon.MODALS[tense][form], lead, "verb"), Written(verb.infinitive, rest, "verb")
    if tense == "past":
        to_be = verb.helper == "être" or verb.reflexive
        helper = (lexicon.BE["present"] if to_be else lexicon.HAVE)[form]
        participle = agreed(verb.participle, person) if to_be else verb.participle
        return Written(helper, said, "verb"), Written(participle, meaning, "verb")
    if tense == "imperfect":
        return (Written(verb.imperfect[form], said, "verb"),)
    source = said if tense == "progressive" else meaning
    return (Written(verb.present[form], source, "verb"),)


def agreed(participle: str, person: Person) -> str:
    """The participle of a past with être: allé, allée, allés, allées."""
    one = french.feminine(participle) if person.gender == "f" else participle
    return french.plural(one) if person.plural else one


def be(person: Person, tense: str, negation: str = "") -> Phrase:
    """A form of "to be", alone: "is not", "n' est pas"."""
    verb = Word(BE[tense][person.form] + ("n't" if negation == "n't" else ""))
    source = (verb,) if negation == "n't" else (Word(negation),) if negation else ()
    finite = (Written(lexicon.BE[tense][person.form], (verb,), "verb"),)
    english = (verb,) if negation in ("", "n't") else (verb, *source)
    return Phrase(english, wrap(finite, negation, source))


def pronoun(person: Person) -> Phrase:
    """The subject, feminine if what it stands for is: "it", "elle"."""
    written = lexicon.PRONOUNS[person.pronoun][0]
    if person.gender == "f":
        written = {"il": "elle", "ils": "elles"}.get(written, written)
    word = Word(person.pronoun)
    return Phrase((word,), (Written(written, (word,), "pronoun", person.noun),))
