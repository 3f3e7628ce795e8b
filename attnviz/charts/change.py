"""What an edit did to the output: how far each token's vector moved."""

import altair as alt
import numpy as np
import pandas as pd

from attnviz import metrics
from attnviz.charts import axes
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
    data = pd.DataFrame({
        "band": axes.bands(after.sentences[sentence].tokens[: len(moved)]),
        "change": np.where(finite, moved, 0.0),
        "text": [f"{m:.1%}" if m else "0" for m in moved.tolist()],
        "still": moved == 0,
    })
    top = max(float(data["change"].max()), 1e-9)
    y = alt.Y("band:N", title=None, axis=axes.label_axis(colors), scale=alt.Scale(paddingInner=0, paddingOuter=0))
    x = alt.X("change:Q", axis=None, scale=alt.Scale(domain=[0, top], nice=False))
    base = alt.Chart(data)
    color = alt.when("datum.still").then(alt.value(colors.quiet)).otherwise(alt.value(colors.text))
    parts = [
        base.mark_rule(stroke=colors.line, aria=False, tooltip=None).encode(x=alt.value(0), y=alt.value(0), y2=alt.value("height")),
        base.mark_bar(height=BAR, color=colors.ramp[5], tooltip=None).encode(y=y, x=x),
        base.mark_text(align="left", baseline="middle", dx=6, tooltip=None, aria=False).encode(y=y, x=x, text="text:N", color=color),
    ]
    heading = axes.title(f"Change of the output · {shown(after.source, 40)}", [_what(after)], WIDTH + 100)
    return (
        alt.layer(*parts, title=heading, autosize="pad")
        .properties(width=WIDTH, height=alt.Step(STEP))
        .configure(**config(colors))
    )


def _what(after: Record) -> str:
    changed = ", ".join(after.edits.in_words())
    return f"how far each token's output vector moved; changed: {changed}" if changed else "nothing is changed"
