"""The intent of a mask settles what the mask alone cannot, and names each cell that differs."""

import pytest
import torch
from arrays import additive, padded, scores, weights
from hypothesis import given
from hypothesis import strategies as st

from attnviz.check import check
from attnviz.core.errors import InputError
from attnviz.core.masks import Documents, Full, Padding, Prefix, Strided, Subsequent, Window

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
    report = check(additive(grid) if additively else grid, intent=mask, convention=None if additively else "may-attend")

    assert cells(report, "future-leak", "deviation") == wrong
    assert report.rules("warning") == set()
    assert "future-leak" not in report.rules() or not mask.grid(N).triu(1).any()


def test_a_kind_may_have_padding_and_a_mask_has_what_it_says():
    grid = (Subsequent() & Padding((5,))).grid(N)

    assert check(grid, intent="causal").rules("error") == set()
    assert check(grid, intent=Subsequent()).rules("error") == {"deviation"}
    assert check(grid, intent=Subsequent() & Padding((5,))).rules("error") == set()


def test_each_sentence_is_held_against_its_own_padding():
    mask = padded((N, 3), N)
    swapped = mask.flip(0)

    assert check(mask, intent=Padding((N, 3))).rules("error") == set()
    assert check(swapped, intent=Padding((N, 3)), convention="may-attend").rules("error") == {"deviation"}
    with pytest.raises(InputError, match=r"The intent does not fit: .* no sentence 2"):
        check(padded((5, 4, 3), N), intent=Padding((N, 3)))


def test_weights_and_scores_may_see_less_than_what_is_meant_but_not_more():
    """A weight of 0 is no mistake; one on a key that must be blocked is, wherever it is."""
    causal = Subsequent().grid(7)

    assert check(weights(causal), intent="causal").rules("error") == set()
    assert check(weights(Window(2).grid(7)), intent=Subsequent()).rules("error") == set()
    assert "future-leak" in check(weights(), intent="causal", kind="weights").rules("error")
    assert "deviation" in check(weights(causal), intent=Window(2)).rules("error")
    masked = scores().masked_fill(~causal, -torch.inf)
    assert check(masked, intent="causal").rules("error") == set()
    assert "deviation" in check(masked, intent=Window(2)).rules("error")
    assert check(scores(), intent="causal").rules() == {"future-leak"}  # a note: from before the mask


def test_an_intent_has_a_name_or_is_written_as_a_mask():
    """Another one is written as a mask."""
    for wrong in ("triangle", "causal_window", 7):
        with pytest.raises(InputError, match=r"No mask is called .* Say causal or two-way, or write a mask"):
            check(torch.ones(3, 3, dtype=torch.bool), intent=wrong)


def test_documents_of_a_batch_may_differ():
    """Each text has its own; what sees across them is asked about."""
    documents = [Documents((3, 5)).grid(N), Documents((2, 4, 2)).grid(N)]
    for causal in (Subsequent(), Full()):
        mask = torch.stack([grid & causal.grid(N) for grid in documents])[:, None]
        wrong = mask.clone()
        wrong[1, 0, 5, 0] = True

        report = check(mask, convention="may-attend")
        assert (report.rules("error", "warning"), report.question) == (set(), "")
        assert check(wrong, convention="may-attend").question


@given(queries=st.integers(4, 7), more=st.integers(0, 6))
def test_the_diagonal_that_mends_a_causal_mask_is_that_of_its_last_key(queries, more):
    """With more keys than queries it is K - Q; followed, nothing is found."""
    keys = queries + more
    wrong = torch.ones(queries, keys).tril(more + 1).bool()
    found = check(wrong, convention="may-attend", intent="causal").findings[0]
    diagonal = int(found.fix.partition("tril(diagonal=")[2].partition(")")[0])
    mended = check(torch.ones(queries, keys).tril(diagonal).bool(), convention="may-attend", intent="causal")

    assert (found.rule, found.severity, diagonal) == ("future-leak", "error", more)
    assert mended.rules("warning", "error") == set()
    assert not more or f"position {more}" in found.message + found.fix
