"""Attention rollout through all layers: the map of rollout, and one of its rows beside the flow."""

import numpy as np
import pytest
import torch
from examples import some
from pictures import HOSTILE, bars, data, draw, drawing, names, record_of

from attnviz import figures, words
from attnviz.charts.axes import PADDING, text_width
from attnviz.charts.size import MOST_BESIDE
from attnviz.core.amounts import percent
from attnviz.figures.rollout import MOST_BARS, Traced
from attnviz.metrics.rollout import flow, mixed, rollout

SHARES = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.25, 0.25, 0.5]])


def traced(names=("a", "b", "c"), shares=None):
    record = record_of(list(names))
    found = mixed(record)
    return Traced(record, found, 0, rollout(found)[-1].numpy() if shares is None else shares)


def texts(frame, kind):
    return [item["text"] for item in getattr(frame, kind)]


def test_the_map_holds_the_shares():
    """Each cell its own number, the color ending at the largest, which the legend says."""
    drawn = drawing(figures.rollout(traced(shares=SHARES / 2)))

    (panel,) = drawn.panels
    assert np.array_equal(panel.values, SHARES / 2)
    assert panel.limit == 0.5
    assert not panel.signed
    assert {"0", "0.25", "0.5"} <= set(texts(drawn.frame, "ticks"))
    assert "share, from 0 to 0.5, the largest here" in str(drawn.frame)
    assert "share, from 0 to 1'" in str(drawing(figures.rollout(traced(shares=SHARES))).frame)
    assert texts(drawn.frame, "rows") == texts(drawn.frame, "columns") == ["a", "b", "c"]


def test_the_title_of_the_columns_stands_above_their_labels():
    """Which are upright, also where cells are so wide that they would fit beside each other."""
    found = traced(["frère", "mange", "rue"])
    (title,) = (word for word in drawing(figures.rollout(found)).frame.ticks if word["text"] == "Token")

    assert title["y"] < -text_width("mange") - PADDING


def test_a_selected_row_is_outlined_whole():
    """In a file as on the screen."""
    boxes = data(figures.rollout(traced(), selected=1).chart, "boxes")
    size = figures.rollout(traced(), selected=1).chart.to_dict()["layer"][0]["mark"]

    (row,) = [box for box in boxes if box["width"] == 1.5]
    assert (row["x"], row["x2"]) == (0, size["width"])
    assert (row["y"], row["y2"]) == pytest.approx((size["height"] / 3, 2 * size["height"] / 3))


def test_a_token_that_cannot_have_arrived_is_hatched():
    """A share of exactly 0, and the legend says so; where every token arrives, nothing is hatched."""
    causal = np.tril(np.full((4, 4), 0.25))

    for shares, there in ((causal, True), (np.full((4, 4), 0.25), False)):
        chart = figures.rollout(traced(["one", "two", "three", "four"], shares=shares)).chart
        assert ("no path" in {one["text"] for one in data(chart, "words")}) is there


def test_bars_are_as_long_as_their_shares():
    """Those of rollout and of the flow each by its own largest; without a flow there is one column."""
    one = traced(shares=SHARES)
    alone, both = (figures.rollout_row(one, 2, flow).chart for flow in (None, np.array([0.9, 0.3, 0.6])))

    assert bars(alone) == pytest.approx([0.5, 0.5, 1])
    assert bars(both) == pytest.approx([0.5, 0.5, 1, 1, 1 / 3, 2 / 3])
    assert [row["text"] for row in data(both, "bars")] == ["25.0%", "25.0%", "50.0%", "90.0%", "30.0%", "60.0%"]


def test_numbers_beside_bars_and_in_tables_are_those_of_the_metrics():
    """Rollout and flow of a random record."""
    one = traced(["one", "two", "three", "four"])
    reached = flow(one.found, 3).numpy()
    figure = figures.rollout_row(one, 3, reached)
    shown = [bar["text"] for bar in data(figure.chart, "bars")]

    assert figure.table["rollout"].tolist() == one.shares[3].tolist()
    assert figure.table["flow"].tolist() == reached.tolist()
    assert {percent(value) for value in (*one.shares[3], *reached)} <= set(shown)
    table = figures.rollout(one).table
    assert table.query("query == 1 and key == 2")["share"].item() == one.shares[1, 2]
    assert table.query("query == 1")["share"].sum() == pytest.approx(1)


def test_of_a_long_text_the_largest_are_shown_and_said():
    """Forty bars; a map of squares, each the largest of its cells."""
    n = MOST_BESIDE + 4
    shares = torch.rand(n, n, generator=torch.Generator().manual_seed(3)).double().numpy()
    one = traced([f"w{i}" for i in range(n)], shares)
    shown = names(figures.rollout_row(one, 5).chart)
    drawn = drawing(figures.rollout(one, selected=7))

    assert len(shown) == MOST_BARS
    assert shown[0] == one.called(min(np.argsort(-shares[5])[:MOST_BARS]))
    assert drawn.panels[0].values[3, 2] == shares[6:8, 4:6].max()
    assert drawn.rest[0] == 7 // one.tile == 3
    assert any("2 × 2" in text for text in texts(drawn.frame, "words"))


def test_what_reaches_a_position_is_said_in_words():
    """The largest first."""
    said = words.reached(SHARES[2], ["a", "b", "c"], 2)

    assert said == "“c” (2) is mixed from: itself 50.0%, “a” (0) 25.0%, “b” (1) 25.0%."
    assert "58.3% of what stands at the 3 positions" in words.reaches(SHARES, ["a", "b", "c"])
    assert "50.0% of what stands at “b” (1) came from “a” (0)" in words.reaches(SHARES, ["a", "b", "c"])


def test_another_text_leaves_the_specification():
    """What is drawn is data alone, so the browser replaces it in place."""
    first, second = traced(), traced(["x", "y", "z", "u"])

    assert figures.rollout(first).screen == figures.rollout(second, selected=2).screen
    specs = [{k: v for k, v in figures.rollout_row(t, 1).screen.items() if k != "datasets"} for t in (first, second)]
    assert specs[0] == specs[1]


@pytest.mark.parametrize("dark", some([True, False], 1))
def test_any_token_is_drawn(dark):
    """As files."""
    one = traced(HOSTILE)

    reached = np.linspace(0, 1, len(HOSTILE))
    charts = figures.rollout(one, dark=dark).chart, figures.rollout_row(one, 1, reached, dark=dark).chart
    assert draw(*(each.to_dict() for each in charts))
