"""What an edit did to the output: how far each token's vector moved."""

import math
from functools import lru_cache

import altair as alt

from attnviz import metrics
from attnviz.charts import axes, frame
from attnviz.charts.frame import Frame, box
from attnviz.charts.heatmap import subtitles_of
from attnviz.charts.picture import Form, Picture
from attnviz.charts.theme import Theme, config, theme
from attnviz.core.amounts import percent
from attnviz.core.display import in_title
from attnviz.core.record import Record

BAR, STEP = 12, 22
WIDTH = 240
MOST_BARS = 40
"""Of longer sentences the tokens that moved most are shown; the table holds all."""


def picture(before: Record, after: Record, *, sentence: int = 0, dark: bool = False, edits: bool = True) -> Picture:
    """Draw a bar per token: ||after - before|| / ||before|| of its output vector; a token that did not move says 0.

    Args:
        edits: whether the picture says what was changed.
    """
    colors = theme(dark)
    every = metrics.output_change(before, after, sentence).tolist()
    kept = sorted(sorted(range(len(every)), key=lambda i: -_rank(every[i]))[:MOST_BARS])
    moved, tokens = [every[i] for i in kept], after.read[sentence].tokens
    bands = axes.bands([tokens[i] for i in kept])
    top = max((m for m in moved if math.isfinite(m)), default=0.0) or 1.0
    table = {
        "band": bands,
        "change": [m if math.isfinite(m) else None for m in moved],
        "length": [0.0 if math.isnan(m) else min(m / top, 1.0) * WIDTH for m in moved],
        "text": [percent(m) if m else "0" for m in moved],
        "color": [colors.text if m else colors.quiet for m in moved],
    }
    heading = frame.heading(
        title_of(after),
        _lines(after, len(moved), len(every), edits),
        left=-max((frame.text_width(band[5:]) for band in bands), default=0.0) - axes.PADDING,
        top=-10,
        width=WIDTH + 100,
        narrowest=WIDTH + 100,
        colors=colors,
    )
    zero = Frame(boxes=(box(-0.5, 0, 0.5, STEP * len(bands), fill=colors.line, width=0),))
    return Picture(_form(len(bands), colors), {"tokens of change": table} | frame.tables(heading + zero))


def title_of(after: Record) -> str:
    """What is drawn, beginning with constant words."""
    return f"Change of the output, compared with the untouched model · {in_title(after.source)}"


@lru_cache(maxsize=64)
def _form(tokens: int, colors: Theme) -> Form:
    y = alt.Y("band:N", title=None, axis=axes.band_axis(colors), scale=alt.Scale(paddingInner=0, paddingOuter=0))
    x = alt.X("length:Q", scale=None, axis=None)
    plain = {"aria": False, "tooltip": None}
    base = alt.Chart(alt.NamedData("tokens of change")).encode(y=y, x=x)
    bars = base.mark_bar(height=BAR, color=colors.ramp[5], **plain).encode(x2=alt.value(0))
    texts = base.mark_text(align="left", baseline="middle", dx=6, **plain)
    texts = texts.encode(text="text:N", fill=alt.Fill("color:N", scale=None))
    chart = alt.layer(*frame.layers(), bars, texts, width=WIDTH, height=STEP * tokens, autosize="pad")
    return Form.of(chart.configure(**config(colors)))


def _rank(moved: float) -> float:
    """What is not a number comes first: it is what one must not miss."""
    return math.inf if math.isnan(moved) else moved


def _lines(after: Record, drawn: int, tokens: int, edits: bool) -> list[str]:
    """What is measured, what is left out, where the weights come from, and what was changed if that is to be said."""
    left_out = [f"the {drawn} of {tokens} tokens that moved most"] if drawn < tokens else []
    measure = "how far each token's output vector moved, as a share of its length"
    unchanged = ["changed: nothing"] if edits and not after.edits.in_words() else []
    return [measure, *left_out, *subtitles_of(after, edits=edits), *unchanged]
