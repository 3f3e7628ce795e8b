"""Exact maps of linear attention and state spaces: the weights M with output = M · values, without a softmax.

Each of these layers carries a state S, (d_k, d_v), from token to token and reads it with a query. With the factors
α = exp(decay) and the gain β, both per token:

    gated delta rule     S ← α S,  S ← S + β k (v - Sᵀk)ᵀ,  o = Sᵀq
    the other layers     S ← α S + β k vᵀ,                  o = Sᵀq + D v

Row t of M is computed backwards: a vector a starts as q_t, the weight of key j is β_j k_j · a, and between tokens a
shrinks by α; the delta rule subtracts β_j k_j (k_j · a) from it. `window` processes `CHUNK` keys at once, so its cost
and its memory grow linearly with the number of keys.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK = 64
"""Number of keys that are processed at once."""
SMALLEST = -80.0
"""Logarithm below which a product of decays is 0: near the smallest normal number of float32."""


@dataclass(frozen=True, eq=False)
class LinearMap:
    """Factors and rule that turn queries and keys into a map of linear attention.

    Attributes:
        rule: name of the layer's rule, such as "gated delta rule".
        before: sentence on what the layer did to queries, keys and values first, in parts joined by "; "; or "".
        decay: logarithm of the factor by which the state is multiplied before a token is added to it, at most 0,
            (B, H, n), or (B, H, n, d_k) if each channel has its own.
        gain: factor by which the update that each token adds to the state is multiplied, (B, H, n).
        is_delta: whether the state forgets what it holds for a key before it stores the key's value.
        skip: weight of each token's own value, (H,), which is added to the diagonal of the map; None for none.
    """

    rule: str
    before: str
    decay: Tensor
    gain: Tensor
    is_delta: bool = False
    skip: Tensor | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for a figure of the weights: a note on the rule, and a note for each part of `before`."""
        rule_note = f"{self.rule}: weights may be negative and do not sum to 1"
        before = self.before[:1].lower() + self.before[1:].removesuffix(".")
        return (rule_note, *before.split("; ")) if before else (rule_note,)

    def weights(self, query: Tensor, key: Tensor, area: tuple[slice, slice, slice, slice]) -> Tensor:
        """Compute a window of the maps, (b, h, rows, columns).

        Args:
            query: scaled queries, (B, H, n, d_k).
            key: (B, H, n, d_k).
            area: slices of the sentences, heads, rows and columns.
        """
        sentences, heads, rows, columns = area
        query, key = query[sentences, heads], key[sentences, heads]
        decay, gain = self.decay[sentences, heads], self.gain[sentences, heads]
        if decay.dim() < key.dim():  # one decay for all channels
            decay = decay.unsqueeze(-1)
        positions = torch.arange(query.shape[2], device=query.device)[rows]
        cells = window(query, key, decay, gain, positions, columns, is_delta=self.is_delta)
        if self.skip is not None:
            diagonal = positions[:, None] == torch.arange(key.shape[2], device=key.device)[columns]
            cells = cells + diagonal * self.skip[heads, None, None].to(cells)
        return cells


def window(
    query: Tensor, key: Tensor, decay: Tensor, gain: Tensor, positions: Tensor, columns: slice, *, is_delta: bool
) -> Tensor:
    """Compute rows and columns of maps, (..., rows, columns), without `skip`, from the last chunk of keys back.

    Args:
        query, key: (..., n, d_k).
        decay: logarithms of decays, (..., n, 1) or (..., n, d_k).
        gain: (..., n).
        positions: query positions of the rows.
    """
    dtype = torch.promote_types(query.dtype, torch.float32)
    query, key, gain = query[..., positions, :].to(dtype), key.to(dtype), gain.to(dtype).unsqueeze(-2)
    decay_sums = decay.double().cumsum(-2)  # in float64: in a long text, float32 would round off the differences
    weights = query.new_zeros(*query.shape[:-1], key.shape[-2])
    first_key = min(range(key.shape[-2])[columns], default=0)
    end = int(positions.max()) + 1 if len(positions) else 0  # a query attends to no later key
    vectors = torch.zeros_like(query)  # vector a of each row, just after the current chunk; see the top of this file
    for start in reversed(range(first_key - first_key % CHUNK, end, CHUNK)):
        chunk = slice(start, min(start + CHUNK, end))
        keys, sums, gains = key[..., chunk, :], decay_sums[..., chunk, :], gain[..., chunk]
        ratios = _decays(sums.unsqueeze(-2) - sums.unsqueeze(-3), dtype)  # decay from key j to query i
        causal = torch.ones(ratios.shape[-3:-1], dtype=torch.bool, device=key.device).tril().unsqueeze(-1)
        ratios = ratios.where(causal, 0)
        last_sum = sums[..., -1:, :]
        scores = vectors @ (keys * _decays(last_sum - sums, dtype)).mT  # of queries after the chunk
        inside = ((positions >= start) & (positions < chunk.stop)).nonzero().flatten()  # rows with a query in the chunk
        offsets = positions[inside] - start  # index of the query in the chunk
        scores = scores.index_copy(-2, inside, _products(query[..., inside, :], keys, ratios[..., offsets, :, :]))
        if is_delta:  # later keys of the chunk remove their part of the earlier ones: a triangular system
            overlap = _products(keys, keys, ratios).tril(-1) * gains.mT
            scores = torch.linalg.solve_triangular(overlap, scores, upper=False, left=False, unitriangular=True)
        updates = scores * gains
        weights[..., chunk] = updates
        if start <= first_key:  # the last chunk: no further vectors are needed
            break
        sum_before = decay_sums[..., start - 1 : start, :]
        new_vectors = query[..., inside, :] * _decays(sums[..., offsets, :] - sum_before, dtype)
        vectors = (vectors * _decays(last_sum - sum_before, dtype)).index_copy(-2, inside, new_vectors)
        if is_delta:
            vectors = vectors - updates @ (keys * _decays(sums - sum_before, dtype))
    return weights[..., columns]


def _decays(logarithms: Tensor, dtype: torch.dtype) -> Tensor:
    """Compute products of decays from sums of logarithms; tiny products become 0, because denormal numbers are slow."""
    return logarithms.exp().masked_fill(logarithms < SMALLEST, 0).to(dtype)


def _products(left: Tensor, right: Tensor, ratios: Tensor) -> Tensor:
    """Compute q_i · k_j, (..., i, j), with the decays from j to i, (..., i, j, 1) or, per channel, (..., i, j, d_k)."""
    if ratios.shape[-1] == 1:
        return (left @ right.mT) * ratios.squeeze(-1)
    return (left.unsqueeze(-2) * ratios * right.unsqueeze(-3)).sum(-1)
