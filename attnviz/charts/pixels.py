"""Maps as images: one palette PNG, cell-exact."""

import base64
import io
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from PIL import Image

from attnviz.charts import hatch
from attnviz.charts.theme import STOPS, Theme

SHADES = 250
"""Steps of the ramp in the palette; the rest of it holds the colors of cells that are no weight."""

_GROUND, _STROKE, _CROSS, _OPEN, _DOT = range(SHADES, SHADES + 5)


@lru_cache(maxsize=16)
def palette(colors: Theme, *, gray: bool = False, grounds: Sequence[str] = ()) -> np.ndarray:
    """RGB colors: the ramp, then the special ones.

    `grounds` stand in place of the first of the ramp; a cross on them has the color of the background.
    """
    stops = np.array([_rgb(color) for color in (gray_ramp(colors) if gray else colors.ramp)])
    ramp = np.stack([np.interp(np.linspace(0, 1, SHADES), STOPS, stops[:, i]) for i in range(3)], 1)
    ramp[: len(grounds)] = np.array([_rgb(color) for color in grounds]).reshape(-1, 3)
    cross = colors.background if grounds else colors.warning
    special = (colors.blocked, colors.hatch, cross, colors.open, colors.dot)
    return np.concatenate([ramp.round(), [_rgb(color) for color in special]]).astype(np.uint8)


def gray_ramp(colors: Theme) -> tuple[str, ...]:
    """The ramp without its colors: of a head that is off."""
    lightness = (round(0.299 * red + 0.587 * green + 0.114 * blue) for red, green, blue in map(_rgb, colors.ramp))
    return tuple(f"#{light:02x}{light:02x}{light:02x}" for light in lightness)


def paint(
    shade: np.ndarray | None,
    colored: np.ndarray,
    blocked: np.ndarray,
    nan: np.ndarray,
    *,
    height: int,
    width: int,
) -> np.ndarray:
    """Palette indices of a map, (height, width), never smaller than its cells; the arrays are (rows, columns).

    Args:
        shade: 0 to 1 on the ramp; None gives all colored cells the color of open cells, with a dot.
        colored: where there is a color; elsewhere is the ground of blocked cells.
        blocked: 0 = may attend, i = blocked by reason i - 1, and hatched.
        nan: cells with a cross.
    """
    index = np.full(colored.shape, _OPEN, np.uint8) if shade is None else shades(shade)
    index[~colored] = _GROUND
    (row, v), (column, u) = _cells(colored.shape[0], height), _cells(colored.shape[1], width)
    spread = np.ix_(row, column)
    image = index[spread]
    patterns = np.where((blocked > 0) & ~nan, (blocked - 1) % hatch.PATTERNS, -1)
    for pattern in np.unique(patterns[patterns >= 0]).tolist():
        image[hatch.strokes(pattern, height, width) & (patterns == pattern)[spread]] = _STROKE
    side = width / colored.shape[1]
    if nan.any():
        cross = np.minimum(abs(u - v[:, None]), abs(u + v[:, None] - 1)) * side < 1
        image[cross & nan[spread]] = _CROSS
    if shade is None and side > 4:
        image[(np.hypot(u - 0.5, v[:, None] - 0.5) < 0.16) & colored[spread]] = _DOT
    return image


def _cells(cells: int, pixels: int) -> tuple[np.ndarray, np.ndarray]:
    """Which cell each pixel is in, and how far across it, 0 to 1."""
    places = (np.arange(pixels) + 0.5) * cells / pixels
    return places.astype(np.intp), places % 1


def shades(shade: np.ndarray) -> np.ndarray:
    """Palette indices of places on the ramp."""
    return (np.nan_to_num(shade).clip(0, 1) * (SHADES - 1)).round().astype(np.uint8)


def png(image: np.ndarray, colors: np.ndarray) -> bytes:
    """A palette PNG of uint8 indices (height, width) into (at most 256, 3) colors."""
    picture, file = Image.fromarray(image, "P"), io.BytesIO()
    picture.putpalette(colors.tobytes())
    picture.save(file, "PNG")
    return file.getvalue()


def data_uri(image: np.ndarray, colors: np.ndarray) -> str:
    return "data:image/png;base64," + base64.b64encode(png(image, colors)).decode()


def color_at(place: float, colors: Theme) -> str:
    """The color of a place on the ramp, 0 to 1; what is outside of it has the color of its end."""
    red, green, blue = palette(colors)[int(shades(np.array(place)))].tolist()
    return f"#{red:02x}{green:02x}{blue:02x}"


def readable(ground: str, colors: Theme) -> str:
    """The color of text, or of the background, whichever stands out more from a ground."""
    light = {color: sum(_rgb(color)) for color in (ground, colors.text, colors.background)}
    return max((colors.text, colors.background), key=lambda color: abs(light[color] - light[ground]))


def _rgb(color: str) -> tuple[int, int, int]:
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))


@lru_cache(maxsize=4)
def ramp_uri(colors: Theme, *, gray: bool = False) -> str:
    """The ramp as an image one pixel high."""
    return data_uri(np.arange(SHADES, dtype=np.uint8)[None], palette(colors, gray=gray))
