"""Roles are suggested from numbers, with the numbers, and only where these are high."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnviz import api
from attnviz.analysis.heads import METRICS, THRESHOLDS, head_metrics, roles


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


def test_what_is_not_known_suggests_nothing():
    """A missing number is no zero and no evidence; an even head of cross-attention is still even."""
    row = pd.Series({one.name: pd.NA for one in METRICS} | {"evenness": 0.95})

    assert [role.name for role in roles(row)] == ["looks evenly"]
    assert roles({}) == ()


def test_a_first_token_that_is_special_is_named_once():
    """[CLS] is both; the sink explains the share of special tokens."""
    assert [role.name for role in roles({"first": 0.7, "special": 0.9})] == ["first token (sink)"]
    assert [role.name for role in roles({"first": 0.2, "special": 0.9})] == ["special tokens"]


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


def test_a_role_says_how_often_it_fails_where_that_is_known():
    """Of many texts, the share on which the number is below the threshold."""
    role = roles({"previous": 0.91, "previous_fails": 0.03, "texts": 200, "previous_texts": 200})[0]

    assert role.evidence == ("previous token: 0.91 on average over 200 texts; in 3% of them it fails (is below 0.6)")
    assert role.fails == 0.03
