"""Maps as images: one palette PNG, cell-exact, written with nothing but zlib."""

import base64
import struct
import zlib

import numpy as np

from attnviz.charts import hatch
from attnviz.charts.theme import STOPS, Theme
from attnviz.metrics import BLOCKED, EMPTY, NAN

SHADES = 250
"""Steps of the ramp in the palette; the rest of it holds the colors of cells that are no weight."""

_GROUND, _STROKE, _CROSS_GROUND, _CROSS, _OFF, _OPEN = range(SHADES, SHADES + 6)


def palette(colors: Theme, *, gray: bool = False) -> np.ndarray:
    """256 RGB colors: the ramp, then the special ones."""
    stops = np.array([_rgb(color) for color in colors.ramp])
    ramp = np.stack([np.interp(np.linspace(0, 1, SHADES), STOPS, stops[:, i]) for i in range(3)], 1)
    if gray:
        ramp = np.repeat(ramp @ [[0.299], [0.587], [0.114]], 3, axis=1)
    special = (colors.blocked, colors.hatch, colors.blocked, colors.warning, colors.background, colors.open)
    return np.concatenate([ramp.round(), [_rgb(color) for color in special]]).astype(np.uint8)


def paint(shade: np.ndarray, states: np.ndarray, blocked: np.ndarray, *, zoom: int) -> np.ndarray:
    """Palette indices of a map, (rows * zoom, columns * zoom).

    Args:
        shade: (rows, columns), 0 to 1 on the ramp.
        states: as in `metrics.Cells`.
        blocked: 0 = may attend, i = blocked by reason i - 1.
        zoom: device pixels per side of a cell.
    """
    index = (np.nan_to_num(shade).clip(0, 1) * (SHADES - 1)).round().astype(np.uint8)
    index[(states == BLOCKED) | ((states == EMPTY) & (np.nan_to_num(shade) == 0))] = _GROUND
    nan = (states == NAN) | np.isnan(shade)
    index[nan] = _CROSS_GROUND
    image = index.repeat(zoom, 0).repeat(zoom, 1)
    for reason in np.unique(blocked[blocked > 0]):
        area = (blocked == reason) & ~nan
        pattern = hatch.strokes(int(reason) - 1, *image.shape)
        image[pattern & area.repeat(zoom, 0).repeat(zoom, 1)] = _STROKE
    if nan.any():
        cross = np.ones((1, 1), bool) if zoom < 3 else np.eye(zoom, dtype=bool) | np.eye(zoom, dtype=bool)[::-1]
        image[np.tile(cross, nan.shape) & nan.repeat(zoom, 0).repeat(zoom, 1)] = _CROSS
    return image


def png(image: np.ndarray, colors: np.ndarray) -> bytes:
    """A palette PNG of uint8 indices (height, width) into (256, 3) colors."""
    height, width = image.shape
    raw = np.zeros((height, width + 1), np.uint8)
    raw[:, 1:] = image
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", colors.tobytes()),
        (b"IDAT", zlib.compress(raw.tobytes(), 6)),
        (b"IEND", b""),
    )
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def data_uri(image: np.ndarray, colors: np.ndarray) -> str:
    return "data:image/png;base64," + base64.b64encode(png(image, colors)).decode()


def _rgb(color: str) -> tuple[int, int, int]:
    return tuple(int(color[i : i + 2], 16) for i in (1, 3, 5))
