"""No map is misread: what is none is refused with the reason, and mistakes of a model are told beside its map."""

import re
from dataclasses import replace

import pytest
import torch
from captured import refusal, seen_in, shown, step_in, weights
from examples import examples
from handmade import HEADS, Attention, B, D, Heads, N, Own, attend, met, qkv
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

import attnviz
from attnviz import AttnvizError, Edits, Site

MIX, CLASSES = nn.Parameter(torch.randn(HEADS, HEADS)), nn.Parameter(torch.randn(9, 4))
MIXES = {
    "einsum": lambda heads: torch.einsum("bhqk,hg->bgqk", heads, MIX),
    "linear": lambda heads: F.linear(heads.permute(0, 2, 3, 1), MIX).permute(0, 3, 1, 2),
    "conv": lambda heads: F.conv2d(heads, MIX[:, :, None, None]),
}
"""Ways to mix heads, as talking heads do: before the softmax, or after it, where no head's weights meet values."""


def linear_attention(q, k, v):
    """Its softmax is over the numbers of each query, and its "values" are sums over all keys."""
    return torch.einsum("bhnd,bhde->bhne", q.softmax(-1), torch.einsum("bhnd,bhne->bhde", k.softmax(dim=-2), v))


def slots(q, k, v):
    """Queries that compete for inputs: each key's weights sum to 1."""
    used = torch.einsum("bhkd,bhqd->bhkq", k, q).softmax(-1) + 1e-8
    return torch.einsum("bhkq,bhkd->bhqd", used / used.sum(-2, keepdim=True), v)


def bands(q, k, v):
    """As Longformer's: a product in chunks, whose diagonals are cut out."""
    chunks = torch.cat([q, k], 2)[0].unfold(1, 4, 2).transpose(-1, -2)
    scores = torch.einsum("bcxd,bcyd->bcxy", chunks, chunks)
    scores = F.pad(scores, (0, 0, 0, 1)).flatten(2)[..., :16].reshape(*scores.shape)
    return torch.einsum("bcxy,bcyd->bcxd", scores.roll(1, -1).softmax(-1).flip(-1), chunks)


def nested(q, k, v):
    x = torch.nested.nested_tensor([q[0], k[0]])
    return F.scaled_dot_product_attention(x, x, x).to_padded_tensor(0.0)


def classifier(q, k, v):
    """Words by learned vectors, and a router of experts."""
    x = q[:, 0]
    experts = torch.einsum("bne,edf,bnd->bnf", F.linear(x, torch.ones(4, 4)).softmax(-1), torch.ones(4, 4, 4), x)
    return torch.matmul(x, CLASSES.T).softmax(-1) @ CLASSES + experts


AFTER = "after the softmax|not multiplied by values"
REFUSED = {
    "linear attention": (linear_attention, "linear attention"),
    "slots": (slots, AFTER),
    "exponentials": (lambda q, k, v: (e := (q @ k.mT).exp()) / e.sum(-1, keepdim=True) @ v, "without a softmax"),
    "bands": (bands, "after the softmax|pieces"),
    "nested": (nested, "nested"),
    "vmap": (lambda q, k, v: torch.vmap(F.scaled_dot_product_attention)(q, k, v), "vmap"),
    "classifier": (classifier, "not multiplied by values"),
    "sums": (lambda q, k, v: v.cumsum(2), "without a softmax"),
    "softmax over queries": (lambda q, k, v: (q @ k.mT).softmax(-2) @ v, "over its queries|over axis"),
    "softmax over heads": (lambda q, k, v: (q @ k.mT).softmax(1) @ v, "over its heads|over axis"),
    "linear attention of two softmaxes": (lambda q, k, v: q.softmax(-1) @ (k.softmax(-1).mT @ v), "linear attention"),
    "squares": (lambda q, k, v: (q @ k.mT).softmax(-1).square() @ v, AFTER),
    "weights times weights": (lambda q, k, v: (w := (q @ q.mT).softmax(-1)) @ w, AFTER),
}
REFUSED |= {way: (lambda q, k, v, mix=mix: mix((q @ k.mT).softmax(-1)) @ v, AFTER) for way, mix in MIXES.items()}
"""Functions that compute no map of all queries and keys, each with a word of the reason."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_map_is_refused(name):
    """With the reason, also of an edit; another call beside it is shown, and what is not is in `unseen`."""
    (function, reason), given = REFUSED[name], qkv(B, HEADS)

    assert re.search(reason, refusal(function, *given))
    assert re.search(reason, refusal(function, *given, edits=Edits(temperature=2.0)))
    record = seen_in(lambda *given: (F.scaled_dot_product_attention(*given), function(*given)), *given).record()
    (step,) = record.steps
    assert_close(shown(step).double(), weights(*given[:2]), atol=1e-6, rtol=0)
    assert name in ("classifier", "sums", "exponentials") or re.search(reason, record.unseen)
    if name in MIXES:  # before the softmax it is attention
        step_in(lambda q, k, v: met(MIXES[name](q @ k.mT / 2).softmax(-1), v), *given)


WAYS, BIAS = ["fused", "by hand"], torch.randn(HEADS, N, N)


@given(st.lists(st.tuples(st.sampled_from(WAYS), st.booleans(), st.sampled_from([None, BIAS])), min_size=2, max_size=4))
@examples(12)
def test_a_call_shows_its_own_bias_and_mask_whatever_the_one_before_had(layers):
    """In any order of layers with and without them, of both routes."""
    model = nn.Sequential(*(Attention(*options) for options in layers))
    seen = seen_in(model, torch.randn(B, N, D))

    for step, layer in zip(seen.steps, model, strict=True):
        expected = weights(*layer.used, bias=0.0 if layer.bias is None else layer.bias)
        assert_close(shown(step).double(), expected, atol=2e-6, rtol=1e-5)
        assert bool(step.scoring.bias) == (layer.bias is not None)
    assert seen.record().unseen is None


SPOILED = {
    "query": lambda call: {"query": call.query.flip(2)},
    "mask": lambda call: {"mask": torch.ones(N, N, dtype=torch.bool).tril()},
    "bias": lambda call: {"scoring": replace(call.scoring, bias=())},
    "scale": lambda call: {"scoring": replace(call.scoring, scale=0.9)},
}
"""Parts of a call that are not the model's."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("part", SPOILED)
def test_a_map_that_is_not_the_models_is_named_and_not_shown(way, part):
    """Whatever part of it went wrong on the way to the record."""
    seen = seen_in(nn.Sequential(*(Attention(way, bias=BIAS) for _ in range(2))), torch.randn(B, N, D))
    for name, value in SPOILED[part](seen.calls[1]).items():
        object.__setattr__(seen.calls[1], name, value)
    record = seen.record()

    assert [step.name for step in record.steps] == ["0"]
    assert re.search("encoder layer 1 .*differs from the model's own", record.unseen)
    object.__setattr__(seen.calls[0], "query", seen.calls[0].query.flip(2))
    with pytest.raises(AttnvizError, match=r"No attention was captured in Sequential: .*encoder layer 0"):
        seen.record()


def test_heads_of_other_scales_are_named():
    """No map has two scales; a bias of one head alone is no bias of the others."""
    model, x = Heads((), (True,), (True,)), torch.randn(2, N, D)
    (step,) = seen_in(model, x).steps

    assert_close(shown(step), torch.stack([head.used for head in model.heads], 1), atol=1e-6, rtol=1e-5)
    assert re.search("differ.*scale", refusal(Heads((), (), (False, 0.4)), x))


def folded(fused: bool, *order: int) -> Own:
    """A model with heads and sentences in one axis, as one well-known translation of the paper has them."""
    qkv = nn.Linear(D, 3 * D)

    def attention(x):
        parts = (one.unflatten(-1, (HEADS, -1)) for one in qkv(x).chunk(3, -1))
        output = attend(fused, *(one.permute(*order).contiguous().view(-1, N, D // HEADS) for one in parts))
        sizes = (HEADS, len(x)) if order[0] == 2 else (len(x), HEADS)
        return output.unflatten(0, sizes).permute([order.index(axis) for axis in (0, 1, 2, 3)]).flatten(2)

    return Own(attention, n_head=HEADS, qkv=qkv)


@pytest.mark.parametrize("fused", [False, True])
def test_heads_before_sentences_are_never_misread(fused):
    """One sentence is read correctly; several are refused, even if there are as many as heads."""
    model, usual = folded(fused, 2, 0, 1, 3), folded(fused, 0, 2, 1, 3)
    for one, batch in ((model, 1), (usual, 1), (usual, HEADS)):
        assert seen_in(one, torch.randn(batch, N, D)).steps[0].shape == (batch, HEADS, N, N)

    assert "heads before sentences" in refusal(model, torch.randn(HEADS, N, D))


def test_one_axis_of_heads_and_sentences_asks_for_heads():
    """The module has two numbers that could be the heads; `heads=` decides."""

    class Bare(nn.Module):
        def forward(self, *given):
            return attend(False, *given)

    model, given = Bare(), qkv(B * HEADS)
    model.n_head, model.num_heads = HEADS, 2
    assert "heads=" in refusal(model, *given)
    assert seen_in(model, *given, heads=HEADS).steps[0].shape == (B, HEADS, N, 7)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("look_back", [False, True])
def test_windows_are_no_heads(look_back, fused, batch):
    """They stand where heads would; they are refused, and so are edits of them.

    What a model was given tells, not what a function was that is given the model.
    """
    qkv, x = nn.Linear(8, 24), torch.randn(batch, 12, 8)

    def windows(x):
        q, k, v = (one.reshape(-1, 3, 4, 8) for one in qkv(x).chunk(3, -1))
        if look_back:
            k, v = (torch.cat([F.pad(one, (0, 0, 0, 0, 1, 0))[:, :-1], one], 2) for one in (k, v))
        return attend(fused, q, k, v).reshape(x.shape)

    def run(model, batches):
        return [model(batch) for batch in batches]

    model = Own(windows)
    with attnviz.capture(model) as seen:
        run(model, [x])
    assert "windows of 4 of its 12" in "; ".join(seen.unseen)
    assert "windows of 4 of its 12" in refusal(windows, x)
    assert "The edits" in refusal(windows, x, edits=Edits().with_heads_off(Site("encoder", 0), {1}))


def test_chunks_are_refused():
    """No map of one chunk, or of one sentence, is that of the text; edits there are refused, too."""
    attention = Attention()

    def chunks(x):
        return torch.cat([attention(part) for part in x.split(3, 1)], 1)

    def each(x):
        return torch.stack([torch.mm(torch.mm(one, one.T).softmax(-1), one) for one in x])

    for model, length in ((Own(chunks, attention=attention), 6), (Own(each), N)):
        for edits in (Edits(), Edits(temperature=2.0)):
            assert "in pieces" in refusal(model, torch.randn(B, length, D), edits=edits)
    assert seen_in(each, torch.randn(1, N, 4)).steps[0].shape == (1, 1, N, N)
    windows = seen_in(attention, torch.randn(4, 3, D))  # as Swin's, which are sentences: never over the words
    with pytest.raises(AttnvizError, match=r"1 x 12 positions.*4 x 3 queries"):
        windows.record(list("abcdefghijkl"))


def test_values_of_each_distance_are_said():
    """As in Shaw et al. 2018: the output holds more than weights times values."""

    def relative(q, k, v):
        return (used := (q @ k.mT).softmax(-1)) @ v + torch.einsum("bhqk,qkd->bhqd", used, v.new_ones(N, 7, 6))

    assert "values that differ between queries" in seen_in(relative, *qkv(B, HEADS)).record().unseen


H, W = 4, 16
OWN = torch.ones(N, N).tril()


def findings(function, *given) -> str:
    record = seen_in(function, *(given or (torch.randn(B, H, N, W),))).record()
    assert record.unseen is None
    return "; ".join(record.findings)


def test_a_scale_is_told_with_the_usual_one():
    """1/√16 is 0.25."""
    assert not findings(lambda q: attend(True, q, q, q))
    assert not findings(lambda q: attend(False, q, q, q))
    other, none = (findings(lambda q, scale=scale: attend(False, q, q, q, scale=scale)) for scale in (0.0625, 1.0))
    assert re.search("0.0625.*0.25", other)
    assert re.search("no factor.*0.25", none)


def test_a_mask_that_a_hint_makes_pytorch_ignore_is_told():
    """`is_causal=True` beside a mask of a window."""
    layer, x = nn.MultiheadAttention(W, H, batch_first=True), torch.randn(B, N, W)
    for mask, is_told in ((OWN == 0, False), ((OWN == 0) | OWN.tril(-2).bool(), True)):
        with attnviz.capture(layer) as seen:
            layer(x, x, x, need_weights=False, attn_mask=mask, is_causal=True)
        assert ("ignores the mask" in "; ".join(seen.record().findings)) == is_told


def test_a_mask_after_the_softmax_is_named_and_the_softmax_is_shown():
    """Rows that do not sum to 1 any more."""
    q = torch.randn(B, HEADS, N, 4)
    for masked in (lambda used: used * OWN, lambda used: used.masked_fill(OWN == 0, 0)):
        record = seen_in(lambda q, masked=masked: masked((q @ q.mT).softmax(-1)) @ q, q).record()

        assert_close(shown(record.steps[0]), (q @ q.mT).softmax(-1), atol=1e-6, rtol=1e-5)
        assert "masks after the softmax" in record.findings[0]


def test_whole_rows_that_become_0_after_the_softmax_are_no_late_mask():
    """As those of queries that are padding: nobody reads them, and no other row is changed."""
    q, is_token = torch.randn(B, HEADS, N, 4), (torch.arange(N) < N - 2)[:, None]

    assert not findings(lambda q: ((q @ q.mT / 2).softmax(-1) * is_token) @ q, q)


def test_rounding_in_16_bits_is_said():
    """Weights are worked out in float32; the model's own are not those."""
    q, k, v = (2 * side for side in qkv(B, HEADS))
    with torch.autocast("cpu", torch.bfloat16):
        assert "bfloat16" in findings(lambda q, k, v: attend(False, q, k, v), q, k, v)
    assert not findings(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), q, k, v)
