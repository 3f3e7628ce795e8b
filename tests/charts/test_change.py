"""What an edit did to the output."""

from dataclasses import replace

import pytest
from pictures import HOSTILE, SITE, change, data, draw, drawing, record_of, without_data

from attnviz import figures, metrics, words
from attnviz.charts.theme import CAUTIONS
from attnviz.core.edits import Edits
from attnviz.core.masks import Prefix

WORDS = ["The", "cat", "sat"]
OFF = Edits(heads_off=frozenset({(SITE, 1)}))


def test_a_bar_is_as_long_as_its_token_moved():
    before, after = record_of(WORDS), record_of(WORDS, edits=OFF)
    moved = metrics.output_change(before, after).tolist()

    rows = data(change(before, after), "bars")

    assert [row["share"] for row in rows] == pytest.approx([m / max(moved) for m in moved])
    assert rows[0]["text"] == f"{moved[0]:.1%}"


def test_a_token_that_did_not_move_says_zero():
    record = record_of(WORDS)

    assert [(row["share"], row["text"]) for row in data(change(record, record), "bars")] == [(0, "0.0%")] * 3


def test_of_a_long_sentence_the_tokens_that_moved_most_are_drawn():
    """Forty of them, in the order of the text, and the picture says so."""
    texts = [f"w{i}" for i in range(100)]
    before, after = record_of(texts), record_of(texts, edits=OFF)
    moved = metrics.output_change(before, after)

    rows = data(change(before, after), "bars")

    most = sorted(moved.topk(40).indices.tolist())
    assert [row["band"][5:] for row in rows] == [texts[i] for i in most]
    assert [row["share"] for row in rows] == pytest.approx([(moved[i] / moved.max()).item() for i in most])
    assert "40 of 100 tokens" in str(change(before, after).to_dict())


def test_what_is_not_a_number_has_no_bar():
    """A token whose vector became NaN is named, and not drawn as if it had moved far."""
    before = record_of(WORDS)
    after = record_of(WORDS, edits=Edits(mask=Prefix(0), empty_rows="nan"))

    assert {(row["share"], row["text"]) for row in data(change(before, after), "bars")} == {(None, "NaN")}


def test_infinite_and_no_numbers_read_alike_in_picture_and_words():
    """What grew without bound is ∞ in both, and what is no number is NaN."""
    moved = [1.5, float("inf"), float("nan"), 0.0]
    before, after = record_of([*WORDS, "down"]), record_of([*WORDS, "down"])
    output = before.output.clone()
    for row, by in enumerate(moved):
        output[0, row] *= 1 + by

    rows = data(change(before, replace(after, output=output)), "bars")
    said = words.change(metrics.output_change(before, replace(after, output=output)).numpy(), [*WORDS, "down"])

    assert [row["text"] for row in rows] == ["150.0%", "∞", "NaN", "0.0%"]
    assert said.endswith("“sat” (2) NaN, “cat” (1) ∞, “The” (0) 150.0%.")


def test_the_specification_stays_while_the_edit_changes():
    before = record_of(WORDS)

    assert without_data(change(before, before)) == without_data(change(before, record_of(WORDS, edits=OFF)))


def test_hostile_tokens_are_drawn():
    before, after = record_of(list(HOSTILE)), record_of(list(HOSTILE), edits=OFF)

    for image in draw(change(before, after).to_dict(), change(before, after, dark=True).to_dict()):
        assert image.std() > 5


def test_the_title_says_with_what_it_is_compared():
    record = record_of(WORDS)

    titles = [row["text"] for row in data(change(record, record_of(WORDS, edits=OFF)), "titles")]
    assert " ".join(titles).startswith("Change of the output, compared with the original model")


@pytest.mark.parametrize("provenance", CAUTIONS)
def test_the_picture_says_where_its_weights_come_from(provenance):
    record = replace(record_of(WORDS), provenance=provenance)

    words = [row["text"] for row in data(change(record, record), "words")]
    assert any(provenance in text for text in words)
    assert "changed: nothing" in words


def test_what_was_changed_stands_on_files_and_not_on_the_screen():
    before, after = record_of(WORDS), record_of(WORDS, edits=OFF)

    figure = figures.change(before, after)
    drawn = {edits: drawing(figure, on_screen=not edits).tables["words"]["text"] for edits in (True, False)}
    assert set(drawn[True]) - set(drawn[False]) == {"changed: head 1 of encoder layer 0 off"}
