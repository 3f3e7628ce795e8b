"""Multi-head attention beside PyTorch's own module with the same weights."""

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from attnviz.core.conventions import to_true_is_masked
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import ShapeError
from attnviz.core.masks import Padding, Subsequent
from attnviz.core.tap import Tap
from attnviz.models.multihead import MultiHeadAttention
from attnviz.models.transformer import Layers

B, H, Q, K, D_K = 2, 3, 5, 7, 11
D_MODEL = H * D_K
CLOSE = {"rtol": 1e-6, "atol": 1e-6}


def twins(bias=True, seed=0):
    """Ours and PyTorch's with the same weights, drawn at random, biases too."""
    torch.manual_seed(seed)
    ours = MultiHeadAttention(D_MODEL, H, bias=bias)
    theirs = nn.MultiheadAttention(D_MODEL, H, bias=bias, batch_first=True)
    projections = (ours.w_q, ours.w_k, ours.w_v)
    with torch.no_grad():
        for linear in (*projections, ours.w_o):
            if bias:
                linear.bias.normal_()
        theirs.in_proj_weight.copy_(torch.cat([linear.weight for linear in projections]))
        theirs.out_proj.weight.copy_(ours.w_o.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([linear.bias for linear in projections]))
            theirs.out_proj.bias.copy_(ours.w_o.bias)
    return ours, theirs


def inputs():
    return torch.randn(B, Q, D_MODEL), torch.randn(B, K, D_MODEL), torch.randn(B, K, D_MODEL)


def both(ours, theirs, query, key, value, mask=None, **their_mask):
    """(output, weights) of each; the weights of all heads, (B, H, Q, K)."""
    tap = Tap()
    output = ours(query, key, value, mask, tap=tap)
    step = tap.steps[0]
    weights = torch.stack([torch.stack([step.weights(h, sentence=b) for h in range(H)]) for b in range(B)])
    return (output, weights), theirs(query, key, value, average_attn_weights=False, **their_mask)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cross", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_with_copied_weights_it_is_pytorchs_module(bias, cross, training):
    """Output and the weights of every head, to 1e-6: self and cross attention, with and without biases."""
    ours, theirs = twins(bias)
    ours.train(training)
    theirs.train(training)
    query, key, value = inputs()
    if not cross:
        query = key = value

    for got, expected in zip(*both(ours, theirs, query, key, value), strict=True):
        assert_close(got, expected, **CLOSE)
    assert_close(ours(query, key, value), theirs(query, key, value)[0], **CLOSE)


def test_masks_are_pytorchs_turned_around():
    """True = may attend here, True = masked there, for `attn_mask` as for `key_padding_mask` and both together."""
    (ours, theirs), (query, key, value) = twins(), inputs()
    causal, padding = Subsequent(2), Padding((3, 6))
    attn_mask = to_true_is_masked(causal.grid(Q, K))
    key_padding_mask = to_true_is_masked(padding.tensor(1, K)[:, 0, 0])

    for mask, theirs_is in (
        (causal, {"attn_mask": attn_mask}),
        (causal.grid(Q, K), {"attn_mask": attn_mask}),
        (padding, {"key_padding_mask": key_padding_mask}),
        (padding.tensor(Q, K), {"key_padding_mask": key_padding_mask}),
        (causal & padding, {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask}),
    ):
        for got, expected in zip(*both(ours, theirs, query, key, value, mask, **theirs_is), strict=True):
            assert_close(got, expected, **CLOSE)
        assert_close(ours(query, key, value, mask), theirs(query, key, value, **theirs_is)[0], **CLOSE)


def test_the_same_gradients_reach_the_weights():
    """So it can be trained."""
    (ours, theirs), (query, key, value) = twins(), inputs()

    ours(query, key, value).square().sum().backward()
    theirs(query, key, value)[0].square().sum().backward()

    expected = theirs.in_proj_weight.grad.chunk(3)
    for linear, gradient in zip((ours.w_q, ours.w_k, ours.w_v), expected, strict=True):
        assert_close(linear.weight.grad, gradient, rtol=1e-4, atol=1e-4)
    assert_close(ours.w_o.weight.grad, theirs.out_proj.weight.grad, rtol=1e-4, atol=1e-4)


def test_nothing_of_a_run_stays_on_the_module():
    """The weights come out through the tap; attributes, buffers and parameters are as before, bit by bit."""
    module, x = MultiHeadAttention(12, 3), torch.randn(B, Q, 12)
    names, before = set(vars(module)), {name: p.clone() for name, p in module.state_dict().items()}
    plain = module(x, x, x, tap=Tap())

    edits = Edits(mask=Subsequent(), heads_off={(Site("encoder", 0), 1)}, temperature=0.3, scale=2.0)
    assert not torch.allclose(module(x, x, x, tap=Tap(edits)), plain)

    assert set(vars(module)) == names
    assert all(torch.equal(p, before[name]) for name, p in module.state_dict().items())
    assert torch.equal(module(x, x, x, tap=Tap()), plain)


@pytest.mark.parametrize("wrong", [(B, Q, D_MODEL + 1), (Q, D_MODEL), (B, 1, Q, D_MODEL)])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_input_of_another_shape_is_named(wrong, place):
    """The message names the input, its shape and the shape that it must have."""
    given = list(inputs())
    given[place] = torch.zeros(wrong)

    with pytest.raises(ShapeError) as refused:
        twins()[0](*given)

    assert f"The {('query', 'key', 'value')[place]} has shape {wrong}" in str(refused.value)
    assert f"d_model = {D_MODEL}" in str(refused.value)


def test_a_stack_hands_each_layer_its_own_site():
    """And adds each layer's output to its input: with all heads off, and no biases, nothing changes."""
    stack, x = Layers("encoder", 12, 3, 4, bias=False), torch.randn(B, Q, 12)
    tap = Tap()

    output = stack(x, Subsequent(), tap=tap)

    assert [step.site for step in tap.steps] == [Site("encoder", layer) for layer in range(4)]
    assert all(step.mask == Subsequent() for step in tap.steps)
    assert not torch.allclose(output, x)
    off = Edits(heads_off={(Site("encoder", layer), head) for layer in range(4) for head in range(3)})
    assert torch.equal(stack(x, Subsequent(), tap=Tap(off)), x)
