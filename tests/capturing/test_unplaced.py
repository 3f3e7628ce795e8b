"""Attention of unknown scores is shown as weights, or named with the reason; never dropped in silence."""

import pytest
import torch
from handmade import shown
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import attnviz
from attnviz.core.errors import AttnvizError

B, H, N, W = 2, 3, 5, 4


class Model(nn.Module):
    """A function as a model, which may have parts."""

    def __init__(self, function, **parts):
        super().__init__()
        self.function, self.num_heads = function, H
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor, y: Tensor | None = None):
        return self.function(self, x) if y is None else self.function(self, x, y)


def captured(function, *given, **parts):
    model = Model(function, **parts)
    alone = model(*given)
    with attnviz.capture(model) as seen:
        output = model(*given)
    assert torch.equal(output, alone)
    return seen


def heads() -> Tensor:
    return torch.randn(B, H, N, W)


SOFTMAXES = {
    "log_softmax": lambda x: F.log_softmax(x, -1).exp(),
    "aten": lambda x: torch.ops.aten.softmax(x, -1),
    "aten overload": lambda x: torch.ops.aten.softmax.int(x, -1),
    "special": lambda x: torch.special.softmax(x, -1),
    "functional": lambda x: torch.nn.functional.softmax(x, dim=-1),
    "module": nn.Softmax(-1),
}


@pytest.mark.parametrize("way", SOFTMAXES)
def test_every_name_of_the_softmax_is_one(way):
    """With its scores."""
    q = heads()
    (step,) = captured(lambda _, q: SOFTMAXES[way](q @ q.mT / 2) @ q, q).steps

    assert not step.weights_only
    assert_close(shown(step), (q @ q.mT / 2).softmax(-1), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("product", [torch.mm, torch.matmul])
def test_mm_and_the_operator_behave_alike(product):
    """Of one sentence a map; of several, one after another, they are named as pieces."""
    x = torch.randn(B, N, W)

    def each(_, x):
        return torch.stack([product(product(one, one.T).softmax(-1), one) for one in x])

    assert captured(each, x[:1]).steps[0].shape == (1, 1, N, N)
    with pytest.raises(AttnvizError, match="computes attention in pieces"):
        captured(each, x).record()


def test_sampled_weights_are_shown_as_weights():
    """They have random numbers in their scores, which nobody knows."""
    torch.manual_seed(0)
    used = []

    def sampled(_, q):
        torch.manual_seed(3)
        used.append(F.gumbel_softmax(q @ q.mT, dim=-1))
        return used[-1] @ q

    (step,) = captured(sampled, heads()).steps

    assert step.weights_only
    assert_close(shown(step), used[-1], atol=1e-6, rtol=1e-5)


ADDITIVE = {
    "product": lambda w, v: w @ v,
    "einsum": lambda w, v: torch.einsum("bqk,bkd->bqd", w, v),
}


@pytest.mark.parametrize("way", ADDITIVE)
def test_additive_attention_is_shown_as_weights(way):
    """As in Bahdanau et al. 2015, of all queries at once."""
    one, other, last = nn.Linear(W, 7), nn.Linear(W, 7), nn.Linear(7, 1)

    def weights(y, x):
        return last(torch.tanh(one(y)[:, :, None] + other(x)[:, None])).squeeze(-1).softmax(-1)

    for queries in (N, 3):
        y, x = torch.randn(B, queries, W), torch.randn(B, N, W)
        seen = captured(lambda _, y, x: ADDITIVE[way](weights(y, x), x), y, x)

        (step,) = seen.steps
        assert step.weights_only
        assert step.site.kind == "cross"
        assert_close(shown(step)[:, 0], weights(y, x), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("way", ["bmm", "sum"])
def test_additive_attention_of_a_recurrent_decoder_is_one_map(way):
    """A row for each word that it writes."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.other, self.last = nn.Linear(W, 7), nn.Linear(W, 7), nn.Linear(7, 1)

        def weights(self, state: Tensor, x: Tensor) -> Tensor:
            return self.last(torch.tanh(self.one(state)[:, None] + self.other(x))).squeeze(-1).softmax(1)

        def forward(self, state: Tensor, x: Tensor) -> Tensor:
            weights = self.weights(state, x)
            if way == "bmm":
                return torch.bmm(weights[:, None], x).squeeze(1)
            return (weights[..., None] * x).sum(1)

    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.cell = Attention(), nn.GRUCell(2 * W, W)

        def forward(self, y: Tensor, x: Tensor) -> Tensor:
            state, self.states = torch.zeros(len(x), W), []
            for step in range(y.shape[1]):
                self.states.append(state)
                state = self.cell(torch.cat([y[:, step], self.attention(state, x)], -1), state)
            return state

    model, y, x = Decoder(), torch.randn(B, 4, W), torch.randn(B, N, W)
    with torch.no_grad(), attnviz.capture(model) as seen:
        model(y, x)

    (step,) = seen.steps
    assert step.shape == (B, 1, 4, N)
    with torch.no_grad():
        expected = torch.stack([model.attention.weights(state, x) for state in model.states], 1)
    assert_close(shown(step)[:, 0], expected, atol=1e-6, rtol=1e-5)
    assert seen.record().unseen is None


@pytest.mark.parametrize("mix", ["linear", "einsum", "conv"])
@pytest.mark.parametrize("when", ["before", "after", "both"])
def test_heads_that_are_mixed_are_never_drawn_with_false_numbers(mix, when):
    """Before the softmax its weights are right; after it they are named, and another call is shown beside."""
    ways = {
        "linear": lambda part, a: part(a.permute(0, 2, 3, 1)).permute(0, 3, 1, 2),
        "einsum": lambda part, a: torch.einsum("bhij,hg->bgij", a, part.weight),
        "conv": lambda _, a: F.conv2d(a, torch.ones(H, H, 1, 1) / 2),
    }
    used = []

    def talking(model, q):
        plain = (q @ q.mT).softmax(-1) @ q
        scores = q @ q.mT / 2
        scores = ways[mix](model.before, scores) if when != "after" else scores
        used.append(scores.softmax(-1))
        weights = ways[mix](model.after, used[-1]) if when != "before" else used[-1]
        return plain + weights @ q

    parts = {"before": nn.Linear(H, H), "after": nn.Linear(H, H)}
    record = captured(talking, heads(), **parts).record()

    assert all(not shown(step).isnan().any() for step in record.steps)
    if when == "before":
        assert_close(shown(record.steps[1]), used[-1], atol=1e-6, rtol=1e-5)
        assert record.unseen is None
    else:
        assert len(record.steps) == 1
        assert "after the softmax" in record.unseen or "before they meet values" in record.unseen


def test_a_softmax_over_the_wrong_axis_is_named():
    """Over queries, or over heads."""
    for axis in (-2, 1):
        with pytest.raises(AttnvizError, match=r"over axis . of|over its queries"):
            captured(lambda _, q, axis=axis: (q @ q.mT).softmax(axis) @ q, heads()).record()


def test_a_mask_after_the_softmax_is_named_and_the_softmax_is_shown():
    """Rows that do not sum to 1 any more."""
    mask = torch.ones(N, N).tril()
    for masked in (lambda w: w * mask, lambda w: w.masked_fill(mask == 0, 0)):
        q = heads()
        record = captured(lambda _, q, masked=masked: masked((q @ q.mT).softmax(-1)) @ q, q).record()

        assert_close(shown(record.steps[0]), (q @ q.mT).softmax(-1), atol=1e-6, rtol=1e-5)
        assert "masks after the softmax" in record.findings[0]


def test_bands_are_named():
    """As Longformer's: a product of queries and keys in chunks, whose diagonals are cut out."""

    def banded(_, q):
        chunks = q.unfold(1, 4, 2).transpose(-1, -2)
        scores = torch.einsum("bcxd,bcyd->bcxy", chunks, chunks)
        scores = F.pad(scores, (0, 0, 0, 1)).flatten(2)[..., :16].reshape(*scores.shape)
        return torch.einsum("bcxy,bcyd->bcxd", scores.roll(1, -1).softmax(-1).flip(-1), chunks)

    seen = captured(banded, torch.randn(1, 8, W))
    with pytest.raises(AttnvizError, match=r"changed by|pieces|before they meet values"):
        seen.record()


def test_a_model_without_attention_says_what_it_has_instead():
    """A recurrence, or convolutions; a softmax over classes is named where it is all there is."""
    with pytest.raises(AttnvizError, match="it has running sums instead"):
        captured(lambda _, x: x.cumsum(1), torch.randn(B, N, W)).record()
    with pytest.raises(AttnvizError, match="takes a softmax of 2 x 5 x 4, and its weights meet no values"):
        captured(lambda _, x: x.softmax(-1), torch.randn(B, N, W)).record()
    router = captured(lambda _, q, x: (q @ q.mT).softmax(-1) @ q + x.softmax(-1).amax(), heads(), torch.randn(B, 4))
    assert router.record().unseen is None
