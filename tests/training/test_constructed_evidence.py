"""The card of the model built by hand says what is measured."""

import json
from random import Random

import pytest

from attnviz.models import constructed as model
from attnviz.models import trained
from attnviz.sources import cards
from attnviz.training import constructed


@pytest.fixture(scope="module")
def fresh():
    return constructed.card(60)


def test_every_head_meets_its_goal(fresh):
    """On random tokens and on English texts at least 99.9 % of each head's weight is where it should be."""
    assert len(fresh["measured"]) == 2 * len(constructed.PATTERNS) == 16

    for measure in fresh["measured"]:
        assert measure["value"] >= measure["goal"] == 0.999, measure["what"]


def test_no_weight_is_far_from_the_ideal_picture():
    _, worst = constructed.measure(constructed.random_tokens(Random(3), 60) + constructed.real_sentences(60))

    assert worst < 1e-3


def test_the_shipped_card_is_what_a_fresh_measurement_gives(fresh):
    """Word for word but for the numbers, and those within 0.1 %."""
    shipped = json.loads((trained.folder("constructed") / "card.json").read_text(encoding="utf-8"))

    assert {key: shipped[key] for key in shipped if key not in ("measured", "findings")} == {
        key: fresh[key] for key in fresh if key not in ("measured", "findings")
    }
    for old, new in zip(shipped["measured"], fresh["measured"], strict=True):
        assert old["what"] == new["what"]
        assert old["value"] == pytest.approx(new["value"], abs=1e-3)
    for old, new in zip(shipped["findings"], fresh["findings"], strict=True):
        assert [old[name] for name in ("kind", "layer", "heads", "role", "does")] == [
            new[name] for name in ("kind", "layer", "heads", "role", "does")
        ]
        for name in ("shares", "off"):
            assert old[name] == pytest.approx(new[name], abs=0.02)


def test_every_head_has_a_finding():
    card = cards.card("constructed")

    for site in model.ConstructedHeads.sites:
        for head in range(model.ConstructedHeads.num_heads):
            assert card.behavior(site, head).does.startswith("looks at ")


def test_texts_are_drawn_from_the_seed_alone():
    first, again, other = (constructed.random_tokens(Random(seed), 5) for seed in (0, 0, 1))

    assert all(one.equal(two) for one, two in zip(first, again, strict=True))
    assert not all(one.equal(two) for one, two in zip(first, other, strict=True))
