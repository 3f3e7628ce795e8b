"""What a grid is: every kind of mask is recognized with its numbers, alone, with padding, and with a mistake in it."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from attnviz.core.explain import PLAIN, Judgement, judge, near, words
from attnviz.core.masks import (
    BlockDiffusion,
    Blocks,
    Dilated,
    Documents,
    Fixed,
    Full,
    Global,
    Media,
    Neighborhood,
    Padding,
    Prefix,
    Random,
    Strided,
    Subsequent,
    Window,
)
from attnviz.core.masks.published import BY_NAME, PUBLISHED

SIZES = st.integers(5, 14)
N = 12

EXAMPLES = {
    "full": Full(),
    "causal": Subsequent(),
    "causal-window": Window(3),
    "window": Window(2, 2),
    "prefix-lm": Subsequent() | Prefix(4),
    "documents": Documents((5, 3, 4)),
    "causal-documents": Subsequent() & Documents((5, 3, 4)),
    "sinks": Subsequent() & (Window(2) | Prefix(2)),
    "longformer": Window(1, 1) | Global((0, 5)),
    "causal-global": Subsequent() & (Window(2) | Global((3, 6))),
    "dilated": Dilated(2, 2, 2),
    "strided": Strided(4),
    "fixed": Fixed(4, 1),
    "blocks": Blocks(3, 1, 1, 1),
    "bigbird": Window(1, 1) | Global((0,)) | Random(2, N, 3),
    "block-causal": Blocks(4, N, 0),
    "causal-blocks": Subsequent() & Blocks(3, 1, 0),
    "neighborhood": Neighborhood(5, N),
    "media": Media((1, 6), 6),
    "block-diffusion": BlockDiffusion(2, N // 2),
    "images": Subsequent() | Documents((1, 1, 4, 1, 1, 3, 1)),
    "look-ahead": Subsequent(3),
    "others": ~Window(0, 0),
}


WITHOUT_A_TRACE = {("bigbird", "transposed"), ("media", "transposed"), ("others", "inverted")}
"""Other random keys, packed documents beside padding, and a window of each query alone: right masks themselves."""


def grids(mask, mistake):
    grid = mask.grid(N)
    return [{"": grid, "inverted": ~grid, "transposed": grid.T}[mistake]]


def test_every_kind_has_an_example():
    assert set(EXAMPLES) == {kind.name for kind in PUBLISHED}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("mistake", ["", "inverted", "transposed"])
def test_every_kind_is_recognized_with_a_mistake_or_without(name, mistake):
    """And the mask that was meant is given back, cell by cell; turned, a symmetric one is as right as before."""
    mask = EXAMPLES[name]
    found = judge(grids(mask, mistake))

    if (name, mistake) in WITHOUT_A_TRACE:
        assert not found.mistake
        return
    turned = mistake == "transposed" and torch.equal(mask.grid(N), mask.grid(N).T)
    assert found.is_exact
    assert found.mistake == ("" if turned else mistake)
    assert found.explanations[0].kind.name == name
    if name != "bigbird":
        assert torch.equal(found.explanations[0].grid(), mask.grid(N))


@given(
    mask=st.sampled_from([Subsequent(), Window(2), Window(1, 1), Documents((3, 2, 9)), Subsequent() | Prefix(2)]),
    n=SIZES,
    real=st.integers(3, 13),
    left=st.booleans(),
)
def test_padding_stands_beside_every_kind(mask, n, real, left):
    """On either side; and joined to a mask that was inverted before, or inverted with it."""
    assume(4 <= real < n)
    assume(not (left and isinstance(mask, Documents)))  # whole documents may be padding then, and nobody sees them
    padding = Padding((real,), n if left else None)
    if isinstance(mask, Documents):
        mask = Documents((3, 2, n - 5))

    for grid in ((mask & padding).grid(n), (~mask & padding).grid(n), (~(mask & padding)).grid(n)):
        found = judge([grid])
        assert found.is_certain
        right = torch.equal(grid, (mask & padding).grid(n))
        assert found.mistake == ("" if right else "inverted")
        assert not right or torch.equal(found.explanations[0].grid(), grid)


@given(queries=st.integers(3, 8), more=st.integers(1, 8), before=st.integers(1, 4))
def test_both_alignments_are_known(queries, more, before):
    """With a cache the last rows of a mask are all there is of it."""
    keys = queries + more
    for mask in (Subsequent(), Window(before)):
        for alignment in ("top-left", "bottom-right"):
            grid = mask.aligned(queries, keys, alignment).grid(queries, keys)
            found = judge([grid])
            assert (found.is_certain, found.mistake) == (True, "")
    assert judge([~Subsequent(more).grid(queries, keys)]).mistake == "inverted"


@given(n=st.integers(6, 14), data=st.data())
def test_one_wrong_cell_hides_no_kind(n, data):
    """What all other cells make up is found, and the cell is named."""
    mask = data.draw(st.sampled_from([Subsequent(), Window(2, 2), Documents((n // 2, n - n // 2)), Strided(3)]))
    grid = mask.grid(n)
    query, key = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, n - 1))
    grid[query, key] ^= True
    found = judge([grid])

    assert found.explanations
    if not found.is_exact:
        assert [one.wrong.nonzero().tolist() for one in found.explanations] == [[[query, key]]]
        assert torch.equal(found.explanations[0].grid(), mask.grid(n))


@given(n=st.integers(5, 9), share=st.sampled_from([0.3, 0.5, 0.7]), seed=st.integers(0, 10**6))
def test_of_random_cells_nothing_is_said(n, share, seed):
    """They take as many bits described by any kind as cell by cell."""
    grid = torch.rand(n, n, generator=torch.Generator().manual_seed(seed)) < share

    assert judge([grid]).mistake == ""
    assert not judge([grid]).is_certain or n < 6


@given(n=st.integers(3, 9), padding=st.none() | st.integers(2, 9), is_causal=st.booleans(), data=st.data())
def test_a_plain_mask_that_is_close_differs_in_the_cells_that_are_named(n, padding, is_causal, data):
    """With them turned around, the grid is a plain mask to the last cell; which are named are counted."""
    plain = (Subsequent() if is_causal else Full()) & (Full() if padding is None else Padding((padding,)))
    grid, places = plain.grid(n), st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))
    for place in data.draw(st.sets(places, max_size=3)):
        grid[place] ^= True
    close = near([grid], Judgement())

    for one in close.explanations:
        exact = judge([grid ^ one.wrong])
        assert one.wrong.any()
        assert torch.equal(grid ^ one.wrong, one.grid())
        assert exact.is_exact
        assert exact.explanations[0].kind in PLAIN
        said = words.near(one)
        for query, key in one.wrong.nonzero().tolist()[: words.MOST_NAMED]:
            assert f"query {query} {'sees' if grid[query, key] else 'may not see'} key {key}" in said
    assert not near([plain.grid(n)], Judgement()).explanations


def test_grids_that_were_made_in_the_same_way_have_the_same_mistake():
    """Alone the padding of the shorter sentence may stand on the left; beside a sentence without any it cannot."""
    whole, part = (~Padding((length,)).grid(1, 5) for length in (5, 3))

    assert judge([part]).mistake == ""
    assert "inverted" in judge([part]).rivals
    assert judge([part, whole]).mistake == "inverted"


@pytest.mark.parametrize(
    ("grid", "says"),
    [
        (Subsequent().grid(5), "It is exactly a causal mask"),
        (Window(2).grid(7), "It is exactly a causal sliding window: window (2 before, 0 after)"),
        (
            ~Dilated(1, 1, 2).grid(8),
            "It is exactly a dilated window (1 before, 1 after, step 2) with open and blocked swapped",
        ),
        (Subsequent().grid(5).T, "It is exactly a causal mask with rows and columns swapped"),
        (Subsequent(1).grid(5), "It is exactly a causal mask with its rows shifted by one"),
        ((Subsequent() & Padding((4,))).grid(6), "It is exactly a causal mask, padding from key 4 on"),
    ],
)
def test_it_is_said_in_words(grid, says):
    assert words.is_what(judge([grid])) == says


def test_every_kind_can_be_asked_for_by_name():
    assert set(BY_NAME) == {*EXAMPLES, "padding", "left-padding"}
