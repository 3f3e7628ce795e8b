"""Two maps, what the second has more, and how far each row moved."""

import json
from dataclasses import replace

import numpy as np
import pytest
from pictures import CROSS, HOSTILE, SITE, data, draw, record_of

from attnviz import figures, tables, words
from attnviz.analysis.align import BLANK, Side, beside
from attnviz.charts.domain import FAINT
from attnviz.charts.size import MOST_BESIDE, size_beside
from attnviz.core.amounts import digits
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.core.masks import Painted, Prefix, Subsequent
from attnviz.figures.difference import LEAST, ONLY, lines_of, names_of

CAT = "the cat sat on it".split()
DOG = "the dog sat down on it".split()


def cat_and_dog(edits=Edits()):
    """One word is another, and one is only in B."""
    return beside(Side(record_of(CAT, edits=edits), SITE, 0), Side(record_of(DOG, edits=edits), SITE, 1))


def test_the_difference_is_a_less_b_and_blank_where_a_token_is_alone():
    """Each cell is the weight that PyTorch's softmax gave in B less that in A; 'down' is only in B."""
    found = cat_and_dog()
    a, b = (side.record.step(SITE).weights(side.head).double().numpy() for side in (found.a, found.b))
    shared = [0, 1, 2, 4, 5]

    assert found.rows == ((0, 0), (1, 1), (2, 2), (None, 3), (3, 4), (4, 5))
    np.testing.assert_allclose(found.difference[np.ix_(shared, shared)], a - b[np.ix_(shared, shared)], atol=1e-6)
    assert np.isnan(found.difference[3]).all()
    assert np.isnan(found.difference[:, 3]).all()
    assert (found.maps[0][1][3] == BLANK).all()
    assert (found.maps[1][1] != BLANK).all()
    extra = b[shared][:, 3]
    expected = (np.abs(b[np.ix_(shared, shared)] - a).sum(1) + extra) / 2
    np.testing.assert_allclose(found.variation[shared], expected, atol=1e-6)
    assert np.isnan(found.variation[3])


def cells(figure, view, name):
    return [row[name] for row in data(figure.chart, f"{view}-cells")]


def texts_of(figure):
    """What hovering reads of each cell, in A, in B and in their difference; the same in every view."""
    read = [[cells(figure, view, f"{name}_text") for name in ("a", "b", "difference")] for view in "abd"]
    assert read[0] == read[1] == read[2]
    return read[0]


def test_zero_is_the_middle_of_the_scale_and_its_ends_are_those_of_every_two_maps():
    """Higher in A and higher in B are equally far from the middle, and both are said in words."""
    found = cat_and_dog()
    figure = figures.difference(found)
    last = figure.grids[2]

    assert np.nanmax(np.abs(found.difference)) > FAINT
    np.testing.assert_allclose(last.shade, (np.nan_to_num(found.difference) + 1) / 2)
    assert last.ramp.signed
    assert data(figure.chart, "d-meta")[0]["top"] == 1
    for value, says in zip(found.difference.ravel(), cells(figure, "d", "says"), strict=True):
        assert says == (ONLY if np.isnan(value) else "higher in A" if value > 0 else "higher in B")


def test_what_is_read_of_a_cell_in_a_in_b_and_in_their_difference_adds_up():
    """All three have the same digits, as many as it takes, where a digit more would not change what is seen."""
    numbers = [[text.replace("−", "-") for text in texts] for texts in texts_of(figures.difference(cat_and_dog()))]
    whole = [each for each in zip(*numbers, strict=True) if "blank" not in each and not any("<" in one for one in each)]

    assert len(whole) > 10
    assert {len(one.partition(".")[2]) for each in whole for one in each} <= {2, 3, 4}
    for a, b, more in whole:
        assert len({len(one.partition(".")[2]) for one in (a, b, more)}) == 1
        assert abs(float(a) - float(b) - float(more)) < (1e-9 if len(a) < 6 else 2e-4)


def test_small_differences_do_not_look_large():
    """Maps that differ by less than `LEAST` never reach the end of the scale; the same map has no difference at all."""
    same = beside(*[Side(record_of(CAT), SITE, 0)] * 2)
    figure = figures.difference(same)

    assert data(figure.chart, "d-meta")[0]["top"] == LEAST < FAINT
    assert "differences end at 0.05" in data(figure.chart, "meta")[0]["subtitle"]
    assert set(cells(figure, "d", "difference")) == {0.0}
    assert set(cells(figure, "d", "says")) == {"alike"}
    assert same.most_row is None
    assert same.most_cell is None
    assert words.compared(same).startswith("Nothing differs")


def test_cells_that_are_no_numbers_are_hatched_each_in_its_way():
    """Blocked in both, and only in one: each has its strokes and its line in the one legend; nothing else has."""
    masked, plain = (figures.difference(cat_and_dog(edits)) for edits in (Edits(mask=Subsequent()), Edits()))
    legends = [[row["says"][3:] for row in data(one.chart, "b-legend")] for one in (masked, plain)]
    strokes = dict(zip(cells(masked, "a", "a_text"), cells(masked, "a", "path"), strict=True))

    assert legends == [["blocked", ONLY], [ONLY]]
    assert {"a-legend", "d-legend"} <= set(masked.data)
    assert strokes["blocked"] != strokes["blank"]
    assert [text for text, path in strokes.items() if path] == ["blocked", "blank"]
    assert texts_of(masked)[2][1] == "blocked"


def test_words_name_the_row_and_the_cell_that_changed_most():
    """They are those of the largest numbers; tokens that are only on one side are said."""
    found = cat_and_dog()
    row, (i, j) = int(np.nanargmax(found.variation)), divmod(int(np.nanargmax(np.abs(found.difference))), 6)
    said = words.compared(found)

    assert found.most_row == row
    assert found.most_cell == (i, j)
    looker = found.rows[row][0]
    assert said.startswith(f"The row that differs most is “{CAT[looker]}” ({looker})")
    assert words.compared_cell(found, i, j) in said
    assert "Only in B, and left blank: “down” (3)." in said
    assert words.compared_cell(found, 3, 0).endswith("in B; A has no such cell.")


def test_maps_that_differ_unseen_are_said_to_be_nearly_the_same():
    """No row and no cell is named for what two digits do not show."""
    alike, apart = (
        words.compared(
            beside(Side(record_of(CAT, edits=Edits(temperature=warm)), SITE, 0), Side(record_of(CAT), SITE, 0))
        )
        for warm in (1.001, 2.0)
    )

    assert alike.startswith("A and B are nearly the same map: their largest difference is 0.0")
    assert "differs most" not in alike
    assert apart.startswith("The row that differs most is ")


def test_maps_of_other_tokens_are_not_subtracted():
    """The error says how few tokens belong together; queries of different kinds of attention are told apart."""
    one, other = (Side(record_of(text), SITE, 0) for text in (CAT, "a b c it d e f".split()))

    with pytest.raises(InputError, match=r"Only 1 of 7 queries have a counterpart"):
        beside(one, other)

    record = record_of(CAT)
    cross = replace(record, steps=(replace(record.steps[0], site=CROSS),), targets=record.sentences)
    with pytest.raises(
        InputError,
        match="A is encoder attention of test and B is cross attention of test: they are over different texts",
    ):
        beside(one, Side(cross, CROSS, 0))


def test_the_table_holds_every_cell_of_the_grid():
    """Numbers agree with the maps; what one side lacks is empty."""
    found = cat_and_dog()
    table = tables.comparison_table(found)

    assert len(table) == 36
    np.testing.assert_array_equal(table["difference"].to_numpy().reshape(6, 6), found.difference)
    alone = table[table["query_token_b"] == "down"]
    assert alone["query_a"].isna().all()
    assert (alone["query_b"] == 3).all()


def test_maps_of_many_tokens_are_tiles_that_are_as_wide_as_those_of_few():
    """No more cells than can be read under the pointer; the picture says what a square shows."""
    size = size_beside(1000, 700)

    assert max(size.rows, size.columns) <= MOST_BESIDE
    assert size.width <= 300
    assert size.height <= 301
    assert size.form == "tiles"
    assert size_beside(MOST_BESIDE, 3).tile == 1
    many = record_of([f"w{i}" for i in range(MOST_BESIDE + 1)])
    assert "2 × 2" in " ".join(lines_of(beside(Side(many, SITE, 0), Side(many, SITE, 1))))


def test_a_square_of_many_cells_is_blank_or_blocked_only_where_every_cell_is(monkeypatch):
    """One of its cells that both have, or may look at, gives it its number; 'new' is only in B."""
    monkeypatch.setattr("attnviz.charts.size.MOST_BESIDE", 4)
    edits = Edits(Painted(((0, 0),)))
    found = beside(
        Side(record_of("a b c d e f".split(), edits=edits), SITE, 0),
        Side(record_of("a b new c d e f".split(), edits=edits), SITE, 1),
    )
    first, _, last = figures.difference(found).grids

    assert not first.kinds[first.states[0, 0]].sign
    assert first.numbers["a"][1][5] == digits(found.maps[0][0][2:4, 2:4][1, 1])
    assert not last.kinds[last.states[1, 1]].sign


@pytest.mark.parametrize("count", [5, 40])
def test_the_specification_stays_while_the_sentence_changes(count):
    """Only data change, so that nothing flickers; no token stands in it."""
    one, other = (
        figures.difference(beside(*(Side(record_of([f"{name}{i}" for i in range(count)]), SITE, n) for n in (0, 1))))
        for name in ("okapi", "zebra")
    )
    specs = [{name: part for name, part in figure.screen[0].items() if name != "datasets"} for figure in (one, other)]

    assert specs[0] == specs[1]
    assert "okapi" not in json.dumps(specs[0])


def test_many_tokens_are_images_of_which_every_number_is_read():
    """The exact numbers of A, of B and of their difference go to the browser, whichever map is pointed at."""
    found = beside(*(Side(record_of([f"w{i}" for i in range(40)]), SITE, head) for head in (0, 1)))
    spec, table = figures.difference(found).screen
    (read,) = filter(None, table["read"])
    views = [mark for mark in spec["marks"][0]["marks"] if "cells" in str([part.get("name") for part in mark["marks"]])]

    assert len(views) == 3
    for name, numbers in zip(
        ("a", "b", "difference"), (*(map_ for map_, _ in found.maps), found.difference), strict=True
    ):
        np.testing.assert_allclose(read.arrays[name].astype(float), numbers, atol=1e-7)


def test_hostile_tokens_are_drawn_as_text():
    """Every picture is drawn, and no token is in a specification."""
    a, b = record_of(HOSTILE), record_of(HOSTILE[::-1][:8] + HOSTILE[8:])
    figure = figures.difference(beside(Side(a, SITE, 0), Side(b, SITE, 1)), selected=(0, 1))
    image = draw(figure.chart.to_dict())[0]

    assert image.shape[1] > 600
    assert "alert" not in json.dumps(figure.screen[0] | {"datasets": None})
    assert len(figure.table) == len(figure.arrays["difference"].ravel())


def test_the_three_maps_have_the_same_place_under_the_pointer():
    """They share the fields of a selection, and what their rows are called; the selected number stands over each."""
    figure = figures.difference(cat_and_dog(), selected=(1, 2))
    places = [
        list(zip(*(cells(figure, view, name) for name in ("query", "key", "query_name")), strict=True))
        for view in "abd"
    ]
    read = texts_of(figure)

    assert places[0] == places[1] == places[2]
    assert [places[0][i * 6][2] for i in (1, 3)] == ["cat (1) → dog (1)", "down (3), only in B"]
    assert [data(figure.chart, f"{view}-meta")[0]["subtitle"].split()[0] for view in "abd"] == [one[8] for one in read]
    assert [row["label"] for row in data(figure.chart, "d-rows")][1:4:2] == ["cat → dog", "down (B)"]
    (cell,) = data(figure.chart, "d-chosen")
    assert (cell["row"], cell["column"]) == (1, 2)


@pytest.mark.parametrize("policy", ["nan", "zero"])
def test_rows_without_keys_are_told_and_not_counted(policy):
    """What is NaN is crossed and on no side more; the row has no variation."""
    found = cat_and_dog_of(Edits(mask=~Prefix(6), empty_rows=policy))
    figure = figures.difference(found)

    assert np.isnan(found.variation).all()
    assert {row["text"] for row in data(figure.chart, "bars")} == {"–"}
    assert words.compared_cell(found, 0, 0).startswith("“the” (0) has no key left in A, and in B “the” (0) gives ")
    assert ("NaN" in texts_of(figure)[2]) == (policy == "nan")
    assert ("NaN: not a number" in str(data(figure.chart, "b-legend"))) == (policy == "nan")


def cat_and_dog_of(edits):
    """A is changed, B is not."""
    return beside(Side(record_of(CAT, edits=edits), SITE, 0), Side(record_of(DOG), SITE, 1))


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        ("the cat sat", "the dog sat", ("A: … cat sat", "B: … dog sat")),
        ("it was tired", "she was tired", ("A: it was tired", "B: she was tired")),
        ("the cat", "the cat sat", ("A: … cat", "B: … cat sat")),
    ],
)
def test_texts_that_begin_alike_are_told_apart(one, other, names):
    """Their names begin where they differ, so that it is not what is cut."""
    found = beside(*(Side(record_of(text.split()), SITE, 0) for text in (one, other)))

    assert names_of(found)[:2] == names


def test_two_heads_of_a_layer_are_told_apart_over_small_maps():
    """No name is cut before it says which head it is."""
    record = record_of(["cat"])
    chart = figures.difference(beside(Side(record, SITE, 0), Side(record, SITE, 1))).chart

    assert [data(chart, f"{view}-meta")[0]["title"] for view in "abd"] == [
        *("A: head 0 of encoder layer 0", "B: head 1 of encoder layer 0", "Difference A − B")
    ]


def test_the_bars_are_the_total_variation_of_the_rows():
    found = cat_and_dog()
    bars = data(figures.difference(found).chart, "bars")

    assert [bar["value"] for bar in bars] == np.nan_to_num(found.variation).tolist()
    assert [bar["text"] for bar in bars] == [f"{value:.2f}" if value == value else "–" for value in found.variation]
