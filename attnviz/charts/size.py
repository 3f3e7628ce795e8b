"""Size and form of a map, which follow from its number of cells and are decided only here."""

from dataclasses import dataclass, replace
from typing import Literal

RECTANGLES = 32
"""Most rows and columns for which each cell is a rectangle with a tooltip."""

PIXELS = 512
"""Most rows and columns for which each cell is a square of an image; above, cells are pooled into tiles."""

SIDE = 640
"""Pixels of the side of a large map."""

READABLE, LABELED, LARGEST = 420, 38, 60
"""Pixels of the side of a small map, most rows and columns that are all labeled, and most pixels of a cell: a map with
its labels and legends fits a screen that is 800 pixels high."""

THINNEST = 13
"""Pixels that a token label needs along its axis; if cells are smaller, some labels are left out."""

FITS, NARROWEST = 24, 11
"""Most columns of a map that keeps rectangles in a narrow space, and least pixels of such a cell."""

LEAST_CELL = 2
"""Least pixels of a cell of an image in a narrow space."""

STRIDES = (1, 2, 4, 5, 8, 10, 15, 20, 40)
"""Steps between labeled tokens: every token is labeled, or every second, fourth, ..."""

BESIDE, BESIDE_CELL, MOST_BESIDE = 300, 48, 256
"""Three maps in a row: pixels of the side of a map, most pixels of a cell, and most rows or columns without tiles,
because the pointer reads the numbers of all three maps."""


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
        every_column: step between labeled columns, if it differs from that of rows; else 0.
    """

    form: Literal["rectangles", "pixels", "tiles"]
    cell: float
    rows: int
    columns: int
    tile: int = 1
    every: int = 1
    high: float = 0
    every_column: int = 0

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
        side: most pixels of the side of the map, as far as labels do not overlap; None for the default.
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
    """Decide how to draw each of three maps of `queries` x `keys` cells in a row."""
    rows, columns, tile = _tile_sizes(queries, keys, MOST_BESIDE)
    most = max(rows, columns, 1)
    cell = float(min(BESIDE_CELL, BESIDE // most)) if most <= BESIDE // THINNEST else max(BESIDE / most, 1.0)
    form = "tiles" if tile > 1 else "pixels"
    return Size(form if most > RECTANGLES else "rectangles", cell, rows, columns, tile, every_of(cell, THINNEST))


def _tile_sizes(queries: int, keys: int, most: int) -> tuple[int, int, int]:
    """Return rows and columns of squares, at most `most` of each, and cells per side of a square."""
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
    rows, columns, of_tokens = max(1, rows), max(1, columns), [axis in ("query", "key") for axis in axes]
    if all(of_tokens):
        side = float(max(14 if columns <= 40 else 10, min(44, wide // columns, max(380, 14 * rows) // rows)))
        return side, side
    high = 16.0 if of_tokens[0] else max(1.0, min(6.0, 240 // rows))  # nothing is read along rows of weights
    return float(max(8, min(60 if axes[1] == "1" else 44, wide // columns))), 22.0 if rows <= 12 else high
