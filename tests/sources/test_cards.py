"""Cards of models: read as they are written, or refused in one sentence that names the file."""

import json

import pytest
import tiny

from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.sources import cards
from attnviz.sources.cards import Behavior, Measure

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
