"""The shipped translator does what its card says, measured on sentences that it was never trained on."""

import json
import random

import pytest
import torch

from attnviz.models import trained
from attnviz.sources import cards
from attnviz.tokenizers import vocabulary
from attnviz.training.translator import RECIPE, card, evidence, measure, recipe

SENTENCES = 150
NOISE = 0.06
"""Three standard errors of a share near 95 % of so many sentences."""


@pytest.fixture(scope="module")
def found() -> evidence.Measured:
    torch.set_num_threads(1)
    return evidence.look(SENTENCES)


@pytest.fixture(scope="module")
def told() -> cards.Card:
    return cards.card(RECIPE.name)


def translated(text: str) -> list[str]:
    english = [token.id for token in recipe.ENGLISH.encode(text)]
    [ids] = recipe.translate(trained.load(RECIPE.name), [[*english, recipe.END]])
    return [recipe.FRENCH.names[id] for id in ids]


def test_held_out_sentences_are_translated_right(found):
    """In every word; the goal is that of the card, less what so few sentences may miss by chance."""
    assert measure.exact(found.made, found.pairs) >= evidence.EXACT - 0.025


def test_one_head_alone_recovers_the_alignment(found, told):
    """The head that the app opens on; it is far above chance."""
    site, head = told.opens
    share = found.looks.shares[site, head, "alignment"]

    assert share.value >= evidence.ALIGNED
    assert share.by_chance < 0.2


def test_without_the_layer_of_the_aligning_head_little_is_right(found, told):
    """One head alone is backed up by the others; all of them are not."""
    site, _ = told.opens
    layer = [(site, head) for head in range(RECIPE.config.num_heads)]

    assert found.exact(*layer) < 0.2
    assert found.exact(told.opens) > 0.5


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


@pytest.mark.parametrize(("text", "written"), [*zip(evidence.EXAMPLES, TRANSLATIONS, strict=True)])
def test_every_example_is_translated_right(text, written):
    assert not recipe.ENGLISH.unknown(text)
    assert translated(text) == written.split()


def test_a_full_stop_is_written_where_one_is_read():
    """The same sentence with and without."""
    assert translated("The cat sat down.") == [*translated("The cat sat down"), "."]


def test_the_shipped_vocabularies_are_those_of_the_grammar():
    shipped = vocabulary.read(trained.folder(RECIPE.name) / "vocabulary.json")

    assert shipped == {"english": recipe.ENGLISH, "french": recipe.FRENCH}


def test_the_card_says_what_is_measured(found, told):
    """On fewer sentences, so within the error of a sample."""
    now = evidence._measured(found)

    assert len(now) == len(told.measured)
    for measured, again in zip(told.measured, now, strict=True):
        assert measured.value == pytest.approx(again["value"], abs=2 * NOISE if "off" in measured.what else NOISE)


def test_goals_on_the_card_are_reached(told):
    goals = [measured for measured in told.measured if measured.goal is not None]

    assert len(goals) == 2
    assert all(measured.value >= measured.goal for measured in goals)


def test_every_finding_names_heads_that_there_are(told):
    for found in told.behaviors:
        assert found.site in RECIPE.config.sites
        assert set(found.heads) <= set(range(RECIPE.config.num_heads))
        assert found.does.startswith("looks ")


def test_the_card_is_json_that_can_be_made_again():
    """On a handful of sentences: every part is there, and nothing but JSON."""
    made = card(12)

    assert json.loads(json.dumps(made)) == made
    assert cards._card(made).examples == evidence.EXAMPLES


def test_an_untrained_model_aligns_no_better_than_chance():
    """The measure itself gives nothing away: at step 0 no head recovers the alignment."""
    pairs = recipe.held_out(30, seed=3)
    shares = measure.looks(trained.load(RECIPE.name, 0), pairs).shares

    assert max(share.value for (_, _, name), share in shares.items() if name == "alignment") < 0.3


def test_the_loss_falls_when_the_model_knows():
    """The trained model is far less surprised than the one before its training."""
    losses = [float(recipe.loss(trained.load(RECIPE.name, step), random.Random(0))) for step in (0, None)]

    assert losses[1] < 0.3 < 5 < losses[0]
