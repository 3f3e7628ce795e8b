"""The sentences that the translator is trained on: right French, and an alignment that is known by construction."""

import random

import pytest

from attnviz.training import harness
from attnviz.training.translator import french, grammar, lexicon, vocabulary
from attnviz.training.translator.grammar import LONGEST, draw_pair, is_held_out
from attnviz.training.translator.phrases import Pair, Person, noun_phrase, pair, say
from attnviz.training.translator.verbs import Manner, be, pronoun, verb_phrase

SHE, HE, WE = Person(2, "f", "she"), Person(2, "m", "he"), Person(3, "m", "we")


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    draw = random.Random(7)
    return [draw_pair(draw, held_out=False) for _ in range(5_000)]


def noun(english: str):
    return next(noun for noun in lexicon.NOUN_LIST if noun.english[0] == english)


def adjectives(english: str):
    return tuple(next(a for a in lexicon.ADJECTIVE_LIST if a.english == word) for word in english.split())


def verb(english: str):
    base, _, particle = english.partition(" ")
    verbs = (verb for verbs in lexicon.VERB_LISTS.values() for verb in verbs)
    return next(v for v in verbs if (v.english[0], " ".join(v.particle)) == (base, particle))


def both(phrase) -> tuple[str, str]:
    made = pair(phrase)
    return " ".join(made.english), " ".join(made.french)


@pytest.mark.parametrize(
    ("name", "given", "english", "written"),
    [
        ("cat", {"adjectives": "black"}, "the black cat", "le chat noir"),
        ("cat", {"adjectives": "small black"}, "the small black cat", "le petit chat noir"),
        ("chair", {"adjectives": "red", "plural": True}, "the red chairs", "les chaises rouges"),
        ("bird", {"adjectives": "old white"}, "the old white bird", "le vieil oiseau blanc"),
        ("bird", {"adjectives": "old", "plural": True}, "the old birds", "les vieux oiseaux"),
        ("tree", {"adjectives": "beautiful", "determiner": "a"}, "a beautiful tree", "un bel arbre"),
        ("apple", {"adjectives": "old", "determiner": "a"}, "an old apple", "une vieille pomme"),
        ("school", {"determiner": "my"}, "my school", "mon école"),
        ("school", {"adjectives": "small", "determiner": "my"}, "my small school", "ma petite école"),
        ("animal", {"determiner": "this"}, "this animal", "cet animal"),
        ("animal", {"determiner": "these", "plural": True}, "these animals", "ces animaux"),
        ("soldier", {"adjectives": "intelligent", "determiner": "this"}, "this intelligent soldier",
         "ce soldat intelligent"),
        ("bear", {"determiner": "the", "adjectives": "happy"}, "the happy bear", "l' ours heureux"),
        ("hospital", {"determiner": "some", "plural": True}, "some hospitals", "des hôpitaux"),
        ("cake", {"determiner": "some", "plural": True, "adjectives": "good"}, "some good cakes", "de bons gâteaux"),
        ("tree", {"determiner": "", "plural": True, "number": "two"}, "two trees", "deux arbres"),
        ("dress", {"plural": True, "number": "eight", "adjectives": "long white"}, "the eight long white dresses",
         "les huit longues robes blanches"),
        ("apple", {"determiner": "a", "denied": True}, "an apple", "de pomme"),
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
        ("sleep", HE, {}, "sleeps", "dort"),
        ("sleep", WE, {"tense": "progressive"}, "are sleeping", "dormons"),
        ("sleep", HE, {"negation": "not"}, "does not sleep", "ne dort pas"),
        ("sleep", HE, {"negation": "n't"}, "doesn't sleep", "ne dort pas"),
        ("arrive", HE, {"negation": "never"}, "never arrives", "n' arrive jamais"),
        ("sleep", HE, {"tense": "past"}, "slept", "a dormi"),
        ("sleep", WE, {"tense": "past", "negation": "not"}, "did not sleep", "n' avons pas dormi"),
        ("sleep", HE, {"tense": "imperfect", "negation": "n't"}, "wasn't sleeping", "ne dormait pas"),
        ("eat", WE, {"tense": "imperfect"}, "were eating", "mangions"),
        ("eat", WE, {}, "eat", "mangeons"),
        ("sleep", HE, {"adverb": "often"}, "often sleeps", "dort souvent"),
        ("sleep", HE, {"tense": "past", "adverb": "always"}, "always slept", "a toujours dormi"),
        ("sit down", HE, {"tense": "past"}, "sat down", "s' est assis"),
        ("sit down", SHE, {"tense": "past", "negation": "not"}, "did not sit down", "ne s' est pas assise"),
        ("sit", Person(4, "f", "they"), {"tense": "past"}, "sat", "se sont assises"),
        ("sit", HE, {"tense": "can"}, "can sit", "peut s' asseoir"),
        ("go", SHE, {"tense": "past"}, "went", "est allée"),
        ("leave", Person(4, "m", "they"), {"tense": "past"}, "left", "sont partis"),
        ("swim", HE, {"tense": "can", "negation": "not"}, "cannot swim", "ne peut pas nager"),
        ("swim", HE, {"tense": "can", "negation": "n't"}, "can't swim", "ne peut pas nager"),
        ("swim", HE, {"tense": "can", "negation": "never"}, "can never swim", "ne peut jamais nager"),
        ("swim", HE, {"tense": "want", "negation": "not"}, "does not want to swim", "ne veut pas nager"),
        ("look at", HE, {"object": "me"}, "looks at me", "me regarde"),
        ("love", HE, {"object": "her"}, "loves her", "l' aime"),
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
        (lambda: say("of", "de", "") + noun_phrase(noun("house")), "of the house", "de la maison"),
        (lambda: say("of", "de", "") + noun_phrase(noun("tree")), "of the tree", "de l' arbre"),
        (lambda: say("to", "à", "") + noun_phrase(noun("boy"), plural=True), "to the boys", "aux garçons"),
        (lambda: say("to", "à", "") + noun_phrase(noun("hospital")), "to the hospital", "à l' hôpital"),
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
        assert len(made.french) == len(made.alignment) == len(made.roles)
        assert all(places and places <= set(range(len(made.english))) for places in made.alignment)


def test_one_english_sentence_has_one_translation(pairs):
    known = {}
    for made in pairs:
        assert known.setdefault(made.text.lower(), made.french) == made.french


def test_nouns_and_their_adjectives_agree(pairs):
    """Every adjective that stands at its noun has the form for the noun's gender and number."""
    forms = {(form, plural): n.gender for n in lexicon.NOUN_LIST for plural, form in enumerate(n.french)}
    right = {
        (gender, plural): {a.agreed(gender, plural) for a in lexicon.ADJECTIVE_LIST}
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
            assert not (word in french.ELIDED and french.begins_with_vowel(after)), made
            assert not (word in french.ELIDED.values() and not french.begins_with_vowel(after)), made
            assert (word, after) not in french.CONTRACTED, made


def test_a_pronoun_knows_the_noun_that_it_stands_for(pairs):
    """Of its gender: il for le chat, elle for la rue."""
    genders = {form: n.gender for n in lexicon.NOUN_LIST for form in n.french}
    found = [(made, i, noun) for made in pairs for i, noun in enumerate(made.refers) if noun is not None]

    assert len(found) > 400
    for made, i, noun in found:
        written = next(word for word, places in zip(made.french, made.alignment, strict=True) if places == {noun})
        assert made.french[i].startswith("elle" if genders[written] == "f" else "il")


def test_training_never_shows_a_held_out_sentence(pairs):
    """With and without its full stop, and however it begins."""
    assert not any(is_held_out(made) for made in pairs)
    assert not any(harness.is_held_out(made.text.lower().removesuffix(".")) for made in pairs)
    assert is_held_out(draw_pair(random.Random(1), held_out=True))


def test_a_seed_gives_the_same_sentences():
    first, again, other = ([draw_pair(random.Random(seed), held_out=False)] for seed in (0, 0, 1))

    assert first == again
    assert first != other


def test_the_vocabularies_hold_every_word(pairs):
    english = {word.lower() for made in pairs for word in made.english}
    written = {word for made in pairs for word in made.french}

    assert english <= set(vocabulary.english())
    assert written <= set(vocabulary.written())
    assert len(written) > 0.9 * len(vocabulary.written())  # and little else


def test_sentences_fit_the_model(pairs, monkeypatch):
    """None is longer than LONGEST; shown with a small one, since long sentences are rare."""
    assert max(max(len(made.english), len(made.french)) for made in pairs) <= LONGEST

    monkeypatch.setattr(grammar, "LONGEST", 8)
    draw = random.Random(0)
    short = [draw_pair(draw, held_out=False) for _ in range(200)]
    assert max(max(len(made.english), len(made.french)) for made in short) == 8


def test_what_is_said_of_it_tells_what_it_stands_for(pairs):
    """Living nouns are tired, things are wide, never the other way: so "it" has one meaning."""
    kinds = {a.english: a.kind for a in lexicon.ADJECTIVE_LIST}
    living = {form: n.living for n in lexicon.NOUN_LIST for form in n.english}
    for made in pairs:
        for noun in (noun for noun in made.refers if noun is not None):
            said = made.text.removesuffix(".").split()[-1]
            assert kinds[said] == ("feeling" if living[made.english[noun]] else "property"), made
