"""How a model learned: its score on held-out data above, its loss below, with the moments whose weights were kept."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from attnviz.charts.theme import config, theme

WIDTH, HEIGHT, LABELS = 640, 150, 60
"""Pixels of one panel, and of the labels left of both, so that their steps stand below each other."""


def curve(
    points: Sequence[tuple[int, float | None, float]],
    *,
    checkpoints: Sequence[int] = (),
    title: str = "",
    subtitle: str = "",
    dark: bool = False,
) -> alt.VConcatChart:
    """Draw two lines over the same steps, and a dot on each at the steps whose weights were kept.

    Args:
        points: a training step, the mean loss since the point before (None at first) and the held-out score, 0 to 1.
        checkpoints: steps to mark, of those that have a point.
    """
    colors, panels = theme(dark), []
    table = pd.DataFrame(points, columns=["step", "loss", "score"]).astype({"loss": float, "score": float})
    steps = alt.X(
        "step:Q",
        scale=alt.Scale(domainMin=0, nice=False),
        axis=alt.Axis(title="training step", format=",d", tickCount=6),
    )
    for field, name, form, color in (
        ("score", "held-out score", ".0%", colors.dot),
        ("loss", "training loss (nats)", "", colors.accent),
    ):
        lines = {"grid": True, "gridColor": colors.line, "gridOpacity": 0.6, "tickCount": 4}
        axis = alt.Axis(title=name, format=form, minExtent=LABELS, maxExtent=LABELS, **lines)
        y = alt.Y(f"{field}:Q", scale=alt.Scale(domainMin=0), axis=axis)
        there = table.dropna(subset=[field])  # a point without a loss has no place on its curve
        base, dots = (alt.Chart(rows).encode(steps, y) for rows in (there, there[there["step"].isin([*checkpoints])]))
        area = base.mark_area(color=color, opacity=0.08, line={"color": color, "strokeWidth": 2, "opacity": 1})
        layers = area, dots.mark_circle(color=color, size=60, opacity=1, stroke=colors.background)
        panels.append(alt.layer(*layers).properties(width=WIDTH, height=HEIGHT))
    above = alt.TitleParams(title, subtitle=subtitle, anchor="start", offset=16) if title else alt.Undefined
    return alt.vconcat(*panels, spacing=22, title=above).configure(**config(colors))
