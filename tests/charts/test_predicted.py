"""Predictions of a model: next words, labels, words for blanks, step by step; and how far an edit moved its output."""

import math
from dataclasses import replace

import pytest
from pictures import (
    SITE,
    bars,
    change,
    data,
    draw,
    filled_of,
    labels,
    labels_of,
    names,
    next_word,
    record_of,
    said,
    step_by_step,
    story_of,
    texts,
    title,
    translation_of,
)

from attnviz import analysis, figures
from attnviz.analysis import sentences
from attnviz.analysis.sentences import NO_BLANK, OTHER_WORDS
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.figures.outputs import HOLLOW, MOST_LABELS, NO_NUMBERS, OTHERS

KEYS = ["the", "keys"]
KEYS_BEFORE = story_of(KEYS, {"cat": 1.0}, {"is": 0.88, "are": 0.1, "was": 0.02})
EDITS = Edits(heads_off=frozenset({(SITE, 1)}))
KEYS_AFTER = story_of(KEYS, {"cat": 1.0}, {"is": 0.2, "are": 0.75, "was": 0.05}, edits=EDITS)


def without_numbers(record):
    logits = record.prediction.logits * math.nan
    return replace(record, prediction=replace(record.prediction, logits=logits))


def test_before_and_after_a_change_each_word_has_a_bar_in_a_hollow_one():
    """The word that changed most comes first, here the most probable one before; place, fill and words tell them apart.

    The largest has the whole length: of small probabilities much is seen, too.
    """
    chart = next_word(KEYS_AFTER, 1, before=KEYS_BEFORE, count=2)

    assert names(chart) == ["is", "are", OTHERS]
    assert bars(chart, field="before") == pytest.approx([1, 0.1 / 0.88, 0.02 / 0.88])
    assert bars(chart) == pytest.approx([0.2 / 0.88, 0.75 / 0.88, 0.05 / 0.88])
    assert texts(chart) == ["88.0% → 20.0%", "10.0% → 75.0%", "2.0% → 5.0%"]
    assert HOLLOW in said(chart)


def test_a_run_that_had_read_other_words_is_not_compared():
    """An encoder-decoder wrote another text: at the first word both have read <sos>, at the third they have not."""
    last = {"dort": 0.0, "<eos>": 1.0}
    before = translation_of(["cat"], {"le": 1.0}, {"chat": 0.9, "chien": 0.1}, last)
    after = translation_of(["cat"], {"le": 1.0}, {"chat": 0.2, "chien": 0.8}, {"dort": 1.0}, last)

    for position, alike in ((0, True), (1, True), (2, False), (3, False)):
        chart = next_word(after, position, before=before)
        assert (HOLLOW in said(chart)) == alike
        assert (OTHER_WORDS in said(chart)) == (not alike)


def test_probabilities_that_are_no_numbers_have_no_bars():
    neither, broken = (
        next_word(without_numbers(KEYS_BEFORE), 1),
        next_word(without_numbers(KEYS_AFTER), 1, before=KEYS_BEFORE),
    )

    assert NO_NUMBERS in said(neither)
    assert bars(neither) == []
    assert texts(broken) == [
        "88.0% → NaN",
        "10.0% → NaN",
        "2.0% → NaN",
        "0.0% → NaN",
    ]
    assert names(broken) == ["is", "are", "was", "cat"]
    assert draw(neither.to_dict(), broken.to_dict())[1].std() > 5


def test_what_cannot_be_asked_is_said():
    for position in (-1, 2):
        with pytest.raises(InputError, match=f"no position {position}; there are 2"):
            next_word(KEYS_BEFORE, position)
    with pytest.raises(InputError, match="predicts no words"):
        next_word(record_of(KEYS), 0)
    with pytest.raises(InputError, match="different words"):
        next_word(KEYS_BEFORE, 0, before=story_of(KEYS, {"x": 1.0}, {"y": 1.0}))


RATED_TEXT = ["not", "bad"]
RATED_BEFORE, RATED = labels_of(RATED_TEXT, [0.0, 0.0, math.log(2)]), labels_of(RATED_TEXT, [math.log(6), 0.0, 0.0])


def test_of_many_classes_the_most_probable_are_drawn_and_the_table_holds_all():
    record = labels_of(RATED_TEXT, [float(i) for i in range(40)], names=[f"n{i}" for i in range(40)])

    assert names(labels(record)) == [f"n{39 - i}" for i in range(MOST_LABELS)]
    assert f"the {MOST_LABELS} most probable of 40 labels" in said(labels(record))
    assert len(figures.labels(record).table) == 40


def test_numbers_words_and_arrays_of_labels():
    figure = figures.labels(RATED, before=RATED_BEFORE)

    assert figure.name == "test-labels-not-bad"
    assert figure.table["probability"].tolist() == pytest.approx([0.75, 0.125, 0.125])
    assert figure.table["probability_before"].tolist() == pytest.approx([0.25, 0.25, 0.5])
    assert figure.arrays["labels"].tolist() == ["bad", "so so", "good"]
    assert figure.description.startswith("The most probable of 3 labels: “bad” 75.0% (before the change 25.0%), ")


def test_labels_that_are_no_numbers_and_models_without():
    broken = labels_of(RATED_TEXT, [math.nan] * 3)

    assert NO_NUMBERS in said(labels(broken))
    with pytest.raises(InputError, match="'test' does not classify"):
        labels(record_of(RATED_TEXT))
    with pytest.raises(InputError, match="different labels"):
        labels(RATED_BEFORE, before=labels_of(RATED_TEXT, [1.0], names=["x"]))


BLANK_TEXT = ["a", "[M]", "sat", "[M]"]
OTHER = {"x": 1.0}
FILLED_BEFORE = filled_of(BLANK_TEXT, [1, 3], OTHER, {"cat": 0.75, "dog": 0.25}, OTHER, {"down": 1.0})
FILLED = filled_of(BLANK_TEXT, [1, 3], OTHER, {"cat": 0.25, "dog": 0.75}, OTHER, {"down": 1.0})
NO_BLANKS = filled_of(["a", "cat"], [], OTHER, OTHER)


def test_a_blank_has_the_words_that_may_stand_in_its_place():
    chart = next_word(FILLED, 1, before=FILLED_BEFORE, count=2)

    assert title(chart) == "Most probable in place of “[M]” (1) · story"
    assert names(chart) == ["dog", "cat"]
    assert figures.next_word(FILLED, 1).name == "story-blank-1-a-M-sat-M"
    assert sentences.next_word(FILLED, 1, count=1) == "Most probable in place of “[M]” (1): “dog” 75.0%."


def test_a_run_that_read_another_word_anywhere_is_not_compared():
    """Such a model reads both sides of a blank."""
    tokens = list(FILLED_BEFORE.sentences[0].tokens)
    tokens[2] = replace(tokens[2], text="ran")
    other = replace(FILLED_BEFORE, sentences=(replace(FILLED_BEFORE.sentences[0], tokens=tuple(tokens)),))

    assert analysis.next_words(FILLED, 1, before=FILLED_BEFORE)[0].before == pytest.approx(0.25)
    assert analysis.next_words(FILLED, 1, before=other)[0].before is None


def test_where_there_is_no_blank_the_picture_says_so():
    chart = step_by_step(NO_BLANKS, before=NO_BLANKS)

    assert NO_BLANK in said(chart)
    assert names(chart) == []
    assert figures.step_by_step(NO_BLANKS).form.spec == figures.step_by_step(FILLED_BEFORE).form.spec
    assert figures.step_by_step(NO_BLANKS).description == "There is no blank in the sentence to fill in."
    assert figures.step_by_step(NO_BLANKS).table.empty


OFF = Edits(heads_off=frozenset({(SITE, 1)}))


def test_of_a_long_sentence_the_tokens_that_moved_most_are_drawn():
    """Forty of them, in the order of the text, and the picture says so."""
    tokens = [f"w{i}" for i in range(100)]
    before, after = record_of(tokens), record_of(tokens, edits=OFF)
    moved = analysis.output_change(before, after)

    chart = change(before, after)

    most = sorted(moved.topk(40).indices.tolist())
    assert names(chart) == [tokens[i] for i in most]
    assert bars(chart) == pytest.approx([(moved[i] / moved.max()).item() for i in most])
    assert "40 of 100 tokens" in said(chart)


CAR = ["the", "car", "<eos>"]
LA_VOITURE = ({"la": 0.9, "le": 0.1}, {"voiture": 0.7, "chat": 0.3}, {"<eos>": 1.0})


def rows_of(chart):
    """The words of a picture, row by row, each after its position; not the numbers of bars."""
    return [[row["name"], row["text_0"], row["text_1"]] for row in data(chart, "rows")]


def captions(chart):
    """Return the captions of the columns."""
    (meta,) = data(chart, "meta")
    return [meta["caption_0"], meta["caption_1"]]


def test_a_translator_writes_word_by_word_what_it_then_reads():
    """The shift right: it reads <sos> and writes "la", reads "la" and writes "voiture", until <eos>."""
    chart = step_by_step(translation_of(CAR, *LA_VOITURE))

    assert rows_of(chart) == [["0", "<sos>", "▸ la"], ["1", "la", "▸ voiture"], ["2", "voiture", "▸ <eos>"]]
    assert bars(chart, 2) == pytest.approx([0.9, 0.7, 1])
    assert captions(chart) == ["reads", "writes"]
    assert [row["text_2"] for row in data(chart, "rows")] == ["90.0%", "70.0%", "100.0%"]


def test_rows_that_predict_another_word_than_before_come_first():
    """One row per token, both words in it; the bar is of the new word, a hollow one around it of the old."""
    before = story_of(["the", "keys"], {"cat": 0.9, "is": 0.05, "are": 0.05}, {"is": 0.8, "are": 0.2})
    after = story_of(["the", "keys"], {"cat": 0.8, "is": 0.1, "are": 0.1}, {"is": 0.3, "are": 0.7})

    chart = step_by_step(after, before=before)

    assert rows_of(chart) == [["1", "keys", "▸ is → are"], ["0", "the", "▸ cat"]]
    assert bars(chart, 2) == pytest.approx([0.7, 0.8])
    assert bars(chart, 2, "before") == pytest.approx([0.8, 0.9])
    assert [row["text_2"] for row in data(chart, "rows")] == ["70.0%", "80.0%"]
    assert "hollow bar: before the change" in said(chart)
    assert "another word than before: 1 of 2 rows, listed first" in said(chart)
    assert "every word is as before the change" in said(step_by_step(before, before=before))


def test_of_a_long_text_the_rows_that_changed_most_are_drawn():
    """Other words first, then other probabilities; with nothing to compare, the first forty."""
    before = [{"x": 0.6, "y": 0.4}] * 100
    after = [{"x": 0.6 + i / 1000, "y": 0.4 - i / 1000} for i in range(100)]
    after[3] = {"x": 0.4, "y": 0.6}
    long = [story_of([f"w{i}" for i in range(100)], *positions) for positions in (before, after)]

    chart, alone = step_by_step(long[1], before=long[0]), step_by_step(long[0])

    assert [int(row[0]) for row in rows_of(chart)] == [3, *range(61, 100)]
    assert "the 40 of 100 rows that changed most" in said(chart)
    assert [int(row[0]) for row in rows_of(alone)] == list(range(40))
    assert "the first 40 of 100 rows" in said(alone)
