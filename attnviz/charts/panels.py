"""Tables of numbers as small maps that know of each other: what is pointed at in one is outlined in all.

A place in a table is a position along each of its two axes (query, key, a dimension). Tables that share an axis show
the same position on it. All that changes stands in one table, as in `attnviz.charts.screen`.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain

import altair as alt
import numpy as np

from attnviz.charts import frame, pixels
from attnviz.charts.frame import Frame
from attnviz.charts.picture import Form, Picture, Table, columns
from attnviz.charts.screen import SCHEMA, at, frame_marks, parts
from attnviz.charts.theme import FONT, MONO, TEXT_SIZE, Theme, config
from attnviz.core.amounts import digits

HUGE = 1e8
"""Numbers beyond this (-1e9, added as a mask) stand at the end of a scale instead of stretching it."""


@dataclass(frozen=True, eq=False)
class Panel:
    """A table of numbers as colored cells.

    Attributes:
        axes: what its rows and columns stand for: "query", "key", "d_k", ...
        rows, columns: the positions that are shown.
        values: (rows, columns); -inf is hatched, NaN crossed, and +inf has the color of the end of the scale.
        x, y, width, height: pixels.
        limit: the number at the end of the scale.
        signed: whether the scale goes from -limit to limit; else from 0.
        beside: where the number under the pointer stands; None for nowhere.
        index: what a click selects.
    """

    axes: tuple[str, str]
    rows: range
    columns: range
    values: np.ndarray
    x: float
    y: float
    width: float
    height: float
    limit: float
    signed: bool = True
    beside: tuple[float, float] | None = None
    index: int = 0

    def place(self, value: float) -> float:
        """Where a number stands on the scale, 0 to 1."""
        share = value / (self.limit or 1.0)
        return min(1.0, max(0.0, (share + 1) / 2 if self.signed else share))

    def texts(self) -> list[str]:
        """What is read of each cell, row by row; there is no blank in any of them."""
        return list(map(digits, self.values.ravel()))

    def kinds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which cells are colored, which hatched, which crossed; booleans, (rows, columns)."""
        hatched, crossed = self.values == -np.inf, np.isnan(self.values)
        return ~(hatched | crossed), hatched, crossed

    def image(self, colors: Theme, *, scale: int = 1) -> str:
        colored, hatched, crossed = self.kinds()
        share = np.where(colored, self.values, 0.0) / (self.limit or 1.0)
        shade = (share + 1) / 2 if self.signed else share
        height = max(1, round(self.height * scale), len(self.rows))
        width = max(1, round(self.width * scale), len(self.columns))
        image = pixels.paint(shade, colored, hatched.astype(int), crossed, height=height, width=width)
        return pixels.data_uri(image, pixels.palette(ground(self.signed, colors)))


@dataclass(frozen=True, eq=False)
class Panels:
    """Tables and what stands around them.

    Attributes:
        areas: x, y, x2, y2, position of what can be clicked under the tables.
        rest: the (query, key) that is outlined while nothing is pointed at; -1 for none.
        queries, keys: what tokens are called, by their positions.
        readout: where words about the place under the pointer stand; None for nowhere.
        rev: a counter to raise after each click.
    """

    panels: tuple[Panel, ...]
    frame: Frame
    rest: tuple[int, int]
    queries: tuple[str, ...]
    keys: tuple[str, ...]
    areas: tuple[dict, ...] = ()
    readout: tuple[float, float] | None = None
    rev: int = 0


def ground(signed: bool, colors: Theme) -> Theme:
    """The colors with the ramp that numbers of both signs have, or with that of weights."""
    return replace(colors, ramp=colors.diverging) if signed else colors


def limit_of(*tables: np.ndarray) -> float:
    """The largest size of the numbers of some tables, those that are infinite or huge left out."""
    sizes = (np.abs(table[np.isfinite(table)]) for table in tables)
    return max((float(size[size < HUGE].max(initial=0.0)) for size in sizes), default=0.0)


def picture(drawing: Panels, colors: Theme) -> Picture:
    """The tables as Vega-Lite, for files: what is selected is outlined."""
    tables = {
        f"panel-{i}": {"x": [panel.x], "y": [panel.y], "uri": [panel.image(colors, scale=2)]}
        for i, panel in enumerate(drawing.panels)
    }
    sizes = tuple((panel.width, panel.height) for panel in drawing.panels)
    drawn = drawing.frame + Frame(boxes=tuple(_outlines(drawing, colors)), tokens=tuple(_values(drawing, colors)))
    return Picture(_form(sizes, colors), tables | frame.tables(drawn))


@lru_cache(maxsize=64)
def _form(sizes: tuple[tuple[float, float], ...], colors: Theme) -> Form:
    x, y = frame.pixels()
    images = [
        alt.Chart(alt.NamedData(f"panel-{i}"))
        .mark_image(width=width, height=height, align="left", baseline="top", smooth=False, aspect=False, aria=False)
        .encode(x=x, y=y, url="uri:N")
        for i, (width, height) in enumerate(sizes)
    ]
    chart = alt.layer(*images, *frame.layers(), width=1, height=1, autosize="pad")
    return Form.of(chart.configure(**config(colors)))


def _places(drawing: Panels) -> list[tuple[Panel, int, int]]:
    """Of each table the row and column, counted from 0 in what is shown, that are selected; -1 for none."""
    rest = dict(zip(("query", "key"), drawing.rest, strict=True))
    return [
        (
            panel,
            *(
                shown.index(rest[axis]) if rest.get(axis, -1) in shown else -1
                for axis, shown in zip(panel.axes, (panel.rows, panel.columns), strict=True)
            ),
        )
        for panel in drawing.panels
    ]


def _outlines(drawing: Panels, colors: Theme) -> list[dict]:
    boxes = []
    for panel, row, column in _places(drawing):
        if row < 0 and column < 0:
            continue
        high, wide = panel.height / max(1, len(panel.rows)), panel.width / max(1, len(panel.columns))
        x, x2 = (
            (panel.x, panel.x + panel.width) if column < 0 else (panel.x + column * wide, panel.x + (column + 1) * wide)
        )
        y, y2 = (panel.y, panel.y + panel.height) if row < 0 else (panel.y + row * high, panel.y + (row + 1) * high)
        boxes.append(frame.box(x, y, x2, y2, stroke=colors.accent, width=1.5))
    return boxes


def _values(drawing: Panels, colors: Theme) -> list[dict]:
    return [
        frame.words(*panel.beside, panel.texts()[row * len(panel.columns) + column], colors.accent)
        for panel, row, column in _places(drawing)
        if panel.beside and row >= 0 and column >= 0
    ]


def screen(drawing: Panels, colors: Theme, select: str) -> tuple[dict, Table]:
    """A Vega specification of the tables, always the same, and the data that it draws, to be named "source".

    Args:
        select: "cell", a click gives [{"query", "key", "rev"}] with -1 for what the table has no axis of; or "stage",
            it gives [{"stage", "rev"}].
    """
    return _spec(select, colors), _data(drawing, colors)


_NUMBERS = "rows columns first_row first_column position bx by".split()
_COLUMNS = (
    "kind", "name", "cells", "row_axis", "column_axis", *_NUMBERS,
    "x", "y", "x2", "y2", "text", "color", "fill", "stroke", "width", "path", "size", "uri",
)  # fmt: skip


def _data(drawing: Panels, colors: Theme) -> Table:
    rows = [
        {
            "kind": "panel",
            "position": panel.index,
            "size": drawing.rev,
            **dict(zip(("row_axis", "column_axis"), panel.axes, strict=True)),
            "rows": len(panel.rows),
            "columns": len(panel.columns),
            "first_row": panel.rows.start,
            "first_column": panel.columns.start,
            "x": panel.x,
            "y": panel.y,
            "x2": panel.x + panel.width,
            "y2": panel.y + panel.height,
            **dict(zip(("bx", "by"), panel.beside or (None, None), strict=True)),
            "cells": " ".join(panel.texts()) if panel.beside or drawing.readout else "",
            "uri": panel.image(colors),
        }
        for panel in drawing.panels
    ]
    query, key = drawing.rest
    bx, by = drawing.readout or (None, None)
    here = {"kind": "here", "rows": query, "columns": key, "bx": bx, "by": by}
    here |= {"name": "\n".join(drawing.queries), "cells": "\n".join(drawing.keys)}
    areas = ({"kind": "area", "size": drawing.rev, **area} for area in drawing.areas)
    around = [{"kind": kind, **item} for kind, items in vars(drawing.frame).items() for item in items]
    return columns(_COLUMNS, [here, *chain(areas, rows, around)])


_ROW = "datum.first_row + clamp(floor((y() - datum.y) / (datum.y2 - datum.y) * datum.rows), 0, datum.rows - 1)"
_COLUMN = (
    "datum.first_column + clamp(floor((x() - datum.x) / (datum.x2 - datum.x) * datum.columns), 0, datum.columns - 1)"
)
_HIT = f"{{ra: datum.row_axis, r: {_ROW}, ca: datum.column_axis, c: {_COLUMN}}}"
_HERE = "length(data('here')) ? data('here')[0] : {rows: -1, columns: -1, name: '', cells: ''}"
_REST = "{ra: 'query', r: here.rows, ca: 'key', c: here.columns}"


@lru_cache(maxsize=8)
def _spec(select: str, colors: Theme) -> dict:
    return {
        "$schema": SCHEMA,
        "background": colors.background,
        "autosize": "pad",
        "padding": {"left": 0, "top": 0, "right": 0, "bottom": 4},
        "width": 1,
        "height": 1,
        "params": [{"name": select, "select": "point"}],
        "data": {"name": "source"},
        "signals": [
            {
                "name": "pointed",
                "value": None,
                "on": [
                    {"events": "@panels:pointermove", "update": _HIT},
                    {"events": "@panels:pointerout", "update": "null"},
                ],
            },
            {"name": select, "value": None, "on": _clicks(select)},
        ],
        "marks": [
            {
                "type": "group",
                "data": [*parts("here", "area", "panel", *frame.KINDS), *_linked()],
                "signals": [
                    {"name": "here", "update": _HERE},  # there is no data yet when a browser begins
                    {"name": "place", "update": f"pointed || {_REST}"},
                ],
                "marks": _marks(colors),
            }
        ],
    }


def _clicks(select: str) -> list[dict]:
    if select == "stage":
        # A datum of a mark knows its own position; the counter travels with each.
        clicked = "{stage: datum.position, rev: datum.size}"
        return [{"events": "@panels:click, @areas:click", "update": f"{{vlPoint: {{or: [{clicked}]}}}}"}]
    of = "datum.row_axis === '{0}' ? {1} : datum.column_axis === '{0}' ? {2} : -1"
    query, key = (of.format(axis, _ROW, _COLUMN) for axis in ("query", "key"))
    clicked = f"{{query: {query}, key: {key}, rev: datum.size}}"
    return [
        {"events": "@panels:click", "update": f"{{vlPoint: {{or: [{clicked}]}}}}"},
        {"events": "window:keydown[event.key === 'Escape']", "update": "null"},
    ]


def _linked() -> list[dict]:
    """Of each table the place that is pointed at, in it or in another one."""
    of = "place.ra === datum.{0} ? place.r : place.ca === datum.{0} ? place.c : -1"
    inside = "{0} >= datum.first_{1} && {0} < datum.first_{1} + datum.{1}s"
    row, column = inside.format("datum.r", "row"), inside.format("datum.c", "column")
    high, wide = "(datum.y2 - datum.y) / datum.rows", "(datum.x2 - datum.x) / datum.columns"
    cell = "(datum.r - datum.first_row) * datum.columns + datum.c - datum.first_column"
    left = f"datum.hasColumn ? datum.x + (datum.c - datum.first_column) * {wide} : datum.x"
    top = f"datum.hasRow ? datum.y + (datum.r - datum.first_row) * {high} : datum.y"
    formulas = {
        "r": of.format("row_axis"),
        "c": of.format("column_axis"),
        "hasRow": row,
        "hasColumn": column,
        "left": left,
        "right": f"datum.hasColumn ? datum.left + {wide} : datum.x2",
        "top": top,
        "bottom": f"datum.hasRow ? datum.top + {high} : datum.y2",
        "value": f"datum.hasRow && datum.hasColumn && isValid(datum.bx) ? split(datum.cells, ' ')[{cell}] : ''",
    }
    transform = [{"type": "formula", "as": name, "expr": expr} for name, expr in formulas.items()]
    return [
        {
            "name": "linked",
            "source": "panel",
            "transform": [*transform, {"type": "filter", "expr": "datum.hasRow || datum.hasColumn"}],
        }
    ]


def _name(axis: str, names: str) -> str:
    """What a position on an axis of tokens is called, in words; nothing if it is not pointed at."""
    place = f"place.ra === '{axis}' ? place.r : place.ca === '{axis}' ? place.c : -1"
    named = f"'{axis} ' + split(here.{names}, '\\n')[{place}]"
    return f"(({place}) >= 0 ? {named} : '')"


def _marks(colors: Theme) -> list[dict]:
    quiet = {"interactive": False, "aria": False}
    whole = {"width": {"signal": "datum.x2 - datum.x"}, "height": {"signal": "datum.y2 - datum.y"}}
    pointer = {"cursor": {"value": "pointer"}, "tooltip": {"value": None}}
    image = at("x", "y") | whole | pointer | {"url": {"field": "uri"}}
    image |= {"aspect": {"value": False}, "smooth": {"value": False}}
    outline = {"x": {"field": "left"}, "x2": {"field": "right"}, "y": {"field": "top"}, "y2": {"field": "bottom"}}
    outline |= {"stroke": {"value": colors.accent}, "strokeWidth": {"value": 1.5}}
    value = {"x": {"field": "bx"}, "y": {"field": "by"}, "text": {"field": "value"}, "fill": {"value": colors.accent}}
    value |= {"font": {"value": MONO}, "fontSize": {"value": TEXT_SIZE}, "baseline": {"value": "middle"}}
    dimension = "place.ca !== 'key' && place.ca !== 'query' ? 'dimension ' + place.c : ''"
    who = f"{_name('query', 'name')} + '   ' + {_name('key', 'cells')} + '   ' + ({dimension})"
    readout = {"x": {"field": "bx"}, "y": {"field": "by"}, "text": {"signal": who}, "fill": {"value": colors.quiet}}
    readout |= {"font": {"value": FONT}, "fontSize": {"value": TEXT_SIZE}, "baseline": {"value": "middle"}}
    area = at("x", "y", "x2", "y2") | pointer | {"fill": {"value": "transparent"}}
    return [
        {"type": "rect", "name": "areas", "from": {"data": "area"}, "aria": False, "encode": {"update": area}},
        {"type": "image", "name": "panels", "from": {"data": "panel"}, "aria": False, "encode": {"update": image}},
        *frame_marks(),
        {"type": "rect", "from": {"data": "linked"}, "encode": {"update": outline}} | quiet,
        {"type": "text", "from": {"data": "linked"}, "encode": {"update": value}} | quiet,
        {"type": "text", "from": {"data": "here"}, "encode": {"update": readout}} | quiet,
    ]
