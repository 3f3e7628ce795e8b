"""Calls that are one attention are shown as one, and what is no map of all queries and keys is refused."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from handmade import HEADS, D, Fused, Layers, gradients, shown, weights
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import attnviz
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError

B, N = 2, 5
ROOT = Path(__file__).parents[2]
FIRST = Site("decoder", 0)


class Cached(nn.Module):
    """Causal attention of one's own, with keys and values of earlier passes."""

    def __init__(self, fused: bool = False):
        super().__init__()
        self.num_heads, self.fused = HEADS, fused
        self.qkv, self.out, self.cache = nn.Linear(D, 3 * D), nn.Linear(D, D), None

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (one.unflatten(-1, (HEADS, -1)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        if self.cache is not None:
            k, v = (torch.cat([old, new], 2) for old, new in zip(self.cache, (k, v), strict=True))
        self.cache = k, v
        past = k.shape[2] - q.shape[2]
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(past)
        if self.fused:
            given = F.scaled_dot_product_attention(q, k, v, mask if q.shape[2] > 1 else None)
        else:
            given = (q @ k.mT / 2).masked_fill(~mask, -torch.inf).softmax(-1) @ v
        return self.out(given.transpose(1, 2).flatten(2))

    def forget(self):
        self.cache = None
        return self


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("edits", [Edits(), Edits(attnviz.Window(1, 0), temperature=1.5).with_heads_off(FIRST, {1})])
def test_passes_with_a_cache_become_one_map(fused, edits):
    """It equals that of one whole forward; edits act where a query stands in the text."""
    model, x = Cached(fused), torch.randn(B, N, D)
    with attnviz.capture(model, edits) as seen:
        outputs = [model(x[:, :3]), model(x[:, 3:4]), model(x[:, 4:])]
    model.forget()
    with attnviz.capture(model, edits) as whole:
        output = model(x)

    assert_close(torch.cat(outputs, 1), output)
    (step,), (expected,) = seen.steps, whole.steps
    assert step.shape == (B, HEADS, N, N)
    assert step.site == FIRST
    assert_close(shown(step), shown(expected))
    assert_close(step.query, expected.query)
    assert len(seen.record([list("abcde")] * B).steps) == 1


def test_passes_over_other_texts_are_not_joined():
    """The last is shown."""
    model = Layers(lambda: Fused(is_causal=True), 1)
    with attnviz.capture(model) as seen:
        model(torch.randn(B, N, D))
        model(last := torch.randn(B, 3, D))
    with attnviz.capture(model) as alone:
        model(last)

    assert_close(shown(seen.steps[0]), shown(alone.steps[0]))


class Head(nn.Module):
    """One head, as a first lesson writes it."""

    def __init__(self, head_size: int):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(D, head_size, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        wei = self.query(x) @ self.key(x).transpose(-2, -1) * self.key.out_features**-0.5
        wei = wei.masked_fill(torch.tril(torch.ones(x.shape[1], x.shape[1])) == 0, float("-inf"))
        return F.softmax(wei, dim=-1) @ self.value(x)


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads, self.proj = nn.ModuleList(Head(4) for _ in range(3)), nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(torch.cat([head(x) for head in self.heads], dim=-1))


def test_heads_that_are_modules_are_the_heads_of_one_site():
    """And are switched off by their number."""
    model, x = Layers(Several), torch.randn(B, N, D)
    with attnviz.capture(model) as seen:
        model(x)

    assert seen.heads == {FIRST: 3, Site("decoder", 1): 3}
    assert seen.sites[FIRST] == "layers.0"
    head, step = model.layers[0].heads[1], seen.steps[0]
    expected = weights(head.query(x), head.key(x), torch.ones(N, N, dtype=torch.bool).tril())
    assert_close(shown(step)[:, 1].double(), expected, atol=1e-6, rtol=0)
    with attnviz.capture(model, Edits().with_heads_off(Site("decoder", 1), {2})) as off:
        output = model(x)
    hook = model.layers[1].heads[2].register_forward_hook(lambda _, given, output: output * 0)
    assert torch.equal(output, model(x))
    assert off.steps[1].heads_off == {2}
    hook.remove()


def test_layers_of_one_head_are_no_heads():
    """Whatever their list is called: each reads what the one before gave."""

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.heads = nn.ModuleList(Head(D) for _ in range(2))

        def forward(self, x):
            return self.heads[1](self.heads[0](x))

    model = Chain()
    with attnviz.capture(model) as seen:
        model(torch.randn(B, N, D))

    assert list(seen.heads.values()) == [1, 1]


class Again(nn.Module):
    """One layer called again and again, as in ALBERT; or on chunks of what it was given, as in CANINE."""

    def __init__(self, chunks: bool):
        super().__init__()
        self.attention, self.chunks = Fused(), chunks

    def forward(self, x: Tensor) -> Tensor:
        if self.chunks:
            return torch.cat([self.attention(part) for part in x.split(3, 1)], 1)
        return self.attention(self.attention(x))


def test_a_layer_that_is_called_again_is_another_layer():
    """Each has a site of its own, in which heads are off alone."""
    model, x = Again(chunks=False), torch.randn(B, N, D)
    with attnviz.capture(model, Edits().with_heads_off(Site("encoder", 1), {0})) as seen:
        output = model(x)

    assert seen.sites == dict.fromkeys((Site("encoder", 0), Site("encoder", 1)), "attention")
    assert not torch.equal(output, model(x))


def test_chunks_are_refused():
    """No map of one chunk is that of the text; edits there are refused, too."""
    model, x = Again(chunks=True), torch.randn(B, 6, D)
    with attnviz.capture(model) as seen:
        model(x)

    why = "attention computes attention in pieces, which are no whole map"
    with pytest.raises(AttnvizError, match=why):
        seen.record()
    with pytest.raises(AttnvizError, match=why), attnviz.capture(model, Edits(temperature=2.0)):
        model(x)


def test_windows_as_sentences_do_not_fit_the_words():
    """As in Swin and Longformer: they are seen, and never drawn over the words."""
    model = Layers(Fused, 1)
    with attnviz.capture(model) as seen:
        model(torch.randn(4, 3, D))

    with pytest.raises(AttnvizError, match="1 x 12 positions; the attention calls have 4 x 3 queries"):
        seen.record(list("abcdefghijkl"))


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant):
    """Unedited all gradients are right; edits are refused, as the second run, for the gradients, goes without them."""
    model, x = Fused(), torch.randn(B, N, D, requires_grad=True)
    expected = gradients(model, checkpoint(model, x, use_reentrant=reentrant))
    with attnviz.capture(model) as seen:
        found = gradients(model, checkpoint(model, x, use_reentrant=reentrant))

    assert all(map(torch.equal, found, expected))
    assert len(seen.calls) == 1
    edits = Edits(temperature=2.0)
    with pytest.raises(AttnvizError, match="Fused runs in a checkpoint"), attnviz.capture(model, edits):
        checkpoint(model, x, use_reentrant=reentrant)


def test_two_threads_with_other_edits_do_not_meet():
    """A third one, uncaptured, runs the model as it is."""
    model, x, found, start = Layers(Fused), torch.randn(B, N, D), {}, threading.Barrier(3)
    temperatures = {"warm": 3.0, "cold": 0.3}

    def run(name: str) -> None:
        start.wait()
        for _ in range(20):
            if name not in temperatures:
                found[name] = model(x)
                continue
            with attnviz.capture(model, Edits(temperature=temperatures[name])) as seen:
                found[name] = model(x)
            assert len(seen.calls) == 2

    threads = [threading.Thread(target=run, args=(name,)) for name in (*temperatures, "alone")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert torch.equal(found["alone"], model(x))
    for name, temperature in temperatures.items():
        with attnviz.capture(model, Edits(temperature=temperature)):
            assert torch.equal(found[name], model(x))
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


# What cannot be seen is said


def test_a_scripted_model_is_refused():
    """Before it runs."""
    model = torch.jit.trace(nn.Sequential(nn.Linear(3, 3)), torch.randn(1, 3))

    with pytest.raises(AttnvizError, match="TorchScript"), attnviz.capture(model):
        pass


def test_a_compiled_model_runs_uncompiled_meanwhile():
    """Its attention is seen, and compiled code is called again afterwards."""
    compiled, calls = torch.compile(Fused(), backend="eager"), []
    x = torch.randn(B, N, D)
    compiled(x)
    with attnviz.capture(compiled) as seen:
        output = compiled(x)

    assert len(seen.steps) == 1
    assert_close(output, compiled(x))
    torch._dynamo.reset()

    def counting(graph, _):
        calls.append(graph)
        return graph

    again = torch.compile(Fused(), backend=counting)
    again(x)
    assert calls


def test_exponentials_are_said():
    """A softmax by hand is none that can be seen."""

    class ByHand(nn.Module):
        def forward(self, q):
            scores = torch.exp(q @ q.mT)
            return scores / scores.sum(-1, keepdim=True) @ q

    model = ByHand()
    with attnviz.capture(model) as seen:
        model(torch.randn(B, HEADS, N, 4))

    with pytest.raises(AttnvizError, match=r"ByHand takes exp\(\) of products of queries and keys"):
        seen.record()


class Bare(nn.Module):
    def forward(self, q):
        return F.scaled_dot_product_attention(q, q, q)


def test_vmap_and_nested_tensors_are_passed_by_and_said():
    """They run as they are."""
    model, q = Bare(), torch.randn(B, HEADS, N, 4)
    with attnviz.capture(model) as seen:
        output = torch.vmap(model)(q)
    assert_close(output, model(q))
    with pytest.raises(AttnvizError, match="Bare computes attention under vmap, which is not seen"):
        seen.record()

    nested = torch.nested.nested_tensor([torch.randn(HEADS, n, 4) for n in (3, 4)])
    with attnviz.capture(model) as seen:
        model(nested)
    assert seen.notes == ["Bare computes attention on nested tensors, which is not seen"]


class Flexible(nn.Module):
    def forward(self, q, k, v, **options):
        from torch.nn.attention.flex_attention import flex_attention

        return flex_attention(q, k, v, **options)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_is_exact_or_said():
    """Its mask is asked for each cell; a score_mod that adds is a bias, another is not seen."""
    from torch.nn.attention.flex_attention import create_block_mask

    q, k, v = torch.randn(1, HEADS, N, 16), torch.randn(1, HEADS, 7, 16), torch.randn(1, HEADS, 7, 16)
    block = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, N, 7, device="cpu")
    model, slopes = Flexible(), torch.tensor([0.5, 0.25, 0.125])
    options = {"block_mask": block, "score_mod": lambda score, b, h, q, k: score - slopes[h] * (q - k).abs()}
    alone = model(q, k, v, **options)
    with attnviz.capture(model) as seen:
        output = model(q, k, v, **options)

    (step,) = seen.steps
    assert torch.equal(output, alone)
    assert step.mask == attnviz.Subsequent()
    assert_close(torch.stack([step.output(head) for head in range(HEADS)]), output[0])
    with attnviz.capture(model) as seen:
        model(q, k, v, score_mod=lambda score, b, h, q, k: torch.tanh(score))
    assert "a score_mod that does more than add" in seen.notes[0]


def test_the_first_flex_attention_of_a_process_is_seen():
    """Before it nothing was compiled in the process."""
    code = """if True:
        import torch, attnviz
        from torch.nn.attention.flex_attention import flex_attention
        class Flexible(torch.nn.Module):
            def forward(self, q): return flex_attention(q, q, q)
        with torch.no_grad(), attnviz.capture(model := Flexible()) as seen: model(torch.randn(1, 2, 5, 16))
        print(seen.record().steps[0].shape)
    """
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, cwd=ROOT)

    assert ran.stdout == "(1, 2, 5, 5)\n", ran.stderr[-500:]


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_compiled_flex_attention_is_seen():
    """It runs uncompiled in a capture; packed documents have their name."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    class Compiled(nn.Module):
        def forward(self, q, **options):
            return torch.compile(flex_attention)(q, q, q, **options)

    q, document = torch.randn(1, HEADS, N, 16), torch.tensor([0, 0, 1, 1, 1])
    block = create_block_mask(lambda b, h, q, k: (document[q] == document[k]) & (q >= k), 1, 1, N, N, device="cpu")
    for model in (Compiled(), torch.compile(Compiled())):
        with attnviz.capture(model) as seen:
            model(q, block_mask=block)
        (step,) = seen.steps
        assert step.mask == attnviz.Documents((2, 3)) & attnviz.Subsequent()
        assert_close(shown(step), weights(q, q, step.mask.tensor(N, N)), check_dtype=False)


class HeadsFirst(nn.Module):
    """Heads before sentences in one axis, as one well-known translation of the paper has them."""

    def __init__(self, fused: bool, heads_first: bool = True):
        super().__init__()
        self.n_head, self.fused, self.order = HEADS, fused, (2, 0, 1, 3) if heads_first else (0, 2, 1, 3)
        self.qkv = nn.Linear(D, 3 * D)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, _ = x.shape
        parts = (one.view(batch, length, self.n_head, -1) for one in self.qkv(x).chunk(3, -1))
        q, k, v = (one.permute(*self.order).contiguous().view(-1, length, D // self.n_head) for one in parts)
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v)
        return torch.bmm(torch.bmm(q, k.transpose(1, 2)).softmax(2), v)


@pytest.mark.parametrize("fused", [False, True])
def test_heads_before_sentences_are_never_misread(fused):
    """Of one sentence they are right; of several, even as many as heads, they are refused."""
    model, usual = HeadsFirst(fused), HeadsFirst(fused, heads_first=False)
    for one, batch in ((model, 1), (usual, 1), (usual, HEADS)):
        with attnviz.capture(one) as seen:
            one(torch.randn(batch, N, D))
        assert seen.steps[0].shape == (batch, HEADS, N, N)

    with attnviz.capture(model) as seen:
        model(torch.randn(HEADS, N, D))
    with pytest.raises(AttnvizError, match="the model joins heads before sentences in one axis"):
        seen.record()
    assert not seen.sites


def test_training_is_said():
    """The map is that before dropout; in evaluation there is nothing to say."""
    model = nn.TransformerEncoderLayer(12, 3, 8, dropout=0.1, batch_first=True)
    for training in (True, False):
        with torch.no_grad(), attnviz.capture(model.train(training)) as seen:
            model(torch.randn(1, 5, 12))

        assert any("before dropout" in finding for finding in seen.record().findings) == training
