"""Strokes of blocked cells, as vector shapes and as pixels: by the built-in mask, by padding, by a person's rule.

Vega-Lite has no pattern fills. A stroke pattern is therefore the shape of a point mark as large as its cell; the shapes
continue over the edges of their cells, so a blocked area is hatched as one.
"""

from functools import lru_cache

import numpy as np

PERIOD = 8
"""About how many pixels lie between two strokes."""

CROSS = "M-0.45,-0.45L0.45,0.45M-0.45,0.45L0.45,-0.45"
"""Not a number."""

DASH = "M-0.35,0L0.35,0"
"""Minus infinity."""

DOT = "M-0.14,0A0.14,0.14,0,1,1,0.14,0A0.14,0.14,0,1,1,-0.14,0"
DOT_STROKE = 0.14
"""May attend: a circle whose stroke, this share of its cell's side, fills it to a disc."""

DISC = "".join(f"M-{r},0A{r},{r},0,1,1,{r},0A{r},{r},0,1,1,-{r},0" for r in (0.06, 0.14, 0.22))
"""The same as strokes of one pixel."""

RING = "M-0.3,0A0.3,0.3,0,1,1,0.3,0A0.3,0.3,0,1,1,-0.3,0"
"""May attend, and nothing came of it."""

PATTERNS = MODEL, PADDING, YOURS = range(3)
"""Strokes of a cell: slanted, level, and slanted both ways. A cell that several rules block has the first of theirs."""


def shape(pattern: int, side: float) -> str:
    """Strokes as an SVG path in a box from -1 to 1, drawn `side` pixels wide."""
    count = max(1, round(side / (PERIOD * 1.4)))
    if pattern == PADDING:
        places = [-1 + (2 * i + 1) / count for i in range(count)]
        return "".join(f"M-1,{p:g}L1,{p:g}" for p in places)
    return _diagonals(count) + (_diagonals(count, -1) if pattern == YOURS else "")


@lru_cache(maxsize=8)
def strokes(pattern: int, height: int, width: int, *, scale: int = 1) -> np.ndarray:
    """Pixels of strokes in an image `scale` times as large, boolean (height, width)."""
    y, x = np.ogrid[:height, :width]
    wide = 2 * round(PERIOD * 0.7) * scale
    if pattern == PADDING:
        return np.broadcast_to(y % wide < scale, (height, width))
    down, up = ((x + way * y) % wide < scale for way in (1, -1))
    return down | up if pattern == YOURS else down


def _diagonals(count: int, way: int = 1) -> str:
    """Lines x + y = c through the box, `count` of them crossing each of its edges; mirrored if `way` is -1."""
    path = ""
    for i in range(1, 2 * count):
        c = -2 + 2 * i / count
        (x1, y1), (x2, y2) = (max(-1, c - 1), min(1, c + 1)), (min(1, c + 1), max(-1, c - 1))
        path += f"M{x1:g},{way * y1:g}L{x2:g},{way * y2:g}"
    return path
