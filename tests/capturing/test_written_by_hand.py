"""Attention written by hand is recovered: its queries, keys, values, mask, bias and scale."""

import pytest
import torch
from examples import examples
from handmade import shown, weights
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close
from ways import WAYS, Written

import attnviz
from attnviz.core.edits import Edits, Site

B, H, Q, K, D, V = 2, 3, 5, 7, 4, 6


def drawn(seed: int, queries: int, keys: int, with_mask: bool, with_bias: bool) -> tuple[Tensor | None, ...]:
    """q, k, v, mask and bias; each query has an open key."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    q, k, v = normal(B, H, queries, D), normal(B, H, keys, D), normal(B, H, keys, V)
    mask = torch.rand(B, 1, queries, keys, generator=generator) > 0.5
    mask[..., 0] = True
    return q, k, v, mask if with_mask else None, normal(1, H, queries, keys) if with_bias else None


@pytest.mark.parametrize("way", WAYS)
@given(
    seed=st.integers(0, 1000),
    queries=st.integers(1, 5),
    keys=st.integers(1, 7),
    with_mask=st.booleans(),
    with_bias=st.booleans(),
)
@examples(8)
def test_the_same_attention_is_recovered_from_every_way_to_write_it(way, seed, queries, keys, with_mask, with_bias):
    """Exactly: its weights are those of float64, and what the model gives is not changed by one bit."""
    q, k, v, mask, bias = drawn(seed, queries, keys, with_mask, with_bias)
    model = Written(way, H)
    alone = model(q, k, v, mask, bias)

    with attnviz.capture(model) as seen:
        output = model(q, k, v, mask, bias)

    (step,) = seen.steps
    assert torch.equal(output, alone)
    assert not step.weights_only
    assert_close(shown(step).double(), weights(q, k, mask, None, 0.0 if bias is None else bias), atol=2e-6, rtol=1e-5)
    assert (step.mask is None) == (mask is None or bool(mask.all()))
    assert bool(step.scoring.bias) == (with_bias and keys > 1)  # one key has all of the weight
    assert step.scoring.scale == pytest.approx(D**-0.5)
    assert torch.equal(step.value, v)
    assert_close(torch.stack([step.output(h) for h in range(H)]), output[0])


@pytest.mark.parametrize("way", WAYS)
def test_edits_act_in_every_way_to_write_it(way):
    """A mask, a scale, a bias, a temperature and a head that is off, with their gradients."""
    q, k, v, mask, bias = drawn(3, Q, Q, True, True)
    off = Edits(mask=attnviz.Window(2, 1), scale=0.9, temperature=0.7).with_heads_off(Site("encoder", 0), {1})
    model, given = Written(way, H), [one.clone().requires_grad_() for one in (q, k, v)]
    with attnviz.capture(model, off) as seen:
        output = model(*given, mask, bias)

    mask = mask & attnviz.Window(2, 1).tensor(Q, Q)
    by_hand = [one.clone().requires_grad_() for one in (q, k, v)]
    scores = ((by_hand[0] @ by_hand[1].mT) * 0.9 + bias) / 0.7
    expected = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ by_hand[2]
    expected = expected * torch.tensor([1.0, 0.0, 1.0])[:, None, None]
    assert_close(output, expected, atol=1e-5, rtol=1e-5)
    assert seen.steps[0].heads_off == {1}
    for ours, theirs in zip(
        *(torch.autograd.grad(o.square().sum(), x) for o, x in ((output, given), (expected, by_hand))), strict=True
    ):
        assert_close(ours, theirs, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_gradients_stay_the_models_own(way):
    """Not one bit differs."""
    q, k, v, mask, bias = drawn(5, Q, K, True, True)
    model, found = Written(way, H), []
    for watched in (False, True):
        given = [one.clone().requires_grad_() for one in (q, k, v)]
        if watched:
            with attnviz.capture(model):
                output = model(*given, mask, bias)
        else:
            output = model(*given, mask, bias)
        found.append(torch.autograd.grad(output.square().sum(), given))

    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("way", sorted({*WAYS} - {"added", "indexed", "multiplied", "einsum"}))
def test_sixteen_bits_are_recovered_too(way, autocast):
    """As exactly as such numbers are; nothing is changed."""
    dtype = torch.float32 if autocast else torch.bfloat16
    q, k, v, mask, bias = (one.to(dtype) if one.is_floating_point() else one for one in drawn(7, Q, K, True, True))
    model = Written(way, H)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        alone = model(q, k, v, mask, bias)
        with attnviz.capture(model) as seen:
            output = model(q, k, v, mask, bias)
        with attnviz.capture(model, Edits(temperature=1.5)):
            warmer = model(q, k, v, mask, bias)

    (step,) = seen.steps
    assert torch.equal(output, alone)
    assert (warmer.dtype, torch.equal(warmer, alone)) == (alone.dtype, False)
    assert not step.weights_only
    expected = weights(q, k, mask, None, bias.double())
    assert_close(shown(step).double(), expected, atol=0.02, rtol=0)


class Own(nn.Module):
    """A function as a model."""

    def __init__(self, function, **said):
        super().__init__()
        self.function = function
        vars(self).update(said)

    def forward(self, *given):
        return self.function(*given)


def seen_in(function, *given, heads=None, **said):
    model = Own(function, **said)
    with attnviz.capture(model, heads=heads) as seen:
        model(*given)
    return seen


def qkv(*lead: int) -> list[Tensor]:
    return [torch.randn(*lead, n, d) for n, d in ((Q, D), (K, D), (K, V))]


def test_a_softcap_is_one():
    """As in Gemma 2."""

    def capped(q, k, v):
        scores = torch.matmul(q, k.mT) * 0.4
        scores = torch.tanh(scores / 2.5) * 2.5
        return scores.softmax(-1) @ v

    q, k, v = qkv(B, H)
    (step,) = seen_in(capped, q, k, v).steps

    assert step.scoring.softcap == pytest.approx(2.5)
    assert step.scoring.scale == pytest.approx(0.4)
    expected = (torch.tanh(q.double() @ k.double().mT * 0.4 / 2.5) * 2.5).softmax(-1)
    assert_close(shown(step).double(), expected, atol=1e-6, rtol=0)


def test_a_sink_takes_weight():
    """As in GPT-OSS: one more column, whose weights are dropped."""
    sinks = torch.randn(H)

    def sinking(q, k, v):
        scores = torch.matmul(q, k.mT) * 0.4
        both = torch.cat([scores, sinks.reshape(1, -1, 1, 1).expand(B, -1, Q, 1)], dim=-1)
        both = both - both.max(dim=-1, keepdim=True).values
        weights = torch.softmax(both, dim=-1)[..., :-1]
        return torch.matmul(weights, v)

    q, k, v = qkv(B, H)
    (step,) = seen_in(sinking, q, k, v).steps

    assert step.has_sink
    scores = torch.cat([q @ k.mT * 0.4, sinks.reshape(1, -1, 1, 1).expand(B, -1, Q, 1)], -1)
    assert_close(shown(step), scores.softmax(-1), atol=1e-5, rtol=0)


def test_groups_of_queries_share_keys():
    """As einsum writes it: an axis that only queries have is one of heads."""

    def grouped(q, k, v):
        scores = torch.einsum("bghqd,bgkd->bghqk", q, k) / 2
        return torch.einsum("bghqk,bgkd->bghqd", scores.softmax(-1), v)

    q, k, v = torch.randn(B, 2, H, Q, D), torch.randn(B, 2, K, D), torch.randn(B, 2, K, V)
    (step,) = seen_in(grouped, q, k, v, n_head=6).steps

    assert step.shape == (B, 6, Q, K)
    assert_close(
        shown(step).double(), weights(q.flatten(1, 2), k.repeat_interleave(H, 1), None, 0.5), atol=1e-6, rtol=0
    )


def test_a_toy_of_two_axes_is_attention():
    """One sentence, one head, as a first lesson writes it."""
    q, k, v = qkv()
    (step,) = seen_in(lambda q, k, v: torch.softmax(q @ k.T / 2, -1) @ v, q, k, v).steps

    assert step.shape == (1, 1, Q, K)


def test_a_classifier_is_no_attention():
    """Words by learned vectors, and a router of experts."""
    table, experts = nn.Parameter(torch.randn(9, D)), torch.randn(4, D, D)

    def others(x):
        words = torch.matmul(x, table.T).softmax(-1) @ table
        shares = nn.functional.linear(x, torch.randn(4, D)).softmax(-1)
        return words + torch.einsum("bne,edf,bnd->bnf", shares, experts, x)

    assert not seen_in(others, torch.randn(B, Q, D)).calls


def test_relative_terms_of_other_products_are_bias():
    """As in DeBERTa: queries with vectors of distances, gathered."""
    q, k, v = qkv(B, H)
    far, index = torch.randn(1, H, 9, D), torch.randint(0, 9, (B, H, Q, K))

    def relative(q, k, v):
        scores = torch.matmul(q, k.mT / 3.5)
        scores = scores + torch.gather(torch.matmul(q, far.mT), -1, index) / 3.5
        return scores.softmax(-1) @ v

    (step,) = seen_in(relative, q, k, v).steps

    bias = torch.gather(q @ far.mT, -1, index) / 3.5
    assert_close(step.scoring.bias[0], bias)
    assert_close(shown(step).double(), weights(q, k, None, 1 / 3.5, bias), atol=1e-6, rtol=0)


def test_scores_that_no_form_explains_are_weights_only():
    """Said, and still shown and edited as far as weights allow."""
    q, k, v = qkv(B, H)

    def odd(q, k, v):
        return torch.relu(q @ k.mT).softmax(-1) @ v

    seen = seen_in(odd, q, k, v)
    (step,) = seen.steps

    assert step.weights_only
    assert seen.record().read_only
    assert_close(shown(step), torch.relu(q @ k.mT).softmax(-1))
    model = Own(odd)
    edits = Edits(mask=attnviz.Subsequent(), temperature=2.0).with_heads_off(Site("encoder", 0), {0})
    with attnviz.capture(model, edits):
        output = model(q, k, v)
    scores = (torch.relu(q @ k.mT) / 2).masked_fill(~attnviz.Subsequent().tensor(Q, K), -torch.inf)
    assert_close(output[:, 1:], (scores.softmax(-1) @ v)[:, 1:])
    assert not output[:, 0].any()
    with (
        pytest.raises(attnviz.AttnvizError, match="only the weights are known"),
        attnviz.capture(model, Edits(scale=1.0)),
    ):
        model(q, k, v)


def test_rows_masked_throughout_stay_the_models():
    """Uniform for finite numbers, not a number for infinite ones, zero where the model says so afterwards."""
    q, k, v = qkv(B, H)
    mask = torch.ones(Q, K, dtype=torch.bool)
    mask[1] = False
    lowest = torch.finfo(torch.float32).min

    def rows(fill, after=lambda weights: weights):
        def attention(q, k, v):
            return after((q @ k.mT).masked_fill(~mask, fill).softmax(-1)) @ v

        (step,) = seen_in(attention, q, k, v).steps
        return step.weights(0)[1]

    assert_close(rows(lowest), torch.full((K,), 1 / K))
    assert rows(-torch.inf).isnan().all()
    assert_close(rows(-torch.inf, torch.nan_to_num), torch.zeros(K))
    assert_close(rows(lowest, lambda weights: weights.masked_fill(~mask, 0)), torch.zeros(K))


def test_mixing_heads_after_the_softmax_is_refused():
    """As talking heads do: no head's weights are what meets the values."""
    mix = torch.randn(H, H)

    def talking(q, k, v):
        weights = (q @ k.mT).softmax(-1)
        return torch.einsum("bhqk,hg->bgqk", weights, mix) @ v

    seen = seen_in(talking, *qkv(B, H))

    with pytest.raises(attnviz.AttnvizError, match="mixes the weights of heads or queries after the softmax"):
        seen.record()


def test_linear_attention_has_no_map():
    """Its softmax is over the numbers of each query, and its "values" are sums over all keys."""

    def linear(q, k, v):
        context = torch.einsum("bhnd,bhne->bhde", k.softmax(dim=-2), v)
        return torch.einsum("bhnd,bhde->bhne", q.softmax(dim=-1), context)

    with pytest.raises(attnviz.AttnvizError, match="linear attention has no map"):
        seen_in(linear, *qkv(B, H)).record()


def test_weights_turned_before_they_meet_values_are_read_right():
    """As over the pixels of a picture: values of (B, channels, keys) times weights of (B, keys, queries)."""

    def pixels(q, k, v):
        attention = torch.softmax(torch.bmm(q, k.mT), dim=-1)
        return torch.bmm(v.mT, attention.permute(0, 2, 1)).mT

    q, k, v = qkv(B)
    (step,) = seen_in(pixels, q, k, v).steps

    assert step.shape == (B, 1, Q, K)
    assert_close(shown(step)[:, 0].double(), weights(q, k, None, 1.0), atol=1e-6, rtol=0)
    assert torch.equal(step.value[:, 0], v)


def test_slots_that_compete_for_inputs_are_refused():
    """Their softmax is over the queries."""

    def slots(q, k, v):
        weights = torch.einsum("bkd,bqd->bkq", k, q).softmax(-1) + 1e-8
        weights = weights / weights.sum(-2, keepdim=True)
        return torch.einsum("bkq,bkd->bqd", weights, v)

    with pytest.raises(attnviz.AttnvizError, match="after the softmax"):
        seen_in(slots, *qkv(B)).record()


def test_values_of_each_distance_are_said():
    """As in Shaw et al. 2018: the output holds more than weights times values."""
    far = torch.randn(Q, K, V)

    def relative(q, k, v):
        weights = (q @ k.mT).softmax(-1)
        return weights @ v + torch.einsum("bhqk,qkd->bhqd", weights, far)

    record = seen_in(relative, *qkv(B, H)).record()

    assert record.unseen == "the model adds values that differ between queries"


def test_changed_weights_are_refused():
    """What meets the values is not what the softmax gave."""
    seen = seen_in(lambda q, k, v: (q @ k.mT).softmax(-1).square() @ v, *qkv(B, H))

    with pytest.raises(attnviz.AttnvizError, match="changes the weights after the softmax"):
        seen.record()


def test_dropout_draws_the_same_numbers_and_is_no_change():
    """Recorded are the weights before it."""
    q, k, v = qkv(B, H)

    def dropping(q, k, v):
        return nn.functional.dropout((q @ k.mT).softmax(-1), 0.5) @ v

    torch.manual_seed(1)
    alone = dropping(q, k, v)
    model = Own(dropping)
    torch.manual_seed(1)
    with attnviz.capture(model) as seen:
        output = model(q, k, v)

    assert torch.equal(output, alone)
    assert_close(shown(seen.steps[0]), (q @ k.mT).softmax(-1))


def test_one_axis_of_heads_and_sentences_asks_for_heads():
    """Where the module says nothing, or two numbers."""
    q, k, v = qkv(B * H)

    def folded(q, k, v):
        return torch.bmm(torch.bmm(q, k.mT).softmax(-1), v)

    assert seen_in(folded, q, k, v, heads=H).steps[0].shape == (B, H, Q, K)
    assert seen_in(folded, q, k, v, n_head=H).steps[0].shape == (B, H, Q, K)
    with pytest.raises(attnviz.AttnvizError, match=r"say capture\(model, heads="):
        seen_in(folded, q, k, v, n_head=H, num_heads=2)
