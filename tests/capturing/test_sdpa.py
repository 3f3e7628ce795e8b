"""Attention by `F.scaled_dot_product_attention` is seen and edited in any model that calls it."""

import pytest
import torch
from handmade import HEADS, D, Fused, Layers, gradients, shown, weights, without_head
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import attnviz
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError, InputError

B, N = 2, 5


@pytest.fixture
def model():
    return Layers(Fused)


class Bare(nn.Module):
    """What it is given goes to PyTorch's function as it is."""

    def forward(self, *given, **options):
        return F.scaled_dot_product_attention(*given, **options)


def test_unedited_outputs_and_gradients_are_the_models_own(model):
    """Not one bit differs."""
    x = torch.randn(B, N, D)
    alone = model(x)
    expected = gradients(model, alone)

    with attnviz.capture(model) as seen:
        output = model(x)

    assert torch.equal(output, alone)
    assert all(map(torch.equal, gradients(model, output), expected))
    assert seen.sites == {Site("encoder", 0): "layers.0", Site("encoder", 1): "layers.1"}


CALLS = {
    "bool": lambda: {"attn_mask": torch.rand(N, 7) > 0.4},
    "float": lambda: {"attn_mask": torch.randn(B, 1, N, 7).masked_fill(torch.rand(B, 1, N, 7) > 0.7, -torch.inf)},
    "scale": lambda: {"scale": 0.7},
    "causal": lambda: {"is_causal": True},
}


@pytest.mark.parametrize("case", CALLS)
@pytest.mark.parametrize("lead", [(), (B,), (B, HEADS), (B, 2, HEADS)])
def test_weights_are_those_computed_by_hand(case, lead):
    """In float64, for two to five axes, whatever the mask."""
    options = CALLS[case]() if len(lead) == 2 or case != "float" else {"attn_mask": torch.randn(N, 7)}
    q, k, v = torch.randn(*lead, N, 4), torch.randn(*lead, 7, 4), torch.randn(*lead, 7, 6)
    with attnviz.capture(Bare()) as seen:
        given = Bare()(q, k, v, **options)
    assert not seen.calls  # the other module was run

    model = Bare()
    with attnviz.capture(model) as seen:
        given = model(q, k, v, **options)

    (step,) = seen.steps
    mask = options.get("attn_mask")
    is_bool = mask is not None and mask.dtype is torch.bool
    bias = 0.0 if mask is None or is_bool else mask.double()
    mask = torch.ones(N, 7, dtype=torch.bool).tril() if case == "causal" else mask if is_bool else None
    expected = weights(q, k, mask, options.get("scale"), bias)
    assert_close(shown(step).double().reshape(expected.shape), expected, atol=1e-6, rtol=0)
    output = torch.stack(
        [torch.stack([step.output(h, sentence=b) for h in range(step.num_heads)]) for b in range(step.shape[0])]
    )
    assert_close(output.reshape(given.shape), given)


def test_grouped_queries_have_the_keys_of_their_group():
    """Each key's head is repeated."""
    model, q, k = Bare(), torch.randn(B, 6, N, 4), torch.randn(B, 2, N, 4)
    with attnviz.capture(model) as seen:
        model(q, k, k, enable_gqa=True)

    assert_close(shown(seen.steps[0]).double(), weights(q, k.repeat_interleave(3, 1)), atol=1e-6, rtol=0)


def test_rows_masked_by_finite_numbers_stay_the_models_rows():
    """They are no empty rows: the model gives all keys the same weight."""
    model, q = Bare(), torch.randn(1, 1, N, 4)
    mask = torch.zeros(N, N).masked_fill(torch.ones(N, N).triu(0).bool(), torch.finfo(torch.float32).min)
    with attnviz.capture(model, Edits(temperature=2.0)) as seen:
        output = model(q, q, q, mask)

    assert_close(output[0, 0, 0], q[0, 0].mean(0))
    assert_close(seen.steps[0].weights(0)[0], torch.full((N,), 1 / N))


def test_a_head_off_is_that_head_zeroed_before_the_output_projection(model):
    """To the last bit, and in its own layer alone."""
    x = torch.randn(B, N, D)
    edits = Edits().with_heads_off(Site("encoder", 1), {2})
    with attnviz.capture(model, edits) as seen:
        output = model(x)
    hook = without_head(model.layers[1].out, 2)

    assert torch.equal(output, model(x))
    hook.remove()
    assert seen.steps[1].heads_off == {2}
    assert not torch.equal(output, model(x))


def test_a_mask_a_scale_and_a_temperature_act(model):
    """As in a model that computes so itself."""
    x = torch.randn(B, N, D)
    edits = Edits(mask=attnviz.Subsequent(), scale=0.3, temperature=1.7)
    with attnviz.capture(model, edits) as seen:
        output = model(x)

    other = Layers(lambda: Fused(is_causal=True, scale=0.3 / 1.7))
    other.load_state_dict(model.state_dict())
    assert_close(output, other(x))
    assert {step.mask for step in seen.steps} == {attnviz.Subsequent()}


def test_gradients_flow_through_edited_attention(model):
    """They are those of the model that computes so itself."""
    x = torch.randn(B, N, D)
    with attnviz.capture(model, Edits(mask=attnviz.Subsequent())):
        output = model(x)
    other = Layers(lambda: Fused(is_causal=True))
    other.load_state_dict(model.state_dict())

    for ours, theirs in zip(gradients(model, output), gradients(other, other(x)), strict=True):
        assert_close(ours, theirs)


def test_what_the_model_changes_later_changes_no_record():
    """Keys in a cache are written over."""
    model, q = Bare(), torch.randn(1, 1, N, 4)
    with attnviz.capture(model) as seen:
        model(q, q, q)
        expected = shown(seen.steps[0])
        q.zero_()

    assert_close(shown(seen.steps[0]), expected)


def test_nothing_is_left_behind_also_after_an_error(model):
    """No hook, no mode: the next run is the model's own."""
    with pytest.raises(ZeroDivisionError), attnviz.capture(model):
        raise ZeroDivisionError

    assert not model._forward_hooks
    assert not model._forward_pre_hooks
    assert not torch.overrides._get_current_function_mode_stack()


def test_an_edit_that_reaches_nothing_says_what_there_is(model):
    """At the end of the block."""
    is_there = r"head 1 of decoder layer 0\. There is: encoder layer 0 \(3 heads, layers.0\)"
    off = Edits().with_heads_off(Site("decoder", 0), {1})
    with pytest.raises(AttnvizError, match=is_there), attnviz.capture(model, off):
        model(torch.randn(B, N, D))
    nothing = r"reached nothing\. No attention was seen in Linear"
    with pytest.raises(AttnvizError, match=nothing), attnviz.capture(nn.Linear(3, 3), Edits(temperature=2.0)):
        pass


def test_a_model_without_attention_says_so():
    """Where its steps are asked for."""
    model = nn.Linear(3, 3)
    with attnviz.capture(model) as seen:
        model(torch.randn(1, 3))

    with pytest.raises(AttnvizError, match="No attention was seen in Linear"):
        seen.record()


def test_a_record_has_the_words_of_each_sentence(model):
    """The shorter ones padded; without words positions are numbered; a wrong number of words names both."""
    with attnviz.capture(model) as seen:
        output = model(torch.randn(B, N, D))
    record = seen.record([["the", "black", "cat", "sat", "."], ["it", "sat", "."]])

    assert [sentence.length for sentence in record.sentences] == [5, 3]
    assert record.sentences[1].labels == ("it", "sat", ".", "<pad>", "<pad>")
    assert record.sentences[0].text == "the black cat sat ."
    assert torch.equal(record.output, output.detach())
    assert seen.record().sentences[1].labels == tuple("01234")
    with pytest.raises(InputError, match=r"2 x 4 positions; the attention calls have 2 x 5 queries, 5 keys"):
        seen.record([list("abcd"), list("abcd")])


def test_every_figure_draws_a_captured_record(model):
    """A record is a record."""
    with attnviz.capture(model) as seen:
        model(torch.randn(B, N, D))
    record = seen.record([list("abcde")] * B)

    assert len(attnviz.figures.head(record, Site("encoder", 0), 1).table) == 25
