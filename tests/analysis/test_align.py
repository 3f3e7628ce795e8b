"""Two maps on one grid: which tokens belong together, what moved, and long maps as short ones."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pictures import SITE, record_of

from attnviz import api, figures
from attnviz.analysis import BLOCKED, WEIGHT, blocks, sentences, tables
from attnviz.analysis import align as module
from attnviz.analysis.align import BLANK, SAME, AlignedPair, Side, align, beside, first_changed
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.masks import Full, Painted, Subsequent, Window

ROWS = st.lists(st.sampled_from("a b c d".split()), max_size=8)
LONG = ["a", "b", "a", "c", "d", "b", "a", "e", "f", "g", "a"]
EDITS = [
    Edits(),
    Edits(mask=Subsequent()),
    Edits(mask=Window(2, 1), temperature=0.5),
    Edits(mask=Painted(tuple((4, key) for key in range(11)))),
]
sides = st.builds(
    lambda edits, head: Side(record_of(LONG, edits=edits), SITE, head),
    st.sampled_from(EDITS),
    st.sampled_from([0, 1, "mean", "max"]),
)


EMPTY_ROW = Side(record_of(LONG, edits=EDITS[3]), SITE, 0)


def pair(a: list[str], b: list[str], edits: Edits = Edits()) -> AlignedPair:
    """Heads 0 of A and 1 of B."""
    return beside(Side(record_of(a, edits=edits), SITE, 0), Side(record_of(b, edits=edits), SITE, 1))


@given(ROWS, ROWS)
def test_every_token_has_one_place_in_the_order_of_both(one, other):
    """Equal rows are paired token by token."""
    places = align(one, other)

    assert [i for i, _ in places if i is not None] == list(range(len(one)))
    assert [j for _, j in places if j is not None] == list(range(len(other)))
    assert (None, None) not in places
    if one == other:
        assert places == tuple((i, i) for i in range(len(one)))


@given(ROWS.filter(bool), ROWS.filter(bool), st.sampled_from(EDITS[:3]))
def test_variation_is_that_of_distributions_on_one_grid(one, other, edits):
    """Half of what the weights of all keys differ, 0 to 1; the keys that only one map has are one more."""
    try:
        found = pair(one, other, edits)
    except InputError:
        return
    in_a, in_b = zip(*(place for place in found.columns if None not in place), strict=True)
    a, b = (side.step.weights(side.head).double() for side in (found.a, found.b))
    for (i, j), variation in zip(found.rows, found.variation, strict=True):
        if i is None or j is None:
            assert np.isnan(variation)
        else:
            p, q = a[i][list(in_a)], b[j][list(in_b)]
            assert variation == pytest.approx(float((p - q).abs().sum() + (p.sum() - q.sum()).abs()) / 2, abs=1e-6)
            assert 0 <= variation <= 1 + SAME


def test_sentences_are_compared_where_their_tokens_belong_together():
    """A word that was put in is blank in A; what looks at it counts as one more key. Padding has no place."""
    batch = api.analyze(["a b c d", "a b x c d e"], api.load("constructed"))
    found = beside(*(Side(batch, Site("decoder", 0), 0, sentence) for sentence in (0, 1)))

    assert found.rows == ((0, 0), (1, 1), (None, 2), (2, 3), (3, 4), (None, 5))
    assert found.variation.tolist() == pytest.approx([0, 0, np.nan, 1, 0, np.nan], abs=1e-4, nan_ok=True)
    assert found.difference[3, 1] == pytest.approx(1, abs=1e-4)
    assert (found.maps[0][1][2] == BLANK).all()
    assert beside(*[Side(batch, Site("decoder", 0), 0)] * 2).maps[0][0].shape == (4, 4)


@given(
    a=sides,
    b=sides,
    tile=st.integers(1, 6),
    block=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    rows=st.tuples(st.integers(0, 5), st.integers(6, 11)),
    columns=st.tuples(st.integers(0, 5), st.integers(6, 11)),
)
@example(a=EMPTY_ROW, b=EMPTY_ROW, tile=1, block=(2, 3), rows=(0, 8), columns=(0, 11))
def test_a_tile_of_a_difference_is_its_largest_cell_with_its_sign(a, b, tile, block, rows, columns):
    """Also in a window; both maps, blocked cells and moved rows are those of the whole maps."""
    every, rows, columns = beside(a, b), slice(*rows), slice(*columns)
    part = every.part(rows, columns)
    assert every.tile == 1
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(blocks, "HEIGHT", block[0])
        patched.setattr(blocks, "WIDTH", block[1])
        patched.setattr(module, "MOST_CELLS", 1)
        patched.setattr(module, "TILES", 4)
        long = beside(a, b)
        assert long.tile == 3
        assert long.most_changed_row == every.most_changed_row
        assert np.allclose(long.variation, every.variation, atol=1e-5, equal_nan=True)
        area = long.part(rows, columns)
        found, window = area.tiled(tile), module.compare_in_tiles(*area.measure_arguments(tile))[1]
        cell = long.tiled(3)[2][0]

    assert not (window > every.variation[rows] + 1e-5).any()  # keys outside count as one
    for (numbers, states), (expected, expected_states) in zip(found, part.tiled(tile), strict=True):
        assert np.allclose(np.abs(numbers), np.abs(expected), atol=1e-6, equal_nan=True)
        assert (states == expected_states).all()
    for (i, j), number in np.ndenumerate(found[2][0]):
        square = part.difference[i * tile : (i + 1) * tile, j * tile : (j + 1) * tile]
        assert np.isclose(square, number, atol=1e-6).any()
        assert abs(number) == pytest.approx(np.abs(square).max(), abs=1e-6)
    assert np.abs(cell).max() == pytest.approx(np.abs(every.difference).max(), abs=1e-6)


def test_words_and_numbers_of_a_long_comparison_are_those_of_a_short_one(monkeypatch):
    """The cell that differs most, too; the table keeps the cells of each row that differ most."""
    a, b = (Side(record_of(LONG), SITE, head) for head in (0, 1))
    short = beside(a, b)
    said, cell, most = sentences.compared(short), short.most_changed_cell, np.abs(short.difference).max(1)
    monkeypatch.setattr(module, "MOST_CELLS", 36)
    monkeypatch.setattr(module, "TILES", 3)
    monkeypatch.setattr(tables, "MOST_CELLS", 40)
    monkeypatch.setattr(blocks, "BLOCK", 30)
    long = beside(a, b)

    table = tables.comparison_table(long)

    assert long.tile == 4
    assert long.most_changed_cell == long.largest_in(cell[0] // 4, cell[1] // 4, 4) == cell
    assert sentences.compared(long) == said
    assert len(table) == 33
    assert "the 3 of each query that differ most" in table.attrs["note"]
    assert table.groupby("query_a")["difference"].first().abs().tolist() == pytest.approx(most.tolist(), abs=1e-6)
    assert figures.difference(long).arrays["difference"].shape == (3, 3)
    with pytest.raises(InputError, match="too large to compare"):  # their tokens have other places
        pair(LONG, [*LONG[:-1], "z"])


def test_a_square_is_blank_or_blocked_only_where_every_cell_is():
    """One of its cells that both have, or may look at, gives it its number; 'new' is only in B."""
    found = pair("a b c d".split(), "a b new c d".split(), Edits(mask=Subsequent()))
    signs = [[states.tolist() for _, states in found.tiled(tile)] for tile in (1, 2)]

    assert np.array(signs[0][2])[2].tolist() == [BLANK] * 5
    assert np.array(signs[0][2])[:, 2].tolist() == [BLANK] * 5
    assert signs[1][2] == [[0, BLOCKED, BLOCKED], [0, 0, BLOCKED], [0, 0, 0]]
    assert found.tiled(9)[0][1].tolist() == [[0]]
    (_, in_a), (_, in_b), (_, both) = beside(Side(record_of(LONG, edits=EDITS[1]), SITE, 0), EMPTY_ROW).tiled(1)
    assert (in_a[0, 1], in_b[0, 1], both[0, 1]) == (BLOCKED, WEIGHT, WEIGHT)


def test_a_head_that_is_off_moves_the_weights_of_later_layers_alone():
    """Its own layer computes its weights before; no layer comes after the last. Another text is a change."""
    before = api.analyze("the cat sat", "story")
    first, last = (api.analyze("the cat sat", "story", Edits(heads_off={(Site("decoder", i), 0)})) for i in (0, 1))

    site, head = first_changed(before, first)
    assert site == Site("decoder", 1)
    moved = [float((first.step(site).weights(i) - before.step(site).weights(i)).abs().max()) for i in range(2)]
    assert moved[head] == max(moved) > 0
    assert first_changed(before, first, least=1.0) is None
    assert first_changed(before, last) is None
    assert first_changed(before, api.analyze("the cat sat", "story", Edits(~Full())))[0] == Site("decoder", 0)
    assert first_changed(before, api.analyze("the dog ran", "story")) == (Site("decoder", 0), 0)
