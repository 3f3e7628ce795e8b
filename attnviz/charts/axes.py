"""Sides and sizes of maps: labels and names of rows and columns, and the form and pixels of the cells.

User texts are only rows of tables, never part of an expression, a field name or a tooltip title.
"""

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from attnviz.analysis.views import Groups
from attnviz.charts.marks import text_width
from attnviz.charts.theme import Style
from attnviz.core.display import isolated, visible_text

QUERY, KEY = "Query (from)", "Key (to)"

TOKENS = ("query", "key")
"""Axes whose positions are tokens."""

LONGEST_LABEL, LONGEST_WORD = 16, 200
"""Maximum number of code points of a label on an axis, and of a token before it is shortened in its middle."""


def names(groups: Groups, tile: int = 1) -> list[str]:
    """Name rows or columns for a readout by token, position and role; a tile is named by its first and last token."""
    labels = groups.labels

    def name(i: int) -> str:
        position = ", ".join(filter(None, (str(groups.place(i)), groups.roles[i])))
        return f"{isolated(visible_text(labels[i]))} ({position})"

    if tile == 1:
        return [name(i) for i in range(len(labels))]
    return [f"{name(i)} … {name(min(i + tile, len(labels)) - 1)}" for i in range(0, len(labels), tile)]


def notes_on(size: "Size", shows: str = "each square shows the largest of") -> list[str]:
    """Return notes on tiles, and on the step between labels if some are left out."""
    notes = [f"{shows} {size.tile} × {size.tile} cells"] if size.tile > 1 else []
    if (n := size.every * size.tile) > 1:
        ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
        notes.append(f"every {n}{ending} token is labeled")
    return notes


def short(text: str, longest: int = LONGEST_LABEL) -> str:
    """Shorten a token for an axis, in its middle, so that tokens with the same beginning differ."""
    whole, end = visible_text(text, LONGEST_WORD), longest // 3
    return whole if len(whole) <= longest else f"{whole[: longest - 1 - end]}…{whole[-end:]}"


def from_right(labels: Sequence[str]) -> bool:
    """Return whether a text runs from right to left, by its first letter that has a direction."""
    kinds = (unicodedata.bidirectional(character) for label in labels for character in label)
    return next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L"


@dataclass(frozen=True, eq=False)
class GridSide:
    """Rows or columns of a grid.

    Attributes:
        groups: tokens with their positions.
        title: title of the axis.
        axis: meaning of the positions: "query", "key", "d_k", ..., or "1" for a single row or column. Grids of one
            chart that share an axis highlight the same position.
        labels: label of each token; None for its shortened text. If all labels are empty, there is no axis.
        names: name of each token in tooltips; None for its text and position.
        every: step between labeled tokens; 0 for the step of `Size`.
        predicted: word that each row predicts, or "", to add to the name of the row.
    """

    groups: Groups
    title: str = ""
    axis: str = "1"
    labels: Sequence[str] | None = None
    names: Sequence[str] | None = None
    every: int = 0
    predicted: Sequence[str] = ()

    @cached_property
    def texts(self) -> Sequence[str]:
        return [short(label) for label in self.groups.labels] if self.labels is None else self.labels

    def square_names(self, tile: int) -> Sequence[str]:
        """Name the squares for a tooltip, with the words that they predict."""
        if self.names is not None:
            return self.names[::tile]
        token_names = names(self.groups, tile)
        if tile > 1 or not any(self.predicted):
            return token_names
        pairs = zip(token_names, self.predicted, strict=True)
        return [f"{name} ▸ {isolated(visible_text(word))}" if word else name for name, word in pairs]


NOTE = 12
"""Pixels between the cells and the texts at the ends of rows."""


@dataclass(frozen=True)
class RowEnd:
    """Column of texts at the ends of rows.

    Attributes:
        name: prefix of the fields: "beside" for the column next to the cells, "note" for the column after it.
        title: title above the column.
        texts: text of each row.
        inks: color of the text of each row, by its name in the theme; "text" for all other rows.
    """

    name: str
    title: str
    texts: Sequence[str]
    inks: Mapping[int, str] = field(default_factory=dict)

    @property
    def widest(self) -> float:
        """Width of the widest text, in pixels."""
        return max(map(text_width, [self.title, *self.texts]))

    @property
    def width(self) -> int:
        """Width of the column in pixels: the next multiple of 40 above its widest text."""
        return 40 * (1 + int(self.widest) // 40)


RECTANGLES = 32
"""Maximum number of rows and of columns if each cell is a rectangle with a tooltip."""

PIXELS = 512
"""Maximum number of rows and of columns if each cell is a square of an image; larger maps are pooled into tiles."""

SIDE = 640
"""Side of a large map in pixels."""

READABLE, LABELED, LARGEST = 420, 38, 60
"""Side of a small map in pixels, maximum number of rows and columns that are all labeled, and maximum side of a cell: a
map with its labels and legends fits a screen that is 800 pixels high."""

THINNEST = 13
"""Pixels that a token label needs along its axis; if cells are smaller, some labels are left out."""

FITS, NARROWEST = 24, 11
"""Maximum number of columns of a map that has rectangles even in a narrow space; minimum width of such a cell."""

LEAST_CELL = 2
"""Minimum side in pixels of a cell of an image in a narrow space."""

STRIDES = (1, 2, 4, 5, 8, 10, 15, 20, 40)
"""Steps between labeled tokens: every token is labeled, or every second, fourth, ..."""

BESIDE, BESIDE_CELL, MOST_BESIDE = 300, 48, 256
"""Three maps in a row: side of a map, maximum side of a cell, both in pixels; maximum number of rows or columns without
tiles, which is small because the readout needs the numbers of all three maps."""


def every_of(pixels: float, room: float) -> int:
    """Return the smallest step in STRIDES for which labels of `room` pixels fit on cells of `pixels` pixels."""
    return next((n for n in STRIDES if n * pixels >= room), STRIDES[-1])


@dataclass(frozen=True)
class Size:
    """Size and form of a map of `queries` x `keys` cells.

    Attributes:
        form: "rectangles", "pixels" or "tiles".
        cell: pixels of the width of a cell, or tile, on the screen.
        rows, columns: number of rows and columns of squares.
        tile: cells per side of a square; 1 unless the form is "tiles".
        every: step between labeled tokens.
        high: pixels of the height of a cell that is not a square; 0 for a square.
    """

    form: Literal["rectangles", "pixels", "tiles"]
    cell: float
    rows: int
    columns: int
    tile: int = 1
    every: int = 1
    high: float = 0

    @property
    def down(self) -> float:
        """Pixels of the height of a cell."""
        return self.high or self.cell

    @property
    def width(self) -> float:
        return self.cell * self.columns

    @property
    def height(self) -> float:
        return self.down * self.rows


def size_of(queries: int, keys: int, side: int | None = None) -> Size:
    """Decide how to draw `queries` x `keys` cells.

    Args:
        side: maximum side of the map in pixels, exceeded only if labels would overlap; None for the default.
    """
    most = max(queries, keys, 1)
    if most <= RECTANGLES:
        cell = max(THINNEST, min(LARGEST, READABLE // most))
        return Size("rectangles", cell if side is None else max(THINNEST - 1, min(cell, side // most)), queries, keys)
    rows, columns, tile = _tile_sizes(queries, keys, PIXELS)
    most = max(rows, columns)
    cell = max(THINNEST, READABLE // most) if most <= LABELED else max(1, SIDE // most)
    cell = cell if side is None else min(cell, max(LEAST_CELL, side // most))
    return Size("tiles" if tile > 1 else "pixels", cell, rows, columns, tile, every_of(cell, THINNEST))


def size_beside(queries: int, keys: int) -> Size:
    """Decide how to draw `queries` x `keys` cells if three maps are side by side."""
    rows, columns, tile = _tile_sizes(queries, keys, MOST_BESIDE)
    most = max(rows, columns, 1)
    cell = float(min(BESIDE_CELL, BESIDE // most)) if most <= BESIDE // THINNEST else max(BESIDE / most, 1.0)
    form = "tiles" if tile > 1 else "pixels"
    return Size(form if most > RECTANGLES else "rectangles", cell, rows, columns, tile, every_of(cell, THINNEST))


def _tile_sizes(queries: int, keys: int, most: int) -> tuple[int, int, int]:
    """Return the number of rows and of columns of squares, at most `most`, and the cells per side of a square."""
    tile = max(1, -(-max(queries, keys) // most))
    return -(-queries // tile), -(-keys // tile), tile


def within(size: Size, pixels: float) -> Size:
    """Shrink the cells so that the map is at most `pixels` wide; rectangles of a small map keep NARROWEST pixels."""
    if size.columns <= FITS:
        return replace(size, cell=float(max(NARROWEST, min(size.cell, pixels // max(1, size.columns)))))
    cell = pixels / size.columns
    if cell >= size.cell:
        return size
    return replace(size, form="tiles" if size.tile > 1 else "pixels", cell=cell, every=every_of(cell, NARROWEST))


def number_cell(axes: tuple[str, str], rows: int, columns: int, wide: int) -> tuple[float, float]:
    """Return (width, height) of a cell in a table of numbers `wide` pixels wide; a square if both axes are tokens."""
    rows, columns, are_tokens = max(1, rows), max(1, columns), [axis in ("query", "key") for axis in axes]
    if all(are_tokens):
        side = float(max(14 if columns <= 40 else 10, min(44, wide // columns, max(380, 14 * rows) // rows)))
        return side, side
    high = 16.0 if are_tokens[0] else max(1.0, min(6.0, 240 // rows))  # rows of weight matrices have no labels
    return float(max(8, min(60 if axes[1] == "1" else 44, wide // columns))), 22.0 if rows <= 12 else high


def predictions(words: Sequence[str], moved: Collection[int] = ()) -> list[RowEnd]:
    """Build the column of predicted words at the ends of rows; `moved` are the rows whose prediction changed."""
    texts = [f"▸ {short(word)}" if word else "" for word in words]
    return [RowEnd("note", "predicts", texts, dict.fromkeys(moved, "moved"))] if any(words) else []


def size_within(
    rows: Groups, columns: Groups, style: Style, ends: Sequence[RowEnd] = (), side: int | None = None
) -> Size:
    """Compute the size of a grid that fits the width of the style, together with its labels and texts at row ends.

    Args:
        side: maximum side of the map in pixels, used if the style sets none.
    """
    size = size_of(len(rows), len(columns), style.side or side)
    if style.width is None:
        return size
    left = max((text_width(short(label)) for label in rows.labels), default=0.0) + 40
    right = NOTE + 16 + ends[-1].widest + sum(end.width for end in ends[:-1]) if ends else 0
    return within(size, style.width - left - right - 6)
