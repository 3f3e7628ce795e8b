"""How a model learned, as a picture: its loss and its score on held-out data, with the moments that were kept."""

import json
from pathlib import Path

import altair as alt
import pandas as pd

from attnviz import export
from attnviz.charts.theme import FONT, LIGHT, TEXT_SIZE, TITLE_SIZE, Theme, config
from attnviz.models import trained

WIDTH, HEIGHT, GAP = 640, 150, 22


def write(name: str) -> Path:
    """Draw assets/models/<name>/learning.png from the learning.json and the weights beside it."""
    learning = json.loads((trained.folder(name) / "learning.json").read_text(encoding="utf-8"))
    path = trained.folder(name) / "learning.png"
    path.write_bytes(export.render(draw(name, learning, trained.checkpoints(name)), "png", scale=2))
    return path


def draw(name: str, learning: dict, kept: tuple[int, ...], *, colors: Theme = LIGHT) -> alt.VConcatChart:
    """The held-out score above, the loss below, over the same steps.

    Args:
        learning: what the harness wrote: minutes, and a curve of step, loss (None before the first) and score.
        kept: the steps whose weights were kept.
    """
    curve = pd.DataFrame(learning["curve"]).astype({"loss": float})
    last = curve.iloc[-1]
    score = _panel(curve, kept, "score", "held-out score", ".0%", (0, 1), colors, steps=False)
    top = float(curve["loss"].max()) * 1.05
    loss = _panel(curve, kept, "loss", "training loss", "", (0, top), colors, steps=True)
    subtitle = (
        f"held-out score {last['score']:.1%} after {int(last['step']):,} steps, {learning['minutes']:g} minutes on one "
        f"core; dots: the {len(kept)} moments whose weights were kept"
    )
    title = alt.TitleParams(
        f"How the model “{name}” learned", subtitle=subtitle, anchor="start", offset=16, color=colors.text, font=FONT,
        fontSize=TITLE_SIZE, fontWeight="bold", subtitleColor=colors.quiet, subtitleFont=FONT,
        subtitleFontSize=TEXT_SIZE, subtitlePadding=6,
    )  # fmt: skip
    return alt.vconcat(score, loss, spacing=GAP).properties(title=title).configure(**config(colors))


def _panel(
    curve: pd.DataFrame,
    kept: tuple[int, ...],
    field: str,
    title: str,
    format: str,
    domain: tuple[float, float],
    colors: Theme,
    *,
    steps: bool,
) -> alt.LayerChart:
    """One quantity over the steps; `steps` says whether the axis of steps is written below."""
    last = int(curve["step"].max())
    x = alt.X(
        "step:Q",
        scale=alt.Scale(domain=(0, last), nice=False),
        axis=alt.Axis(
            title="training steps" if steps else None,
            labels=steps,
            format=",d",
            grid=False,
            tickCount=6,
            labelFlush=True,
        ),
    )
    y = alt.Y(
        f"{field}:Q",
        scale=alt.Scale(domain=domain, nice=False),
        axis=alt.Axis(
            title=title,
            titleX=-54,
            titleY=HEIGHT / 2,
            minExtent=60,
            maxExtent=60,
            format=format,
            grid=True,
            gridColor=colors.line,
            gridOpacity=0.6,
            tickCount=4,
        ),
    )
    color = colors.dot if field == "score" else colors.accent
    base = alt.Chart(curve.dropna(subset=[field])).encode(x, y)
    line = base.mark_line(color=color, strokeWidth=2, interpolate="monotone")
    under = base.mark_area(color=color, opacity=0.08, interpolate="monotone")
    # What was kept before the first mean of the loss has no place on its curve.
    moments = pd.DataFrame({"step": kept}).merge(curve, how="inner", on="step").dropna(subset=[field])
    dots = alt.Chart(moments).encode(x, y).mark_circle(color=color, size=60, opacity=1, stroke=colors.background)
    return alt.layer(under, line, dots).properties(width=WIDTH, height=HEIGHT)
