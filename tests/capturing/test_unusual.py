"""What is unusual about attention is said beside its map, with both numbers; what is usual is not."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import attnviz

B, H, N, W = 2, 4, 5, 16


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, q: Tensor) -> Tensor:
        return self.function(q)


def findings(function, q: Tensor | None = None) -> str:
    model = Model(function)
    with attnviz.capture(model) as seen:
        model(torch.randn(B, H, N, W) if q is None else q)
    record = seen.record()
    assert record.unseen is None
    return "; ".join(record.findings)


def test_a_scale_is_told_with_the_usual_one():
    """1/√16 is 0.25."""
    assert not findings(lambda q: F.scaled_dot_product_attention(q, q, q))
    assert not findings(lambda q: (q @ q.mT / 4).softmax(-1) @ q)
    assert "scores are scaled by 0.0625, where 1/√d_k is 0.25" in findings(lambda q: (q @ q.mT / W).softmax(-1) @ q)
    assert "no factor of the scores was seen, where 1/√d_k is 0.25" in findings(lambda q: (q @ q.mT).softmax(-1) @ q)


def test_copies_of_keys_and_values_go_to_the_same_heads():
    """`repeat` for keys, `repeat_interleave` for values."""
    few = torch.randn(B, 2, N, W)
    same = [lambda q, one=one: F.scaled_dot_product_attention(q, one, one) for one in (
        few.repeat_interleave(2, 1), few.repeat(1, 2, 1, 1), few[:, :1].expand(-1, H, -1, -1)
    )]  # fmt: skip
    assert not any(map(findings, same))
    mixed = findings(lambda q: F.scaled_dot_product_attention(q, few.repeat(1, 2, 1, 1), few.repeat_interleave(2, 1)))
    assert "heads 0+2, 1+3 share keys, and heads 0+1, 2+3 share values" in mixed


@pytest.mark.parametrize("causal", [False, True])
def test_a_bias_with_the_wrong_sign_is_told(causal):
    """ALiBi's with +, by which the farthest key gets most."""
    places = torch.arange(N)
    distance = (places[:, None] - places).abs() * torch.tensor([0.5, 0.25, 0.125, 0.0625])[:, None, None]
    mask = torch.zeros(N, N).masked_fill(torch.ones(N, N).triu(1).bool() & causal, -torch.inf)

    assert not findings(lambda q: F.scaled_dot_product_attention(q, q, q, mask - distance))
    wrong = findings(lambda q: F.scaled_dot_product_attention(q, q, q, mask + distance))
    assert "the bias of head 0 changes by -0.5 with each key nearer to the query, ALiBi's by +0.5" in wrong


def test_a_mask_that_a_hint_makes_pytorch_ignore_is_told():
    """`is_causal=True` beside a mask of a window."""
    layer = nn.MultiheadAttention(W, H, batch_first=True)
    causal, x = torch.ones(N, N).triu(1).bool(), torch.randn(B, N, W)
    for mask, is_told in ((causal, False), (causal | torch.ones(N, N).tril(-2).bool(), True)):
        with attnviz.capture(layer) as seen:
            layer(x, x, x, need_weights=False, attn_mask=mask, is_causal=True)
        assert ("ignores the mask" in "; ".join(seen.record().findings)) == is_told


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("where", ["right", "left"])
def test_an_encoder_gives_at_padding_what_it_gives_without_a_capture(norm, nested, training, where):
    """Zeros, or what its last norm makes of them, where PyTorch leaves padding out: means over positions agree."""
    layer = nn.TransformerEncoderLayer(W, H, 32, batch_first=True, dropout=0.0)
    last = nn.LayerNorm(W, bias=True) if norm else None
    model = nn.TransformerEncoder(layer, 2, last, enable_nested_tensor=nested).train(training)
    if norm:
        nn.init.normal_(last.bias)
    padding = torch.tensor([[False] * N, [False] * 3 + [True] * 2])
    padding = padding if where == "right" else padding.flip(1)
    x = torch.randn(B, N, W)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            alone = model(x, src_key_padding_mask=padding)
            with attnviz.capture(model) as seen:
                output = model(x, src_key_padding_mask=padding)
        assert_close(output, alone, atol=1e-5, rtol=1e-4)
        assert_close(seen.output, output)
        assert len(seen.steps) == 2
    assert not model._forward_hooks
