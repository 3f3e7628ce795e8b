"""Numbers of heads: one of each as colored cells, layers x heads, or two of each as dots beside a diagonal."""

import altair as alt

from attnviz.charts.axes import axis
from attnviz.charts.interaction import QUIET_MARK, clicked, tooltip
from attnviz.charts.legends import Ramp, ramp_legend
from attnviz.charts.picture import Form, formed
from attnviz.charts.texts import titled
from attnviz.charts.theme import MONO, Theme, config

SIDE = 260
"""Pixels of the side of a plot of dots, which a phone has room for with its axis."""

_HEAD = clicked("head", "kind", "layer", "head", "rev")


@formed(32)
def cells(rows: int, columns: int, cell: tuple[int, int], measure: str, colors: Theme) -> Form:
    """A cell for each head, from the tables meta, rows, columns and cells; a click selects one under "head".

    Args:
        cell: pixels of a cell, across and down.
        measure: what the color stands for, from -top to top of meta.
    """
    heads, *labels = (alt.Chart(alt.NamedData(name)) for name in ("cells", "rows", "columns"))
    down, over = alt.Scale(domain=[0, rows], reverse=True, nice=False), alt.Scale(domain=[0, columns], nice=False)
    row = {"scale": down, "axis": axis("rows", rows, 1, None, colors)}
    column = {"scale": over, "axis": axis("columns", columns, 1, "Head", colors)}
    box = {"y": alt.Y("row:Q", **row), "y2": "row2", "x": alt.X("column:Q", **column), "x2": "column2"}
    tips = tooltip({"name": "head", "number": measure})
    ground = heads.mark_rect(stroke=colors.background, cursor="pointer", aria=False)
    texts = heads.transform_calculate(middle="datum.row + 0.5", center="datum.column + 0.5")
    middle = {"y": alt.Y("middle:Q", **row), "x": alt.X("center:Q", **column)}
    frame = heads.transform_filter("datum.focused").mark_rect(
        fill=None, stroke=colors.accent, strokeWidth=2, **QUIET_MARK
    )
    unseen = (points.mark_point(opacity=0, size=0, **QUIET_MARK) for points in labels)  # for the axes to read them
    layers = [
        ramp_legend(Ramp(measure, 0.0, colors.diverging, signed=True), {"orient": "bottom", "offset": 8}),
        *(points.encode(x=alt.XValue(0), y=alt.YValue(0)) for points in unseen),
        ground.encode(**box, fill=alt.Fill("ground:N", scale=None), tooltip=tips).add_params(_HEAD),
        texts.mark_text(**QUIET_MARK).encode(**middle, text="text:N", fill=alt.Fill("ink:N", scale=None)),
        frame.encode(**box),
    ]
    sizes = {"width": cell[0] * columns, "height": cell[1] * rows}
    chart = alt.layer(*layers, **sizes, autosize="pad", title=titled(colors))
    return Form.of(chart.configure(**config(colors)))


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
