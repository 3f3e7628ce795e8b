"""Roles are suggested from numbers, with the numbers, and only where these are high."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import api
from attnviz.analysis.heads import THRESHOLDS, head_metrics, roles


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


@given(st.fixed_dictionaries({rule.metric: st.floats(0, 1) for rule in THRESHOLDS}), st.integers(1, 40))
def test_evidence_repeats_the_number_and_says_of_how_many_texts(numbers, texts):
    """Every role reaches the threshold of its rule, the strongest comes first, and nothing is claimed beyond."""
    found = roles(numbers | {"texts": texts})
    where = "on this text" if texts == 1 else f"on average over {texts} texts"
    rules = {rule.name: rule for rule in THRESHOLDS}

    assert [role.value for role in found] == sorted((role.value for role in found), reverse=True)
    for role in found:
        rule = rules[role.name]
        assert role.value == numbers[rule.metric] >= rule.least
        assert role.evidence == f"{role.name}: {role.value:.2f} {where}"
    assert {role.name for role in found} >= {
        rule.name for rule in THRESHOLDS if rule.unless is None and numbers[rule.metric] >= rule.least
    }
