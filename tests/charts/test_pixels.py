"""Maps as images."""

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from attnviz.charts import pixels, signs
from attnviz.charts.signs import CellState
from attnviz.charts.theme import DARK, LIGHT

WEIGHT, NAN = CellState("weight", "ramp"), CellState("NaN", "blocked", "cross")
RULES = [CellState("", "blocked", "hatch", ((pattern, ""),)) for pattern in signs.PATTERNS]


def painted(states, shade, *, zoom=8):
    """The image of cells that are weights, have no number, or are blocked in one of three ways."""
    states = np.asarray(states)
    sides = {"height": states.shape[0] * zoom, "width": states.shape[1] * zoom}
    return pixels.paint(states, [WEIGHT, NAN, *RULES], np.asarray(shade, float), **sides)


@given(st.integers(1, 40), st.integers(1, 40), st.randoms(use_true_random=False))
def test_a_png_is_read_back_exactly(height, width, random):
    """Any palette image, by another program's reader."""
    image = np.array([[random.randrange(pixels.SHADES) for _ in range(width)] for _ in range(height)], np.uint8)
    colors = pixels.palette(LIGHT)

    read = np.asarray(Image.open(io.BytesIO(pixels.png(image, colors))).convert("RGB"))

    assert (read == colors[image]).all()


def test_the_ramp_goes_evenly_from_light_to_dark_and_from_dark_to_light():
    """Lightness never turns back, so the order of weights can be seen, in print and by everybody."""
    for colors, direction in ((LIGHT, -1), (DARK, 1)):
        gray = pixels.palette(colors)[: pixels.SHADES].astype(float) @ [0.2126, 0.7152, 0.0722]
        assert (np.diff(gray) * direction > -1.5).all()


def test_every_pattern_has_strokes_of_its_own():
    """Blocked areas differ without color, whatever their size, down to a pixel per cell."""
    patterns = [signs.strokes(pattern, 64, 64) for pattern in signs.PATTERNS]

    assert all(0.05 < pattern.mean() < 0.4 for pattern in patterns)
    assert all((a != b).any() for i, a in enumerate(patterns) for b in patterns[:i])
    assert len(np.unique(painted(np.full((64, 64), 2), np.zeros((64, 64)), zoom=1))) == 2


@given(arrays(np.int64, (5, 7), elements=st.sampled_from([0, 2, 3, 4])))
def test_each_blocked_cell_has_its_strokes_and_no_color_of_the_ramp(states):
    """And no other cell has any."""
    image = painted(states, np.zeros((5, 7)), zoom=11)

    strokes = image == pixels.palette_index("hatch")
    for (i, j), state in np.ndenumerate(states):
        square = slice(11 * i, 11 * i + 11), slice(11 * j, 11 * j + 11)
        expected = signs.strokes(signs.PATTERNS[state - 2], 55, 77)[square] if state else np.zeros((11, 11), bool)
        assert (strokes[square] == expected).all()
        assert ((image[square] < pixels.SHADES) == (state == 0)).all()


def test_nan_is_a_cross_at_any_size():
    for zoom in (1, 2, 8):
        image = painted([[1, 0]], [[np.nan, 0.5]], zoom=zoom)
        colors = {tuple(color) for color in pixels.palette(LIGHT)[image[:, :zoom]].reshape(-1, 3).tolist()}
        assert (0xA2, 0x1C, 0xAF) in colors  # the theme's warning
        assert len(colors) == (1 if zoom < 3 else 2)
