"""Maps: one head, a mask, a leak test."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pictures import (
    SITE,
    data,
    draw,
    heatmap,
    leaks,
    legend,
    lines,
    mask_grid,
    notes,
    record_of,
    story_of,
    title,
    without_data,
)

from attnviz import api, figures
from attnviz.analysis.views import see
from attnviz.charts import signs, theme
from attnviz.charts.axes import PIXELS, RECTANGLES, SIDE, THINNEST, size_of
from attnviz.charts.pixels import color_at
from attnviz.charts.signs import LONGEST_RULE
from attnviz.charts.theme import LIGHT
from attnviz.check import check
from attnviz.check.leaks import LeakTest
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Padding, Painted, Subsequent, Window
from attnviz.core.tokens import Token
from attnviz.figures.head import CHANGED, NEXT, PADDING
from attnviz.figures.maps import READS

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
    """No other word is marked, and without a change of predictions there is no note."""
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


def test_numbers_of_both_signs_have_a_diverging_scale():
    """Around 0 and up to the largest, whatever rows sum to."""
    numbers, kinds = np.array([[0.5, -2.0], [0.0, 3.0]]), (signs.CellState("weight", "ramp", legend=""),)
    form = {"weights": numbers, "scale": "diverging"}
    figure = figures.states("Linear attention", np.zeros((2, 2), int), kinds, "ab", "ab", **form)
    colors = replace(LIGHT, ramp=LIGHT.diverging)

    grounds = [cell["ground"] for cell in data(figure.chart, "cells")]
    assert grounds == [color_at((number / 3 + 1) / 2, colors) for number in numbers.ravel().tolist()]
    assert data(figure.chart, "meta")[0]["top"] == 3
    assert not notes(figure.chart)


LOWER = np.tril(np.ones((4, 4), bool))
CONVENTIONS = {
    "may-attend": LOWER,
    "true-is-masked": ~LOWER,
    "zero-is-masked": LOWER.astype(int),
    "additive": np.where(LOWER, 0, -math.inf),
}


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_a_checked_mask_is_the_same_map_in_every_convention(convention):
    mask = CONVENTIONS[convention]
    figure = figures.checked(mask, check(mask, convention=convention, intent="causal"))

    assert figure.table["state"].tolist() == ["may attend" if is_open else "blocked" for is_open in LOWER.ravel()]
    assert figure.title == "What was checked"


def test_the_map_of_checked_weights_is_of_the_head_with_the_first_error():
    """A leak in one of six heads; the crosses are at its cells."""
    weights = np.where(LOWER, 1.0, 0) / LOWER.sum(1, keepdims=True) * np.ones((2, 3, 1, 1))
    weights[1, 2, 0] = [0.5, 0, 0.5, 0]
    figure = figures.checked(torch.tensor(weights).half(), check(weights, intent="causal"))

    assert figure.title == "Evidence of future leak"
    assert "batch 1 of 2, head 2 of 3" in lines(figure.chart)
    assert figure.table.loc[figure.table["state"] == "evidence", ["query", "key"]].values.tolist() == [[0, 2]]


@pytest.mark.parametrize("size", [(5, 5), (1, 5), (5,), (1, 1, 5)])
def test_a_mask_that_is_checked_for_two_texts_is_drawn_for_the_first(size):
    mask, tokens = np.ones(size, bool), np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]])
    report = check(mask, padding=tokens, convention="may-attend")
    figure = figures.checked(mask, report)

    assert "batch 0 of 2" in lines(figure.chart)
    assert len(figure.table) == math.prod(report.shape[2:])


def test_rows_that_are_texts_are_drawn_one_at_a_time():
    """(B, K) and (B, Q, K), as the shape of the scores tells."""
    tokens, shape = np.array([[1, 1, 1], [1, 0, 0]]), (2, 4, 3, 3)
    for mask in (tokens, tokens[:, None]):
        report = check(mask, convention="zero-is-masked", intent="two-way", shape=shape)
        figure = figures.checked(mask, report)

        assert report.shape[0] == 2
        assert figure.table["state"].eq("may attend").all()


def test_of_a_large_checked_array_the_first_rows_and_columns_are_drawn():
    mask = np.tril(np.ones((520, 600), bool), 80)
    figure = figures.checked(mask, check(mask))

    assert figure.arrays["states"].shape == (512, 512)
    assert "the first 512 queries of 520, the first 512 keys of 600" in lines(figure.chart)


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


LEFT = Subsequent() & Padding((5,), left=7)


def test_a_row_is_the_word_before_the_one_that_it_predicts():
    """Map and mask say so; the word of the selected row stands out, and a readout names it with its row."""
    record = story_of(["the", "cat"], {"cat": 1.0}, {"sat": 1.0})
    chart = heatmap(record, SITE, 0, selected=(1, 0))
    first, second = (row["note_ink"] for row in data(chart, "rows"))

    assert NEXT in lines(heatmap(record, SITE, 0))
    assert READS in lines(mask_grid(Subsequent(), ["the", "cat"], predicted=["cat", "sat"]))
    assert "row “cat”: where it looks to predict “sat”" in lines(chart)
    assert first != second == LIGHT.accent
    assert {cell["query_name"] for cell in data(chart, "cells")} == {"the (0) ▸ cat", "cat (1) ▸ sat"}
    assert NEXT not in lines(heatmap(replace(record, prediction=None), SITE, 0))


def test_each_row_of_a_mask_says_how_many_keys_it_has_left():
    """A row without a key says so in a word; without counts, such rows are named."""
    counted, plain = (mask_grid(LEFT, list("abcdefg"), counted=counted) for counted in (True, False))

    assert data(counted, "meta")[0]["beside_title"] == "keys"
    assert [row["beside"] for row in data(counted, "rows")] == ["none", "none", "1", "2", "3", "4", "5"]
    assert notes(counted) == []
    assert "fully masked row" in legend(plain)
    assert "fully masked row" not in legend(counted)
    assert [row["empty"] for row in data(plain, "rows")] == [True, True, *[False] * 5]


READ = ["<sos>", "The", "cat", "sat"]


def test_a_grid_says_who_may_look_at_whom_and_which_rule_forbids_it():
    cells = data(mask_grid(Subsequent(), READ), "cells")

    assert [cell["ground"] == LIGHT.open for cell in cells] == [key <= query for query in range(4) for key in range(4)]
    assert {cell["says"] for cell in cells} == {"may attend", "blocked by causal mask"}
    assert len({cell["path"] for cell in cells}) == 2


def test_a_long_rule_is_shortened_in_the_legend_and_whole_in_its_cells():
    """Else the picture is as wide as the rule."""
    rule = Window(1) | Painted(((3, 0), (3, 1))) | Window(0) | Window(0, 1)
    chart = mask_grid(Subsequent() & rule, READ)
    (shortened,) = (text for text in legend(chart) if text.endswith(" …"))
    whole = {cell["says"] for cell in data(chart, "cells") if cell["says"].startswith(shortened.removesuffix(" …"))}

    assert max(map(len, legend(chart))) <= LONGEST_RULE
    assert [text.endswith("window (0 before, 1 after)") for text in whole] == [True]


SAID = ["The", "cat", "sat", "down"]


def made(labels=SAID, *, keys=None, saw=((1, 0), (1, 2), (0, 0)), special=(3,), **settings) -> LeakTest:
    """A test in which some queries saw some keys, under a causal promise; special tokens were not changed."""
    queries = tuple(Token(text, i, 0, 0, special=i in special) for i, text in enumerate(labels))
    columns = queries if keys is None else tuple(Token(text, i, 0, 0) for i, text in enumerate(keys))
    moved = torch.zeros(len(queries), len(columns), dtype=torch.float64)
    for cell in saw:
        moved[cell] = 0.25
    if keys is None:
        moved[:, list(special)] = math.nan
    promised = Subsequent().grid(*moved.shape)
    given = {"noise": 0.0, "tolerance": 1e-5, "where": "decoder layer 0", "promise": "causal"} | settings
    return LeakTest(moved, promised, queries=queries, keys=columns, source="story", provenance="random", **given)


def said(chart):
    return [title(chart), *lines(chart), *legend(chart)]


def test_a_red_cell_says_who_saw_whom():
    """With a mark of its own, so that it is told apart without its color."""
    cells = data(leaks(made()), "cells")
    red = [cell for cell in cells if cell["ground"] == LIGHT.leak]

    assert [(cell["query"], cell["key"]) for cell in red] == [(1, 2)]
    assert red[0]["says"] == "position 1 “cat” saw position 2 “sat”: its output moved by 25.0%"
    assert red[0]["path"] not in {cell["path"] for cell in cells if cell is not red[0]}


def test_the_first_leak_is_said_below_or_the_chosen_cell():
    assert "position 1 “cat” saw position 2 “sat”:" in " ".join(said(leaks(made())))
    assert "position 2 “sat” did not see position 0" in " ".join(said(leaks(made(), selected=(2, 0))))


@given(st.integers(1, 20_000), st.integers(1, 20_000))
def test_every_map_fits_its_place_and_shows_every_cell(queries, keys):
    """Tiles cover all cells, cells are squares of whole pixels, labels have room."""
    size = size_of(queries, keys)

    assert max(size.width, size.height) <= max(SIDE, 13 * RECTANGLES)
    assert size.rows * size.tile >= queries
    assert size.columns * size.tile >= keys
    assert max(size.rows, size.columns) <= PIXELS
    assert size.cell == int(size.cell) >= 1
    assert size.every * size.cell >= THINNEST or size.form == "rectangles"
