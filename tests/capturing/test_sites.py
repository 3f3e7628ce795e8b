"""A site is a kind and a number, whatever the lengths; the passes of a generation are one map of it."""

import re

import pytest
import torch
from captured import refusal, seen_in, shown
from examples import examples
from handmade import HEADS, Attention, B, D, Head, Heads, N, Own, attend, join
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import attnviz
from attnviz import Edits, Site

WAYS = ["fused", "by hand", "multihead"]
ENCODER, SECOND, CROSS, DECODER = Site("encoder", 0), Site("encoder", 1), Site("cross", 0), Site("decoder", 0)


class Translator(nn.Module):
    """Self-attention and attention to a memory, named as in many translations of the paper."""

    def __init__(self, way: str, positions: bool):
        super().__init__()
        self.embedding, self.norm, self.positions = nn.Embedding(20, D), nn.LayerNorm(D), positions
        self.first, *layers = (Attention(way) for _ in range(5))
        self.slf_attn, self.enc_attn = nn.ModuleList(layers[:2]), nn.ModuleList(layers[2:])

    def forward(self, ids: Tensor, source: Tensor) -> Tensor:
        memory, y = self.embedding(source), self.embedding(ids)
        memory = memory + self.first(memory, memory, memory)
        for to_itself, to_memory in zip(self.slf_attn, self.enc_attn, strict=True):
            x = self.norm(y)
            sides = (x + 1, x + 1) if self.positions else (x, x)  # as in DETR: no tensor is another one
            y = y + to_itself(*sides, x)
            y = y + to_memory(y, memory, memory)
        return y


@pytest.mark.parametrize("way", WAYS)
@given(queries=st.integers(1, 7), keys=st.integers(1, 7), batch=st.integers(1, 3), positions=st.booleans())
@examples(12)
def test_sites_are_those_of_every_length(way, queries, keys, batch, positions):
    """An edit reaches the same call at every length, also if both texts have one length or are one tensor."""
    model = Translator(way, positions).eval()
    ids, source = torch.randint(0, 20, (batch, queries)), torch.randint(0, 20, (batch, keys))
    for other in (source, ids):
        with torch.no_grad(), attnviz.capture(model, Edits().with_heads_off(CROSS, {0})) as seen:
            model(ids, other)
        assert list(seen.sites) == [ENCODER, SECOND, CROSS, Site("encoder", 2), Site("cross", 1)]
        assert [step.site for step in seen.steps if step.heads_off] == [CROSS]
        assert seen.sites[CROSS].startswith("enc_attn.0")


@pytest.mark.parametrize("name", ["multihead_attn", "cross_attn", "attention"])
@pytest.mark.parametrize("length", [N, 7])
def test_a_name_never_beats_what_is_known(name, length):
    """One tensor is one text, two are two."""
    model, x = nn.Module(), torch.randn(B, N, D)
    setattr(model, name, nn.MultiheadAttention(D, HEADS, batch_first=True))
    model.forward = lambda x, y: getattr(model, name)(x, y, y)[0]

    assert list(seen_in(model, x, x).sites) == [ENCODER]
    assert list(seen_in(model, x, torch.randn(B, length, D)).sites) == [CROSS]


@pytest.mark.parametrize("length", [4, 6])
def test_learned_queries_are_another_text(length):
    """As in Perceiver: what they look at is the input."""
    parts = {"learned": nn.Parameter(torch.randn(4, D)), "attend": Attention("by hand"), "then": Attention()}

    def perceive(x):
        latents = parts["learned"].expand(len(x), -1, -1)
        return parts["then"](latents + parts["attend"](latents, x, x))

    assert list(seen_in(Own(perceive, **parts), torch.randn(B, length, D)).sites) == [CROSS, ENCODER]


def test_a_whole_transformer_has_its_sites_by_name():
    """The record of two texts has their words; so has that of one tensor that is read twice."""
    model = nn.Transformer(D, HEADS, 2, 1, 16, batch_first=True, dropout=0.0)
    source, target, padding = torch.randn(B, 7, D), torch.randn(B, N, D), torch.arange(7).expand(B, 7) > 4
    masks = {"tgt_mask": nn.Transformer.generate_square_subsequent_mask(N), "src_key_padding_mask": padding}
    seen = seen_in(model, source, target, memory_key_padding_mask=padding, **masks)

    assert seen.sites == {
        ENCODER: "encoder.layers.0.self_attn",
        SECOND: "encoder.layers.1.self_attn",
        DECODER: "decoder.layers.0.self_attn",
        CROSS: "decoder.layers.0.multihead_attn",
    }
    record = seen.record(tokens=[list("abcde")] * B, keys=[list("ABCDEFG")] * B)
    words = ["".join(token.text for token in side) for side in record.tokens(CROSS)]
    assert words == ["abcde", "ABCDEFG"]
    assert len(record.steps) == 4
    assert list(seen_in(model, target, target).sites) == [ENCODER, SECOND, DECODER, CROSS]


def test_heads_that_are_modules_are_the_heads_of_one_site():
    """And are switched off by their number; layers of one head are no heads, whatever their list is called."""
    model, x = nn.Sequential(Heads((), (), ()), Heads((), (), ())), torch.randn(B, N, D)
    seen = seen_in(model, x)

    assert {step.site: step.num_heads for step in seen.steps} == {ENCODER: HEADS, SECOND: HEADS}
    assert seen.sites == {ENCODER: "0", SECOND: "1"}
    assert_close(shown(seen.steps[0])[:, 1], model[0].heads[1].used, atol=1e-6, rtol=1e-5)
    with attnviz.capture(model, Edits().with_heads_off(SECOND, {2})) as off:
        output = model(x)
    model[1].heads[2].register_forward_hook(lambda _, given, output: output * 0)
    assert torch.equal(output, model(x))
    assert off.steps[1].heads_off == {2}

    chain = nn.Module()
    chain.heads = nn.Sequential(Head(size=D), Head(size=D))
    chain.forward = lambda x: chain.heads(x)
    assert [step.num_heads for step in seen_in(chain, x).steps] == [1, 1]


def test_a_layer_that_is_called_again_is_another_layer():
    """As in ALBERT: each has a site of its own, in which heads are off alone."""
    layer, x = Attention(), torch.randn(B, N, D)
    model = nn.Sequential(layer, layer)
    with attnviz.capture(model, Edits().with_heads_off(SECOND, {0})) as seen:
        output = model(x)

    assert seen.sites == dict.fromkeys((ENCODER, SECOND), "0")
    assert not torch.equal(output, model(x))


def test_the_layers_of_another_model_are_no_layers_of_this_one():
    """As with the assistant model of a generation, which proposes tokens."""
    other, own = nn.Sequential(Attention(), Attention()), Attention()
    model = Own(lambda x: own(other(x)), own=own)

    assert list(seen_in(model, torch.randn(1, N, D)).sites.values()) == ["own"]


def test_a_model_without_attention_says_so():
    """A softmax that meets no values is none."""
    assert "without a softmax" in refusal(nn.GRU(4, 4), torch.randn(B, N, 4))
    router = Own(lambda q, k: (F.scaled_dot_product_attention(q, k, k), k.softmax(-1).amax()))
    assert seen_in(router, torch.randn(B, HEADS, N, 4), torch.randn(B, HEADS, 7, 4)).record().unseen is None


LONG, SIZE = 9, 16
EDITS = Edits(attnviz.Window(2, 0), temperature=1.5).with_heads_off(Site("decoder", 1), {1})


class Cached(Attention):
    """Causal attention that goes on from a cache: one that grows, or a buffer with a mask of positions."""

    buffer = False

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None, past: int) -> tuple[Tensor, tuple]:
        q, k, v = self.sides(x, x, x)
        places = torch.arange(past, past + x.shape[1])
        if self.buffer:
            cache = cache or tuple(torch.zeros(len(x), HEADS, SIZE, D // HEADS) for _ in "kv")
            cache[0][:, :, places], cache[1][:, :, places] = k, v
            k, v = cache
        elif cache is not None:
            k, v = (torch.cat([old, new], 2) for old, new in zip(cache, (k, v), strict=True))
        mask = places[:, None] >= torch.arange(k.shape[2])
        alone = self.way == "fused" and not self.buffer and x.shape[1] == 1  # as people write it: nothing to hide
        return self.out(join(attend(self.way == "fused", q, k, v, None if alone else mask))), (k, v)


class Writer(nn.Module):
    """Two layers that write, also by a loop in its own code, which calls itself or its layers."""

    def __init__(self, way: str = "by hand", buffer: bool = False):
        super().__init__()
        self.layers = nn.ModuleList(Cached(way) for _ in range(2))
        for layer in self.layers:
            layer.buffer = buffer

    def forward(self, x: Tensor, caches=(None, None), past: int = 0):
        after = []
        for layer, cache in zip(self.layers, caches, strict=True):
            added, cache = layer(x, cache, past)
            x, after = x + added, [*after, cache]
        return x, after

    def generate(self, x: Tensor, first: int, step: int, by_itself: bool) -> Tensor:
        return written(x, self if by_itself else self.forward, first, step)


@torch.no_grad()
def written(x: Tensor, call, first: int, step: int) -> Tensor:
    """Return the output of a model from a first pass and the passes that continue it."""
    output, caches = call(x[:, :first])
    outputs = [output]
    for start in range(first, x.shape[1], step):
        output, caches = call(x[:, start : start + step], caches, start)
        outputs.append(output)
    return torch.cat(outputs, 1)


@pytest.mark.parametrize("where", ["outside", "method", "method without calls of itself"])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("step", [1, 2, 4])
@pytest.mark.parametrize("buffer", [False, True])
@pytest.mark.parametrize("way", ["fused", "by hand"])
def test_a_generation_is_one_whole_forward(way, buffer, step, batch, where):
    """Its map is square, has the sites of one forward, and edits act where a query stands."""
    model, single, x = Writer(way, buffer), Writer(way, buffer), torch.randn(batch, LONG, D)
    single.load_state_dict(model.state_dict())
    for edits in (Edits(), EDITS):
        with attnviz.capture(model, edits) as seen:
            inside = where != "outside"
            output = model.generate(x, 4, step, where == "method") if inside else written(x, model, 4, step)
        with torch.no_grad(), attnviz.capture(single, edits) as whole:
            expected, _ = single(x)

        assert_close(output, expected, atol=1e-5, rtol=1e-4)
        assert seen.sites == whole.sites
        assert {step.shape for step in whole.steps} == {(batch, HEADS, LONG, LONG)}  # also of a buffer
        for part, other in zip(seen.record([[*"abcdefghi"]] * batch).steps, whole.steps, strict=True):
            assert (part.shape, part.site, part.mask) == (other.shape, other.site, other.mask)
            assert_close(shown(part), shown(other), atol=1e-5, rtol=1e-4)
        assert seen.record().unseen is None


def test_a_pass_of_one_word_has_the_sites_of_an_earlier_run():
    """One word alone tells nothing of a mask."""
    sites = {Site("decoder", 0): "layers.0", Site("decoder", 1): "layers.1"}
    with attnviz.capture(model := Writer(), sites=sites) as seen:
        model(torch.randn(1, 1, D))
    assert seen.sites == sites


@pytest.mark.parametrize("places", [[0, 1, 2], [2, 0, 0]])
def test_a_cache_that_was_cut_or_put_in_another_order_is_said(places):
    """The record has only the later passes and says so; beam search reorders sentences in this way."""
    model, x, cut = Writer(), torch.randn(3, 6, D), int(places == [0, 1, 2])
    with torch.no_grad(), attnviz.capture(model) as seen:
        _, caches = model(x[:, :4])
        caches = [tuple(side[places, :, cut:] for side in cache) for cache in caches]
        model(x[:, 4:5], caches, 4 - cut)

    assert seen.steps[0].shape == (3, HEADS, 1, 5 - cut)
    assert re.search(r"layers\.0.*earlier passes", seen.record().unseen)
