"""How three tutorials differ from each other and from ours, and the conversion that gives the same numbers."""

import exhibits
import pytest
import torch
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attnviz.core.attention import scaled_dot_product_attention
from attnviz.core.conventions import from_true_is_masked, from_zero_is_masked, to_true_is_masked, to_zero_is_masked
from attnviz.core.errors import AttentionWarning
from attnviz.core.masks import Subsequent, subsequent_mask
from attnviz.models.multihead import MultiHeadAttention

N = 5
ANNOTATED, TRUE_IS_MASKED, ZERO_IS_MASKED = exhibits.attention, exhibits.true_is_masked, exhibits.zero_is_masked
ALL = [ANNOTATED, TRUE_IS_MASKED, ZERO_IS_MASKED]


def tensors(dtype=torch.float32, seed=0, n=N):
    """Query, key, value, (2, n, 7) and (2, n, 3): three axes, which all of them take."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(2, n, d, generator=generator).to(dtype) for d in (7, 7, 3))


# With the right conversion they are ours


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


@pytest.mark.parametrize("exhibit", ALL)
def test_without_a_mask_there_is_nothing_to_disagree_about(exhibit):
    """All are softmax(q kᵀ / √d_k) v."""
    inputs = tensors()

    for got, expected in zip(exhibit(*inputs), scaled_dot_product_attention(*inputs), strict=True):
        assert_close(got, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [1, 2, 20])
def test_the_subsequent_mask_is_ours(size):
    """Shape, dtype and cells."""
    assert torch.equal(exhibits.subsequent_mask(size), subsequent_mask(size))
    assert exhibits.subsequent_mask(size).dtype is torch.bool


@pytest.mark.parametrize("masked", [False, True])
def test_the_multi_headed_module_with_its_weights_copied_is_ours(masked):
    """In evaluation: output, and the weights in `attn`; its mask, (B, 1, K), gets the axis of heads inside."""
    theirs, ours = exhibits.MultiHeadedAttention(3, 12).eval(), MultiHeadAttention(12, 3)
    for linear in theirs.linears:
        nn.init.normal_(linear.weight)
    for mine, linear in zip((ours.w_q, ours.w_k, ours.w_v, ours.w_o), theirs.linears, strict=True):
        mine.load_state_dict(linear.state_dict())
    query, key, value = (torch.randn(2, n, 12) for n in (N, 7, 7))
    mask = torch.tensor([[[True] * 3 + [False] * 4], [[True] * 6 + [False]]]) if masked else None

    expected = ours(query, key, value, mask.unsqueeze(1) if masked else None)

    assert_close(theirs(query, key, value, mask), expected, rtol=1e-5, atol=1e-5)
    assert theirs.attn.shape == (2, 3, N, 7)


# With each other's masks they are wrong without a word


def test_each_reads_the_mask_of_the_other_upside_down():
    """Given a subsequent mask in the other convention, row 0 sees only the future, and no row the present."""
    inputs, ours = tensors(), Subsequent().grid(N)
    future = ~ours

    for exhibit, mask in ((ANNOTATED, to_true_is_masked(ours)), (ZERO_IS_MASKED, to_true_is_masked(ours))):
        weights = exhibit(*inputs, mask)[1]
        assert weights[:, 0, 0].eq(0).all()
        assert_close(weights[:, 0, 1:].sum(-1), torch.ones(2))
        assert weights[:, :-1][:, ours[:-1]].eq(0).all()
        assert_close(weights[:, -1], torch.full((2, N), 1 / N))
    weights = TRUE_IS_MASKED(*inputs, ours)[1]
    assert weights[:, 0, 0].eq(0).all()
    assert weights[:, :-1][:, ours[:-1]].eq(0).all()
    assert (weights[:, :-1][:, future[:-1]] > 0).all()
    assert weights[:, -1].isnan().all()


def test_what_we_do_with_a_mask_of_the_other_convention_is_asked_for_by_name():
    """Ours is told apart by the adapter, never guessed; an empty row is zeros and a warning that names it."""
    inputs = tensors()
    upside_down = from_zero_is_masked(to_true_is_masked(Subsequent().grid(N)))

    with pytest.warns(AttentionWarning, match=f"batch 0 head 0 query {N - 1}"):
        weights = scaled_dot_product_attention(*inputs, upside_down)[1]

    assert weights[:, -1].eq(0).all()


# Rows with no key left


def test_a_fully_masked_row_is_nan_in_one_and_uniform_over_masked_keys_in_the_others(capsys):
    """-inf gives NaN, and a printed line; -1e9 makes masked keys share the attention evenly."""
    inputs, ours = tensors(), torch.ones(N, N, dtype=torch.bool)
    ours[2] = False

    output, weights = TRUE_IS_MASKED(*inputs, ~ours)
    assert weights[:, 2].isnan().all()
    assert output[:, 2].isnan().all()
    assert not weights[:, [0, 1, 3, 4]].isnan().any()
    assert "NaN" in capsys.readouterr().out
    for exhibit in (ANNOTATED, ZERO_IS_MASKED):
        output, weights = exhibit(*inputs, ours)
        assert_close(weights[:, 2], torch.full((2, N), 1 / N))
        assert_close(output[:, 2], inputs[2].mean(1))
    assert capsys.readouterr().out == ""


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


def test_a_very_negative_score_beats_the_fill_value():
    """-1e9 is a number like others: where allowed scores are below it, the *masked* key takes all."""
    query, key = torch.tensor([[[1e5]]]), torch.tensor([[[-1e5], [0.0]]])
    value, ours = torch.tensor([[[1.0], [2.0]]]), torch.tensor([[True, False]])

    for exhibit in (ANNOTATED, ZERO_IS_MASKED):
        assert exhibit(query, key, value, ours)[1].tolist() == [[[0.0, 1.0]]]
    assert TRUE_IS_MASKED(query, key, value, ~ours)[1].tolist() == [[[1.0, 0.0]]]
    assert scaled_dot_product_attention(query, key, value, ours)[1].tolist() == [[[1.0, 0.0]]]


@pytest.mark.parametrize("exhibit", [ANNOTATED, ZERO_IS_MASKED])
def test_minus_a_billion_does_not_fit_half_precision(exhibit):
    """It raises in float16, where -inf and ours work."""
    inputs, ours = tensors(torch.float16), Subsequent().grid(N)

    with pytest.raises(RuntimeError, match="overflow"):
        exhibit(*inputs, ours)
    assert_close(
        scaled_dot_product_attention(*inputs, ours)[1], TRUE_IS_MASKED(*inputs, ~ours)[1], rtol=1e-2, atol=1e-2
    )


# What each takes


def test_one_takes_only_booleans_and_one_only_three_axes():
    """0 and 1 as integers are a mask to two of them; four axes are no batch of matrices."""
    inputs, ours = tensors(), Subsequent().grid(N)

    assert torch.equal(ANNOTATED(*inputs, ours.long())[1], ZERO_IS_MASKED(*inputs, ours)[1])
    with pytest.raises(RuntimeError, match="boolean"):
        TRUE_IS_MASKED(*inputs, (~ours).long())
    four = tuple(t.unsqueeze(1) for t in inputs)
    assert ANNOTATED(*four)[1].shape == TRUE_IS_MASKED(*four)[1].shape == (2, 1, N, N)
    with pytest.raises((RuntimeError, IndexError)):
        ZERO_IS_MASKED(*four)


# Weights after dropout


def test_weights_after_dropout_are_no_distributions():
    """The Annotated Transformer gives back what multiplied the values; ours are before it."""
    inputs = tensors(n=31)

    output, weights = ANNOTATED(*inputs, None, nn.Dropout(0.5))
    clean = ANNOTATED(*inputs)[1]

    assert (weights.sum(-1) - 1).abs().max() > 0.1
    assert set((weights / clean).round(decimals=4).unique().tolist()) == {0.0, 2.0}
    assert_close(output, weights @ inputs[2])
    assert_close(scaled_dot_product_attention(*inputs, dropout_p=0.5)[1].sum(-1), torch.ones(2, 31))


def test_the_module_keeps_the_weights_after_dropout_in_training_only():
    """`attn` is a different thing in training and in evaluation."""
    module, x = exhibits.MultiHeadedAttention(2, 8, dropout=0.5), torch.randn(2, 31, 8)

    module(x, x, x)
    assert (module.attn.sum(-1) - 1).abs().max() > 0.1
    module.eval()(x, x, x)
    assert_close(module.attn.sum(-1), torch.ones(2, 2, 31))


# Cloned linears


def test_clones_are_separate_and_equal():
    """A change of one leaves the others."""
    first, second = exhibits.clones(nn.Linear(3, 3), 2)

    assert torch.equal(first.weight, second.weight)
    with torch.no_grad():
        first.weight.zero_()
    assert second.weight.abs().sum() > 0


def test_cloned_projections_make_scores_symmetric_and_every_token_prefer_itself():
    """W_Q = W_K: i looks at j as j looks at i; with itself a token's score is a squared length."""
    module, x = exhibits.MultiHeadedAttention(2, 64).eval(), torch.randn(1, 13, 64)
    query, key = (linear(x).view(1, 13, 2, 32).transpose(1, 2) for linear in module.linears[:2])
    scores = query @ key.mT

    module(x, x, x)

    assert_close(scores, scores.mT)
    assert torch.linalg.eigvalsh(scores.double()).min() > -1e-4
    diagonal = module.attn.diagonal(dim1=-2, dim2=-1)
    assert (module.attn.argmax(-1) == torch.arange(13)).float().mean() > 0.9
    assert diagonal.mean() > 1.2 / 13


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


def test_a_number_of_heads_that_does_not_divide_is_an_assertion_without_words():
    """Ours names both numbers."""
    with pytest.raises(AssertionError, match=r"^$"):
        exhibits.MultiHeadedAttention(3, 8)
