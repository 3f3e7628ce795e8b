"""Tables of numbers as maps that know of each other: stages, the rail, a row in full."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pictures import SITE, data, draw, record_of, written

from attnviz import figures
from attnviz.analysis import align, steps
from attnviz.analysis.steps import KEYS, Matrix
from attnviz.charts.axes import Size
from attnviz.charts.theme import Style
from attnviz.core.amounts import digits, in_cell
from attnviz.core.edits import Edits
from attnviz.core.masks import Subsequent
from attnviz.figures.steps import number_grid
from attnviz.ui import readout

WORDS = ["The", "cat", "sat", "down"]


def stages_of(record, **settings):
    return steps.chain(record, None, SITE, 1, **settings)


def large(record, key, dark=False, **shown):
    stages = {stage.key: stage for stage in stages_of(record)}
    return figures.stage(record, SITE, 1, stages[key], stages[key].matrices, dark=dark, **shown)


def matrix_of(values):
    values = torch.tensor(values, dtype=torch.float64)
    rows, columns = (range(length) for length in values.shape)
    matrix = Matrix("scores", "", ("query", "key"), (*values.shape,), rows, columns, values)
    return number_grid(matrix, Size("rectangles", 40, *values.shape), Style(), title="")


def image(matrix):
    return matrix.uri(1)


def cells(figure, name, table=0):
    return [row[name] for row in data(figure.chart, f"{table}-cells")]


@given(st.floats(-1, 1))
def test_opposite_numbers_stand_at_opposite_places(value):
    """0 stands in the middle of a scale of both signs."""
    shade = matrix_of([[value, -value, 0.0]]).squares.shade[0]

    assert shade[0] + shade[1] == pytest.approx(1)
    assert shade[2] == 0.5


def test_what_is_no_number_does_not_look_like_one():
    """Minus infinity is a blocked score, and hatched; plus infinity has the color of the end of the scale."""
    images = [image(matrix_of([[value]])) for value in (0.0, -1.0, float("-inf"), float("nan"))]

    assert len(set(images)) == 4
    assert image(matrix_of([[np.inf]])) == image(matrix_of([[1.0]]))


def test_a_weight_that_the_mask_blocks_is_hatched_like_its_score():
    """Large and in the rail; no number is written over it, and the legend says so."""
    record = record_of(WORDS, edits=Edits(mask=Subsequent()))
    figure, plain = large(record, "softmax"), large(record_of(WORDS), "softmax")
    softmax = next(stage for stage in stages_of(record) if stage.key == "softmax")
    images = [
        data(figures.chain(record, SITE, 1, (one,)).chart, "stages")[0]["uri"] for one in (softmax, _open(softmax))
    ]

    assert [text == "" for text in cells(figure, "written")] == [path is not None for path in cells(figure, "path")]
    assert cells(figure, "written").count("") == 6
    assert [("blocked" in str(made.data["0-legend"]["says"])) for made in (figure, plain)] == [True, False]
    assert images[0] != images[1]


def _open(stage):
    """The stage as if its mask were not known."""
    return replace(stage, matrices=tuple(replace(matrix, blocked=None) for matrix in stage.matrices))


def test_a_stage_has_its_tokens_and_its_numbers_in_its_cells(cat):
    figure = large(cat, "products")
    numbers = stages_of(cat)[KEYS.index("products")].matrices[0].values.flatten().tolist()

    assert [row["label"] for row in data(figure.chart, "0-rows")] == ["The", "cat", "sat", "<pad>"]
    assert cells(figure, "written") == [in_cell(value) for value in numbers]
    assert cells(figure, "number_text") == [digits(value) for value in numbers]
    assert (
        figure.table["value"].tolist()
        == stages_of(cat)[KEYS.index("products")].matrices[0].values.double().flatten().tolist()
    )


def test_tables_that_share_an_axis_know_of_each_other(cat):
    """q and k have the same dimensions: their cells have the same number in the field that is pointed at."""
    figure = figures.stage(cat, SITE, 1, stage := steps.products_stage(steps.row(cat, SITE, 1, 2), 4), stage.matrices)
    pointed = next(param for param in written(figure.chart)["params"] if param["name"] == "pointed")

    assert pointed["select"]["fields"] == ["d_k", "key"]
    assert pointed["views"] == [f"{i}-cells" for i in range(5)]
    assert cells(figure, "d_k", 0) == [*range(5)]
    assert cells(figure, "d_k", 1) == 4 * [*range(5)]
    assert cells(figure, "key", 1) == cells(figure, "key", 2) == [i for i in range(4) for _ in range(5)]
    assert cells(figure, "key", 4) == [*range(4)]


def test_a_large_table_is_an_image_whose_rows_can_be_clicked(monkeypatch):
    monkeypatch.setattr("attnviz.figures.steps.MOST_CELLS", 40)
    figure = large(record_of(WORDS), "split")

    assert [row["query"] for row in data(figure.chart, "0-rows")] == [0, 1, 2, 3]
    assert [row["key"] for row in data(figure.chart, "1-rows")] == [0, 1, 2, 3]
    assert data(figure.chart, "0-meta")[0]["uri"].startswith("data:image/png")
    assert draw(figure.chart.to_dict())[0].std() > 5


def test_the_number_of_the_selected_cell_says_whose_it_is():
    """Rows of a vector have no selected cell."""
    record = record_of(WORDS)
    score = float(stages_of(record)[KEYS.index("products")].matrices[0].values[2, 1])
    read = [data(large(record, key, selected=(2, 1)).chart, "0-meta")[0]["subtitle"] for key in ("products", "split")]

    assert read == [f"sat (2) looks at cat (1): {digits(score)}", ""]


def test_a_row_in_full_shows_every_step_that_the_call_has():
    record = record_of(WORDS, edits=Edits(Subsequent(), temperature=0.5, softcap=4.0))
    row = steps.row(record, SITE, 1, 2)
    stage = steps.row_stage(row, record.step(SITE))
    figure = figures.stage(record, SITE, 1, stage, stage.matrices, selected=(2, 1))

    names = [matrix.name for matrix in stage.matrices]

    assert names == ["q · k", "÷ √5", "softcap", "/ 0.5", "mask", "− max", "exp", "weight"]
    assert cells(figure, "number_text", names.index("weight")) == [digits(value) for value in row.weights.tolist()]
    assert figure.table.query("table == 'weight'")["value"].tolist() == row.weights.tolist()
    assert "sum of weights 1.0000" in figure.description


def test_a_browser_draws_every_table_that_it_is_given():
    """It refuses to replace one that nothing draws."""
    record = record_of(WORDS, edits=Edits(Subsequent()))
    row = steps.row_stage(steps.row(record, SITE, 1, 2), record.step(SITE))
    both = align.beside(align.Side(record, SITE, 0), align.Side(record, SITE, 1))
    drawn = [
        figures.chain(record, SITE, 1, stages_of(record)),
        *(large(record, key) for key in ("split", "softmax")),
        figures.stage(record, SITE, 1, row, row.matrices),
        figures.difference(both),
        figures.head(record, SITE, 0),
        figures.heads(record, SITE),
    ]

    for spec, _ in map(readout.screen, drawn):
        parts = json.dumps({name: part for name, part in spec.items() if name != "datasets"})

        assert [name for name in spec["datasets"] if f'"name": "{name}"' not in parts] == []
