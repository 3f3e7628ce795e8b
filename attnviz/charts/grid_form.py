"""Specification of a grid: rows and columns are axes from 0 to their count, and a cell is one unit wide.

The specification is constant for a size, kind of numbers and theme; title, labels, colors and cells are tables, which a
browser replaces in place.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attnviz.charts import axes, marks
from attnviz.charts.legends import ramp_spec, signs_spec, text_width, title_spec
from attnviz.charts.marks import Form, Spec, as_is, field, pixels_at, places, tips
from attnviz.charts.theme import LINE, MONO, Style

if TYPE_CHECKING:
    from attnviz.charts.grid import Grid

TOKENS = ("query", "key")
"""Axes whose positions are tokens."""

NOTE = 12
"""Pixels between the cells and the texts at the ends of rows."""

READOUT = 2 * LINE + 16
"""Pixels below an image on a page, for the readout of the cell under the pointer."""

SEPARATE = 10
"""Least pixels of a cell for a line between cells."""


def params(grids: "Sequence[Grid]") -> list[Spec]:
    """Build the selections of cells by a click, by hovering and by a drag."""
    first, views = grids[0], [f"{grid.prefix}cells" for grid in grids]
    linked = dict.fromkeys(axis for grid in grids for axis in grid.axes if axis != "1")
    brush = [marks.drag("drag", views, first.style.colors)] if first.brush else []
    return [marks.click(first.selects[0], views, *first.selects[1:]), marks.hover(views, *linked), *brush]


def together(rows: "Sequence[Sequence[Grid | Spec]]", style: Style, *, has_params: bool = True) -> Form:
    """Arrange grids and other views in rows under one title."""
    views = [[part if isinstance(part, dict) else part.view for part in row] for row in rows]
    first = views[0][0]
    views[0][0] = first | {"layer": [*first["layer"], marks.unseen("meta")]}
    grids = [part for row in rows for part in row if not isinstance(part, dict)]
    chart = marks.below(*(marks.beside(*row) for row in views), spacing=16)
    if len(views) == 1:
        chart = marks.beside(*views[0], spacing=24)
    if not style.on_screen:
        chart["title"] = title_spec()
    if grids and has_params:
        chart["params"] = params(grids)
    return marks.whole(chart, style.colors)


class GridForm:
    """Builder of the specification of a grid, layer by layer."""

    def __init__(self, grid: "Grid"):
        self.grid, self.size, self.colors, self.prefix = grid, grid.size, grid.style.colors, grid.prefix
        self.left, self.above = axes.band_widths(grid.bands)
        labels = grid.texts[1][:: self.size.every_column or self.size.every]
        is_wide = max(map(text_width, labels), default=0.0) > self.size.cell - 4
        self.upright = is_wide and grid.axes[1] in TOKENS
        self.rows = places(self.size.rows, self.axis(0), reverse=True)
        self.columns = places(self.size.columns, self.axis(1))
        self.wide = {"x": pixels_at(0), "x2": pixels_at(self.size.width)}
        self.high = {"y": pixels_at(0), "y2": pixels_at(self.size.height)}

    def axis(self, side: int) -> Spec | None:
        """Build the axis of rows, or of columns at the top, with labels from a table; None without labels."""
        if not any(self.grid.texts[side]):
            return None
        row = f"(data('{self.prefix}{('rows', 'columns')[side]}')[floor(datum.value)] || {{}})"
        quiet = {"condition": {"test": f"{row}.quiet", "value": self.colors.quiet}, "value": self.colors.text}
        is_number = self.grid.is_table and self.grid.axes[side] not in TOKENS
        spec: Spec = {
            "title": None if self.grid.is_table else self.grid.titles[side],
            "labelExpr": f"{row}.label || ''",
            "labelColor": self.colors.quiet if is_number else quiet,
            "labelOverlap": False,
            "values": {"expr": f"sequence(0.5, {(self.size.rows, self.size.columns)[side]})"},
            "offset": (self.left, self.above)[side],
        }
        if side == 0:
            return spec
        turned = {"labelAngle": 270, "labelAlign": "left", "labelBaseline": "middle"}
        over = {"orient": "top", "minExtent": self.grid.extent}
        return spec | over | (turned if self.upright else {"labelAngle": 0})

    def spec(self) -> Spec:
        """Build the chart without title, configuration and parameters."""
        grid, size = self.grid, self.size
        layers = self.legends() + (self.rectangles() if grid.is_rectangles else self.image())
        unseen = {"opacity": 0, "size": 0}  # invisible points that carry the axes
        layers += [self.layer("rows", "point", self.y("middle"), **unseen)]
        layers += [self.layer("columns", "point", self.x("middle"), **unseen)]
        if grid.is_table:
            layers.append(self.layer("meta", "rect", self.wide | self.high, fill=None, stroke=self.colors.line))
        else:
            layers += self.ends_of_rows()
        layers += (self.bands() if any(grid.bands["side"]) else []) + self.outline()
        return {"layer": layers, "width": size.width, "height": size.height, "resolve": marks.APART}

    def layer(self, table: str, kind: str, encoding: Spec, **options: object) -> Spec:
        return marks.layer(f"{self.prefix}{table}", kind, encoding, **options)

    def y(self, name: str) -> Spec:
        return {"y": {"field": name} | self.rows}

    def x(self, name: str) -> Spec:
        return {"x": {"field": name} | self.columns}

    def down(self, begin: str, end: str) -> Spec:
        return self.y(begin) | {"y2": {"field": end}}

    def across(self, begin: str, end: str) -> Spec:
        return self.x(begin) | {"x2": {"field": end}}

    def tooltip(self) -> list[Spec]:
        """Build the tooltip: row, column, and those of the grid's `tips` whose fields exist."""
        grid = self.grid
        there = {"says", *(f"{name}_text" for name in grid.numbers)}
        fields = [tip for tip in grid.tips if tip[0] in there]
        ends = zip(("query_name", "key_name"), grid.titles, strict=True)
        return tips(*(end for end, axis in zip(ends, grid.axes, strict=True) if axis != "1"), *fields)

    def legends(self) -> list[Spec]:
        """Build the legends of the color scale and of the signs."""
        grid = self.grid
        below = grid.style.on_screen and not grid.is_rectangles and not grid.is_table
        where = {"orient": "bottom", "offset": READOUT if below else 14}
        if grid.style.aside and not self.prefix:
            where = {"orient": "right", "offset": 14 + sum(end.width for end in grid.ends)}
        ramp = (
            [ramp_spec(grid.ramp, where, f"{self.prefix}meta")] if grid.ramp else [marks.unseen(f"{self.prefix}meta")]
        )
        return [*ramp, *([] if grid.signs == () else [signs_spec(where, f"{self.prefix}legend")])]

    def rectangles(self) -> list[Spec]:
        """Build rectangles of the cells, signs and numbers on the cells, and frames of the hovered row and column."""
        least, tooltip = min(self.size.cell, self.size.down), {"tooltip": self.tooltip()}
        box = self.down("row", "row2") | self.across("column", "column2") | {"fill": as_is("ground")} | tooltip
        edge = {"stroke": self.colors.background, "strokeWidth": 1} if least >= SEPARATE else {}
        ground = self.layer("cells", "rect", box, cursor="pointer", **edge) | {"name": f"{self.prefix}cells"}
        looks = {
            "shape": as_is("path"),
            "stroke": as_is("stroke"),
            "strokeWidth": as_is("stroke_width", "quantitative"),
        }
        center = self.y("middle") | self.x("center")
        glyph = {"size": least**2, "filled": False, "opacity": 1, "cursor": "pointer"}
        layers = [self.layer("cells", "point", center | looks | tooltip, where="isValid(datum.path)", **glyph)]
        if any(self.grid.written):
            text = center | {"text": field("written"), "fill": as_is("written_ink")}
            layers.append(self.layer("cells", "text", text, font=MONO, limit=self.size.cell - 4, baseline="middle"))
        middle = [{"calculate": "datum.row + 0.5", "as": "middle"}, {"calculate": "datum.column + 0.5", "as": "center"}]
        layers = [layer | {"transform": layer.get("transform", []) + middle} for layer in layers]
        return [ground, *layers, *self.pointed()]

    def pointed(self) -> list[Spec]:
        """Build frames around the row and the column that are hovered here, or in a table that shares the axis."""
        boxes = self.down("row", "row2") | self.wide, self.across("column", "column2") | self.high
        sides = zip(self.grid.axes, ("rows", "columns"), boxes, strict=True)
        there = "((pointed || {{}})['{}'] || [])[0] === datum.position"
        accent = self.colors.accent
        return [
            self.layer(table, "rect", box, where=there.format(axis), fill=None, stroke=accent, strokeWidth=1.5)
            for axis, table, box in sides
            if axis != "1"
        ]

    def image(self) -> list[Spec]:
        """Build the cells as one image; each row of a table is clickable."""
        mark = {"width": self.size.width, "height": self.size.height, "align": "left", "baseline": "top"}
        encoding = {"x": pixels_at(0), "y": pixels_at(0), "url": field("uri")}
        layers = [self.layer("meta", "image", encoding, smooth=False, aspect=False, **mark)]
        if not self.grid.is_table:
            return layers
        row = self.down("row", "row2") | self.wide | {"tooltip": tips(("name", self.grid.titles[0]))}
        rows = self.layer("rows", "rect", row, fill="transparent", cursor="pointer")
        return [*layers, rows | {"name": f"{self.prefix}cells"}, *self.pointed()]

    def ends_of_rows(self) -> list[Spec]:
        """Build texts at the ends of rows, lines along the pieces of words, and frames around fully masked rows."""
        word = {"color": self.colors.quiet, "strokeWidth": 1.25}
        frame = {"fill": None, "stroke": self.colors.warning, "strokeWidth": 1.5}
        along_rows = self.down("begin", "end") | {"x": pixels_at(-2.5 - self.left)}
        along_columns = self.across("begin", "end") | {"y": pixels_at(-2.5 - self.above)}
        layers = [
            self.layer("rows", "rect", self.down("row", "row2") | self.wide, where="datum.empty", **frame),
            self.layer("words", "rule", along_rows, where="datum.axis === 'rows'", **word),
            self.layer("words", "rule", along_columns, where="datum.axis === 'columns'", **word),
        ]
        text, x = {"align": "left", "baseline": "middle"}, self.size.width + NOTE
        for end in self.grid.ends:
            title = {"x": pixels_at(x), "y": pixels_at(-12), "text": field(f"{end.name}_title")}
            of_row = self.y("middle") | {"x": pixels_at(x), "text": field(end.name), "fill": as_is(f"{end.name}_ink")}
            layers.append(self.layer("meta", "text", title, color=self.colors.quiet, **text))
            layers.append(self.layer("rows", "text", of_row, where=f"datum.{end.name} !== ''", font=MONO, **text))
            x += end.width
        return layers

    def bands(self) -> list[Spec]:
        """Build a band along each turn with its name, and a line through the cells where a turn begins."""
        name = {"align": "center", "baseline": "middle", "color": self.colors.quiet}
        border = {"color": self.colors.text, "strokeWidth": 1, "strokeDash": [4, 3]}
        bar, layers = {"fill": as_is("ink"), "tooltip": tips(("role", "role"))}, []
        for side, along, place, span, over, angle in (
            ("row", self.down, self.y, self.wide, "x", 270),
            ("column", self.across, self.x, self.high, "y", 0),
        ):
            where = f"datum.side === '{side}'"
            edges = {over: pixels_at(axes.NEAR), f"{over}2": pixels_at(axes.FAR)}
            label = place("middle") | {over: pixels_at(axes.MIDDLE), "text": field("label")}
            layers += [
                self.layer("bands", "rect", along("begin", "end") | edges | bar, where=where),
                self.layer("bands", "text", label, where=where, angle=angle, **name),
                self.layer("bands", "rule", place("border") | span, where=f"{where} && datum.border > 0", **border),
            ]
        return layers

    def outline(self) -> list[Spec]:
        """Build a frame around the selected cell, and marks at its labels."""
        accent, down, across = self.colors.accent, self.down("row", "row2"), self.across("column", "column2")
        beside = down | {"x": pixels_at(-4 - self.left), "x2": pixels_at(-1.5 - self.left)}
        over = across | {"y": pixels_at(-4 - self.above), "y2": pixels_at(-1.5 - self.above)}
        frame = {"fill": None, "stroke": accent, "strokeWidth": 1.5 if self.grid.is_table else 2.5}
        return [
            self.layer("chosen", "rect", beside, where="datum.marks_row", fill=accent),
            self.layer("chosen", "rect", over, where="datum.marks_column", fill=accent),
            self.layer("chosen", "rect", down | across, **frame),
        ]
