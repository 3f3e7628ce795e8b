"""Edits as values: what is changed, in words, in JSON, and refused if it means nothing."""

import json
import math

import pytest
from hypothesis import given, settings
from strategies import edits, hostile_json

from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.masks import Padding, Subsequent, Window
from attnviz.core.modifiers import ALiBi, RelativeBias

FIRST, SECOND = Site("encoder", 0), Site("decoder", 1)


@settings(max_examples=100)
@given(edits)
def test_edits_go_through_json_and_back(given):
    """As an object, and as text; equal values hash alike."""
    assert Edits.from_json(given.to_json()) == given
    assert Edits.from_json(json.dumps(given.to_json())) == given
    assert hash(Edits.from_json(given.to_json())) == hash(given)


def test_no_edits_are_nothing():
    """In JSON and in words."""
    assert Edits().to_json() == {}
    assert Edits.from_json({}) == Edits.from_json("{}") == Edits()
    assert Edits().in_words() == ()


def test_the_json_of_edits_can_be_read():
    """It is part of links, so it stays as it is, in one order."""
    given = Edits(
        mask=Window(2),
        own_mask=False,
        heads_off=frozenset({(FIRST, 3), (FIRST, 1), (SECOND, 0)}),
        temperature=0.5,
        scale=1.0,
        empty_rows="uniform",
        bias=[ALiBi(), RelativeBias(seed=7)],
        softcap=30.0,
    )

    assert given.to_json() == {
        "mask": {"rule": "window", "before": 2, "after": 0},
        "own_mask": False,
        "heads_off": [["decoder", 1, 0], ["encoder", 0, 1], ["encoder", 0, 3]],
        "temperature": 0.5,
        "scale": 1.0,
        "softcap": 30.0,
        "empty_rows": "uniform",
        "bias": [{"bias": "alibi"}, {"bias": "relative", "seed": 7}],
    }
    assert given.in_words() == (
        "the model's own mask off",
        "mask: window (2 before, 0 after)",
        "decoder layer 1 head 0 off",
        "encoder layer 0 head 1 off",
        "encoder layer 0 head 3 off",
        "temperature 0.5",
        "scale 1",
        "bias: ALiBi",
        "bias: relative bias (32 buckets, seed 7)",
        "softcap 30",
        "empty rows: uniform",
    )


def test_heads_are_off_at_their_site_only():
    """And setting those of one site leaves the others."""
    given = Edits().with_heads_off(FIRST, {0, 2}).with_heads_off(SECOND, {1}).with_heads_off(FIRST, {3})

    assert given.off(FIRST) == {3}
    assert given.off(SECOND) == {1}
    assert given.off(Site("cross", 1)) == set()
    assert given.with_heads_off(FIRST, set()).with_heads_off(SECOND, set()) == Edits()


def test_edits_are_frozen():
    """A run cannot change what it was given."""
    with pytest.raises(AttributeError):
        Edits().temperature = 2
    with pytest.raises(AttributeError):
        FIRST.layer = 1


@settings(max_examples=400)
@given(hostile_json)
def test_hostile_json_is_edits_or_an_error_of_ours(data):
    """Whatever a link holds: never another exception, and what is taken comes back the same."""
    try:
        read = Edits.from_json(data)
    except AttnvizError:
        return

    assert Edits.from_json(read.to_json()) == read
    read.in_words()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ("9" * 5000, "cannot be read"),
        ("null", "cannot be read"),
        (None, "cannot be read"),
        (7, "cannot be read"),
        ([1, 2], "cannot be read"),
        ([[[], 1]], "cannot be read"),
        ({"heads": []}, "Edits have no 'heads'"),
        ({1: 2, "a": 3}, "Edits have no "),
        ({"mask": 3}, "A mask is an object with a rule; given 3"),
        ({"mask": "full"}, "not valid JSON"),
        ({"own_mask": "no"}, "cannot be read"),
        ({"own_mask": 0}, "cannot be read"),
        ({"own_mask": None}, "cannot be read"),
        ({"heads_off": None}, "cannot be read"),
        ({"heads_off": 3}, "cannot be read"),
        ({"heads_off": "encoder"}, "cannot be read"),
        ({"heads_off": [["encoder", 0]]}, "cannot be read"),
        ({"heads_off": [["engine", 0, 0]]}, "no site 'engine layer 0'; a kind is one of encoder, decoder, cross"),
        ({"heads_off": [["x" * 10_000, 0, 0]]}, "no site 'xxx"),
        ({"heads_off": [[["encoder"], 0, 0]]}, "no site"),
        ({"heads_off": [["encoder", 1000, 0]]}, "no site 'encoder layer 1000'"),
        ({"heads_off": [["encoder", -1, 0]]}, "no site 'encoder layer -1'"),
        ({"heads_off": [["encoder", 0, -1]]}, "no head -1 at encoder layer 0"),
        ({"heads_off": [["encoder", True, 0]]}, "whole numbers; given True"),
        ({"heads_off": [["encoder", 0, "1"]]}, "whole numbers; given '1'"),
        ({"heads_off": [["encoder", 0, 1.0]]}, "whole numbers; given 1.0"),
        ({"heads_off": [["encoder", math.inf, 0]]}, "whole numbers; given inf"),
        ({"temperature": 0}, "temperature is 0"),
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"temperature": 1e6}, "below 1,000,000"),
        ({"temperature": True}, "are numbers; given True"),
        ({"temperature": "2"}, "are numbers; given '2'"),
        ({"temperature": [2]}, "are numbers"),
        ({"temperature": None}, "cannot be read"),
        ({"temperature": 10**400}, "cannot be read"),
        ({"temperature": 10**5000}, "cannot be read"),
        ({"scale": math.nan}, "scale is nan"),
        ({"scale": -math.inf}, "scale is -inf"),
        ({"scale": False}, "are numbers; given False"),
        ({"scale": 10**400}, "cannot be read"),
        ({"softcap": 0}, "softcap is 0"),
        ({"softcap": -1}, "softcap is -1"),
        ({"softcap": math.nan}, "softcap is nan"),
        ({"softcap": math.inf}, "softcap is inf"),
        ({"softcap": "2"}, "are numbers; given '2'"),
        ({"softcap": 10**400}, "cannot be read"),
        ({"bias": {}}, "a list of at most 8"),
        ({"bias": None}, "a list of at most 8; given None"),
        ({"bias": [{"bias": "alibi"}] * 9}, "a list of at most 8"),
        ({"bias": ["alibi"]}, "The bias is not valid JSON"),
        ({"bias": [{"bias": "rope"}]}, "no bias 'rope'"),
        ({"empty_rows": "none"}, "must be one of zero, nan, uniform, error"),
        ({"empty_rows": None}, "must be one of"),
        ({"empty_rows": ["zero"]}, "must be one of"),
        ({"empty_rows": 10**5000}, "int too large to show"),
    ],
    ids=lambda x: x if isinstance(x, str) and len(x) < 60 else "",
)
def test_what_is_wrong_with_edits_is_said(data, says):
    """In one short sentence, for whoever opened the link."""
    with pytest.raises(AttnvizError) as refused:
        Edits.from_json(data)

    assert says in str(refused.value)
    assert len(str(refused.value)) < 300


def test_the_same_is_refused_when_edits_are_made_in_python():
    """A negative temperature would invert the weights; a head of -1 would mean the last."""
    for wrong in (
        {"temperature": -1.0},
        {"temperature": math.nan},
        {"scale": math.nan},
        {"empty_rows": "none"},
        {"softcap": 0.0},
        {"softcap": math.nan},
        {"bias": (3,)},
        {"heads_off": {(FIRST, -1)}},
    ):
        with pytest.raises(InputError):
            Edits(**wrong)


def test_sites_say_where_they_are_and_have_an_order():
    """By kind, then by layer."""
    assert str(SECOND) == "decoder layer 1"
    assert sorted([FIRST, Site("decoder", 10), SECOND]) == [SECOND, Site("decoder", 10), FIRST]


def test_edits_are_keys_of_what_is_kept_by_them():
    """Two equal edits, made apart, find the same entry."""
    made = [Edits(mask=Subsequent() & Padding([2, 3]), heads_off={(Site("encoder", 0), 1)}) for _ in range(2)]

    assert len({*made}) == 1
