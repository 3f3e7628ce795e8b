"""Attention rollout: how much each input token contributes to each position, through all layers.

Source: Abnar and Zuidema 2020, Quantifying Attention Flow in Transformers. A layer is the mean weight of its heads plus
the residual connection, Ã = ½ A + ½ I. Rows of A that do not sum to 1 (because of a sink, or a head without an open
key) are renormalized first, so that a layer always keeps half. Values and feed-forward networks are ignored.
R_l = Ã_l R_(l-1), R_0 = Ã_0: a row of R divides 1 among the tokens, along all paths from its position to them.

For long texts, whose (n, n) matrices are too large, `rows` follows single positions through the maps of all layers,
block by block. In an encoder-decoder each stack is followed without cross-attention, which adds vectors of another
text: its weights do not tell how much of a state comes from there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.analysis.batch import token_counts
from attnviz.analysis.blocks import blocks, weights_of
from attnviz.core.errors import InputError
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Token

MOST_CELLS = 2**25
"""Maximum number of numbers in memory at once, over all layers: 12 layers of about 1,600 tokens."""


@dataclass(frozen=True, eq=False)
class MixingMatrices:
    """Mixing matrices Ã = ½ A + ½ I of all layers of an encoder or a decoder (a stack).

    Attributes:
        kind, tokens: "encoder" or "decoder", and its n tokens without padding.
        layers: matrices (L, n, n), float64, whose rows sum to 1; (0, n, n) if made by `rows`, which needs no matrices.
        left_out: number of rows, over all layers, without an open key or with NaN; they have the row of I instead.
        note: sentence about attention that the rollout ignores, or None.
    """

    kind: str
    tokens: tuple[Token, ...]
    layers: Tensor
    left_out: int
    note: str | None


def mixed(record: Record, kind: str | None = None, *, sentence: int = 0) -> MixingMatrices:
    """Compute ½ A + ½ I for every layer of a stack: A is the mean weight of the heads, with rows divided by their sums.

    Args:
        kind: "encoder" or "decoder"; None for the stack that produces the output.

    Raises:
        InputError: if there is no such stack, some of its layers are missing from the record, or it is too long.
    """
    steps = _stack(record, kind)
    n = token_counts(record, steps[0], sentence)[0]
    if len(steps) * n * n > MOST_CELLS:
        limit = f"at most {MOST_CELLS:,} numbers are held"
        instead = "Shorten it, or follow single positions: analysis.rollout.rows"
        raise InputError(f"{len(steps)} layers of {n:,} x {n:,} tokens are too many to follow; {limit}. {instead}.")
    weights = torch.stack([weights_of(step, "mean", slice(n), slice(n), sentence=sentence) for step in steps]).double()
    sums, identity = weights.sum(-1, keepdim=True), torch.eye(n)
    is_valid = sums.isfinite() & (sums > 0)
    normalized = weights / sums.where(is_valid, 1)
    layers = torch.where(is_valid, (normalized + identity) / 2, identity)
    return _matrices(record, steps, layers, int((~is_valid).sum()), sentence)


def _matrices(record: Record, steps: Sequence[Step], layers: Tensor, left_out: int, sentence: int) -> MixingMatrices:
    """Make a `MixingMatrices` with the tokens of its stack, and a note if the stack has cross-attention."""
    kind, n, note = steps[0].site.kind, layers.shape[-1], None
    if kind == "decoder" and any(site.kind == "cross" for site in record.sites):
        note = "Cross-attention is not followed, only the self-attention of the decoder."
    return MixingMatrices(kind, record.tokens(steps[0].site, sentence=sentence)[0][:n], layers, left_out, note)


def _stack(record: Record, kind: str | None) -> list[Step]:
    """Return the self-attention calls of a stack, layer by layer; raise InputError if rollout cannot follow them."""
    if record.unseen:
        raise InputError(f"Rollout follows all layers, but some layers are not shown here. {record.unseen}")
    stacks = {name: [s for s in record.steps if s.site.kind == name] for name in ("encoder", "decoder")}
    kinds = [name for name, steps in stacks.items() if steps]
    kind = kinds[-1] if kind is None and kinds else kind
    if kind not in kinds:
        has = f"it has {' and '.join(kinds)}" if kinds else "it has none"
        raise InputError(f"'{record.source}' has no stack of self-attention called {kind!r}; {has}.")
    steps = sorted(stacks[kind], key=lambda step: step.site.layer)
    if any(step.shape[2] != step.shape[3] - step.has_sink for step in steps):
        raise InputError(f"In the {kind} of '{record.source}' queries and keys are not the same positions.")
    for step in steps:
        if step.mixing == "linear":
            problem = f"Rollout follows shares that sum to 1, and {step.site} is linear attention"
            raise InputError(f"{problem}: its weights may be negative and sum to anything.")
    return steps


def rollout(mixed_layers: MixingMatrices) -> Tensor:
    """Compute the rollout R after each layer, (L, n, n): entry (i, j) is the share of token j in position i.

    Rows sum to 1. Each layer multiplies from the left, R_l = Ã_l R_(l-1). In a decoder, later tokens have share 0.
    """
    products = [mixed_layers.layers[0]]
    for layer in mixed_layers.layers[1:]:
        products.append(layer @ products[-1])
    return torch.stack(products)


def rows(
    record: Record, positions: Sequence[int], kind: str | None = None, *, layers: int | None = None, sentence: int = 0
) -> tuple[MixingMatrices, Tensor]:
    """Compute the rows of `rollout` at some positions, for a text of any length, block by block.

    Each row is multiplied from the right by Ã of the last layer, then of the layer before, and so on. `layers`: number
    of layers, from the first on; None for all. Returns the stack without its matrices, and the rows, (positions, n).
    """
    steps = _stack(record, kind)[:layers]
    n = token_counts(record, steps[0], sentence)[0]
    if wrong := [position for position in positions if not 0 <= position < n]:
        raise InputError(f"There is no position {wrong[0]}; there are {n}, counted from 0.")
    shares, left_out = torch.zeros(len(positions), n, dtype=torch.float64), 0
    shares[range(len(positions)), list(positions)] = 1
    for step in reversed(steps):
        sums = torch.ones(n, dtype=torch.float64)
        if step.shape[3] > n or not step.logsumexp[sentence].isfinite().all():  # rows that may not sum to 1
            sums = _row_sums(step, n, sentence)
        is_valid = sums.isfinite() & (sums > 0)
        left_out += int((~is_valid).sum())
        to_mix = (shares / sums.where(is_valid, 1)).where(is_valid, 0)
        unmixed = shares.where(~is_valid, 0)  # the row of I in place of A
        shares = (shares + unmixed + _times_weights(to_mix, step, sentence)) / 2
    return _matrices(record, steps, torch.empty(0, n, n), left_out, sentence), shares


def _row_sums(step: Step, n: int, sentence: int) -> Tensor:
    """Sum the rows of A, the mean of the weights over heads, for the first n queries and keys, (n,), float64."""
    sums = torch.zeros(n, dtype=torch.float64)
    for head in range(step.num_heads):
        for block in blocks(step, head, range(n), range(n), sentence=sentence):
            if block.weights is not None:
                sums[block.rows.slice] += block.weights.double().sum(1)
    return sums / step.num_heads


def _times_weights(shares: Tensor, step: Step, sentence: int) -> Tensor:
    """Multiply rows of shares, (rows, n), by A, the mean of the weights over heads, (n, n)."""
    result, n = torch.zeros_like(shares), shares.shape[1]
    positions = shares.any(0).nonzero().flatten()
    queries = range(int(positions[0]), int(positions[-1]) + 1) if len(positions) else range(0)
    for head in range(step.num_heads):
        for block in blocks(step, head, queries, range(n), sentence=sentence):
            if block.weights is not None:
                weights = block.weights.nan_to_num(nan=0.0)
                result[:, block.columns.slice] += shares[:, block.rows.slice].to(weights.dtype) @ weights
    return result / step.num_heads
