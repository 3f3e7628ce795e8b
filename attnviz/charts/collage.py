"""Images, frames and texts at places in pixels, under one title: thumbnails of heads, stages of a call.

A facet of 144 maps takes a browser seconds, and images at the places of a table a tenth of one.
"""

from collections.abc import Sequence
from typing import NamedTuple

from attnviz.charts import marks
from attnviz.charts.marks import Form, Spec, Table, as_is, field, layer, places
from attnviz.charts.theme import LINE, TEXT_SIZE, Theme


class Text(NamedTuple):
    """Lines of text at a place, with the look of their letters."""

    x: float
    y: float
    text: str
    ink: str
    align: str = "left"
    baseline: str = "middle"
    weight: int = 400
    size: int = TEXT_SIZE


class Frame(NamedTuple):
    """A rectangle without a ground, or a line from its lower left to its upper right corner."""

    x: float
    x2: float
    y: float
    y2: float
    ink: str
    width: float
    form: str = "box"


def table(rows: Sequence[NamedTuple], of: type) -> Table:
    return marks.columns(of._fields, [row._asdict() for row in rows])


def form(
    name: str,
    ends: tuple[tuple[float, float], tuple[float, float]],
    click: Sequence[str],
    colors: Theme,
    *,
    tooltip: Sequence[tuple[str, str]] = (),
    layers: Sequence[Spec] = (),
    title: Spec | None = None,
) -> Form:
    """The chart of a table of images, and of the tables "frames" and "texts".

    Args:
        name: table of the images: x, x2, y and y2, the address `uri` or None, and the ends `left` and `right` of what
            can be clicked.
        ends: first and last pixel across, and down.
        click: name and fields of the selection.
        layers: layers of legends.
    """
    x, y = places(0, domain=[*ends[0]]), places(0, domain=[*ends[1]][::-1])
    box = marks.box(x, y)
    target = box | {"x": x | {"field": "left"}, "x2": {"field": "right"}}
    if tooltip:
        target["tooltip"] = marks.tips(*tooltip)
    looks = {"stroke": as_is("ink"), "strokeWidth": as_is("width", "quantitative")}
    letters = {"align": "align", "baseline": "baseline", "fontWeight": "weight", "fontSize": "size"}
    letters = {mark: {"expr": f"datum.{column}"} for mark, column in letters.items()}
    words = {axis: box[axis] for axis in ("x", "y")} | {"text": field("text"), "fill": as_is("ink")}
    image = box | {"url": field("uri")}
    clicked = layer(name, "rect", target, fill="transparent", cursor="pointer") | {"name": name}
    chart = {
        "layer": [
            *layers,
            layer(name, "image", image, where="isValid(datum.uri)", aspect=False, smooth=False),
            layer("frames", "rect", box | looks, where="datum.form === 'box'", fill=None),
            layer("frames", "rule", box | looks, where="datum.form === 'line'"),
            layer("texts", "text", words, lineBreak="\n", lineHeight=LINE, **letters),
            marks.unseen("meta"),
            clicked,
        ],
        "width": ends[0][1] - ends[0][0],
        "height": ends[1][1] - ends[1][0],
        "resolve": marks.APART,
        "params": [marks.click(click[0], [name], *click[1:])],
    }
    return marks.whole(chart | ({"title": title} if title else {}), colors)
