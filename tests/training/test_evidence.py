"""The cards of the shipped models say what is measured, and what is measured says what heads look at."""

import json
import re
from importlib import import_module

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnviz.core.edits import Site
from attnviz.models import trained
from attnviz.sources import cards
from attnviz.training import probe
from attnviz.training.probe import Look, Role

NUMBERS = {"translator": 50, "story": 120, "induction": 200, "shapes": 300}


@pytest.mark.parametrize("name", NUMBERS)
def test_the_shipped_card_says_what_a_fresh_measurement_says(name):
    """Row by row within the error of a sample, and role by role where the numbers are clear."""
    shipped = json.loads((trained.folder(name) / "card.json").read_text(encoding="utf-8"))
    fresh = import_module(f"attnviz.training.{name}").card(NUMBERS[name])

    cards.from_json(fresh)  # can be read
    assert {key: shipped[key] for key in shipped if key not in ("measured", "findings")} == {
        key: fresh[key] for key in fresh if key not in ("measured", "findings")
    }
    for old, new in zip(shipped["measured"], fresh["measured"], strict=True):
        assert re.sub(r"[\d,]+", "", old["what"]) == re.sub(r"[\d,]+", "", new["what"])
        assert old["goal"] == new["goal"]
        assert old["value"] == pytest.approx(new["value"], abs=0.12), old["what"]
        assert old["goal"] is None or min(old["value"], new["value"] + 0.03) >= old["goal"]
    for some, other in ((shipped, fresh), (fresh, shipped)):
        clear = [finding for finding in some["findings"] if max(finding.get("rates", finding.get("shares"))) > 0.7]
        assert set(map(role_of, clear)) <= set(map(role_of, other["findings"]))


def role_of(finding):
    return finding["kind"], finding["layer"], *finding["heads"], finding["role"]


IDS = st.lists(st.integers(0, 3), min_size=1, max_size=9)


@given(IDS)
def test_patterns_are_what_their_names_say(ids):
    """Each by a loop over rows and keys that see no future."""
    tensor, n = torch.tensor([ids]), range(len(ids))
    meant = {
        probe.causal: lambda q, k: True,
        probe.back: lambda q, k: k == q - 1,
        lambda ids: probe.back(ids, 0): lambda q, k: k == q,
        lambda ids: probe.back(ids, 2): lambda q, k: k == q - 2,
        probe.after_same: lambda q, k: k > 0 and ids[k - 1] == ids[q],
    }
    for pattern, is_meant in meant.items():
        assert pattern(tensor)[0].tolist() == [[k <= q and bool(is_meant(q, k)) for k in n] for q in n]


def test_a_finding_is_told_of_the_head_that_does_it():
    """A head that looks elsewhere, or spreads its weight, has no role; switching off is asked of the head itself."""
    heads = [(Site("decoder", 0), head) for head in range(3)]
    looks = [Look(10, 0.9, 0.8, 0.1), Look(10, 0.9, 0.3, 0.1), Look(10, 0.5, 0.8, 0.1)]
    findings = probe.findings(
        {head: {"a": look} for head, look in zip(heads, looks, strict=True)},
        {"a": Role("role", "looks at it")},
        lambda *off: 0.25 if off == (heads[0],) else 1.0,
        texts="10 texts",
        answers="words",
    )

    assert [(finding["heads"], finding["rates"], finding["off"]) for finding in findings] == [([0], [0.9], [0.25])]
    assert "25.0% of the words are right instead of 100.0%" in findings[0]["known"]
