"""The words that the grammar can say, from its lists."""

from attnviz.training.translator import french, lexicon
from attnviz.training.translator.lexicon import one_to_many
from attnviz.training.translator.phrases import Person
from attnviz.training.translator.verbs import BE, agreed

_ENGLISH = "an there to of . never not cannot can can't want wants do does did don't doesn't didn't"
_FRENCH = "y à de pas jamais . elles"


def english() -> tuple[str, ...]:
    """Every English word, sorted, in lower case."""
    be = [form for forms in BE.values() for form in forms]
    said = [*_ENGLISH.split(), *be, *(f"{form}n't" for form in be if form != "am")]
    said += [word for noun in lexicon.NOUN_LIST for word in noun.english[: 1 + noun.counted]]
    said += [adjective.english for adjective in lexicon.ADJECTIVE_LIST]
    for verbs in lexicon.VERB_LISTS.values():
        said += [form for verb in verbs for form in (*verb.english, one_to_many(verb.english[0]), *verb.particle)]
    for words in (lexicon.DETERMINERS, lexicon.NUMBERS, lexicon.NAMES, lexicon.PRONOUNS, lexicon.OBJECTS):
        said += words
    for words in (lexicon.PREPOSITIONS, lexicon.JOINS, lexicon.ADVERBS):
        said += [word for phrase in words for word in phrase.split()]
    return tuple(sorted({word.lower() for word in said if word}))


def written() -> tuple[str, ...]:
    """Every French word, sorted."""
    said = [*_FRENCH.split(), *lexicon.NAMES, *lexicon.NUMBERS.values(), *lexicon.ADVERBS.values(), *lexicon.HAVE]
    said += [*french.CONTRACTED.values(), *french.ELIDED.values(), "ne", "se", "cet", "bel", "nouvel", "vieil"]
    said += [form for forms in (*lexicon.MODALS.values(), *lexicon.BE.values()) for form in forms]
    said += [form for forms in lexicon.DETERMINERS.values() for form in forms]
    said += [form for forms in lexicon.PRONOUNS.values() for form in forms[:2]]
    said += [word for noun in lexicon.NOUN_LIST for word in noun.french[: 1 + noun.counted]]
    both = [(gender, plural) for gender in "mf" for plural in (False, True)]
    said += [adjective.agreed(*form) for adjective in lexicon.ADJECTIVE_LIST for form in both]
    for verb in (verb for verbs in lexicon.VERB_LISTS.values() for verb in verbs):
        past, ing = verb.english[1:]
        said += [verb.infinitive, *verb.present, *([verb.participle] if past else []), *(verb.imperfect if ing else ())]
        if verb.reflexive or verb.helper == "être":
            said += [agreed(verb.participle, Person(form, gender, "")) for form in (2, 4) for gender in "mf"]
    said += [word for phrase, _ in lexicon.PREPOSITIONS.values() for word in phrase.split()]
    said += [word for phrase in lexicon.JOINS.values() for word in phrase.split()]
    return tuple(sorted({word for word in said if word}))
