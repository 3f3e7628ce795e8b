"""Attention is seen as it is, in whatever way it is written: weights, queries, keys, mask, bias and scale."""

import pytest
import torch
from captured import every, seen_in, shown, step_in, weights
from examples import examples
from handmade import HEADS, Attention, B, D, N, Own, met, qkv
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import scaled_dot_product_attention as sdpa
from torch.testing import assert_close
from ways import WAYS

import attnviz
from attnviz import AttnvizError, Edits, Site


def drawn(seed: int, queries: int, keys: int, with_mask: bool, with_bias: bool) -> tuple[Tensor | None, ...]:
    """q, k, v, mask and bias; the first and the last key are open."""
    torch.manual_seed(seed)
    mask, bias = torch.rand(B, 1, queries, keys) > 0.5, torch.randn(1, HEADS, queries, keys)
    mask[..., [0, -1]] = True
    return *qkv(B, HEADS, queries=queries, keys=keys), mask if with_mask else None, bias if with_bias else None


@pytest.mark.parametrize("way", WAYS)
@given(st.integers(0, 1000), st.integers(1, 5), st.integers(1, 7), st.booleans(), st.booleans())
@examples(8)
def test_the_same_attention_is_recovered_from_every_way_to_write_it(way, seed, queries, keys, with_mask, with_bias):
    """Its weights are those of float64; outputs and gradients stay the model's own, bit for bit."""
    *sides, mask, bias = drawn(seed, queries, keys, with_mask, with_bias)
    q, k, v = (side.requires_grad_() for side in sides)
    seen = seen_in(Own(WAYS[way], num_heads=HEADS), q, k, v, mask, bias)

    (step,) = seen.steps
    assert not step.weights_only
    assert_close(shown(step).double(), weights(q, k, mask, None, 0.0 if bias is None else bias), atol=2e-6, rtol=1e-5)
    assert (step.mask is None) == (mask is None or bool(mask.all()))
    assert bool(step.scoring.bias) == (with_bias and (keys > 1 or way == "fused"))  # one key has all of the weight
    assert step.scoring.scale == pytest.approx(0.5)
    assert torch.equal(step.value, v)
    assert_close(every(step, step.output), WAYS[way](q, k, v, mask, bias).detach())
    assert seen.record().unseen is None


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("way", sorted({*WAYS} - {"added", "indexed", "multiplied", "einsum", "fused"}))
def test_sixteen_bits_are_recovered_too(way, autocast):
    """As exactly as such numbers are; edited outputs have 16 bits, too."""
    dtype = torch.float32 if autocast else torch.bfloat16
    given = [one.to(dtype) if one.is_floating_point() else one for one in drawn(7, N, 7, True, True)]
    model, (q, k, _, mask, bias) = Own(WAYS[way], num_heads=HEADS), given
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        (step,) = seen_in(model, *given).steps
        with attnviz.capture(model, Edits(temperature=1.5)):
            warmer = model(*given)
        alone = model(*given)

    assert not step.weights_only
    assert_close(shown(step).double(), weights(q, k, mask, None, bias.double()), atol=0.02, rtol=0)
    assert (warmer.dtype, torch.equal(warmer, alone)) == (alone.dtype, False)


OPTIONS = ({}, {"batch_first": True}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 8, "vdim": 10})
PADDING = torch.arange(7) > torch.tensor([[4], [6]])
MASKS = {
    "nothing": {},
    "of each head": {"attn_mask": F.pad(torch.rand(B * HEADS, N, 6) > 0.6, (1, 0))},
    "numbers": {"attn_mask": torch.rand(N, 7)},
    "both": {
        "attn_mask": F.pad(torch.rand(N, 6) > 0.6, (1, 0)),
        "key_padding_mask": torch.arange(7) > torch.tensor([[4], [6]]),
    },
}


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_every_option_is_seen(options, masks, need_weights):
    """The weights are those that `nn.MultiheadAttention` gives."""
    model, given = nn.MultiheadAttention(D, HEADS, **options), {"average_attn_weights": False} | MASKS[masks]
    sides = [torch.randn(B, n, options.get(width, D)) for n, width in ((N, ""), (7, "kdim"), (7, "vdim"))]
    sides = [one if "batch_first" in options else one.transpose(0, 1) for one in sides]
    (step,) = seen_in(model, *(one.requires_grad_() for one in sides), need_weights=need_weights, **given).steps

    assert_close(shown(step), model(*sides, **given)[1].detach(), atol=1e-6, rtol=0)
    assert (step.weights_only, step.site) == (False, Site("cross", 0))


SINKS, FAR, INDEX = torch.randn(HEADS), torch.randn(1, HEADS, 9, 4), torch.randint(0, 9, (B, HEADS, N, 7))
ADDITIVE = nn.ModuleList([nn.Linear(4, 7), nn.Linear(4, 7), nn.Linear(7, 1)])


def sinking(q, k, v):
    """As in GPT-OSS: one more column, whose weights are dropped."""
    both = torch.cat([torch.matmul(q, k.mT) * 0.4, SINKS.reshape(1, -1, 1, 1).expand(B, -1, N, 1)], dim=-1)
    used = torch.softmax(both - both.max(dim=-1, keepdim=True).values, dim=-1)
    return torch.matmul(used[..., :-1], v), used


def relative(q, k, v):
    """As in DeBERTa: queries with vectors of distances, gathered, are a bias."""
    scores = torch.matmul(q, k.mT / 3.5)
    return met((scores + torch.gather(torch.matmul(q, FAR.mT), -1, INDEX) / 3.5).softmax(-1), v)


def pixels(q, k, v):
    """Weights are turned before they meet values of (B, channels, keys)."""
    used = torch.softmax(torch.bmm(q, k.mT), dim=-1)
    return torch.bmm(v.mT, used.permute(0, 2, 1)).mT, used


def additive(q, k, v):
    """As in Bahdanau et al. 2015."""
    one, other, last = ADDITIVE
    used = last(torch.tanh(one(q)[:, :, None] + other(k)[:, None])).squeeze(-1).softmax(-1)
    return torch.einsum("bqk,bkd->bqd", used, v), used


LEAD, USUAL, UNKNOWN, CAPPED = (B, HEADS), {"scale": 0.5}, {"weights_only": True}, {"scale": 0.4, "softcap": 2.0}
CLOSED = (torch.rand(B, HEADS, N, 7) > 0.6) & (torch.arange(7) > 0)  # every query has a key
CAUSAL, MASK = torch.ones(N, 7, dtype=torch.bool).tril(), (torch.rand(N, 7) > 0.4) | (torch.arange(7) == 0)
FLOAT = torch.randn(N, 7).masked_fill(CLOSED[0, 0], -torch.inf)
FORMS = {
    "softcap": (
        lambda *x: met((torch.tanh(x[0] @ x[1].mT * 0.2) * 2).softmax(-1), x[2]),
        LEAD,
        {"scale": 0.4, "softcap": 2},
    ),
    "sink": (sinking, LEAD, {"scale": 0.4, "has_sink": True}),
    "relative": (relative, LEAD, {"scale": 1 / 3.5}),
    "a toy of two axes": (lambda q, k, v: met(torch.softmax(q @ k.T / 2, -1), v), (), USUAL),
    "pixels": (pixels, (B,), {}),
    "dropout": (lambda q, k, v: met((q @ k.mT).softmax(-1), v, 0.5), LEAD, {}),
    "scale": (lambda *x: (sdpa(*x, scale=0.7), weights(*x[:2], scale=0.7)), (B,), {"scale": 0.7}),
    "causal": (lambda *x: (sdpa(*x, is_causal=True), weights(*x[:2], CAUSAL)), (), USUAL),
    "bool": (lambda *x: (sdpa(*x, MASK), weights(*x[:2], MASK)), (B, 2, HEADS), USUAL),
    "float": (lambda *x: (sdpa(*x, FLOAT), weights(*x[:2], bias=FLOAT)), LEAD, USUAL),
    "aten": (lambda q, k, v: met(torch.ops.aten.softmax(q @ k.mT, -1), v), LEAD, {}),
    "aten overload": (lambda q, k, v: met(torch.ops.aten.softmax.int(q @ k.mT, -1), v), LEAD, {}),
    "aten operator": (lambda q, k, v: met(torch.ops.aten._softmax.default(q @ k.mT, -1, False), v), LEAD, {}),
    "special": (lambda q, k, v: met(torch.special.softmax(q @ k.mT, -1), v), LEAD, {}),
    "masked": (lambda q, k, v: met(torch.masked.softmax(q @ k.mT, -1, mask=~CLOSED), v), LEAD, {}),
    "out": (lambda q, k, v: met(torch.softmax(q @ k.mT, -1, out=torch.empty(B, HEADS, N, 7)), v), LEAD, {}),
    "dtype": (lambda q, k, v: met(torch.softmax(q @ k.mT, -1, dtype=torch.float64).float(), v), LEAD, {}),
    "module": (lambda q, k, v: met(nn.Softmax(-1)(q @ k.mT), v), LEAD, {}),
    "relu": (lambda q, k, v: met(torch.relu(q @ k.mT).softmax(-1), v), LEAD, UNKNOWN),
    "additive": (additive, (B,), UNKNOWN),
}
"""Ways to make weights: a function, the axes before positions, and what is recovered that is not usual."""


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_scores_is_recovered(form):
    """If no form explains the scores, the record has only the weights and says so."""
    function, lead, facts = FORMS[form]
    step = step_in(function, *qkv(*lead))

    found = {"scale": step.scoring.scale, "softcap": step.scoring.softcap, "has_sink": step.has_sink}
    assert step.weights_only == (facts == UNKNOWN)
    assert step.weights_only or found == pytest.approx({"scale": 1.0, "softcap": None, "has_sink": False} | facts)
    assert form != "relative" or step.scoring.bias
    seen = seen_in(function, *(given := qkv(*lead)))
    record = seen.record()
    assert record.read_only == step.weights_only
    for side in given:
        side.zero_()  # as a cache that is written over: the record stays
    assert_close(shown(seen.steps[0]), shown(record.steps[0]))


def test_groups_of_queries_share_keys():
    """As PyTorch's function and einsum have it, where an axis that only queries have is one of heads."""

    def grouped(q, k, v):
        used = (torch.einsum("bghqd,bgkd->bghqk", q, k) / 2).softmax(-1)
        return torch.einsum("bghqk,bgkd->bghqd", used, v), used

    q, k, v = torch.randn(B, 2, HEADS, N, 4), *qkv(B, 2)[1:]
    assert step_in(grouped, q, k, v, n_head=6).shape == (B, 6, N, 7)
    (step,) = seen_in(sdpa, q.flatten(1, 2), k, v, enable_gqa=True).steps
    assert_close(shown(step), grouped(q, k, v)[1].flatten(1, 2))


@pytest.mark.parametrize("order", ["qh", "hq"])
def test_heads_that_share_their_keys_are_never_read_as_queries(order):
    """As in multi-query attention and the absorbed latent attention of DeepSeek: heads stand behind queries, or not."""
    closed = torch.ones(N, N, dtype=torch.bool).triu(1)

    def shared(q, c):
        scores = torch.einsum(f"bqhc,bkc->b{order}k", q, c) * 0.5
        used = scores.masked_fill(closed if order == "hq" else closed[:, None], -torch.inf).softmax(-1)
        output = torch.einsum(f"b{order}k,bkc->bqhc", used, c)
        return output, used if order == "hq" else used.transpose(1, 2)

    q, c = torch.randn(B, N, HEADS, 4), torch.randn(B, N, 4)
    step, model = step_in(shared, q, c, num_heads=HEADS), Own(shared, num_heads=HEADS)
    assert step.shape == (B, HEADS, N, N)
    with attnviz.capture(model, Edits(heads_off={(step.site, 1)})):
        off = model(q, c)[0]
    assert_close(off, shared(q, c)[0] * torch.tensor([1, 0, 1])[:, None])


def test_additive_attention_of_a_recurrent_decoder_is_one_map():
    """A row for each word that it writes."""
    one, other, last, cell, rows = nn.Linear(D, 7), nn.Linear(D, 7), nn.Linear(7, 1), nn.GRUCell(2 * D, D), []

    def attend(x, state):
        used = last(torch.tanh(one(state)[:, None] + other(x))).squeeze(-1).softmax(1)
        rows.append(used.detach())
        return torch.bmm(used[:, None], x).squeeze(1)

    def decode(y, x):
        state = torch.zeros(len(x), D)
        for word in y.unbind(1):
            state = cell(torch.cat([word, attention(x, state)], -1), state)
        return state

    attention = Own(attend)
    seen = seen_in(Own(decode, attention=attention), torch.randn(B, 4, D), torch.randn(B, N, D))
    (step,) = seen.steps
    assert_close(shown(step)[:, 0], torch.stack(rows[:4], 1), atol=1e-6, rtol=1e-5)
    assert seen.record().unseen is None


def test_rows_masked_throughout_stay_the_models():
    """Uniform for finite numbers, NaN, which is named, for infinite ones, zero where the model says so afterwards."""
    (q, k, v), lowest, mask = qkv(B, HEADS), torch.finfo(torch.float32).min, torch.ones(N, 7, dtype=torch.bool)
    mask[1] = False

    def row(fill: float, after=lambda used: used) -> Tensor:
        with attnviz.capture(
            model := Own(lambda q: after((q @ k.mT).masked_fill(~mask, fill).softmax(-1)) @ v)
        ) as seen:
            model(q)
        return seen.steps[0].weights(0)[1]

    uniform, zeros = torch.full((7,), 1 / 7), torch.zeros(7)
    assert row(-torch.inf).isnan().all()
    assert_close(row(lowest), uniform)
    assert_close(row(-torch.inf, torch.nan_to_num), zeros)
    assert_close(row(lowest, lambda used: used.masked_fill(~mask, 0)), zeros)
    numbers = torch.zeros(N, 7).masked_fill(~mask, lowest)
    with attnviz.capture(model := Own(sdpa), Edits(temperature=2.0)) as seen:
        assert_close(model(q, k, v, numbers)[:, :, 1], v.mean(2))
    assert_close(seen.steps[0].weights(0)[1], uniform)


def test_a_record_has_the_words_of_each_sentence():
    """The shorter ones padded; without words positions are numbered; a wrong number of words names both."""
    model, x = Attention(), torch.randn(B, N, D)
    seen = seen_in(model, x)
    record = seen.record([["the", "black", "cat", "sat", "."], ["it", "sat", "."]])

    assert [sentence.length for sentence in record.sentences] == [5, 3]
    assert record.sentences[1].labels == ("it", "sat", ".", "<pad>", "<pad>")
    assert torch.equal(record.output, model(x).detach())
    assert seen.record().sentences[1].labels == tuple("01234")
    assert len(attnviz.figures.head(record, Site("encoder", 0), 1).table) == 25
    with pytest.raises(AttnvizError, match=r"2 x 4 positions.*2 x 5 queries"):
        seen.record([list("abcd"), list("abcd")])
