"""How a model learned: its score on held-out data above, its loss below, with the moments whose weights were kept."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from attnviz.charts.theme import config, theme

LABELS = 60
"""Pixels left of a panel, the same for both, so that their steps stand below each other."""


def curve(
    points: Sequence[tuple[int, float | None, float]],
    *,
    checkpoints: Sequence[int] = (),
    title: str = "",
    subtitle: str = "",
    width: int = 640,
    height: int = 150,
    dark: bool = False,
) -> alt.VConcatChart:
    """Draw two lines over the same steps, and a dot on each at the steps whose weights were kept.

    Args:
        points: a training step, the mean loss since the point before (None at first) and the held-out score, 0 to 1.
        checkpoints: the steps to mark, of those that have a point.
        width, height: pixels of one panel.
    """
    colors = theme(dark)
    table = pd.DataFrame(points, columns=["step", "loss", "score"]).astype({"loss": float, "score": float})
    last = int(table["step"].max()) if len(table) else 1
    parts = next((n for n in (3, 4, 5, 2) if n <= max(2, width // 110) and last % (100 * n) == 0), 1)
    top = float(table["loss"].max() * 1.05) if table["loss"].notna().any() else 1.0
    panels = []
    for field, name, format, highest, color in (
        ("score", "held-out score", ".0%", 1, colors.dot),
        ("loss", "training loss (nats)", "", top, colors.accent),
    ):
        steps = {"title": "training step" if field == "loss" else None, "labels": field == "loss", "format": ",d"}
        steps["values"] = [last * i // parts for i in range(parts + 1)]  # round ones; the last is always named
        beside = {"titleX": 6 - LABELS, "titleY": height / 2, "minExtent": LABELS, "maxExtent": LABELS}
        lines = {"grid": True, "gridColor": colors.line, "gridOpacity": 0.6, "tickCount": max(2, height // 40)}
        x = alt.X("step:Q", scale=alt.Scale(domain=(0, last), nice=False), axis=alt.Axis(**steps))
        axis = alt.Axis(title=name, format=format, **beside, **lines)
        y = alt.Y(f"{field}:Q", scale=alt.Scale(domain=(0, highest), nice=False), axis=axis)
        there = table.dropna(subset=[field])  # a point without a loss has no place on its curve
        base, dots = (alt.Chart(rows).encode(x, y) for rows in (there, there[there["step"].isin([*checkpoints])]))
        tips = [alt.Tooltip("step:Q", format=",d"), alt.Tooltip(f"{field}:Q", title=name, format=format or ".3f")]
        dots = dots.mark_circle(color=color, size=60, opacity=1, stroke=colors.background).encode(tooltip=tips)
        layers = base.mark_area(color=color, opacity=0.08), base.mark_line(color=color, strokeWidth=2), dots
        panels.append(alt.layer(*layers).properties(width=width, height=height))
    chart = alt.vconcat(*panels, spacing=22)
    if title:
        chart = chart.properties(title=alt.TitleParams(title, subtitle=subtitle, anchor="start", offset=16))
    return chart.configure(**config(colors))
