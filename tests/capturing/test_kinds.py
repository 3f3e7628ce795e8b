"""The kind and the number of a call do not depend on how long its inputs are: the texts of queries and keys tell."""

import pytest
import torch
from examples import examples
from handmade import HEADS, D
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

import attnviz
from attnviz.core.edits import Edits, Site

WAYS = ["fused", "by hand", "multihead"]


class Attention(nn.Module):
    """Projections and attention, in one of three ways; its argument names say nothing."""

    def __init__(self, way: str):
        super().__init__()
        self.way, self.num_heads = way, HEADS
        self.to_q, self.to_k, self.to_v = (nn.Linear(D, D) for _ in range(3))
        self.inner = nn.MultiheadAttention(D, HEADS, batch_first=True)

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        if self.way == "multihead":
            return self.inner(a, b, c)[0]
        q, k, v = (
            to(one).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for to, one in ((self.to_q, a), (self.to_k, b), (self.to_v, c))
        )
        output = F.scaled_dot_product_attention(q, k, v) if self.way == "fused" else (q @ k.mT / 2).softmax(-1) @ v
        return output.transpose(1, 2).flatten(2)


class Layer(nn.Module):
    """Self-attention and attention to a memory, named as in many translations of the paper."""

    def __init__(self, way: str, positions: bool):
        super().__init__()
        self.slf_attn, self.enc_attn = Attention(way), Attention(way)
        self.norm, self.positions = nn.LayerNorm(D), positions

    def forward(self, y: Tensor, mem: Tensor) -> Tensor:
        placed = self.norm(y)
        if self.positions:  # as in DETR: computed twice, so that no tensor is another one
            y = y + self.slf_attn(placed + 1, placed + 1, placed)
        else:
            y = y + self.slf_attn(placed, placed, placed)
        return y + self.enc_attn(y, mem, mem)


class Decoder(nn.Module):
    def __init__(self, way: str, positions: bool):
        super().__init__()
        self.embedding = nn.Embedding(20, D)
        self.first = Attention(way)
        self.stack = nn.ModuleList(Layer(way, positions) for _ in range(2))

    def forward(self, ids: Tensor, source: Tensor) -> Tensor:
        memory = self.embedding(source)
        memory = memory + self.first(memory, memory, memory)
        y = self.embedding(ids)
        for layer in self.stack:
            y = layer(y, memory)
        return y


KINDS = [Site("encoder", 0), Site("encoder", 1), Site("cross", 0), Site("encoder", 2), Site("cross", 1)]


@pytest.mark.parametrize("way", WAYS)
@given(queries=st.integers(1, 7), keys=st.integers(1, 7), batch=st.integers(1, 3), positions=st.booleans())
@examples(12)
def test_sites_are_those_of_every_length(way, queries, keys, batch, positions):
    """Also where both texts have one length, and where they are one tensor."""
    model = Decoder(way, positions).eval()
    ids = torch.randint(0, 20, (batch, queries))
    source = torch.randint(0, 20, (batch, keys))
    for other in (source, ids):
        with torch.no_grad(), attnviz.capture(model) as seen:
            model(ids, other)
        assert list(seen.sites) == KINDS


def test_an_edit_reaches_the_same_call_at_every_length():
    """Head 0 of the first cross-attention."""
    model = Decoder("fused", False)
    for queries, keys in ((5, 7), (7, 7), (1, 1)):
        off = Edits().with_heads_off(Site("cross", 0), {0})
        with torch.no_grad(), attnviz.capture(model, off) as seen:
            model(torch.randint(0, 20, (1, queries)), torch.randint(0, 20, (1, keys)))
        assert seen.sites[Site("cross", 0)] == "stack.0.enc_attn"
        assert [step.name for step in seen.steps if step.heads_off] == ["stack.0.enc_attn"]


class Named(nn.Module):
    """A module whose name says another thing than what it is given."""

    def __init__(self, name: str):
        super().__init__()
        self.name = name
        setattr(self, name, nn.MultiheadAttention(D, HEADS, batch_first=True))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return getattr(self, self.name)(x, y, y)[0]


@pytest.mark.parametrize("name", ["multihead_attn", "cross_attn", "self_attn", "attention"])
@pytest.mark.parametrize("length", [5, 7])
def test_a_name_never_beats_what_is_known(name, length):
    """One tensor is one text, two are two."""
    model, x, y = Named(name), torch.randn(2, 5, D), torch.randn(2, length, D)
    with attnviz.capture(model) as seen:
        model(x, x)
    assert list(seen.sites) == [Site("encoder", 0)]

    with attnviz.capture(model) as seen:
        model(x, y)
    assert list(seen.sites) == [Site("cross", 0)]


@pytest.mark.parametrize("length", [4, 6])
def test_learned_queries_are_another_text(length):
    """As in Perceiver: what they look at is the input."""

    class Latents(nn.Module):
        def __init__(self):
            super().__init__()
            self.latents, self.attend = nn.Parameter(torch.randn(4, D)), Attention("by hand")
            self.then = Attention("by hand")

        def forward(self, x: Tensor) -> Tensor:
            latents = self.latents.expand(len(x), -1, -1)
            latents = latents + self.attend(latents, x, x)
            return self.then(latents, latents, latents)

    with attnviz.capture(model := Latents()) as seen:
        model(torch.randn(2, length, D))

    assert list(seen.sites) == [Site("cross", 0), Site("encoder", 0)]


def test_a_whole_transformer_that_reads_one_tensor_twice_has_its_kinds():
    """The encoder's output is not what the decoder reads, though both begin with one tensor."""
    model, x = nn.Transformer(D, HEADS, 1, 1, 16, batch_first=True), torch.randn(2, 5, D)
    with attnviz.capture(model) as seen:
        model(x, x)

    assert list(seen.sites) == [Site("encoder", 0), Site("decoder", 0), Site("cross", 0)]


def clamped(scores: Tensor) -> Tensor:
    return torch.tanh(scores / 50) * 50


def test_weights_whose_scores_are_unknown_are_of_one_text_if_their_shape_says_so():
    """TorchScript hides the scores, and dropout is given the weights as a tensor of its own."""

    class Scripted(nn.Module):
        def __init__(self):
            super().__init__()
            self.num_heads, self.clamp, self.dropout = HEADS, torch.jit.script(clamped), nn.Dropout()
            self.embed, self.to_v = nn.Embedding(9, D), nn.Linear(D, D, bias=False)

        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            q, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in (x, self.to_v(x)))
            scores = self.clamp(q @ q.mT / 2)
            scores = scores.masked_fill(torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool(), -torch.inf)
            return (self.dropout(scores.softmax(-1)) @ v).transpose(1, 2).flatten(2)

    with attnviz.capture(model := Scripted().eval()) as seen, torch.no_grad():
        model(torch.tensor([[1, 2, 3, 4]]))

    assert list(seen.sites) == [Site("decoder", 0)]


class Guided(nn.Module):
    """A model whose code runs another one, which is no part of it."""

    def __init__(self, other):
        super().__init__()
        self.attention, self.other = nn.MultiheadAttention(8, 2, batch_first=True), [other]

    def forward(self, x):
        x = self.other[0](x)
        return self.attention(x, x, x)[0]


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 4, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


def test_the_layers_of_another_model_are_no_layers_of_this_one():
    """As with the assistant model of a generation, which proposes tokens."""
    model = Guided(Small())
    with torch.no_grad(), attnviz.capture(model) as seen:
        model(torch.randn(1, 5, 8))

    assert [step.num_heads for step in seen.steps] == [2]
