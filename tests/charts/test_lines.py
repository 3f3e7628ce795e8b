"""Heads as lines between tokens."""

from dataclasses import replace

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from pictures import SITE, data, record_of
from pictures import strand_lines as lines

from attnviz.charts.theme import LIGHT
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.masks import Painted, Subsequent
from attnviz.figures import lines as lines_figure
from attnviz.figures.lines import MOST_LINES, MOST_TOKENS

WORDS = ["The", "cat", "sat", "down", "there"]


def drawn(chart):
    """The lines."""
    return data(chart, "lines")


def notes(chart):
    """Return the lines of text above the picture."""
    meta = data(chart, "meta")[0]
    return meta["title"].split("\n") + meta["subtitle"].split("\n")


def labels(chart, side):
    return [row["label"] for row in data(chart, side)]


def legend(chart):
    """The signs that a legend explains, in words."""
    return [row["says"][3:] for row in data(chart, "legend")]


def test_each_line_is_as_strong_as_its_weight():
    """Every weight has one line, from its query to its key, and its strength follows from the weight."""
    record = record_of(WORDS, heads=3)
    weights = record.step(SITE).weights(2)

    found = {(row["query"], row["key"]): row["weight"] for row in drawn(lines(record, SITE, [2]))}

    assert found == pytest.approx({(i, j): float(weights[i, j]) for i in range(5) for j in range(5)})
    assert "all 25 weights have a line" in notes(lines(record, SITE, [2]))


@examples(10)
@given(least=st.floats(0, 1))
def test_a_threshold_leaves_exactly_the_weights_from_it_on(least):
    """No weaker line is drawn and no stronger one left out, and the picture says how many of how many.

    The table has the same lines, the strongest first; a cell that a mask blocks has none.
    """
    record = record_of(WORDS, edits=Edits(mask=Subsequent()) if least < 0.1 else Edits())
    weights, allowed = record.step(SITE).weights(0).double().numpy(), record.step(SITE).may_attend(0).numpy()
    figure = lines_figure(record, SITE, [0], least=least)
    chart = figure.chart

    expected = np.sort(weights[allowed & (weights >= least)])[::-1].tolist()
    assert [row["weight"] for row in drawn(chart)][::-1] == figure.table["weight"].tolist() == expected
    assert figure.arrays["line_weight"].tolist() == expected
    assert any(f"{'all ' if len(expected) == allowed.sum() else ''}{len(expected)} " in text for text in notes(chart))


def test_of_many_weights_the_strongest_are_drawn_and_the_picture_says_so():
    """The picture draws the largest 400 of 900 weights and names the smallest weight that it draws."""
    record = record_of([f"w{i}" for i in range(30)])
    weights = np.sort(record.step(SITE).weights(0).double().numpy().ravel())[::-1]
    chart = lines(record, SITE, [0])

    assert sorted((row["weight"] for row in drawn(chart)), reverse=True) == pytest.approx(weights[:MOST_LINES])
    said = " ".join(notes(chart))
    assert f"400 of 900 weights have a line: the strongest, from {weights[MOST_LINES - 1]:.2g} on" in said


@pytest.mark.parametrize(
    ("policy", "count", "text"),
    [("zero", 0, "fully masked row: zeros"), ("nan", 0, "NaN"), ("uniform", 3, "fully masked row: uniform")],
)
def test_an_empty_row_says_so(policy, count, text):
    """Its token has a cross, which the legend explains; a uniform row is drawn, as its weights are used."""
    edits = Edits(mask=Painted(((1, 0), (1, 1), (1, 2))), empty_rows=policy)
    chart = lines(record_of(["a", "b", "c"], edits=edits), SITE, [0])

    assert sum(row["query"] == 1 for row in drawn(chart)) == count
    assert labels(chart, "queries") == ["a", "× b", "c"]
    assert [row["ink"] == LIGHT.warning for row in data(chart, "queries")] == [False, True, False]
    assert text in legend(chart)[0]


def test_picked_tokens_leave_only_their_lines():
    """A query and a key that are picked keep the lines that end at one of them, and are marked."""
    chart = lines(record_of(WORDS), SITE, [0], pins=frozenset({("query", 2), ("key", 4)}))

    assert {(row["query"], row["key"]) for row in drawn(chart)} == {
        (i, j) for i in range(5) for j in range(5) if i == 2 or j == 4
    }
    marked = [row["label"] for side in ("queries", "keys") for row in data(chart, side) if row["picked"]]
    assert marked == ["sat", "there"]


def test_heads_are_told_apart_by_hue_and_name_and_keep_their_hue():
    """No two heads have the same hue; each stands in the legend by its name, and more heads than hues are refused."""
    record = record_of(["a", "b"], heads=12)
    few, many = ({row["head_name"]: row["ink"] for row in drawn(lines(record, SITE, of))} for of in ([3, 8], [8, 6, 3]))

    assert len({*many.values()}) == 3
    assert few == {name: many[name] for name in few}
    assert legend(lines(record, SITE, range(6))) == [f"head {i}" for i in range(6)]
    for heads in ([], [0, 0], range(7)):
        with pytest.raises(InputError, match="Lines show from 1 to 6 heads, each once"):
            lines(record, SITE, heads)


def test_a_head_that_is_off_says_so_and_alone_it_is_gray():
    """Among others it keeps its hue: two that are off would look alike."""
    off = frozenset({(SITE, 1), (SITE, 2)})
    record = record_of(["a", "b"], heads=3, edits=Edits(heads_off=off))
    alone, among = lines(record, SITE, [1]), lines(record, SITE, [0, 1, 2])

    assert {row["ink"] for row in drawn(alone)} == {LIGHT.quiet}
    assert "Lines · head 1 of encoder layer 0 (off)" in notes(alone)[0]
    assert len({row["ink"] for row in drawn(among)}) == 3
    assert legend(among) == ["head 0", "head 1 · off", "head 2 · off"]


def test_a_rule_stands_between_the_texts_of_a_pair():
    record = record_of(WORDS)
    tokens = tuple(replace(token, segment=int(i > 2)) for i, token in enumerate(record.sentences[0].tokens))
    record = replace(record, sentences=(replace(record.sentences[0], tokens=tokens),))

    for side in ("queries", "keys"):
        assert [row["begin"] for row in data(lines(record, SITE, [0]), side) if row["breaks"]] == [3]


def test_of_many_tokens_those_around_the_selected_are_drawn():
    """A window of 64 queries and keys holds the selected cell, and the picture says which it is."""
    record = record_of([f"w{i}" for i in range(200)])
    chart = lines(record, SITE, [0], selected=(150, 20))

    assert len(data(chart, "keys")) == MOST_TOKENS
    assert "w150" in labels(chart, "queries")
    assert data(chart, "keys")[20]["label"].startswith("w20 ")
    assert "queries 118 to 181 of 200 and keys 0 to 63 of 200; the map shows all" in " ".join(notes(chart))
    assert [(row["query"], row["key"]) for row in drawn(chart) if row["chosen"]] == [(150, 20)]
