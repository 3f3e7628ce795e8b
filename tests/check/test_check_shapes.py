"""How shapes meet scores of (B, H, Q, K): explained, and held to what PyTorch's broadcasting really does."""

import pytest
import torch
from arrays import causal, padded
from hypothesis import given
from hypothesis import strategies as st

from attnviz.check import check

SHAPE = (2, 3, 5, 7)
SIZES = st.sampled_from([1, 2, 3, 4])


def broadcast(mask, shape=SHAPE):
    """The finding about the shape."""
    return next(one for one in check(mask, shape=shape, convention="may-attend").findings if one.rule == "broadcast")


def ones(*shape):
    return torch.ones(shape, dtype=torch.bool)


@given(shape=st.tuples(SIZES, SIZES, SIZES, SIZES), given_shape=st.lists(SIZES, min_size=1, max_size=4))
def test_an_error_is_told_where_pytorch_raises_one(shape, given_shape):
    """And only there, for a mask whose cells are all the same, so that nothing goes wrong silently."""
    try:
        raises = torch.broadcast_shapes(tuple(given_shape), shape) != shape
    except RuntimeError:
        raises = True

    found = broadcast(ones(*given_shape), shape)
    assert (found.severity == "error") == raises
    assert not raises or "raises an error" in found.message


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (ones(2, 1, 1, 7), "repeated over H = 3, Q = 5"),
        (ones(5, 7), "repeated over B = 2, H = 3"),
        (ones(3, 5, 7), "repeated over B = 2"),
        (ones(7), "repeated over B = 2, H = 3, Q = 5"),
        (ones(2, 3, 5, 7), "fits cell by cell"),
    ],
)
def test_what_fits_is_explained(mask, says):
    found = broadcast(mask)

    assert (found.severity, says in found.message) == ("note", True), found.message


@pytest.mark.parametrize(
    ("mask", "says", "fix"),
    [
        (ones(2, 7), "they are sentences", "mask[:, None, None, :]"),
        (ones(2, 1, 7), "the sentences, with the heads", "mask.unsqueeze(1)"),
        (ones(2, 5, 7), "the sentences, with the heads", "mask.unsqueeze(1)"),
        (ones(7, 5), "K is 5 instead of 7", "mask.mT"),
        (ones(2, 3, 5, 6), "K is 6 instead of 7", "full size or 1"),
    ],
)
def test_what_does_not_fit_gets_a_way_to_fit(mask, says, fix):
    """Followed, it fits."""
    found = broadcast(mask)

    assert (found.severity, says in found.message, fix in found.fix) == ("error", True, True), found
    if "mask." in found.fix or "mask[" in found.fix:
        code = found.fix.removeprefix("Pass ").partition(", (B")[0].partition(": ")[0].rstrip(".")
        assert broadcast(eval(code, {"mask": mask})).severity == "note"


def test_masks_of_heads_and_sentences_in_one_axis_are_right_in_their_order():
    """nn.MultiheadAttention takes (B * H, Q, K), sentence by sentence; repeat makes another order."""
    each = padded((7, 3), 7)[:, 0].expand(2, 5, 7)
    right, wrong = each.repeat_interleave(3, 0), each.repeat(3, 1, 1)

    assert torch.equal(right.view(SHAPE), each[:, None].expand(SHAPE))
    assert broadcast(right).severity == "note"
    assert broadcast(wrong).severity == "error"
    assert "made by repeat" in broadcast(wrong).message
    assert check(right, shape=SHAPE, convention="may-attend").rules("error") == set()


def test_padding_of_texts_needs_no_shape_where_its_convention_and_a_two_way_mask_are_said():
    """(B, K), PyTorch's own form; else its axes are read as broadcasting does, and that is said."""
    padding, stated = padded((4, 6, 2), 6)[:, 0, 0], {"intent": "two-way"}

    for mask, convention in ((padding, "may-attend"), (~padding, "true-is-masked"), (padding.long(), "zero-is-masked")):
        report = check(mask, convention=convention, **stated)
        assert (report.shape, report.rules()) == ((3, 1, 1, 6), set())
        report = check(mask, convention=convention)
        assert (report.shape, report.rules("error", "warning"), report.status()) == ((1, 1, 3, 6), set(), 3)
        assert "mask[:, None, None, :]" in report.findings[-1].fix
    assert check(causal(6), convention="may-attend", **stated).shape == (1, 1, 6, 6)


def test_a_mask_of_sentences_on_as_many_heads_is_silently_wrong():
    """PyTorch takes (B, 1, K) for (H, 1, K) if B = H: sentence 1 then has the mask of head 1, not its own."""
    real = padded((7, 3), 7)
    mask, shape = real[:, 0], (2, 2, 5, 7)

    assert not torch.equal(mask.expand(shape), real.expand(shape))
    assert broadcast(mask, shape).severity == "error"
    assert "silently" in broadcast(mask, shape).message
    assert broadcast(mask.unsqueeze(1), shape).severity == "note"
    assert broadcast(mask[:1].expand(2, 1, 7), shape).severity == "note"


@pytest.mark.parametrize(
    ("given_shape", "shape"),
    [((2, 3, 3), (2, 1, 3, 3)), ((5, 5), (2, 4, 1, 5)), ((2, 1, 3, 3), (1, 2, 3, 3)), ((3, 1, 3, 3), (1, 1, 3, 3))],
)
def test_scores_that_would_silently_grow_are_told(given_shape, shape):
    """If an axis of the scores is 1, `scores + mask` raises no error; the fused call does."""
    scores, mask = torch.zeros(shape), ones(*given_shape)
    grown = scores.masked_fill(~mask, -1.0).shape
    query, key = torch.zeros(*shape[:3], 4), torch.zeros(*shape[:2], shape[3], 4)

    with pytest.raises(RuntimeError):
        torch.nn.functional.scaled_dot_product_attention(query, key, key, mask)
    found = broadcast(mask, shape)
    assert found.severity == "error"
    assert f"silently makes {tuple(grown)} of scores + mask" in found.message
    assert "silently" not in broadcast(ones(4, 5, 7)).message
