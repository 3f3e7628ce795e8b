"""A capture holds in evaluation, in threads, in checkpoints, under compilers, and says what it passes by."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from itertools import product

import pytest
import torch
from captured import seen_in, shown, weights
from handmade import HEADS, Attention, B, D, N, Own
from torch import nn
from torch.testing import assert_close
from torch.utils.checkpoint import checkpoint

import attnviz
from attnviz import AttnvizError, Edits


@pytest.mark.parametrize(("norm", "nested", "training", "left"), product([False, True], repeat=4))
def test_an_encoder_gives_at_padding_what_it_gives_without_a_capture(norm, nested, training, left):
    """Zeros, or what its last norm makes of them, where PyTorch leaves padding out: means over positions agree."""
    layer, last = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, dropout=0.0), nn.LayerNorm(16)
    nn.init.normal_(last.bias)
    model = nn.TransformerEncoder(layer, 2, last if norm else None, enable_nested_tensor=nested).train(training)
    x, padding = torch.randn(B, N, 16), torch.tensor([[False] * N, [True] * 2 + [False] * 3])
    padding = padding if left else padding.flip(1)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            alone = model(x, src_key_padding_mask=padding)
            with attnviz.capture(model) as seen:
                output = model(x, src_key_padding_mask=padding)
        assert_close(output, alone, atol=1e-5, rtol=1e-4)
        assert_close(seen.record().output, output.detach())
        assert len(seen.steps) == 2
        assert not shown(seen.steps[0])[1, :, :, padding[1]].any()
    assert not model._forward_hooks


def test_training_is_said():
    """The map is that before dropout; in evaluation there is nothing to say."""
    model = nn.TransformerEncoderLayer(D, HEADS, 8, dropout=0.1, batch_first=True)
    for training in (True, False):
        with torch.no_grad(), attnviz.capture(model.train(training)) as seen:
            model(torch.randn(1, N, D))

        assert any("before dropout" in finding for finding in seen.record().findings) == training


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant):
    """Unedited all gradients are right; edits are refused, as the second run, for the gradients, goes without them."""
    model, x = Attention(), torch.randn(B, N, D, requires_grad=True)
    seen = seen_in(Own(lambda x: checkpoint(model, x, use_reentrant=reentrant), model=model), x)

    assert len(seen.calls) == 1
    with pytest.raises(AttnvizError, match="checkpoint"), attnviz.capture(model, Edits(temperature=2.0)):
        checkpoint(model, x, use_reentrant=reentrant)


def test_two_threads_with_other_edits_do_not_meet():
    """A third one, uncaptured, runs the model as it is; what other threads call is not seen."""
    model, x, found, start = nn.Sequential(Attention(), Attention()), torch.randn(B, N, D), {}, threading.Barrier(3)

    def run(temperature: float | None) -> None:
        start.wait()
        for _ in range(20):
            with attnviz.capture(model, Edits(temperature=temperature)) if temperature else nullcontext():
                found[temperature] = model(x)

    with attnviz.capture(model) as seen, ThreadPoolExecutor(3) as pool:
        list(pool.map(run, (3.0, 0.3, None)))

    assert not seen.sites
    assert torch.equal(found.pop(None), model(x))
    for temperature, output in found.items():
        with attnviz.capture(model, Edits(temperature=temperature)):
            assert torch.equal(output, model(x))


def test_a_compiled_model_runs_uncompiled_meanwhile():
    """Its attention is seen, and compiled code is called again afterwards."""
    runs, x = [], torch.randn(B, N, D)
    compiled = torch.compile(Attention(), backend=lambda graph, _: lambda *given: runs.append(graph) or graph(*given))
    output = compiled(x)
    with attnviz.capture(compiled) as seen:
        assert_close(compiled(x), output)

    assert (len(seen.steps), len(runs)) == (1, 1)
    assert_close(compiled(x), output)
    assert len(runs) == 2
    torch._dynamo.reset()


def flexible(*given, **options):
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(*given, **options)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_flex_attention_is_exact_or_said():
    """Its mask is asked for each cell, and named; a score_mod that adds is a bias. Compiled it runs uncompiled."""
    from torch.nn.attention.flex_attention import create_block_mask

    q, k, v = (torch.randn(1, HEADS, N, 16) for _ in range(3))
    slopes, document, places = torch.tensor([0.5, 0.25, 0.125]), torch.tensor([0, 0, 1, 1, 1]), torch.arange(N)
    block = create_block_mask(lambda b, h, q, k: (document[q] == document[k]) & (q >= k), 1, 1, N, N, device="cpu")
    options = {"block_mask": block, "score_mod": lambda score, b, h, q, k: score - slopes[h] * (q - k).abs()}
    bias = -slopes[:, None, None] * (places[:, None] - places).abs()
    inside = Own(lambda *given, **options: torch.compile(flexible)(*given, **options))
    seen_in(flexible, q, k, v, **options)
    for model in (Own(flexible), inside, torch.compile(inside)):
        with attnviz.capture(model) as seen:
            model(q, k, v, **options)
        (step,) = seen.steps
        assert step.mask == attnviz.Documents((2, 3)) & attnviz.Subsequent()
        assert_close(shown(step).double(), weights(q, k, step.mask.tensor(N, N), None, bias), atol=1e-6, rtol=0)
    assert "score_mod" in seen_in(flexible, q, k, v, score_mod=lambda score, *_: torch.tanh(score)).unseen[0]


X = torch.randn(2, 5, 4)
ODD = {
    "sparse": lambda x: torch.eye(5).to_sparse() @ x[0] + (x[0] @ x[0].T).softmax(-1) @ x[0],
    "empty": lambda x: (x[:0] @ x[:0].mT).softmax(-1) @ x[:0],
    "one letter twice": lambda x: torch.einsum("biid,bjd->bij", x[:, :, None].expand(-1, -1, 5, -1), x),
    "arguments by name": lambda x: torch.matmul(input=torch.bmm(input=x, mat2=x.mT).softmax(dim=-1), other=x),
    "no values": lambda x: (x @ x.mT).softmax(-1).sum() + x,
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_tensors_run_as_they_are(odd):
    """Nothing of a capture is an error in the model."""
    seen_in(Own(ODD[odd], num_heads=2), X)
