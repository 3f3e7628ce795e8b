"""How a model learned: its score on held-out data above, its loss below, with the moments whose weights were kept."""

from collections.abc import Sequence

import altair as alt
import pandas as pd

from attnviz.charts.theme import FONT, TEXT_SIZE, TITLE_SIZE, Theme, config, theme

GAP = 22
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
    top = float(table["loss"].max() * 1.05) if table["loss"].notna().any() else 1.0
    sizes = {"width": width, "height": height}
    score = _panel(table, checkpoints, "score", ("held-out score", ".0%", (0, 1)), colors, steps=False, **sizes)
    loss = _panel(table, checkpoints, "loss", ("training loss (nats)", "", (0, top)), colors, steps=True, **sizes)
    chart = alt.vconcat(score, loss, spacing=GAP)
    if title:
        named = alt.TitleParams(
            title, subtitle=subtitle, anchor="start", offset=16, color=colors.text, font=FONT, fontSize=TITLE_SIZE,
            fontWeight="bold", subtitleColor=colors.quiet, subtitleFont=FONT, subtitleFontSize=TEXT_SIZE,
            subtitlePadding=6,
        )  # fmt: skip
        chart = chart.properties(title=named)
    return chart.configure(**config(colors))


def _ticks(last: int, most: int) -> list[int]:
    """Round steps from 0 to the last, which is always named; in `most` parts at most."""
    parts = next((n for n in (3, 4, 5, 2) if n <= most and last % (100 * n) == 0), 1)
    return [last * i // parts for i in range(parts + 1)]


def _panel(
    table: pd.DataFrame,
    marked: Sequence[int],
    field: str,
    quantity: tuple[str, str, tuple[float, float]],
    colors: Theme,
    *,
    steps: bool,
    width: int,
    height: int,
) -> alt.LayerChart:
    """Panel of one quantity (its title, format and domain) over the steps; `steps`: whether their axis stands below."""
    title, format, domain = quantity
    last = int(table["step"].max()) if len(table) else 1
    below = {"title": "training step" if steps else None, "labels": steps, "values": _ticks(last, max(2, width // 110))}
    x = alt.X("step:Q", scale=alt.Scale(domain=(0, last), nice=False), axis=alt.Axis(format=",d", **below))
    beside = {"titleX": 6 - LABELS, "titleY": height / 2, "minExtent": LABELS, "maxExtent": LABELS}
    lines = {"grid": True, "gridColor": colors.line, "gridOpacity": 0.6, "tickCount": max(2, height // 40)}
    axis = alt.Axis(title=title, format=format, **beside, **lines)
    y = alt.Y(f"{field}:Q", scale=alt.Scale(domain=domain, nice=False), axis=axis)
    color = colors.dot if field == "score" else colors.accent
    base = alt.Chart(table.dropna(subset=[field])).encode(x, y)
    line = base.mark_line(color=color, strokeWidth=2)
    under = base.mark_area(color=color, opacity=0.08)
    # What was kept before the first mean of the loss has no place on its curve.
    moments = pd.DataFrame({"step": list(marked)}, dtype=int).merge(table, on="step").dropna(subset=[field])
    tooltip = [alt.Tooltip("step:Q", format=",d"), alt.Tooltip(f"{field}:Q", title=title, format=format or ".3f")]
    dots = alt.Chart(moments).encode(x, y, tooltip=tooltip)
    dots = dots.mark_circle(color=color, size=60, opacity=1, stroke=colors.background)
    return alt.layer(under, line, dots).properties(width=width, height=height)
