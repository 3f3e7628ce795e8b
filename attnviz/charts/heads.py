"""All heads of one attention call at a glance: a thumbnail per head, each one image."""

import altair as alt
import numpy as np
import pandas as pd

from attnviz import metrics
from attnviz.charts import axes, pixels
from attnviz.charts.heatmap import Domain, domain_of, subtitles_of
from attnviz.charts.theme import Theme, config, theme
from attnviz.core.display import shown
from attnviz.core.edits import Site
from attnviz.core.record import Record

WIDTH = 336
"""Pixels of the whole mosaic, so that it fits a phone."""

GAP, LABEL = 12, 20
FINEST = 128
"""At most this many tiles per side of a thumbnail."""


def columns_of(heads: int) -> int:
    return 1 if heads == 1 else 2 if heads <= 4 else 3 if heads <= 9 else 4


def heads(
    record: Record,
    site: Site,
    *,
    sentence: int = 0,
    domain: str = "fixed",
    dark: bool = False,
    focused: int | None = None,
    rev: int = 0,
) -> alt.LayerChart:
    """Draw a thumbnail of every head; a click selects one under the name "head" with the fields head and rev.

    Args:
        domain: as in `heatmap`.
        focused: the head that is framed.
        rev: a counter to raise after each click, so that the same head can be clicked again.
    """
    step, colors = record.step(site), theme(dark)
    scale = domain_of(domain, record, site, sentence)
    columns = columns_of(step.num_heads)
    side = (WIDTH - GAP * (columns - 1)) / columns
    data = pd.DataFrame([
        _thumbnail(record, site, head, sentence, scale, side, colors)
        | {
            "x": head % columns * (side + GAP),
            "y": head // columns * (side * _aspect(step) + GAP + LABEL) + LABEL,
            "focused": head == focused,
            "rev": rev,
        }
        for head in range(step.num_heads)
    ])
    height = side * _aspect(step)
    rows = -(-step.num_heads // columns)
    title = axes.title(f"All heads · {site} · {shown(record.source, 40)}", subtitles_of(record), WIDTH)
    chart = alt.layer(*_layers(data, side, height, colors), title=title, autosize="pad").properties(
        width=WIDTH, height=rows * (height + LABEL + GAP) - GAP
    )
    return chart.configure(**config(colors))


def _aspect(step) -> float:
    """Height of a thumbnail per width."""
    queries, keys = step.shape[2:]
    return max(0.25, min(2.0, queries / keys))


def _thumbnail(record: Record, site: Site, head: int, sentence: int, scale: Domain, side: float, colors: Theme) -> dict:
    step = record.step(site)
    found = metrics.tiles(step, head, FINEST, sentence=sentence)
    off = head in step.heads_off
    zoom = max(1, round(2 * side / max(found.weights.shape)))
    image = pixels.paint(scale.shade(found.weights), found.states, found.blocked, zoom=zoom)
    largest = float(np.nanmax(found.weights)) if np.isfinite(found.weights).any() else float("nan")
    return {
        "head": head,
        "image": pixels.data_uri(image, pixels.palette(colors, gray=off)),
        "label": f"head {head}",
        "note": "off" if off else "",
        "largest": f"{largest:.4f}",
    }


def _layers(data: pd.DataFrame, side: float, height: float, colors: Theme) -> list[alt.Chart]:
    x, y = alt.X("x:Q", scale=None, axis=None), alt.Y("y:Q", scale=None, axis=None)
    plain = {"aria": False, "tooltip": None}
    base = alt.Chart(data).encode(x=x, y=y)
    tooltip = [
        alt.Tooltip("label:N", title="head"), alt.Tooltip("largest:N", title="largest weight"), alt.Tooltip("note:N", title="state")
    ]  # fmt: skip
    frame = alt.when("datum.focused").then(alt.value(colors.accent)).otherwise(alt.value(colors.line))
    thick = alt.when("datum.focused").then(alt.value(2.5)).otherwise(alt.value(1))
    return [
        base.mark_image(
            width=side, height=height, align="left", baseline="top", smooth=False, aspect=False, cursor="pointer", aria=False
        )
        .encode(url="image:N", tooltip=tooltip)
        .add_params(
            alt.selection_point(
                name="head", fields=["head", "rev"], on="click", toggle=False, clear="window:keydown[event.key === 'Escape']"
            )
        ),
        base.mark_square(filled=False, xOffset=side / 2, yOffset=height / 2, size=side**2, shape="square", opacity=1, **plain).encode(
            stroke=frame, strokeWidth=thick
        ),
        base.mark_text(align="left", baseline="bottom", dy=-5, **plain).encode(
            text="label:N",
            color=alt.when("datum.focused").then(alt.value(colors.accent)).otherwise(alt.value(colors.text)),
        ),
        base.mark_text(align="right", baseline="bottom", dx=side, dy=-5, **plain).encode(
            text="note:N", color=alt.value(colors.quiet)
        ),
    ]
