"""Draw by size: the form of a picture follows from how many cells it has, and is decided here alone."""

from dataclasses import dataclass, replace
from typing import Literal

RECTANGLES = 32
"""Rows and columns up to which every cell is a rectangle with a tooltip."""

PIXELS = 512
"""Rows and columns up to which every cell is a square of one image; above, cells are pooled into tiles."""

SIDE = 640
"""Pixels: the side of a large map."""

READABLE, LABELED, LARGEST = 420, 38, 60
"""Pixels of the side of a map that has room beside it, rows and columns up to which each is labeled there, and pixels
of a cell at most: a map and what stands around it are seen whole on a screen that is 800 pixels high."""

THINNEST = 13
"""Pixels a token label needs along its axis; where cells are smaller, some labels are left out."""

FITS, NARROWEST = 24, 11
"""Columns of a map whose cells stay rectangles where it has less width, and pixels of a cell of it at least."""

LEAST_CELL = 2
"""Pixels of a cell of an image that has little room at least."""

STRIDES = (1, 2, 4, 5, 8, 10, 15, 20, 40)
"""Every token is labeled, or every second, fourth, ..."""

BESIDE, BESIDE_CELL, MOST_BESIDE = 300, 48, 256
"""Pixels of the side of one of three maps in a row, pixels of a cell of it at most, and rows or columns of it without
tiles: each number of three maps is read under the pointer."""


def every_of(pixels: float, room: float) -> int:
    """Each how many-th position of cells of so many pixels has room for its label."""
    return next((n for n in STRIDES if n * pixels >= room), STRIDES[-1])


@dataclass(frozen=True)
class Size:
    """How a map of `queries` x `keys` cells is drawn.

    Attributes:
        form: "rectangles", "pixels" or "tiles".
        cell: pixels of a cell (of a tile) on the screen.
        rows, columns: squares drawn.
        tile: cells per side of a square; 1 unless the form is "tiles".
        every: each how many-th token is labeled.
        high: pixels of a cell from top to bottom, where it is no square; else 0.
        every_column: each how many-th column is labeled, where that is not as for rows; else 0.
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
        """Pixels of a cell from top to bottom."""
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
        side: pixels of the map at most, where labels do not stand on each other; None for as large as is good.
    """
    most = max(queries, keys, 1)
    if most <= RECTANGLES:
        cell = max(THINNEST, min(LARGEST, READABLE // most))
        return Size("rectangles", cell if side is None else max(THINNEST - 1, min(cell, side // most)), queries, keys)
    rows, columns, tile = _tiled(queries, keys, PIXELS)
    most = max(rows, columns)
    cell = max(THINNEST, READABLE // most) if most <= LABELED else max(1, SIDE // most)
    cell = cell if side is None else min(cell, max(LEAST_CELL, side // most))
    return Size("tiles" if tile > 1 else "pixels", cell, rows, columns, tile, every_of(cell, THINNEST))


def size_beside(queries: int, keys: int) -> Size:
    """Decide how to draw each of three maps of `queries` x `keys` cells in a row."""
    rows, columns, tile = _tiled(queries, keys, MOST_BESIDE)
    most = max(rows, columns, 1)
    cell = float(min(BESIDE_CELL, BESIDE // most)) if most <= BESIDE // THINNEST else max(BESIDE / most, 1.0)
    form = "tiles" if tile > 1 else "pixels"
    return Size(form if most > RECTANGLES else "rectangles", cell, rows, columns, tile, every_of(cell, THINNEST))


def _tiled(queries: int, keys: int, most: int) -> tuple[int, int, int]:
    """Rows and columns of squares, at most so many, and cells per side of a square."""
    tile = max(1, -(-max(queries, keys) // most))
    return -(-queries // tile), -(-keys // tile), tile


def within(size: Size, pixels: float) -> Size:
    """The same with smaller cells, so that a map is not wider than so many pixels, if they suffice for its columns."""
    if size.columns <= FITS:
        return replace(size, cell=float(max(NARROWEST, min(size.cell, pixels // max(1, size.columns)))))
    cell = pixels / size.columns
    if cell >= size.cell:
        return size
    return replace(size, form="tiles" if size.tile > 1 else "pixels", cell=cell, every=every_of(cell, NARROWEST))


def number_cell(axes: tuple[str, str], rows: int, columns: int, wide: int) -> tuple[float, float]:
    """Pixels of a cell of a table of numbers, across and down, in a table `wide` pixels wide; square between tokens."""
    rows, columns, of_tokens = max(1, rows), max(1, columns), [axis in ("query", "key") for axis in axes]
    if all(of_tokens):
        side = float(max(14 if columns <= 40 else 10, min(44, wide // columns, max(380, 14 * rows) // rows)))
        return side, side
    high = 16.0 if of_tokens[0] else max(1.0, min(6.0, 240 // rows))  # nothing is read along rows of weights
    return float(max(8, min(60 if axes[1] == "1" else 44, wide // columns))), 22.0 if rows <= 12 else high
