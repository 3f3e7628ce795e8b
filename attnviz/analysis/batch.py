"""Metrics of all heads of an attention call, from its weights in blocks of rows, for one text or a whole batch.

    B texts   H heads   R queries of a block   Q all queries   K all keys   n keys without a sink

Weights are computed once per block, in the dtype of the run, and stay in the processor cache; sums are float64.
Every metric is a quotient of two sums over rows, without rows of padding, without an open key or with NaN.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import torch
from torch import Tensor

from attnviz.analysis.blocks import diagonal_sums
from attnviz.core import attention
from attnviz.core.record import Record, Step
from attnviz.core.scoring import ALL, Area

NEAR = 16
"""Largest distance, in tokens, at which a key is local."""
BLOCK = 2**20
"""Maximum number of weights in memory at once: 4 MB of float32."""
Sums = tuple[Tensor, Tensor]
"""Numerator and denominator of a metric in a block, both (B, H), float64."""


@dataclass(frozen=True, eq=False)
class Sides:
    """Tokens at the queries and keys of an attention call, for each text of a batch.

    Attributes:
        num_queries, num_keys: numbers of queries and keys that are not padding, (B,).
        queries, keys: token ids, (B, Q) and (B, K).
        ordinary: whether a query is not a special token, boolean, (B, Q).
        special: whether a key is a special token but not padding, boolean, (B, K).
    """

    num_queries: Tensor
    num_keys: Tensor
    queries: Tensor
    keys: Tensor
    ordinary: Tensor
    special: Tensor


@dataclass(frozen=True, eq=False)
class HeadBlock:
    """A block of an attention call: R rows with all heads and keys, for B texts of the batch.

    Attributes:
        texts, rows: slice of the batch, and slice of the queries.
        position: position of each row in its text, (R,).
        dtype: number type of the weights and of all numbers computed from them.
    """

    step: Step
    sides: Sides
    texts: slice
    rows: slice
    position: Tensor
    dtype: torch.dtype

    @cached_property
    def measured(self) -> Tensor:
        """Whether a row counts in metrics, boolean, (B, H, R): it is not padding, has an open key and no NaN."""
        return self.step.logsumexp[self.texts, :, self.rows].isfinite() & self.not_padding[:, None]

    @cached_property
    def not_padding(self) -> Tensor:
        """Whether a row is not padding, boolean, (B, R)."""
        return self.position < self.sides.num_queries[self.texts, None]

    @property
    def num_left_out(self) -> Tensor:
        """Number of rows, without padding, that are not measured: they have no open key, or contain NaN, (B, H)."""
        return (self.not_padding[:, None] & ~self.measured).sum(-1)

    @cached_property
    def num_keys(self) -> Tensor:
        """Number of keys that are not padding, (B,)."""
        return self.sides.num_keys[self.texts]

    @cached_property
    def same_tokens(self) -> bool:
        """Whether queries and keys are the same tokens, apart from a sink."""
        keys_without_sink = self.step.shape[3] - self.step.has_sink
        return self.step.site.kind != "cross" and self.step.shape[2] == keys_without_sink

    @cached_property
    def open(self) -> Tensor | None:
        """Mask of open cells, broadcasting to (B, H, R, K); None if all are open."""
        queries, keys = self.step.shape[2:]
        mask = attention.window(self.step.mask, self.rows, queries=queries, keys=keys)
        if mask is None:
            return None
        mask = Area(self.texts).of(mask)
        return None if mask.all() else mask

    @cached_property
    def open_keys(self) -> Tensor:
        """Number of keys that each row may attend to, with three axes that broadcast to (B, H, R)."""
        num_keys = self.step.shape[3]
        if self.open is None:
            return torch.tensor(float(num_keys)).expand(1, 1, 1)
        counts = self.open.expand(*self.open.shape[:-1], num_keys).sum(-1)
        return counts.view((1,) * (3 - counts.dim()) + counts.shape)  # with the missing axes

    @cached_property
    def scores(self) -> Tensor:
        """Scores before the mask, (B, H, R, K)."""
        return self.step.scoring.scores(self.step.query, self.step.key, Area(self.texts, ALL, self.rows))

    @cached_property
    def _weights_and_entropies(self) -> tuple[Tensor, Tensor]:
        """Weights, (B, H, R, K), 0 in rows that are not measured, and the entropy of each row, (B, H, R)."""
        is_unmeasured = ~self.measured[..., None]
        if self.step.linear:
            area = Area(self.texts, ALL, self.rows)
            weights = self.step.linear.weights(self.step.query, self.step.key, area).to(self.dtype)
            is_zero = is_unmeasured if self.open is None else is_unmeasured | ~self.open
            no_entropies = weights.new_full(weights.shape[:3], torch.nan)  # the weights are no distribution
            return weights.masked_fill(is_zero, 0), no_entropies
        huge = 2.0**100  # makes the weights of unmeasured rows 0
        logsumexp = self.step.logsumexp[self.texts, :, self.rows].masked_fill(~self.measured, huge)
        logarithms = attention.logarithms(self.scores, logsumexp)
        weights = logarithms.exp().to(self.dtype)
        if self.open is not None:
            weights.masked_fill_(~self.open, 0)
        if not self.measured.all():
            weights.masked_fill_(is_unmeasured, 0)
        if not self.step.scoring.is_linear:  # some logarithms may be -inf
            return weights, torch.special.entr(weights).sum(-1)
        minus_entropies = logarithms.to(self.dtype).mul_(weights).sum(-1)  # Σ w ln w, faster than entr
        return weights, minus_entropies.neg_().clamp_(min=0)

    @property
    def weights(self) -> Tensor:
        """Weights, (B, H, R, K); 0 in rows that are not measured."""
        return self._weights_and_entropies[0]

    @property
    def entropies(self) -> Tensor:
        """Entropy of each row in nats, (B, H, R)."""
        return self._weights_and_entropies[1]

    @cached_property
    def weights_without_sink(self) -> Tensor:
        """Weights without the column of an attention sink, each row divided by its new sum, (B, H, R, n)."""
        if not self.step.has_sink:
            return self.weights
        weights = self.weights[..., : self.step.shape[3] - 1]
        total = weights.sum(-1, keepdim=True)
        return weights / total.where(total > 0, 1)

    @cached_property
    def by_distance(self) -> Tensor:
        """Sum of the weights without a sink at each distance key - query, smallest first, (B, H, Q + n - 1)."""
        return self.diagonals(self.weights_without_sink)

    def diagonals(self, cells: Tensor) -> Tensor:
        """Sum the cells of this block, (..., R, n), at each distance key - query of the whole map, (..., Q + n - 1)."""
        *other_axes, rows, keys = cells.shape
        queries = self.step.shape[2]
        sums = cells.new_zeros(*other_axes, queries + keys - 1, dtype=torch.float64)
        first = queries - self.rows.start - rows  # index of the smallest distance in this block
        sums[..., first : first + keys + rows - 1] = diagonal_sums(cells)
        return sums

    @cached_property
    def weighted_sums(self) -> Tensor:
        """Weighted sums over the keys of value, norm of the value, and 1 for a special token, (B, H, R, d_v + 2)."""
        value = self.step.value[self.texts].to(self.dtype)
        special = self.sides.special[self.texts, None, :, None].to(self.dtype).expand(-1, value.shape[1], -1, -1)
        return self.weights @ torch.cat([value, value.norm(dim=-1, keepdim=True), special], -1)

    @cached_property
    def duplicates(self) -> tuple[Tensor, Tensor, Tensor]:
        """Indices (text, row, key) of all rows and other (in a decoder: earlier) keys with the same ordinary token."""
        keys, position = torch.arange(self.sides.keys.shape[1]), self.position[:, None]
        is_same = self.sides.queries[self.texts, self.rows, None] == self.sides.keys[self.texts, None]
        is_same &= keys < position if self.step.site.kind == "decoder" else keys != position
        is_same &= (keys < self.num_keys[:, None, None]) & self.sides.ordinary[self.texts, self.rows, None]
        return is_same.nonzero(as_tuple=True)

    def over_rows(self, values: Tensor, is_counted: Tensor | None = None) -> Sums:
        """Sum a number per row over the measured rows in which it is finite, and count these rows.

        Args:
            values: numbers, (B, H, R).
            is_counted: whether the metric counts a row, boolean, (B or 1, R); None to count every row.
        """
        is_summed = values.isfinite() & self.measured
        if is_counted is not None:
            is_summed &= is_counted[:, None]
        return values.where(is_summed, 0).sum(-1, dtype=torch.float64), is_summed.sum(-1).double()


def blocks(
    step: Step, sides: Sides, texts: range | None = None, *, heads: int = 0, dtype: torch.dtype | None = None
) -> Iterator[HeadBlock]:
    """Iterate over an attention call in blocks of about `BLOCK` weights: several texts, or some rows of one long text.

    Args:
        texts: indices in the batch; None for all.
        heads: number of heads that the caller has in memory at once; by default all heads of this call.
        dtype: number type for the computation; None for that of the run.
    """
    num_texts, num_heads, queries, keys = step.shape
    texts = range(num_texts) if texts is None else texts
    weights_per_row = (heads or num_heads) * max(1, keys)
    texts_at_once = max(1, BLOCK // (weights_per_row * max(1, queries)))
    rows_at_once = queries if texts_at_once > 1 else max(1, 2 * BLOCK // weights_per_row)
    dtype = dtype or torch.promote_types(step.query.dtype, torch.float32)
    for first in texts[::texts_at_once]:
        batch = slice(first, min(first + texts_at_once, texts.stop))
        for start in range(0, max(1, queries), rows_at_once):
            rows = slice(start, min(start + rows_at_once, queries))
            yield HeadBlock(step, sides, batch, rows, torch.arange(rows.start, rows.stop), dtype)


def sides_of(record: Record, step: Step) -> Sides:
    """Collect the tokens at the queries and keys of an attention call; calls of one kind and shape have the same."""
    num_queries, num_keys = torch.tensor([token_counts(record, step, b) for b in range(step.shape[0])]).T
    tokens_of_texts = [record.tokens(step.site, sentence=b) for b in range(step.shape[0])]
    ids, is_special = [], []  # of the queries, then of the keys
    for side in (0, 1):
        tokens = [texts[side] for texts in tokens_of_texts]
        ids.append(torch.tensor([[token.id for token in text] for text in tokens], dtype=torch.long))
        is_special.append(torch.tensor([[token.special for token in text] for text in tokens], dtype=torch.bool))
    ordinary, special = ~is_special[0], is_special[1] & is_token(step, num_keys)
    return Sides(num_queries, num_keys, ids[0], ids[1], ordinary, special)


def token_counts(record: Record, step: Step, sentence: int) -> tuple[int, int]:
    """Count the queries and keys of a text without padding and sink, but with cached keys, which have no tokens."""
    query_text, key_text = record.texts(step.site, sentence=sentence)
    query_padding, key_padding = (len(text.tokens) - text.length for text in (query_text, key_text))
    return step.shape[2] - query_padding, step.shape[3] - step.has_sink - key_padding


def is_token(step: Step, num_keys: Tensor) -> Tensor:
    """Whether a key is a token or a sink, not padding, (B, K); `num_keys`, (B,): number of tokens of each text."""
    positions = torch.arange(step.shape[3])
    is_sink = (positions == len(positions) - 1) & bool(step.has_sink)
    return (positions < num_keys[:, None]) | is_sink


def entropy(block: HeadBlock) -> Sums:
    """Metric: entropy of a row in nats."""
    return block.over_rows(block.entropies)


def effective_keys(block: HeadBlock) -> Sums:
    """Metric: e to the entropy of a row."""
    return block.over_rows(block.entropies.exp())


def evenness(block: HeadBlock) -> Sums:
    """Metric: sum of the entropies divided by the sum of their largest possible values, ln(number of open keys)."""
    largest = block.open_keys.clamp(min=1).double().log()
    entropies = block.entropies.masked_fill(~block.measured, 0)
    return entropies.sum(-1, dtype=torch.float64), (largest * block.measured).sum(-1)


def confidence(block: HeadBlock) -> Sums:
    """Metric: largest weight of a row."""
    return block.over_rows(block.weights.amax(-1))


def distance(block: HeadBlock) -> Sums:
    """Metric: mean distance |key - query| in tokens, weighted by the weights of a row without a sink."""
    return _weighted_distances(block, _distances(block))


def local(block: HeadBlock) -> Sums:
    """Metric: weight on keys at most `NEAR` tokens away, without a sink."""
    return _weighted_distances(block, _distances(block) <= NEAR)


def _distances(block: HeadBlock) -> Tensor:
    """Return |key - query| for each entry of `HeadBlock.by_distance`, (2 n - 1,); queries and keys are n tokens."""
    n = (block.by_distance.shape[-1] + 1) // 2
    return torch.arange(-n + 1, n).abs()


def _weighted_distances(block: HeadBlock, numbers: Tensor) -> Sums:
    """Sum weight times number over all cells without a sink, with one number per distance, and count the rows."""
    is_counted = block.measured
    if block.step.has_sink:  # a row may give all its weight to the sink
        is_counted = is_counted & (block.weights_without_sink.sum(-1) > 0)
    return block.by_distance @ numbers.double(), is_counted.sum(-1).double()


def _weight_at_offset(block: HeadBlock, offset: int) -> Sums:
    """Sum the weights on the key `offset` positions after the query, over the rows that have such a key."""
    diagonal, num_rows = block.rows.start + offset, len(block.position)
    weights = block.weights.diagonal(diagonal, -2, -1)  # (B, H, rows with such a key)
    first_row = min(max(0, -diagonal), num_rows)  # first row of the block with such a key
    rows_after = num_rows - first_row - weights.shape[-1]
    weights = torch.nn.functional.pad(weights, (first_row, rows_after))  # 0 for rows without such a key
    keys = block.position + offset
    return block.over_rows(weights, (keys >= 0) & (keys < block.num_keys[:, None]))


itself = partial(_weight_at_offset, offset=0)
"""Metric: weight on the query's own position."""
previous = partial(_weight_at_offset, offset=-1)
"""Metric: weight on the previous position."""
following = partial(_weight_at_offset, offset=1)
"""Metric: weight on the next position."""


def first(block: HeadBlock) -> Sums:
    """Metric: weight on the first key; in self-attention, row 0 is left out, because the first key is itself."""
    is_later = (block.position > 0)[None] if block.same_tokens else None
    return block.over_rows(block.weights[..., 0], is_later)


def special(block: HeadBlock) -> Sums:
    """Metric: weight on special tokens, in texts that have special tokens among the keys."""
    has_special = block.sides.special[block.texts].any(-1, keepdim=True)
    return block.over_rows(block.weighted_sums[..., -1], has_special)


def _weight_on_pairs(block: HeadBlock, text: Tensor, row: Tensor, key: Tensor) -> Sums:
    """Sum the weights of cells, given by their indices, (cells,) each, and count the measured rows with such a cell."""
    num_texts, num_heads, num_rows = block.measured.shape
    weights = block.weights[text, :, row, key].double()  # (cells, H)
    has_cell = torch.zeros(num_texts, num_rows, dtype=torch.bool)
    has_cell[text, row] = True
    counts = (block.measured & has_cell[:, None]).sum(-1).double()
    return weights.new_zeros(num_texts, num_heads).index_add(0, text, weights), counts


def duplicate(block: HeadBlock) -> Sums:
    """Metric: weight on other copies of the row's token; in a decoder, on earlier copies."""
    return _weight_on_pairs(block, *block.duplicates)


def induction(block: HeadBlock) -> Sums:
    """Metric: weight on the keys right after other copies of the row's token; in a decoder, after earlier copies."""
    text, row, key = block.duplicates
    inside = key + 1 < block.num_keys[text]
    return _weight_on_pairs(block, text[inside], row[inside], key[inside] + 1)


def value_weighted(block: HeadBlock) -> Sums:
    """Metric: Σ_j ‖w_ij v_j‖, the total length of the weighted value vectors of a row."""
    return block.over_rows(block.weighted_sums[..., block.step.value.shape[-1]])


def output_share(block: HeadBlock) -> Sums:
    """Metric: norm of a head's output divided by the sum over heads; only rows that are measured in all heads count."""
    step = block.step
    norms = block.weighted_sums[..., : step.value.shape[-1]].norm(dim=-1)
    if step.heads_off or step.off_alone:
        texts = range(*block.texts.indices(step.shape[0]))
        is_off = torch.tensor([[step.is_off(h, sentence=b) for h in range(step.num_heads)] for b in texts])
        norms = norms.masked_fill(is_off[:, :, None], 0)
    total = norms.sum(1)
    is_counted = (total > 0) & block.measured.all(1)
    return block.over_rows(norms / total.where(is_counted, 1)[:, None], is_counted)
