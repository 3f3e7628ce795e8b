"""The form of a grid: rows and columns are axes from 0 to their count, and a cell is one unit wide.

It is constant for one size, kind of numbers and theme; title, labels, colors and cells are tables, so a browser
replaces them in place.
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
"""Pixels between cells and what stands at the ends of their rows."""

READOUT = 2 * LINE + 16
"""Pixels under an image on a page, for the words about the cell under the pointer."""

DOTTED = 5
"""Pixels of a cell from which on a dot stands for a label that is left out."""


def params(grids: "Sequence[Grid]") -> list[Spec]:
    """Selections by a click, under the pointer and by a drag, of the cells of some grids."""
    first, views = grids[0], [f"{grid.prefix}cells" for grid in grids]
    linked = dict.fromkeys(axis for grid in grids for axis in grid.axes if axis != "1")
    brush = [marks.drag("drag", views, first.style.colors)] if first.brush else []
    return [marks.click(first.selects[0], views, *first.selects[1:]), marks.hover(views, *linked), *brush]


def together(rows: "Sequence[Sequence[Grid | Spec]]", style: Style, *, has_params: bool = True) -> Form:
    """Grids, and views of another kind, in rows under one title."""
    views = [[part if isinstance(part, dict) else part.view for part in row] for row in rows]
    first = views[0][0]
    views[0][0] = first | {"layer": [*first["layer"], marks.unseen("meta")]}
    grids = [part for row in rows for part in row if not isinstance(part, dict)]
    title = None if style.on_screen else title_spec()
    chart = marks.rows_of_views(views, title, params(grids) if grids and has_params else ())
    return marks.whole(chart, style.colors)


class GridForm:
    """Layers of a grid."""

    def __init__(self, grid: "Grid"):
        size, colors = grid.size, grid.style.colors
        self.grid, self.colors, self.prefix = grid, colors, grid.prefix
        self.left, self.above = axes.band_widths(grid.bands)
        self.beside = grid.beside.width if grid.beside else 0
        rows, columns = grid.texts
        self.upright = max(map(text_width, columns[:: size.every]), default=0.0) > size.cell - 4 and (
            grid.axes[1] in TOKENS
        )
        titles = (None, None) if grid.is_table else grid.titles
        both: list[Spec | None] = [None, None]
        for side, (name, texts) in enumerate((("row", rows), ("column", columns))):
            if not any(texts) or (side == 0 and not grid.is_labeled):
                continue
            chosen = f"data('{self.prefix}chosen')[0]"
            there = f"{chosen} && {chosen}.{name}2 - {chosen}.{name} < 9"
            spec = axes.axis_spec(
                f"{self.prefix}{name}s",
                (size.rows, size.columns)[side],
                (size.every, size.every_column or size.every)[side],
                titles[side],
                colors,
                chosen=f"{there} ? floor(({chosen}.{name} + {chosen}.{name}2) / 2) : -99",
                dotted=size.cell >= DOTTED and not grid.is_table,
                upright=self.upright and side == 1,
            )
            spec["offset"] = self.above if side else self.left
            if side:
                spec["minExtent"] = grid.extent
            if grid.is_table and grid.axes[side] not in TOKENS:
                spec["labelColor"] = colors.quiet
            both[side] = spec
        self.rows, self.columns = places(size.rows, both[0], reverse=True), places(size.columns, both[1])
        self.wide = {"x": pixels_at(0), "x2": pixels_at(size.width)}
        self.high = {"y": pixels_at(0), "y2": pixels_at(size.height)}

    def spec(self) -> Spec:
        """The chart without title, configuration and parameters."""
        grid, size = self.grid, self.grid.size
        layers = self.legends() + (self.rectangles() if grid.is_rectangles else self.image()) + self.ends_of_rows()
        layers += (self.bands() if any(grid.bands["side"]) else []) + self.outline()
        if grid.style.on_screen and "weight" in grid.numbers and not grid.is_table:
            layers += self.clickable()
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

    def tooltip(self, *only: str) -> list[Spec]:
        """Row and column, and what there is of some fields, or of all."""
        grid = self.grid
        there = {"says", *(f"{name}_text" for name in grid.numbers)}
        fields = [tip for tip in grid.tips if tip[0] in there and (not only or tip[0] in only)]
        ends = zip(("query_name", "key_name"), grid.titles, strict=True)
        return tips(*(end for end, axis in zip(ends, grid.axes, strict=True) if axis != "1"), *fields)

    def legends(self) -> list[Spec]:
        """The color scale, and the strokes of what is no weight."""
        grid = self.grid
        below = grid.style.on_screen and not grid.is_rectangles and not grid.is_table
        where = {"orient": "bottom", "offset": READOUT if below else 14}
        if grid.style.aside and not grid.is_table:
            notes = [grid.note_title, *grid.data[f"{grid.prefix}rows"]["note"]] if any(grid.predicted) else []
            widest = round(max(map(text_width, notes), default=0.0))
            where = {"orient": "right", "offset": 14 + self.beside + (widest and widest + NOTE)}
        layers = [] if grid.ramp is None else [ramp_spec(grid.ramp, where, f"{self.prefix}meta")]
        return [*layers, *([] if grid.signs == () else [signs_spec(where, f"{self.prefix}legend")])]

    def rectangles(self) -> list[Spec]:
        """A rectangle for each cell, strokes on those that are no weight, and lines to the labels under the pointer."""
        size, tooltip, least = (
            self.grid.size,
            {"tooltip": self.tooltip()},
            min(self.grid.size.cell, self.grid.size.down),
        )
        box = self.down("row", "row2") | self.across("column", "column2") | {"fill": as_is("ground")} | tooltip
        edge = {"stroke": self.colors.background, "strokeWidth": 1} if least >= DOTTED * 2 else {}
        ground = self.layer("cells", "rect", box, cursor="pointer", **edge) | {"name": f"{self.prefix}cells"}
        looks = {
            "shape": as_is("path"),
            "stroke": as_is("stroke"),
            "strokeWidth": as_is("stroke_width", "quantitative"),
        }
        signs = self.y("middle") | self.x("center") | looks | tooltip
        glyph = {"size": least**2, "filled": False, "opacity": 1, "cursor": "pointer"}
        layers = [self.layer("cells", "point", signs, where="isValid(datum.path)", **glyph)]
        if any(self.grid.written):
            text = self.y("middle") | self.x("center") | {"text": field("written"), "fill": as_is("written_ink")}
            layers.append(self.layer("cells", "text", text, font=MONO, limit=size.cell - 4, baseline="middle"))
        middle = [{"calculate": "datum.row + 0.5", "as": "middle"}, {"calculate": "datum.column + 0.5", "as": "center"}]
        layers = [layer | {"transform": layer.get("transform", []) + middle} for layer in layers]
        return [ground, *layers, *self.pointed()]

    def pointed(self) -> list[Spec]:
        """Lines along the row and the column that are pointed at, here or in a table that shares an axis."""
        frame = {"fill": None, "stroke": self.colors.accent, "strokeWidth": 1.5}
        boxes = self.down("row", "row2") | self.wide, self.across("column", "column2") | self.high
        sides = zip(self.grid.axes, ("rows", "columns"), boxes, strict=True)
        there = "((pointed || {{}})['{}'] || [])[0] === datum.position"
        return [
            self.layer(table, "rect", box, where=there.format(axis), **frame)
            for axis, table, box in sides
            if axis != "1"
        ]

    def image(self) -> list[Spec]:
        """The cells as one image; of a table each row can be clicked."""
        size = self.grid.size
        mark = {"width": size.width, "height": size.height, "align": "left", "baseline": "top"}
        encoding = {"x": pixels_at(0), "y": pixels_at(0), "url": field("uri")}
        layers = [self.layer("meta", "image", encoding, smooth=False, aspect=False, **mark)]
        if not self.grid.is_table:
            return layers
        row = self.down("row", "row2") | self.wide | {"tooltip": tips(("name", self.grid.titles[0]))}
        rows = self.layer("rows", "rect", row, fill="transparent", cursor="pointer")
        return [*layers, rows | {"name": f"{self.prefix}cells"}, *self.pointed()]

    def ends_of_rows(self) -> list[Spec]:
        """Notes at the ends of rows, lines along the pieces of words, and frames around rows without a key."""
        colors, right, unseen = self.colors, pixels_at(self.grid.size.width + NOTE), {"opacity": 0, "size": 0}
        columns = self.layer("columns", "point", self.x("middle"), **unseen)
        if self.grid.is_table:
            frame = self.layer("meta", "rect", self.wide | self.high, fill=None, stroke=colors.line)
            return [columns, self.layer("rows", "point", self.y("middle"), **unseen), frame]
        text, over = {"align": "left", "baseline": "middle"}, {"y": pixels_at(-12)}
        quiet, word = text | {"color": colors.quiet}, {"color": colors.quiet, "strokeWidth": 1.25}
        frame = {"fill": None, "stroke": colors.warning, "strokeWidth": 1.5}
        at_end = {"x": pixels_at(right["value"] + self.beside)}
        note = self.y("middle") | at_end | {"text": field("note"), "fill": as_is("ink")}
        along_rows = self.down("begin", "end") | {"x": pixels_at(-2.5 - self.left)}
        along_columns = self.across("begin", "end") | {"y": pixels_at(-2.5 - self.above)}
        layers = [
            self.layer("rows", "rect", self.down("row", "row2") | self.wide, where="datum.empty", **frame),
            self.layer("meta", "text", at_end | over | {"text": field("note_title")}, **quiet),
            self.layer("rows", "text", note, where="datum.note !== ''", font=MONO, **text),
            self.layer("words", "rule", along_rows, where="datum.axis === 'rows'", **word),
            self.layer("words", "rule", along_columns, where="datum.axis === 'columns'", **word),
            columns,
        ]
        if self.beside:
            beside = self.y("middle") | {"text": field("beside"), "fill": as_is("beside_ink"), "x": right}
            layers.append(self.layer("rows", "text", beside, **text))
            layers.append(self.layer("meta", "text", over | {"text": field("beside_title"), "x": right}, **quiet))
        return layers

    def bands(self) -> list[Spec]:
        """A bar along each turn with its name, and a line through the cells where a turn begins."""
        name = {"align": "center", "baseline": "middle", "color": self.colors.quiet}
        border = {"color": self.colors.text, "strokeWidth": 1, "strokeDash": [4, 3]}
        bar, layers = {"fill": as_is("ink"), "tooltip": tips(("role", "role"))}, []
        for side, along, at, span, over, angle in (
            ("row", self.down, self.y, self.wide, "x", 270),
            ("column", self.across, self.x, self.high, "y", 0),
        ):
            where = f"datum.side === '{side}'"
            edges = {over: pixels_at(axes.NEAR), f"{over}2": pixels_at(axes.FAR)}
            label = at("middle") | {over: pixels_at(axes.MIDDLE), "text": field("label")}
            layers += [
                self.layer("bands", "rect", along("begin", "end") | edges | bar, where=where),
                self.layer("bands", "text", label, where=where, angle=angle, **name),
                self.layer("bands", "rule", at("border") | span, where=f"{where} && datum.border > 0", **border),
            ]
        return layers

    def outline(self) -> list[Spec]:
        """A frame around the selected cell, and a mark at its labels."""
        accent, down, across = self.colors.accent, self.down("row", "row2"), self.across("column", "column2")
        beside = down | {"x": pixels_at(-4 - self.left), "x2": pixels_at(-1.5 - self.left)}
        over = across | {"y": pixels_at(-4 - self.above), "y2": pixels_at(-1.5 - self.above)}
        frame = {"fill": None, "stroke": accent, "strokeWidth": 1.5 if self.grid.is_table else 2.5}
        return [
            self.layer("chosen", "rect", beside, where="datum.marks_row", fill=accent),
            self.layer("chosen", "rect", over, where="datum.marks_column", fill=accent),
            self.layer("chosen", "rect", down | across, **frame),
        ]

    def clickable(self) -> list[Spec]:
        """Labels again, unseen: a click on one selects the strongest cell of its token."""
        text = {"opacity": 0, "font": MONO, "baseline": "middle", "cursor": "pointer"}
        turned = {"angle": 270, "align": "left"} if self.upright else {"align": "center", "baseline": "bottom"}
        there = f"isValid(datum.query) && (datum.middle - 0.5) % {self.grid.size.every} === 0"
        label = {"text": field("label"), "tooltip": self.tooltip("weight_text")}
        rows = self.y("middle") | {"x": pixels_at(-6 - self.left)} | label
        columns = self.x("middle") | {"y": pixels_at(-6 - self.above)} | label
        return [
            self.layer("rows", "text", rows, where=there, **text | {"align": "right"}),
            self.layer("columns", "text", columns, where=there, **text | turned),
        ]
