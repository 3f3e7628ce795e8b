"""One grid for every picture of cells: weights, a mask, a leak test, tables of numbers. Vega-Lite lays it out.

Rows and columns are axes from 0 to their count: a cell is one unit wide. The specification is constant for one form
(size, numbers, theme); title, labels, colors and cells are tables, so a browser replaces them in place.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from attnviz.analysis.views import Groups
from attnviz.charts import bands, pixels, state
from attnviz.charts.axes import KEY, QUERY, axis_spec, label_width, names, notes_on, short, word_spans
from attnviz.charts.legends import Ramp, ramp_spec, signs_spec
from attnviz.charts.marks import (
    APART,
    Form,
    Spec,
    Table,
    as_is,
    click,
    drag,
    hover,
    marks,
    pixels_at,
    places,
    rows_of_views,
    tips,
    whole,
)
from attnviz.charts.marks import field as text_of
from attnviz.charts.marks import unseen as unseen_point
from attnviz.charts.size import Size, size_of, within
from attnviz.charts.state import CellState
from attnviz.charts.style import Style
from attnviz.charts.texts import LegendEntry, entry, heading, text_width, title_spec
from attnviz.charts.theme import LINE, MONO, Theme
from attnviz.core.amounts import written
from attnviz.core.display import isolated, visible_text

TOOLTIP = (
    ("weight_text", "weight"),
    ("score_text", "score"),
    ("share_text", "share"),
    ("a_text", "A"),
    ("b_text", "B"),
    ("difference_text", "A − B"),
    ("says", "cell"),
)
"""Fields and names of what hovering shows; the names are fixed, because some names make a viewer fetch things."""

TOKENS = ("query", "key")
"""Axes whose positions are tokens."""

CELL = ("cell", "query", "key", "rev")
"""Name and fields of the selection of a cell."""

READABLE = (34, 16)
"""Pixels of a cell, across and down, that has room for a number."""

NOTE = 12
"""Pixels between cells and what stands at the ends of their rows."""

READOUT = 2 * LINE + 16
"""Pixels under an image on a page, for the words about the cell under the pointer."""

FRAME = "M-0.7,-0.7L0.7,-0.7L0.7,0.7L-0.7,0.7Z"
"""A framed row in a legend, in a box from -1 to 1."""

ARROW, CHANGED = "M-0.3,-0.45L0.4,0L-0.3,0.45Z", 1
"""Sign in a legend of a word that another one was predicted for, and the hue of such words."""

JOINED = "a line beside tokens joins the pieces of a word"

HUGE = 1e8
"""Numbers beyond this (-1e9, added as a mask) stand at the end of a scale instead of stretching it."""

DOTTED = 5
"""Pixels of a cell from which on a dot stands for a label that is left out."""


@dataclass(frozen=True)
class RowAnnotations:
    """A column of texts at the ends of rows: its title, the texts, and which of them stand out."""

    title: str
    texts: Sequence[str]
    odd: Sequence[bool]

    @property
    def width(self) -> int:
        """Pixels, in steps."""
        return 40 * (1 + max(len(text) for text in [self.title, *self.texts]) // 6)


@dataclass(frozen=True, eq=False, kw_only=True)
class Grid:
    """Cells with their labels; arrays are (rows, columns) of the squares that are drawn.

    Attributes:
        title, lines: what stands above.
        rows, columns: the tokens, all of them.
        size: how large, and in which form.
        states: which of `kinds` each cell is.
        kinds: what a cell can be, in the order of the legend.
        titles: of the row axis and of the column axis.
        shade: place on the ramp, 0 to 1, of cells whose ground that is.
        ramp: the legend of the ramp.
        palette: colors of the ramp; None for those of its legend.
        gray: whether the ramp is without colors: of a head that is off.
        numbers: named columns of numbers, each with its format, or with the text of each cell: weight, score.
        offsets: of tiles, where in its tile the largest weight stands: counted row by row.
        cell_texts: what hovering says of each cell, (cells,), instead of what its kind says.
        written: what is written in each cell, (cells,); where it is, the cell is as large as it needs.
        tips: fields and names of what hovering shows.
        selects: name and fields of what a click selects.
        more: fields of cells beside those of every grid, (cells,) each.
        predicted: the word that each row predicts, or "".
        note_title: what the notes of the rows are called.
        changed: rows whose predicted word is another one than before a change, and the text of their legend.
        beside: texts at the ends of rows, left of the notes.
        empty: rows that have no key left, with the text of the legend, "" for none.
        tiles: what a square shows of its cells, where it has several.
        brush: whether a drag over rectangles selects them.
        labels: of rows and of columns, where these are not their tokens.
        called: names of rows and of columns as hovering calls them, where that is not token and position.
        verb: what a row does to a column, in words.
        prefix: what the names of its tables begin with, where it is a view beside others.
        axes: what rows and columns stand for, "query", "key", "d_k", ..., or "1" for nothing. Grids of one chart that
            share an axis show the same position on it.
        is_table: whether it is a table of numbers among others: framed, without titles of its axes, and as an image
            clicked row by row.
        is_labeled: whether its rows are labeled; else they are those of the view beside it.
        extent: pixels of the labels over its columns at least: as many as those of the views beside it.
        signs: kinds in its legend of signs, where these are not those that occur in it; () for no such legend.
    """

    title: str
    lines: Sequence[str] = ()
    rows: Groups
    columns: Groups
    size: Size
    states: np.ndarray
    kinds: Sequence[CellState]
    style: Style
    titles: tuple[str, str] = (QUERY, KEY)
    shade: np.ndarray | None = None
    ramp: Ramp | None = None
    palette: tuple[str, ...] | None = None
    gray: bool = False
    numbers: Mapping[str, tuple[np.ndarray, str | Sequence[str]]] = field(default_factory=dict)
    offsets: np.ndarray | None = None
    cell_texts: Sequence[str] | None = None
    written: Sequence[str] = ()
    tips: Sequence[tuple[str, str]] = TOOLTIP
    selects: tuple[str, ...] = CELL
    more: Table = field(default_factory=dict)
    predicted: Sequence[str] = ()
    note_title: str = ""
    changed: tuple[frozenset[int], str] = (frozenset(), "")
    beside: RowAnnotations | None = None
    empty: Mapping[int, str] = field(default_factory=dict)
    tiles: str = "each square shows the largest of"
    brush: bool = False
    labels: tuple[list[str], list[str]] | None = None
    called: tuple[list[str], list[str]] | None = None
    verb: str = "looks at"
    prefix: str = ""
    axes: tuple[str, str] = TOKENS
    is_table: bool = False
    is_labeled: bool = True
    extent: int = 0
    signs: Sequence[CellState] | None = None

    @cached_property
    def form(self) -> Form:
        """The chart without its tables."""
        chart = _layers(self) | {"title": title_spec()}
        return whole(
            chart | ({"params": params([self], self.selects)} if self.is_rectangles else {}), self.style.colors
        )

    @property
    def view(self) -> Spec:
        """One grid of several, with its title and without parameters, which these share."""
        small = {"fontWeight": "normal", "fontSize": 12, "offset": 6} if self.is_table else {}
        title = title_spec(f"{self.prefix}meta", view_of=self.style.colors) | small
        return _layers(self) | {"title": title, "name": self.prefix}

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta, rows, columns, words, chosen, legend, and the cells if they are rectangles."""
        tables = {
            "meta": self._meta(),
            "rows": self._labels(0) | self._notes(),
            "columns": self._labels(1),
            "words": self._words(),
            "chosen": self.chosen(),
            "legend": self._legend(),
        }
        if self.is_table:  # a browser refuses to replace a table that nothing draws
            del tables["words"]
        if self.signs == ():
            del tables["legend"]
        if any(self.bands["side"]):
            tables["bands"] = self.bands
        if self.is_rectangles:
            tables["cells"] = self._cells()
        return {f"{self.prefix}{name}": table for name, table in tables.items()}

    @property
    def is_rectangles(self) -> bool:
        return self.size.form == "rectangles"

    @property
    def read(self) -> "Grid | None":
        """The grid itself if it is one image, whose cells are read under the pointer."""
        return None if self.is_rectangles else self

    @cached_property
    def texts(self) -> tuple[list[str], list[str]]:
        """Labels beside rows and over columns."""
        if self.labels is not None:
            return self.labels
        rows, columns = ([short(token.text) for token in part.tokens] for part in self._sides)
        return rows, columns

    @property
    def _sides(self) -> tuple[Groups, Groups]:
        return self.rows, self.columns

    @cached_property
    def bands(self) -> Table:
        return bands.table(self._sides, self.size, self.style.colors)

    @cached_property
    def names(self) -> tuple[list[str], list[str]]:
        """Rows and columns as hovering names them."""
        if self.called is not None:
            return self.called
        rows, columns = (names(part, self.size.tile) for part in (self.rows, self.columns))
        if self.predicted and self.size.tile == 1:
            every = zip(rows, self.predicted, strict=True)
            rows = [f"{name} ▸ {isolated(visible_text(word))}" if word else name for name, word in every]
        return rows, columns

    @property
    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """Position of each row and column; of a tile, the first."""
        return self.rows.starts[:: self.size.tile], self.columns.starts[:: self.size.tile]

    @property
    def lasts(self) -> tuple[np.ndarray, np.ndarray]:
        """Last position that each row and column stands for."""
        tile = self.size.tile
        return tuple(
            part.stops[np.arange(tile, len(part) + tile, tile).clip(max=len(part)) - 1] - 1 for part in self._sides
        )

    @cached_property
    def occurring(self) -> list[int]:
        """Which of the kinds occur."""
        return np.flatnonzero(np.bincount(self.states.ravel())).tolist()

    def uri(self, scale: int | None = None) -> str:
        """The cells as an image.

        Args:
            scale: pixels of the image for one of the picture. None for twice the size in a file; on a page for a pixel
                for each cell, if none is drawn on.
        """
        strokes = {i: stroke for i in self.occurring if (stroke := self.kinds[i].stroke())}
        same = {stroke: [i for i, other in strokes.items() if other == stroke] for stroke in strokes.values()}
        marked = [(sign, np.isin(self.states, kinds), color) for (sign, color), kinds in same.items()]
        factor = scale or (1 if self.style.on_screen else 2)
        zoomed = bool(marked or factor > 1 or scale)
        wide, high = (max(1, round(factor * side)) if zoomed else 1 for side in (self.size.cell, self.size.down))
        if self.is_table and zoomed:
            sides = {
                "height": max(round(factor * self.size.height), self.size.rows),
                "width": max(round(factor * self.size.width), self.size.columns),
            }
        else:
            sides = {"height": self.size.rows * high, "width": self.size.columns * wide}
        return pixels.data_uri(
            pixels.paint(self._ground, marked, scale=factor, **sides), pixels.palette(self._colors, gray=self.gray)
        )

    @cached_property
    def _ground(self) -> np.ndarray:
        """Palette index of each cell."""
        places = [0 if kind.ground == "ramp" else pixels.place(kind.ground) for kind in self.kinds]
        ground = np.array(places, np.uint8)[self.states]
        if self.shade is None:
            return ground
        on_ramp = np.array([kind.ground == "ramp" for kind in self.kinds])[self.states]
        return np.where(on_ramp, pixels.shades(self.shade), ground)

    @cached_property
    def _colors(self) -> Theme:
        """Colors with the ramp that its numbers have."""
        colors, is_signed = self.style.colors, self.ramp is not None and self.ramp.signed
        ramp = self.palette or (colors.diverging if is_signed else colors.ramp)
        return colors if ramp is colors.ramp else replace(colors, ramp=ramp)

    def _meta(self) -> Table:
        tied = any(len(spans) for spans in self._spans) and self.size.tile * self.size.every == 1
        lines = [*self.lines, *notes_on(self.size, self.tiles), *([JOINED] if tied else [])]
        noted = self.note_title if any(self.predicted) else ""
        title = heading(self.title, lines, self.size.width + 160, self.style)
        if self.prefix:
            title = {"title": [self.title], "subtitle": ["\n".join(self.lines)]}
        beside = {"beside_title": [self.beside.title]} if self.beside else {}
        # the keyboard walks over the cells of an image
        counts = {"rows": [self.size.rows], "columns": [self.size.columns]}
        image = {} if self.is_rectangles else {"uri": [self.uri()]} | counts
        return title | {"top": [self.ramp.top if self.ramp else 1.0], "note_title": [noted]} | image | beside

    def _labels(self, side: int) -> Table:
        """Labels of rows or columns, and the strongest cell of each, which a click on its label selects."""
        part, tile = self._sides[side], self.size.tile
        tokens = part.tokens[::tile]
        table: Table = {
            ("row", "column")[side]: [*range(len(tokens))],
            ("row2", "column2")[side]: [i + 1 for i in range(len(tokens))],
            "middle": [i + 0.5 for i in range(len(tokens))],
            "label": self.texts[side][::tile],
            "quiet": [token.special for token in tokens],
            "name": list(self.names[side]),
            "position": self.positions[side].tolist(),
            "last": self.lasts[side].tolist(),
        }
        if self.is_table:
            places = {axis: [-1] * len(tokens) for axis in TOKENS} | {self.axes[side]: table["position"]}
            return table | places | {"rev": [self.style.rev] * len(tokens)}
        if "weight" not in self.numbers or tile > 1 or not self.style.on_screen:
            return table
        weights, form = self.numbers["weight"]
        most = np.nan_to_num(weights, nan=-1.0).argmax(1 - side)
        cells = [(i, j) if side == 0 else (j, i) for i, j in enumerate(most.tolist())]
        ends = [[self.names[axis][cell[axis]] for cell in cells] for axis in (0, 1)]
        ends[1 - side] = [f"most: {name}" for name in ends[1 - side]]
        return table | {
            "query": [int(self.positions[0][i]) for i, _ in cells],
            "key": [int(self.positions[1][j]) for _, j in cells],
            "rev": [self.style.rev] * len(cells),
            "query_name": ends[0],
            "key_name": ends[1],
            "weight_text": [written(float(weights[cell]), form) for cell in cells],
        }

    def _notes(self) -> Table:
        """At the end of each row the word that it predicts, and what stands before that; whether it has no key left."""
        tile, every, colors = self.size.tile, self.size.every, self.style.colors
        chosen = self.selected[0]
        notes, inks, empties = [], [], []
        for i in range(self.size.rows):
            cells = range(i * tile, min((i + 1) * tile, len(self.rows)))
            word = self.predicted[cells.start] if self.predicted and i % every == 0 else ""
            notes.append(f"▸ {short(word)}" if word else "")
            ink = colors.accent if chosen is not None and chosen in cells else colors.text
            inks.append(colors.hues[CHANGED] if cells.start in self.changed[0] else ink)
            empties.append(all(cell in self.empty for cell in cells))
        table = {"note": notes, "ink": inks, "empty": empties}
        if self.beside is None:
            return table
        texts, odd = self.beside.texts[::tile], self.beside.odd[::tile]
        return table | {
            "beside": [text if i % every == 0 else "" for i, text in enumerate(texts)],
            "beside_ink": [colors.warning if is_odd else colors.text for is_odd in odd],
        }

    @cached_property
    def _spans(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        return ([], []) if self.is_table else (word_spans(self.rows), word_spans(self.columns))

    def _words(self) -> Table:
        """Rows and columns that the pieces of a word take."""
        spans = self._spans if self.size.tile * self.size.every == 1 else ((), ())
        both = [(axis, *span) for axis, part in zip(("rows", "columns"), spans, strict=True) for span in part]
        inset = 2 / self.size.cell
        return {
            "axis": [axis for axis, _, _ in both],
            "begin": [begin + inset for _, begin, _ in both],
            "end": [end - inset for _, _, end in both],
        }

    @cached_property
    def selected(self) -> tuple[int | None, int | None]:
        """Row and column of the selected cell; None for what is not seen, or not selected."""
        cell = self.style.selected
        if cell is None or isinstance(cell, int):
            return (None if cell is None else self.rows.index_of(cell)), None
        chosen = dict(zip(TOKENS, cell, strict=True))
        places = zip(self._sides, self.axes, strict=True)
        row, column = (part.index_of(chosen[axis]) if chosen.get(axis, -1) >= 0 else None for part, axis in places)
        return row, column

    def chosen(self) -> Table:
        """The selected cell, at least as large as can be seen; or the row or column, where it is none of a cell."""
        tile, grow = self.size.tile, max(0.0, (7 / self.size.cell - 1) / 2)
        row, column = self.selected
        by_row = isinstance(self.style.selected, int) or self.axes[1] not in TOKENS
        by_column = self.axes[0] not in TOKENS
        is_cell = row is not None and column is not None
        down, across = [0, self.size.rows], [0, self.size.columns]
        grow = grow if is_cell else 0
        if row is not None:
            down = [row // tile - grow, row // tile + 1 + grow]
        if column is not None:
            across = [column // tile - grow, column // tile + 1 + grow]
        if not (is_cell or (row is not None and by_row) or (column is not None and by_column)):
            return {name: [] for name in CHOSEN}
        values = *down, *across, row is not None, column is not None
        return {name: [value] for name, value in zip(CHOSEN, values, strict=True)}

    def _legend(self) -> Table:
        signs = [self.kinds[i] for i in self.occurring] if self.signs is None else self.signs
        texts = dict.fromkeys(text for text in self.empty.values() if text)
        framed = [LegendEntry(text, FRAME, self.style.colors.warning, self.style.colors.background) for text in texts]
        changed, text = self.changed
        colors = self.style.colors
        arrow = [LegendEntry(text, ARROW, colors.hues[CHANGED], colors.background)] if changed else []
        return entry([*state.legend(signs, colors), *arrow, *framed])

    def _cells(self) -> Table:
        """A row for each cell, row by row: where it is, what it says, what is drawn on it."""
        row, column = (index.ravel() for index in np.indices(self.states.shape))
        states, colors = self.states.ravel(), self.style.colors
        glyphs = (kind.glyph(min(self.size.cell, self.size.down), colors) for kind in self.kinds)
        path, stroke, width = zip(*glyphs, strict=True)
        ground = _pick(pixels.written_palette(self._colors, gray=self.gray), self._ground.ravel())
        positions = {
            axis: part[place].tolist()
            for axis, part, place in zip(self.axes, self.positions, (row, column), strict=True)
        }
        table = {
            "row": row.tolist(),
            "row2": (row + 1).tolist(),
            "column": column.tolist(),
            "column2": (column + 1).tolist(),
            **({axis: [-1] * len(row) for axis in TOKENS} | positions),
            "rev": [self.style.rev] * len(row),
            "query_name": _pick(self.names[0], row),
            "key_name": _pick(self.names[1], column),
            "ground": ground,
            "says": list(self.cell_texts or _pick([kind.text for kind in self.kinds], states)),
            "path": _pick(path, states),
            "stroke": _pick(stroke, states),
            "stroke_width": _pick(width, states),
        } | self.more
        if any(self.written):
            inks = {color: pixels.readable(color, colors) for color in {*ground}}
            table["written"], table["written_ink"] = [*self.written], [inks[color] for color in ground]
        for name, (values, form) in self.numbers.items():
            flat = values.ravel().tolist()
            table[name] = [value if math.isfinite(value) else None for value in flat]
            table[f"{name}_text"] = [written(value, form) for value in flat] if isinstance(form, str) else [*form]
        return table


CHOSEN = ("row", "row2", "column", "column2", "marks_row", "marks_column")
"""Fields of the frame around what is selected, and whether marks stand at the labels."""


def params(grids: Sequence[Grid], selects: Sequence[str] = CELL) -> list[Spec]:
    """Selections by a click, under the pointer and by a drag, of the cells of some grids."""
    first, views = grids[0], [f"{grid.prefix}cells" for grid in grids]
    linked = dict.fromkeys(axis for grid in grids for axis in grid.axes if axis != "1")
    brush = [drag("drag", views, first.style.colors)] if first.brush else []
    return [click(selects[0], views, *selects[1:]), hover(views, *linked), *brush]


def together(rows: Sequence[Sequence[Grid | Spec]], style: Style, *, has_params: bool = True) -> Form:
    """Grids, and views of another kind, in rows under one title."""
    views = [[part.view if isinstance(part, Grid) else part for part in row] for row in rows]
    first = views[0][0]
    views[0][0] = first | {"layer": [*first["layer"], unseen_point("meta")]}
    grids = [part for row in rows for part in row if isinstance(part, Grid)]
    title = None if style.on_screen else title_spec()
    return whole(rows_of_views(views, title, params(grids) if grids and has_params else ()), style.colors)


def _layers(grid: Grid) -> Spec:
    """The chart without title, configuration and parameters."""
    size, lay = grid.size, _Layers(grid)
    layers = lay.legends() + (lay.rectangles() if grid.is_rectangles else lay.image()) + lay.ends_of_rows()
    layers += (lay.bands() if any(grid.bands["side"]) else []) + lay.outline()
    if grid.style.on_screen and "weight" in grid.numbers and not grid.is_table:
        layers += lay.clickable()
    return {"layer": layers, "width": size.width, "height": size.height, "resolve": APART}


class _Layers:
    """Layers of a grid, whose rows and columns are axes from 0 to their count."""

    def __init__(self, grid: Grid):
        size, colors = grid.size, grid.style.colors
        self.grid, self.colors, self.prefix = grid, colors, grid.prefix
        self.left, self.above = bands.extents(grid.bands)
        widest = max(map(text_width, grid.texts[1][:: size.every]), default=0.0)
        self.upright = widest > size.cell - 4 and grid.axes[1] in TOKENS
        has_notes = grid.style.aside and any(grid.predicted)
        notes = [grid.note_title, *grid.data[f"{grid.prefix}rows"]["note"]] if has_notes else []
        self.notes = round(max(map(text_width, notes), default=0.0))
        self.beside = grid.beside.width if grid.beside else 0
        titles = (None, None) if grid.is_table else grid.titles
        dotted = size.cell >= DOTTED and not grid.is_table
        rows, columns = grid.texts
        down = over = None
        if grid.is_labeled and any(rows):
            chosen = self._chosen_place("row")
            down = axis_spec(
                f"{self.prefix}rows", size.rows, size.every, titles[0], colors, chosen=chosen, dotted=dotted
            )
            down["offset"] = self.left
        if any(columns):
            chosen, every = self._chosen_place("column"), size.every_column or size.every
            over = axis_spec(
                f"{self.prefix}columns", size.columns, every, titles[1], colors, chosen=chosen, dotted=dotted,
                upright=self.upright,
            )  # fmt: skip
            over["offset"], over["minExtent"] = self.above, grid.extent
        if grid.is_table:
            for axis, spec in zip(grid.axes, (down, over), strict=True):
                if spec and axis not in TOKENS:
                    spec["labelColor"] = colors.quiet
        self.rows, self.columns = places(size.rows, down, reverse=True), places(size.columns, over)
        self.wide, self.high = (
            {"x": pixels_at(0), "x2": pixels_at(size.width)},
            {"y": pixels_at(0), "y2": pixels_at(size.height)},
        )

    def _chosen_place(self, side: str) -> str:
        """An expression for the row or the column of the selected cell; far below 0 where none is selected."""
        chosen, end = f"data('{self.prefix}chosen')[0]", f"{side}2"
        there = f"{chosen} && {chosen}.{end} - {chosen}.{side} < 9"
        return f"{there} ? floor(({chosen}.{side} + {chosen}.{end}) / 2) : -99"

    def marks(self, table: str, kind: str, encoding: Spec, **options: object) -> Spec:
        return marks(f"{self.prefix}{table}", kind, encoding, **options)

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
            where = {"orient": "right", "offset": 14 + self.beside + (self.notes and self.notes + NOTE)}
        layers = [] if grid.ramp is None else [ramp_spec(grid.ramp, where, f"{self.prefix}meta")]
        return [*layers, *([] if grid.signs == () else [signs_spec(where, f"{self.prefix}legend")])]

    def rectangles(self) -> list[Spec]:
        """A rectangle for each cell, strokes on those that are no weight, and lines to the labels under the pointer."""
        grid, size = self.grid, self.grid.size
        tooltip, pointer = {"tooltip": self.tooltip()}, {"cursor": "pointer"}
        least = min(size.cell, size.down)
        box = self.down("row", "row2") | self.across("column", "column2")
        stroke = {"stroke": self.colors.background, "strokeWidth": 1} if least >= DOTTED * 2 else {}
        ground = self.marks("cells", "rect", box | {"fill": as_is("ground")} | tooltip, **pointer, **stroke)
        middle = [{"calculate": "datum.row + 0.5", "as": "middle"}, {"calculate": "datum.column + 0.5", "as": "center"}]
        centered = self.y("middle") | self.x("center")
        looks = {"shape": as_is("path"), "stroke": as_is("stroke"), "strokeWidth": as_is("stroke_width")}
        looks["strokeWidth"]["type"] = "quantitative"
        glyph = {"size": least**2, "filled": False, "opacity": 1}
        strokes = self.marks(
            "cells", "point", centered | looks | tooltip, where="isValid(datum.path)", **pointer, **glyph
        )
        layers = [ground | {"name": f"{self.prefix}cells"}, strokes]
        if any(grid.written):
            text = {"text": text_of("written"), "fill": as_is("written_ink")}
            layers.append(
                self.marks("cells", "text", centered | text, font=MONO, limit=size.cell - 4, baseline="middle")
            )
        for layer in layers[1:]:
            layer["transform"] = layer.get("transform", []) + middle
        return layers + self._pointed()

    def _pointed(self) -> list[Spec]:
        """Lines along the row and the column that are pointed at, here or in a table that shares an axis."""
        frame = {"fill": None, "stroke": self.colors.accent, "strokeWidth": 1.5}
        sides = ("rows", "row", self.down, self.wide), ("columns", "column", self.across, self.high)
        layers = []
        for axis, (table, end, along, over) in zip(self.grid.axes, sides, strict=True):
            if axis == "1":
                continue
            there = f"((pointed || {{}})['{axis}'] || [])[0] === datum.position"
            layers.append(self.marks(table, "rect", along(end, f"{end}2") | over, where=there, **frame))
        return layers

    def image(self) -> list[Spec]:
        """The cells as one image; of a table each row can be clicked."""
        size = self.grid.size
        mark = {"width": size.width, "height": size.height, "align": "left", "baseline": "top"}
        encoding = {"x": pixels_at(0), "y": pixels_at(0), "url": text_of("uri")}
        layers = [self.marks("meta", "image", encoding, smooth=False, aspect=False, **mark)]
        if not self.grid.is_table:
            return layers
        tooltip = {"tooltip": tips(("name", self.grid.titles[0]))}
        row = self.marks(
            "rows", "rect", self.down("row", "row2") | self.wide | tooltip, fill="transparent", cursor="pointer"
        )
        return [*layers, row | {"name": f"{self.prefix}cells"}, *self._pointed()]

    def ends_of_rows(self) -> list[Spec]:
        """Notes at the ends of rows, lines along the pieces of words, and frames around rows without a key."""
        colors, right = self.colors, self.grid.size.width + NOTE
        unseen = {"opacity": 0, "size": 0}
        columns = self.marks("columns", "point", self.x("middle"), **unseen)
        if self.grid.is_table:
            frame = self.marks("meta", "rect", self.wide | self.high, fill=None, stroke=colors.line)
            return [columns, self.marks("rows", "point", self.y("middle"), **unseen), frame]
        text = {"align": "left", "baseline": "middle"}
        over = text | {"color": colors.quiet}
        word = {"color": colors.quiet, "strokeWidth": 1.25}
        framed = self.down("row", "row2") | self.wide
        framed = self.marks(
            "rows", "rect", framed, where="datum.empty", fill=None, stroke=colors.warning, strokeWidth=1.5
        )
        note = {"x": pixels_at(right + self.beside)}
        noted = self.y("middle") | note | {"text": text_of("note"), "fill": as_is("ink")}
        beside_rows = self.down("begin", "end") | {"x": pixels_at(-2.5 - self.left)}
        over_columns = self.across("begin", "end") | {"y": pixels_at(-2.5 - self.above)}
        layers = [
            framed,
            self.marks("meta", "text", note | {"y": pixels_at(-12), "text": text_of("note_title")}, **over),
            self.marks("rows", "text", noted, where="datum.note !== ''", font=MONO, **text),
            self.marks("words", "rule", beside_rows, where="datum.axis === 'rows'", **word),
            self.marks("words", "rule", over_columns, where="datum.axis === 'columns'", **word),
            columns,
        ]
        if self.beside:
            beside = self.y("middle") | {"text": text_of("beside"), "fill": as_is("beside_ink"), "x": pixels_at(right)}
            title = {"text": text_of("beside_title"), "x": pixels_at(right), "y": pixels_at(-12)}
            layers += [self.marks("rows", "text", beside, **text), self.marks("meta", "text", title, **over)]
        return layers

    def bands(self) -> list[Spec]:
        """A bar along each turn with its name, and a line through the cells where a turn begins."""
        name = {"align": "center", "baseline": "middle", "color": self.colors.quiet}
        border = {"color": self.colors.text, "strokeWidth": 1, "strokeDash": [4, 3]}
        near, far, middle = bands.NEAR, bands.FAR, bands.MIDDLE
        bar, label = {"fill": as_is("ink"), "tooltip": tips(("role", "role"))}, {"text": text_of("label")}
        rows, columns = ({"where": f"datum.side === '{side}'"} for side in bands.SIDES)
        beside = self.down("begin", "end") | {"x": pixels_at(near), "x2": pixels_at(far)} | bar
        over = self.across("begin", "end") | {"y": pixels_at(near), "y2": pixels_at(far)} | bar
        borders = ({"where": f"{side['where']} && datum.border > 0"} for side in (rows, columns))
        return [
            self.marks("bands", "rect", beside, **rows),
            self.marks("bands", "rect", over, **columns),
            self.marks("bands", "text", self.y("middle") | {"x": pixels_at(middle)} | label, **rows, angle=270, **name),
            self.marks("bands", "text", self.x("middle") | {"y": pixels_at(middle)} | label, **columns, **name),
            self.marks("bands", "rule", self.y("border") | self.wide, **next(borders), **border),
            self.marks("bands", "rule", self.x("border") | self.high, **next(borders), **border),
        ]

    def outline(self) -> list[Spec]:
        """A frame around the selected cell, and a mark at its labels."""
        accent = self.colors.accent
        beside = self.down("row", "row2") | {"x": pixels_at(-4 - self.left), "x2": pixels_at(-1.5 - self.left)}
        over = self.across("column", "column2") | {"y": pixels_at(-4 - self.above), "y2": pixels_at(-1.5 - self.above)}
        box = self.down("row", "row2") | self.across("column", "column2")
        width = 1.5 if self.grid.is_table else 2.5
        return [
            self.marks("chosen", "rect", beside, where="datum.marks_row", fill=accent),
            self.marks("chosen", "rect", over, where="datum.marks_column", fill=accent),
            self.marks("chosen", "rect", box, fill=None, stroke=accent, strokeWidth=width),
        ]

    def clickable(self) -> list[Spec]:
        """Labels again, unseen: a click on one selects the strongest cell of its token."""
        text = {"opacity": 0, "font": MONO, "baseline": "middle", "cursor": "pointer"}
        turned = {"angle": 270, "align": "left"} if self.upright else {"align": "center", "baseline": "bottom"}
        there = f"isValid(datum.query) && (datum.middle - 0.5) % {self.grid.size.every} === 0"
        texts = {"text": text_of("label"), "tooltip": self.tooltip("weight_text")}
        rows, columns = (
            self.y("middle") | {"x": pixels_at(-6 - self.left)},
            self.x("middle") | {"y": pixels_at(-6 - self.above)},
        )
        return [
            self.marks("rows", "text", rows | texts, where=there, **text | {"align": "right"}),
            self.marks("columns", "text", columns | texts, where=there, **text | turned),
        ]


def size_within(
    rows: Groups, columns: Groups, style: Style, beside: Sequence[str] = (), side: int | None = None
) -> Size:
    """How large a grid is: in the width of the style, with its labels and the notes of its rows.

    Args:
        side: pixels at most, where the style does not say how many.
    """
    size = size_of(len(rows), len(columns), style.side or side)
    if style.width is None:
        return size
    left = max(map(label_width, rows.labels), default=0.0) + 40 + (bands.NAMED if any(rows.roles) else 0)
    right = max((text_width(visible_text(text)) for text in beside), default=0.0) + (NOTE + 16 if any(beside) else 0)
    return within(size, style.width - left - right - 6)


def limit_of(*tables: np.ndarray) -> float:
    """The largest size of the numbers of some tables, those that are infinite or huge left out."""
    sizes = (np.abs(table[np.isfinite(table)]) for table in tables)
    return max((float(size[size < HUGE].max(initial=0.0)) for size in sizes), default=0.0)


def pooled(states: np.ndarray, tile: int) -> np.ndarray:
    """One state, or number, for each square of a map: the largest among those of a tile."""
    starts = [np.arange(0, length, tile) for length in states.shape]
    return np.maximum.reduceat(np.maximum.reduceat(states, starts[0], 0), starts[1], 1)


def _pick(values: Sequence, index: np.ndarray) -> list:
    return [values[i] for i in index.tolist()]
