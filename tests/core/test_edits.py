"""Edits as values: what is changed, in words, in JSON, and refused if it means nothing."""

import math

import pytest
import torch

from attnviz import api
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Window
from attnviz.core.scoring import ALiBi, RelativeBias

FIRST, SECOND = Site("encoder", 0), Site("decoder", 1)


def test_the_json_of_edits_can_be_read():
    """Programs read it from the shell, so it stays as it is, in one order."""
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
        "mask": "window(2)",
        "own_mask": False,
        "heads_off": [["decoder", 1, 0], ["encoder", 0, 1], ["encoder", 0, 3]],
        "temperature": 0.5,
        "scale": 1.0,
        "softcap": 30.0,
        "empty_rows": "uniform",
        "bias": [{"bias": "alibi"}, {"bias": "relative", "seed": 7}],
    }
    assert given.in_words() == (
        "built-in mask off",
        "mask: window (2 before, 0 after)",
        "head 0 of decoder layer 1 off",
        "head 1 of encoder layer 0 off",
        "head 3 of encoder layer 0 off",
        "temperature 0.5",
        "scale 1",
        "bias: ALiBi",
        "bias: relative bias (32 buckets, seed 7)",
        "softcap 30",
        "empty rows: uniform",
    )


def test_scale_and_temperature_of_one_layer_leave_the_others():
    """Against the weights of the untouched run in the layer before, and a softmax of its scores in this one."""
    site, other = Site("decoder", 1), Site("decoder", 0)
    plain = api.analyze("the cat sat", "story")
    changed = api.analyze("the cat sat", "story", edits=Edits(temperature=0.5, scored_site=site))
    everywhere = api.analyze("the cat sat", "story", edits=Edits(temperature=0.5))

    assert torch.equal(changed.step(other).weights(0), plain.step(other).weights(0))
    assert torch.equal(changed.step(site).query, plain.step(site).query)
    scores = plain.step(site).masked_scores(0).double() / 0.5
    assert changed.step(site).weights(0).double() == pytest.approx(scores.softmax(-1), abs=1e-6)
    assert not torch.equal(everywhere.step(other).weights(0), plain.step(other).weights(0))
    assert changed.edits.in_words() == ("temperature 0.5 in decoder layer 1",)
    assert Edits(scored_site=site) == Edits()


def test_what_means_nothing_is_refused():
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
