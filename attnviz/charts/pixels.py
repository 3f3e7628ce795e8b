"""Maps as images: one palette PNG, cell-exact."""

import base64
import io
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from PIL import Image

from attnviz.charts import signs
from attnviz.charts.theme import STOPS, Theme

SHADES = 248
"""Steps of the ramp in the palette; the rest of it holds the colors of cells that are no weight."""

NAMED = ("blocked", "hatch", "warning", "open", "dot", "leak", "background")
"""Colors of a theme that stand behind the ramp, by their names."""


def place(name: str) -> int:
    """The palette index of a named color."""
    return SHADES + NAMED.index(name)


@lru_cache(maxsize=16)
def palette(colors: Theme) -> np.ndarray:
    """RGB colors: the ramp, then those with names."""
    stops = np.array([rgb(color) for color in colors.ramp])
    ramp = np.stack([np.interp(np.linspace(0, 1, SHADES), STOPS, stops[:, i]) for i in range(3)], 1)
    return np.concatenate([ramp.round(), [rgb(getattr(colors, name)) for name in NAMED]]).astype(np.uint8)


def gray_ramp(colors: Theme) -> tuple[str, ...]:
    """The ramp without its colors: of a head that is off."""
    lightness = (round(0.299 * red + 0.587 * green + 0.114 * blue) for red, green, blue in map(rgb, colors.ramp))
    return tuple(f"#{light:02x}{light:02x}{light:02x}" for light in lightness)


Mark = tuple[int | str, np.ndarray, str]
"""Strokes, of `signs.PATTERNS`, a "cross" or a "dot"; on which cells, (rows, columns); a color of `NAMED`."""


def paint(ground: np.ndarray, marks: Iterable[Mark], *, height: int, width: int, scale: int = 1) -> np.ndarray:
    """Palette indices of a map, (height, width), never smaller than its cells.

    Args:
        ground: the palette index of each cell, (rows, columns).
        marks: what is drawn on cells.
        scale: pixels of the image for one on the screen: strokes are as thick there, and as far apart.
    """
    (row, v), (column, u) = _cells(ground.shape[0], height), _cells(ground.shape[1], width)
    image, v, side = ground[:, column][row], v[:, None], width / ground.shape[1]  # an axis at a time: far less work
    for sign, cells, color in marks:
        if not cells.any():
            continue
        if sign == "cross":
            strokes = np.minimum(abs(u - v), abs(u + v - 1)) * side < 1
        elif sign == "dot":
            strokes = (np.hypot(u - 0.5, v - 0.5) < 0.16) & (side > 4)
        else:
            strokes = signs.strokes(sign, height, width, scale=scale)
        image[strokes & cells[:, column][row]] = place(color)
    return image


def weights(
    shade: np.ndarray,
    colored: np.ndarray,
    blocked: np.ndarray,
    nan: np.ndarray,
    patterns: Sequence[int] = (),
    **sides: int,
) -> np.ndarray:
    """Palette indices of a map of numbers; the arrays are (rows, columns).

    Args:
        shade: 0 to 1 on the ramp.
        colored: where there is a color; elsewhere is the ground of blocked cells.
        blocked: 0 = may attend, i = blocked by reason i - 1, and hatched.
        nan: cells with a cross.
        patterns: strokes of each reason, of `signs.PATTERNS`; those of the built-in mask if there are none.
        sides: `height` and `width` in pixels.
    """
    ground = np.where(colored, shades(shade), place("blocked")).astype(np.uint8)
    codes = np.where(nan, 0, blocked)
    reasons = np.flatnonzero(np.bincount(codes.ravel())[1:]).tolist()
    marks = [(patterns[i] if patterns else signs.MODEL, codes == i + 1, "hatch") for i in reasons]
    return paint(ground, [*marks, ("cross", nan, "warning")] if nan.any() else marks, **sides)


def _cells(cells: int, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """Which cell each pixel is in, and how far across it, 0 to 1."""
    places = (np.arange(pixels) + 0.5) * cells / pixels
    return places.astype(np.intp), places % 1


def shades(shade: np.ndarray) -> np.ndarray:
    """Palette indices of places on the ramp."""
    return np.rint(np.fmin(np.fmax(shade, 0), 1) * (SHADES - 1)).astype(np.uint8)  # of NaN the first


def png(image: np.ndarray, colors: np.ndarray) -> bytes:
    """A palette PNG of uint8 indices (height, width) into (at most 256, 3) colors.

    Of runs alone it is made ten times as fast as with zlib's own search for what comes again, and no larger.
    """
    picture, file = Image.fromarray(image, "P"), io.BytesIO()
    picture.putpalette(colors.tobytes())
    picture.save(file, "PNG", compress_type=zlib.Z_RLE)
    return file.getvalue()


def data_uri(image: np.ndarray, colors: np.ndarray) -> str:
    return "data:image/png;base64," + base64.b64encode(png(image, colors)).decode()


def hexadecimal(palette: np.ndarray) -> list[str]:
    """Colors as they are written in a specification."""
    return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in palette.tolist()]


@lru_cache(maxsize=16)
def written_palette(colors: Theme) -> list[str]:
    """The palette as its colors are written in a specification."""
    return hexadecimal(palette(colors))


def color_at(place: float, colors: Theme) -> str:
    """The color of a place on the ramp, 0 to 1; what is outside of it has the color of its end."""
    return written_palette(colors)[int(shades(np.array(place)))]


def mixed(color: str, ground: str, share: float) -> str:
    """A color over a ground that it covers by a share, 0 to 1."""
    both = zip(rgb(color), rgb(ground), strict=True)
    return hexadecimal(np.array([[round(share * top + (1 - share) * below) for top, below in both]]))[0]


def readable(ground: str, colors: Theme) -> str:
    """The color of text, or of the background, whichever stands out more from a ground."""
    light = {color: sum(rgb(color)) for color in (ground, colors.text, colors.background)}
    return max((colors.text, colors.background), key=lambda color: abs(light[color] - light[ground]))


def rgb(color: str) -> tuple[int, int, int]:
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))
