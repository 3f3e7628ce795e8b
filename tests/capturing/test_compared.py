"""Each map is compared with the model's own numbers before it is shown: none is false, none is dropped in silence."""

from dataclasses import replace

import pytest
import torch
from examples import examples
from handmade import HEADS, D, shown, weights
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import attnviz
from attnviz.core.errors import AttnvizError

N = 5


class Layer(nn.Module):
    """Self-attention with a bias and a mask of its own, or without; it keeps what it used."""

    def __init__(self, fused: bool, bias: bool, mask: bool):
        super().__init__()
        self.num_heads, self.fused = HEADS, fused
        self.bias = nn.Parameter(torch.randn(HEADS, N, N)) if bias else None
        self.mask = torch.ones(N, N, dtype=torch.bool).tril() if mask else None

    def forward(self, x: Tensor) -> Tensor:
        q = x.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        self.query = q.detach()
        if self.fused:
            added = self.mask if self.bias is None else self.bias
            if self.mask is not None and self.bias is not None:
                added = self.bias.masked_fill(~self.mask, -torch.inf)
            output = F.scaled_dot_product_attention(q, q, q, added)
        else:
            scores = q @ q.mT * q.shape[-1] ** -0.5
            scores = scores if self.bias is None else scores + self.bias
            scores = scores if self.mask is None else scores.masked_fill(~self.mask, -torch.inf)
            output = scores.softmax(-1) @ q
        return output.transpose(1, 2).flatten(2)

    def used(self) -> Tensor:
        return weights(self.query, self.query, self.mask, bias=0.0 if self.bias is None else self.bias.double())


@given(layers=st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=2, max_size=4))
@examples(12)
def test_a_call_shows_its_own_bias_and_mask_whatever_the_one_before_had(layers):
    """In any order of layers with and without them, of both routes."""
    model = nn.Sequential(*(Layer(*one) for one in layers))
    with attnviz.capture(model) as seen:
        model(torch.randn(2, N, D))

    assert len(seen.steps) == len(layers)
    for step, layer in zip(seen.steps, model, strict=True):
        assert_close(shown(step).double(), layer.used(), atol=2e-6, rtol=1e-5)
        assert bool(step.scoring.bias) == (layer.bias is not None)
    assert seen.record().unseen is None


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("part", ["query", "bias", "mask", "scale"])
def test_a_map_that_is_not_the_models_is_named_and_not_shown(fused, part):
    """Whatever part of it went wrong on the way to the record."""
    model = nn.Sequential(Layer(fused, True, False), Layer(fused, True, False))
    with attnviz.capture(model) as seen:
        model(torch.randn(2, N, D))
    call = seen.calls[1]
    if part == "query":
        call.query = call.query.flip(2)
    elif part == "mask":
        call.mask = torch.ones(N, N, dtype=torch.bool).tril()
    else:
        call.scoring = replace(call.scoring, **({"bias": ()} if part == "bias" else {"scale": 0.9}))
    record = seen.record()

    assert [step.name for step in record.steps] == ["0"]
    assert "the map of encoder layer 1 (1), worked out again, differs from the model's own" in record.unseen
    seen.calls[0].query = seen.calls[0].query.flip(2)
    with pytest.raises(AttnvizError, match="No attention was seen in Sequential: the map of encoder layer 0"):
        seen.record()


@pytest.mark.parametrize("fused", [False, True])
def test_rows_that_are_not_numbers_are_named(fused):
    """As in the model itself."""
    model, x = nn.Sequential(Layer(fused, False, True)), torch.randn(1, N, D)
    x[0, -1] = torch.nan
    with attnviz.capture(model) as seen:
        model(x)

    assert "decoder layer 0 (0) has NaN in" in seen.record().unseen


class Head(nn.Module):
    """One of several heads, with a bias or without."""

    def __init__(self, bias: bool, scale: float):
        super().__init__()
        self.bias, self.scale = torch.randn(N, N) if bias else None, scale

    def forward(self, x: Tensor) -> Tensor:
        scores = x @ x.mT * self.scale
        scores = scores if self.bias is None else scores + self.bias
        self.used = scores.softmax(-1)
        return self.used @ x


class Heads(nn.Module):
    def __init__(self, *heads: tuple[bool, float]):
        super().__init__()
        self.heads = nn.ModuleList(Head(*one) for one in heads)

    def forward(self, x: Tensor) -> Tensor:
        return sum(head(x) for head in self.heads)


def test_heads_with_and_without_a_bias_are_one_map_that_is_right():
    """A bias of one head alone is no bias of the others."""
    model = Heads((False, 0.3), (True, 0.3))
    with attnviz.capture(model) as seen:
        model(torch.randn(2, N, D))

    (step,) = seen.steps
    assert_close(shown(step), torch.stack([head.used for head in model.heads], 1), atol=1e-6, rtol=1e-5)


def test_heads_of_other_scales_are_named():
    """No map has two scales."""
    model = Heads((False, 0.3), (False, 0.4))
    with attnviz.capture(model) as seen:
        model(torch.randn(2, N, D))

    with pytest.raises(AttnvizError, match="the heads of the model differ in shape or scale"):
        seen.record()


def test_rounding_in_16_bits_is_said():
    """Weights are worked out in float32; the model's own are not those."""
    model = nn.Sequential(Layer(False, False, False))
    with attnviz.capture(model) as seen, torch.autocast("cpu", torch.bfloat16):
        model(torch.randn(2, N, D) * 2)
    record = seen.record()

    (finding,) = record.findings
    assert "in bfloat16, they differ by up to 0.00" in finding
    assert record.unseen is None
    with attnviz.capture(model) as seen:
        model(torch.randn(2, N, D))
    assert not seen.record().findings
