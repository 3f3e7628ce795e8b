"""Large maps on the screen."""

import json
import math

import pytest
from pictures import HOSTILE, SITE, draw, record_of

from attnviz.charts import heatmap, mask_grid
from attnviz.charts.screen import MIDDLE, NAN, READOUT, screen
from attnviz.charts.theme import DARK, LIGHT
from attnviz.core.edits import Edits
from attnviz.core.masks import Subsequent


def on_screen(record, head=0, **options):
    return screen(heatmap.drawing_of(record, SITE, head, below=READOUT, **options), LIGHT)


def with_data(spec, table):
    rows = json.loads(table.to_json(orient="records"))
    return spec | {"data": [{"name": "source", "values": rows}]}


def test_each_cell_can_be_read_from_its_rows_string():
    """Weights to a millionth, scores to a thousandth, and the rule."""
    record = record_of(["w"] * 60, edits=Edits(mask=Subsequent()))
    step = record.step(SITE)

    _, table = on_screen(record)

    rows = table[table["kind"] == "row"]
    sayings = table[table["kind"] == "map"]["name"].iloc[0].split("\n")
    for query, key in ((0, 0), (7, 3), (59, 58), (3, 40)):
        code = rows["cells"].iloc[query][key * 12 : key * 12 + 12]
        weight, score, saying = (int(part, 16) for part in (code[:5], code[5:10], code[10:]))
        assert weight == round(float(step.weights(0)[query, key]) * 1e6)
        assert (score - MIDDLE) / 1000 == pytest.approx(float(step.scores(0)[query, key]), abs=6e-4)
        assert sayings[saying] == ("may attend" if key <= query else "blocked by subsequent")


def test_numbers_that_are_none_are_told_apart():
    record = record_of(["w"] * 60, scores={(0, 0, 1): math.nan, (0, 1, 0): -math.inf})

    _, table = on_screen(record)

    rows = table[table["kind"] == "row"]["cells"]
    assert int(rows.iloc[0][:5], 16) == NAN
    assert int(rows.iloc[0][17:22], 16) == 2 * MIDDLE - 1
    assert int(rows.iloc[1][5:10], 16) == 0


def test_huge_scores_keep_their_size():
    _, table = on_screen(record_of(["w"] * 60, scores={(0, 0, 0): 1e6}))

    factor = table[table["kind"] == "map"]["size"].iloc[0]
    score = (int(table["cells"].iloc[0][5:10], 16) - MIDDLE) / factor
    assert score == pytest.approx(1e6, rel=1e-4)


def test_the_specification_stays_while_all_else_changes():
    one, _ = on_screen(record_of(["w"] * 60))
    other, _ = on_screen(record_of(list(HOSTILE) * 3 + ["x"] * 12, edits=Edits(mask=Subsequent())), 1, selected=(3, 3))

    assert one == other


def test_a_click_is_named_as_streamlit_asks():
    spec, table = on_screen(record_of(["w"] * 60), rev=4)

    assert spec["params"] == [{"name": "cell", "select": "point"}]
    assert spec["data"] == {"name": "source"}
    assert "cell" in [signal["name"] for signal in spec["signals"]]
    assert table[table["kind"] == "map"]["position"].iloc[0] == 4


@pytest.mark.parametrize("colors", [LIGHT, DARK])
def test_maps_and_masks_are_drawn(colors):
    tokens = list(HOSTILE) * 5
    record = record_of(tokens, edits=Edits(mask=Subsequent()))
    drawings = [
        heatmap.drawing_of(record, SITE, 0, dark=colors is DARK, below=READOUT, selected=(8, 3)),
        mask_grid.drawing_of(Subsequent(), tokens, predicted=tokens, dark=colors is DARK, below=READOUT),
    ]

    images = draw(*(with_data(*screen(drawing, colors)) for drawing in drawings))

    assert all(image.std() > 5 for image in images)
