"""The passes of a generation are one map: of any cache, with any number of tokens in a pass, for any batch."""

from copy import deepcopy

import pytest
import torch
import transformers
from handmade import HEADS, D, shown
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import attnviz
from attnviz.core.edits import Edits, Site

N, SIZE = 9, 16


class Attention(nn.Module):
    """Causal attention that goes on from a cache: one that grows, or a buffer with a mask of positions."""

    def __init__(self, fused: bool, buffer: bool):
        super().__init__()
        self.num_heads, self.fused, self.buffer = HEADS, fused, buffer
        self.qkv, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x: Tensor, cache: tuple[Tensor, Tensor] | None, past: int) -> tuple[Tensor, tuple]:
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        places = torch.arange(past, past + x.shape[1])
        if self.buffer:
            cache = cache or tuple(torch.zeros(len(x), HEADS, SIZE, D // HEADS) for _ in "kv")
            cache[0][:, :, places], cache[1][:, :, places] = k, v
            k, v = cache
        elif cache is not None:
            k, v = (torch.cat([old, new], 2) for old, new in zip(cache, (k, v), strict=True))
        mask = places[:, None] >= torch.arange(k.shape[2])
        if self.fused:
            output = F.scaled_dot_product_attention(q, k, v, mask)
        else:
            output = (q @ k.mT / 2).masked_fill(~mask, -torch.inf).softmax(-1) @ v
        return self.out(output.transpose(1, 2).flatten(2)), (k, v)


class Writer(nn.Module):
    """Two layers that write; `generate` is a loop in its own code, which calls itself or its layers."""

    def __init__(self, fused: bool, buffer: bool):
        super().__init__()
        self.layers = nn.ModuleList(Attention(fused, buffer) for _ in range(2))

    def forward(self, x: Tensor, caches=(None, None), past: int = 0):
        after = []
        for layer, cache in zip(self.layers, caches, strict=True):
            added, cache = layer(x, cache, past)
            x, after = x + added, [*after, cache]
        return x, after

    @torch.no_grad()
    def generate(self, x: Tensor, first: int, step: int, by_itself: bool = True) -> Tensor:
        call = self if by_itself else self.forward
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
@pytest.mark.parametrize("fused", [False, True])
def test_a_generation_is_one_whole_forward(fused, buffer, step, batch, where):
    """Its map is square, has the sites of one forward, and edits act where a query stands."""
    model, x = Writer(fused, buffer), torch.randn(batch, N, D)
    edits = Edits(attnviz.Window(2, 0)).with_heads_off(Site("decoder", 1), {1})
    for edit in (Edits(), edits):
        with attnviz.capture(model, edit) as seen:
            if where == "outside":
                output = Writer.generate(model, x, 4, step)
            else:
                output = model.generate(x, 4, step, by_itself=where == "method")
        single = Writer(fused, False)
        single.load_state_dict(model.state_dict())
        with torch.no_grad(), attnviz.capture(single, edit) as whole:
            expected, _ = single(x)

        assert_close(output, expected, atol=1e-5, rtol=1e-4)
        record = seen.record([[*"abcdefghi"]] * batch)
        assert record.unseen is None
        assert seen.sites == whole.sites
        for step_of, other in zip(record.steps, whole.steps, strict=True):
            assert step_of.shape == (batch, HEADS, N, N)
            assert_close(shown(step_of), shown(other), atol=1e-5, rtol=1e-4)


def test_two_sentences_of_other_beams_keep_their_own_past():
    """A beam search puts the sentences of a cache in another order; each row is that of the beam which was kept."""
    model, x = Writer(False, False), torch.randn(3, 6, D)
    order = torch.tensor([2, 0, 0])
    with torch.no_grad(), attnviz.capture(model) as seen:
        _, caches = model(x[:, :4])
        caches = [tuple(one[order] for one in cache) for cache in caches]
        model(x[:, 4:5], caches, 4)
    kept = torch.cat([x[order, :4], x[:, 4:5]], 1)
    with torch.no_grad(), attnviz.capture(model) as whole:
        model(kept)

    for step, other in zip(seen.steps, whole.steps, strict=True):
        assert step.shape == (3, HEADS, 5, 5)
        assert_close(shown(step), shown(other), atol=1e-5, rtol=1e-4)
    assert seen.record().unseen is None


def test_a_cache_that_was_cut_is_said():
    """The last pass alone is shown, and that it is."""
    model, x = Writer(False, False), torch.randn(1, 6, D)
    with torch.no_grad(), attnviz.capture(model) as seen:
        _, caches = model(x[:, :4])
        caches = [tuple(one[:, :, 1:] for one in cache) for cache in caches]
        model(x[:, 4:5], caches, 3)

    assert seen.steps[0].shape == (1, HEADS, 1, 4)
    assert "decoder layer 0 (layers.0) has keys of earlier passes, which cannot be joined to it" in seen.record().unseen


def test_a_prompt_in_a_buffer_is_a_square_map():
    """Keys that nothing was written to are no keys, also of one pass."""
    model = Writer(True, True)
    with torch.no_grad(), attnviz.capture(model) as seen:
        model(torch.randn(2, 4, D))

    assert [step.shape for step in seen.steps] == [(2, HEADS, 4, 4)] * 2


def test_one_token_of_grouped_queries_with_a_mask_has_its_heads():
    """transformers hands the heads of a group over as queries where a batch is padded on the left.

    Each row that is no padding is that of one eager pass over prompt and answer.
    """
    sizes = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    config = transformers.LlamaConfig(**sizes, num_attention_heads=4, num_key_value_heads=2)
    model = transformers.LlamaForCausalLM(config).eval()
    eager = transformers.AutoModelForCausalLM.from_config(deepcopy(config), attn_implementation="eager").eval()
    eager.load_state_dict(model.state_dict())
    ids, real = torch.tensor([[0, 0, 5, 6, 7], [1, 2, 3, 4, 5]]), torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]])
    asked = {"attention_mask": real, "max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad():
        plain = model.generate(ids, **asked)
        with attnviz.capture(model) as seen:
            answer = model.generate(ids, **asked)
        real = torch.cat([real, torch.ones(2, 3, dtype=torch.long)], 1)
        places = (real.cumsum(1) - 1).clamp(min=0)
        whole = eager(answer[:, :-1], attention_mask=real, position_ids=places, output_attentions=True).attentions

    assert torch.equal(answer, plain)
    for step, expected in zip(seen.steps, whole, strict=True):
        assert step.shape == tuple(expected.shape)
        for b in range(2):
            rows = real[b].bool()
            found = torch.stack([step.weights(head, sentence=b) for head in range(4)])
            assert_close(found[:, rows], expected[b][:, rows], atol=1e-5, rtol=1e-4)
