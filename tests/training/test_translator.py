"""The translator: right French with a known alignment by its rules, and a shipped model that follows them."""

import random

import pytest

from attnviz.models import trained
from attnviz.sources.cards import card
from attnviz.training import translator, translator_grammar
from attnviz.training import translator_words as words
from attnviz.training.translator_grammar import (
    LONGEST,
    Pair,
    draw_pair,
)


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    draw = random.Random(7)
    return [draw_pair(draw, held_out=False) for _ in range(5_000)]


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
    """Its gender is the noun's: il for le chat, elle for la rue."""
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
