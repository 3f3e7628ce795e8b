"""Legends of a color scale and of signs, carried by unseen points; Vega-Lite places them."""

from dataclasses import dataclass

import altair as alt

from attnviz.charts.interaction import QUIET_MARK


@dataclass(frozen=True)
class Ramp:
    """Scale of a color legend.

    Attributes:
        title: what the color stands for.
        top: number at the end; of a diverging ramp, at both.
        colors: of the ramp, from its begin to its end.
        log: whether the scale is logarithmic, from `LOWEST` to 1.
        signed: whether it goes from -top to top.
        ends: words behind the numbers at its ends.
        largest: what stands at the ends in place of numbers, where they mean another one in each table.
    """

    title: str
    top: float
    colors: tuple[str, ...]
    log: bool = False
    signed: bool = False
    ends: tuple[str, str] = ("", "")
    largest: str = ""


def ramp_legend(ramp: Ramp, where: dict, table: str = "meta") -> alt.Chart:
    """An unseen point that carries the legend of a color scale, whose end is `top` of a table."""
    top = f"((data('{table}')[0] || {{}}).top || 1)"
    ends = [f"-{top}", "0", top] if ramp.signed else ["0", f"{top} / 2", top]
    scale = alt.Scale(domain=[1e-4, 1] if ramp.log else [alt.expr(ends[0]), alt.expr(top)], range=list(ramp.colors))
    scale.interpolate, scale.type = "rgb", "log" if ramp.log else "linear"
    values = [1e-4, 1e-3, 1e-2, 0.1, 1] if ramp.log else alt.expr(f"[{', '.join(ends)}]")
    length = 280 if any(ramp.ends) else 160
    legend = alt.Legend(
        title=ramp.title, type="gradient", direction="horizontal", gradientLength=length, gradientThickness=10,
        values=values, format="~g" if ramp.log else ".3~g", **where,
    )  # fmt: skip
    if any(ramp.ends):
        legend.labelExpr = (
            f"datum.label + (datum.value < 0 ? '{ramp.ends[0]}' : datum.value > 0 ? '{ramp.ends[1]}' : '')"
        )
    if ramp.largest:
        legend.labelExpr = f"datum.value < 0 ? '−{ramp.largest}' : datum.value > 0 ? '{ramp.largest}' : '0'"
    point = alt.Chart(alt.NamedData(table)).mark_point(opacity=0, size=0, **QUIET_MARK)
    return point.encode(x=alt.XValue(0), y=alt.YValue(0), color=alt.Color("top:Q", scale=scale, legend=legend))


def state_legend(where: dict, table: str = "legend") -> alt.Chart:
    """Unseen points that carry a legend of signs: their texts, paths and colors are rows of a table."""
    legend = alt.Legend(
        title=None, direction="vertical", columns=1, symbolSize=225, symbolStrokeWidth=1, symbolOpacity=1,
        labelExpr="substring(datum.label, 3)", labelOffset=6, **where,
    )  # fmt: skip
    channels = {"shape": (alt.Shape, "path"), "fill": (alt.Fill, "ground"), "stroke": (alt.Stroke, "stroke")}
    point = alt.Chart(alt.NamedData(table)).mark_point(opacity=0, size=0, **QUIET_MARK)
    return point.encode(
        x=alt.XValue(0),
        y=alt.YValue(0),
        **{
            name: channel("says:N", sort="ascending", scale=alt.Scale(range={"field": of}), legend=legend)
            for name, (channel, of) in channels.items()
        },
    )
