"""Two long maps are compared block by block as two short ones are at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import SITE, record_of

from attnviz import figures, metrics, tables, words
from attnviz.core.edits import Edits
from attnviz.core.masks import Painted, Subsequent, Window
from attnviz.metrics import beside, stream
from attnviz.metrics.beside import Side

WORDS = ["a", "b", "a", "c", "d", "b", "a", "e", "f", "g", "a"]
EDITS = [
    Edits(),
    Edits(mask=Subsequent()),
    Edits(mask=Window(2, 1), temperature=0.5),
    Edits(mask=Painted(tuple((4, key) for key in range(11)))),
]
sides = st.builds(
    lambda edits, head: Side(record_of(WORDS, edits=edits), SITE, head),
    st.sampled_from(EDITS),
    st.sampled_from([0, 1, "mean", "max"]),
)


@given(
    a=sides,
    b=sides,
    tile=st.integers(1, 6),
    block=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    rows=st.tuples(st.integers(0, 5), st.integers(6, 11)),
    columns=st.tuples(st.integers(0, 5), st.integers(6, 11)),
)
def test_a_tile_of_a_difference_is_its_largest_cell_with_its_sign(a, b, tile, block, rows, columns):
    """Of a window, too; A and B, what is blocked and how far rows moved are those of the whole maps."""
    every = beside.beside(a, b)
    rows, columns = slice(*rows), slice(*columns)
    part = every.part(rows, columns)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stream, "HEIGHT", block[0])
        patched.setattr(stream, "WIDTH", block[1])
        patched.setattr(beside, "MOST_CELLS", 1)
        long = beside.beside(a, b)
        assert long.is_long
        assert long.most_row == every.most_row
        assert np.allclose(long.variation, every.variation, atol=1e-5, equal_nan=True)
        found, cell = long.part(rows, columns).tiled(tile), long.most_cell

    for (numbers, states), (expected, expected_states) in zip(found, part.tiled(tile), strict=True):
        assert np.allclose(np.abs(numbers), np.abs(np.nan_to_num(expected)), atol=1e-6)
        assert (states == expected_states).all()
    apart = np.abs(part.difference)
    for i, row in enumerate(found[2][0]):
        for j, number in enumerate(row):
            square = slice(i * tile, (i + 1) * tile), slice(j * tile, (j + 1) * tile)
            assert np.isclose(part.difference[square], number, atol=1e-6).any()
            assert abs(number) == pytest.approx(apart[square].max(), abs=1e-6)
    if cell is not None:
        assert abs(every.difference[cell]) == pytest.approx(np.abs(every.difference).max(), abs=1e-6)


def test_words_and_numbers_of_a_long_comparison_are_those_of_a_short_one(monkeypatch):
    """The table keeps the cells of each row that differ most."""
    a, b = (Side(record_of(WORDS), SITE, head) for head in (0, 1))
    short = beside.beside(a, b)
    said, most = words.compared(short), np.abs(short.difference).max(1)
    monkeypatch.setattr(beside, "MOST_CELLS", 1)
    monkeypatch.setattr(tables, "MOST_CELLS", 40)
    monkeypatch.setattr(metrics.blocks, "BLOCK", 30)
    long = beside.beside(a, b)

    table = tables.comparison_table(long)

    assert words.compared(long) == said
    assert len(table) == 33
    assert "the 3 of each query that differ most" in table.attrs["note"]
    assert table.groupby("query_a")["difference"].first().abs().tolist() == pytest.approx(most.tolist(), abs=1e-6)
    assert figures.difference(long).arrays["difference"].shape == (11, 11)


def test_two_long_texts_that_differ_are_refused(monkeypatch):
    """Their tokens have other places, and so the maps would have to be held."""
    monkeypatch.setattr("attnviz.metrics.compare.MOST_CELLS", 20)
    monkeypatch.setattr(beside, "MOST_CELLS", 20)
    a, b = (Side(record_of(words), SITE, 0) for words in (WORDS, [*WORDS[:-1], "z"]))

    with pytest.raises(beside.InputError, match="too large to compare"):
        beside.beside(a, b)
