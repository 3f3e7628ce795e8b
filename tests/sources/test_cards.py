"""Cards of models: read as they are written, or refused in one sentence that names the file."""

import json

import pytest
import tiny

from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError
from attnviz.sources import cards
from attnviz.sources.cards import Behavior, Measure

GOOD = tiny.card("translator")


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Reads a card from the bytes of its file."""
    patch = pytest.MonkeyPatch()
    folder = tiny.install(tmp_path_factory.mktemp("assets"), patch)

    def read(content):
        (folder / "translator" / "card.json").write_bytes(content)
        cards.card.cache_clear()
        return cards.card("translator")

    yield read
    patch.undo()
    tiny.forget()


def test_a_card_is_read_as_it_is_written(read):
    card = read(json.dumps(GOOD).encode())

    assert card.opens == (Site("cross", 1), 2)
    assert card.measured == (Measure("of 100 sentences are right", 0.125, 0.9),)
    assert card.behaviors == (Behavior(Site("cross", 1), (2,), "about", "looks about", "Seen once."),)
    assert card.curve == ((0, None, 0.0), (300, 1.5, 0.125))
    assert (card.name, card.sizes) == ("translator", {"words": 17, "parameters": 12345})


def test_what_is_known_of_a_head_is_found_by_its_place(read):
    """Of that head alone; of heads combined nothing is known."""
    card = read(json.dumps(GOOD).encode())

    assert card.behavior(Site("cross", 1), 2) == card.behaviors[0]
    for site, head in ((Site("cross", 1), 1), (Site("cross", 0), 2), (Site("cross", 1), "mean")):
        assert card.behavior(site, head) is None


def test_a_head_with_two_roles_keeps_the_numbers_of_each(read):
    """Apart where they are shown; together they are words alone, since one number would stand for both."""
    one = GOOD["findings"][0] | {"rates": [0.5]}
    card = read(json.dumps(GOOD | {"findings": [one, one | {"does": "looks up", "rates": [0.25]}]}).encode())
    both = card.behavior(Site("cross", 1), 2)

    assert [found.rates for found in card.behaviors_of(Site("cross", 1), 2)] == [(0.5,), (0.25,)]
    assert (both.does, both.rates) == ("looks about, and looks up", ())


def without(name):
    return {key: value for key, value in GOOD.items() if key != name}


SPOILED = {
    **{f"no {name}": without(name) for name in ("title", "findings", "opens")},
    "a list": [GOOD],
    "title a number": GOOD | {"title": 3},
    "no example": GOOD | {"examples": []},
    "sizes a list": GOOD | {"sizes": [1]},
    "measure above 1": GOOD | {"measured": [{"what": "x", "value": 97.0, "goal": None}]},
    "measure NaN": GOOD | {"measured": [{"what": "x", "value": float("nan"), "goal": None}]},
    "site of no kind": GOOD | {"opens": {"kind": "middle", "layer": 0, "head": 0}},
    "head below 0": GOOD | {"opens": {"kind": "cross", "layer": 0, "head": -1}},
    "more rates than heads": GOOD | {"findings": [GOOD["findings"][0] | {"rates": [0.5, 0.5]}]},
    "a number of no name": GOOD | {"findings": [GOOD["findings"][0] | {"luck": 0.5}]},
    "point without a score": GOOD | {"curve": [{"step": 0, "loss": None}]},
}


@pytest.mark.parametrize("spoiled", SPOILED.values(), ids=SPOILED)
def test_a_damaged_card_is_refused(read, spoiled):
    with pytest.raises(AttnvizError, match=r"^The card translator/card\.json is missing or damaged\.$"):
        read(json.dumps(spoiled).encode())


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000], ids=lambda c: str(c[:3]))
def test_what_is_no_json_is_refused(read, content):
    with pytest.raises(AttnvizError, match=r"^The card translator/card\.json is missing or damaged\.$"):
        read(content)


def test_a_missing_card_is_named():
    with pytest.raises(AttnvizError, match=r"^The card none/card\.json is missing or damaged\.$"):
        cards.card("none")
