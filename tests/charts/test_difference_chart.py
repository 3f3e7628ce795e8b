"""Two maps, what the first has more, and how far each row moved."""

from dataclasses import replace

import numpy as np
import pytest
from pictures import CROSS, SITE, data, record_of

from attnviz import figures
from attnviz.analysis import sentences, tables
from attnviz.analysis.align import BLANK, Side, beside
from attnviz.charts.signs import FAINT
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.masks import Subsequent
from attnviz.figures.difference import LEAST, ONLY, names_of

CAT = "the cat sat on it".split()
DOG = "the dog sat down on it".split()


def heads(text, other, edits=Edits(), edits_b=Edits()):
    """Head 0 on a text beside head 1 on another."""
    return beside(Side(record_of(text, edits=edits), SITE, 0), Side(record_of(other, edits=edits_b), SITE, 1))


def cat_and_dog(edits=Edits()):
    """One word is another, and one is only in B."""
    return heads(CAT, DOG, edits, edits)


def cells(figure, view, name):
    return [row[name] for row in data(figure.chart, f"{view}-cells")]


def texts_of(figure):
    """Return the tooltips of each cell: in A, in B and in their difference, which are the same in every view."""
    read = [[cells(figure, view, f"{name}_text") for name in ("a", "b", "difference")] for view in "abd"]
    assert read[0] == read[1] == read[2]
    return read[0]


def test_the_difference_is_a_less_b_and_blank_where_a_token_is_alone():
    """Each cell is the weight that PyTorch's softmax gave in A less that in B; 'down' is only in B.

    The table holds every cell, and beside each row stands its variation.
    """
    found = cat_and_dog()
    a, b = (side.record.step(SITE).weights(side.head).double().numpy() for side in (found.a, found.b))
    shared, both = [0, 1, 2, 4, 5], np.ix_([0, 1, 2, 4, 5], [0, 1, 2, 4, 5])

    assert found.rows == ((0, 0), (1, 1), (2, 2), (None, 3), (3, 4), (4, 5))
    np.testing.assert_allclose(found.difference[both], a - b[both], atol=1e-6)
    assert np.isnan(found.difference[3]).all()
    assert np.isnan(found.difference[:, 3]).all()
    assert (found.maps[0][1][3] == BLANK).all()
    assert (found.maps[1][1] != BLANK).all()
    expected = (np.abs(b[both] - a).sum(1) + b[shared][:, 3]) / 2
    np.testing.assert_allclose(found.variation[shared], expected, atol=1e-6)
    assert np.isnan(found.variation[3])

    table, rows = tables.comparison_table(found), data(figures.difference(found).chart, "d-rows")
    np.testing.assert_array_equal(table["difference"].to_numpy().reshape(6, 6), found.difference)
    alone = table[table["query_token_b"] == "down"]
    assert alone["query_a"].isna().all()
    assert (alone["query_b"] == 3).all()
    assert [row["note"] for row in rows] == [f"{value:.2f}" if value == value else "–" for value in found.variation]


def test_zero_is_the_middle_of_the_scale_and_small_differences_do_not_look_large():
    """Its ends are those of every two maps, and both are said in words; below `LEAST` no cell reaches them."""
    found, same = cat_and_dog(), beside(*[Side(record_of(CAT), SITE, 0)] * 2)
    figure, none = figures.difference(found), figures.difference(same)

    assert np.nanmax(np.abs(found.difference)) > FAINT
    first, *_ = figure.grids(figure.style)
    np.testing.assert_allclose(first.squares.shade, (np.nan_to_num(found.difference) + 1) / 2)
    assert first.ramp.signed
    assert data(figure.chart, "d-meta")[0]["top"] == 1
    for value, says in zip(found.difference.ravel(), cells(figure, "d", "says"), strict=True):
        assert says == (ONLY if np.isnan(value) else "higher in A" if value > 0 else "higher in B")
    assert data(none.chart, "d-meta")[0]["top"] == LEAST < FAINT
    assert (set(cells(none, "d", "difference")), set(cells(none, "d", "says"))) == ({0.0}, {"alike"})
    assert (same.most_changed_row, same.most_changed_cell) == (None, None)
    assert sentences.compared(same).startswith("Nothing differs")


def test_what_is_read_of_a_cell_in_a_in_b_and_in_their_difference_adds_up():
    """All three have the same digits, as many as it takes, where a digit more would not change what is seen."""
    numbers = [[text.replace("−", "-") for text in texts] for texts in texts_of(figures.difference(cat_and_dog()))]
    whole = [each for each in zip(*numbers, strict=True) if "blank" not in each and not any("<" in one for one in each)]

    assert len(whole) > 10
    assert {len(one.partition(".")[2]) for each in whole for one in each} <= {2, 3, 4}
    for a, b, more in whole:
        assert len({len(one.partition(".")[2]) for one in (a, b, more)}) == 1
        assert abs(float(a) - float(b) - float(more)) < (1e-9 if len(a) < 6 else 2e-4)


def test_cells_that_are_no_numbers_are_hatched_each_in_its_way():
    """Blocked in both, and only in one: each has its strokes and its line in the one legend; nothing else has."""
    masked, plain = (figures.difference(cat_and_dog(edits)) for edits in (Edits(mask=Subsequent()), Edits()))
    legends = [[row["says"][3:] for row in data(one.chart, "b-legend")] for one in (masked, plain)]
    strokes = dict(zip(cells(masked, "a", "a_text"), cells(masked, "a", "path"), strict=True))

    assert legends == [["blocked", ONLY], [ONLY]]
    assert not {"a-legend", "d-legend"} & {*masked.data}
    assert strokes["blocked"] != strokes["blank"]
    assert [text for text, path in strokes.items() if path] == ["blocked", "blank"]
    assert texts_of(masked)[2][1] == "blocked"


def test_words_name_the_row_and_the_cell_that_changed_most():
    """They are those of the largest numbers, if two digits show them; tokens that are only on one side are said."""
    found = cat_and_dog()
    row, (i, j) = int(np.nanargmax(found.variation)), divmod(int(np.nanargmax(np.abs(found.difference))), 6)
    looker, said = found.rows[row][0], sentences.compared(found)

    assert (found.most_changed_row, found.most_changed_cell) == (row, (i, j))
    assert said.startswith(f"The row that differs most is “{CAT[looker]}” ({looker})")
    assert sentences.compared_cell(found, i, j) in said
    assert "Only in B, and left blank: “down” (3)." in said
    assert sentences.compared_cell(found, 3, 0).endswith("in B; A has no such cell.")
    alike = sentences.compared(
        beside(*(Side(record_of(CAT, edits=Edits(temperature=warm)), SITE, 0) for warm in (1.001, 1.0)))
    )
    assert alike.startswith("A and B are nearly the same map: their largest difference is 0.0")
    assert "differs most" not in alike


def test_maps_of_other_tokens_are_not_subtracted():
    """The error says how few tokens belong together; queries of different kinds of attention are told apart."""
    one, other = (Side(record_of(text), SITE, 0) for text in (CAT, "a b c it d e f".split()))
    record = record_of(CAT)
    cross = replace(record, steps=(replace(record.steps[0], site=CROSS),), targets=record.sentences)

    with pytest.raises(InputError, match=r"Only 1 of 7 queries have a counterpart"):
        beside(one, other)
    kinds = "A is encoder attention of test and B is cross attention of test: they are over different texts"
    with pytest.raises(InputError, match=kinds):
        beside(one, Side(cross, CROSS, 0))


def test_the_three_maps_have_the_same_place_under_the_pointer():
    """They share the fields of a selection, and what their rows are called; the selected number stands over each."""
    figure = figures.difference(cat_and_dog(), selected=(1, 2))
    fields = ("query", "key", "query_name")
    places = [list(zip(*(cells(figure, view, name) for name in fields), strict=True)) for view in "abd"]
    numbers = [data(figure.chart, f"{view}-meta")[0]["subtitle"].split()[0] for view in "abd"]

    assert places[0] == places[1] == places[2]
    assert [places[0][i * 6][2] for i in (1, 3)] == ["cat (1) → dog (1)", "down (3), only in B"]
    assert numbers == [texts[8] for texts in texts_of(figure)]
    assert [row["label"] for row in data(figure.chart, "d-rows")][1:4:2] == ["cat → dog", "down (B)"]
    (cell,) = data(figure.chart, "d-chosen")
    assert (cell["row"], cell["column"]) == (1, 2)


def test_two_sides_are_told_apart_by_that_in_which_they_differ():
    """Texts that begin alike begin where they differ, and no name is cut before it says which head it is."""
    texts = [
        ("the cat sat", "the dog sat", ("A: … cat sat", "B: … dog sat")),
        ("it was tired", "she was tired", ("A: it was tired", "B: she was tired")),
        ("the cat", "the cat sat", ("A: … cat", "B: … cat sat")),
    ]
    for one, other, names in texts:
        assert names_of(beside(*(Side(record_of(text.split()), SITE, 0) for text in (one, other))))[:2] == names

    record = record_of(["cat"])
    chart = figures.difference(beside(Side(record, SITE, 0), Side(record, SITE, 1))).chart
    named = ["A: head 0 of encoder layer 0", "B: head 1 of encoder layer 0", "Difference A − B"]
    assert [data(chart, f"{view}-meta")[0]["title"] for view in "abd"] == named
