"""What a cell that is no weight looks like: each reason has its own strokes, as vector shapes and as pixels.

Vega-Lite has no pattern fills. A stroke pattern is therefore the shape of a point mark as large as its cell; the shapes
continue over the edges of their cells, so a blocked area is hatched as one.
"""

import numpy as np

DIAGONAL = "M-1,0L0,-1M-1,1L1,-1M0,1L1,0"
BACK = "M-1,0L0,1M-1,-1L1,1M0,-1L1,0"
VERTICAL = "M-0.5,-1L-0.5,1M0.5,-1L0.5,1"
HORIZONTAL = "M-1,-0.5L1,-0.5M-1,0.5L1,0.5"
CROSSED = "M-1,0L0,-1L1,0L0,1Z"
GRID = "M0,-1L0,1M-1,0L1,0"
SHAPES = (DIAGONAL, BACK, VERTICAL, HORIZONTAL, CROSSED, GRID)
"""SVG paths in a box from -1 to 1, one per reason; a seventh reason begins again."""

CROSS = "M-0.45,-0.45L0.45,0.45M-0.45,0.45L0.45,-0.45"
"""Not a number."""

DOT = "M-0.22,0A0.22,0.22,0,1,1,0.22,0A0.22,0.22,0,1,1,-0.22,0"
"""May attend."""

PERIOD = 8
"""Pixels from stroke to stroke in an image."""


def shapes(count: int) -> list[str]:
    """The shapes of the first `count` reasons."""
    return [SHAPES[i % len(SHAPES)] for i in range(count)]


def strokes(reason: int, height: int, width: int, *, period: int = PERIOD, thick: int = 1) -> np.ndarray:
    """Where the pattern of a reason (counted from 0) has a stroke, boolean (height, width)."""
    y, x = np.ogrid[:height, :width]
    down, up = (x + y) % period < thick, (x - y) % period < thick
    upright, level = (x + 0 * y) % period < thick, (y + 0 * x) % period < thick
    return (down, up, upright, level, down | up, upright | level)[reason % len(SHAPES)]
