"""Heads that link two words, and heads that matter at one position."""

import pytest

import attnviz
from attnviz.core.errors import InputError

TEXT = "The cat sat on the mat because it was tired."


@pytest.mark.parametrize("source", ["story", "translator", "scratch"])
def test_every_head_is_ranked_by_the_weight_of_its_cell(source):
    """For single tokens it is the weight in the record; the largest comes first."""
    record = attnviz.analyze(TEXT, source)
    table = attnviz.rank(record, "mat", "cat")
    of_text = [step for step in record.steps if source != "translator" or step.site.kind == "encoder"]

    assert len(table) == sum(step.num_heads for step in of_text)
    assert table["weight"].is_monotonic_decreasing
    for row in table.itertuples():
        step = next(step for step in record.steps if str(step.site) == row.site)
        assert row.weight == pytest.approx(float(step.weights(row.head)[row.query, row.key]), abs=1e-7)
    tokens = record.sentences[0].labels
    assert {tokens[i] for i in table["query"]} == {"mat"}


def test_of_words_in_several_places_it_is_the_pair_with_the_largest_weight():
    record = attnviz.analyze(TEXT, "scratch")
    weights = record.steps[0].weights(0)
    row = attnviz.rank(record, "it", "the").query("layer == 0 and head == 0").iloc[0]

    assert row["weight"] == pytest.approx(float(weights[7, [0, 4]].max()))


def test_words_are_whole_and_positions_are_taken():
    record = attnviz.analyze(TEXT, "scratch")

    assert attnviz.rank(record, 7, 1).equals(attnviz.rank(record, "it", "cat"))
    for pair in (("ca", "it"), ("it", ""), (99, 0), ("it", "dog")):
        with pytest.raises(InputError, match="No attention goes from"):
            attnviz.rank(record, *pair)
    with pytest.raises(InputError, match="There is no sentence 1"):
        attnviz.rank(record, 0, 0, sentence=1)
