"""Sides and sizes of maps: labels and names of rows and columns, and the form and pixels of the cells.

User texts are only rows of tables, never part of an expression, a field name or a tooltip title.
"""

import math
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
NOTE = 12
"""Pixels between the cells and the texts at the ends of rows."""
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


def names(groups: Groups, tile: int = 1) -> list[str]:
    """Name rows or columns for tooltips: "cat (3, user)", with position and role, or "cat (3) … mat (5)" for a tile."""
    details = [", ".join(filter(None, (str(groups.place(i)), role))) for i, role in enumerate(groups.roles)]
    pairs = zip(groups.labels, details, strict=True)
    token_names = [f"{isolated(visible_text(label))} ({detail})" for label, detail in pairs]
    if tile == 1:
        return token_names
    tiles = [token_names[i : i + tile] for i in range(0, len(token_names), tile)]
    return [f"{names_in_tile[0]} … {names_in_tile[-1]}" for names_in_tile in tiles]


def notes_on(size: "Size", shows: str = "each square shows the largest of") -> list[str]:
    """Return notes for under a title, such as "each square shows ... 2 × 2 cells" and "every 4th token is labeled"."""
    notes = [f"{shows} {size.tile} × {size.tile} cells"] if size.tile > 1 else []
    step = size.every * size.tile  # in tokens; a tile has as many tokens per side as cells
    if step > 1:
        ending = {1: "st", 2: "nd", 3: "rd"}.get(step % 10, "th")
        if step % 100 in (11, 12, 13):
            ending = "th"
        notes.append(f"every {step}{ending} token is labeled")
    return notes


def short(text: str, longest: int = LONGEST_LABEL) -> str:
    """Shorten a token for an axis to `longest` code points, in its middle: tokens with the same beginning differ."""
    visible, end = visible_text(text, LONGEST_WORD), longest // 3
    return visible if len(visible) <= longest else f"{visible[: longest - 1 - end]}…{visible[-end:]}"


def from_right(labels: Sequence[str]) -> bool:
    """Return whether a text runs from right to left, by its first letter that has a direction."""
    directions = (unicodedata.bidirectional(character) for label in labels for character in label)
    strong = (direction for direction in directions if direction in ("L", "R", "AL"))  # left, right, Arabic letters
    return next(strong, "L") != "L"


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
        """Label of each token on the axis."""
        return [short(label) for label in self.groups.labels] if self.labels is None else self.labels

    def square_names(self, tile: int) -> Sequence[str]:
        """Name each row or column of squares, `tile` tokens wide, for tooltips, with the word that the row predicts."""
        if self.names is not None:
            return self.names[::tile]
        token_names = names(self.groups, tile)
        if tile == 1 and any(self.predicted):
            for i, word in enumerate(self.predicted):
                token_names[i] += f" ▸ {isolated(visible_text(word))}" if word else ""
        return token_names


@dataclass(frozen=True)
class RowEnd:
    """Column of texts at the ends of rows.

    Attributes:
        name: prefix of the table's columns: "beside" for texts next to the cells, "note" for texts after those.
        title: title above the texts.
        texts: text of each row.
        inks: colors of texts, such as "warning", a color of the theme, by row; rows not in it have the color "text".
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


def label_step(cell: float, label: float) -> int:
    """Return the smallest step between labels, from STRIDES, at which labels of `label` pixels do not overlap."""
    return next((step for step in STRIDES if step * cell >= label), STRIDES[-1])


@dataclass(frozen=True)
class Size:
    """Size and form of a map.

    Attributes:
        form: "rectangles" with tooltips; "pixels", one image; or "tiles", one image of pooled cells.
        cell: width in pixels of a cell or tile on the screen.
        rows, columns: number of rows and columns of cells or tiles.
        tile: cells per side of a tile; 1 unless the form is "tiles".
        every: step between labeled rows or columns.
        high: height in pixels of a cell; 0 if it is as high as wide.
    """

    form: Literal["rectangles", "pixels", "tiles"]
    cell: float
    rows: int
    columns: int
    tile: int = 1
    every: int = 1
    high: float = 0

    @property
    def cell_height(self) -> float:
        """Height of a cell or tile in pixels."""
        return self.high or self.cell

    @property
    def width(self) -> float:
        return self.cell * self.columns

    @property
    def height(self) -> float:
        return self.cell_height * self.rows


def size_of(queries: int, keys: int, side: int | None = None) -> Size:
    """Decide how to draw `queries` x `keys` cells.

    Args:
        side: maximum side of the map in pixels, exceeded only if labels would overlap; None for the default.
    """
    longest = max(queries, keys, 1)
    if longest <= RECTANGLES:
        cell = max(THINNEST, min(LARGEST, READABLE // longest))
        if side is not None:
            cell = max(THINNEST - 1, min(cell, side // longest))
        return Size("rectangles", cell, queries, keys)
    rows, columns, tile = _tile_sizes(queries, keys, PIXELS)
    longest = max(rows, columns)
    cell = max(THINNEST, READABLE // longest) if longest <= LABELED else max(1, SIDE // longest)
    if side is not None:
        cell = min(cell, max(LEAST_CELL, side // longest))
    return Size("tiles" if tile > 1 else "pixels", cell, rows, columns, tile, label_step(cell, THINNEST))


def size_beside(queries: int, keys: int) -> Size:
    """Decide how to draw `queries` x `keys` cells in each of three maps that are side by side."""
    rows, columns, tile = _tile_sizes(queries, keys, MOST_BESIDE)
    longest = max(rows, columns, 1)
    cell = max(BESIDE / longest, 1.0)
    if longest <= BESIDE // THINNEST:  # all labels fit
        cell = float(min(BESIDE_CELL, BESIDE // longest))
    form = "tiles" if tile > 1 else "pixels"
    return Size(form if longest > RECTANGLES else "rectangles", cell, rows, columns, tile, label_step(cell, THINNEST))


def _tile_sizes(queries: int, keys: int, most: int) -> tuple[int, int, int]:
    """Return the number of rows and of columns of tiles, each at most `most`, and the cells per side of a tile."""
    tile = max(1, math.ceil(max(queries, keys) / most))
    return math.ceil(queries / tile), math.ceil(keys / tile), tile


def number_cell(axes: tuple[str, str], rows: int, columns: int, wide: int) -> tuple[float, float]:
    """Return width and height in pixels of a cell in a table of numbers; it is a square if both axes are tokens.

    Args:
        axes: meaning of rows and of columns, see `GridSide.axis`.
        wide: maximum width of the table in pixels, exceeded only if the cells or their labels would be too small.
    """
    rows, columns, is_row_of_tokens = max(1, rows), max(1, columns), axes[0] in TOKENS
    if is_row_of_tokens and axes[1] in TOKENS:
        least = 14 if columns <= 40 else 10
        high = max(380, 14 * rows)  # maximum height of the table
        side = float(max(least, min(44, wide // columns, high // rows)))
        return side, side
    widest = 60 if axes[1] == "1" else 44
    cell_width = float(max(8, min(widest, wide // columns)))
    if rows <= 12:
        return cell_width, 22.0
    return cell_width, 16.0 if is_row_of_tokens else max(1.0, min(6.0, 240 // rows))  # weight matrices have no labels


def predictions(words: Sequence[str], moved: Collection[int] = ()) -> list[RowEnd]:
    """Make the column of predicted words at the row ends, as a list of one `RowEnd`; an empty list if no row predicts.

    Args:
        moved: rows whose prediction changed.
    """
    texts = [f"▸ {short(word)}" if word else "" for word in words]
    return [RowEnd("note", "predicts", texts, dict.fromkeys(moved, "moved"))] if any(words) else []


def size_within(
    rows: Groups, columns: Groups, style: Style, ends: Sequence[RowEnd] = (), side: int | None = None
) -> Size:
    """Compute the size of a grid that fits the width of the style, together with its labels and texts at row ends.

    Cells become narrower if needed; with at most FITS columns, they keep a width of NARROWEST pixels.

    Args:
        side: maximum side of the map in pixels, used if the style sets none.
    """
    size = size_of(len(rows), len(columns), style.side or side)
    if style.width is None:
        return size
    left = max((text_width(short(label)) for label in rows.labels), default=0.0) + 40  # with the title of the axis
    right = (NOTE + 16 + sum(end.width for end in ends[:-1]) + ends[-1].widest) if ends else 0
    pixels = style.width - left - right - 6
    if size.columns <= FITS:
        return replace(size, cell=float(max(NARROWEST, min(size.cell, pixels // max(1, size.columns)))))
    cell = pixels / size.columns
    if cell >= size.cell:
        return size
    return replace(size, form="tiles" if size.tile > 1 else "pixels", cell=cell, every=label_step(cell, NARROWEST))
