"""Leak tests of attention functions: ours and PyTorch's keep to their masks, and every known mistake is found."""

import math

import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from attnviz.check.leak_test import leak_test_function
from attnviz.check.leaks import NOT_TESTED
from attnviz.core.attention import scaled_dot_product_attention
from attnviz.core.conventions import to_additive, to_true_is_masked, to_zero_is_masked
from attnviz.core.errors import InputError, NotFiniteError, ShapeError
from attnviz.core.masks import Documents, Full, Subsequent, Window

FUTURE = tuple((i, j) for i in range(5) for j in range(5) if j > i)


def masked_after(query, key, value, allowed):
    """The mistake: weights of closed keys become zero after the softmax."""
    weights = torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), -1) * allowed
    return weights @ value


def forgotten(query, key, value, allowed):
    return F.scaled_dot_product_attention(query, key, value)


def zero_is_masked(query, key, value, mask):
    """Attention as tutorials write it: 0 = masked, by -1e9."""
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    return torch.softmax(scores.masked_fill(mask == 0, -1e9), -1) @ value


def handed(attend, hand):
    """Return an attention function that gets the mask in another form."""
    return lambda query, key, value, allowed: attend(query, key, value, hand(allowed))


def without_heads(attend):
    return lambda query, key, value, allowed: attend(query[:, 0], key[:, 0], value[:, 0], allowed)


@pytest.mark.parametrize(
    "attend",
    [
        scaled_dot_product_attention,
        F.scaled_dot_product_attention,
        without_heads(scaled_dot_product_attention),
        handed(F.scaled_dot_product_attention, lambda allowed: to_additive(allowed, torch.float64)),
        handed(zero_is_masked, to_zero_is_masked),
        without_heads(zero_is_masked),
    ],
)
def test_what_masks_before_the_softmax_does_not_leak(attend):
    """And what it may see, it saw: the test is not blind."""
    test = leak_test_function(attend, Subsequent(), 5)

    assert test.pairs == ()
    assert test.saw.equal(torch.ones(5, 5, dtype=torch.bool).tril())


@pytest.mark.filterwarnings("ignore::attnviz.core.errors.AttentionWarning")
@examples(12)
@given(
    st.lists(
        st.one_of(
            st.builds(Subsequent, st.integers(0, 3)),
            st.builds(Window, st.integers(0, 3), st.integers(0, 2)),
            st.builds(Documents, st.lists(st.integers(1, 4), min_size=1, max_size=3)),
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 6),
    st.integers(1, 7),
)
def test_one_layer_sees_exactly_what_its_mask_opens(masks, n, keys):
    """For masks joined at random and other numbers of keys than queries."""
    mask = masks[0]
    for other in masks[1:]:
        mask = mask & other

    test = leak_test_function(scaled_dot_product_attention, mask, n, keys=keys)

    assert test.saw.equal(mask.grid(n, keys))
    assert test.pairs == ()


@pytest.mark.parametrize(
    "attend",
    [
        masked_after,
        forgotten,
        handed(F.scaled_dot_product_attention, to_true_is_masked),
        handed(F.scaled_dot_product_attention, lambda allowed: allowed.T),
        without_heads(handed(zero_is_masked, to_true_is_masked)),
    ],
)
def test_each_mistake_is_found_in_every_cell_of_the_future(attend):
    """Masked after the softmax, forgotten, inverted, transposed, or handed to a reader of another convention."""
    assert leak_test_function(attend, Subsequent(), 5).pairs == FUTURE


def test_the_wrong_alignment_is_found_in_both_directions():
    """With a cache of 3 keys: `is_causal` aligns top-left, where bottom-right was promised, and the other way round."""

    def top_left(query, key, value, allowed):
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)

    too_little = leak_test_function(top_left, Subsequent(3), 4, keys=7)
    ahead = handed(scaled_dot_product_attention, lambda allowed: Subsequent(3).grid(4, 7))
    too_much = leak_test_function(ahead, Subsequent(), 4, keys=7)

    assert too_little.pairs == ()
    assert int(too_little.unused.sum()) == 3 * 4
    assert len(too_much.pairs) == 3 * 4


def test_dropout_is_told_and_not_taken_for_a_leak():
    def dropped(query, key, value, allowed):
        return F.scaled_dot_product_attention(query, key, value, allowed, dropout_p=0.5)

    with pytest.raises(InputError, match=r"outputs that differ .*; switch off .* dropout"):
        leak_test_function(dropped, Subsequent(), 5)


def test_what_is_no_output_is_refused():
    for attend in (lambda *given: None, lambda query, *given: query[..., :2, :], lambda query, *given: query.mT):
        with pytest.raises(ShapeError, match=r"must return .*\(1, heads, n, d_v\)"):
            leak_test_function(attend, Full(), 5)
    with pytest.raises(InputError, match="1 to 64 queries and keys; given 65 and 65"):
        leak_test_function(scaled_dot_product_attention, Full(), 65)


def test_nan_is_never_taken_for_an_output_that_did_not_move():
    """A mask made by 0 * -inf; a row without a key is NaN in most code, and is then left out and said."""

    def added(query, key, value, mask):
        return torch.softmax(query @ key.mT + mask, -1) @ value

    with pytest.raises(NotFiniteError, match="The output of query 0 is not a number, though it may attend to 1 key"):
        leak_test_function(handed(added, lambda allowed: (~allowed) * -math.inf), Subsequent(), 5)
    test = leak_test_function(handed(added, lambda allowed: to_additive(allowed, torch.float64)), Subsequent(-1), 5)

    assert test.pairs == ()
    assert test.moved.isnan().all(1).tolist() == [True, False, False, False, False]
    assert test.states[0].eq(NOT_TESTED).all()
    assert test.notes == ("the output of query 0 is not a number, so nothing is known about it",)
