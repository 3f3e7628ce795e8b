"""Grid of cells for weights, masks, leak tests and tables of numbers: its tables, and the specification of its chart.

Rows and columns are axes from 0 to their count, and a cell is one unit wide. The specification is constant for a size,
kind of numbers and theme; title, labels, colors and cells are tables, which a browser replaces in place.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from attnviz.charts import marks, pixels, signs
from attnviz.charts.axes import NOTE, TOKENS, GridSide, RowEnd, Size, notes_on
from attnviz.charts.marks import Form, Ramp, Spec, Table
from attnviz.charts.pixels import Squares
from attnviz.charts.signs import CellState
from attnviz.charts.theme import LINE, MONO, Style, Theme
from attnviz.core.amounts import written

READOUT = 2 * LINE + 16
"""Pixels below an image on a page, for the readout of the cell under the pointer."""
SEPARATE, DOTTED, LEAST_TITLE = 10, 5, 250
"""Minimum pixels of a cell for a line between cells, and for dots as labels; minimum width of the title of a view."""
READABLE = (34, 16)
"""Minimum width and height in pixels of a cell that has room for a number."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Grid:
    """Cells with their labels.

    Attributes:
        title, lines: title of the grid, and lines below it.
        rows, columns: tokens, labels and names of both sides.
        size: form and size in pixels.
        squares: numbers and states of the drawn squares.
        style: style of the picture.
        ramp: color scale in the legend; None for no color legend.
        selects: name of the selection by a click.
        more: columns to select by instead of query and key, with a value for each square, row by row.
        ends: texts at the ends of rows, from left to right.
        framed: rows with a frame.
        signs: states in the legend; None for all states that occur; () for no legend.
        notes: further states at the end of the legend.
        tiles: words for how a tile summarizes its cells.
        brush: whether a drag selects cells, if they are rectangles.
        prefix: prefix of the table names, if the grid is one of several in a chart.
        is_table: whether the grid is one of several tables of numbers: it has a frame and no axis titles, and the rows
            of an image are clickable.
    """

    title: str = ""
    lines: Sequence[str] = ()
    rows: GridSide
    columns: GridSide
    size: Size
    squares: Squares
    style: Style
    ramp: Ramp | None = None
    selects: str = "cell"
    more: Table = field(default_factory=dict)
    ends: Sequence[RowEnd] = ()
    framed: Collection[int] = ()
    signs: Sequence[CellState] | None = None
    notes: Sequence[CellState] = ()
    tiles: str = "each square shows the largest of"
    brush: bool = False
    prefix: str = ""
    is_table: bool = False

    @property
    def is_rectangles(self) -> bool:
        return self.size.form == "rectangles"

    @property
    def read(self) -> "Grid | None":
        """This grid if it is an image with a readout under the pointer, else None."""
        return None if self.is_rectangles else self

    @property
    def sides(self) -> tuple[GridSide, GridSide]:
        """Rows, and columns."""
        return self.rows, self.columns

    @property
    def counts(self) -> tuple[int, int]:
        """Numbers of rows and of columns of squares."""
        return self.size.rows, self.size.columns

    @cached_property
    def names(self) -> tuple[Sequence[str], Sequence[str]]:
        """Names of rows and of columns in tooltips."""
        return tuple(side.square_names(self.size.tile) for side in self.sides)

    @property
    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """Position of each row and column; for tiles, the first position."""
        return tuple(side.groups.starts[:: self.size.tile] for side in self.sides)

    @cached_property
    def selected(self) -> tuple[int | None, int | None]:
        """Index of the selected row and of the selected column, from the positions in `style.selected`.

        If a row or column is selected as a whole, the other index is None. Both are None without a selection, or if the
        selected position is not in the grid.
        """
        cell = self.style.selected
        if isinstance(cell, int):
            cell = (cell,)
        position_on = dict(zip(TOKENS, cell or (), strict=False))  # by the name of the axis; -1 selects nothing
        indices = [side.groups.index_of(position_on.get(side.axis, -1)) for side in self.sides]
        for side, index in zip(self.sides, indices, strict=True):
            if index is None and side.axis in position_on:
                return None, None
        return tuple(indices)

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta, rows, columns, chosen, legend, and the cells if they are rectangles.

        Vega drops tables that no mark uses, and fails when a page replaces their rows, so they are left out.
        """
        tables = {"meta": self._meta(), "rows": self._row_table(), "columns": self._side(1), "chosen": self.chosen()}
        if self.signs != ():
            tables["legend"] = self._legend()
        if self.is_rectangles:
            tables["cells"] = self._cells()
        return {f"{self.prefix}{name}": table for name, table in tables.items()}

    def _legend(self) -> Table:
        """Build the table of the legend; on a page, rules that a mask beside the map explains are left out."""
        states, colors = self.signs, self.style.colors
        if states is None:
            states = [self.squares.kinds[i] for i in self.squares.occurring]
            if self.style.explained and self.style.on_screen:
                states = [state for state in states if not state.rules]
        return marks.legend_table([*signs.legend(states, colors), *signs.legend(self.notes, colors)])

    def _meta(self) -> Table:
        """Build the table of titles and of the end of the color scale; for an image, also its URI and its size."""
        lines = [*self.lines, *notes_on(self.size, self.tiles)]
        table = marks.heading(self.title, lines, self.size.width + 160, self.style)
        if self.prefix:
            table = {"title": [self.title], "subtitle": ["\n".join(self.lines)]}
        table["top"] = [self.ramp.top if self.ramp else 1.0]
        table |= {f"{end.name}_title": [end.title] for end in self.ends}
        if self.is_rectangles:
            return table
        # rows and columns are needed to move over the cells by keyboard
        return table | {"uri": [self.uri()], "rows": [self.size.rows], "columns": [self.size.columns]}

    def _side(self, i: int) -> Table:
        """Build the table of rows (`i` = 0) or columns (1): place, label, name and position of each."""
        side, count, positions = self.sides[i], self.counts[i], self.positions[i].tolist()
        table: Table = {
            ("row", "column")[i]: [*range(count)],
            ("row2", "column2")[i]: [*range(1, count + 1)],
            "middle": [index + 0.5 for index in range(count)],
            "label": self._labels(i),
            "quiet": [token.special for token in side.groups.tokens[:: self.size.tile]],
            "name": [*self.names[i]],
            "position": positions,
        }
        if self.is_table:
            fields = {axis: [-1] * count for axis in TOKENS} | {side.axis: positions}
            table = table | fields | {"rev": [self.style.rev] * count}
        return table

    def _row_table(self) -> Table:
        """Build the table of rows, with the texts at their ends; a tile of rows has the texts of its first row."""
        table, tile, count = self._side(0), self.size.tile, len(self.rows.groups)
        if self.is_table:
            return table
        first_rows = range(0, count, tile)
        table["empty"] = [all(row in self.framed for row in range(i, min(i + tile, count))) for i in first_rows]
        for end in self.ends:
            table[end.name] = [text if i % self.size.every == 0 else "" for i, text in enumerate(end.texts[::tile])]
            inks = [end.inks.get(i, "text") for i in first_rows]
            selected_tile = None if self.selected[0] is None else self.selected[0] // tile
            if end.name == "note" and selected_tile is not None and inks[selected_tile] == "text":
                inks[selected_tile] = "accent"
            table[f"{end.name}_ink"] = [getattr(self.style.colors, ink) for ink in inks]
        return table

    def _labels(self, i: int) -> list[str]:
        """Return the label of each row (`i` = 0) or column (1): a text if there is room, else a dot or, if tiny, "".

        The selected row or column has its text, and its neighbors make room for it.
        """
        side, selected, tile = self.sides[i], self.selected[i], self.size.tile
        step, texts = side.every or self.size.every, side.texts or [""] * len(side.groups)
        dot = "·" if self.size.cell >= DOTTED and not self.is_table else ""
        labels = [text if index % step == 0 else dot for index, text in enumerate(texts[::tile])]
        if selected is not None:
            center = selected // tile
            for index in range(max(0, center - step + 1), min(center + step, len(labels))):
                labels[index] = dot
            labels[center] = texts[selected]
        return labels

    def chosen(self) -> Table:
        """Build the table of the selection, empty without one: ends of its outline, which is at least 7 pixels wide."""
        row, column = self.selected
        is_empty = row is None and column is None
        margin = 0 if row is None or column is None else max(0.0, (7 / self.size.cell - 1) / 2)  # in cells
        outline = {"row": 0, "row2": self.size.rows, "column": 0, "column2": self.size.columns}
        for axis, index in (("row", row), ("column", column)):
            if index is not None:
                begin = index // self.size.tile
                outline.update({axis: begin - margin, f"{axis}2": begin + 1 + margin})
        selection = outline | {"marks_row": row is not None, "marks_column": column is not None}
        return {name: [] if is_empty else [value] for name, value in selection.items()}

    def _cells(self) -> Table:
        """Build the table of cells, row by row: place, texts, fill and sign of each cell."""
        squares, colors = self.squares, self.style.colors
        states = squares.states.ravel()
        row, column = (index.ravel() for index in np.indices(squares.states.shape))
        cell = min(self.size.cell, self.size.cell_height)
        path, stroke, width = zip(*(state.glyph(cell, colors) for state in squares.kinds), strict=True)
        fills = pixels.written_palette(self._colors)
        ground = _pick(fills, pixels.ground(squares.states, squares.kinds, squares.shade).ravel())
        positions = dict.fromkeys(TOKENS, [-1] * len(row))  # -1: the grid has no such axis
        positions[self.rows.axis] = self.positions[0][row].tolist()
        positions[self.columns.axis] = self.positions[1][column].tolist()
        table = {
            "row": row.tolist(),
            "row2": (row + 1).tolist(),
            "column": column.tolist(),
            "column2": (column + 1).tolist(),
            **positions,
            "rev": [self.style.rev] * len(row),
            "query_name": _pick(self.names[0], row),
            "key_name": _pick(self.names[1], column),
            "ground": ground,
            "says": [*squares.texts] or _pick([state.text for state in squares.kinds], states),
            "path": _pick(path, states),
            "stroke": _pick(stroke, states),
            "stroke_width": _pick(width, states),
        } | self.more
        if any(squares.written):
            inks = {color: pixels.readable(color, colors) for color in {*ground}}
            table["written"], table["written_ink"] = [*squares.written], [inks[color] for color in ground]
        for name, values, texts, _ in squares.numbers:
            flat = values.ravel().tolist()
            table[name] = [value if math.isfinite(value) else None for value in flat]
            table[f"{name}_text"] = [written(value, texts) for value in flat] if isinstance(texts, str) else [*texts]
        return table

    def uri(self, scale: int | None = None) -> str:
        """Encode the cells as an image, and return its data URI.

        Args:
            scale: image pixels per pixel of the picture; None for 2 in a file, and on a page for one image pixel per
                cell if no cell has a sign.
        """
        size, squares, factor = self.size, self.squares, scale or (1 if self.style.on_screen else 2)
        height, width = self.counts  # one image pixel per cell
        has_signs = any(squares.kinds[i].stroke() for i in squares.occurring)
        if scale or not self.style.on_screen or has_signs:
            if self.is_table:
                height, width = max(round(factor * size.height), height), max(round(factor * size.width), width)
            else:
                height *= max(1, round(factor * size.cell_height))
                width *= max(1, round(factor * size.cell))
        sides = {"height": height, "width": width, "scale": factor}
        return pixels.uri(squares.states, squares.kinds, squares.shade, self._colors, **sides)

    @property
    def _colors(self) -> Theme:
        """Theme with the ramp of this grid."""
        colors, ramp = self.style.colors, self.squares.ramp
        return replace(colors, ramp=ramp.colors(colors)) if ramp else colors

    @cached_property
    def form(self) -> Form:
        """Chart without its tables."""
        params = {"params": selections([self])} if self.is_rectangles else {}
        return marks.whole(self.spec | {"title": marks.title_spec()} | params, self.style.colors)

    @property
    def view(self) -> Spec:
        """View of this grid within a chart of several grids, with its title and without parameters."""
        options = {"limit": max(self.size.width, LEAST_TITLE)}
        if self.is_table:
            options = {"fontWeight": "normal", "fontSize": 12, "offset": 6}
        title = marks.title_spec(f"{self.prefix}meta", view_of=self.style.colors) | options
        return self.spec | {"title": title, "name": self.prefix}

    @property
    def spec(self) -> Spec:
        """Chart without title, configuration and parameters."""
        hidden = {"opacity": 0, "size": 0}
        axes = [
            self._layer("rows", "point", self._y("middle"), **hidden),
            self._layer("columns", "point", self._x("middle"), **hidden),
        ]
        cells = self._rectangles() if self.is_rectangles else self._image()
        around = self._ends_of_rows()
        if self.is_table:
            frame = self._wide | self._high
            around = [self._layer("meta", "rect", frame, fill=None, stroke=self.style.colors.line)]
        layers = [*self._legends(), *cells, *axes, *around, *self._outline()]
        return {"layer": layers, "width": self.size.width, "height": self.size.height, "resolve": marks.APART}

    def _layer(self, table: str, kind: str, encoding: Spec, **options: object) -> Spec:
        """Build a layer for a table of this grid; see `marks.layer`."""
        return marks.layer(f"{self.prefix}{table}", kind, encoding, **options)

    @property
    def _wide(self) -> Spec:
        """Channels x and x2 from the left to the right end of the cells."""
        return {"x": marks.pixels_at(0), "x2": marks.pixels_at(self.size.width)}

    @property
    def _high(self) -> Spec:
        """Channels y and y2 from the upper to the lower end of the cells."""
        return {"y": marks.pixels_at(0), "y2": marks.pixels_at(self.size.height)}

    def _y(self, begin: str, end: str = "") -> Spec:
        """Build channel y, which reads the field `begin`, and, if `end` is given, channel y2, which reads `end`."""
        y = {"y": {"field": begin} | marks.places(self.size.rows, self._axis(0), reverse=True)}
        return y | ({"y2": {"field": end}} if end else {})

    def _x(self, begin: str, end: str = "") -> Spec:
        """Build channels x and x2 for columns, as `_y` does for rows."""
        x = {"x": {"field": begin} | marks.places(self.size.columns, self._axis(1))}
        return x | ({"x2": {"field": end}} if end else {})

    def _axis(self, i: int) -> Spec | None:
        """Build the axis of rows (`i` = 0) or columns (1), whose labels are in their table; None if all are empty."""
        side, colors = self.sides[i], self.style.colors
        if not any(side.texts):
            return None
        row = f"(data('{self.prefix}{('rows', 'columns')[i]}')[floor(datum.value)] || {{}})"
        quiet = {"condition": {"test": f"{row}.quiet", "value": colors.quiet}, "value": colors.text}
        spec: Spec = {
            "title": None if self.is_table else side.title,
            "labelExpr": f"{row}.label || ''",
            "labelColor": colors.quiet if self.is_table and side.axis not in TOKENS else quiet,
            "labelOverlap": False,
            "values": {"expr": f"sequence(0.5, {self.counts[i]})"},
        }
        if i == 0:
            return spec
        widest = max(map(marks.text_width, side.texts[:: side.every or self.size.every]), default=0.0)
        if side.axis in TOKENS and widest > self.size.cell - 4:
            return spec | {"orient": "top", "labelAngle": 270, "labelAlign": "left", "labelBaseline": "middle"}
        return spec | {"orient": "top", "labelAngle": 0}

    def _tooltip(self) -> list[Spec]:
        """Build the tooltip of a cell: names of its row and column, its numbers, and its state."""
        sides = zip(("query_name", "key_name"), self.sides, strict=True)
        fields = [(name, side.title) for name, side in sides if side.axis != "1"]
        fields += [(f"{number.name}_text", number.title or number.name) for number in self.squares.numbers]
        fields += [("says", self.squares.text_title)] if self.squares.text_title else []
        return marks.tips(*fields)

    def _legends(self) -> list[Spec]:
        """Build the layers of the legends: one of the color scale (or only its table), and one of the signs, if any."""
        has_readout = self.style.on_screen and not self.is_rectangles and not self.is_table
        where = {"orient": "bottom", "offset": READOUT if has_readout else 14}
        if self.style.aside and not self.prefix:
            where = {"orient": "right", "offset": 14 + sum(end.width for end in self.ends)}
        meta, ramp = f"{self.prefix}meta", self.ramp
        legends = [marks.ramp_spec(ramp, ramp.colors(self.style.colors), where, meta) if ramp else marks.unseen(meta)]
        if self.signs != ():
            legends.append(marks.signs_spec(where, f"{self.prefix}legend"))
        return legends

    def _rectangles(self) -> list[Spec]:
        """Build the layers of cells: rectangles, signs, numbers, and frames around the hovered row and column."""
        least, colors = min(self.size.cell, self.size.cell_height), self.style.colors
        tooltip = {"tooltip": self._tooltip()}
        box = self._y("row", "row2") | self._x("column", "column2") | {"fill": marks.as_is("ground")} | tooltip
        edge = {"stroke": colors.background, "strokeWidth": 1} if least >= SEPARATE else {}
        rectangles = self._layer("cells", "rect", box, cursor="pointer", **edge) | {"name": f"{self.prefix}cells"}
        center = self._y("middle") | self._x("center")
        looks = {"shape": marks.as_is("path"), "stroke": marks.as_is("stroke")}
        looks["strokeWidth"] = marks.as_is("stroke_width", "quantitative")
        point = {"size": least**2, "filled": False, "opacity": 1, "cursor": "pointer"}
        layers = [self._layer("cells", "point", center | looks | tooltip, where="isValid(datum.path)", **point)]
        if any(self.squares.written):
            text = center | {"text": marks.field("written"), "fill": marks.as_is("written_ink")}
            options = {"font": MONO, "limit": self.size.cell - 4, "baseline": "middle"}
            layers.append(self._layer("cells", "text", text, **options))
        centers = {"middle": "datum.row + 0.5", "center": "datum.column + 0.5"}
        transforms = [{"calculate": expression, "as": name} for name, expression in centers.items()]
        for layer in layers:
            layer["transform"] = [*layer.get("transform", ()), *transforms]
        return [rectangles, *layers, *self._pointed()]

    def _pointed(self) -> list[Spec]:
        """Build frames around the row and the column that are hovered here, or in a table that shares the axis."""
        frame = {"stroke": self.style.colors.accent, "fill": None, "strokeWidth": 1.5}
        boxes = {"rows": self._y("row", "row2") | self._wide, "columns": self._x("column", "column2") | self._high}
        layers = []
        for side, (table, box) in zip(self.sides, boxes.items(), strict=True):
            is_hovered = f"((pointed || {{}})['{side.axis}'] || [])[0] === datum.position"
            if side.axis != "1":
                layers.append(self._layer(table, "rect", box, where=is_hovered, **frame))
        return layers

    def _image(self) -> list[Spec]:
        """Build the layer of the cells as one image; a table of numbers also has layers to click and hover its rows."""
        mark = {"width": self.size.width, "height": self.size.height, "align": "left", "baseline": "top"}
        encoding = {"x": marks.pixels_at(0), "y": marks.pixels_at(0), "url": marks.field("uri")}
        image = self._layer("meta", "image", encoding, smooth=False, aspect=False, **mark)
        if not self.is_table:
            return [image]
        row = self._y("row", "row2") | self._wide | {"tooltip": marks.tips(("name", self.rows.title))}
        rows = self._layer("rows", "rect", row, fill="transparent", cursor="pointer")
        return [image, rows | {"name": f"{self.prefix}cells"}, *self._pointed()]

    def _ends_of_rows(self) -> list[Spec]:
        """Build the layers of texts at the ends of rows, with their titles, and of frames around fully masked rows."""
        colors, text, x = self.style.colors, {"align": "left", "baseline": "middle"}, self.size.width + NOTE
        frame = {"fill": None, "stroke": colors.warning, "strokeWidth": 1.5}
        layers = [self._layer("rows", "rect", self._y("row", "row2") | self._wide, where="datum.empty", **frame)]
        for end in self.ends:
            left, name = {"x": marks.pixels_at(x)}, end.name
            title = left | {"y": marks.pixels_at(-12), "text": marks.field(f"{name}_title")}
            layers.append(self._layer("meta", "text", title, color=colors.quiet, **text))
            row_text = self._y("middle") | left | {"text": marks.field(name), "fill": marks.as_is(f"{name}_ink")}
            layers.append(self._layer("rows", "text", row_text, where=f"datum.{name} !== ''", font=MONO, **text))
            x += end.width
        return layers

    def _outline(self) -> list[Spec]:
        """Build the layers of a frame around the selected cell, and of short bars between the cells and its labels."""
        accent, row, column = self.style.colors.accent, self._y("row", "row2"), self._x("column", "column2")
        frame = {"fill": None, "strokeWidth": 1.5 if self.is_table else 2.5}
        left, above = ({axis: marks.pixels_at(-4), f"{axis}2": marks.pixels_at(-1.5)} for axis in "xy")
        return [
            self._layer("chosen", "rect", row | left, where="datum.marks_row", fill=accent),
            self._layer("chosen", "rect", column | above, where="datum.marks_column", fill=accent),
            self._layer("chosen", "rect", row | column, stroke=accent, **frame),
        ]


def selections(grids: Sequence[Grid]) -> list[Spec]:
    """Build the parameters that select cells: a click by `Grid.more` (else query and key), hovering and drag."""
    first, views = grids[0], [f"{grid.prefix}cells" for grid in grids]
    hovered_axes = dict.fromkeys(side.axis for grid in grids for side in grid.sides if side.axis != "1")
    brush = [marks.drag("drag", views, first.style.colors)] if first.brush else []
    click = marks.click(first.selects, views, *(first.more or TOKENS), "rev")  # "rev": see `marks.click`
    return [click, marks.hover(views, *hovered_axes), *brush]


def together(rows: Sequence[Sequence[Grid]], style: Style, *, has_params: bool = True) -> Form:
    """Arrange grids in rows, as one chart whose title is in the table "meta"; without grids there is only the title.

    Args:
        has_params: whether cells can be selected.
    """
    empty_view = {"layer": [], "width": 1, "height": 1}
    views = [[grid.view for grid in row] for row in rows] or [[empty_view]]
    first = views[0][0]
    views[0][0] = first | {"layer": [*first["layer"], marks.unseen("meta")]}
    chart = marks.below(*(marks.beside(*row) for row in views), spacing=16)
    if len(views) == 1:
        chart = marks.beside(*views[0], spacing=24)
    if not style.on_screen:
        chart["title"] = marks.title_spec()
    if rows and has_params:
        chart["params"] = selections([grid for row in rows for grid in row])
    return marks.whole(chart, style.colors)


def _pick(values: Sequence, index: np.ndarray) -> list:
    """Return `values[i]` for each `i` in `index`, an integer array (cells,)."""
    return [values[i] for i in index.tolist()]
