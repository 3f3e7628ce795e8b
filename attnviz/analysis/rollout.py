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
class Mixed:
    """Mixing matrices Ã of all layers of a stack.

    Attributes:
        kind, tokens: kind of the stack, and its n tokens without padding.
        layers: matrices (L, n, n), float64, whose rows sum to 1; (0, n, n) if made by `rows`.
        left_out: number of rows without weights (no open key, or NaN), whose states pass through unchanged.
        note: sentence about attention that the rollout ignores, or None.
    """

    kind: str
    tokens: tuple[Token, ...]
    layers: Tensor
    left_out: int
    note: str | None


def mixed(record: Record, kind: str | None = None, *, sentence: int = 0) -> Mixed:
    """Compute ½ A + ½ I for every layer of a stack, with renormalized rows of A.

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
    sums = weights.sum(-1, keepdim=True)
    valid = sums.isfinite() & (sums > 0)
    mean = weights.where(valid, 0)
    mean = mean / mean.sum(-1, keepdim=True).where(valid, 1)
    layers = torch.where(valid, mean + torch.eye(n), 2 * torch.eye(n)) / 2
    return _mixed(record, steps, layers, int((~valid).sum()), sentence)


def _mixed(record: Record, steps: Sequence[Step], layers: Tensor, left_out: int, sentence: int) -> Mixed:
    """Make a `Mixed` with the tokens of its stack, and a note if the stack has cross-attention."""
    kind, n, note = steps[0].site.kind, layers.shape[-1], None
    if kind == "decoder" and any(site.kind == "cross" for site in record.sites):
        note = "Cross-attention is not followed, only the self-attention of the decoder."
    return Mixed(kind, record.tokens(steps[0].site, sentence=sentence)[0][:n], layers, left_out, note)


def _stack(record: Record, kind: str | None) -> list[Step]:
    """Return the self-attention of a stack, layer by layer; raise InputError if it cannot be followed."""
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
    if linear := next((step for step in steps if step.mixing == "linear"), None):
        what = f"Rollout follows shares that sum to 1, and {linear.site} is linear attention"
        raise InputError(f"{what}: its weights may be negative and sum to anything.")
    return steps


def rollout(mixed_layers: Mixed) -> Tensor:
    """Compute the rollout after each layer, (L, n, n): entry (i, j) is the share of token j in position i.

    Rows sum to 1. Later layers multiply from the left: R_l = Ã_l R_(l-1). In a decoder, later tokens have share 0.
    """
    products = [mixed_layers.layers[0]]
    for layer in mixed_layers.layers[1:]:
        products.append(layer @ products[-1])
    return torch.stack(products)


def rows(
    record: Record, positions: Sequence[int], kind: str | None = None, *, layers: int | None = None, sentence: int = 0
) -> tuple[Mixed, Tensor]:
    """Compute the rows of `rollout` at some positions, for a text of any length, after the first `layers` (None: all).

    Returns the stack, without its matrices, and the rows, (positions, n), float64. From the last layer to the first, a
    row r becomes r · ½ (A + I).
    """
    steps = _stack(record, kind)[:layers]
    n = token_counts(record, steps[0], sentence)[0]
    if wrong := [position for position in positions if not 0 <= position < n]:
        raise InputError(f"There is no position {wrong[0]}; there are {n}, counted from 0.")
    shares, left_out = torch.zeros(len(positions), n, dtype=torch.float64), 0
    shares[range(len(positions)), list(positions)] = 1
    for step in reversed(steps):
        sums = torch.ones(n, dtype=torch.float64)
        if step.shape[3] > n or not step.logsumexp[sentence].isfinite().all():
            sums = _rows_times_weights(step, None, sentence, n)[0]  # rows that may not sum to 1
        valid = sums.isfinite() & (sums > 0)
        left_out += int((~valid).sum())
        scaled = (shares / sums.where(valid, 1)).where(valid, 0)
        shares = (shares + shares.where(~valid, 0) + _rows_times_weights(step, scaled, sentence)) / 2
    return _mixed(record, steps, torch.empty(0, n, n), left_out, sentence), shares


def _rows_times_weights(step: Step, shares: Tensor | None, sentence: int, n: int = 0) -> Tensor:
    """Multiply rows of shares, (rows, n), by A, the mean over heads; without `shares`, sum each row of A, (1, n)."""
    n = n if shares is None else shares.shape[1]
    result, positions = torch.zeros(1 if shares is None else len(shares), n, dtype=torch.float64), torch.arange(n)
    positions = positions if shares is None else shares.any(0).nonzero().flatten()
    queries = range(int(positions[0]), int(positions[-1]) + 1) if len(positions) else range(0)
    for head in range(step.num_heads):
        for block in blocks(step, head, queries, range(n), sentence=sentence):
            if block.weights is not None and shares is None:
                result[:, block.rows.slice] += block.weights.double().sum(1)
            elif block.weights is not None:
                weights = block.weights.nan_to_num(nan=0.0)
                result[:, block.columns.slice] += shares[:, block.rows.slice].to(weights.dtype) @ weights
    return result / step.num_heads
