"""A decoder whose weights are set by hand, so that where each head looks is known beforehand, for any text.

A vector is four places of 64 numbers. The two codes on the right are written by heads, for others to read:

    TOKEN        POSITION        PREVIOUS                  NEXT
    its code     its position    code of the token before  code of the token that came next, earlier

What the heads look at; the two marked with an arrow also write, the others write nothing:

    layer 0      previous token → PREVIOUS    first token    same token             all alike
    layer 1      induction → NEXT             itself         two tokens back        same token before
"""

import math
from functools import cache, lru_cache
from hashlib import blake2b

import torch
from torch import Tensor, nn

from attnviz.core.edits import Site
from attnviz.core.masks import Padding, Subsequent
from attnviz.core.tap import Tap
from attnviz.models.multihead import MultiHeadAttention
from attnviz.models.transformer import Layers, sinusoidal

D_K = 64
TOKEN, POSITION, PREVIOUS, NEXT = (slice(start, start + D_K) for start in range(0, 4 * D_K, D_K))

SHARP = 12.0
"""Times the product of two positions: of neighbors it differs by 1.08, so a neighbor gets e^-13 of the weight."""

ALIKE = 120.0
"""Times the product of two codes: 1 if the tokens are the same, else rarely above 0.6."""

NONE = 0.9
"""Match that the first token offers instead to an induction head that finds nothing: below 1 and above chance."""


class ConstructedHeads(nn.Module):
    """Two attention-only layers of four heads, d_k 64, without normalization, so that places stay what they are."""

    num_heads = 4
    sites = (Site("decoder", 0), Site("decoder", 1))

    def __init__(self):
        super().__init__()
        self.stack = Layers("decoder", 4 * D_K, self.num_heads, len(self.sites), norm=False)
        with torch.no_grad():
            first, second = (layer.attention for layer in self.stack.layers)
            for parameter in self.stack.parameters():
                parameter.zero_()
            _layer_0(first)
            _layer_1(second)

    def forward(self, ids: Tensor, lengths: tuple[int, ...] | None = None, *, tap: Tap | None = None) -> Tensor:
        """Read (B, n) ids of any tokens, of which `lengths` are not padding; gives (B, n, d_model)."""
        mask = Subsequent()
        if lengths is not None and min(lengths) < ids.shape[1]:
            mask &= Padding(lengths)
        return self.stack(embed(ids), mask, tap=tap)


@cache
def build() -> ConstructedHeads:
    """The model, made once, ready to run; the random numbers of the caller stay as they are."""
    with torch.random.fork_rng(devices=[]):
        return ConstructedHeads().eval().requires_grad_(False)


def embed(ids: Tensor) -> Tensor:
    """(B, n) ids -> (B, n, d_model).

    The first token has none before it, so the previous-token head finds itself there and writes its own code. That is
    taken away beforehand, and what the induction head falls back on is put in its place.
    """
    x = torch.zeros(*ids.shape, 4 * D_K)
    x[..., TOKEN] = codes(ids)
    x[..., POSITION] = sinusoidal(ids.shape[1], D_K)
    x[:, :1, PREVIOUS] = -x[:, :1, TOKEN]
    x[:, :1, PREVIOUS.stop - 1] += NONE * math.sqrt(D_K)
    return x


def codes(ids: Tensor) -> Tensor:
    """(B, n) ids -> (B, n, 64), of length 1, nearly at right angles for different ids."""
    return torch.stack([_code(id) for id in ids.flatten().tolist()]).reshape(*ids.shape, D_K)


@lru_cache(maxsize=10_000)
def _code(id: int) -> Tensor:
    """±1/8 after the bits of a hash of the id; the last is +1/8 in every code, as a constant."""
    digest = blake2b(id.to_bytes(8, signed=True), digest_size=D_K // 8).digest()
    bits = torch.tensor([byte >> bit & 1 for byte in digest for bit in range(8)])
    bits[-1] = 1
    return (2.0 * bits - 1) / math.sqrt(D_K)


def _layer_0(attention: MultiHeadAttention) -> None:
    _look(attention, 0, POSITION, POSITION, SHARP, turn=_back(1))
    _copy(attention, 0, TOKEN, PREVIOUS)
    _look_at_first(attention, 1)
    _look(attention, 2, TOKEN, TOKEN, ALIKE)
    # Head 3 asks for nothing, so every score is 0 and every weight the same.


def _layer_1(attention: MultiHeadAttention) -> None:
    _look(attention, 0, TOKEN, PREVIOUS, ALIKE)
    _copy(attention, 0, TOKEN, NEXT)
    _look(attention, 1, POSITION, POSITION, SHARP)
    _look(attention, 2, POSITION, POSITION, SHARP, turn=_back(2))
    _look(attention, 3, PREVIOUS, PREVIOUS, ALIKE)


def _look(
    attention: MultiHeadAttention, head: int, query: slice, key: slice, gain: float, turn: Tensor | None = None
) -> None:
    """Score a pair by `gain` times the product of the query's place, turned if asked for, and the key's place."""
    own = slice(head * D_K, (head + 1) * D_K)
    attention.w_q.weight[own, query] = gain * math.sqrt(D_K) * (torch.eye(D_K) if turn is None else turn)
    attention.w_k.weight[own, key] = torch.eye(D_K)


def _look_at_first(attention: MultiHeadAttention, head: int) -> None:
    """Whatever the token, ask for position 0."""
    own = slice(head * D_K, (head + 1) * D_K)
    attention.w_q.bias[own] = SHARP * math.sqrt(D_K) * sinusoidal(1, D_K)[0]
    attention.w_k.weight[own, POSITION] = torch.eye(D_K)


def _copy(attention: MultiHeadAttention, head: int, source: slice, target: slice) -> None:
    """Write what stands in one place of what is looked at into another place of who looks."""
    own = slice(head * D_K, (head + 1) * D_K)
    attention.w_v.weight[own, source] = torch.eye(D_K)
    attention.w_o.weight[target, own] = torch.eye(D_K)


def _back(by: int) -> Tensor:
    """The (64, 64) matrix that turns each sine and cosine of a position into those of the position `by` before."""
    sin, cos = sinusoidal(by + 1, D_K)[by].reshape(-1, 2).unbind(1)
    turns = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    return torch.block_diag(*turns)
