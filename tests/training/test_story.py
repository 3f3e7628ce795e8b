"""The shipped story model does what its card says, measured afresh on fewer held-out stories."""

import math
import random

import pytest
import torch

from attnviz.core import assets
from attnviz.core.edits import Site
from attnviz.models import trained
from attnviz.sources.cards import card
from attnviz.tokenizers import vocabulary
from attnviz.training import story
from attnviz.training.story import evidence, measure, report
from attnviz.training.story.evidence import KINDS, look, off

NUMBER = 120


@pytest.fixture(scope="module")
def model():
    return trained.load("story")


@pytest.fixture(scope="module")
def found(model):
    return look(model, NUMBER, told=4_000)


def near(value, stated, number=NUMBER):
    """Whether two measured shares differ by no more than chance makes likely; the card's is of 2,000."""
    return abs(value - stated) < 0.01 + 4 * math.sqrt(max(stated * (1 - stated), 0.01) / number)


@pytest.mark.parametrize("kind", ["pronoun", "verb"])
def test_the_goals_are_reached(found, kind):
    """Pronouns and verbs are right where the noun before them misleads."""
    assert found.right[kind] >= report.GOAL - 0.01
    assert found.pairs[kind] < 0.5


def test_one_head_makes_verbs_agree(found):
    """It looks at the subject; without it, many verbs take the number of the nearer noun."""
    head = found.needed("verb", 1)

    assert found.looks["verb"][head].share > 0.95
    assert found.looks["verb"][head].weight > 0.8
    assert found.without["verb"][head] < 0.8


def test_one_head_finds_whom_a_pronoun_stands_for(found):
    """Another head than that of the verbs."""
    head = found.needed("pronoun", 1)

    assert head != found.needed("verb", 1)
    assert found.looks["pronoun"][head].share > 0.9
    assert found.without["pronoun"][head] < 0.9


def test_the_card_says_what_is_measured(found):
    """Up to the error of a sample, and down to the head it opens with."""
    stated = card("story")

    assert (stated.opens[0].layer, stated.opens[1]) == found.needed("pronoun", 1)
    values = [value for kind in KINDS for value in (found.right[kind], found.pairs[kind], found.silent[kind])]
    for measured, value in zip(stated.measured, values, strict=True):
        assert near(value, measured.value), measured.what


def test_a_finding_is_told_of_the_head_that_does_it(found):
    """The verb's head is not praised for the pronoun's work, nor the other way round."""
    stated = card("story")
    for kind, clause in (
        ("verb", "a verb comes next"),
        ("pronoun", "he, she, it or they may come next"),
        ("name", "second of two names"),
    ):
        layer, head = found.needed(kind, 1)

        (told,) = (one for one in stated.behaviors_of(Site("decoder", layer), head) if clause in one.does)
        assert near(found.without[kind][layer, head], told.off[0]), kind


def test_every_example_is_in_the_vocabulary():
    """Nothing that is offered is unknown to the model."""
    (known,) = vocabulary.read(assets.path("models/story/vocabulary.json")).values()

    assert known.words == story.RECIPE.vocabularies["english"]
    for text in (*card("story").examples, "The cat sat on the mat", "The cat sat down", "The cat sat down."):
        assert known.unknown(text) == ()


def test_the_kept_weights_are_the_recipe_s():
    """So that the slider over the training has its moments, and the files stay small."""
    files = list(trained.folder("story").glob("*"))

    assert trained.checkpoints("story") == story.RECIPE.kept
    assert trained.load("story").config == story.RECIPE.config
    assert sum(file.stat().st_size for file in files) < 8_000_000


def test_switching_off_is_what_is_measured(model):
    """A head that is off changes what the model says; none off changes nothing."""
    tested = measure.cases("verb", 20)
    silent = measure.correct(model, tested, off((0, 0), (0, 1), (1, 0), (1, 1)))

    assert measure.correct(model, tested, off()) == measure.correct(model, tested)
    assert silent < measure.correct(model, tested)


def test_a_look_is_measured_at_the_row_that_predicts(model):
    """Row `at` of a model that reads <sos> first has read the words before word `at`; one later is the word itself."""
    case = measure.cases("verb", 1)[0]
    ids, targets = measure.batch([case.story])

    assert measure.VOCABULARY.names[targets[0, case.test.at]] == case.story.words[case.test.at]
    assert ids[0, case.test.at + 1] == targets[0, case.test.at]


def test_training_forgets_some_words_and_learns():
    """The loss of an untrained model is that of a guess among all words, and it can be followed down."""
    torch.manual_seed(0)
    fresh = story.RECIPE.config.build()
    loss = story.loss(fresh, random.Random(0))
    loss.backward()

    assert 4 < float(loss.detach()) < 9
    assert all(weight.grad is not None for weight in fresh.parameters())


def test_articles_are_looked_from_at_their_own_row():
    """The row of "the" has read "the", and its source is the word before."""
    for case in evidence._articles(measure.cases("verb", 50)):
        assert case.story.words[case.test.at - 1] == "the"
        assert case.test.source == (case.test.at - 2,)


def test_full_stops_and_clauses_are_looked_from_at_their_own_row():
    """The row of a full stop has read it; the row that predicts the verb of "that the queen wants" has read "queen"."""
    for case in evidence._stops(measure.cases("pronoun", 50)):
        assert case.story.words[case.test.at - 1] == "."
        assert "." not in case.story.words[case.test.source[-1] : case.test.at - 1]
    clauses = evidence._clauses(measure.cases("verb", 50))

    assert clauses
    for case in clauses:
        that = case.test.source[0]
        assert case.story.words[that] == "that"
        assert case.test.at - 1 > that


def test_the_second_name_is_found_whichever_comes_again():
    """Of Anna and Tom it is Tom; he is the right one in some stories and not in others."""
    tested = measure.cases("name", 50)
    seconds = [evidence._second(case).test.source[0] for case in tested]

    assert all(case.story.words[at] in case.test.opening for case, at in zip(tested, seconds, strict=True))
    assert {case.test.source[0] == at for case, at in zip(tested, seconds, strict=True)} == {True, False}
