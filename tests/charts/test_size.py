"""Draw by size."""

from hypothesis import given
from hypothesis import strategies as st

from attnviz.charts.axes import PIXELS, RECTANGLES, SIDE, THINNEST, size_of


@given(st.integers(1, 20_000), st.integers(1, 20_000))
def test_every_map_fits_its_place_and_shows_every_cell(queries, keys):
    """Tiles cover all cells, cells are squares of whole pixels, labels have room."""
    size = size_of(queries, keys)

    assert max(size.width, size.height) <= max(SIDE, 13 * RECTANGLES)
    assert size.rows * size.tile >= queries
    assert size.columns * size.tile >= keys
    assert max(size.rows, size.columns) <= PIXELS
    assert size.cell == int(size.cell) >= 1
    assert size.every * size.cell >= THINNEST or size.form == "rectangles"
