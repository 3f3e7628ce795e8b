"""The learning curve of a model."""

from hypothesis import given
from hypothesis import strategies as st

from attnviz.charts.curve import curve, score_at

POINTS = ((0, None, 0.0), (100, 2.0, 0.5), (300, 1.0, 0.9))


def rows(chart) -> list[list[dict]]:
    """The data of each layer."""
    spec = chart.to_dict()
    return [
        layer["data"]["values"] if "values" in layer["data"] else spec["datasets"][layer["data"]["name"]]
        for layer in spec["layer"]
    ]


def test_every_point_is_drawn_and_every_kept_step_is_marked():
    """The line goes through the scores; a dot stands at each step whose weights were kept."""
    line, dots = rows(curve(POINTS, kept=(0, 200, 300)))

    assert [(row["step"], row["score"]) for row in line] == [(0, 0.0), (100, 0.5), (300, 0.9)]
    assert [row["step"] for row in dots] == [0, 200, 300]


def test_a_curve_without_points_is_empty():
    """A model that was not trained has none."""
    assert rows(curve((), kept=(1, 2))) == [[], []]


def test_a_kept_step_between_two_points_stands_on_the_line():
    """Half way from 100 to 300 the score is half way too."""
    assert abs(score_at(POINTS, 200) - 0.7) < 1e-12


@given(st.integers(0, 300))
def test_the_score_lies_between_those_around_it(step):
    """At a point it is that of the point; between two it is never outside of both."""
    scores = {point: score for point, _, score in POINTS}
    found = score_at(POINTS, step)

    assert found == scores.get(step, found)
    assert min(scores.values()) <= found <= max(scores.values())


def test_light_and_dark_differ_in_colors_alone():
    """The same data on another ground."""
    light, dark = curve(POINTS).to_dict(), curve(POINTS, dark=True).to_dict()

    assert light["config"]["background"] != dark["config"]["background"]
    assert rows(curve(POINTS)) == rows(curve(POINTS, dark=True))
