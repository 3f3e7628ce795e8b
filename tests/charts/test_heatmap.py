"""One head as a map."""

import json
import math
from dataclasses import replace

import pytest
from pictures import (
    SITE,
    data,
    draw,
    heatmap,
    legend,
    lines,
    notes,
    record_of,
    without_data,
)

from attnviz import api, figures
from attnviz.analysis.views import see
from attnviz.charts import signs, theme
from attnviz.charts.pixels import color_at
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Padding, Painted, Subsequent, Window
from attnviz.figures.head import CHANGED, PADDING

EVEN = Edits(temperature=1e4)
"""So hot that attention is even."""


def test_a_map_holds_the_numbers_of_the_record(cat):
    step = cat.step(SITE)

    cells = data(heatmap(cat, SITE, 1), "cells")

    assert [cell["weight"] for cell in cells] == step.weights(1).flatten().tolist()
    assert [cell["score"] for cell in cells] == step.scores(1).flatten().tolist()
    assert [cell["ground"] for cell in cells] == [color_at(cell["weight"], theme.LIGHT) for cell in cells]
    assert (cells[6]["query_name"], cells[6]["key_name"]) == ("cat (1)", "sat (2)")


def test_words_that_rows_predict_since_a_change_are_marked():
    """Those and no others; without a change, or where all are as before, nothing is said of it."""
    text, last = "Anna and Tom went to the park. Anna gave the ball to", Site("decoder", 1)
    before, after = (api.analyze(text, "story", edits) for edits in (Edits(), Edits(heads_off={(last, 0)})))
    words = [record.predicted(last) for record in (before, after)]

    chart = figures.head(after, last, 0, before=before).chart
    marked = [row["note_ink"] == theme.LIGHT.hues[1] for row in data(chart, "rows")]

    assert marked == [one != other for one, other in zip(*words, strict=True)]
    assert any(marked)
    assert CHANGED in legend(chart)
    for record, asked in ((after, {}), (before, {"before": before})):
        plain = figures.head(record, last, 0, **asked).chart
        assert not any(row["note_ink"] == theme.LIGHT.hues[1] for row in data(plain, "rows"))
        assert CHANGED not in legend(plain)


def test_who_blocks_a_cell_is_seen_and_each_rule_has_its_words():
    """The model, padding, or a person, in this order; never on the scale of weights."""
    mask, text = Window(3) & Padding((9,)), "The cat sat on the mat because it was so tired"
    chart = heatmap(api.analyze(text, "story", Edits(mask=mask)), Site("decoder", 1), 0)
    cells, side = data(chart, "cells"), min(chart.to_dict()["width"] / 12, 60)
    model, padding, yours = (signs.strokes_of(pattern, side) for pattern in signs.PATTERNS)

    for cell in cells:
        query, key = cell["query"], cell["key"]
        strokes = {model: key > query, padding: key >= 9, yours: key < query - 3}
        assert cell["path"] == next((sign for sign, blocks in strokes.items() if blocks), None)
        assert (cell["ground"] == theme.LIGHT.blocked) == any(strokes.values())
    assert len({model, padding, yours}) == 3
    assert legend(chart) == [
        "blocked by causal mask",
        "blocked by padding mask",
        "blocked by you: window (3 before, 0 after)",
    ]
    assert "blocked by causal and window (3 before, 0 after)" in {cell["says"] for cell in cells}


@pytest.mark.parametrize(("policy", "words"), [("zero", "zeros"), ("nan", "NaN"), ("uniform", "uniform")])
def test_an_empty_row_is_framed_and_named(policy, words):
    edits = Edits(mask=Painted(((1, 0), (1, 1), (1, 2))), empty_rows=policy)
    chart = heatmap(record_of(["a", "b", "c"], edits=edits), SITE, 0)

    assert f"fully masked row: {words}" in legend(chart)  # not beside the row: a map is no wider for it
    assert notes(chart) == []
    assert [row["empty"] for row in data(chart, "rows")] == [False, True, False]
    assert {cell["ground"] != theme.LIGHT.blocked for cell in data(chart, "cells")[3:6]} == {policy == "uniform"}


def test_nan_and_minus_infinity_have_signs_of_their_own():
    chart = heatmap(record_of(["a", "b"], scores={(0, 0, 1): math.nan, (0, 1, 0): -math.inf}), SITE, 0)
    cells = data(chart, "cells")

    assert [cell["says"] for cell in cells] == ["NaN: not a number"] * 2 + ["score: minus infinity", "may attend"]
    assert len({cell["path"] for cell in cells}) == 3
    assert {"NaN: not a number", "score: minus infinity"} <= set(legend(chart))
    json.dumps(chart.to_dict(), allow_nan=False)


def test_row_sums_flag_what_is_not_one():
    edits = Edits(mask=Painted(((1, 0), (1, 1))))
    chart = heatmap(record_of(["a", "b"], edits=edits), SITE, 0, row_sums=True)

    assert data(chart, "meta")[0]["beside_title"] == "row sum"
    assert [row["beside"] for row in data(chart, "rows")] == ["1.000", "0.000 not 1"]
    assert [row["beside_ink"] == theme.LIGHT.warning for row in data(chart, "rows")] == [False, True]


def test_domains_say_what_the_color_means():
    record = record_of(["a", "b", "c"])
    top = max(float(record.step(SITE).weights(h).max()) for h in range(2))
    shared, log = heatmap(record, SITE, 0, domain="shared"), heatmap(record, SITE, 0, domain="log")

    assert data(shared, "meta")[0]["top"] == pytest.approx(top)
    assert data(shared, "cells")[0]["ground"] == color_at(data(shared, "cells")[0]["weight"] / top, theme.LIGHT)
    cell = data(log, "cells")[0]
    assert cell["ground"] == color_at(1 + math.log10(cell["weight"]) / 4, theme.LIGHT)
    assert '"type": "log"' in json.dumps(without_data(log))
    with pytest.raises(InputError, match="sqrt"):
        heatmap(record, SITE, 0, domain="sqrt")


def test_colors_of_a_long_text_end_at_the_largest_weight_and_say_so():
    """Even attention over 41 tokens is seen: its largest weight has the color of the end."""
    record = record_of([f"w{i}" for i in range(41)])
    top = float(record.step(SITE).weights(0).max())
    adapts, fixed = heatmap(record, SITE, 0), heatmap(record, SITE, 0, domain="fixed")

    assert f"colors end at {top:.2g}, the largest here" in lines(adapts)
    assert not any("colors end" in line for line in lines(fixed))
    assert [data(chart, "meta")[0]["top"] for chart in (adapts, fixed)] == pytest.approx([top, 1.0])


def test_a_query_with_one_key_does_not_stretch_the_scale():
    """Under a causal mask the first token gives itself 1, whatever the head does."""
    record = record_of([f"w{i}" for i in range(41)], edits=replace(EVEN, mask=Subsequent()))
    drawn = heatmap(record, SITE, 0)

    assert "colors end at 0.5, the largest where several keys are left" in lines(drawn)


def test_nan_beside_infinity_does_not_blank_the_map():
    """One NaN and one infinity once made Vega draw nothing, without a word."""
    plain = record_of(["a", "b", "c"])
    broken = record_of(["a", "b", "c"], scores={(0, 0, 1): math.nan, (0, 1, 2): math.inf, (0, 2, 2): -math.inf})

    (before, after) = draw(heatmap(plain, SITE, 0).to_dict(), heatmap(broken, SITE, 0).to_dict())

    cells = [{tuple(c) for c in image.reshape(-1, 3).tolist()} for image in (before, after)]
    assert len(cells[1]) > 50
    warning = tuple(int(theme.LIGHT.warning[i : i + 2], 16) for i in (1, 3, 5))
    assert warning in cells[1] - cells[0]


def test_text_can_be_read_in_both_modes():
    """At least 4.5:1 between words and their ground, and 3:1 of hues, as WCAG 2.2 asks."""

    def luminance(color):
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colors in (theme.LIGHT, theme.DARK):
        texts = dict.fromkeys((colors.text, colors.quiet, colors.accent, colors.warning), 4.5)
        for color, least in (dict.fromkeys(colors.hues, 3) | texts).items():
            light, dark = sorted((luminance(color), luminance(colors.background)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= least


def test_rows_of_padding_are_quiet_and_named_as_that(cat):
    """Their weights are not drawn as those of tokens are, but read under the pointer; no cell of theirs is selected."""
    sentence = replace(cat.sentences[0], length=3)
    padded = replace(cat, sentences=(sentence,))
    chart = heatmap(padded, SITE, 0)
    cells = data(chart, "cells")
    *words, padding = (cells[i : i + 4] for i in range(0, 16, 4))

    assert len({cell["ground"] for cell in padding}) == 1
    assert {cell["says"] for cell in padding} == {PADDING}
    assert [cell["weight"] for cell in padding] == padded.step(SITE).weights(0)[3].tolist()
    assert all(len({cell["ground"] for cell in row}) > 1 for row in words)
    assert PADDING in legend(chart)
    assert PADDING not in str(heatmap(cat, SITE, 0).to_dict())
    assert all(see(padded, SITE).strongest_cell(head)[0] < 3 for head in range(2))


def test_a_square_of_many_cells_has_the_label_of_the_token_that_is_selected():
    """Not of the first one that it stands for."""
    record = api.analyze(" ".join(f"w{i}" for i in range(1200)), "scratch")
    figure = figures.head(record, record.sites[0], 0, selected=(1001, 777))
    tables, tile = figure.drawing.data, figure.drawing.size.tile

    assert tile > 1
    assert tables["rows"]["label"][1001 // tile] == "w1001"
    assert tables["columns"]["label"][777 // tile] == "w777"
