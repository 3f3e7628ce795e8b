"""Inputs that attention refuses, each with a sentence that names the shapes or the values."""

import math

import pytest
import torch
from strategies import B, H, K, Q, booleans, call, tensors

from attnviz.core.attention import attend, attention_output, scaled_dot_product_attention
from attnviz.core.errors import AttnvizError, MaskError, ShapeError
from attnviz.core.masks import Full, Padding, Subsequent


def zeros(*shape):
    return torch.zeros(shape)


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        (((2, 3, 5, 11), (2, 3, 7, 4), (2, 3, 7, 13)), ["d_k", "11 and 4", "(2, 3, 5, 11)", "(2, 3, 7, 4)"]),
        (((2, 3, 5, 11), (2, 3, 7, 11), (2, 3, 6, 13)), ["length", "7 and 6", "(2, 3, 7, 11)", "(2, 3, 6, 13)"]),
        (((2, 3, 5, 11), (1, 3, 7, 11), (1, 3, 7, 13)), ["batch (2, 1, 1)", "Broadcasting would have repeated"]),
        (((2, 3, 5, 11), (2, 4, 7, 11), (2, 4, 7, 13)), ["heads (3, 4, 4)", "cannot be broadcast"]),
        (((2, 5, 11), (2, 3, 7, 11), (2, 3, 7, 13)), ["same 3 (B, n, d) or 4", "(2, 5, 11)", "(2, 3, 7, 11)"]),
        (((5, 11), (7, 11), (7, 13)), ["same 3 (B, n, d) or 4", "(5, 11)"]),
        (((2, 3, 5, 0), (2, 3, 7, 0), (2, 3, 7, 13)), ["d_k is 0"]),
    ],
)
def test_shapes_that_do_not_fit_are_named(shapes, says):
    """Both of them, with what broadcasting would have made of it."""
    with pytest.raises(ShapeError) as refused:
        scaled_dot_product_attention(*(zeros(*shape) for shape in shapes))

    for part in says:
        assert part in str(refused.value)


@pytest.mark.parametrize("function", [attend, attention_output])
@pytest.mark.parametrize("mask", [None, Subsequent(), booleans((Q, K))])
def test_the_ways_without_weights_take_four_axes_only(function, mask):
    """Three would be read as heads, queries and nothing."""
    with pytest.raises(ShapeError, match=r"need 4 axes .* shape \(2, 5, 3\)"):
        function(zeros(B, Q, 3), zeros(B, K, 3), zeros(B, K, 3), mask)


@pytest.mark.parametrize("function", [scaled_dot_product_attention, attend, attention_output])
@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ((B, 1, K), ["(2, 1, 7), 3 axes", "(2, 3, 5, 7)", "Broadcasting would have given an error", "unsqueeze(1)"]),
        ((H, 1, K), ["(3, 1, 7), 3 axes", "its first axis (3) read as heads", "unsqueeze(1)"]),
        ((K, Q), ["(7, 5)", "5 on axis K where the scores have 7", "(2, 3, 5, 7)"]),
        ((B, H, Q, K + 1), ["8 on axis K"]),
        ((B + 1, H, Q, K), ["3 on axis B"]),
        ((K,), ["(7,), 1 axes", "(Q, K) = (5, 7)"]),
    ],
)
def test_a_mask_or_bias_that_does_not_fit_is_named(function, shape, says):
    """Instead of being broadcast to something that was not meant."""
    for name, tensor in (("mask", torch.ones(shape, dtype=torch.bool)), ("bias", zeros(*shape).double())):
        with pytest.raises(ShapeError) as refused:
            call(function, *tensors(), **{name: tensor})

        for part in [f"The {name}", *says]:
            assert part in str(refused.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_mask_that_is_not_boolean_is_not_guessed_at(dtype):
    """The error offers the conventions by name."""
    with pytest.raises(MaskError, match="from_true_is_masked, from_zero_is_masked or from_additive"):
        scaled_dot_product_attention(*tensors(), torch.ones(Q, K, dtype=dtype))


def test_a_list_is_no_mask_and_a_boolean_no_bias():
    """Both would have been taken for something by broadcasting or by adding."""
    with pytest.raises(MaskError, match="a list"):
        scaled_dot_product_attention(*tensors(), [[True] * K] * Q)
    with pytest.raises(MaskError, match=r"bias holds torch\.bool"):
        scaled_dot_product_attention(*tensors(), bias=booleans((Q, K)))


def test_padding_for_another_number_of_sentences_is_refused():
    """With both numbers."""
    with pytest.raises(ShapeError, match=r"for 3 sentence.*query has 2"):
        scaled_dot_product_attention(*tensors(), Padding((1, 2, 3)) & Full())


def test_dtypes_that_differ_or_do_not_float_are_refused():
    """Named, all three."""
    query, key, value = tensors()
    with pytest.raises(ShapeError, match=r"torch\.float64, torch\.float32, torch\.float64"):
        scaled_dot_product_attention(query, key.float(), value)
    with pytest.raises(ShapeError, match=r"torch\.int64"):
        scaled_dot_product_attention(query.long(), key.long(), value.long())


@pytest.mark.parametrize(
    "settings",
    [
        *({"temperature": t} for t in (0, 0.0, -1.0, math.nan, math.inf)),
        *({"scale": s} for s in (math.nan, math.inf)),
        *({"softcap": c} for c in (0.0, -1.0, math.nan, math.inf)),
        {"empty_rows": "zeros"},
    ],
    ids=str,
)
def test_settings_that_mean_nothing_are_refused(settings):
    """A temperature of 0 would give NaN and a negative one would invert the weights silently."""
    ((name, value),) = settings.items()

    with pytest.raises(AttnvizError, match=f"{name} is '?{value}"):
        scaled_dot_product_attention(*tensors(), **settings)


@pytest.mark.parametrize("share", [-0.1, 1.0, math.nan])
def test_dropout_of_everything_is_refused(share):
    """It must leave something to divide by."""
    for function in (scaled_dot_product_attention, attention_output):
        with pytest.raises(AttnvizError, match="dropout_p"):
            function(*tensors(), dropout_p=share)
