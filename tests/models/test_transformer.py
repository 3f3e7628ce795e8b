"""Layers beside PyTorch's own with the same weights; models whose padding changes nothing and that see no future."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Padding, Subsequent
from attnviz.core.tap import Tap
from attnviz.models.transformer import Config, LanguageModel, Layer, sinusoidal

B, H, Q, K, D_K, D_FF = 2, 3, 5, 7, 11, 13
D_MODEL = H * D_K
LAYER = Site("decoder", 0)
EXACT = {"rtol": 1e-12, "atol": 1e-12}

READER = Config(vocabulary=17, d_model=D_MODEL, num_heads=H, num_layers=2, d_ff=D_FF, longest=K)
WRITER = replace(READER, written=19)


def drawn(module):
    """The same module in float64, every parameter drawn at random: fresh norms and biases would hide a mistake."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5)
    return module.double().eval()


def copied(ours, theirs, norms):
    """PyTorch's layer with the weights of ours. `norms` names our norms in their order."""
    attentions = [(ours.attention, theirs.self_attn)]
    attentions += [(ours.cross, theirs.multihead_attn)] if ours.cross else []
    with torch.no_grad():
        for own, other in attentions:
            projections = (own.w_q, own.w_k, own.w_v)
            other.in_proj_weight.copy_(torch.cat([linear.weight for linear in projections]))
            other.in_proj_bias.copy_(torch.cat([linear.bias for linear in projections]))
            other.out_proj.load_state_dict(own.w_o.state_dict())
    for own, other in zip(norms, ("norm1", "norm2", "norm3"), strict=False):
        getattr(theirs, other).load_state_dict(own.state_dict())
    theirs.linear1.load_state_dict(ours.feed_forward[1].state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward[3].state_dict())
    return theirs


def pytorchs(kind, ours, norms):
    theirs = kind(D_MODEL, H, D_FF, dropout=0.0, activation="gelu", batch_first=True, norm_first=True).double()
    return copied(ours, theirs, norms).eval()


# Layers


def test_a_layer_of_an_encoder_is_pytorchs():
    """In float64, to 1e-12: with the order of norms, attention and feed-forward, also under padding."""
    ours = drawn(Layer(D_MODEL, H, d_ff=D_FF))
    theirs = pytorchs(nn.TransformerEncoderLayer, ours, (ours.norm, ours.feed_forward[0]))
    x, padding = torch.randn(B, Q, D_MODEL, dtype=torch.float64), Padding((3, Q))
    hidden = ~padding.tensor(1, Q)[:, 0, 0]

    assert_close(ours(x, None, None, None, tap=None, site=LAYER), theirs(x), **EXACT)
    masked = ours(x, padding, None, None, tap=None, site=LAYER)
    expected = theirs(x, src_key_padding_mask=hidden)
    assert_close(masked[~hidden], expected[~hidden], **EXACT)


def test_a_layer_of_a_decoder_is_pytorchs():
    """It looks at itself under the subsequent mask, then at the memory without its padding."""
    ours = drawn(Layer(D_MODEL, H, d_ff=D_FF, cross=True))
    theirs = pytorchs(nn.TransformerDecoderLayer, ours, (ours.norm, ours.cross_norm, ours.feed_forward[0]))
    x, memory = (torch.randn(B, n, D_MODEL, dtype=torch.float64) for n in (Q, K))
    padding = Padding((4, K))

    expected = theirs(x, memory, tgt_mask=~Subsequent().grid(Q), memory_key_padding_mask=~padding.tensor(1, K)[:, 0, 0])
    assert_close(ours(x, Subsequent(), memory, padding, tap=None, site=LAYER), expected, **EXACT)


def test_a_layer_without_feed_forward_and_norm_only_adds_attention():
    """As a model whose weights are set by hand has it."""
    layer = drawn(Layer(D_MODEL, H, norm=False))
    x = torch.randn(B, Q, D_MODEL, dtype=torch.float64)

    assert_close(layer(x, None, None, None, tap=None, site=LAYER), x + layer.attention(x, x, x), **EXACT)


@pytest.mark.parametrize(("length", "d_model"), [(1, 2), (7, 16), (13, 5), (53, 64), (3, 1), (0, 4)])
def test_the_table_of_positions_is_the_formula_of_the_paper(length, d_model):
    """PE(p, 2i) = sin(p / 10000^(2i / d_model)), PE(p, 2i + 1) = cos of the same; an odd width ends with a sine."""
    table = sinusoidal(length, d_model)

    assert table.shape == (length, d_model)
    for position in range(length):
        for column in range(d_model):
            angle = position / 10_000 ** (2 * (column // 2) / d_model)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert math.isclose(table[position, column].item(), expected, abs_tol=1e-5)


# Models


def run(model, read, lengths, written=None, reach=None, edits=Edits(), steps=None):
    """(hidden, logits) of either model."""
    tap = Tap(edits)
    if steps is not None:
        tap.steps = steps
    if isinstance(model, LanguageModel):
        return model(read, lengths, tap=tap)
    return model.decode(written, model.encode(read, lengths, tap=tap), reach, lengths, tap=tap)


@pytest.mark.parametrize("config", [READER, WRITER], ids=["reader", "writer"])
def test_attention_calls_come_in_the_order_that_the_sizes_say(config):
    steps, ids = [], torch.ones(1, 3, dtype=torch.long)
    run(config.build(), ids, (3,), ids, (3,), steps=steps)

    assert tuple(step.site for step in steps) == config.sites
    kinds = "decoder decoder" if config is READER else "encoder encoder decoder cross decoder cross"
    assert " ".join(site.kind for site in config.sites) == kinds


def test_padding_changes_nothing_of_a_language_model():
    """The shorter sentence of a batch gives what it gives alone, whatever id fills it."""
    model = drawn(READER.build())
    ids = torch.randint(17, (2, K))
    together = run(model, ids, (K, 4))
    alone = run(model, ids[1:, :4], (4,))

    for one, other in zip(together, alone, strict=True):
        assert_close(one[1, :4], other[0], **EXACT)


def test_padding_changes_nothing_of_a_translation():
    """Neither the padding of what is read nor that of what is written."""
    model = drawn(WRITER.build())
    ids, written = torch.randint(17, (2, K)), torch.randint(19, (2, Q))
    together = run(model, ids, (K, 4), written, (Q, 3))
    alone = run(model, ids[1:, :4], (4,), written[1:, :3], (3,))

    for one, other in zip(together, alone, strict=True):
        assert_close(one[1, :3], other[0], **EXACT)


@pytest.mark.parametrize("config", [READER, WRITER], ids=["reader", "writer"])
@given(place=st.integers(0, Q - 1), seed=st.integers(0, 99))
def test_no_word_is_seen_before_it_is_there(config, place, seed):
    """Another word changes nothing before its place, and something at it."""
    torch.manual_seed(seed)
    model, ids = drawn(config.build()), torch.randint(16, (1, Q))
    other = ids.clone()
    other[0, place] = 16

    one, changed = (run(model, ids, (Q,), written, (Q,))[1] for written in (ids, other))
    if config is READER:
        one, changed = (run(model, read, (Q,))[1] for read in (ids, other))
    assert_close(one[:, :place], changed[:, :place], rtol=0, atol=0)
    assert not torch.allclose(one[:, place], changed[:, place])


def test_every_written_word_depends_on_every_word_read():
    """The encoder looks both ways."""
    model, ids, written = drawn(WRITER.build()), torch.randint(16, (1, K)), torch.randint(19, (1, Q))
    one = run(model, ids, (K,), written, (Q,))[1]

    for place in range(K):
        other = ids.clone()
        other[0, place] = 16
        assert not torch.isclose(one, run(model, other, (K,), written, (Q,))[1]).all(-1).any()
