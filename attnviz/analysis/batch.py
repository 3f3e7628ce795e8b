"""Metrics of all heads of an attention call, from its weights in blocks of rows, for one text or a whole batch.

    B texts   H heads   R queries of a block   K keys

Weights are computed once per block, in the dtype of the run, and stay in the processor cache; sums are float64.
Every metric is a quotient of two sums over rows, without rows of padding, without an open key or with NaN.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

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
        typed: whether a query is an ordinary token, not a special one, boolean, (B, Q).
        special: whether a key is a special token but not padding, boolean, (B, K).
    """

    num_queries: Tensor
    num_keys: Tensor
    queries: Tensor
    keys: Tensor
    typed: Tensor
    special: Tensor


@dataclass(frozen=True, eq=False)
class HeadBlock:
    """A block of rows of all heads of an attention call, for some texts of the batch.

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
    def counted(self) -> Tensor:
        """Whether a row is measured, (B, H, R): it is not padding, and its weights are a distribution."""
        return self.step.logsumexp[self.texts, :, self.rows].isfinite() & self.real[:, None]

    @cached_property
    def real(self) -> Tensor:
        """Whether a row is not padding, (B, R)."""
        return self.position < self.sides.num_queries[self.texts, None]

    @property
    def left_out(self) -> Tensor:
        """Number of rows without an open key or with NaN, (B, H)."""
        return (self.real[:, None] & ~self.counted).sum(-1)

    @cached_property
    def num_keys(self) -> Tensor:
        """Number of keys that are not padding, (B,)."""
        return self.sides.num_keys[self.texts]

    @cached_property
    def one_text(self) -> bool:
        """Whether queries and keys are the same tokens, apart from a sink."""
        keys = self.step.shape[3] - self.step.has_sink
        return self.step.site.kind != "cross" and self.step.shape[2] == keys

    @cached_property
    def open(self) -> Tensor | None:
        """Mask of open cells, broadcasting to (B, H, R, K); None if all are open."""
        queries, keys = self.step.shape[2:]
        mask = attention.window(self.step.mask, self.rows, queries=queries, keys=keys)
        mask = None if mask is None else Area(self.texts).of(mask)
        return None if mask is None or mask.all() else mask

    @cached_property
    def open_keys(self) -> Tensor:
        """Number of keys that each row may attend to, broadcasting to (B, H, R)."""
        if self.open is None:
            return torch.tensor(float(self.step.shape[3])).expand(1, 1, 1)
        counts = self.open.expand(*self.open.shape[:-1], self.step.shape[3]).sum(-1)
        return counts.view((1,) * (3 - counts.dim()) + counts.shape)

    @cached_property
    def scores(self) -> Tensor:
        """Scores before the mask, (B, H, R, K)."""
        return self.step.scoring.scores(self.step.query, self.step.key, Area(self.texts, ALL, self.rows))

    @cached_property
    def _weights_and_entropies(self) -> tuple[Tensor, Tensor]:
        """Weights, (B, H, R, K), 0 in rows that are not measured, and the entropy of each row, (B, H, R)."""
        if self.step.linear:  # weights that are no distribution have no entropy
            area = Area(self.texts, ALL, self.rows)
            weights = self.step.linear.weights(self.step.query, self.step.key, area).to(self.dtype)
            hidden = ~self.counted[..., None] if self.open is None else ~(self.counted[..., None] & self.open)
            return weights.masked_fill(hidden, 0), weights.new_full(weights.shape[:3], torch.nan)
        # this large log-sum-exp makes all weights of an unmeasured row 0
        sums = self.step.logsumexp[self.texts, :, self.rows].masked_fill(~self.counted, 2.0**100)
        logarithms = attention.logarithms(self.scores, sums)
        weights = logarithms.exp().to(self.dtype)
        weights = weights if self.open is None else weights.masked_fill_(~self.open, 0)
        if not self.counted.all():
            weights.masked_fill_(~self.counted[..., None], 0)
        if self.step.scoring.is_linear:
            return weights, logarithms.to(self.dtype).mul_(weights).sum(-1).neg_().clamp_(min=0)
        return weights, torch.special.entr(weights).sum(-1)  # a bias may be -inf

    @property
    def weights(self) -> Tensor:
        """Weights, (B, H, R, K); 0 in rows that are not measured."""
        return self._weights_and_entropies[0]

    @property
    def entropies(self) -> Tensor:
        """Entropy of each row in nats, (B, H, R)."""
        return self._weights_and_entropies[1]

    @cached_property
    def on_tokens(self) -> Tensor:
        """Weights without the column of an attention sink, each row divided by its new sum, (B, H, R, n)."""
        if not self.step.has_sink:
            return self.weights
        weights = self.weights[..., : self.step.shape[3] - 1]
        total = weights.sum(-1, keepdim=True)
        return weights / total.where(total > 0, 1)

    @cached_property
    def by_distance(self) -> Tensor:
        """Sum of the weights (without a sink) at each distance key - query, smallest first, (B, H, Q + n - 1)."""
        return self.diagonals(self.on_tokens)

    def diagonals(self, cells: Tensor) -> Tensor:
        """Sum cells, (..., R, n), at each distance key - query of the whole map, (..., Q + n - 1), float64."""
        *many, rows, keys = cells.shape
        sums = cells.new_zeros(*many, self.step.shape[2] + keys - 1, dtype=torch.float64)
        first = self.step.shape[2] - self.rows.start - rows
        sums[..., first : first + keys + rows - 1] = diagonal_sums(cells)
        return sums

    @cached_property
    def taken(self) -> Tensor:
        """Head output (d_v numbers), weighted sum of value norms, and weight on special tokens, (B, H, R, d_v + 2)."""
        value = self.step.value[self.texts].to(self.dtype)
        special = self.sides.special[self.texts, None, :, None].to(self.dtype).expand(-1, value.shape[1], -1, -1)
        return self.weights @ torch.cat([value, value.norm(dim=-1, keepdim=True), special], -1)

    @cached_property
    def twins(self) -> tuple[Tensor, Tensor, Tensor]:
        """Indices (text, row, key) of pairs of a row and another key (in a decoder: earlier) with the same token."""
        keys = torch.arange(self.sides.keys.shape[1])
        is_same = self.sides.queries[self.texts, self.rows, None] == self.sides.keys[self.texts, None]
        is_other = keys < self.position[:, None] if self.step.site.kind == "decoder" else keys != self.position[:, None]
        is_same &= is_other & (keys < self.num_keys[:, None, None]) & self.sides.typed[self.texts, self.rows, None]
        return is_same.nonzero(as_tuple=True)

    def over_rows(self, values: Tensor, where: Tensor | None = None) -> Sums:
        """Sum a number per row over the measured rows in which it is finite, and count these rows.

        Args:
            values: numbers, (B, H, R).
            where: whether the metric counts a row, boolean, (B or 1, R); None to count every row.
        """
        counted = values.isfinite() & self.counted
        counted = counted if where is None else counted & where[:, None]
        return values.where(counted, 0).sum(-1, dtype=torch.float64), counted.sum(-1).double()


def blocks(
    step: Step, sides: Sides, texts: range | None = None, *, heads: int = 0, dtype: torch.dtype | None = None
) -> Iterator[HeadBlock]:
    """Iterate over an attention call in blocks of about `BLOCK` weights: several texts, or some rows of one long text.

    Args:
        texts: indices in the batch; None for all.
        heads: number of heads that the caller has in memory at once; by default all heads of this call.
        dtype: number type for the computation; None for that of the run.
    """
    count, num_heads, queries, keys = step.shape
    weights_of_row, texts = (heads or num_heads) * max(1, keys), texts or range(count)
    texts_at_once = max(1, BLOCK // (weights_of_row * max(1, queries)))
    rows_at_once = queries if texts_at_once > 1 else max(1, 2 * BLOCK // weights_of_row)
    dtype = dtype or torch.promote_types(step.query.dtype, torch.float32)
    for first in texts[::texts_at_once]:
        batch = slice(first, min(first + texts_at_once, texts.stop))
        for start in range(0, max(1, queries), rows_at_once):
            rows = slice(start, min(start + rows_at_once, queries))
            yield HeadBlock(step, sides, batch, rows, torch.arange(rows.start, rows.stop), dtype)


def sides_of(record: Record, step: Step) -> Sides:
    """Collect the tokens at the queries and keys of an attention call; calls of one kind and shape share them."""
    texts = [record.tokens(step.site, sentence=b) for b in range(step.shape[0])]  # (queries, keys) of each text
    num_queries, num_keys = torch.tensor([token_counts(record, step, b) for b in range(len(texts))]).T
    ids = [torch.tensor([[token.id for token in text[i]] for text in texts], dtype=torch.long) for i in (0, 1)]
    special = [torch.tensor([[token.special for token in text[i]] for text in texts], dtype=torch.bool) for i in (0, 1)]
    return Sides(num_queries, num_keys, *ids, ~special[0], special[1] & is_token(step, num_keys))


def token_counts(record: Record, step: Step, sentence: int) -> tuple[int, int]:
    """Count the queries and the keys that are not padding: tokens, and positions without a token, such as cached keys.

    A sink is not counted.
    """
    query_text, key_text = record.texts(step.site, sentence=sentence)
    queries, keys = step.shape[2], step.shape[3] - step.has_sink
    return queries - (len(query_text.tokens) - query_text.length), keys - (len(key_text.tokens) - key_text.length)


def is_token(step: Step, num_keys: Tensor) -> Tensor:
    """Whether a key is a token or a sink, not padding, (B, K); `num_keys` is the number of tokens per text."""
    positions = torch.arange(step.shape[3])
    return (positions < num_keys[:, None]) | ((positions == len(positions) - 1) & bool(step.has_sink))


def entropy(block: HeadBlock) -> Sums:
    """Metric: entropy of a row in nats."""
    return block.over_rows(block.entropies)


def effective_keys(block: HeadBlock) -> Sums:
    """Metric: e to the entropy of a row."""
    return block.over_rows(block.entropies.exp())


def evenness(block: HeadBlock) -> Sums:
    """Metric: entropy divided by its largest possible value, log(open keys); 0 / 0 for a row with one open key."""
    largest = block.open_keys.clamp(min=1).double().log()
    numbers = block.entropies.masked_fill(~block.counted, 0)
    return numbers.sum(-1, dtype=torch.float64), (largest * block.counted).sum(-1)


def confidence(block: HeadBlock) -> Sums:
    """Metric: largest weight of a row."""
    return block.over_rows(block.weights.amax(-1))


def distance(block: HeadBlock) -> Sums:
    """Metric: mean distance |key - query|, with the weights of a row; a sink has no position and is left out."""
    return _weighted_distances(block, lambda distances: distances)


def local(block: HeadBlock) -> Sums:
    """Metric: weight on keys at most `NEAR` tokens away, without a sink."""
    return _weighted_distances(block, lambda distances: distances <= NEAR)


def _weighted_distances(block: HeadBlock, function: Callable[[Tensor], Tensor]) -> Sums:
    """Sum weight times `function(|key - query|)` over the cells without a sink, and count the rows."""
    counted, n = block.counted, (block.by_distance.shape[-1] + 1) // 2
    if block.step.has_sink:  # a row may give all its weight to the sink
        counted = counted & (block.on_tokens.sum(-1) > 0)
    return block.by_distance @ function(torch.arange(-n + 1, n).abs()).double(), counted.sum(-1).double()


def _weight_at_offset(block: HeadBlock, offset: int) -> Sums:
    """Sum the weights on the key `offset` positions after the query, over the rows that have such a key."""
    diagonal, rows = block.rows.start + offset, len(block.position)
    values = block.weights.diagonal(diagonal, -2, -1)
    before = min(max(0, -diagonal), rows)  # rows at the top of the block without such a key
    values = torch.nn.functional.pad(values, (before, rows - before - values.shape[-1]))
    keys = block.position + offset
    return block.over_rows(values, (keys >= 0) & (keys < block.num_keys[:, None]))


def itself(block: HeadBlock) -> Sums:
    """Metric: weight on the query's own position."""
    return _weight_at_offset(block, 0)


def previous(block: HeadBlock) -> Sums:
    """Metric: weight on the previous position."""
    return _weight_at_offset(block, -1)


def following(block: HeadBlock) -> Sums:
    """Metric: weight on the next position."""
    return _weight_at_offset(block, 1)


def first(block: HeadBlock) -> Sums:
    """Metric: weight on the first key; in self-attention, row 0 is left out, because the first key is its position."""
    return block.over_rows(block.weights[..., 0], (block.position > 0)[None] if block.one_text else None)


def special(block: HeadBlock) -> Sums:
    """Metric: weight on special tokens, in texts that have special tokens among the keys."""
    return block.over_rows(block.taken[..., -1], block.sides.special[block.texts].any(-1, keepdim=True))


def _weight_on_pairs(block: HeadBlock, text: Tensor, row: Tensor, key: Tensor) -> Sums:
    """Sum the weights of (text, row, key) triples, given as three index tensors, and count their measured rows."""
    shape = block.counted.shape
    weights = block.weights[text, :, row, key].double()
    has_pair = torch.zeros(shape[0], shape[2], dtype=torch.bool)
    has_pair[text, row] = True
    counts = (block.counted & has_pair[:, None]).sum(-1).double()
    return weights.new_zeros(shape[:2]).index_add(0, text, weights), counts


def duplicate(block: HeadBlock) -> Sums:
    """Metric: weight on other copies of the row's token; in a decoder, on earlier copies."""
    return _weight_on_pairs(block, *block.twins)


def induction(block: HeadBlock) -> Sums:
    """Metric: weight on the keys right after other copies of the row's token; in a decoder, after earlier copies."""
    text, row, key = block.twins
    inside = key + 1 < block.num_keys[text]
    return _weight_on_pairs(block, text[inside], row[inside], key[inside] + 1)


def value_weighted(block: HeadBlock) -> Sums:
    """Metric: Σ_j ‖w_ij v_j‖, the total length of the weighted value vectors of a row."""
    return block.over_rows(block.taken[..., block.step.value.shape[-1]])


def output_share(block: HeadBlock) -> Sums:
    """Metric: norm of a head's output divided by the sum over heads; only rows that are measured in all heads count."""
    step = block.step
    norms = block.taken[..., : step.value.shape[-1]].norm(dim=-1)
    if step.heads_off or step.off_alone:
        texts = range(*block.texts.indices(step.shape[0]))
        off = torch.tensor([[step.is_off(h, sentence=b) for h in range(step.num_heads)] for b in texts])
        norms = norms.masked_fill(off[:, :, None], 0)
    total = norms.sum(1)
    where = (total > 0) & block.counted.all(1)
    return block.over_rows(norms / total.where(where, 1)[:, None], where)
