"""Images, frames and texts at places in pixels, under one title: thumbnails of heads, stages of a call.

A browser needs seconds for a facet of 144 maps, but a tenth of a second for images at given places.
"""

from collections.abc import Sequence
from typing import Any

from attnviz.charts import marks
from attnviz.charts.marks import Form, Spec, Table, as_is, field, layer, places
from attnviz.charts.theme import LINE, TEXT_SIZE, Theme

PLACE = ("x", "x2", "y", "y2", "left", "right", "uri")
FRAME = ("x", "x2", "y", "y2", "ink", "width", "form")
TEXT = ("x", "y", "text", "ink", "align", "baseline", "weight", "size")
"""Fields of an image, of a frame and of a text."""


class Collage:
    """Clickable images, frames and texts.

    Args:
        name: name of the table of images.
        fields: fields of an image besides its place.
    """

    def __init__(self, name: str, fields: Sequence[str]):
        self.name, self.fields = name, (*PLACE, *fields)
        self.images: list[tuple] = []
        self.frames: list[tuple] = []
        self.texts: list[tuple] = []

    def image(
        self, x: float, x2: float, y: float, y2: float, left: float, right: float, uri: str | None, *more: Any
    ) -> None:
        """Add an image with a clickable area from `left` to `right`; if `uri` is None, only the clickable area."""
        self.images.append((x, x2, y, y2, left, right, uri, *more))

    def frame(self, x: float, x2: float, y: float, y2: float, ink: str, width: float = 1, form: str = "box") -> None:
        """Add a rectangle without fill, or with form "line" a line from (x, y) to (x2, y2)."""
        self.frames.append((x, x2, y, y2, ink, width, form))

    def text(
        self,
        x: float,
        y: float,
        text: str,
        ink: str,
        align: str = "left",
        baseline: str = "middle",
        weight: int = 400,
        size: int = TEXT_SIZE,
    ) -> None:
        """Add lines of text."""
        self.texts.append((x, y, text, ink, align, baseline, weight, size))

    @property
    def data(self) -> dict[str, Table]:
        """Tables of the images, the frames and the texts."""
        tables = {self.name: (self.fields, self.images), "frames": (FRAME, self.frames), "texts": (TEXT, self.texts)}
        return {
            name: {field: [row[i] for row in rows] for i, field in enumerate(fields)}
            for name, (fields, rows) in tables.items()
        }

    def form(
        self,
        ends: tuple[tuple[float, float], tuple[float, float]],
        click: Sequence[str],
        colors: Theme,
        *,
        tooltip: Sequence[tuple[str, str]] = (),
        layers: Sequence[Spec] = (),
        title: Spec | None = None,
    ) -> Form:
        """Build the chart without its tables.

        Args:
            ends: first and last pixel, horizontally and vertically.
            click: name and fields of the selection.
            layers: layers with legends.
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
        image, clicked = box | {"url": field("uri")}, {"fill": "transparent", "cursor": "pointer"}
        chart = {
            "layer": [
                *layers,
                layer(self.name, "image", image, where="isValid(datum.uri)", aspect=False, smooth=False),
                layer("frames", "rect", box | looks, where="datum.form === 'box'", fill=None),
                layer("frames", "rule", box | looks, where="datum.form === 'line'"),
                layer("texts", "text", words, lineBreak="\n", lineHeight=LINE, **letters),
                marks.unseen("meta"),
                layer(self.name, "rect", target, **clicked) | {"name": self.name},
            ],
            "width": ends[0][1] - ends[0][0],
            "height": ends[1][1] - ends[1][0],
            "resolve": marks.APART,
            "params": [marks.click(click[0], [self.name], *click[1:])],
        }
        return marks.whole(chart | ({"title": title} if title else {}), colors)
