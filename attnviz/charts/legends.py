"""Legends of a color scale and of signs, carried by unseen points; Vega-Lite places them."""

from dataclasses import dataclass

import numpy as np

from attnviz.charts.marks import Spec, field, unseen


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

    def shade(self, values: np.ndarray) -> np.ndarray:
        """Places of numbers on the ramp, 0 to 1; a number that is none is where 0 is."""
        share = np.nan_to_num(values / (self.top or 1.0))
        return (share + 1) / 2 if self.signed else share


def ramp_spec(ramp: Ramp, where: Spec, table: str = "meta") -> Spec:
    """An unseen point that carries the legend of a color scale, whose end is `top` of a table."""
    top = f"((data('{table}')[0] || {{}}).top || 1)"
    ends = [f"-{top}", "0", top] if ramp.signed else ["0", f"{top} / 2", top]
    domain = [1e-4, 1] if ramp.log else [{"expr": ends[0]}, {"expr": top}]
    scale = {"type": "log" if ramp.log else "linear", "domain": domain, "range": [*ramp.colors], "interpolate": "rgb"}
    legend = {
        "title": ramp.title,
        "type": "gradient",
        "direction": "horizontal",
        "gradientLength": 280 if any(ramp.ends) else 160,
        "gradientThickness": 10,
        "values": [1e-4, 1e-3, 1e-2, 0.1, 1] if ramp.log else {"expr": f"[{', '.join(ends)}]"},
        "format": "~g" if ramp.log else ".3~g",
        **where,
    }
    if any(ramp.ends):
        ends = [f"datum.label + '{end}'" for end in ramp.ends]
        legend["labelExpr"] = f"datum.value < 0 ? {ends[0]} : datum.value > 0 ? {ends[1]} : datum.label"
    if ramp.largest:
        legend["labelExpr"] = f"datum.value < 0 ? '−{ramp.largest}' : datum.value > 0 ? '{ramp.largest}' : '0'"
    point = unseen(table)
    point["encoding"]["color"] = {"field": "top", "type": "quantitative", "scale": scale, "legend": legend}
    return point


def signs_spec(where: Spec, table: str = "legend") -> Spec:
    """Unseen points that carry a legend of signs: their texts, paths and colors are rows of a table."""
    legend = {
        "title": None,
        "direction": "vertical",
        "columns": 1,
        "symbolSize": 225,
        "symbolStrokeWidth": 1,
        "symbolOpacity": 1,
        "labelExpr": "substring(datum.label, 3)",
        "labelOffset": 6,
        **where,
    }
    point = unseen(table)
    for channel, name in {"shape": "path", "fill": "ground", "stroke": "stroke"}.items():
        scale = {"range": {"field": name}}
        point["encoding"][channel] = field("says") | {"sort": "ascending", "scale": scale, "legend": legend}
    return point
