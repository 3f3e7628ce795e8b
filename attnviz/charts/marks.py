"""Parts of Vega-Lite specifications as plain data, and the tables of a chart.

A picture is a specification that seldom changes and tables that change with every click: on the screen only the
tables are replaced.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attnviz.charts.theme import Theme, config

Spec = dict[str, Any]
"""Part of a Vega-Lite specification."""

Table = dict[str, list]
"""Columns of plain values: finite numbers, strings, bytes, True, False and None."""

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.1.0.json"

APART = {"scale": dict.fromkeys(("color", "fill", "stroke", "shape", "strokeWidth"), "independent")}
"""Setting that gives each view and layer color scales of its own."""

LOADED = "{url: datum.uri, src: datum.uri, complete: true, width: 1, height: 1}"
"""Vega expression for an already loaded image at the address in the field uri.

Without it, Vega draws the picture first without its images, and again 0.01 s later. Only the SVG renderer needs nothing
but the address of an image, so the expression is for the screen, which uses SVG, and not for files.
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
    """Convert rows to a table; missing values are None."""
    return {name: [row.get(name) for row in rows] for name in names}


def layer(table: str, kind: str, encoding: Spec, *, where: str = "", **properties: Any) -> Spec:
    """Build a layer of marks for the rows of a table, without tooltips unless `encoding` has one.

    Args:
        where: Vega expression that selects rows; "" for all rows.
        properties: properties of the mark.
    """
    spec = {"data": {"name": table}, "mark": {"type": kind, "aria": False, "tooltip": None} | properties}
    if where:
        spec["transform"] = [{"filter": where}]
    return spec | {"encoding": encoding}


def unseen(table: str) -> Spec:
    """Build an invisible point for a table, because Vega-Lite drops tables that no mark uses."""
    return layer(table, "point", {"x": pixels_at(0), "y": pixels_at(0)}, opacity=0, size=0)


def pixels_at(pixels: Any) -> Spec:
    return {"value": pixels}


def field(name: str) -> Spec:
    """Build a nominal channel that reads a field."""
    return {"field": name, "type": "nominal"}


def as_is(name: str, kind: str = "nominal") -> Spec:
    """Build a channel that takes a color, path, width or place from a field, without a scale."""
    return {"field": name, "type": kind, "scale": None}


def pixels_of(name: str) -> Spec:
    """Build a channel that takes a place in pixels from a field."""
    return as_is(name, "quantitative") | {"axis": None}


def box(x: Spec, y: Spec) -> Spec:
    """Build the channels of a rectangle from the fields x, y, x2 and y2, on two scales."""
    return {"x": x | {"field": "x"}, "y": y | {"field": "y"}, "x2": {"field": "x2"}, "y2": {"field": "y2"}}


def looks() -> Spec:
    """Build the channels fill, stroke and stroke width, which are read from fields."""
    return {"fill": as_is("fill"), "stroke": as_is("stroke"), "strokeWidth": as_is("stroke_width", "quantitative")}


def when(test: str, then: Spec, otherwise: Spec) -> Spec:
    """Build a channel with one of two values or scales, by a Vega expression."""
    return {"condition": {"test": test} | then} | otherwise


def tips(*fields: tuple[str, str]) -> list[Spec]:
    """Build tooltip entries from pairs of a field and its title."""
    return [field(name) | {"title": title} for name, title in fields]


def places(count: float, axis: Spec | None = None, **scale: Any) -> Spec:
    """Build a position channel on a scale from 0 to a count; the caller adds the field."""
    return {"type": "quantitative", "scale": {"domain": [0, count], "nice": False, "zero": False} | scale, "axis": axis}


def click(name: str, views: Sequence[str], *fields: str) -> Spec:
    """Build a selection by a click on the marks with these names; Escape clears the selection.

    With a counter `rev` in the data, the same item can be clicked again.
    """
    escape = "window:keydown[event.key === 'Escape']"
    select = {"type": "point", "fields": [*fields], "on": "click", "toggle": False, "clear": escape}
    return {"name": name, "select": select, "views": [*views]}


def hover(views: Sequence[str], *fields: str) -> Spec:
    """Build the selection "pointed" of the item under the pointer."""
    select = {"type": "point", "fields": [*fields], "on": "pointerover", "clear": "pointerout"}
    return {"name": "pointed", "select": select, "views": [*views]}


def drag(name: str, views: Sequence[str], colors: Theme) -> Spec:
    """Build a selection by a drag, as intervals of the row and column axes: {"row": [1.2, 3.4], "column": ...}.

    The selection is cleared 0.3 s after the drag, when it has been sent, because it covers the cells for clicks. Only
    a drag that began on the picture clears it: otherwise a click elsewhere would clear the start of the next drag.
    """
    mark = {"fill": colors.accent, "fillOpacity": 0.12, "stroke": colors.accent, "strokeOpacity": 0.6}
    ended = "[pointerdown, window:pointermove[!event.buttons]] > window:pointerup{0, 300}"
    select = {"type": "interval", "encodings": ["x", "y"], "mark": mark, "clear": ended}
    return {"name": name, "select": select | {"zoom": False, "translate": False}, "views": [*views]}


def whole(chart: Spec, colors: Theme) -> Form:
    """Complete a chart with its configuration, sizing and schema."""
    return Form({"config": config(colors), "autosize": "pad"} | chart | {"$schema": SCHEMA})


def beside(*views: Spec, **options: Any) -> Spec:
    """Arrange views in a row, each with scales of its own."""
    return {"hconcat": [*views], "resolve": APART} | options


def below(*views: Spec, **options: Any) -> Spec:
    """Arrange views in a column, each with scales of its own."""
    return {"vconcat": [*views], "resolve": APART} | options
