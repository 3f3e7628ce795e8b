"""Models that fill in what is hidden: only blanks say something."""

from dataclasses import replace

import pytest
from pictures import (
    SITE,
    data,
    filled_of,
    heatmap,
    lines,
    mask_grid,
    names,
    next_word,
    notes,
    said,
    step_by_step,
    title,
)

from attnviz import analysis, figures
from attnviz.analysis import sentences
from attnviz.analysis.sentences import NO_BLANK
from attnviz.core.masks import Subsequent

TEXT = ["a", "[M]", "sat", "[M]"]
OTHER = {"x": 1.0}
BEFORE = filled_of(TEXT, [1, 3], OTHER, {"cat": 0.75, "dog": 0.25}, OTHER, {"down": 1.0})
AFTER = filled_of(TEXT, [1, 3], OTHER, {"cat": 0.25, "dog": 0.75}, OTHER, {"down": 1.0})
NONE = filled_of(["a", "cat"], [], OTHER, OTHER)


def test_rows_of_a_map_say_it_at_blanks_alone():
    """Where there is no blank there is no caption either, on maps and on masks."""
    chart = heatmap(BEFORE, SITE, 0)

    assert [row["note"] for row in data(chart, "rows")] == ["", "▸ cat", "", "▸ down"]
    for drawn in (heatmap(NONE, SITE, 0), mask_grid(Subsequent(), ["a", "cat"], predicted=["", ""])):
        assert notes(drawn) == []
        assert not any("predict" in text for text in (data(drawn, "meta")[0]["note_title"], *lines(drawn)))


def test_a_blank_has_the_words_that_may_stand_in_its_place():
    chart = next_word(AFTER, 1, before=BEFORE, count=2)

    assert title(chart) == "Most probable in place of “[M]” (1) · story"
    assert names(chart) == ["dog", "cat"]
    assert figures.next_word(AFTER, 1).name == "story-blank-1-a-M-sat-M"
    assert sentences.next_word(AFTER, 1, count=1) == "Most probable in place of “[M]” (1): “dog” 75.0%."


def test_a_run_that_read_another_word_anywhere_is_not_compared():
    """Such a model reads both sides of a blank."""
    tokens = list(BEFORE.sentences[0].tokens)
    tokens[2] = replace(tokens[2], text="ran")
    other = replace(BEFORE, sentences=(replace(BEFORE.sentences[0], tokens=tuple(tokens)),))

    assert analysis.next_words(AFTER, 1, before=BEFORE)[0].before == pytest.approx(0.25)
    assert analysis.next_words(AFTER, 1, before=other)[0].before is None


def test_where_there_is_no_blank_the_picture_says_so():
    chart = step_by_step(NONE, before=NONE)

    assert NO_BLANK in said(chart)
    assert names(chart) == []
    assert figures.step_by_step(NONE).form.spec == figures.step_by_step(BEFORE).form.spec
    assert figures.step_by_step(NONE).description == "There is no blank in the sentence to fill in."
    assert figures.step_by_step(NONE).table.empty


def test_numbers_and_words_of_blanks():
    figure = figures.step_by_step(AFTER, before=BEFORE)

    assert figure.table["position"].tolist() == [1, 3]
    assert figure.arrays["position"].tolist() == [1, 3]
    assert (
        "“dog” 75.0%, in place of “[M]” (1). 1 differs from before the change: “dog” in place of" in figure.description
    )
