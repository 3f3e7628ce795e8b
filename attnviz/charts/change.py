"""What an edit did to the output: how far each token's vector moved."""

import altair as alt
import numpy as np
import pandas as pd

from attnviz import metrics
from attnviz.charts import axes, frame
from attnviz.charts.frame import Frame, box
from attnviz.charts.theme import config, theme
from attnviz.core.display import shown
from attnviz.core.record import Record

BAR, STEP = 12, 22
WIDTH = 240


def change(before: Record, after: Record, *, sentence: int = 0, dark: bool = False) -> alt.LayerChart:
    """Draw a bar per token: ||after - before|| / ||before|| of its output vector; a token that did not move says 0."""
    colors = theme(dark)
    moved = metrics.output_change(before, after, sentence).numpy()
    finite = np.isfinite(moved)
    labels = axes.bands(after.sentences[sentence].tokens[: len(moved)])
    top = max(float(moved[finite].max(initial=0.0)), 1e-9)
    data = pd.DataFrame(
        {
            "band": labels,
            "change": np.where(finite, moved, 0.0),
            "length": np.where(finite, moved, top) / top * WIDTH,
            "text": [f"{m:.1%}" if m else "0" for m in moved.tolist()],
            "color": [colors.text if m else colors.quiet for m in moved.tolist()],
        }
    )
    y = alt.Y("band:N", title=None, axis=axes.band_axis(colors), scale=alt.Scale(paddingInner=0, paddingOuter=0))
    plain = {"aria": False, "tooltip": None}
    base = alt.Chart(data)
    around = frame.heading(
        f"Change of the output · {shown(after.source, 40)}",
        _lines(after),
        left=-max(frame.text_width(band[5:]) for band in labels) - axes.PADDING,
        top=-10,
        width=WIDTH + 100,
        narrowest=340,
        colors=colors,
    ) + Frame(boxes=(box(0, 0, 0.5, STEP * len(labels), stroke=colors.line),))
    parts = [
        base.mark_bar(height=BAR, color=colors.ramp[5], **plain).encode(
            y=y, x=alt.X("length:Q", scale=None, axis=None)
        ),
        base.mark_text(align="left", baseline="middle", dx=6, **plain).encode(
            y=y, x=alt.X("length:Q", scale=None, axis=None), text="text:N", fill=alt.Fill("color:N", scale=None)
        ),
    ]
    chart = alt.layer(*parts, *frame.layers(around), width=WIDTH, height=STEP * len(labels), autosize="pad")
    return chart.configure(**config(colors))


def _lines(after: Record) -> list[str]:
    changed = ", ".join(after.edits.in_words())
    return ["how far each token's output vector moved, as a share of its length", f"changed: {changed or 'nothing'}"]
