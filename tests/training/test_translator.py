"""The translator: right French with a known alignment by its rules, and a shipped model that follows them."""

import random

import pytest

from attnviz.models import trained
from attnviz.sources.cards import card
from attnviz.training import translator, translator_grammar
from attnviz.training import translator_words as words
from attnviz.training.translator_grammar import (
    LONGEST,
    Manner,
    Pair,
    Person,
    be,
    draw_pair,
    noun_phrase,
    pair,
    pronoun,
    say,
    verb_phrase,
)

SHE, HE, WE = Person(2, "f", "she"), Person(2, "m", "he"), Person(3, "m", "we")


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    draw = random.Random(7)
    return [draw_pair(draw, held_out=False) for _ in range(5_000)]


def noun(english: str):
    return next(noun for noun in words.NOUN_LIST if noun.english[0] == english)


def adjectives(english: str):
    return tuple(next(a for a in words.ADJECTIVE_LIST if a.english == word) for word in english.split())


def verb(english: str):
    base, _, particle = english.partition(" ")
    verbs = (verb for verbs in words.VERB_LISTS.values() for verb in verbs)
    return next(v for v in verbs if (v.english[0], " ".join(v.particle)) == (base, particle))


def both(phrase) -> tuple[str, str]:
    made = pair(phrase)
    return " ".join(made.english), " ".join(made.french)


@pytest.mark.parametrize(
    ("name", "given", "english", "written"),
    [
        ("cat", {"adjectives": "small black"}, "the small black cat", "le petit chat noir"),
        ("bird", {"adjectives": "old white"}, "the old white bird", "le vieil oiseau blanc"),
        ("tree", {"adjectives": "beautiful", "determiner": "a"}, "a beautiful tree", "un bel arbre"),
        ("apple", {"adjectives": "old", "determiner": "a"}, "an old apple", "une vieille pomme"),
        ("school", {"adjectives": "small", "determiner": "my"}, "my small school", "ma petite école"),
        ("animal", {"determiner": "this"}, "this animal", "cet animal"),
        ("cake", {"determiner": "some", "plural": True, "adjectives": "good"}, "some good cakes", "de bons gâteaux"),
        ("dress", {"plural": True, "number": "eight", "adjectives": "long white"}, "the eight long white dresses",
         "les huit longues robes blanches"),
        ("egg", {"determiner": "a", "denied": True}, "an egg", "d' œuf"),
    ],
)  # fmt: skip
def test_articles_and_adjectives_agree_and_stand_where_french_puts_them(name, given, english, written):
    """Gender, number, the forms before a vowel, and "de" where French asks for it."""
    made = noun_phrase(noun(name), **{**given, "adjectives": adjectives(given.get("adjectives", ""))})

    assert both(made) == (english, written)


@pytest.mark.parametrize(
    ("base", "person", "manner", "english", "written"),
    [
        ("sleep", WE, {"tense": "progressive"}, "are sleeping", "dormons"),
        ("sleep", HE, {"negation": "not"}, "does not sleep", "ne dort pas"),
        ("arrive", HE, {"negation": "never"}, "never arrives", "n' arrive jamais"),
        ("sleep", WE, {"tense": "past", "negation": "not"}, "did not sleep", "n' avons pas dormi"),
        ("sleep", HE, {"tense": "imperfect", "negation": "n't"}, "wasn't sleeping", "ne dormait pas"),
        ("eat", WE, {"tense": "imperfect"}, "were eating", "mangions"),
        ("sleep", HE, {"tense": "past", "adverb": "always"}, "always slept", "a toujours dormi"),
        ("sit down", SHE, {"tense": "past", "negation": "not"}, "did not sit down", "ne s' est pas assise"),
        ("sit", Person(4, "f", "they"), {"tense": "past"}, "sat", "se sont assises"),
        ("sit", HE, {"tense": "can"}, "can sit", "peut s' asseoir"),
        ("leave", Person(4, "m", "they"), {"tense": "past"}, "left", "sont partis"),
        ("swim", HE, {"tense": "can", "negation": "not"}, "cannot swim", "ne peut pas nager"),
        ("swim", HE, {"tense": "want", "negation": "not"}, "does not want to swim", "ne veut pas nager"),
        ("follow", HE, {"tense": "can", "object": "them"}, "can follow them", "peut les suivre"),
        ("see", HE, {"negation": "n't", "object": "us"}, "doesn't see us", "ne nous voit pas"),
    ],
)  # fmt: skip
def test_verbs_are_conjugated_and_negation_wraps_them(base, person, manner, english, written):
    """Tenses, être and avoir, reflexive verbs, object pronouns, two parts of a negation."""
    assert both(verb_phrase(verb(base), person, Manner(**manner))) == (english, written)


@pytest.mark.parametrize(
    ("phrase", "english", "written"),
    [
        (lambda: say("of", "de", "") + noun_phrase(noun("garden")), "of the garden", "du jardin"),
        (lambda: say("of", "de", "") + noun_phrase(noun("tree")), "of the tree", "de l' arbre"),
        (lambda: say("to", "à", "") + noun_phrase(noun("boy"), plural=True), "to the boys", "aux garçons"),
        (lambda: say("near", "près de", "") + noun_phrase(noun("tree"), "", plural=True, number="eight"),
         "near eight trees", "près de huit arbres"),
        (lambda: say("because", "parce que", "") + pronoun(Person(2, "f", "it")) + be(SHE, "imperfect", "n't"),
         "because it wasn't", "parce qu' elle n' était pas"),
        (lambda: say("I", "je", "") + verb_phrase(verb("listen to"), Person(0, "m", "I"), Manner()),
         "I listen to", "j' écoute"),
    ],
)  # fmt: skip
def test_words_contract_and_elide(phrase, english, written):
    """Du, au, l', qu', n', j': also where two French words become one, or where a number forbids it."""
    assert both(phrase()) == (english, written)


def test_a_contracted_word_comes_from_both_english_words():
    made = pair(say("of", "de", "") + noun_phrase(noun("garden"), adjectives=adjectives("green")))

    assert made.french == ("du", "jardin", "vert")
    assert made.alignment == ({0, 1}, {3}, {2})


def test_negation_comes_from_the_words_that_negate():
    made = pair(verb_phrase(verb("sleep"), HE, Manner(negation="not")))

    assert made.alignment == ({0, 1}, {2}, {1})  # ne: does not; dort: sleep; pas: not


def test_every_french_word_comes_from_some_english_word(pairs):
    for made in pairs:
        assert max(len(made.english), len(made.french)) <= LONGEST
        assert len(made.french) == len(made.alignment) == len(made.roles)
        assert all(places and places <= set(range(len(made.english))) for places in made.alignment)


def test_one_english_sentence_has_one_translation(pairs):
    known = {}
    for made in pairs:
        assert known.setdefault(made.text.lower(), made.french) == made.french


def test_nouns_and_their_adjectives_agree(pairs):
    """Every adjective that stands at its noun has the form for the noun's gender and number."""
    forms = {(form, plural): n.gender for n in words.NOUN_LIST for plural, form in enumerate(n.french)}
    right = {
        (gender, plural): {a.agreed(gender, plural) for a in words.ADJECTIVE_LIST}
        for gender in "mf"
        for plural in (False, True)
    }
    for made in pairs:
        for place, role in enumerate(made.roles[:-1]):
            if (role, made.roles[place + 1]) == ("noun", "adjective"):
                numbers = [plural for plural in (False, True) if (made.french[place], plural) in forms]
                allowed = [right[forms[made.french[place], plural], plural] for plural in numbers]
                assert any(made.french[place + 1] in words for words in allowed), made


def test_nothing_that_must_be_elided_is_left(pairs):
    for made in pairs:
        for word, after in zip(made.french, made.french[1:], strict=False):
            assert not (word in words.ELIDED and words.begins_with_vowel(after)), made
            assert not (word in words.ELIDED.values() and not words.begins_with_vowel(after)), made
            assert (word, after) not in words.CONTRACTED, made


def test_a_pronoun_knows_the_noun_that_it_stands_for(pairs):
    """Of its gender: il for le chat, elle for la rue."""
    genders = {form: n.gender for n in words.NOUN_LIST for form in n.french}
    found = [(made, i, noun) for made in pairs for i, noun in enumerate(made.refers) if noun is not None]

    assert len(found) > 400
    for made, i, noun in found:
        written = next(word for word, places in zip(made.french, made.alignment, strict=True) if places == {noun})
        assert made.french[i].startswith("elle" if genders[written] == "f" else "il")


def test_the_vocabularies_hold_every_word(pairs):
    english = {word.lower() for made in pairs for word in made.english}
    written = {word for made in pairs for word in made.french}

    assert english <= set(words.english_vocabulary())
    assert written <= set(words.french_vocabulary())
    assert len(written) > 0.9 * len(words.french_vocabulary())  # and little else


def test_what_is_said_of_it_tells_what_it_stands_for(pairs):
    """Living nouns are tired, things are wide, never the other way: so "it" has one meaning."""
    kinds = {a.english: a.kind for a in words.ADJECTIVE_LIST}
    living = {form: n.living for n in words.NOUN_LIST for form in n.english}
    for made in pairs:
        for noun in (noun for noun in made.refers if noun is not None):
            said = made.text.removesuffix(".").split()[-1]
            assert kinds[said] == ("feeling" if living[made.english[noun]] else "property"), made


@pytest.fixture(scope="module")
def held_out() -> list[Pair]:
    return translator_grammar.held_out_pairs(150, translator.SEED)


def translated(text: str) -> tuple[str, ...]:
    english = [token.id for token in translator.ENGLISH.encode(text)]
    return translator.translate(trained.load("translator"), [[*english, translator.END]])[0]


def test_one_head_alone_recovers_the_alignment(held_out):
    """The head that the app opens on, far above chance; before the training no head does."""
    opens = card("translator").opens
    looks = translator.looks(trained.load("translator"), held_out)
    untrained = translator.looks(trained.load("translator", 0), held_out[:30])

    assert looks[opens]["alignment"].rate >= translator.ALIGNED - 0.02
    assert looks[opens]["alignment"].even < 0.2
    assert max(named["alignment"].rate for head, named in untrained.items() if "alignment" in named) < 0.3


def test_without_the_layer_of_the_aligning_head_little_is_right(held_out):
    """One head alone is backed up by the others; all of them are not."""
    model, (site, head) = trained.load("translator"), card("translator").opens

    assert translator.exact(model, held_out) >= translator.EXACT - 0.025
    assert translator.exact(model, held_out, (site, head)) > 0.5
    assert translator.exact(model, held_out, *((site, head) for head in range(4))) < 0.2


TRANSLATIONS = (
    "le chat noir dort sur la chaise rouge",
    "le chat s' est assis sur le tapis",
    "le chat s' est assis",
    "le chat s' est assis sur le tapis parce qu' il était fatigué .",
    "la souris s' est assise sur le tapis parce qu' elle était fatiguée .",
    "l' oiseau n' a pas traversé la rue parce qu' elle était trop large .",
    "elle n' aime pas les petites fleurs jaunes .",
    "Anna a donné un vieux livre italien aux enfants .",
)


@pytest.mark.parametrize(("text", "written"), [*zip(card("translator").examples, TRANSLATIONS, strict=True)])
def test_every_example_is_translated_right(text, written):
    assert not translator.ENGLISH.unknown(text)
    assert translated(text) == tuple(written.split())


def test_a_full_stop_is_written_where_one_is_read():
    """The same sentence with and without."""
    assert translated("The cat sat down.") == (*translated("The cat sat down"), ".")


def test_rows_and_keys_of_a_role_are_words_of_its_kind(held_out):
    """An adjective and its noun, a word and itself, a pronoun and what it stands for."""
    nouns = {form for noun in words.NOUN_LIST for form in noun.english}
    parts = {"adjective": {word.english for word in words.ADJECTIVE_LIST}, "article": {*words.DETERMINERS, "an"}}
    assert all(any(translator.cells(made)["encoder", role] for made in held_out) for role in parts)
    for made in held_out:
        asked = translator.cells(made)
        for role, english in parts.items():
            assert all(made.english[row] in english for row, _ in asked["encoder", role])
            assert all(made.english[key] in nouns for _, (key,) in asked["encoder", role])
        for row, (key,) in asked["encoder", "antecedent"]:
            assert made.english[row] in ("it", "he", "she", "they")
            assert made.english[key] in nouns
        assert [len(keys) for _, keys in asked["encoder", "before"]] == [1] * len(made.english)
        assert len(asked["cross", "alignment"]) == len(made.french)
