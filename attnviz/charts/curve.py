"""How a model learned: its score on held-out data, step by step of its training."""

from collections.abc import Sequence

import altair as alt

from attnviz.charts.theme import TEXT_SIZE, config, theme

WIDTH, HEIGHT = 330, 150
DOT = 55


def curve(
    points: Sequence[tuple[int, float | None, float]], *, kept: Sequence[int] = (), dark: bool = False
) -> alt.LayerChart:
    """Draw a line over the points, and a dot at each step whose weights were kept.

    Args:
        points: a training step, the loss (None before the first step) and the held-out score, a share from 0 to 1.
        kept: the steps to mark; one between two points stands on the line between them.
    """
    colors = theme(dark)
    rows = [{"step": step, "score": score, "loss": loss} for step, loss, score in points]
    marked = [{"step": step, "score": score_at(points, step)} for step in kept if points]
    last = max((step for step, _, _ in points), default=1)
    x = alt.X("step:Q", title="training step", axis=_axis(format=",d", tickCount=4))
    x = x.scale(domain=[0, last], nice=False)
    y = alt.Y("score:Q", title="held-out score", axis=_axis(format=".0%", tickCount=3, grid=True))
    y = y.scale(domain=[0, 1])
    line = alt.Chart(alt.InlineData(rows)).mark_line(color=colors.ramp[6], strokeWidth=2).encode(x, y)
    dots = alt.Chart(alt.InlineData(marked)).mark_point(filled=True, size=DOT, color=colors.accent, opacity=1)
    tooltip = [alt.Tooltip("step:Q", format=",d"), alt.Tooltip("score:Q", format=".1%")]
    chart = alt.layer(line, dots.encode(x, y, tooltip=tooltip), width=WIDTH, height=HEIGHT, autosize="pad")
    return chart.configure(**config(colors))


def score_at(points: Sequence[tuple[int, float | None, float]], step: int) -> float:
    """The held-out score after a step, on the straight line between the points around it."""
    before = max((point for point in points if point[0] <= step), default=points[0])
    after = min((point for point in points if point[0] >= step), default=points[-1])
    if before[0] == after[0]:
        return before[2]
    share = (step - before[0]) / (after[0] - before[0])
    return before[2] + share * (after[2] - before[2])


def _axis(**options: object) -> alt.Axis:
    return alt.Axis(labelFontSize=TEXT_SIZE, titleFontSize=TEXT_SIZE, domain=True, ticks=True, **options)
