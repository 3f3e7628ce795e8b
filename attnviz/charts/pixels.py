"""Squares of a map: their numbers and states, and their palette PNG image, exact for each cell."""

import base64
import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from PIL import Image

from attnviz.charts import signs
from attnviz.charts.marks import Ramp
from attnviz.charts.signs import CellState
from attnviz.charts.theme import Theme, rgb


class Number(NamedTuple):
    """Numbers of the cells, (rows, columns): the column `name` of a table, and an entry `title` in tooltips.

    `texts` is their format in tooltips, such as ".4f", or has a text for each cell, row by row.
    """

    name: str
    values: np.ndarray
    texts: str | Sequence[str]
    title: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Squares:
    """Numbers and states of the squares of a grid, (rows, columns); a square is a cell, or a tile of cells.

    Attributes:
        states: index into `kinds` for each square, (rows, columns).
        kinds: states that a square can have, in the order of the legend.
        numbers: numbers of the squares, in the order of the tooltip.
        ramp: color scale of `numbers[colored]`; None if no square is colored by a number.
        offsets: index of the largest weight among the cells of each tile, counted row by row; None without tiles.
        texts: tooltip text of each square, (squares,), in place of the text of its state.
        text_title: title of this text in the tooltip; "" for no text.
        written: text inside each square, (squares,).
        lines: lines about the numbers, under the title of the grid.
    """

    states: np.ndarray
    kinds: Sequence[CellState]
    numbers: Sequence[Number] = ()
    ramp: Ramp | None = None
    colored: int = 0
    offsets: np.ndarray | None = None
    texts: Sequence[str] = ()
    text_title: str = "cell"
    written: Sequence[str] = ()
    lines: Sequence[str] = ()

    @cached_property
    def occurring(self) -> list[int]:
        """Indices of the states that occur."""
        return np.flatnonzero(np.bincount(self.states.ravel())).tolist()

    @cached_property
    def shade(self) -> np.ndarray | None:
        """Position on the ramp, 0 to 1, of each square's number; None without a ramp."""
        return self.ramp.shade(self.numbers[self.colored].values) if self.ramp else None


def pool_largest(states: np.ndarray, tile: int) -> np.ndarray:
    """Pool states, or numbers, (rows, columns), into tiles of `tile` x `tile` cells, by the largest of each tile."""
    starts = [np.arange(0, length, tile) for length in states.shape]
    return np.maximum.reduceat(np.maximum.reduceat(states, starts[0], 0), starts[1], 1)


SHADES = 248
"""Number of ramp colors in the palette; the named colors follow."""
NAMED = ("blocked", "hatch", "warning", "open", "dot", "leak", "background")
"""Names of the theme's colors that follow the ramp in the palette."""


def palette_index(name: str) -> int:
    """Return the palette index of a color of the theme, one of `NAMED`."""
    return SHADES + NAMED.index(name)


@lru_cache(maxsize=16)
def palette(colors: Theme) -> np.ndarray:
    """Return the RGB colors of the palette, uint8 (n, 3): SHADES colors of the ramp, then the named colors."""
    stops = np.array([rgb(color) for color in colors.ramp])
    positions = np.linspace(0, len(stops) - 1, SHADES)
    ramp = np.stack([np.interp(positions, range(len(stops)), stops[:, channel]) for channel in range(3)], 1)
    return np.concatenate([ramp.round(), [rgb(getattr(colors, name)) for name in NAMED]]).astype(np.uint8)


def ground(states: np.ndarray, kinds: Sequence[CellState], shade: np.ndarray | None) -> np.ndarray:
    """Return the palette index of each cell's fill, (rows, columns).

    Args:
        states: index into `kinds` for each cell.
        shade: position on the ramp, 0 to 1, for cells with a color of the ramp.
    """
    index_by_kind = [0 if kind.ground == "ramp" else palette_index(kind.ground) for kind in kinds]
    indices = np.array(index_by_kind, np.uint8)[states]  # 0, the first color of the ramp, marks "ramp"
    return indices if shade is None else np.where(indices == 0, shades(shade), indices)


def uri(states: np.ndarray, kinds: Sequence[CellState], shade: np.ndarray | None, colors: Theme, **sides: int) -> str:
    """Encode a map with its signs as the data URI of a PNG; see `paint`."""
    return data_uri(paint(states, kinds, shade, **sides), palette(colors))


def paint(
    states: np.ndarray, kinds: Sequence[CellState], shade: np.ndarray | None, *, height: int, width: int, scale: int = 1
) -> np.ndarray:
    """Draw a map with its signs as palette indices, (height, width), at least one pixel per cell; see `ground`.

    Args:
        scale: image pixels per pixel of the screen, for the width and distance of strokes.
    """
    num_rows, num_columns = states.shape
    y, x = (np.arange(height) + 0.5) * num_rows / height, (np.arange(width) + 0.5) * num_columns / width  # in cells
    row, column = y.astype(np.intp), x.astype(np.intp)
    y, x, cell_width = y[:, None] % 1, x % 1, width / num_columns  # y and x: position within the cell, 0 to 1
    image = ground(states, kinds, shade)[:, column][row]  # one axis at a time is much faster
    kinds_by_stroke: dict[tuple[int | str, str], list[int]] = {}
    for kind in np.flatnonzero(np.bincount(states.ravel())).tolist():
        if stroke := kinds[kind].stroke():
            kinds_by_stroke.setdefault(stroke, []).append(kind)
    for (sign, color), kinds_with_sign in kinds_by_stroke.items():
        if sign == "cross":
            strokes = np.minimum(abs(x - y), abs(x + y - 1)) * cell_width < 1
        elif sign == "dot":
            strokes = (np.hypot(x - 0.5, y - 0.5) < 0.16) & (cell_width > 4)
        else:
            strokes = signs.strokes(sign, height, width, scale=scale)
        has_sign = np.zeros(len(kinds), bool)
        has_sign[kinds_with_sign] = True
        image[strokes & has_sign[states][:, column][row]] = palette_index(color)
    return image


def shades(shade: np.ndarray) -> np.ndarray:
    """Map positions on the ramp, clipped to 0 to 1, to palette indices, uint8; NaN becomes 0."""
    return np.rint(np.fmin(np.fmax(shade, 0), 1) * (SHADES - 1)).astype(np.uint8)


def png(image: np.ndarray, colors: np.ndarray) -> bytes:
    """Encode uint8 indices (height, width) into (at most 256, 3) colors as a palette PNG.

    Run-length compression is ten times as fast as zlib's default search for repetitions, and the file is no larger.
    """
    picture, file = Image.fromarray(image, "P"), io.BytesIO()
    picture.putpalette(colors.tobytes())
    picture.save(file, "PNG", compress_type=zlib.Z_RLE)
    return file.getvalue()


def data_uri(image: np.ndarray, colors: np.ndarray) -> str:
    """Encode an image as the data URI of a PNG; for the arguments see `png`."""
    return "data:image/png;base64," + base64.b64encode(png(image, colors)).decode()


@lru_cache(maxsize=16)
def written_palette(colors: Theme) -> list[str]:
    """Return the palette as colors "#rrggbb"."""
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in palette(colors).tolist()]


def color_at(position: float, colors: Theme) -> str:
    """Return the color "#rrggbb" at a position on the ramp, clipped to 0 to 1."""
    return written_palette(colors)[int(shades(np.array(position)))]


def mix_colors(color: str, ground: str, share: float) -> str:
    """Return the color "#rrggbb" of `color` with opacity `share`, 0 to 1, over the background color `ground`."""
    channels = zip(rgb(color), rgb(ground), strict=True)
    return "#" + "".join(f"{round(share * top + (1 - share) * below):02x}" for top, below in channels)


def readable(ground: str, colors: Theme) -> str:
    """Return the theme's color for text on the color `ground`: its text or background color, by the larger contrast."""
    brightness = {color: sum(rgb(color)) for color in (ground, colors.text, colors.background)}
    return max((colors.text, colors.background), key=lambda color: abs(brightness[color] - brightness[ground]))
