"""The models that ship: whole, with cards that fit them, and doing what they are there for."""

import re

import pytest

import attnviz
from attnviz import api
from attnviz.core import assets
from attnviz.core.edits import Edits, Site
from attnviz.core.record import Record
from attnviz.models import trained
from attnviz.sources.trained import Trained

CARDS = [name for name in api.SOURCES if name != "scratch"]
MEASURED = [name for name in CARDS if name != "constructed"]
"""Models that were trained: their cards have measures and shares of sentences."""


@pytest.mark.parametrize("name", CARDS)
def test_a_card_speaks_of_places_that_the_model_has(name):
    source = api.load(name)
    card = source.card
    places = [(card.opens[0], (card.opens[1],)), *((found.site, found.heads) for found in card.behaviors)]

    assert bool(card.measured) == (name in MEASURED)
    assert card.cannot
    for site, heads in places:
        assert site in source.sites
        assert all(head < source.num_heads for head in heads)


@pytest.mark.parametrize("name", MEASURED)
def test_the_numbers_of_a_finding_are_those_of_its_evidence(name):
    """Every number that a table shows stands in the sentence, to its last digit."""
    for found in api.load(name).card.behaviors:
        numbers = [number for number in (*found.rates, *found.shares, *found.off, found.on) if number is not None]

        assert {len(found.rates), len(found.shares)} == {0, len(found.heads)}
        assert len(found.off) in (0, len(found.heads))
        for number in numbers:
            assert {f"{number:.1%}", f"{number:.2%}"} & set(re.findall(r"[\d.]+%", found.evidence)), number


@pytest.mark.parametrize("name", MEASURED)
def test_every_goal_was_reached(name):
    """A model that does not do what it is there for is not shipped."""
    for measure in api.load(name).card.measured:
        assert measure.goal is None or measure.value >= measure.goal, measure.what


@pytest.mark.parametrize("name", CARDS)
def test_its_examples_are_in_its_vocabulary(name):
    """So the first thing that anybody sees has no unknown word, and every one of them runs."""
    source = api.load(name)

    assert source.unknown(list(source.card.examples)) == {}
    for example in source.card.examples:
        read = attnviz.picture(assets.path(example)) if source.reads == "picture" else example
        record = attnviz.analyze(read, source)
        assert record.sites == source.sites
        assert record.output.isfinite().all()


@pytest.mark.parametrize("name", Trained.names)
def test_its_moments_are_those_of_a_training(name):
    """From before the first step on; each can be read, and none is another."""
    steps = trained.checkpoints(name)
    seen = {float(Trained(name, step)._model.unembedding.weight.double().sum()) for step in steps}

    assert steps[0] == 0
    assert len(seen) == len(steps) >= 5


@pytest.mark.parametrize(
    ("english", "french"),
    [
        ("the black cat sleeps on the red chair .", "le chat noir dort sur la chaise rouge."),
        ("The cat sat on the mat", "le chat s'est assis sur le tapis"),
    ],
)
def test_the_translator_translates(english, french):
    """Adjectives behind their nouns, with their gender."""
    assert api.analyze(english).prediction.written == (french,)


def next_word(record: Record) -> tuple[str, float]:
    return record.prediction.most_probable(record.sentences[0].length - 1, 1)[0]


def test_what_was_read_twice_is_expected_again_unless_the_head_before_is_off():
    """A head that looks one word back, and one that uses it; before the training there is neither."""
    text = "red sun cold milk then red sun"
    off = Edits().with_heads_off(Site("decoder", 0), {0})

    assert next_word(api.analyze(text, "induction")) == ("cold", pytest.approx(1, abs=0.1))
    assert next_word(api.analyze(text, "induction", off))[1] < 0.1
    assert next_word(api.analyze(text, "induction", step=0))[1] < 0.1
