"""What an edit did to the output."""

import pytest
from pictures import HOSTILE, SITE, data, draw, record_of, without_data

from attnviz import metrics
from attnviz.charts.change import WIDTH, change
from attnviz.core.edits import Edits

WORDS = ["The", "cat", "sat"]
OFF = Edits(heads_off=frozenset({(SITE, 1)}))


def bars(chart):
    return data(chart, "tokens of change")


def test_a_bar_is_as_long_as_its_token_moved():
    before, after = record_of(WORDS), record_of(WORDS, edits=OFF)
    moved = metrics.output_change(before, after).tolist()

    rows = bars(change(before, after))

    assert [row["change"] for row in rows] == moved
    assert [row["length"] for row in rows] == pytest.approx([m / max(moved) * WIDTH for m in moved])
    assert rows[0]["text"] == f"{moved[0]:.1%}"


def test_a_token_that_did_not_move_says_zero():
    record = record_of(WORDS)

    assert [(row["length"], row["text"]) for row in bars(change(record, record))] == [(0, "0")] * 3


def test_the_specification_stays_while_the_edit_changes():
    before = record_of(WORDS)

    assert without_data(change(before, before)) == without_data(change(before, record_of(WORDS, edits=OFF)))


def test_hostile_tokens_are_drawn():
    before, after = record_of(list(HOSTILE)), record_of(list(HOSTILE), edits=OFF)

    for image in draw(change(before, after).to_dict(), change(before, after, dark=True).to_dict()):
        assert image.std() > 5
