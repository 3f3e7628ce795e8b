"""Attention weights of all heads of a step in blocks of rows, for one text or a whole batch, and their metrics.

    B texts   H heads   R queries of a block   K keys   w weights   s scores

Weights are computed once per block, in the dtype of the run, and stay in the processor cache; sums are float64.
Every metric is a quotient of two sums, without rows that are padding, have no open key or contain NaN.
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
"""Most weights in memory at once: 4 MB of float32."""

Sums = tuple[Tensor, Tensor]
"""Numerator and denominator of a metric in a block, both (B, H), float64."""


@dataclass(frozen=True, eq=False)
class Sides:
    """Tokens at the queries and keys of a kind of site, for each text of a batch.

    Attributes:
        num_queries, num_keys: numbers of queries and keys that are not padding, (B,).
        queries, keys: token ids, (B, Q) and (B, K).
        typed: whether a query is an ordinary token, not a special one, (B, Q).
        special: which keys are special tokens and no padding, boolean, (B, K).
    """

    num_queries: Tensor
    num_keys: Tensor
    queries: Tensor
    keys: Tensor
    typed: Tensor
    special: Tensor


@dataclass(frozen=True, eq=False)
class HeadBlock:
    """Some rows of all heads of a step, for some texts of the batch.

    Attributes:
        texts, rows, position: slices of the batch and of the queries, and position of each row in its text, (R,).
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
        """Number of rows that are neither padding nor measured, (B, H)."""
        return (self.real[:, None] & ~self.counted).sum(-1)

    @cached_property
    def num_keys(self) -> Tensor:
        return self.sides.num_keys[self.texts]

    @cached_property
    def one_text(self) -> bool:
        """Whether queries and keys are the same tokens."""
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
        """Weights without the sink, summed by distance key - query, smallest first, (B, H, Q + n - 1), float64."""
        return self.diagonals(self.on_tokens)

    def diagonals(self, cells: Tensor) -> Tensor:
        """Sum (..., R, n) numbers at each distance key - query, (..., Q + n - 1), float64."""
        *many, rows, keys = cells.shape
        sums = cells.new_zeros(*many, self.step.shape[2] + keys - 1, dtype=torch.float64)
        first = self.step.shape[2] - self.rows.start - rows
        sums[..., first : first + keys + rows - 1] = diagonal_sums(cells)
        return sums

    @cached_property
    def taken(self) -> Tensor:
        """Head outputs, weighted sums of value norms, weights on special tokens, concatenated: (B, H, R, d_v + 2)."""
        value = self.step.value[self.texts].to(self.dtype)
        special = self.sides.special[self.texts, None, :, None].to(self.dtype).expand(-1, value.shape[1], -1, -1)
        return self.weights @ torch.cat([value, value.norm(dim=-1, keepdim=True), special], -1)

    @cached_property
    def twins(self) -> tuple[Tensor, Tensor, Tensor]:
        """Indices (text, row, key) of each typed row and another key with its token; in a decoder, an earlier key."""
        keys = torch.arange(self.sides.keys.shape[1])
        alike = self.sides.queries[self.texts, self.rows, None] == self.sides.keys[self.texts, None]
        there = keys < self.position[:, None] if self.step.site.kind == "decoder" else keys != self.position[:, None]
        alike &= there & (keys < self.num_keys[:, None, None]) & self.sides.typed[self.texts, self.rows, None]
        return alike.nonzero(as_tuple=True)

    def over_rows(self, values: Tensor, where: Tensor | None = None) -> Sums:
        """Sum a number per row, (B, H, R), over the measured rows with a finite number, and count these rows.

        Args:
            where: rows that also satisfy a condition of the metric, (B or 1, R); None for no condition.
        """
        counted = values.isfinite() & self.counted
        counted = counted if where is None else counted & where[:, None]
        return values.where(counted, 0).sum(-1, dtype=torch.float64), counted.sum(-1).double()


def blocks(
    step: Step, sides: Sides, texts: range | None = None, *, heads: int = 0, dtype: torch.dtype | None = None
) -> Iterator[HeadBlock]:
    """Iterate over a step in blocks of at most about `BLOCK` weights: whole texts, or some rows of one long text.

    Args:
        texts: indices in the batch; None for all.
        heads: number of heads that the caller has in memory at once; by default all heads of this step.
        dtype: number type for the computation; None for that of the run.
    """
    count, own, queries, keys = step.shape
    cells, texts = (heads or own) * max(1, keys), texts or range(count)
    at_once = max(1, BLOCK // (cells * max(1, queries)))
    rows = queries if at_once > 1 else max(1, 2 * BLOCK // cells)
    dtype = dtype or torch.promote_types(step.query.dtype, torch.float32)
    for first in texts[::at_once]:
        for start in range(0, max(1, queries), rows):
            part = slice(start, min(start + rows, queries))
            some = slice(first, min(first + at_once, texts.stop))
            yield HeadBlock(step, sides, some, part, torch.arange(part.start, part.stop), dtype)


def sides_of(record: Record, step: Step) -> Sides:
    """Tokens at the queries and keys of a site; they are the same for all sites of its kind and shape."""
    ends = [record.tokens(step.site, sentence=b) for b in range(step.shape[0])]
    num_queries, num_keys = torch.tensor([token_counts(record, step, b) for b in range(len(ends))]).T
    queries, keys = (torch.tensor([[token.id for token in both[i]] for both in ends], dtype=torch.long) for i in (0, 1))
    special = [torch.tensor([[token.special for token in both[i]] for both in ends], dtype=torch.bool) for i in (0, 1)]
    return Sides(num_queries, num_keys, queries, keys, ~special[0], special[1] & is_token(step, num_keys))


def token_counts(record: Record, step: Step, sentence: int) -> tuple[int, int]:
    """Number of queries and keys that are not padding; positions that are not in the text count, too."""
    query_text, key_text = record.texts(step.site, sentence=sentence)
    queries, keys = step.shape[2], step.shape[3] - step.has_sink
    return queries - (len(query_text.tokens) - query_text.length), keys - (len(key_text.tokens) - key_text.length)


def is_token(step: Step, num_keys: Tensor) -> Tensor:
    """Whether a key is not padding, (B, K), given the number of such keys per text; a sink counts as not padding."""
    positions = torch.arange(step.shape[3])
    return (positions < num_keys[:, None]) | ((positions == len(positions) - 1) & bool(step.has_sink))


def entropy(block: HeadBlock) -> Sums:
    return block.over_rows(block.entropies)


def effective_keys(block: HeadBlock) -> Sums:
    return block.over_rows(block.entropies.exp())


def evenness(block: HeadBlock) -> Sums:
    """Entropy over the logarithm of the open keys; a row with one open key adds 0 to both sums."""
    widest = block.open_keys.clamp(min=1).double().log()
    numbers = block.entropies.masked_fill(~block.counted, 0)
    return numbers.sum(-1, dtype=torch.float64), (widest * block.counted).sum(-1)


def confidence(block: HeadBlock) -> Sums:
    return block.over_rows(block.weights.amax(-1))


def distance(block: HeadBlock) -> Sums:
    """Mean distance from query to key, over the weight on tokens; a sink has no position."""
    return _mean_of_distance(block, lambda far: far)


def local(block: HeadBlock) -> Sums:
    return _mean_of_distance(block, lambda far: far <= NEAR)


def _mean_of_distance(block: HeadBlock, of: Callable[[Tensor], Tensor]) -> Sums:
    """Mean of a function of the distance |key - query|, over the weight on tokens."""
    counted, n = block.counted, (block.by_distance.shape[-1] + 1) // 2
    if block.step.has_sink:
        counted = counted & (block.on_tokens.sum(-1) > 0)
    return block.by_distance @ of(torch.arange(-n + 1, n).abs()).double(), counted.sum(-1).double()


def _weight_at_offset(block: HeadBlock, by: int) -> Sums:
    """Weight on the key `by` positions after the query, in rows that have such a key."""
    offset, rows = block.rows.start + by, len(block.position)
    values = block.weights.diagonal(offset, -2, -1)
    before = min(max(0, -offset), rows)
    values = torch.nn.functional.pad(values, (before, rows - before - values.shape[-1]))
    places = block.position + by
    return block.over_rows(values, (places >= 0) & (places < block.num_keys[:, None]))


def itself(block: HeadBlock) -> Sums:
    return _weight_at_offset(block, 0)


def previous(block: HeadBlock) -> Sums:
    return _weight_at_offset(block, -1)


def following(block: HeadBlock) -> Sums:
    return _weight_at_offset(block, 1)


def first(block: HeadBlock) -> Sums:
    """Weight on the first key; queries and keys of the same text leave out row 0, which can only attend to itself."""
    return block.over_rows(block.weights[..., 0], (block.position > 0)[None] if block.one_text else None)


def special(block: HeadBlock) -> Sums:
    """Weight on special tokens, in texts that have special tokens among the keys."""
    return block.over_rows(block.taken[..., -1], block.sides.special[block.texts].any(-1, keepdim=True))


def _weight_on_pairs(block: HeadBlock, text: Tensor, row: Tensor, key: Tensor) -> Sums:
    """Total weight on the given (text, row, key) triples, and the number of measured rows among these."""
    shape = block.counted.shape
    weights = block.weights[text, :, row, key].double()
    has = torch.zeros(shape[0], shape[2], dtype=torch.bool)
    has[text, row] = True
    return weights.new_zeros(shape[:2]).index_add(0, text, weights), (block.counted & has[:, None]).sum(-1).double()


def duplicate(block: HeadBlock) -> Sums:
    return _weight_on_pairs(block, *block.twins)


def induction(block: HeadBlock) -> Sums:
    """Weight on the keys right after other copies of the row's token; in a decoder, after earlier copies."""
    text, row, key = block.twins
    inside = key + 1 < block.num_keys[text]
    return _weight_on_pairs(block, text[inside], row[inside], key[inside] + 1)


def value_weighted(block: HeadBlock) -> Sums:
    """Σ_j ‖w_ij v_j‖ per row: the total length of the weighted value vectors."""
    return block.over_rows(block.taken[..., block.step.value.shape[-1]])


def output_share(block: HeadBlock) -> Sums:
    """Share of a head in the output norms of all heads, over rows measured in every head, so that shares sum to 1."""
    step = block.step
    norms = block.taken[..., : step.value.shape[-1]].norm(dim=-1)
    if step.heads_off or step.off_alone:
        texts = range(*block.texts.indices(step.shape[0]))
        off = torch.tensor([[step.is_off(h, sentence=b) for h in range(step.num_heads)] for b in texts])
        norms = norms.masked_fill(off[:, :, None], 0)
    total = norms.sum(1)
    where = (total > 0) & block.counted.all(1)
    return block.over_rows(norms / total.where(where, 1)[:, None], where)
