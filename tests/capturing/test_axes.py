"""Heads, sentences and windows are told apart: by the number of heads a module says, and by its positions."""

import pytest
import torch
from handmade import shown
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

import attnviz
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import AttnvizError

B, H, T, N, W = 2, 4, 3, 5, 6

ORDERS = {
    "bhnd": "bhid,bhjd->bhij",
    "hbnd": "hbid,hbjd->hbij",
    "bhtnd": "bhtid,bhtjd->bhtij",
    "bthnd": "bthid,bthjd->bthij",
}
ORDERS |= {"thbnd": "thbid,thbjd->thbij", "bnhd": "bihd,bjhd->bhij"}


class Attention(nn.Module):
    """Attention of tensors whose axes stand in some order, by one of three ways."""

    def __init__(self, order: str, way: str):
        super().__init__()
        self.num_heads, self.order, self.way = H, order, way

    def forward(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None) -> Tensor:
        if self.way == "fused":
            return F.scaled_dot_product_attention(q, k, v, bias)
        letters = ORDERS[self.order]
        scores = torch.einsum(letters, q, k) / W**0.5
        scores = scores if bias is None else scores + bias
        weights = torch.relu(scores).softmax(-1) if self.way == "weights" else scores.softmax(-1)
        (left, right), out = letters.split("->")[0].split(","), letters.split("->")[1]
        return torch.einsum(f"{out},{right}->{left}", weights, v)


@pytest.mark.parametrize("way", ["by hand", "fused", "weights"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("with_bias", [False, True])
def test_heads_are_found_on_the_axis_that_has_as_many(order, way, with_bias):
    """Whatever stands beside them; also a head that is switched off is that head."""
    if way == "fused" and order == "bnhd":
        pytest.skip("it takes heads before positions")
    sizes = {"b": B, "h": H, "t": T, "n": N, "d": W}
    q, k, v = (torch.randn([sizes[letter] for letter in order]) for _ in range(3))
    lead = [letter for letter in order if letter in "bht"]
    bias = torch.randn(*(sizes[letter] if letter == "h" else 1 for letter in lead), N, N) if with_bias else None
    model = Attention(order, way)
    alone = model(q, k, v, bias)
    with attnviz.capture(model) as seen:
        output = model(q, k, v, bias)
    (step,) = seen.steps

    to_usual = [order.index(letter) for letter in [*(one for one in lead if one != "h"), "h", "n", "d"]]
    first, second = (one.permute(to_usual).reshape(-1, H, N, W) for one in (q, k))
    scores = first @ second.mT / W**0.5
    scores = scores if bias is None else scores + bias.reshape(1, H, N, N)
    scores = torch.relu(scores) if way == "weights" else scores
    assert torch.equal(output, alone)
    assert_close(shown(step), scores.softmax(-1), atol=1e-5, rtol=1e-5)
    assert seen.record().unseen is None
    with attnviz.capture(model, Edits().with_heads_off(next(iter(seen.sites)), {1})):
        off = model(q, k, v, bias)
    assert not off.select(order.index("h"), 1).any()
    assert_close(off.select(order.index("h"), 2), alone.select(order.index("h"), 2), atol=1e-6, rtol=1e-5)


class Windows(nn.Module):
    """Local attention: windows stand where heads would, and each looks back at the one before."""

    def __init__(self, look_back: bool, by_hand: bool):
        super().__init__()
        self.look_back, self.by_hand = look_back, by_hand
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (one.reshape(-1, 3, 4, 8) for one in self.qkv(x).chunk(3, -1))
        if self.look_back:
            k, v = (torch.cat([F.pad(one, (0, 0, 0, 0, 1, 0))[:, :-1], one], 2) for one in (k, v))
        if self.by_hand:
            return ((q @ k.mT).softmax(-1) @ v).reshape(x.shape)
        return F.scaled_dot_product_attention(q, k, v).reshape(x.shape)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("look_back", [False, True])
def test_windows_are_no_heads(look_back, by_hand, batch):
    """They are refused, as pieces are."""
    model = Windows(look_back, by_hand)
    with attnviz.capture(model) as seen:
        model(torch.randn(batch, 12, 8))

    with pytest.raises(AttnvizError, match="within windows of 4 of its 12 positions"):
        seen.record()
    with (
        pytest.raises(AttnvizError, match="The edits"),
        attnviz.capture(model, Edits().with_heads_off(Site("encoder", 0), {1})),
    ):
        model(torch.randn(batch, 12, 8))


class Shared(nn.Module):
    """Keys and values that all heads share, in an einsum whose result has heads behind queries."""

    def __init__(self, order: str):
        super().__init__()
        self.num_heads, self.order, self.q, self.k = 4, order, nn.Linear(32, 40), nn.Linear(32, 10)

    def forward(self, x):
        q, c = self.q(x).unflatten(-1, (4, 10)), self.k(x)
        scores = torch.einsum(f"bqhc,bkc->b{self.order}k", q, c) * 10**-0.5
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        mask = future if self.order == "hq" else future[:, None]
        self.weights = scores.masked_fill(mask, -torch.inf).softmax(-1)
        return torch.einsum(f"b{self.order}k,bkc->bqhc", self.weights, c).flatten(2)


@pytest.mark.parametrize("order", ["qh", "hq"])
def test_heads_that_share_their_keys_are_never_read_as_queries(order):
    """As in multi-query attention, and in the absorbed latent attention of DeepSeek."""
    model, x = Shared(order), torch.randn(2, 7, 32)
    with torch.no_grad(), attnviz.capture(model) as seen:
        output = model(x)
    own = model.weights if order == "hq" else model.weights.transpose(1, 2)
    (step,) = seen.steps

    assert step.shape == (2, 4, 7, 7)
    for b in range(2):
        assert_close(torch.stack([step.weights(head, sentence=b) for head in range(4)]), own[b])
    off = attnviz.Edits(heads_off={(step.site, 1)})
    with torch.no_grad(), attnviz.capture(model, off):
        assert_close(model(x).unflatten(-1, (4, 10))[:, :, [0, 2, 3]], output.unflatten(-1, (4, 10))[:, :, [0, 2, 3]])
        assert model(x).unflatten(-1, (4, 10))[:, :, 1].eq(0).all()
