"""How three tutorials differ from each other and from ours, and the conversion that gives the same numbers."""

import exhibits
import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from attnviz.core.attention import scaled_dot_product_attention
from attnviz.core.conventions import from_true_is_masked, from_zero_is_masked, to_true_is_masked, to_zero_is_masked
from attnviz.core.errors import AttentionWarning
from attnviz.core.masks import Subsequent
from attnviz.models.multihead import MultiHeadAttention

N = 5
ANNOTATED, TRUE_IS_MASKED, ZERO_IS_MASKED = exhibits.attention, exhibits.true_is_masked, exhibits.zero_is_masked
ALL = [ANNOTATED, TRUE_IS_MASKED, ZERO_IS_MASKED]


def tensors(dtype=torch.float32, seed=0, n=N):
    """Query, key, value, (2, n, 7) and (2, n, 3): three axes, which all of them take."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(2, n, d, generator=generator).to(dtype) for d in (7, 7, 3))


@examples(30)
@given(share=st.floats(0.2, 0.9), seed=st.integers(0, 99))
def test_with_the_mask_converted_all_give_our_numbers(share, seed):
    """To 1e-6, as long as every row keeps a key; the adapter's name says which convention it is for."""
    inputs = tensors(seed=seed)
    ours = torch.rand(2, N, N, generator=torch.Generator().manual_seed(seed)) < share
    ours[..., 0] = True
    expected = scaled_dot_product_attention(*inputs, ours)

    for exhibit, mask, back in (
        (ANNOTATED, to_zero_is_masked(ours), from_zero_is_masked),
        (TRUE_IS_MASKED, to_true_is_masked(ours), from_true_is_masked),
        (ZERO_IS_MASKED, to_zero_is_masked(ours), from_zero_is_masked),
    ):
        output, weights = exhibit(*inputs, mask)
        assert_close(output, expected[0], rtol=0, atol=1e-6)
        assert_close(weights, expected[1], rtol=0, atol=1e-6)
        assert torch.equal(back(mask), ours)


@pytest.mark.parametrize(
    ("policy", "exhibit"), [("nan", TRUE_IS_MASKED), ("uniform", ANNOTATED), ("uniform", ZERO_IS_MASKED)]
)
def test_ours_does_what_each_does_if_asked(policy, exhibit):
    """`empty_rows` has a name for it."""
    inputs, ours = tensors(), torch.ones(N, N, dtype=torch.bool)
    ours[2] = False

    with pytest.warns(AttentionWarning):
        expected = scaled_dot_product_attention(*inputs, ours, empty_rows=policy)

    for got, want in zip(exhibit(*inputs, ~ours if policy == "nan" else ours), expected, strict=True):
        assert_close(got, want, rtol=0, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("exhibit", [ANNOTATED, ZERO_IS_MASKED])
def test_minus_a_billion_does_not_fit_half_precision(exhibit):
    """It raises in float16, where -inf and ours work."""
    inputs, ours = tensors(torch.float16), Subsequent().grid(N)

    with pytest.raises(RuntimeError, match="overflow"):
        exhibit(*inputs, ours)
    assert_close(
        scaled_dot_product_attention(*inputs, ours)[1], TRUE_IS_MASKED(*inputs, ~ours)[1], rtol=1e-2, atol=1e-2
    )


def test_ours_starts_with_four_different_projections():
    """Independent Xavier draws: scores are not symmetric, and a token does not prefer itself."""
    module, x = MultiHeadAttention(64, 2), torch.randn(1, 13, 64)
    query, key = (module._split(linear(x)) for linear in (module.w_q, module.w_k))
    scores = query @ key.mT

    assert (scores - scores.mT).abs().max() > 1
    assert (scores.argmax(-1) == torch.arange(13)).float().mean() < 0.5
    weights = [w.weight for w in (module.w_q, module.w_k, module.w_v, module.w_o)]
    for i, one in enumerate(weights):
        for other in weights[:i]:
            assert not torch.allclose(one, other)
