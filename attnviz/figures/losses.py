"""Losses of several models over the same steps of their training."""

from typing import Unpack

import pandas as pd

from attnviz.charts import losses as chart
from attnviz.charts.picture import Picture
from attnviz.charts.style import Style
from attnviz.figures.figure import Drawn, Figure

TITLE = "Training loss"
WIDTH, HEIGHT, BESIDE = 640, 200, 80
"""Pixels of the panel, and of what stands beside it."""


def losses(models: chart.Models, guess: float, **drawn: Unpack[Drawn]) -> Figure:
    """A line for each model, with its name and its last loss at its end; the loss of a guess is dashed."""
    points = [(name, step, loss) for name, points in models for step, loss in points]
    table = pd.DataFrame(points, columns=["model", "step", "loss"])
    said = (f"{name} from {points[0][1]:.2f} to {points[-1][1]:.2f}" for name, points in models)

    def draw(style: Style) -> Picture:
        width = WIDTH if style.width is None else min(WIDTH, style.width - BESIDE)
        return chart.losses(models, guess, style.colors, width=width, height=HEIGHT)

    return Figure(
        name="losses",
        title=TITLE,
        style=Style(**drawn),
        draw=draw,
        describe=lambda: f"{TITLE}, in nats: {'; '.join(said)}; of a guess {guess:.2f}.",
        tabulate=lambda: table,
        collect=lambda: {name: table[name].to_numpy() for name in ("step", "loss")},
    )
