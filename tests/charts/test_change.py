"""What an edit did to the output."""

from dataclasses import replace

import pytest
from pictures import SITE, bars, change, names, record_of, said, texts

from attnviz import analysis
from attnviz.analysis import sentences
from attnviz.core.edits import Edits

WORDS = ["The", "cat", "sat"]
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


def test_infinite_and_no_numbers_read_alike_in_picture_and_words():
    """What grew without bound is ∞ in both, and what is no number is NaN."""
    moved = [1.5, float("inf"), float("nan"), 0.0]
    before, after = record_of([*WORDS, "down"]), record_of([*WORDS, "down"])
    output = before.output.clone()
    for row, by in enumerate(moved):
        output[0, row] *= 1 + by

    chart = change(before, replace(after, output=output))
    spoken = sentences.change(analysis.output_change(before, replace(after, output=output)).numpy(), [*WORDS, "down"])

    assert texts(chart) == ["150.0%", "∞", "NaN", "0.0%"]
    assert bars(chart) == [1.0, 1.0, 0.0]
    assert spoken.endswith("“sat” (2) NaN, “cat” (1) ∞, “The” (0) 150.0%.")
