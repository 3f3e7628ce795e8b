"""Tables of numbers as small maps that know of each other: what is pointed at in one is outlined in all.

A place in a table is a position along each of its two axes (query, key, a dimension). Tables that share an axis show
the same position on it. All that changes stands in one table, as in `attnviz.charts.screen`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import altair as alt
import numpy as np

from attnviz.charts import frame, pixels
from attnviz.charts.frame import Frame
from attnviz.charts.picture import Form, Picture, Table, columns, formed
from attnviz.charts.screen import LOOKS_AT, around, at, frame_marks, mark, page, parts, signals, values
from attnviz.charts.style import Style
from attnviz.charts.theme import FONT, MONO, TEXT_SIZE, Theme
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
        right: whether the number ends there, rather than begins.
        index: what a click selects.
        blocked: cells that are hatched though they have a number, a weight of 0; None for none.
        gray: whether the ramp is without colors: of a head that is off.
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
    blocked: np.ndarray | None = None
    gray: bool = False
    right: bool = False

    def place(self, value: float) -> float:
        """Where a number stands on the scale, 0 to 1."""
        share = value / (self.limit or 1.0)
        return min(1.0, max(0.0, (share + 1) / 2 if self.signed else share))

    def texts(self) -> list[str]:
        """What is read of each cell, row by row; there is no blank in any of them."""
        return list(map(digits, self.values.ravel()))

    def kinds(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Which cells are colored, which hatched (1 and more: with which pattern), which crossed; (rows, columns)."""
        hatched, crossed = self.values == -np.inf, np.isnan(self.values)
        hatched |= False if self.blocked is None else self.blocked
        return ~(hatched | crossed), hatched, crossed

    def at(self, place: tuple[int, int]) -> tuple[int, int]:
        """The row and the column of a (query, key), counted from 0 in what is shown; -1 where it has none."""
        known = dict(zip(("query", "key"), place, strict=True))
        both = zip(self.axes, (self.rows, self.columns), strict=True)
        row, column = (shown.index(known[a]) if known.get(a, -1) in shown else -1 for a, shown in both)
        return row, column

    def outline(self, row: int, column: int, colors: Theme) -> dict:
        """A box around a cell, or around a whole row or column where the other is -1."""
        high, wide = self.height / max(1, len(self.rows)), self.width / max(1, len(self.columns))
        x, x2 = (0.0, self.width) if column < 0 else (column * wide, (column + 1) * wide)
        y, y2 = (0.0, self.height) if row < 0 else (row * high, (row + 1) * high)
        places = self.x + x, self.y + y, self.x + x2, self.y + y2
        return frame.box(*places, stroke=colors.accent, width=1.5)

    def row(self, colors: Theme) -> dict:
        """The table as a row of the one table of the screen."""
        bx, by = self.beside or (None, None)
        where = {"x": self.x, "y": self.y, "x2": self.x + self.width, "y2": self.y + self.height, "bx": bx, "by": by}
        counts = {"rows": len(self.rows), "columns": len(self.columns)}
        counts |= {"first_row": self.rows.start, "first_column": self.columns.start, "position": self.index}
        said = " ".join(self.texts()) if self.beside else ""
        drawn = {
            "text": "right" if self.right else "left",
            "row_axis": self.axes[0],
            "column_axis": self.axes[1],
            "cells": said,
            "uri": self.image(colors),
        }
        return {"kind": "panel"} | where | counts | drawn

    def image(self, colors: Theme, *, scale: int = 1) -> str:
        colored, hatched, crossed = self.kinds()
        share = np.where(colored, self.values, 0.0) / (self.limit or 1.0)
        shade = (share + 1) / 2 if self.signed else share
        height = max(1, round(self.height * scale), len(self.rows))
        width = max(1, round(self.width * scale), len(self.columns))
        image = pixels.weights(shade, colored, hatched.astype(int), crossed, height=height, width=width)
        return pixels.data_uri(image, pixels.palette(ground(self.signed, colors), gray=self.gray))


@dataclass(frozen=True, eq=False)
class Panels:
    """Tables and what stands around them.

    Attributes:
        rest: the (query, key) that is outlined while nothing is pointed at; -1 for none.
        queries, keys: what tokens are called, by their positions.
        readout: where words about the place under the pointer stand, once for all tables; None for beside each number.
        verb: what a query does to a key, in these words.
        areas: x, y, x2, y2, position of what can be clicked under the tables.
        select: "cell", a click gives [{"query", "key", "rev"}] with -1 for what the table has no axis of; or "stage",
            it gives [{"stage", "rev"}].
    """

    panels: tuple[Panel, ...]
    frame: Frame
    style: Style
    rest: tuple[int, int]
    queries: Sequence[str]
    keys: Sequence[str]
    readout: tuple[float, float] | None = None
    verb: str = LOOKS_AT
    areas: tuple[dict, ...] = ()
    select: str = "cell"

    @property
    def chart(self) -> alt.LayerChart:
        """The tables as Vega-Lite, for files: what is selected is outlined, and its numbers are written."""
        colors = self.style.colors
        tables = {
            f"panel-{i}": {"x": [panel.x], "y": [panel.y], "uri": [panel.image(colors, scale=2)]}
            for i, panel in enumerate(self.panels)
        }
        places = [(panel, *panel.at(self.rest)) for panel in self.panels]
        boxes = (panel.outline(row, column, colors) for panel, row, column in places if max(row, column) >= 0)
        numbers = [
            (panel.right, frame.words(*panel.beside, self._read(panel, row, column), colors.accent))
            for panel, row, column in places
            if panel.beside and min(row, column) >= 0
        ]
        right, left = (tuple(text for is_right, text in numbers if is_right == side) for side in (True, False))
        drawn = self.frame + Frame(boxes=tuple(boxes), rows=right, tokens=left)
        sizes = tuple((panel.width, panel.height) for panel in self.panels)
        return Picture(_form(sizes, colors), tables | frame.tables(drawn)).chart

    def _read(self, panel: Panel, row: int, column: int) -> str:
        """The number of a place, after what the place is called where that stands beside it."""
        number = panel.texts()[row * len(panel.columns) + column]
        if self.readout:
            return number
        names = {"query": self.queries, "key": self.keys}
        both = zip(panel.axes, (panel.rows[row], panel.columns[column]), ("row", "number"), strict=True)
        said = [names[axis][i] if axis in names else f"{other} {i}" for axis, i, other in both if axis != "1"]
        return f"{(f' {self.verb} ' if panel.axes == ('query', 'key') else ', ').join(said)}: {number}"

    @property
    def screen(self) -> tuple[dict, Table]:
        """A Vega specification of the tables, always the same, and the data that it draws, to be named "source"."""
        query, key = self.rest
        bx, by = self.readout or (None, None)
        here = {"kind": "here", "rows": query, "columns": key, "bx": bx, "by": by}
        here |= {"name": "\n".join(self.queries), "cells": "\n".join(self.keys)}
        each = {"size": self.style.rev}
        areas = [{"kind": "area"} | each | area for area in self.areas]
        rows = [panel.row(self.style.colors) | each for panel in self.panels]
        spec = _spec(self.select, self.verb, self.readout is None, self.style.colors)
        return spec, columns(_COLUMNS, [here, *areas, *rows, *around(self.frame)])


def ground(signed: bool, colors: Theme) -> Theme:
    """The colors with the ramp that numbers of both signs have, or with that of weights."""
    return replace(colors, ramp=colors.diverging) if signed else colors


def limit_of(*tables: np.ndarray) -> float:
    """The largest size of the numbers of some tables, those that are infinite or huge left out."""
    sizes = (np.abs(table[np.isfinite(table)]) for table in tables)
    return max((float(size[size < HUGE].max(initial=0.0)) for size in sizes), default=0.0)


@formed(64)
def _form(sizes: tuple[tuple[float, float], ...], colors: Theme) -> Form:
    return frame.form([frame.image(f"panel-{i}", *size) for i, size in enumerate(sizes)], 1, 1, colors)


_COLUMNS = (
    "kind", "name", "cells", "row_axis", "column_axis",
    "rows", "columns", "first_row", "first_column", "position", "bx", "by",
    "x", "y", "x2", "y2", "text", "color", "fill", "stroke", "width", "path", "size", "uri",
)  # fmt: skip


_ROW = "datum.first_row + clamp(floor((y() - datum.y) / (datum.y2 - datum.y) * datum.rows), 0, datum.rows - 1)"
_COLUMN = (
    "datum.first_column + clamp(floor((x() - datum.x) / (datum.x2 - datum.x) * datum.columns), 0, datum.columns - 1)"
)
_HIT = f"{{ra: datum.row_axis, r: {_ROW}, ca: datum.column_axis, c: {_COLUMN}}}"
_HERE = "length(data('here')) ? data('here')[0] : {rows: -1, columns: -1, name: '', cells: ''}"
_REST = "{ra: 'query', r: here.rows, ca: 'key', c: here.columns}"


@lru_cache(maxsize=8)
def _spec(select: str, verb: str, is_beside: bool, colors: Theme) -> dict:
    pointed = [
        {"events": "@panels:pointermove", "update": _HIT},
        {"events": "@panels:pointerout", "update": "null"},
    ]
    inside = [
        {"name": "here", "update": _HERE},  # there is no data yet when a browser begins
        {"name": "place", "update": f"pointed || {_REST}"},
    ]
    data = [*parts("here", "area", "panel", *frame.KINDS), *_linked()]
    return page(1, 1, [select], colors) | {
        "signals": [
            {"name": "pointed", "value": None, "on": pointed},
            {"name": select, "value": None, "on": _clicks(select)},
        ],
        "marks": [{"type": "group", "data": data, "signals": inside, "marks": _marks(verb, is_beside, colors)}],
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


def _who(verb: str, row_axis: str, row: str, column_axis: str, column: str) -> str:
    """A Vega expression for a place, in words: "cat (1) looks at mat (5)", "cat (1), number 12", "" for none."""

    def called(axis: str, at: str, other: str) -> str:
        named = f"split({axis} === 'query' ? here.name : here.cells, '\\n')[{at}]"
        said = f"{axis} === 'query' || {axis} === 'key' ? {named} : '{other} ' + {at}"
        return f"({at} < 0 || {axis} === '1' ? '' : {said})"

    ends = called(row_axis, row, "row"), called(column_axis, column, "number")
    between = f"{row_axis} === 'query' && {column_axis} === 'key' ? ' {verb} ' : ', '"
    return f"{ends[0]} + ({ends[0]} && {ends[1]} ? {between} : '') + {ends[1]}"


def _marks(verb: str, is_beside: bool, colors: Theme) -> list[dict]:
    pointer = values(cursor="pointer", tooltip=None)
    image = at("x", "y", url="uri") | pointer | values(aspect=False, smooth=False)
    image |= signals(width="datum.x2 - datum.x", height="datum.y2 - datum.y")
    area = at("x", "y", "x2", "y2") | pointer | values(fill="transparent")
    outline = at(x="left", x2="right", y="top", y2="bottom") | values(stroke=colors.accent, strokeWidth=1.5)
    text = at(x="bx", y="by") | values(fontSize=TEXT_SIZE, baseline="middle")
    who = partial(_who, verb)
    value = text | at(text="value", align="text") | values(fill=colors.accent, font=MONO)
    if is_beside:
        here = who("datum.row_axis", "datum.r", "datum.column_axis", "datum.c")
        value |= signals(text=f"datum.value && ({here}) + ': ' + datum.value") | values(font=FONT)
    pointed = who("place.ra", "place.r", "place.ca", "place.c")
    readout = text | signals(text=f"isValid(datum.bx) ? {pointed} : ''") | values(fill=colors.quiet, font=FONT)
    return [
        mark("rect", area, "area", name="areas"),
        mark("image", image, "panel", name="panels"),
        *frame_marks(),
        mark("rect", outline, "linked", quiet=True),
        mark("text", value, "linked", quiet=True, name="readout-numbers"),
        mark("text", readout, "here", quiet=True, name="readout"),
    ]
