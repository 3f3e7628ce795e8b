"""What a model expects next."""

import math
from dataclasses import replace

import pytest
from pictures import (
    SITE,
    bars,
    draw,
    names,
    next_word,
    record_of,
    said,
    story_of,
    texts,
    translation_of,
)

from attnviz.analysis.sentences import OTHER_WORDS
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.figures.outputs import HOLLOW, NO_NUMBERS, OTHERS

KEYS = ["the", "keys"]
BEFORE = story_of(KEYS, {"cat": 1.0}, {"is": 0.88, "are": 0.1, "was": 0.02})
EDITS = Edits(heads_off=frozenset({(SITE, 1)}))
AFTER = story_of(KEYS, {"cat": 1.0}, {"is": 0.2, "are": 0.75, "was": 0.05}, edits=EDITS)


def without_numbers(record):
    logits = record.prediction.logits * math.nan
    return replace(record, prediction=replace(record.prediction, logits=logits))


def test_before_and_after_a_change_each_word_has_a_bar_in_a_hollow_one():
    """What changed most comes first, here what was most probable before; told apart by place, by fill and in words.

    The largest has the whole length: of small probabilities much is seen, too.
    """
    chart = next_word(AFTER, 1, before=BEFORE, count=2)

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
    neither, broken = next_word(without_numbers(BEFORE), 1), next_word(without_numbers(AFTER), 1, before=BEFORE)

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
            next_word(BEFORE, position)
    with pytest.raises(InputError, match="predicts no words"):
        next_word(record_of(KEYS), 0)
    with pytest.raises(InputError, match="different words"):
        next_word(BEFORE, 0, before=story_of(KEYS, {"x": 1.0}, {"y": 1.0}))
