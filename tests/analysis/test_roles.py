"""Roles are suggested from numbers, with the numbers, and only where these are high."""

import pytest

from attnviz import api
from attnviz.analysis.heads import head_metrics, roles


def test_heads_set_by_hand_are_called_what_they_were_set_to():
    """On a text in which tokens come again; the sink head is not taken for anything else."""
    table = head_metrics(api.analyze("a b c d e a b c d e a b c d e", "constructed"))
    found = {(row["layer"], row["head"]): roles(row) for _, row in table.iterrows()}

    names = {at: [role.name for role in each] for at, each in found.items()}
    assert names[0, 0] == ["previous token"]
    assert names[0, 1] == ["first token (sink)"]
    assert names[0, 2] == ["itself", "same token elsewhere"]
    assert names[0, 3] == ["looks evenly"]
    assert names[1, 0] == ["induction"]
    assert names[1, 1] == ["itself"]
    assert names[1, 2] == []
    assert found[0, 0][0].evidence == "previous token: 1.00 on this text"
    assert found[0, 0][0].value == pytest.approx(1, abs=1e-3)


def test_evidence_says_on_how_many_texts_and_where_it_fails():
    (role,) = roles({"texts": 9, "previous": 0.75, "previous_texts": 8, "previous_fails": 0.25, "next": 0.59})

    assert role.evidence == "previous token: 0.75 on 8 of 9 texts; in 25% of them it fails (is below 0.6)"
    assert roles({"special": 0.9, "first": 0.9})[0].name == "first token (sink)"
    assert [role.name for role in roles({"texts": 2, "special": 0.9})] == ["special tokens"]
