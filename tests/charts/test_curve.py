"""The learning curve of a model."""

from attnviz.charts.curve import curve

POINTS = ((0, None, 0.0), (100, 2.0, 0.5), (300, 1.0, 0.9))


def rows(chart) -> list[list[dict]]:
    """The data of each layer: line and dots of the score, then of the loss."""
    spec = chart.to_dict()
    return [spec["datasets"][layer["data"]["name"]] for panel in spec["vconcat"] for layer in panel["layer"]]


def steps(chart) -> list[list[int]]:
    return [[row["step"] for row in layer] for layer in rows(chart)]


def test_every_point_is_drawn_and_every_kept_step_is_marked():
    """The score at all steps; the loss only where there is one, and so its dots."""
    score, dots, loss, fewer = steps(curve(POINTS, checkpoints=(0, 300)))

    assert score == [0, 100, 300]
    assert dots == [0, 300]
    assert loss == [100, 300]
    assert fewer == [300]
