"""One grid for every picture of cells: weights, a mask, a leak test, tables of numbers; and its tables."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from attnviz.analysis.views import Groups
from attnviz.charts import axes, marks, pixels, signs
from attnviz.charts.axes import KEY, QUERY, label_width, names, notes_on, short, word_spans
from attnviz.charts.grid_form import NOTE, TOKENS, GridForm, params
from attnviz.charts.legends import LegendEntry, Ramp, entry, heading, text_width, title_spec
from attnviz.charts.marks import Form, Spec, Table
from attnviz.charts.signs import CellState
from attnviz.charts.size import Size, size_of, within
from attnviz.charts.theme import Style, Theme
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

FRAME = "M-0.7,-0.7L0.7,-0.7L0.7,0.7L-0.7,0.7Z"
"""A framed row in a legend, in a box from -1 to 1."""

ARROW, CHANGED = "M-0.3,-0.45L0.4,0L-0.3,0.45Z", 1
"""Sign in a legend of a word that another one was predicted for, and the hue of such words."""

JOINED = "a line beside tokens joins the pieces of a word"

HUGE = 1e8
"""Numbers beyond this (-1e9, added as a mask) stand at the end of a scale instead of stretching it."""


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
        chart = GridForm(self).spec() | {"title": title_spec()}
        return marks.whole(chart | ({"params": params([self])} if self.is_rectangles else {}), self.style.colors)

    @property
    def view(self) -> Spec:
        """One grid of several, with its title and without parameters, which these share."""
        small = {"fontWeight": "normal", "fontSize": 12, "offset": 6} if self.is_table else {}
        title = title_spec(f"{self.prefix}meta", view_of=self.style.colors) | small
        return GridForm(self).spec() | {"title": title, "name": self.prefix}

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta, rows, columns, words, chosen, legend, and the cells if they are rectangles."""
        tables = {
            "meta": self._meta(),
            "rows": self._labels(0) | self._notes(),
            "columns": self._labels(1),
            "words": self._words,
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
        return tuple([short(token.text) for token in part.tokens] for part in self._sides)

    @property
    def _sides(self) -> tuple[Groups, Groups]:
        return self.rows, self.columns

    @cached_property
    def bands(self) -> Table:
        return axes.bands_table(self._sides, self.size, self.style.colors)

    @cached_property
    def names(self) -> tuple[list[str], list[str]]:
        """Rows and columns as hovering names them."""
        if self.called is not None:
            return self.called
        rows, columns = (names(part, self.size.tile) for part in self._sides)
        if self.predicted and self.size.tile == 1:
            every = zip(rows, self.predicted, strict=True)
            rows = [f"{name} ▸ {isolated(visible_text(word))}" if word else name for name, word in every]
        return rows, columns

    @property
    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """Position of each row and column; of a tile, the first."""
        return tuple(part.starts[:: self.size.tile] for part in self._sides)

    @property
    def lasts(self) -> tuple[np.ndarray, np.ndarray]:
        """Last position that each row and column stands for."""
        tile = self.size.tile
        return tuple(
            part.stops[np.arange(tile, len(part) + tile, tile).clip(max=len(part)) - 1] - 1 for part in self._sides
        )

    @cached_property
    def occurring(self) -> list[int]:
        """Indices of the kinds of cells that occur."""
        return np.flatnonzero(np.bincount(self.states.ravel())).tolist()

    def uri(self, scale: int | None = None) -> str:
        """The cells as an image.

        Args:
            scale: pixels of the image for one of the picture. None for twice the size in a file; on a page for a pixel
                for each cell, if none is drawn on.
        """
        size, strokes = self.size, {i: stroke for i in self.occurring if (stroke := self.kinds[i].stroke())}
        same = {stroke: [i for i, other in strokes.items() if other == stroke] for stroke in strokes.values()}
        marked = [(sign, np.isin(self.states, kinds), color) for (sign, color), kinds in same.items()]
        factor = scale or (1 if self.style.on_screen else 2)
        wide, high = size.columns, size.rows
        if (marked or factor > 1 or scale) and self.is_table:
            wide, high = max(round(factor * size.width), wide), max(round(factor * size.height), high)
        elif marked or factor > 1 or scale:
            wide, high = (n * max(1, round(factor * side)) for n, side in ((wide, size.cell), (high, size.down)))
        image = pixels.paint(self._ground, marked, scale=factor, height=high, width=wide)
        return pixels.data_uri(image, pixels.palette(self._colors))

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
        ramp = self.palette or (self.ramp.colors if self.ramp else self.style.colors.ramp)
        return replace(self.style.colors, ramp=ramp)

    def _meta(self) -> Table:
        lines = [*self.lines, *notes_on(self.size, self.tiles), *([JOINED] if self._words["axis"] else [])]
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
    def _words(self) -> Table:
        """Rows and columns that the pieces of a word take, where each is labeled."""
        is_whole, inset = self.size.tile * self.size.every == 1 and not self.is_table, 2 / self.size.cell
        sides = zip(("rows", "columns"), self._sides, strict=True) if is_whole else ()
        spans = [(axis, begin + inset, end - inset) for axis, part in sides for begin, end in word_spans(part)]
        return {name: [span[i] for span in spans] for i, name in enumerate(("axis", "begin", "end"))}

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
        (row, column), tile = self.selected, self.size.tile
        is_cell = row is not None and column is not None
        grow = max(0.0, (7 / self.size.cell - 1) / 2) if is_cell else 0
        by_row = isinstance(self.style.selected, int) or self.axes[1] not in TOKENS
        is_side = (row is not None and by_row) or (column is not None and self.axes[0] not in TOKENS)
        ends = [
            (0, count) if i is None else (i // tile - grow, i // tile + 1 + grow)
            for i, count in ((row, self.size.rows), (column, self.size.columns))
        ]
        values = [*ends[0], *ends[1], row is not None, column is not None]
        return {name: [value] if is_cell or is_side else [] for name, value in zip(CHOSEN, values, strict=True)}

    def _legend(self) -> Table:
        there, colors = [self.kinds[i] for i in self.occurring] if self.signs is None else self.signs, self.style.colors
        texts, (changed, text) = dict.fromkeys(filter(None, self.empty.values())), self.changed
        framed = [LegendEntry(text, FRAME, colors.warning, colors.background) for text in texts]
        arrow = [LegendEntry(text, ARROW, colors.hues[CHANGED], colors.background)] if changed else []
        return entry([*signs.legend(there, colors), *arrow, *framed])

    def _cells(self) -> Table:
        """A row for each cell, row by row: where it is, what it says, what is drawn on it."""
        row, column = (index.ravel() for index in np.indices(self.states.shape))
        states, colors = self.states.ravel(), self.style.colors
        glyphs = (kind.glyph(min(self.size.cell, self.size.down), colors) for kind in self.kinds)
        path, stroke, width = zip(*glyphs, strict=True)
        ground = _pick(pixels.written_palette(self._colors), self._ground.ravel())
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
    left = max(map(label_width, rows.labels), default=0.0) + 40 + (axes.NAMED if any(rows.roles) else 0)
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
