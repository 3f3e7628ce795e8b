"""Grid of cells for weights, masks, leak tests and tables of numbers, with the tables of its chart."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from attnviz.analysis.views import Groups
from attnviz.charts import axes, marks, pixels, signs
from attnviz.charts.axes import KEY, QUERY, names, notes_on, short, word_spans
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
"""Fields of the tooltip and their titles, which are constant because a viewer treats some titles as addresses."""

CELL = ("cell", "query", "key", "rev")
"""Name and fields of the selection of a cell."""

READABLE = (34, 16)
"""Least width and height in pixels of a cell that has room for a number."""

FRAME = "M-0.7,-0.7L0.7,-0.7L0.7,0.7L-0.7,0.7Z"
"""Sign of a framed row in a legend, as a path in a box from -1 to 1."""

ARROW, HUE = "M-0.3,-0.45L0.4,0L-0.3,0.45Z", 1
"""Sign of a changed prediction in a legend, and the hue of such words."""

JOINED = "a line beside tokens joins the pieces of a word"

HUGE = 1e8
"""Numbers of this size or larger (such as -1e9, added as a mask) do not extend a color scale."""


@dataclass(frozen=True)
class RowEnd:
    """Column of texts at the ends of rows.

    Attributes:
        name: prefix of the fields: "beside" for the column next to the cells, "note" for the column after it.
        title: title above the column.
        texts, inks: text of each row, and its color.
    """

    name: str
    title: str
    texts: Sequence[str]
    inks: Sequence[str]

    @property
    def widest(self) -> float:
        """Width of the widest text, in pixels."""
        return max(map(text_width, [self.title, *self.texts]))

    @property
    def width(self) -> int:
        """Pixels of the column, in steps."""
        return 40 * (1 + int(self.widest) // 40)


@dataclass(frozen=True, eq=False, kw_only=True)
class Grid:
    """Cells with their labels; all arrays are (rows, columns) of the drawn squares.

    Attributes:
        title, lines: title of the grid, and lines below it.
        rows, columns: all tokens of the rows and of the columns.
        size: form and size in pixels.
        states: index into `kinds` for each cell.
        kinds: states of a cell, in the order of the legend.
        titles: titles of the row axis and of the column axis.
        shade: place on the ramp, 0 to 1, for cells with a color of the ramp.
        ramp: legend of the color scale.
        palette: colors of the scale; None for those of `ramp`.
        numbers: named columns of numbers, such as weight, each with its format or with a text for each cell.
        offsets: position of the largest weight within each tile, counted row by row.
        cell_texts: tooltip text of each cell, (cells,), in place of the text of its state.
        written: text inside each cell, (cells,).
        tips: fields of the tooltip and their titles.
        selects: name and fields of the selection by a click.
        more: additional fields of the cells, (cells,) each.
        ends: texts at the ends of rows, from left to right.
        framed: rows with a frame.
        notes: lines of the legend after those of the states.
        tiles: words for how a tile summarizes its cells.
        brush: whether a drag selects cells, if they are rectangles.
        labels: labels of rows and of columns; None for their tokens; a side without texts has no axis.
        called: names of rows and of columns in tooltips; None for token and position.
        verb: relation of a row to a column, in words.
        prefix: prefix of the names of the tables, for one of several grids in a chart.
        axes: meaning of rows and columns: "query", "key", "d_k", ..., or "1" for a single row or column. Grids of one
            chart that share an axis highlight the same position.
        is_table: whether the grid is a table of numbers among others: framed, without axis titles, and, as an image,
            clickable row by row.
        extent: least pixels of the labels above the columns, to align grids side by side.
        signs: states in the legend; None for those that occur; () for no legend.
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
    ends: Sequence[RowEnd] = ()
    framed: Collection[int] = ()
    notes: Sequence[LegendEntry] = ()
    tiles: str = "each square shows the largest of"
    brush: bool = False
    labels: tuple[Sequence[str], Sequence[str]] | None = None
    called: tuple[Sequence[str], Sequence[str]] | None = None
    verb: str = "looks at"
    prefix: str = ""
    axes: tuple[str, str] = TOKENS
    is_table: bool = False
    extent: int = 0
    signs: Sequence[CellState] | None = None

    @cached_property
    def form(self) -> Form:
        """Chart without its tables."""
        chart = GridForm(self).spec() | {"title": title_spec()}
        return marks.whole(chart | ({"params": params([self])} if self.is_rectangles else {}), self.style.colors)

    @property
    def view(self) -> Spec:
        """View of this grid within a chart of several grids, with its title and without parameters."""
        form = {"limit": max(self.size.width, LEAST_TITLE)}
        if self.is_table:
            form = {"fontWeight": "normal", "fontSize": 12, "offset": 6}
        title = title_spec(f"{self.prefix}meta", view_of=self.style.colors) | form
        return GridForm(self).spec() | {"title": title, "name": self.prefix}

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta, rows, columns, words, chosen, legend, and the cells if they are rectangles.

        Tables that are not drawn are left out, because a browser refuses to replace them.
        """
        tables = {"meta": self._meta(), "rows": self._labels(0), "columns": self._labels(1), "chosen": self.chosen()}
        if not self.is_table:
            tables["words"] = self._words
        if self.signs != ():
            kinds = [self.kinds[i] for i in self.occurring] if self.signs is None else self.signs
            tables["legend"] = entry([*signs.legend(kinds, self.style.colors), *self.notes])
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
        """This grid if it is an image with a readout under the pointer, else None."""
        return None if self.is_rectangles else self

    @property
    def sides(self) -> tuple[Groups, Groups]:
        return self.rows, self.columns

    @cached_property
    def texts(self) -> tuple[Sequence[str], Sequence[str]]:
        """Labels of rows and of columns."""
        return self.labels or tuple([short(token.text) for token in part.tokens] for part in self.sides)

    @cached_property
    def bands(self) -> Table:
        return axes.bands_table(self.sides, self.size, self.style.colors)

    @cached_property
    def names(self) -> tuple[Sequence[str], Sequence[str]]:
        """Names of rows and of columns in tooltips."""
        return self.called or tuple(names(part, self.size.tile) for part in self.sides)

    @property
    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """Position of each row and column, or the first position of a tile."""
        return tuple(part.starts[:: self.size.tile] for part in self.sides)

    @property
    def lasts(self) -> tuple[np.ndarray, np.ndarray]:
        """Last position of each row and column, or of a tile."""
        tile = self.size.tile
        ends = (np.arange(tile, len(part) + tile, tile).clip(max=len(part)) - 1 for part in self.sides)
        return tuple(part.stops[end] - 1 for part, end in zip(self.sides, ends, strict=True))

    @cached_property
    def occurring(self) -> list[int]:
        """Indices of the states that occur."""
        return np.flatnonzero(np.bincount(self.states.ravel())).tolist()

    def uri(self, scale: int | None = None) -> str:
        """Encode the cells as an image.

        Args:
            scale: image pixels per pixel of the picture; None for 2 in a file, and on a page for one image pixel per
                cell if no cell has a sign.
        """
        size, factor = self.size, scale or (1 if self.style.on_screen else 2)
        wide, high = size.columns, size.rows
        if factor > 1 or scale or any(self.kinds[i].stroke() for i in self.occurring):
            sides = ((wide, size.cell), (high, size.down))
            if self.is_table:
                wide, high = (max(round(factor * n * side), n) for n, side in sides)
            else:
                wide, high = (n * max(1, round(factor * side)) for n, side in sides)
        sides = {"height": high, "width": wide, "scale": factor}
        return pixels.uri(self.states, self.kinds, self.shade, self._colors, **sides)

    @property
    def _colors(self) -> Theme:
        """Theme with the ramp of this grid."""
        ramp = self.palette or (self.ramp.colors if self.ramp else self.style.colors.ramp)
        return replace(self.style.colors, ramp=ramp)

    def _meta(self) -> Table:
        lines = [*self.lines, *notes_on(self.size, self.tiles), *([JOINED] if self._words["axis"] else [])]
        table = heading(self.title, lines, self.size.width + 160, self.style)
        if self.prefix:
            table = {"title": [self.title], "subtitle": ["\n".join(self.lines)]}
        table["top"] = [self.ramp.top if self.ramp else 1.0]
        table |= {f"{end.name}_title": [end.title] for end in self.ends}
        if self.is_rectangles:
            return table
        # for moving over the cells of an image by keyboard
        return table | {"uri": [self.uri()], "rows": [self.size.rows], "columns": [self.size.columns]}

    def _labels(self, side: int) -> Table:
        """Build the table of rows (0) or columns (1), with labels and, for rows, the texts at their ends."""
        tile, count = self.size.tile, (self.size.rows, self.size.columns)[side]
        tokens = self.sides[side].tokens[::tile]
        table: Table = {
            ("row", "column")[side]: [*range(count)],
            ("row2", "column2")[side]: [i + 1 for i in range(count)],
            "middle": [i + 0.5 for i in range(count)],
            "label": self._sparse_labels(side),
            "quiet": [token.special for token in tokens],
            "name": [*self.names[side]],
            "position": self.positions[side].tolist(),
            "last": self.lasts[side].tolist(),
        }
        if self.is_table:
            places = {axis: [-1] * count for axis in TOKENS} | {self.axes[side]: table["position"]}
            return table | places | {"rev": [self.style.rev] * count}
        if side == 0:
            cells = [range(i, min(i + tile, len(self.rows))) for i in range(0, len(self.rows), tile)]
            table["empty"] = [all(cell in self.framed for cell in part) for part in cells]
            for end in self.ends:
                texts = end.texts[::tile]
                table[end.name] = [text if i % self.size.every == 0 else "" for i, text in enumerate(texts)]
                inks = table[f"{end.name}_ink"] = [*end.inks[::tile]]
                row = None if self.selected[0] is None else self.selected[0] // tile
                if end.name == "note" and row is not None and inks[row] == self.style.colors.text:
                    inks[row] = self.style.colors.accent
        return table

    def _sparse_labels(self, side: int) -> list[str]:
        """Return the labels that fit, and the label of the selected position; other labels are replaced by a dot."""
        size, chosen = self.size, self.selected[side]
        every = (side and size.every_column) or size.every
        dot = "·" if size.cell >= DOTTED and not self.is_table else ""
        row = None if chosen is None else chosen // size.tile
        texts = self.texts[side] or [""] * len(self.sides[side])
        labels = [
            text if i % every == 0 and (row is None or abs(i - row) >= every) else dot
            for i, text in enumerate(texts[:: size.tile])
        ]
        if row is not None:
            labels[row] = texts[chosen]
        return labels

    @cached_property
    def _words(self) -> Table:
        """Ranges of rows and columns for words of several pieces; empty unless every token is labeled."""
        is_whole, inset = self.size.tile * self.size.every == 1 and not self.is_table, 2 / self.size.cell
        sides = zip(("rows", "columns"), self.sides, strict=True) if is_whole else ()
        spans = [(axis, begin + inset, end - inset) for axis, part in sides for begin, end in word_spans(part)]
        return {name: [span[i] for span in spans] for i, name in enumerate(("axis", "begin", "end"))}

    @cached_property
    def selected(self) -> tuple[int | None, int | None]:
        """Selected row and column; one of the two is None if a whole row or column is selected."""
        cell = self.style.selected
        cell = (cell,) if isinstance(cell, int) else cell or ()
        wanted = dict(zip(TOKENS, cell, strict=False))
        places = zip(self.sides, self.axes, strict=True)
        indices = [part.index_of(wanted[axis]) if wanted.get(axis, -1) >= 0 else None for part, axis in places]
        missing = (index is None and axis in wanted for index, axis in zip(indices, self.axes, strict=True))
        return (None, None) if any(missing) else tuple(indices)

    def chosen(self) -> Table:
        """Build the table of the outline, enlarged around tiny cells, and of the marks at the selected labels."""
        tile, (row, column) = self.size.tile, self.selected
        grow = 0 if None in (row, column) else max(0.0, (7 / self.size.cell - 1) / 2)
        ends = [
            (0, count) if i is None else (i // tile - grow, i // tile + 1 + grow)
            for i, count in ((row, self.size.rows), (column, self.size.columns))
        ]
        values = [*ends[0], *ends[1], row is not None, column is not None]
        names_ = ("row", "row2", "column", "column2", "marks_row", "marks_column")
        return {name: [value] if any(values[4:]) else [] for name, value in zip(names_, values, strict=True)}

    def _cells(self) -> Table:
        """Build the table of cells, row by row: place, texts, fill and sign of each cell."""
        row, column = (index.ravel() for index in np.indices(self.states.shape))
        states, colors = self.states.ravel(), self.style.colors
        glyphs = (kind.glyph(min(self.size.cell, self.size.down), colors) for kind in self.kinds)
        path, stroke, width = zip(*glyphs, strict=True)
        ground = _pick(pixels.written_palette(self._colors), pixels.ground(self.states, self.kinds, self.shade).ravel())
        positions = [part[place].tolist() for part, place in zip(self.positions, (row, column), strict=True)]
        table = {
            "row": row.tolist(),
            "row2": (row + 1).tolist(),
            "column": column.tolist(),
            "column2": (column + 1).tolist(),
            **{axis: [-1] * len(row) for axis in TOKENS},
            **dict(zip(self.axes, positions, strict=True)),
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


LEAST_TITLE = 250
"""Least pixels of the title of a view."""

DOTTED = 5
"""Least pixels of a cell for a dot in place of a label that is left out."""


def predictions(words: Sequence[str], style: Style, title: str, moved: Collection[int] = ()) -> list[RowEnd]:
    """Build the column of predicted words at the ends of rows.

    Args:
        moved: rows whose predicted word changed.
    """
    if not any(words):
        return []
    hues = style.colors.hues[HUE], style.colors.text
    inks = [hues[0] if i in moved else hues[1] for i in range(len(words))]
    return [RowEnd("note", title, [f"▸ {short(word)}" if word else "" for word in words], inks)]


def with_predictions(rows: Groups, words: Sequence[str], tile: int) -> list[str]:
    """Name rows for a readout, with the words that they predict."""
    called = names(rows, tile)
    if tile > 1 or not any(words):
        return called
    pairs = zip(called, words, strict=True)
    return [f"{name} ▸ {isolated(visible_text(word))}" if word else name for name, word in pairs]


def framed(text: str, style: Style) -> LegendEntry:
    """Build the legend line for rows with a frame."""
    return LegendEntry(text, FRAME, style.colors.warning, style.colors.background)


def size_within(
    rows: Groups, columns: Groups, style: Style, ends: Sequence[RowEnd] = (), side: int | None = None
) -> Size:
    """Compute the size of a grid that fits the width of the style, together with its labels and texts at row ends.

    Args:
        side: most pixels of the side of the map, if the style has no limit.
    """
    size = size_of(len(rows), len(columns), style.side or side)
    if style.width is None:
        return size
    left = max((text_width(short(label)) for label in rows.labels), default=0.0)
    left += 40 + (axes.NAMED if any(rows.roles) else 0)
    right = NOTE + 16 + ends[-1].widest + sum(end.width for end in ends[:-1]) if ends else 0
    return within(size, style.width - left - right - 6)


def limit_of(*tables: np.ndarray) -> float:
    """Return the largest absolute number of the tables, without infinite numbers and those of HUGE or more."""
    sizes = (np.abs(table[np.isfinite(table)]) for table in tables)
    return max((float(size[size < HUGE].max(initial=0.0)) for size in sizes), default=0.0)


def pooled(states: np.ndarray, tile: int) -> np.ndarray:
    """Pool states, or numbers, into tiles: the largest of each tile."""
    starts = [np.arange(0, length, tile) for length in states.shape]
    return np.maximum.reduceat(np.maximum.reduceat(states, starts[0], 0), starts[1], 1)


def _pick(values: Sequence, index: np.ndarray) -> list:
    return [values[i] for i in index.tolist()]
