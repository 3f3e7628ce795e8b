"""The models that ship: whole, with cards that fit them, and doing what they are there for."""

import json
import re

import pytest
import tiny

import attnviz
from attnviz import api
from attnviz.core import assets
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record
from attnviz.models import trained
from attnviz.sources import cards
from attnviz.sources.cards import Behavior, Measure
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

        if name != "constructed":  # a test of the model itself compares all weights of hand-set heads
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


# Cards: read as they are written, or refused in one sentence that names the file

GOOD = tiny.card("translator")
FINDING = GOOD["findings"][0]


def test_a_card_is_read_as_it_is_written():
    """A head with two roles keeps the numbers of each; the one that the model needs most comes first."""
    needed = FINDING | {"does": "looks up", "rates": [0.5], "off": [0.25], "on": 1.0, "next": "is was"}
    card = cards.from_json(GOOD | {"findings": [FINDING, needed]})
    place = Site("cross", 1), 2
    plain = Behavior(place[0], (2,), "about", "looks about", "Seen once.")
    numbers = {"rates": (0.5,), "off": (0.25,), "on": 1.0, "next": frozenset({"is", "was"})}

    assert card.opens == place
    assert card.measured == (Measure("of 100 sentences are right", 0.125, 0.9),)
    assert card.behaviors_of(*place) == (Behavior(place[0], (2,), "about", "looks up", "Seen once.", **numbers), plain)
    for site, head in ((place[0], 1), (Site("cross", 0), 2), (place[0], "mean")):
        assert card.behaviors_of(site, head) == ()


@pytest.mark.parametrize("content", ["{", json.dumps([GOOD]), json.dumps(GOOD | {"opens": {}}), None], ids=str)
def test_a_missing_or_damaged_card_is_named(content, tmp_path, monkeypatch):
    monkeypatch.setattr(cards, "folder", lambda name: tmp_path)
    if content:
        (tmp_path / "card.json").write_text(content)

    with pytest.raises(AttnvizError, match=r"^The card broken/card\.json is missing or damaged\.$"):
        cards.card.__wrapped__("broken")
