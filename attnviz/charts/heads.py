"""Two numbers of each head as dots beside a diagonal."""

import altair as alt

from attnviz.charts.interaction import QUIET_MARK, clicked, tooltip
from attnviz.charts.picture import Form, formed
from attnviz.charts.texts import titled
from attnviz.charts.theme import MONO, Theme, config

SIDE = 260
"""Pixels of the side of a plot of dots, which a phone has room for with its axis."""

_HEAD = clicked("head", "kind", "layer", "head", "rev")


@formed(8)
def dots(over: str, up: str, colors: Theme) -> Form:
    """A dot for each head, from the tables meta (low and high of both axes) and dots; a click selects it under "head".

    Args:
        over, up: titles of the axes.
    """
    meta, heads = (alt.Chart(alt.NamedData(name)) for name in ("meta", "dots"))
    meta = meta.transform_calculate(zero="0")
    ends = [alt.expr(f"(data('meta')[0] || {{}}).{end}") for end in ("low", "high")]
    scale, ticks = alt.Scale(domain=ends, nice=False, zero=False), {"tickCount": 5, "format": ".3~g"}
    place = {
        "x": alt.X("x:Q", scale=scale, axis=alt.Axis(title=over, **ticks)),
        "y": alt.Y("y:Q", scale=scale, axis=alt.Axis(title=up, **ticks)),
    }
    zero = meta.mark_rule(color=colors.line, **QUIET_MARK)
    diagonal = meta.mark_rule(color=colors.quiet, strokeDash=[4, 3], **QUIET_MARK)
    ring = alt.condition("datum.focused", alt.value(colors.accent), alt.value(colors.background))
    marks = heads.mark_point(filled=True, size=90, opacity=1, strokeWidth=2, cursor="pointer", aria=False)
    tips = tooltip({"name": "head", "x_text": over, "y_text": up})
    layers = [
        zero.encode(x=alt.X("zero:Q", scale=scale)),
        zero.encode(y=alt.Y("zero:Q", scale=scale)),
        diagonal.encode(x=alt.X("low:Q", scale=scale), y=alt.Y("low:Q", scale=scale), x2="high", y2="high"),
        marks.encode(**place, fill=alt.value(colors.dot), stroke=ring, tooltip=tips).add_params(_HEAD),
    ]
    for side, dx in (("left", 10), ("right", -10)):
        texts = heads.transform_filter(f"datum.side === '{side}'")
        layers.append(texts.mark_text(font=MONO, align=side, dx=dx, **QUIET_MARK).encode(**place, text="label:N"))
    chart = alt.layer(*layers, width=SIDE, height=SIDE, autosize="pad", title=titled(colors))
    return Form.of(chart.configure(**config(colors)))
