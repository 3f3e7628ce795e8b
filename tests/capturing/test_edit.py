"""Edits act in the model's own code, with their gradients; one that cannot act says so."""

import re

import pytest
import torch
from captured import every, refusal, seen_in, shown
from handmade import HEADS, Attention, B, D, N, Own, join, qkv
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from ways import WAYS

import attnviz
from attnviz import AttnvizError, Edits, Site

FIRST = Site("encoder", 0)


@pytest.mark.parametrize("way", WAYS)
def test_edits_act_in_every_way_to_write_it(way):
    """A mask, a scale, a temperature and a head that is off, beside a bias of the model, with their gradients."""
    sides, bias = qkv(B, HEADS, keys=N), torch.randn(1, HEADS, N, N)
    mask = torch.rand(B, 1, N, N) > 0.5
    mask[..., range(N), range(N)] = True
    edits = Edits(mask=attnviz.Window(2, 1), scale=0.9, temperature=0.7).with_heads_off(FIRST, {1})
    model, (q, k, v) = Own(WAYS[way], num_heads=HEADS), [side.requires_grad_() for side in sides]
    with attnviz.capture(model, edits) as seen:
        output = model(q, k, v, mask, bias)

    scores = (q @ k.mT * 0.9 + bias) / 0.7
    scores = scores.masked_fill(~(mask & attnviz.Window(2, 1).tensor(N, N)), -torch.inf)
    expected = scores.softmax(-1) @ v * torch.tensor([1.0, 0.0, 1.0])[:, None, None]
    assert_close(output, expected, atol=1e-5, rtol=1e-5)
    assert seen.steps[0].heads_off == {1}
    assert_close(shown(seen.steps[0]), scores.softmax(-1).detach(), atol=1e-5, rtol=1e-5)
    found = (torch.autograd.grad(each.square().sum(), sides) for each in (output, expected))
    for ours, theirs in zip(*found, strict=True):
        assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("need_weights", [False, True])
def test_edits_act_in_multihead_attention(need_weights):
    """A head that is off is zero before the output projection; the weights that are given back are the edited ones."""
    model, x = nn.MultiheadAttention(D, HEADS, batch_first=True), torch.randn(B, N, D)
    with attnviz.capture(model, Edits(mask=attnviz.Subsequent()).with_heads_off(FIRST, {1})) as seen:
        output, back = model(x, x, x, need_weights=need_weights, average_attn_weights=False)

    (step,) = seen.steps
    heads = join(every(step, step.output))
    assert_close(output, model.out_proj(heads))
    assert not heads[..., 4:8].any()
    assert not any(used.triu(1).any() for used in (shown(step), back) if used is not None)


@pytest.mark.parametrize("way", ["fused", "by hand"])
def test_a_head_off_is_that_head_zeroed_before_the_output_projection(way):
    """To the last bit, and in its own layer alone."""
    model, x = nn.Sequential(Attention(way), Attention(way)), torch.randn(B, N, D)
    with attnviz.capture(model, Edits().with_heads_off(Site("encoder", 1), {2})) as seen:
        output = model(x)
    without = torch.tensor([1.0] * 8 + [0.0] * 4)

    assert not torch.equal(output, model(x))
    model[1].out.register_forward_pre_hook(lambda _, given: (given[0] * without,))
    assert torch.equal(output, model(x))
    assert [step.heads_off for step in seen.steps] == [set(), {2}]


def test_edits_act_where_only_weights_are_known():
    """As far as weights allow; what needs queries and keys is refused."""
    model, (q, k, v) = Own(lambda q, k, v: torch.relu(q @ k.mT).softmax(-1) @ v), qkv(B, HEADS)
    with attnviz.capture(model, Edits(mask=attnviz.Subsequent(), temperature=2.0).with_heads_off(FIRST, {0})):
        output = model(q, k, v)

    scores = (torch.relu(q @ k.mT) / 2).masked_fill(~attnviz.Subsequent().tensor(N, 7), -torch.inf)
    assert_close(output[:, 1:], (scores.softmax(-1) @ v)[:, 1:])
    assert not output[:, 0].any()
    assert "only the weights are known" in refusal(model, q, k, v, edits=Edits(scale=1.0))


def additive(x, y):
    return torch.tanh(x[..., :, None, :] + y[..., None, :, :]).sum(-1)


def masked_late(scores, v):
    return scores.softmax(-1).tril() @ v


def cleared(scores, v):
    used = scores.softmax(-1)
    scores.zero_()
    return used @ v


def two_that_are_equal(scores, v):
    first, second = scores.softmax(-1), scores.clone().softmax(-1)
    return first @ v + second @ (2 * v)


@pytest.mark.parametrize("scored", [additive, lambda x, y: x @ y.mT])
@pytest.mark.parametrize("way", [masked_late, cleared, two_that_are_equal])
def test_edits_act_whatever_is_done_beside(way, scored):
    """A mask after the softmax, scores that are written over, and a second softmax of the same numbers."""
    q, k, v = torch.randn(B, HEADS, N, 4), torch.randn(B, HEADS, N, 4), torch.randn(B, HEADS, N, 4)
    model = Own(lambda q, k, v: way(scored(q, k), v))
    with attnviz.capture(model, Edits(temperature=2.0)):
        output = model(q, k, v)
    assert_close(output, way(scored(q, k) / 2, v), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("act", [torch.relu, torch.clone])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_mask_is_exact_in_sixteen_bits(dtype, act):
    """Though the keys that are left had weights that are 0 in such numbers: the scores are edited, not the weights."""
    mask = attnviz.Subsequent().tensor(N, N)

    def attention(q, v, mask):
        return act(q @ q.mT).masked_fill(~mask, -torch.inf).softmax(-1) @ v

    q, v = (torch.randn(B, HEADS, N, 8, dtype=torch.float64).to(dtype) * scale for scale in (6, 1))
    q[:, :, -1] *= 3  # the last key had nearly all weight
    model = Own(attention)
    with attnviz.capture(model, Edits(mask=attnviz.Subsequent())) as seen:
        output = model(q, v, torch.ones(N, N, dtype=torch.bool))
    assert torch.equal(output, attention(q, v, mask))
    assert not seen.unseen


ORDERS = ["bhid,bhjd->bhij", "hbid,hbjd->hbij", "bhtid,bhtjd->bhtij", "bthid,bthjd->bthij", "thbid,thbjd->thbij"]
SIZES = {"b": 2, "h": 4, "t": 3, "i": 5, "d": 6}


@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("way", ["by hand", "fused", "weights"])
@pytest.mark.parametrize("product", [*ORDERS, "bihd,bjhd->bhij"])
def test_heads_are_found_on_the_axis_that_has_as_many(product, way, with_bias):
    """Whatever stands beside them; a head that is switched off is that head."""
    order, keys, out = re.findall(r"\w+", product)
    lead, axis = [letter for letter in order if letter in "bht"], order.index("h")
    bias = torch.randn(*(4 if letter == "h" else 1 for letter in lead), 5, 5) if with_bias else torch.zeros(5, 5)

    def used(q, k):
        scores = torch.einsum(product, q, k) / 6**0.5 + bias
        return (scores.relu() if way == "weights" else scores).softmax(-1)

    def attention(q, k, v):
        if way == "fused" and order != "bihd":  # it takes heads before positions
            return F.scaled_dot_product_attention(q, k, v, bias)
        return torch.einsum(f"{out},{keys}->{order}", used(q, k), v)

    sides = [torch.randn([SIZES[letter] for letter in order]) for _ in range(3)]
    model = Own(attention, num_heads=4)
    seen, alone, own = seen_in(model, *sides), attention(*sides), used(*sides[:2])
    own = own.movedim(lead.index("h"), -3).reshape(-1, 4, 5, 5)
    assert_close(shown(seen.steps[0]), own, atol=1e-5, rtol=1e-5)
    assert seen.record().unseen is None
    with attnviz.capture(model, Edits().with_heads_off(next(iter(seen.sites)), {1})):
        off = model(*sides)
    assert not off.select(axis, 1).any()
    assert_close(off.select(axis, 2), alone.select(axis, 2), atol=1e-6, rtol=1e-5)


def test_nothing_is_left_behind_also_after_an_error():
    """No hook, no mode: the next run is the model's own."""
    model = nn.Sequential(Attention())
    with pytest.raises(ZeroDivisionError), attnviz.capture(model):
        raise ZeroDivisionError

    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert not torch.overrides._get_current_function_mode_stack()


def test_an_edit_that_reaches_nothing_says_what_there_is():
    """At the end of the block."""
    model, off = nn.Sequential(Attention()), Edits().with_heads_off(Site("decoder", 0), {1})
    there = r"head 1 of decoder layer 0.*encoder layer 0 \(3 heads, 0\)"
    with pytest.raises(AttnvizError, match=there), attnviz.capture(model, off):
        model(torch.randn(B, N, D))
    nothing = "reached nothing.*No attention was captured in Linear"
    with pytest.raises(AttnvizError, match=nothing), attnviz.capture(nn.Linear(3, 3), Edits(temperature=2.0)):
        pass
