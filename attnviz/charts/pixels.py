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
    """Numbers of the cells, (rows, columns), with the name of a field, a format or a text per cell, and a title."""

    name: str
    values: np.ndarray
    texts: str | Sequence[str]
    title: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Squares:
    """Numbers and states of the squares of a grid, (rows, columns); a square is a cell, or a tile of cells.

    Attributes:
        states: index into `kinds` for each square.
        kinds: states of a square, in the order of the legend.
        numbers: numbers of the squares, in the order of the tooltip.
        ramp: color scale of the numbers with index `colored`.
        offsets: position of the largest weight within each tile, counted row by row.
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


def pooled(states: np.ndarray, tile: int) -> np.ndarray:
    """Pool states, or numbers, into tiles by the largest state of each tile."""
    starts = [np.arange(0, length, tile) for length in states.shape]
    return np.maximum.reduceat(np.maximum.reduceat(states, starts[0], 0), starts[1], 1)


SHADES = 248
"""Number of ramp colors in the palette; the named colors follow."""

NAMED = ("blocked", "hatch", "warning", "open", "dot", "leak", "background")
"""Names of the theme's colors that follow the ramp in the palette."""


def place(name: str) -> int:
    """Return the palette index of a named color."""
    return SHADES + NAMED.index(name)


@lru_cache(maxsize=16)
def palette(colors: Theme) -> np.ndarray:
    """Return the RGB colors of the palette: the ramp, then the named colors."""
    stops = np.array([rgb(color) for color in colors.ramp])
    places = np.linspace(0, len(stops) - 1, SHADES)
    ramp = np.stack([np.interp(places, range(len(stops)), stops[:, i]) for i in range(3)], 1)
    return np.concatenate([ramp.round(), [rgb(getattr(colors, name)) for name in NAMED]]).astype(np.uint8)


def ground(states: np.ndarray, kinds: Sequence[CellState], shade: np.ndarray | None) -> np.ndarray:
    """Return the palette index of each cell's fill, (rows, columns).

    Args:
        states: index into `kinds` for each cell.
        shade: position on the ramp, 0 to 1, for cells with a color of the ramp.
    """
    named = [0 if kind.ground == "ramp" else place(kind.ground) for kind in kinds]
    indices = np.array(named, np.uint8)[states]  # 0, the first color of the ramp, marks "ramp"
    return indices if shade is None else np.where(indices == 0, shades(shade), indices)


def uri(states: np.ndarray, kinds: Sequence[CellState], shade: np.ndarray | None, colors: Theme, **sides: int) -> str:
    """Encode a map with its signs as the data URI of a PNG; see `painted`."""
    return data_uri(painted(states, kinds, shade, **sides), palette(colors))


def painted(
    states: np.ndarray,
    kinds: Sequence[CellState],
    shade: np.ndarray | None,
    *,
    height: int,
    width: int,
    scale: int = 1,
) -> np.ndarray:
    """Draw a map with its signs as palette indices, (height, width), at least one pixel per cell; see `ground`.

    Args:
        scale: image pixels per pixel of the screen, for the width and distance of strokes.
    """
    (row, v), (column, u) = (_cells(*sides) for sides in zip(states.shape, (height, width), strict=True))
    cells = ground(states, kinds, shade)
    image, v, side = cells[:, column][row], v[:, None], width / states.shape[1]  # one axis at a time is much faster
    by_stroke: dict[tuple[int | str, str], list[int]] = {}
    for kind in np.flatnonzero(np.bincount(states.ravel())).tolist():
        if stroke := kinds[kind].stroke():
            by_stroke.setdefault(stroke, []).append(kind)
    for (sign, color), marked in by_stroke.items():
        if sign == "cross":
            strokes = np.minimum(abs(u - v), abs(u + v - 1)) * side < 1
        elif sign == "dot":
            strokes = (np.hypot(u - 0.5, v - 0.5) < 0.16) & (side > 4)
        else:
            strokes = signs.strokes(sign, height, width, scale=scale)
        has_sign = np.zeros(len(kinds), bool)
        has_sign[marked] = True
        image[strokes & has_sign[states][:, column][row]] = place(color)
    return image


def _cells(cells: int, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the cell of each pixel along an axis, and the position of the pixel within its cell, 0 to 1."""
    places = (np.arange(pixels) + 0.5) * cells / pixels
    return places.astype(np.intp), places % 1


def shades(shade: np.ndarray) -> np.ndarray:
    """Map positions on the ramp, 0 to 1, to palette indices."""
    return np.rint(np.fmin(np.fmax(shade, 0), 1) * (SHADES - 1)).astype(np.uint8)  # NaN becomes 0


def png(image: np.ndarray, colors: np.ndarray) -> bytes:
    """Encode uint8 indices (height, width) into (at most 256, 3) colors as a palette PNG.

    Run-length compression is ten times as fast as zlib's default search for repetitions, and the file is no larger.
    """
    picture, file = Image.fromarray(image, "P"), io.BytesIO()
    picture.putpalette(colors.tobytes())
    picture.save(file, "PNG", compress_type=zlib.Z_RLE)
    return file.getvalue()


def data_uri(image: np.ndarray, colors: np.ndarray) -> str:
    """Encode an image, see `png`, as a data URI."""
    return "data:image/png;base64," + base64.b64encode(png(image, colors)).decode()


@lru_cache(maxsize=16)
def written_palette(colors: Theme) -> list[str]:
    """Return the palette as hexadecimal colors for a specification."""
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in palette(colors).tolist()]


def color_at(place: float, colors: Theme) -> str:
    """Return the color at a position on the ramp, clipped to 0 to 1."""
    return written_palette(colors)[int(shades(np.array(place)))]


def mixed(color: str, ground: str, share: float) -> str:
    """Blend a color of opacity `share`, 0 to 1, over a background color `ground`."""
    both = zip(rgb(color), rgb(ground), strict=True)
    return "#" + "".join(f"{round(share * top + (1 - share) * below):02x}" for top, below in both)


def readable(ground: str, colors: Theme) -> str:
    """Return the text color or the background color, whichever has more contrast to the color `ground`."""
    light = {color: sum(rgb(color)) for color in (ground, colors.text, colors.background)}
    return max((colors.text, colors.background), key=lambda color: abs(light[color] - light[ground]))
