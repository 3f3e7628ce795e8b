"""A decoder whose weights are set by hand, so that the behavior of each head is known in advance, for any text.

A vector consists of four slots of 64 numbers. Heads write the two codes on the right, for later heads to read:

    TOKEN        POSITION        PREVIOUS                  NEXT
    its code     its position    code of the token before  code of the token that followed an earlier copy

Behavior of the heads; the two with an arrow write into a slot, all other heads write nothing:

    layer 0      previous token → PREVIOUS    first token    same token             uniform
    layer 1      induction → NEXT             itself         two tokens back        same token before
"""

import math
from functools import cache, lru_cache
from hashlib import blake2b

import torch
from torch import Tensor, nn

from attnviz.core.edits import Site
from attnviz.core.tap import Tap
from attnviz.models.multihead import MultiHeadAttention
from attnviz.models.transformer import Layers, causal_mask, sinusoidal

D_K = 64
TOKEN, POSITION, PREVIOUS, NEXT = (slice(start, start + D_K) for start in range(0, 4 * D_K, D_K))

SHARP = 12.0
"""Factor of the product of two positions: neighbors differ by 1.08, so a neighbor gets e^-13 of the weight."""

ALIKE = 120.0
"""Factor of the product of two codes: 1 for the same token, else rarely above 0.6."""

NONE = 0.9
"""Score of the first token in an induction head, which is largest if no token matches: above chance and below 1."""


class ConstructedHeads(nn.Module):
    """Two attention-only layers of four heads, d_k 64, without normalization, so that the slots are never mixed."""

    num_heads = 4
    sites = (Site("decoder", 0), Site("decoder", 1))

    def __init__(self):
        super().__init__()
        self.stack = Layers("decoder", 4 * D_K, self.num_heads, len(self.sites), norm=False)
        with torch.no_grad():
            for parameter in self.stack.parameters():
                parameter.zero_()
            first, second = (layer.attention for layer in self.stack.layers)
            _attend(first, 0, POSITION, POSITION, SHARP, rotation=_rotation_back(1))  # previous token
            _copy(first, 0, TOKEN, PREVIOUS)
            first.w_q.bias[D_K : 2 * D_K] = SHARP * math.sqrt(D_K) * sinusoidal(1, D_K)[0]  # first token: position 0
            first.w_k.weight[D_K : 2 * D_K, POSITION] = torch.eye(D_K)
            _attend(first, 2, TOKEN, TOKEN, ALIKE)  # same token
            # uniform: the query of head 3 is 0, so all its scores are 0 and all its weights are equal
            _attend(second, 0, TOKEN, PREVIOUS, ALIKE)  # induction
            _copy(second, 0, TOKEN, NEXT)
            _attend(second, 1, POSITION, POSITION, SHARP)  # itself
            _attend(second, 2, POSITION, POSITION, SHARP, rotation=_rotation_back(2))  # two tokens back
            _attend(second, 3, PREVIOUS, PREVIOUS, ALIKE)  # same token before

    def forward(self, ids: Tensor, lengths: tuple[int, ...] | None = None, *, tap: Tap | None = None) -> Tensor:
        """Map token ids, (B, n), of which the first `lengths` are not padding, to vectors, (B, n, d_model)."""
        return self.stack(embed(ids), causal_mask(lengths, ids), tap=tap)


@cache
def build() -> ConstructedHeads:
    """Build the model once, in evaluation mode; the caller's random state is not changed."""
    with torch.random.fork_rng(devices=[]):
        return ConstructedHeads().eval().requires_grad_(False)


def embed(ids: Tensor) -> Tensor:
    """Map token ids, (B, n), to vectors, (B, n, d_model), whose slots TOKEN and POSITION are filled.

    At the first token, the previous-token head attends to that token itself and adds its code to PREVIOUS. The
    embedding subtracts this code in advance; in its place, it gives the induction head a score of `NONE`.
    """
    x = torch.zeros(*ids.shape, 4 * D_K)
    x[..., TOKEN] = codes(ids)
    x[..., POSITION] = sinusoidal(ids.shape[1], D_K)
    x[:, :1, PREVIOUS] = -x[:, :1, TOKEN]
    x[:, :1, PREVIOUS.stop - 1] += NONE * math.sqrt(D_K)
    return x


def codes(ids: Tensor) -> Tensor:
    """Map token ids, (B, n), to codes, (B, n, 64): vectors of length 1, nearly orthogonal for different ids."""
    return torch.stack([_code(id) for id in ids.flatten().tolist()]).reshape(*ids.shape, D_K)


@lru_cache(maxsize=10_000)
def _code(id: int) -> Tensor:
    """Code of a token id: 64 numbers of ±1/8 by the bits of its hash, except that the last number is always +1/8."""
    digest = blake2b(id.to_bytes(8, signed=True), digest_size=D_K // 8).digest()
    bits = torch.tensor([byte >> bit & 1 for byte in digest for bit in range(8)])
    bits[-1] = 1
    return (2.0 * bits - 1) / math.sqrt(D_K)


def _attend(
    attention: MultiHeadAttention, head: int, query: slice, key: slice, gain: float, rotation: Tensor | None = None
) -> None:
    """Set a head's scores to `gain` times the product of a slot of the query, rotated, and a slot of the key."""
    rows = slice(head * D_K, (head + 1) * D_K)
    rotation = torch.eye(D_K) if rotation is None else rotation
    attention.w_q.weight[rows, query] = gain * math.sqrt(D_K) * rotation  # the scale divides scores by √d_k
    attention.w_k.weight[rows, key] = torch.eye(D_K)


def _copy(attention: MultiHeadAttention, head: int, source: slice, target: slice) -> None:
    """Let a head copy a slot of the attended token into another slot of the query's token."""
    rows = slice(head * D_K, (head + 1) * D_K)
    attention.w_v.weight[rows, source] = torch.eye(D_K)
    attention.w_o.weight[target, rows] = torch.eye(D_K)


def _rotation_back(by: int) -> Tensor:
    """Matrix, (64, 64), that turns the sines and cosines of a position into those of `by` positions earlier."""
    sin, cos = sinusoidal(by + 1, D_K)[by].reshape(-1, 2).unbind(1)
    turns = torch.stack([torch.stack([cos, -sin], -1), torch.stack([sin, cos], -1)], -2)
    return torch.block_diag(*turns)
