"""What a mask is meant to be, once it is said, settles what the mask alone cannot tell, and each cell that differs."""

import pytest
import torch
from arrays import additive, padded, scores, weights
from hypothesis import given
from hypothesis import strategies as st

from attnviz.check import MEANT, check
from attnviz.core.errors import InputError
from attnviz.core.masks import Documents, Padding, Prefix, Strided, Subsequent, Window
from attnviz.core.stack import Entry, Stack

N = 8
PREFIX_LM = Subsequent() | Prefix(3)
MASKS = st.sampled_from([Subsequent(), Window(2), Window(1, 1), Documents((3, 5)), Strided(3), PREFIX_LM])
CELLS = st.sets(st.tuples(st.integers(0, N - 1), st.integers(0, N - 1)), min_size=1, max_size=3)


def cells(report, *rules):
    return {cell for one in report.findings if one.rule in rules for cell in one.cells}


@given(mask=MASKS, wrong=CELLS, additively=st.booleans())
def test_every_cell_that_differs_is_named_and_no_other(mask, wrong, additively):
    """As errors, open and blocked apart, in any convention."""
    grid = mask.grid(N)
    for cell in wrong:
        grid[cell] ^= True
    report = check(additive(grid) if additively else grid, meant=mask, convention=None if additively else "may-attend")

    assert cells(report, "future-leak", "deviation") == wrong
    assert report.rules("warning") == set()
    assert "future-leak" not in report.rules() or not mask.grid(N).triu(1).any()


@given(mask=MASKS)
def test_what_is_meant_is_not_warned_of_and_its_opposite_is_named(mask):
    """Also turned, where that makes a difference."""
    grid = mask.grid(N)

    assert check(grid, meant=mask, convention="may-attend").findings == ()
    assert "inverted" in check(~grid, meant=mask, convention="may-attend").rules("error")
    assert check(~grid, meant=mask).convention == "true-is-masked"
    if not torch.equal(grid, grid.T):
        assert "transposed" in check(grid.T, meant=mask, convention="may-attend").rules("error")


@pytest.mark.parametrize(
    ("mask", "kind", "other"),
    [
        (Window(2, 1), "window", "causal"),
        (Window(2, 1), "window", "causal-window"),
        (PREFIX_LM, "prefix-lm", "causal"),
        (Window(0, 0), "causal-window", "others"),
        (Subsequent(1), "look-ahead", "causal"),
        (Subsequent().shifted(0), "causal", "strided"),
    ],
)
def test_a_kind_settles_what_may_be_either(mask, kind, other):
    """With any numbers; as another kind the same mask is an error."""
    if kind != "look-ahead":
        assert check(mask.grid(N), meant=kind, convention="may-attend").rules("error", "warning") == set()
    assert check(mask.grid(N), meant=other, convention="may-attend").rules("error")


def test_a_kind_may_have_padding_and_a_mask_has_what_it_says():
    grid = (Subsequent() & Padding((5,))).grid(N)

    assert check(grid, meant="causal").rules("error") == set()
    assert check(grid, meant=Subsequent()).rules("error") == {"deviation"}
    assert check(grid, meant=Stack((Entry(Subsequent()), Entry(Padding((5,)))))).rules("error") == set()
    assert check(torch.ones(N, N, dtype=torch.bool), meant=Stack()).rules("error") == set()


def test_each_sentence_is_held_against_its_own_padding():
    mask = padded((N, 3), N)
    swapped = mask.flip(0)

    assert check(mask, meant=Padding((N, 3))).rules("error") == set()
    assert check(swapped, meant=Padding((N, 3)), convention="may-attend").rules("error") == {"deviation"}
    with pytest.raises(InputError, match=r"What is meant does not fit: .* no sentence 2"):
        check(padded((5, 4, 3), N), meant=Padding((N, 3)))


def test_weights_and_scores_may_see_less_than_what_is_meant_but_not_more():
    """A weight of 0 is no mistake; one on a key that must be blocked is, wherever it is."""
    causal = Subsequent().grid(7)

    assert check(weights(causal), meant="causal").rules("error") == set()
    assert check(weights(Window(2).grid(7)), meant=Subsequent()).rules("error") == set()
    assert "future-leak" in check(weights(), meant="causal", kind="weights").rules("error")
    assert "deviation" in check(weights(causal), meant=Window(2)).rules("error")
    masked = scores().masked_fill(~causal, -torch.inf)
    assert check(masked, meant="causal").rules("error") == set()
    assert "deviation" in check(masked, meant=Window(2)).rules("error")
    assert check(scores(), meant="causal").rules() == {"future-leak"}  # a note: from before the mask


def test_kinds_are_asked_for_by_name():
    assert {"causal", "prefix-lm", "window", "padding"} <= set(MEANT)
    for wrong in ("triangle", "", 7):
        with pytest.raises(InputError, match="Say a mask, or one of: full, causal"):
            check(torch.ones(3, 3, dtype=torch.bool), meant=wrong)
