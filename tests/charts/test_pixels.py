"""Maps as images."""

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from attnviz.charts import pixels, signs
from attnviz.charts.theme import DARK, LIGHT


def read(data):
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def painted(shade, colored=None, blocked=None, nan=None, *, zoom=8):
    shade = np.asarray(shade, float)
    none = np.zeros(shade.shape, int)
    colored = np.ones(shade.shape, bool) if colored is None else np.asarray(colored)
    blocked = none if blocked is None else np.asarray(blocked)
    nan = none > 0 if nan is None else np.asarray(nan)
    sides = {"height": shade.shape[0] * zoom, "width": shade.shape[1] * zoom}
    return pixels.weights(shade, colored, blocked, nan, **sides)


@given(st.integers(1, 40), st.integers(1, 40), st.randoms(use_true_random=False))
def test_a_png_is_read_back_exactly(height, width, random):
    """Any palette image, by another program's reader."""
    image = np.array([[random.randrange(pixels.SHADES) for _ in range(width)] for _ in range(height)], np.uint8)
    colors = pixels.palette(LIGHT)

    assert (read(pixels.png(image, colors)) == colors[image]).all()


def test_each_cell_is_its_own_square():
    image = painted([[0, 1], [0.5, 0.25]], zoom=3)

    assert (image == pixels.shades(np.array([[0, 1], [0.5, 0.25]])).repeat(3, 0).repeat(3, 1)).all()


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
    image = painted(np.zeros((64, 64)), np.zeros((64, 64), bool), np.ones((64, 64), int), zoom=1)
    assert len(np.unique(image)) == 2


def test_a_blocked_cell_is_no_color_of_the_ramp():
    image = painted([[0.0, 0.0]], [[True, False]], [[0, 1]])

    assert (image[:, :8] < pixels.SHADES).all()
    assert (image[:, 8:] >= pixels.SHADES).all()


@given(arrays(np.int64, (5, 7), elements=st.integers(0, 4)), st.lists(st.sampled_from(signs.PATTERNS), min_size=4))
def test_each_reason_is_painted_with_its_pattern(blocked, patterns):
    """In the cells that it blocks, and nowhere else."""
    sides = {"height": 55, "width": 77}
    image = pixels.weights(np.zeros((5, 7)), blocked == 0, blocked, np.zeros((5, 7), bool), patterns, **sides)

    strokes = image == pixels.place("hatch")
    for (i, j), reason in np.ndenumerate(blocked):
        square = slice(11 * i, 11 * i + 11), slice(11 * j, 11 * j + 11)
        expected = signs.strokes(patterns[reason - 1], 55, 77)[square] if reason else np.zeros((11, 11), bool)
        assert (strokes[square] == expected).all()


def test_nan_is_a_cross_at_any_size():
    for zoom in (1, 2, 8):
        image = painted([[np.nan, 0.5]], [[False, True]], None, [[True, False]], zoom=zoom)
        colors = {tuple(color) for color in pixels.palette(LIGHT)[image[:, :zoom]].reshape(-1, 3).tolist()}
        assert (0xA2, 0x1C, 0xAF) in colors  # the theme's warning
        assert len(colors) == (1 if zoom < 3 else 2)
