"""The detector of inverted masks: it names what was inverted, with cells, and is silent about masks that are meant."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnviz.core.errors import MaskError
from attnviz.core.inversions import likely_inverted, likely_inverted_padding
from attnviz.core.masks import Blocks, Documents, Full, Mask, Padding, Prefix, Subsequent, Window

LENGTHS = st.integers(3, 13)


def rules(grid: Tensor) -> list[str]:
    return [found.rule for found in likely_inverted(grid)]


@st.composite
def documents(draw, least=1):
    return Documents(tuple(draw(st.lists(st.integers(2, 4), min_size=least, max_size=4))))


@st.composite
def meant(draw) -> Mask:
    """Masks that people use as they are: none of them is an inversion."""
    window = Window(draw(st.integers(1, 14)), draw(st.integers(0, 14)))
    causal = Subsequent()
    return draw(
        st.sampled_from([Full(), causal, window, causal & window, causal | Prefix(draw(st.integers(0, 14)))])
        | documents()
        | documents().map(lambda packed: packed & causal)
        | st.integers(1, 14).map(lambda length: Padding((length,)))
        | st.integers(1, 14).map(lambda length: Padding((length,)) & causal)
    )


@given(mask=meant(), queries=LENGTHS, keys=LENGTHS)
def test_no_alarm_for_masks_that_are_meant(mask, queries, keys):
    """Full, subsequent, windows, prefix-LM, documents and padding, alone and causal, for any two lengths."""
    assert likely_inverted(mask.grid(queries, keys)) == ()


@given(
    mask=st.builds(Window, st.integers(1, 6), st.integers(0, 6)) | st.builds(Blocks, st.integers(1, 4)),
    causal=st.booleans(),
    queries=st.integers(3, 8),
    more=st.integers(1, 14),
)
def test_no_alarm_for_the_last_rows_of_a_window(mask, causal, queries, more):
    """As with a cache, or in chunks, if rows differ. If they do not, what is named may be a window, and that is said.

    One that is also, cell by cell, a triangle turned over is taken for that.
    """
    mask = mask & Subsequent() if causal else mask
    grid = mask.aligned(queries, queries + more, "bottom-right").grid(queries, queries + more)

    whole = torch.ones_like(grid)
    found = likely_inverted(grid)
    alike = bool((grid == grid[:1]).all()) and all("window" in one.otherwise for one in found)
    assert not found or alike or any(torch.equal(grid, whole.triu(first)) for first in (0, 1))


@given(
    n=LENGTHS,
    other=st.sampled_from([Full(), Prefix(1), Window(3), Padding((3,)), Documents((2, 3))]),
    inverted_whole=st.booleans(),
)
def test_an_inverted_subsequent_mask_is_named(n, other, inverted_whole):
    """Alone and with a second rule, inverted as a whole or before it met the second rule."""
    causal = Subsequent()
    mask = ~(causal & other if not isinstance(other, Prefix) else causal | other) if inverted_whole else ~causal & other
    open_cells = mask.grid(n).any()

    assert rules(mask.grid(n))[:1] == (["subsequent"] if open_cells else ["full"])


def test_the_words_and_cells_of_an_inverted_subsequent_mask():
    """Row 0 sees only the future, the last row has no key left, and the cells are open cells of the future."""
    (found,) = likely_inverted(torch.ones(5, 5, dtype=torch.bool).triu(1))

    assert found.sentence == (
        "Row 0 sees only the future, no query sees itself and row 4, the last, has no key left: "
        "a subsequent mask inverted. Hand over ~mask."
    )
    assert set(found.cells) == {(i, j) for i in range(5) for j in range(i + 1, 5)}


@given(queries=st.integers(2, 6), more=st.integers(1, 6))
def test_both_alignments_of_an_inverted_subsequent_mask_are_named(queries, more):
    """Aligned top-left and, with a cache, bottom-right."""
    keys = queries + more

    assert rules((~Subsequent()).grid(queries, keys)) == ["subsequent"]
    assert rules((~Subsequent(more)).grid(queries, keys)) == ["subsequent"]


def test_an_inverted_window_of_the_past_is_a_subsequent_mask_inverted_in_both_alignments():
    """The far past is open too, and the future still gives it away."""
    assert rules((~(Subsequent() & Window(1))).grid(5, 5)) == ["subsequent"]
    assert rules((~(Subsequent(3) & Window(-1, 3))).grid(5, 8)) == ["subsequent"]


@given(n=LENGTHS)
def test_swapped_rows_and_columns_are_named(n):
    """A lower triangle that became an upper one with its diagonal."""
    assert rules(Subsequent().grid(n).T) == ["transposed"]


@given(n=st.integers(3, 20), causal=st.booleans(), queries=LENGTHS)
def test_inverted_padding_is_named_if_it_leaves_less_than_half(n, causal, queries):
    """Such a grid may as well be padded on the left, with fewer queries also a window, and the finding says so."""
    real = n // 2 + 1
    mask = ~Padding((real,)) & Subsequent(n) if causal else ~Padding((real,))
    (found,) = likely_inverted(mask.grid(queries, n))

    otherwise = "padding on the left" + (", or a window beside a cache" if queries < n else "")
    assert (found.rule, found.otherwise) == ("padding", otherwise)
    assert {key for _, key in found.cells} == set(range(real, n))


@given(lengths=st.lists(st.integers(1, 11), min_size=1, max_size=5))
def test_inverted_padding_of_a_batch_is_named_by_its_longest_sentence(lengths):
    """The longest sentence has no padding, so inverted it has no key left: no other mask looks so."""
    keys = max(lengths) + 1
    real = Padding((*lengths, keys)).tensor(1, keys)[:, 0, 0]
    found = likely_inverted_padding(~real)

    assert found.rule == "padding"
    assert set(found.cells) == {(b, k) for b, n in enumerate((*lengths, keys)) if n == keys for k in range(keys)}
    assert found.otherwise == ""
    assert likely_inverted_padding(real) is None


def test_a_batch_padded_on_the_left_raises_no_alarm():
    """Most of what it keeps is real; only a batch that keeps less than half is doubted, with what else it may be."""
    mostly_real = Padding((5, 6, 4), left=7).tensor(1, 7)[:, 0, 0]
    mostly_padding = Padding((1, 2, 3), left=7).tensor(1, 7)[:, 0, 0]

    assert likely_inverted_padding(mostly_real) is None
    assert likely_inverted_padding(mostly_padding).otherwise == "padding on the left"


@pytest.mark.parametrize("real", [[[1, 1, 1], [0, 0, 0]], [[0, 1, 0], [0, 0, 0]]], ids=["full", "gap"])
def test_an_empty_sentence_alone_is_no_inverted_padding(real):
    """Beside a full sentence it has no words, and a key in the middle is no padding."""
    assert likely_inverted_padding(torch.tensor(real).bool()) is None


@given(mask=documents(least=2))
def test_inverted_documents_are_named(mask):
    """With positions after the last document, too."""
    n = sum(mask.lengths)

    assert "documents" in rules((~mask).grid(n))
    assert "documents" in rules((~mask).grid(n + 2))


@given(n=st.integers(6, 13), before=st.integers(0, 2), after=st.integers(1, 2))
def test_an_inverted_window_is_named(n, before, after):
    """The band around the diagonal is blocked and the rest is open on both sides."""
    (found,) = likely_inverted((~Window(before, after)).grid(n))

    assert found.rule == "window"
    assert set(found.cells) == {(i, j) for i in range(n) for j in range(n) if -before <= j - i <= after}


@pytest.mark.parametrize(
    "mask", [Window(0, 0), Documents((1,) * 5), Documents((3,)), Documents((3, 2)) & Window(1, 1)], ids=str
)
def test_no_alarm_where_only_the_diagonal_or_no_squares_are_blocked(mask):
    """Attending to all but oneself is meant, one square is no packing, and neither is what is no square."""
    assert likely_inverted((~mask).grid(5)) == ()


@pytest.mark.parametrize("grid", [torch.ones(3, 3), torch.ones(1, 3, 3, dtype=torch.bool)], ids=["float", "3-D"])
def test_only_boolean_grids_are_judged(grid):
    """The convention of anything else is not known here."""
    with pytest.raises(MaskError, match="boolean"):
        likely_inverted(grid)


def test_nothing_is_said_of_nothing():
    """A grid without cells holds no evidence."""
    assert likely_inverted(torch.ones(0, 3, dtype=torch.bool)) == ()
    assert likely_inverted_padding(torch.ones(0, 3, dtype=torch.bool)) is None
