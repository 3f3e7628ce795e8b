"""`nn.MultiheadAttention` and all of `nn.Transformer`, with every option."""

import pytest
import torch
from handmade import shown
from torch import nn
from torch.testing import assert_close

import attnviz
from attnviz.core.edits import Edits, Site

B, Q, K, E, H = 2, 5, 7, 12, 3

OPTIONS = {
    "plain": {},
    "batch_first": {"batch_first": True},
    "bias_kv": {"add_bias_kv": True},
    "zero_attn": {"add_zero_attn": True},
    "other widths": {"kdim": 8, "vdim": 10},
    "no bias": {"bias": False},
}


def boolean(*shape: int) -> torch.Tensor:
    """True = masked, the first key never."""
    mask = torch.rand(*shape) > 0.6
    mask[..., 0] = False
    return mask


CALLS = {
    "nothing": dict,
    "padding": lambda: {"key_padding_mask": boolean(B, K)},
    "mask": lambda: {"attn_mask": boolean(Q, K)},
    "mask of each head": lambda: {"attn_mask": boolean(B * H, Q, K)},
    "numbers": lambda: {"attn_mask": torch.randn(Q, K)},
    "both": lambda: {"attn_mask": boolean(Q, K), "key_padding_mask": boolean(B, K)},
}


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_seen(option, call, need_weights):
    """The weights are PyTorch's own, and so are outputs and gradients, to the last bit."""
    options = OPTIONS[option]
    model, given = nn.MultiheadAttention(E, H, **options), CALLS[call]()
    first = options.get("batch_first", False)
    q, k, v = (torch.randn(B, n, options.get(width, E)) for n, width in ((Q, ""), (K, "kdim"), (K, "vdim")))
    q, k, v = (one if first else one.transpose(0, 1) for one in (q, k, v))
    alone, _ = model(q, k, v, need_weights=need_weights, **given)
    expected = torch.autograd.grad(alone.sum(), model.out_proj.weight)

    with attnviz.capture(model) as seen:
        output, weights = model(q, k, v, need_weights=need_weights, average_attn_weights=False, **given)

    assert torch.equal(output, alone)
    assert torch.equal(torch.autograd.grad(output.sum(), model.out_proj.weight)[0], expected[0])
    (step,) = seen.steps
    _, own = model(q, k, v, average_attn_weights=False, **given)
    assert_close(shown(step), own, atol=1e-6, rtol=0)
    assert not step.weights_only
    assert step.site == Site("cross", 0)
    assert (weights is None) != need_weights


@pytest.mark.parametrize("need_weights", [False, True])
def test_edits_act(need_weights):
    """Heads off zero their part before the output projection; the weights that are given back are the edited ones."""
    model, x = nn.MultiheadAttention(E, H, batch_first=True), torch.randn(B, Q, E)
    edits = Edits(mask=attnviz.Subsequent()).with_heads_off(Site("encoder", 0), {1})
    with attnviz.capture(model, edits) as seen:
        output, _ = model(x, x, x, need_weights=need_weights)

    (step,) = seen.steps
    heads = torch.stack([torch.cat([step.output(h, sentence=b) for h in range(H)], -1) for b in range(B)])
    assert_close(output, model.out_proj(heads))
    assert not heads[..., 4:8].any()
    assert not shown(step).triu(1).any()


def test_a_whole_transformer_has_its_sites_by_name():
    """Encoder, decoder and cross-attention, with causal and padding masks."""
    model = nn.Transformer(E, H, 2, 2, 16, batch_first=True, dropout=0.0)
    source, target = torch.randn(B, K, E), torch.randn(B, Q, E)
    causal, padding = nn.Transformer.generate_square_subsequent_mask(Q), boolean(B, K)
    given = {"tgt_mask": causal, "src_key_padding_mask": padding, "memory_key_padding_mask": padding}
    alone = model(source, target, **given)

    with attnviz.capture(model) as seen:
        output = model(source, target, **given)

    assert torch.equal(output, alone)
    assert seen.sites == {
        Site("encoder", 0): "encoder.layers.0.self_attn",
        Site("encoder", 1): "encoder.layers.1.self_attn",
        Site("decoder", 0): "decoder.layers.0.self_attn",
        Site("cross", 0): "decoder.layers.0.multihead_attn",
        Site("decoder", 1): "decoder.layers.1.self_attn",
        Site("cross", 1): "decoder.layers.1.multihead_attn",
    }
    record = seen.record(tokens=[list("abcde")] * B, keys=[list("ABCDEFG")] * B)
    queries, keys = record.tokens(Site("cross", 0))
    assert "".join(token.text for token in queries) == "abcde"
    assert "".join(token.text for token in keys) == "ABCDEFG"
    assert len(record.steps) == 6


@pytest.mark.parametrize("training", [False, True])
def test_an_encoder_is_seen_in_evaluation_too(training):
    """PyTorch would fuse a whole layer there: its last bits differ, and padding is filled with zeros."""
    layer = nn.TransformerEncoderLayer(E, H, 16, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 2).train(training)
    x, padding = torch.randn(B, Q, E), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        alone = model(x, src_key_padding_mask=padding)
        with attnviz.capture(model) as seen:
            output = model(x, src_key_padding_mask=padding)

    assert_close(output[~padding], alone[~padding])
    assert len(seen.steps) == 2
    assert not shown(seen.steps[0])[1, :, :, 3:].any()
