"""The stories keep the rules that they are there to teach, and the shipped model follows them."""

import random
from itertools import islice

import pytest

from attnviz.core.edits import Edits, Site
from attnviz.models import trained
from attnviz.sources.cards import card
from attnviz.training import story
from attnviz.training import story_grammar as grammar
from attnviz.training.recipe import is_held_out

PRONOUN = {noun.word: noun.pronoun for noun in (*grammar.NAMES, *grammar.NOUNS, *grammar.PLACES)}
NAMES = {name.word for name in grammar.NAMES}


@pytest.fixture(scope="module")
def told():
    """Two thousand stories of each kind: for training, and held out."""
    return {held: list(islice(grammar.stories(random.Random(3), held_out=held), 2_000)) for held in (False, True)}


@pytest.fixture(scope="module")
def tested(told):
    """Every tested word with its story and the nouns between its source and itself."""
    found = []
    for each in told[False] + told[True]:
        for test in each.tested:
            between = [word for word in each.words[test.source[-1] + 1 : test.position] if word in PRONOUN]
            found.append((each, test, between))
    return found


def test_the_vocabulary_is_what_the_stories_are_made_of(told):
    """Each story has only words of it, and reading the text back gives the story."""
    for each in told[False] + told[True]:
        assert tuple(token.text.lower() for token in story.VOCABULARY.encode(each.text)) == each.words
        assert len(each.words) <= grammar.LONGEST
    words = {word for each in told[False] + told[True] for word in each.words}
    assert len(words) > 0.98 * len(grammar.vocabulary())  # and little else


def test_a_tested_pronoun_stands_for_its_source_and_the_noun_before_misleads(tested):
    """One noun asks for its pronoun; two people are they; nothing in between gives it away."""
    clues = {*grammar.PRONOUNS, *grammar.POSSESSIVES.values(), *grammar.REFLEXIVES.values()}
    pronouns = [entry for entry in tested if entry[1].kind == "pronoun"]

    assert {each.words[test.position] for each, test, _ in pronouns} == set(grammar.PRONOUNS)
    for each, test, between in pronouns:
        source = [each.words[position] for position in test.source]
        right = PRONOUN[source[0]] if len(source) == 1 else "they"
        assert each.words[test.position] == right != PRONOUN[between[-1]]
        assert set(test.wrong) == set(grammar.PRONOUNS) - {right}
        assert clues.isdisjoint(each.words[test.source[-1] + 1 : test.position])


def test_a_tested_verb_agrees_with_its_source_and_the_noun_before_misleads(tested):
    """Many keys are, one key is."""
    many = {form for verb in grammar.VERBS for form in (verb.many, verb.past_many)}
    single = {form for verb in grammar.VERBS for form in (verb.single, verb.past)}
    for each, test, between in tested:
        if test.kind == "verb":
            plural = PRONOUN[each.words[test.source[0]]] == "they"
            assert each.words[test.position] in (many if plural else single)
            assert test.wrong[0] in (single if plural else many)
            assert (PRONOUN[between[-1]] == "they") != plural


@pytest.mark.parametrize(("kind", "most"), [("pronoun", 0.4), ("verb", 0.4), ("name", 0.1)])
def test_a_case_is_held_out_and_the_word_before_does_not_tell(told, kind, most):
    """Training never meets its opening, and pairs of words alone get most of them wrong."""
    openings = {test.opening for each in told[False] for test in each.tested}
    held = story.cases(kind, 300)

    assert all(is_held_out(test.opening) and test.opening not in openings for _, test in held)
    assert story.correct_by_pairs(held, 3_000) < most


@pytest.fixture(scope="module")
def model():
    return trained.load("story")


def test_heads_make_verbs_and_pronouns_agree(model):
    """One head of the last layer looks at the subject of a verb, the other at that of a pronoun."""
    heads = [(Site("decoder", 1), head) for head in (0, 1)]
    looks, right = {}, {}
    for kind in ("pronoun", "verb"):
        held = story.cases(kind, 120)
        looks[kind] = story.looks(model, kind, held)
        right[kind] = [
            story.correct(model, held, Edits(heads_off=off)) for off in ((), *((head,) for head in heads), heads)
        ]

    assert card("story").opens == heads[0]
    assert looks["verb"][heads[1]]["verb"].rate > 0.95
    assert looks["pronoun"][heads[0]]["pronoun"].rate > 0.9
    assert right["verb"][0] > 0.97 > 0.8 > right["verb"][2] >= right["verb"][3] - 0.1
    assert right["pronoun"][0] > 0.97 > 0.9 > right["pronoun"][1] > 0.5 > right["pronoun"][3]
