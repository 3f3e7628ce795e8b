"""Tables of numbers as colored cells, one below the other, that know of each other: Vega-Lite lays them out.

A place in a table is a position along each of its two axes (query, key, a dimension). Tables that share an axis show
the same position on it: what is pointed at in one is outlined in all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import altair as alt
import numpy as np

from attnviz.charts import pixels
from attnviz.charts.axes import axis
from attnviz.charts.grid import READABLE
from attnviz.charts.interaction import QUIET_MARK, clicked, share
from attnviz.charts.legends import Ramp, ramp_legend, state_legend
from attnviz.charts.picture import INDEPENDENT, Form, Table, formed, together
from attnviz.charts.state import CellState, legend
from attnviz.charts.style import Style
from attnviz.charts.texts import entry, heading, text_width, titled
from attnviz.charts.theme import Theme, config
from attnviz.core.amounts import digits, in_cell

TOKENS = ("query", "key")
"""Axes whose positions are tokens."""

HUGE = 1e8
"""Numbers beyond this (-1e9, added as a mask) stand at the end of a scale instead of stretching it."""

MOST_CELLS = 4096
"""Cells of all tables together that are rectangles; larger tables are images whose rows can be clicked."""

KINDS = (
    CellState("number", "ramp", legend=""),
    CellState("blocked", "blocked", "hatch"),
    CellState("NaN: not a number", "blocked", "cross"),
)
"""States of a cell."""


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberCells:
    """A table of numbers as colored cells.

    Attributes:
        title: what stands over it.
        axes: what its rows and columns stand for: "query", "key", "d_k", ...; "1" for nothing.
        rows, columns: the positions that are shown.
        values: (rows, columns); -inf is hatched, NaN crossed, and +inf has the color of the end of the scale.
        labels: of rows and columns; none where they have none.
        names: of rows and columns under the pointer.
        cell: pixels of a cell, across and down.
        every: each how many-th row and column is labeled.
        limit: the number at the end of the scale.
        signed: whether the scale goes from -limit to limit; else from 0.
        blocked: cells that are hatched though they have a number, a weight of 0; None for none.
        is_beside: whether it stands right of the table before, which labels its rows.
    """

    title: str
    axes: tuple[str, str]
    rows: range
    columns: range
    values: np.ndarray
    labels: tuple[Sequence[str], Sequence[str]] = ((), ())
    names: tuple[Sequence[str], Sequence[str]] = ((), ())
    cell: tuple[float, float]
    every: tuple[int, int] = (1, 1)
    limit: float = 1.0
    signed: bool = True
    blocked: np.ndarray | None = None
    is_beside: bool = False

    @cached_property
    def kinds(self) -> np.ndarray:
        """Which of `KINDS` each cell is, (rows, columns)."""
        hatched = self.values == -np.inf
        hatched |= False if self.blocked is None else self.blocked
        return np.select([hatched, np.isnan(self.values)], [1, 2])

    @property
    def shade(self) -> np.ndarray:
        """Positions of numbers on the scale, 0 to 1; those that are none stand at 0."""
        share = np.where(self.kinds == 0, self.values, 0.0) / (self.limit or 1.0)
        return np.clip((share + 1) / 2 if self.signed else share, 0, 1)

    def index_of(self, place: tuple[int, int]) -> tuple[int, int]:
        """The row and the column of a (query, key), counted from 0 in what is shown; -1 where it has none."""
        by_axis = dict(zip(TOKENS, place, strict=True))
        both = zip(self.axes, (self.rows, self.columns), strict=True)
        row, column = (positions.index(by_axis[a]) if by_axis.get(a, -1) in positions else -1 for a, positions in both)
        return row, column

    def uri(self, colors: Theme, size: tuple[float, float], scale: int = 2) -> str:
        """The cells as an image of so many pixels."""
        width, height = (
            max(1, round(side * scale), count) for side, count in zip(size, self.values.T.shape, strict=True)
        )
        kinds = self.kinds
        hatched, crossed = (kinds == 1).astype(int), kinds == 2
        image = pixels.weights(self.shade, kinds == 0, hatched, crossed, height=height, width=width)
        return pixels.data_uri(image, pixels.palette(ground(self.signed, colors)))


def ground(signed: bool, colors: Theme) -> Theme:
    """The colors with the ramp that numbers of both signs have, or with that of weights."""
    return replace(colors, ramp=colors.diverging) if signed else colors


def limit_of(*tables: np.ndarray) -> float:
    """The largest size of the numbers of some tables, those that are infinite or huge left out."""
    sizes = (np.abs(table[np.isfinite(table)]) for table in tables)
    return max((float(size[size < HUGE].max(initial=0.0)) for size in sizes), default=0.0)


def outline(row: int, column: int, rows: int, columns: int) -> tuple[list[float], list[float]]:
    """Begin and end, down and across, of a cell, or of a whole row or column where the other is -1."""
    down = [0, rows] if row < 0 else [row, row + 1]
    return down, ([0, columns] if column < 0 else [column, column + 1])


@dataclass(frozen=True, eq=False, kw_only=True)
class Matrices:
    """Tables with one title and one legend.

    Attributes:
        title, lines: what stands above.
        matrices: the tables.
        style: how they are drawn; `selected` is the (query, key) that is outlined while nothing is pointed at.
    """

    title: str
    lines: Sequence[str]
    matrices: Sequence[NumberCells]
    style: Style

    @property
    def form(self) -> Form:
        """The chart without its tables."""
        layouts = tuple(self._layout(i) for i in range(len(self.matrices)))
        return _form(layouts, self._ramp, self.style.colors, on_screen=self.style.on_screen)

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta, legend, and of each table meta, rows, columns and cells."""
        widths = [matrix.cell[0] * len(matrix.columns) for matrix in self.matrices]
        occurring = sorted({kind for matrix in self.matrices for kind in np.unique(matrix.kinds).tolist()})
        meta = heading(self.title, self.lines, max(widths, default=0) + 60, self.style)
        tables = {
            "meta": meta | {"top": [self._top]},
            "legend": entry(legend([KINDS[kind] for kind in occurring], self.style.colors)),
        }
        for i, matrix in enumerate(self.matrices):
            parts = {"meta": self._meta(i, matrix), "cells": self._cells(i, matrix)}
            parts |= {name: _labels(labels) for name, labels in zip(("rows", "columns"), matrix.labels, strict=True)}
            tables |= {f"{i}-{name}": table for name, table in parts.items()}
        return tables

    @property
    def _axes(self) -> list[str]:
        return list(dict.fromkeys(axis for matrix in self.matrices for axis in matrix.axes if axis != "1"))

    @property
    def _top(self) -> float:
        return max((matrix.limit for matrix in self.matrices), default=1.0) or 1.0

    @property
    def _ramp(self) -> Ramp:
        """One legend; tables of different scales have the same colors, each up to its largest number."""
        signed, shared = (
            any(matrix.signed for matrix in self.matrices),
            len({matrix.limit for matrix in self.matrices}) <= 1,
        )
        caption = "from negative over 0 to positive" if signed else "weight, from 0 to 1"
        colors = self.style.colors
        ramp = colors.diverging if signed else colors.ramp
        caption = caption if shared else f"each table: {caption}"
        return Ramp(caption, 0.0, ramp, signed=signed, largest="" if shared else "max")

    def _layout(self, i: int) -> "_MatrixLayout":
        matrix = self.matrices[i]
        axes = self._axes
        upright = matrix.axes[1] in TOKENS and max(map(text_width, matrix.labels[1]), default=0) > matrix.cell[0] - 4
        return _MatrixLayout(
            prefix=f"{i}-",
            rows=len(matrix.rows),
            columns=len(matrix.columns),
            cell=matrix.cell,
            every=matrix.every,
            labeled=tuple(any(labels) for labels in matrix.labels),
            upright=upright,
            axes=tuple(axes.index(name) if name in axes else None for name in matrix.axes),
            of_tokens=tuple(name in TOKENS for name in matrix.axes),
            titles=tuple(
                axis if axis in TOKENS else other for axis, other in zip(matrix.axes, ("row", "column"), strict=True)
            ),
            fields=len(axes),
            is_image=self._is_image(matrix),
            is_beside=matrix.is_beside,
            colors=self.style.colors,
        )

    def _is_image(self, matrix: NumberCells) -> bool:
        return matrix.values.size > MOST_CELLS // len(self.matrices)

    def _meta(self, i: int, matrix: NumberCells) -> Table:
        row, column = matrix.index_of(self._place)
        number = ""
        if min(row, column) >= 0:
            verb = " looks at " if matrix.axes == ("query", "key") else ", "
            number = f"{matrix.names[0][row]}{verb}{matrix.names[1][column]}: {digits(matrix.values[row, column])}"
        size = matrix.cell[0] * len(matrix.columns), matrix.cell[1] * len(matrix.rows)
        uri = {"uri": [matrix.uri(self.style.colors, size)]} if self._is_image(matrix) else {}
        firsts = {"first_row": [matrix.rows.start], "first_column": [matrix.columns.start]}
        return {"title": [matrix.title], "subtitle": [number], "row": [row], "column": [column]} | firsts | uri

    @property
    def _place(self) -> tuple[int, int]:
        place = self.style.selected
        return place if isinstance(place, tuple) else (-1, -1)

    def _cells(self, i: int, matrix: NumberCells) -> Table:
        """A row for each cell, or, of an image, for each row of cells: where it is, and what it says."""
        rows, columns = matrix.values.shape
        whole, colors = self._is_image(matrix), self.style.colors
        row, column = (part.ravel() for part in np.indices((rows, 1 if whole else columns)))
        places = [np.array(matrix.rows)[row], np.full(len(row), -1) if whole else np.array(matrix.columns)[column]]
        of = dict(zip(matrix.axes, places, strict=True))
        table = {
            "row": row.tolist(),
            "row2": (row + 1).tolist(),
            "column": column.tolist(),
            "column2": (column + (columns if whole else 1)).tolist(),
            "rev": [self.style.rev] * len(row),
            "row_name": [matrix.names[0][i] for i in row.tolist()],
            **{axis: of.get(axis, np.full(len(row), -1)).tolist() for axis in TOKENS},
            **{f"axis_{n}": of[name].tolist() for n, name in enumerate(self._axes) if name in of},
        }
        if whole:
            return table | {"ground": ["transparent"] * len(row)}
        kinds, flat = matrix.kinds.ravel(), matrix.values.ravel().tolist()
        palette = ground(matrix.signed, colors)
        named = pixels.hexadecimal(pixels.palette(palette))
        shades = np.where(kinds == 0, pixels.shades(matrix.shade.ravel()), pixels.place("blocked"))
        grounds = [named[shade] for shade in shades.tolist()]
        path, stroke, width = zip(*(kind.glyph(min(matrix.cell), colors) for kind in KINDS), strict=True)
        closed = np.zeros(matrix.values.shape, bool) if matrix.blocked is None else matrix.blocked
        short = max((text_width(in_cell(value)) for value in flat), default=0) > matrix.cell[0] - 4
        texts = [
            "" if shut else in_cell(value, short) for value, shut in zip(flat, closed.ravel().tolist(), strict=True)
        ]
        inks = {shade: pixels.readable(named[shade], colors) for shade in set(shades[kinds == 0].tolist())}
        return table | {
            "column_name": [matrix.names[1][i] for i in column.tolist()],
            "number": list(map(digits, flat)),
            "ground": grounds,
            "text": texts,
            "ink": [inks.get(shade, colors.text) for shade in shades.tolist()],
            "path": [path[kind] for kind in kinds.tolist()],
            "stroke": [stroke[kind] for kind in kinds.tolist()],
            "stroke_width": [width[kind] for kind in kinds.tolist()],
        }


def _labels(labels: Sequence[str]) -> Table:
    return {"middle": [i + 0.5 for i in range(len(labels))], "label": [*labels], "quiet": [False] * len(labels)}


@dataclass(frozen=True)
class _MatrixLayout:
    """Settings on which the specification of one table depends."""

    prefix: str
    rows: int
    columns: int
    cell: tuple[float, float]
    every: tuple[int, int]
    labeled: tuple[bool, ...]
    upright: bool
    axes: tuple[int | None, ...]
    of_tokens: tuple[bool, ...]
    titles: tuple[str, ...]
    fields: int
    is_image: bool
    is_beside: bool
    colors: Theme


@formed(64)
def _form(layouts: tuple[_MatrixLayout, ...], ramp: Ramp, colors: Theme, *, on_screen: bool) -> Form:
    rows: list[list[alt.LayerChart]] = []
    for i, layout in enumerate(layouts):
        under = {"orient": "bottom", "offset": 14}
        is_last = not layout.is_beside and all(later.is_beside for later in layouts[i + 1 :])
        legends = [ramp_legend(ramp, under), state_legend(under)] if is_last else []
        view = _view(layout, legends)
        if layout.is_beside:
            rows[-1].append(view)
        else:
            rows.append([view])
    if not layouts:  # a step without numbers has a title alone
        rows = [[alt.layer(alt.Chart(alt.NamedData("meta")).mark_point(opacity=0, size=0, **QUIET_MARK), height=1)]]
    fields = [f"axis_{i}" for i in range(layouts[0].fields if layouts else 0)]
    pointed = alt.selection_point(name="pointed", fields=fields, on="pointerover", clear="pointerout")
    names = [f"{layout.prefix}cells" for layout in layouts]
    params = share(names, clicked("cell", "query", "key", "rev"), pointed) if names else ()
    chart = together(rows, params, None if on_screen else titled(colors))
    return Form.of(chart.configure(**config(colors)))


def _view(layout: _MatrixLayout, legends: list[alt.LayerChart]) -> alt.LayerChart:
    colors, (wide, high) = layout.colors, layout.cell
    width, height = wide * layout.columns, high * layout.rows

    def scale(count: int, **more: bool) -> alt.Scale:
        return alt.Scale(domain=[0, count], nice=False, zero=False, **more)

    def axis_of(side: int, name: str, count: int, **more: bool) -> alt.Axis | None:
        if not layout.labeled[side] or (layout.is_beside and side == 0):
            return None
        chart_axis = axis(f"{layout.prefix}{name}", count, layout.every[side], None, colors, **more)
        if not layout.of_tokens[side]:
            chart_axis.labelColor = colors.quiet
        return chart_axis

    down = {"scale": scale(layout.rows, reverse=True), "axis": axis_of(0, "rows", layout.rows)}
    over = {"scale": scale(layout.columns), "axis": axis_of(1, "columns", layout.columns, upright=layout.upright)}
    box = {"y": alt.Y("row:Q", **down), "y2": alt.Y2("row2"), "x": alt.X("column:Q", **over), "x2": alt.X2("column2")}
    names = "meta", "cells", "rows", "columns"
    meta, cells, *labels = (alt.Chart(alt.NamedData(f"{layout.prefix}{name}")) for name in names)
    unseen = (points.mark_point(opacity=0, size=0, **QUIET_MARK) for points in labels)  # for the axes to read them
    layers = [*legends, *(points.encode(x=alt.XValue(0), y=alt.YValue(0)) for points in unseen)]
    tips = [*zip(("row_name", "column_name"), layout.titles, strict=True), ("number", "value")]
    if layout.is_image:
        whole = {"x": alt.XValue(0), "x2": alt.X2Value(width), "y": alt.YValue(0), "y2": alt.Y2Value(height)}
        image = meta.mark_image(aspect=False, smooth=False, **QUIET_MARK)
        layers.append(image.encode(url=alt.Url("uri:N"), **whole))
        tips = tips[:1]
    tooltip = [alt.Tooltip(f"{field}:N", title=title) for field, title in tips]
    ground_mark = cells.mark_rect(cursor="pointer", aria=False)
    ground_mark = ground_mark.encode(**box, fill=alt.Fill("ground:N", scale=None), tooltip=tooltip)
    layers.append(ground_mark.properties(name=f"{layout.prefix}cells"))
    middle = cells.transform_calculate(
        middle="(datum.row + datum.row2) / 2", center="(datum.column + datum.column2) / 2"
    )
    centered = {"y": alt.Y("middle:Q", **down), "x": alt.X("center:Q", **over)}
    signs = middle.transform_filter("isValid(datum.path)")
    layers += [
        signs.mark_point(size=min(wide, high) ** 2, filled=False, opacity=1, **QUIET_MARK).encode(
            **centered,
            shape=alt.Shape("path:N", scale=None),
            stroke=alt.Stroke("stroke:N", scale=None),
            strokeWidth=alt.StrokeWidth("stroke_width:Q", scale=None),
        )
    ]
    if not layout.is_image and wide >= READABLE[0] and high >= READABLE[1]:
        text = middle.transform_filter("datum.text !== ''").mark_text(baseline="middle", **QUIET_MARK)
        layers.append(text.encode(**centered, text=alt.Text("text:N"), fill=alt.Fill("ink:N", scale=None)))
    frame = {"x": alt.XValue(0), "x2": alt.X2Value(width), "y": alt.YValue(0), "y2": alt.Y2Value(height)}
    layers += [
        meta.mark_rect(fill=None, stroke=colors.line, **QUIET_MARK).encode(**frame),
        _linked(layout, meta).mark_rect(fill=None, stroke=colors.accent, strokeWidth=1.5, **QUIET_MARK).encode(**box),
    ]
    title = titled(colors, f"{layout.prefix}meta", is_view=True)
    title.fontWeight, title.fontSize, title.offset = "normal", 12, 6
    sides = {"width": width, "height": height, "resolve": INDEPENDENT}
    return alt.layer(*layers, title=title, name=layout.prefix, **sides)


def _linked(layout: _MatrixLayout, meta: alt.Chart) -> alt.Chart:
    """The place that is pointed at, in this table or in another one; the selected one while nothing is."""
    is_pointed = " || ".join(f"isValid(((pointed || {{}}).axis_{i} || [])[0])" for i in range(layout.fields)) or "false"

    def place(side: int, name: str, count: int) -> str:
        i = layout.axes[side]
        if i is None:
            return "-1"
        pointed = f"((pointed || {{}}).axis_{i} || [])[0]"
        linked = f"isValid({pointed}) ? {pointed} - datum.first_{name} : -1"
        position = f"({is_pointed}) ? ({linked}) : datum.{name}"
        return f"inrange({position}, [0, {count - 1}]) ? ({position}) : -1"

    return (
        meta.transform_calculate(r=place(0, "row", layout.rows), c=place(1, "column", layout.columns))
        .transform_filter("datum.r >= 0 || datum.c >= 0")
        .transform_calculate(
            row="datum.r < 0 ? 0 : datum.r",
            row2=f"datum.r < 0 ? {layout.rows} : datum.r + 1",
            column="datum.c < 0 ? 0 : datum.c",
            column2=f"datum.c < 0 ? {layout.columns} : datum.c + 1",
        )
    )
