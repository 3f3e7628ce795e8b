"""Draw by size."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import SITE, record_of

from attnviz import figures
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


@pytest.mark.parametrize(("count", "row_sums"), [(2, False), (9, False), (24, False), (16, True)])
def test_a_map_of_few_tokens_fits_the_width_it_is_given(count, row_sums):
    """With its labels and what stands at the ends of its rows; cells stay 11 pixels wide."""
    words = [f"w{i}" for i in range(count)]
    figures_of = (figures.head(record_of(words), SITE, 0, width=width, row_sums=row_sums) for width in (None, 358))
    wide, fits = (figure.chart.to_dict() for figure in figures_of)

    assert fits["width"] >= 11 * count
    labels = 7.25 * (len(words[-1]) + row_sums * len("row sum")) + 32 + row_sums * 12
    assert fits["width"] + labels <= 358  # a preset leaves no margin around it
    assert fits["width"] <= wide["width"]
