"""What a model says after each word it reads."""

import pytest
from pictures import (
    bars,
    data,
    said,
    step_by_step,
    story_of,
    translation_of,
)

CAR = ["the", "car", "<eos>"]
LA_VOITURE = ({"la": 0.9, "le": 0.1}, {"voiture": 0.7, "chat": 0.3}, {"<eos>": 1.0})
LA_CHAT_NOIR = ({"la": 0.9, "le": 0.1}, {"voiture": 0.4, "chat": 0.6}, {"noir": 1.0}, {"<eos>": 0.8, "et": 0.2})


def texts(chart):
    """The words of a picture, row by row, each after its position; not the numbers of bars."""
    return [[row["name"], row["text_0"], row["text_1"]] for row in data(chart, "rows")]


def captions(chart):
    """What columns are called."""
    (meta,) = data(chart, "meta")
    return [meta["caption_0"], meta["caption_1"]]


def test_a_translator_writes_word_by_word_what_it_then_reads():
    """The shift right: it reads <sos> and writes "la", reads "la" and writes "voiture", until <eos>."""
    chart = step_by_step(translation_of(CAR, *LA_VOITURE))

    assert texts(chart) == [["0", "<sos>", "▸ la"], ["1", "la", "▸ voiture"], ["2", "voiture", "▸ <eos>"]]
    assert bars(chart, 2) == pytest.approx([0.9, 0.7, 1])
    assert captions(chart) == ["reads", "writes"]
    assert [row["text_2"] for row in data(chart, "rows")] == ["90.0%", "70.0%", "100.0%"]


def test_padding_is_left_out():
    chart = step_by_step(story_of(["the", "<pad>"], {"cat": 1.0}, {"are": 1.0}, length=1))

    assert texts(chart) == [["0", "the", "▸ cat"]]


def test_rows_that_predict_another_word_than_before_come_first():
    """One row per token, both words in it; the bar is of the new word, a hollow one around it of the old."""
    before = story_of(["the", "keys"], {"cat": 0.9, "is": 0.05, "are": 0.05}, {"is": 0.8, "are": 0.2})
    after = story_of(["the", "keys"], {"cat": 0.8, "is": 0.1, "are": 0.1}, {"is": 0.3, "are": 0.7})

    chart = step_by_step(after, before=before)

    assert texts(chart) == [["1", "keys", "▸ is → are"], ["0", "the", "▸ cat"]]
    assert bars(chart, 2) == pytest.approx([0.7, 0.8])
    assert bars(chart, 2, "before") == pytest.approx([0.8, 0.9])
    assert [row["text_2"] for row in data(chart, "rows")] == ["70.0%", "80.0%"]
    assert "hollow bar: before the change" in said(chart)
    assert "another word than before: 1 of 2 rows, first" in said(chart)
    assert "every word is as before the change" in said(step_by_step(before, before=before))


def test_where_another_text_was_written_each_run_says_what_it_read():
    """What one of them did not reach has a dash."""
    chart = step_by_step(translation_of(CAR, *LA_CHAT_NOIR), before=translation_of(CAR, *LA_VOITURE))

    assert texts(chart) == [
        ["1", "la", "▸ voiture → chat"],
        ["2", "chat", "▸ <eos> → noir"],
        ["3", "noir", "▸ – → <eos>"],
        ["0", "<sos>", "▸ la"],
    ]


def test_of_a_long_text_the_rows_that_changed_most_are_drawn():
    """Other words first, then other probabilities; with nothing to compare, the first forty."""
    before = [{"x": 0.6, "y": 0.4}] * 100
    after = [{"x": 0.6 + i / 1000, "y": 0.4 - i / 1000} for i in range(100)]
    after[3] = {"x": 0.4, "y": 0.6}
    long = [story_of([f"w{i}" for i in range(100)], *positions) for positions in (before, after)]

    chart, alone = step_by_step(long[1], before=long[0]), step_by_step(long[0])

    assert [int(row[0]) for row in texts(chart)] == [3, *range(61, 100)]
    assert "the 40 of 100 rows that changed most" in said(chart)
    assert [int(row[0]) for row in texts(alone)] == list(range(40))
    assert "the first 40 of 100 rows" in said(alone)
