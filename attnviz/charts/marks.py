"""Parts of Vega-Lite specifications as plain data, and the tables that they draw.

A picture is a specification that seldom changes and tables that change with every click: on the screen the
specification stays while its tables are replaced in place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnviz.charts.theme import Theme, config

Spec = dict[str, Any]
"""A part of a specification."""

Table = dict[str, list]
"""Columns of plain values: numbers that are finite, strings, bytes, True, False and None."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.1.0.json"

APART = {"scale": dict.fromkeys(("color", "fill", "stroke", "shape", "strokeWidth"), "independent")}
"""Each view and layer has color scales of its own."""

LOADED = "{url: datum.uri, src: datum.uri, complete: true, width: 1, height: 1}"
"""A Vega expression for the image at the address in the field uri, as Vega has it once it is loaded.

Else Vega draws a picture a second time, a hundredth of a second after the first, with its images in it. They are data
URIs, and in SVG alone nothing but their address is asked for: for the screen, which draws SVG, and not for files.
"""


@dataclass(frozen=True, eq=False)
class Form:
    """A Vega-Lite chart without its data."""

    spec: Spec

    @cached_property
    def draws_images(self) -> bool:
        return _has_image(self.spec)


def _has_image(view: Spec) -> bool:
    parts = (part for name in ("layer", "hconcat", "vconcat") for part in view.get(name, ()))
    return view.get("mark", {}).get("type") == "image" or any(map(_has_image, parts))


def records(table: Table) -> list[dict]:
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def columns(names: Sequence[str], rows: Sequence[dict]) -> Table:
    """Rows as a table; None where one has no such column."""
    return {name: [row.get(name) for row in rows] for name in names}


def layer(table: str, kind: str, encoding: Spec, *, where: str = "", **properties: Any) -> Spec:
    """Marks for the rows of a table, which the pointer does not meet.

    Args:
        where: an expression that a row is drawn for; "" for all.
        properties: settings of the mark.
    """
    spec = {"data": {"name": table}, "mark": {"type": kind, "aria": False, "tooltip": None} | properties}
    if where:
        spec["transform"] = [{"filter": where}]
    return spec | {"encoding": encoding}


def unseen(table: str) -> Spec:
    """A point that is not drawn, because Vega-Lite leaves out tables that no mark uses."""
    return layer(table, "point", {"x": pixels_at(0), "y": pixels_at(0)}, opacity=0, size=0)


def pixels_at(pixels: Any) -> Spec:
    return {"value": pixels}


def field(name: str) -> Spec:
    """The text of a field."""
    return {"field": name, "type": "nominal"}


def as_is(name: str, kind: str = "nominal") -> Spec:
    """A color, path, width or place that stands in a field."""
    return {"field": name, "type": kind, "scale": None}


def pixels_of(name: str) -> Spec:
    """A place in pixels that stands in a field."""
    return as_is(name, "quantitative") | {"axis": None}


def box(x: Spec, y: Spec) -> Spec:
    """A rectangle from the fields x and y to x2 and y2 on two scales."""
    return {"x": x | {"field": "x"}, "y": y | {"field": "y"}, "x2": {"field": "x2"}, "y2": {"field": "y2"}}


def looks() -> Spec:
    """Fill, stroke and width of the stroke that stand in fields."""
    return {"fill": as_is("fill"), "stroke": as_is("stroke"), "strokeWidth": as_is("stroke_width", "quantitative")}


def when(test: str, then: Spec, otherwise: Spec) -> Spec:
    """One of two values or scales, by an expression."""
    return {"condition": {"test": test} | then} | otherwise


def tips(*fields: tuple[str, str]) -> list[Spec]:
    """Tooltip entries of Vega-Lite, from pairs of a field and its title."""
    return [field(name) | {"title": title} for name, title in fields]


def places(count: float, axis: Spec | None = None, **scale: Any) -> Spec:
    """A position on a scale from 0 to a count, without its field."""
    return {"type": "quantitative", "scale": {"domain": [0, count], "nice": False, "zero": False} | scale, "axis": axis}


def click(name: str, views: Sequence[str], *fields: str) -> Spec:
    """A click on the marks with these names, as a selection; Escape clears it.

    A counter `rev` in the data lets the same thing be clicked again.
    """
    escape = "window:keydown[event.key === 'Escape']"
    select = {"type": "point", "fields": [*fields], "on": "click", "toggle": False, "clear": escape}
    return {"name": name, "select": select, "views": [*views]}


def hover(views: Sequence[str], *fields: str) -> Spec:
    """The cell under the pointer, as the selection "pointed"."""
    select = {"type": "point", "fields": [*fields], "on": "pointerover", "clear": "pointerout"}
    return {"name": "pointed", "select": select, "views": [*views]}


def drag(name: str, views: Sequence[str], colors: Theme) -> Spec:
    """A drag over cells, as a selection of stretches of the row and column axes: {"row": [1.2, 3.4], "column": ...}.

    It clears itself a moment after the drag, when it has been sent: cells under it could not be clicked. Only after one
    that began on the picture: otherwise a click elsewhere would clear the start of the next drag.
    """
    mark = {"fill": colors.accent, "fillOpacity": 0.12, "stroke": colors.accent, "strokeOpacity": 0.6}
    ended = "[pointerdown, window:pointermove[!event.buttons]] > window:pointerup{0, 300}"
    select = {"type": "interval", "encodings": ["x", "y"], "mark": mark, "clear": ended}
    return {"name": name, "select": select | {"zoom": False, "translate": False}, "views": [*views]}


def whole(chart: Spec, colors: Theme) -> Form:
    """A complete specification: the chart with its configuration, sizing and schema."""
    return Form({"config": config(colors), "autosize": "pad"} | chart | {"$schema": SCHEMA})


def beside(*views: Spec, **options: Any) -> Spec:
    """Views in a row, each with scales of its own."""
    return {"hconcat": [*views], "resolve": APART} | options


def below(*views: Spec, **options: Any) -> Spec:
    """Views under each other, each with scales of its own."""
    return {"vconcat": [*views], "resolve": APART} | options
