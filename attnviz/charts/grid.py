"""One grid for every picture of cells: weights of a head, a mask, a leak test, states. Vega-Lite lays it out.

Rows and columns are axes from 0 to their count: a cell is one unit wide. The specification is constant for one form
(size, numbers, theme); title, labels, colors and cells are tables, so a browser replaces them in place.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import altair as alt
import numpy as np

from attnviz.analysis.views import Groups
from attnviz.charts import bands, pixels, state
from attnviz.charts.axes import KEY, QUERY, axis, label_width, names, notes_on, short, word_spans
from attnviz.charts.interaction import QUIET_MARK, clicked, dragged, pointed, share, tooltip
from attnviz.charts.legends import Ramp, ramp_legend, state_legend
from attnviz.charts.picture import INDEPENDENT, Form, Table, formed
from attnviz.charts.size import Size, size_of, within
from attnviz.charts.state import CellState
from attnviz.charts.style import Style
from attnviz.charts.texts import LegendEntry, entry, heading, text_width, titled
from attnviz.charts.theme import LINE, MONO, Theme, config
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
    is_labeled: bool = True
    extent: int = 0
    signs: Sequence[CellState] | None = None

    @property
    def form(self) -> Form:
        """The chart without its tables."""
        return _form(self.layout)

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta, rows, columns, words, chosen, legend, and the cells if they are rectangles."""
        tables = {
            "meta": self._meta(),
            "rows": self._labels(0) | self._notes(),
            "columns": self._labels(1),
            "words": self._words(),
            "chosen": self._chosen(),
            "legend": self._legend(),
        }
        if any(self._bands["side"]):
            tables["bands"] = self._bands
        if self.is_rectangles:
            tables["cells"] = self._cells()
        return {f"{self.prefix}{name}": table for name, table in tables.items()}

    @property
    def is_rectangles(self) -> bool:
        return self.size.form == "rectangles"

    @cached_property
    def layout(self) -> "GridLayout":
        """Settings on which its specification depends."""
        widest = max(map(text_width, self._texts[1][:: self.size.every]), default=0.0)
        has_notes = self.style.aside and any(self.predicted)
        notes = [self.note_title, *self._notes()["note"]] if has_notes else []
        return GridLayout(
            size=self.size,
            titles=self.titles,
            upright=widest > self.size.cell - 4,
            numbers=tuple(self.numbers),
            tips=tuple(tip for tip in self.tips if tip[0] in {"says", *(f"{name}_text" for name in self.numbers)}),
            selects=self.selects,
            is_written=any(self.written),
            ramp=None if self.ramp is None else replace(self.ramp, top=0.0),
            beside=self.beside.width if self.beside else 0,
            notes=round(max(map(text_width, notes), default=0.0)),
            brush=self.brush,
            on_screen=self.style.on_screen,
            aside=self.style.aside,
            colors=self.style.colors,
            prefix=self.prefix,
            is_labeled=self.is_labeled,
            extent=self.extent,
            has_signs=self.signs != (),
            bands=bands.extents(self._bands),
        )

    @cached_property
    def _texts(self) -> tuple[list[str], list[str]]:
        """Labels beside rows and over columns."""
        if self.labels is not None:
            return self.labels
        rows, columns = ([short(token.text) for token in part.tokens] for part in self._sides)
        return rows, columns

    @property
    def _sides(self) -> tuple[Groups, Groups]:
        return self.rows, self.columns

    @cached_property
    def _bands(self) -> Table:
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
            part.stops[np.arange(tile, len(part) + tile, tile).clip(max=len(part)) - 1] - 1
            for part in (self.rows, self.columns)
        )

    @cached_property
    def occurring(self) -> list[int]:
        """Which of the kinds occur."""
        return np.flatnonzero(np.bincount(self.states.ravel())).tolist()

    @property
    def uri(self) -> str:
        """The cells as an image: twice their size in a file; on a page a pixel for each, if none is drawn on."""
        scale = 1 if self.style.on_screen else 2
        strokes = {i: stroke for i in self.occurring if (stroke := self.kinds[i].stroke())}
        marks = {stroke: [i for i, other in strokes.items() if other == stroke] for stroke in strokes.values()}
        marked = [(sign, np.isin(self.states, kinds), color) for (sign, color), kinds in marks.items()]
        zoom = max(1, round(scale * self.size.cell)) if marked or scale > 1 else 1
        sides = {"height": self.size.rows * zoom, "width": self.size.columns * zoom}
        return pixels.data_uri(pixels.paint(self._ground, marked, scale=scale, **sides), self._palette)

    @cached_property
    def _ground(self) -> np.ndarray:
        """Palette index of each cell."""
        places = [0 if kind.ground == "ramp" else pixels.place(kind.ground) for kind in self.kinds]
        ground = np.array(places, np.uint8)[self.states]
        if self.shade is None:
            return ground
        on_ramp = np.array([kind.ground == "ramp" for kind in self.kinds])[self.states]
        return np.where(on_ramp, pixels.shades(self.shade), ground)

    @property
    def _palette(self) -> np.ndarray:
        colors = self.style.colors
        if self.ramp is not None and self.ramp.signed:
            colors = replace(colors, ramp=colors.diverging)
        return pixels.palette(colors, gray=self.gray)

    def _meta(self) -> Table:
        tied = any(len(spans) for spans in self._spans) and self.size.tile * self.size.every == 1
        lines = [*self.lines, *notes_on(self.size, self.tiles), *([JOINED] if tied else [])]
        noted = self.note_title if any(self.predicted) else ""
        title = heading(self.title, lines, self.size.width + 160, self.style)
        if self.prefix:
            title = {"title": [self.title], "subtitle": ["\n".join(self.lines)]}
        beside = {"beside_title": [self.beside.title]} if self.beside else {}
        counts = {
            "rows": [self.size.rows],
            "columns": [self.size.columns],
        }  # the keyboard walks over the cells of an image
        image = {} if self.is_rectangles else {"uri": [self.uri]} | counts
        return title | {"top": [self.ramp.top if self.ramp else 1.0], "note_title": [noted]} | image | beside

    def _labels(self, side: int) -> Table:
        """Labels of rows or columns, and the strongest cell of each, which a click on its label selects."""
        part, tile = self._sides[side], self.size.tile
        tokens = part.tokens[::tile]
        table: Table = {
            "middle": [i + 0.5 for i in range(len(tokens))],
            "label": self._texts[side][::tile],
            "quiet": [token.special for token in tokens],
            "name": list(self.names[side]),
            "position": self.positions[side].tolist(),
            "last": self.lasts[side].tolist(),
        }
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
        chosen = self._selected[0]
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
        return word_spans(self.rows), word_spans(self.columns)

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

    @property
    def _selected(self) -> tuple[int | None, int | None]:
        """Row and column of the selected cell; None for what is not seen, or not selected."""
        cell = self.style.selected
        if cell is None or isinstance(cell, int):
            return (None if cell is None else self.rows.index_of(cell)), None
        return self.rows.index_of(cell[0]), self.columns.index_of(cell[1])

    def _chosen(self) -> Table:
        """The square of the selected cell, at least as large as can be seen, or the selected row."""
        (row, column), tile, place = self._selected, self.size.tile, ()
        if row is not None and isinstance(self.style.selected, int):
            place = row // tile, row // tile + 1, 0, self.size.columns, True
        elif row is not None and column is not None:
            row, column, grow = row // tile, column // tile, max(0.0, (7 / self.size.cell - 1) / 2)
            place = row - grow, row + 1 + grow, column - grow, column + 1 + grow, False
        names = "row", "row2", "column", "column2", "whole"
        return {name: [*place[i : i + 1]] for i, name in enumerate(names)}

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
        path, stroke, width = zip(
            *(kind.glyph(min(self.size.cell, self.size.down), colors) for kind in self.kinds), strict=True
        )
        table = {
            "row": row.tolist(),
            "row2": (row + 1).tolist(),
            "column": column.tolist(),
            "column2": (column + 1).tolist(),
            "query": self.positions[0][row].tolist(),
            "key": self.positions[1][column].tolist(),
            "rev": [self.style.rev] * len(row),
            "query_name": _pick(self.names[0], row),
            "key_name": _pick(self.names[1], column),
            "ground": _pick(pixels.hexadecimal(self._palette), self._ground.ravel()),
            "says": list(self.cell_texts or _pick([kind.text for kind in self.kinds], states)),
            "path": _pick(path, states),
            "stroke": _pick(stroke, states),
            "stroke_width": _pick(width, states),
        } | self.more
        if any(self.written):
            inks = {color: pixels.readable(color, colors) for color in {*table["ground"]}}
            table["written"], table["written_ink"] = [*self.written], [inks[color] for color in table["ground"]]
        for name, (values, form) in self.numbers.items():
            flat = values.ravel().tolist()
            table[name] = [value if math.isfinite(value) else None for value in flat]
            table[f"{name}_text"] = [written(value, form) for value in flat] if isinstance(form, str) else [*form]
        return table


@dataclass(frozen=True)
class GridLayout:
    """Settings on which the specification of a grid depends."""

    size: Size
    titles: tuple[str, str]
    upright: bool
    numbers: tuple[str, ...]
    tips: tuple[tuple[str, str], ...]
    selects: tuple[str, ...]
    is_written: bool
    ramp: Ramp | None
    beside: int
    notes: int
    brush: bool
    on_screen: bool
    aside: bool
    colors: Theme
    prefix: str = ""
    is_labeled: bool = True
    extent: int = 0
    has_signs: bool = True
    bands: tuple[int, int] = (0, 0)

    def tooltip(self, *names: str) -> list[alt.Tooltip]:
        """Row and column, and what there is of some fields, or of all."""
        fields = [("query_name", self.titles[0]), ("key_name", self.titles[1])]
        fields += [(name, title) for name, title in self.tips if not names or name in names]
        return [alt.Tooltip(f"{name}:N", title=title) for name, title in fields]

    def table(self, name: str) -> alt.Chart:
        """A chart of one of the tables."""
        return alt.Chart(alt.NamedData(f"{self.prefix}{name}"))


def view(layout: GridLayout) -> alt.LayerChart:
    """One grid of several, with its title and without parameters: these are shared, see `share`."""
    title = titled(layout.colors, f"{layout.prefix}meta", is_view=True)
    return _layers(layout, title=title, name=layout.prefix)


@formed(128)
def _form(layout: GridLayout) -> Form:
    colors = layout.colors
    chart = _layers(layout, autosize="pad", title=titled(colors))
    if layout.size.form == "rectangles":
        selected = (
            clicked(*layout.selects),
            pointed(),
            *([dragged("drag", colors)] if layout.brush else []),
        )
        chart.params = share(["cells"], *selected)
    return Form.of(chart.configure(**config(colors)))


def _layers(layout: GridLayout, **options: object) -> alt.LayerChart:
    """The chart without configuration and parameters."""
    size, places = layout.size, _Places(layout)
    layers = [*_legends(layout), *([*_rectangles(layout, places)] if size.form == "rectangles" else [_image(layout)])]
    layers += [
        *_beside(layout, places),
        *(_bands(layout, places) if any(layout.bands) else []),
        *_outline(layout, places),
    ]
    if layout.on_screen and "weight" in layout.numbers:
        layers += _clickable(layout, places)
    return alt.layer(*layers, width=size.width, height=size.height, resolve=INDEPENDENT, **options)


MIDDLE = {"middle": "datum.row + 0.5", "center": "datum.column + 0.5"}

DOTTED = 5
"""Pixels of a cell from which on a dot stands for a label that is left out."""


def _chosen_place(layout: GridLayout, side: str) -> str:
    """An expression for the row or the column of the selected cell; far below 0 where none is selected."""
    chosen, end = f"data('{layout.prefix}chosen')[0]", f"{side}2"
    there = f"{chosen} && {chosen}.{end} - {chosen}.{side} < 9"
    return f"{there} ? floor(({chosen}.{side} + {chosen}.{end}) / 2) : -99"


class _Places:
    """Encodings of rows and columns, on axes from 0 to their count."""

    def __init__(self, layout: GridLayout):
        size, colors = layout.size, layout.colors
        rows, columns = ({"domain": [0, count], "nice": False, "zero": False} for count in (size.rows, size.columns))
        self.row_axis, dotted = None, size.cell >= DOTTED
        if layout.is_labeled:
            self.row_axis = axis(
                f"{layout.prefix}rows",
                size.rows,
                size.every,
                layout.titles[0],
                colors,
                offset=layout.bands[0],
                chosen=_chosen_place(layout, "row"),
                dotted=dotted,
            )
        turned = {"upright": layout.upright, "extent": layout.extent, "offset": layout.bands[1]}
        named = f"{layout.prefix}columns", size.columns, size.every, layout.titles[1]
        self.column_axis = axis(*named, colors, chosen=_chosen_place(layout, "column"), dotted=dotted, **turned)
        self.rows, self.columns = alt.Scale(**rows, reverse=True), alt.Scale(**columns)
        self.width, self.height, self.cell = size.width, size.height, size.cell

    def y(self, name: str) -> alt.Y:
        return alt.Y(f"{name}:Q", scale=self.rows, axis=self.row_axis)

    def x(self, name: str) -> alt.X:
        return alt.X(f"{name}:Q", scale=self.columns, axis=self.column_axis)

    def box(self) -> dict:
        """From row to row2, and from column to column2."""
        return {"y": self.y("row"), "y2": alt.Y2("row2"), "x": self.x("column"), "x2": alt.X2("column2")}

    def down(self, begin: str, end: str) -> dict:
        return {"y": self.y(begin), "y2": alt.Y2(end)}

    def across(self, begin: str, end: str) -> dict:
        return {"x": self.x(begin), "x2": alt.X2(end)}


def _rectangles(layout: GridLayout, places: _Places) -> list[alt.Chart]:
    """A rectangle for each cell, strokes on those that are no weight, and lines to the labels under the pointer."""
    colors, size = layout.colors, layout.size
    centered = {"y": places.y("middle"), "x": places.x("center")}
    tooltip, cells = layout.tooltip(), layout.table("cells")
    ground = cells.mark_rect(stroke=colors.background, strokeWidth=1, cursor="pointer", aria=False)
    ground = ground.encode(**places.box(), fill=alt.Fill("ground:N", scale=None), tooltip=tooltip)
    ground = ground.properties(name=f"{layout.prefix}cells")
    strokes = (
        cells.transform_filter("isValid(datum.path)")
        .mark_point(size=min(size.cell, size.down) ** 2, filled=False, opacity=1, cursor="pointer", aria=False)
        .transform_calculate(**MIDDLE)
        .encode(
            **centered,
            shape=alt.Shape("path:N", scale=None),
            stroke=alt.Stroke("stroke:N", scale=None),
            strokeWidth=alt.StrokeWidth("stroke_width:Q", scale=None),
            tooltip=tooltip,
        )
    )
    texts = cells.transform_calculate(**MIDDLE).mark_text(font=MONO, limit=size.cell - 4, **QUIET_MARK)
    texts = texts.encode(**centered, text=alt.Text("written:N"), fill=alt.Fill("written_ink:N", scale=None))
    lit = cells.transform_filter(pointed()).transform_filter("isValid((pointed || {}).query)")
    lines = lit.mark_rect(fill=None, stroke=colors.accent, strokeWidth=1.5, **QUIET_MARK)
    return [
        ground,
        strokes,
        *([texts] if layout.is_written else []),
        lines.encode(**places.down("row", "row2"), x=alt.XValue(0), x2=alt.X2Value(size.width)),
        lines.encode(**places.across("column", "column2"), y=alt.YValue(0), y2=alt.Y2Value(size.height)),
    ]


def _image(layout: GridLayout) -> alt.Chart:
    size = layout.size
    mark = {"width": size.width, "height": size.height, "align": "left", "baseline": "top"}
    image = layout.table("meta").mark_image(smooth=False, aspect=False, **mark, **QUIET_MARK)
    return image.encode(x=alt.XValue(0), y=alt.YValue(0), url=alt.Url("uri:N"))


def _beside(layout: GridLayout, places: _Places) -> list[alt.Chart]:
    """Notes at the ends of rows, lines along the pieces of words, and frames around rows without a key."""
    colors, right = layout.colors, places.width + NOTE
    rows, words = layout.table("rows"), layout.table("words")
    text = {"align": "left", "baseline": "middle", **QUIET_MARK}
    over = text | {"color": colors.quiet}
    note = right + layout.beside
    word = {"color": colors.quiet, "strokeWidth": 1.25, **QUIET_MARK}
    framed = rows.transform_filter("datum.empty").transform_calculate(
        row="datum.middle - 0.5", row2="datum.middle + 0.5"
    )
    layers = [
        framed.mark_rect(fill=None, stroke=colors.warning, strokeWidth=1.5, **QUIET_MARK).encode(
            **places.down("row", "row2"), x=alt.XValue(0), x2=alt.X2Value(places.width)
        ),
        layout.table("meta")
        .mark_text(**over)
        .encode(x=alt.XValue(note), y=alt.YValue(-12), text=alt.Text("note_title:N")),
        rows.transform_filter("datum.note !== ''")
        .mark_text(font=MONO, **text)
        .encode(x=alt.XValue(note), y=places.y("middle"), text=alt.Text("note:N"), fill=alt.Fill("ink:N", scale=None)),
        words.transform_filter("datum.axis === 'rows'")
        .mark_rule(**word)
        .encode(**places.down("begin", "end"), x=alt.XValue(-2.5 - layout.bands[0])),
        words.transform_filter("datum.axis === 'columns'")
        .mark_rule(**word)
        .encode(**places.across("begin", "end"), y=alt.YValue(-2.5 - layout.bands[1])),
        layout.table("columns").mark_point(opacity=0, size=0, **QUIET_MARK).encode(x=places.x("middle")),
    ]
    if layout.beside:
        beside = rows.mark_text(**text).encode(x=alt.XValue(right), y=places.y("middle"), text=alt.Text("beside:N"))
        layers.append(beside.encode(fill=alt.Fill("beside_ink:N", scale=None)))
        title = layout.table("meta").mark_text(**over).encode(text=alt.Text("beside_title:N"))
        layers.append(title.encode(x=alt.XValue(right), y=alt.YValue(-12)))
    return layers


def _bands(layout: GridLayout, places: _Places) -> list[alt.Chart]:
    """A bar along each turn with its name, and a line through the cells where a turn begins."""
    colors, table = layout.colors, layout.table("bands")
    name = {"align": "center", "baseline": "middle", "color": colors.quiet, **QUIET_MARK}
    border = {"color": colors.text, "strokeWidth": 1, "strokeDash": [4, 3], **QUIET_MARK}
    rows, columns = (table.transform_filter(f"datum.side === '{side}'") for side in bands.SIDES)
    near, far, middle = bands.NEAR, bands.FAR, bands.MIDDLE
    bar = {"fill": alt.Fill("ink:N", scale=None), "tooltip": tooltip({"role": "role"})}
    label = {"text": alt.Text("label:N")}
    return [
        rows.mark_rect(aria=False).encode(
            **places.down("begin", "end"), x=alt.XValue(near), x2=alt.X2Value(far), **bar
        ),
        columns.mark_rect(aria=False).encode(
            **places.across("begin", "end"), y=alt.YValue(near), y2=alt.Y2Value(far), **bar
        ),
        rows.mark_text(angle=270, **name).encode(y=places.y("middle"), x=alt.XValue(middle), **label),
        columns.mark_text(**name).encode(x=places.x("middle"), y=alt.YValue(middle), **label),
        rows.transform_filter("datum.border > 0")
        .mark_rule(**border)
        .encode(y=places.y("border"), x=alt.XValue(0), x2=alt.X2Value(places.width)),
        columns.transform_filter("datum.border > 0")
        .mark_rule(**border)
        .encode(x=places.x("border"), y=alt.YValue(0), y2=alt.Y2Value(places.height)),
    ]


def _outline(layout: GridLayout, places: _Places) -> list[alt.Chart]:
    """A frame around the selected cell, and a mark at its labels."""
    chosen, colors, (left, over) = layout.table("chosen"), layout.colors, layout.bands
    mark = chosen.mark_rect(fill=colors.accent, **QUIET_MARK)
    return [
        mark.encode(**places.down("row", "row2"), x=alt.XValue(-4 - left), x2=alt.X2Value(-1.5 - left)),
        mark.transform_filter("!datum.whole").encode(
            **places.across("column", "column2"), y=alt.YValue(-4 - over), y2=alt.Y2Value(-1.5 - over)
        ),
        chosen.mark_rect(fill=None, stroke=colors.accent, strokeWidth=2.5, **QUIET_MARK).encode(**places.box()),
    ]


def _clickable(layout: GridLayout, places: _Places) -> list[alt.Chart]:
    """Labels again, unseen: a click on one selects the strongest cell of its token."""
    left, above = layout.bands
    text = {"opacity": 0, "font": MONO, "baseline": "middle", "cursor": "pointer", "aria": False}
    over = text | ({"angle": 270, "align": "left"} if layout.upright else {"align": "center", "baseline": "bottom"})
    rows, columns = (
        layout.table(name).transform_filter(f"isValid(datum.query) && (datum.middle - 0.5) % {layout.size.every} === 0")
        for name in ("rows", "columns")
    )
    shared = {"text": alt.Text("label:N"), "tooltip": layout.tooltip("weight_text")}
    return [
        rows.mark_text(align="right", **text).encode(y=places.y("middle"), x=alt.XValue(-6 - left), **shared),
        columns.mark_text(**over).encode(x=places.x("middle"), y=alt.YValue(-6 - above), **shared),
    ]


def _legends(layout: GridLayout) -> list[alt.Chart]:
    """The color scale, and the strokes of what is no weight."""
    below = layout.on_screen and layout.size.form != "rectangles"
    where = {"orient": "bottom", "offset": READOUT if below else 14}
    if layout.aside:
        where = {"orient": "right", "offset": 14 + layout.beside + (layout.notes and layout.notes + NOTE)}
    layers = [] if layout.ramp is None else [ramp_legend(layout.ramp, where, f"{layout.prefix}meta")]
    return [*layers, state_legend(where, f"{layout.prefix}legend")] if layout.has_signs else layers


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


def pooled(states: np.ndarray, tile: int) -> np.ndarray:
    """One state, or number, for each square of a map: the largest among those of a tile."""
    starts = [np.arange(0, length, tile) for length in states.shape]
    return np.maximum.reduceat(np.maximum.reduceat(states, starts[0], 0), starts[1], 1)


def _pick(values: Sequence, index: np.ndarray) -> list:
    return [values[i] for i in index.tolist()]
