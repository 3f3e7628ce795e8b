"""Losses of several models over the same steps of their training."""

from dataclasses import dataclass
from functools import cached_property

import altair as alt
import numpy as np
import pandas as pd

from attnviz.charts.picture import Form, Table, formed
from attnviz.charts.texts import heading, titled
from attnviz.charts.theme import Theme, config
from attnviz.figures.base import Figure

TITLE = "Training loss"
WIDTH, HEIGHT, BESIDE = 640, 200, 80
"""Pixels of the panel, and of what stands beside it."""

NARROW = 500
"""Pixels of a panel whose legend has a line for each model."""


@dataclass(frozen=True, eq=False)
class LossCurves(Figure):
    """A line for each model, with its name and its last loss in the legend; the loss of a guess is dashed.

    Attributes:
        models: by name, the step and the loss of its batch, in nats.
        guess: the loss of a guess.
    """

    models: tuple[tuple[str, tuple[tuple[int, float], ...]], ...]
    guess: float

    name = "losses"
    title = TITLE

    @cached_property
    def description(self) -> str:
        ends = (f"{name} from {points[0][1]:.2f} to {points[-1][1]:.2f}" for name, points in self.models)
        return f"{TITLE}, in nats: {'; '.join(ends)}; of a guess {self.guess:.2f}."

    @cached_property
    def table(self) -> pd.DataFrame:
        points = [(name, step, loss) for name, points in self.models for step, loss in points]
        return pd.DataFrame(points, columns=["model", "step", "loss"])

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return {name: self.table[name].to_numpy() for name in ("step", "loss")}

    @property
    def form(self) -> Form:
        return _form(self._width, self.colors)

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta, and the lines with their texts, the guess first."""
        last = max(points[-1][0] for _, points in self.models)
        lines = [(f"a guess: {self.guess:.2f}", ((0, self.guess), (last, self.guess)))]
        lines += [(f"{name}: {points[-1][1]:.2f}", points) for name, points in self.models]
        rows = [(text, step, loss) for text, points in lines for step, loss in points]
        names = zip(("model", "step", "loss"), map(list, zip(*rows, strict=True)), strict=True)
        return {"meta": heading(TITLE, [], self._width, self), "losses": dict(names)}

    @property
    def _width(self) -> int:
        return WIDTH if self.width is None else min(WIDTH, self.width - BESIDE)


@formed(4)
def _form(width: int, colors: Theme) -> Form:
    """Lines in the order of their table; the first is that of a guess."""
    grid = {"grid": True, "gridColor": colors.line, "gridOpacity": 0.6}
    legend = alt.Legend(columns=1 if width < NARROW else 0, symbolSize=400, symbolStrokeWidth=2.5)
    inks, dashes = [colors.quiet, *colors.hues], [[5, 4], *[[1, 0]] * len(colors.hues)]
    lines = (
        alt.Chart(alt.NamedData("losses"))
        .mark_line(strokeWidth=2.5)
        .encode(
            x=alt.X("step:Q", title="training step", scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=6)),
            y=alt.Y("loss:Q", title="loss (nats)", scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=4, **grid)),
            color=alt.Color("model:N", title=None, sort=None, scale=alt.Scale(range=inks), legend=legend),
            strokeDash=alt.StrokeDash("model:N", title=None, sort=None, scale=alt.Scale(range=dashes), legend=legend),
            tooltip=[alt.Tooltip("model:N"), alt.Tooltip("step:Q"), alt.Tooltip("loss:Q", format=".3f")],
        )
    )
    unseen = alt.Chart(alt.NamedData("meta")).mark_point(opacity=0, size=0, aria=False, tooltip=None)
    unseen = unseen.encode(x=alt.XValue(0), y=alt.YValue(0))
    chart = alt.layer(unseen, lines, width=width, height=HEIGHT, title=titled(colors))
    return Form.of(chart.configure(**config(colors)))
