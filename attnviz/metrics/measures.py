"""What is measured in a block of rows, for all heads of a step at once. Every measure is a quotient of two sums.

    n tokens   H heads   R rows of the block   K keys   w weights   s scores   v values   t the number of a token

Rows of padding, rows with no key left and rows that are no numbers are in neither sum. Everything is float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attnviz.core.record import Record, Step
from attnviz.metrics.blocks import row_slices
from attnviz.metrics.combined import heads_that_differ


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some rows of all heads of a step.

    Attributes:
        looks, seen: how many queries and keys are not padding.
        queries, keys: the numbers of the tokens, (Q,) and (K,).
        special: which keys are special tokens, (K,).
        rows: which, as a slice; `position` is where each stands, (R,).
    """

    step: Step
    sentence: int
    looks: int
    seen: int
    queries: Tensor
    keys: Tensor
    special: Tensor
    rows: slice
    position: Tensor

    @property
    def heads(self) -> range:
        return range(self.step.num_heads)

    @cached_property
    def _weights(self) -> Tensor:
        return torch.stack([self.step.weights(h, self.rows, sentence=self.sentence) for h in self.heads]).double()

    @cached_property
    def counted(self) -> Tensor:
        """Which rows are measured, (H, R)."""
        sums = self.step.logsumexp[self.sentence, :, self.rows]
        return sums.isfinite() & self._weights.isfinite().all(-1) & (self.position < self.looks)

    @cached_property
    def entropies(self) -> Tensor:
        """-Σ w ln w of each row, (H, R), in nats; of a weight of 0 it is 0."""
        return torch.special.entr(self.weights).sum(-1)

    @property
    def left_out(self) -> Tensor:
        """How many rows of tokens are not measured, of each head, (H,)."""
        return ((self.position < self.looks) & ~self.counted).sum(1)

    @cached_property
    def weights(self) -> Tensor:
        """(H, R, K); 0 in rows that are not measured."""
        return self._weights.masked_fill(~self.counted.unsqueeze(-1), 0)

    @cached_property
    def one_text(self) -> bool:
        """Whether rows and columns are positions of the same tokens: a query has a place among the keys."""
        return self.step.site.kind != "cross" and len(self.queries) == len(self.keys) - self.step.has_sink

    @cached_property
    def scores(self) -> tuple[Tensor, Tensor]:
        """The scores of the rows and, at the same places, of the same pairs the other way round, both (H, R, n)."""
        of, by = slice(self.seen), self.rows
        there = [self.step.scores(h, by, of, sentence=self.sentence) for h in self.heads]
        back = [self.step.scores(h, of, by, sentence=self.sentence).T for h in self.heads]
        return torch.stack(there).double(), torch.stack(back).double()

    @cached_property
    def value_norms(self) -> Tensor:
        """The length of each value, (H, K)."""
        return self.step.value[self.sentence].double().norm(dim=-1)

    @cached_property
    def output_norms(self) -> Tensor:
        """The length of what each head hands on, (H, R)."""
        norms = (self.weights @ self.step.value[self.sentence].double()).norm(dim=-1)
        off = torch.tensor([self.step.is_off(head, sentence=self.sentence) for head in self.heads])
        return norms.masked_fill(off[:, None], 0)

    @cached_property
    def same(self) -> Tensor:
        """Which keys hold the row's token, typed and not the row itself, (R, K); of a decoder, earlier ones."""
        alike = self.queries[self.rows, None] == self.keys
        at = torch.arange(len(self.keys))
        there = at < self.position[:, None] if self.step.site.kind == "decoder" else at != self.position[:, None]
        return alike & there & (at < self.seen) & ~self._special_rows[:, None]

    @property
    def _special_rows(self) -> Tensor:
        return self.special[: len(self.queries)][self.rows]

    def mean(self, values: Tensor, where: Tensor | None = None) -> "Sums":
        """The mean of (H, R) values over the measured rows, those of them that are True in (R,); finite ones alone."""
        counted = self.counted & values.isfinite() & (True if where is None else where)
        return values.masked_fill(~counted, 0).sum(1), counted.sum(1).double()


Sums = tuple[Tensor, Tensor]
"""Numerator and denominator of a measure in a block, both (H,)."""


def blocks(record: Record, step: Step, *, sentence: int, heads: int | None = None) -> list[RowBlock]:
    """A step in blocks of rows whose weights, of all its heads or of so many, are bounded in number."""
    looks, seen = record.tokens(step.site, sentence=sentence)
    lengths = token_counts(record, step, sentence)
    queries, keys = (torch.tensor([token.id for token in tokens], dtype=torch.long) for tokens in (looks, seen))
    special = torch.tensor([token.special for token in seen], dtype=torch.bool)
    slices = row_slices(step.shape[2], step.shape[3] * (heads or step.num_heads))
    at = torch.arange(step.shape[2])
    return [RowBlock(step, sentence, *lengths, queries, keys, special, rows, at[rows]) for rows in slices]


def token_counts(record: Record, step: Step, sentence: int) -> tuple[int, int]:
    """How many queries and keys stand for tokens; a position that the sentence does not know is one of its own."""
    looks = (record.sentences if step.site.kind == "encoder" else record.read)[sentence]
    seen = (record.read if step.site.kind == "decoder" else record.sentences)[sentence]
    queries, keys = step.shape[2], step.shape[3] - step.has_sink
    return queries - (len(looks.tokens) - looks.length), keys - (len(seen.tokens) - seen.length)


def entropy(block: RowBlock) -> Sums:
    return block.mean(block.entropies)


def effective_keys(block: RowBlock) -> Sums:
    return block.mean(block.entropies.exp())


def evenness(block: RowBlock) -> Sums:
    """Of rows that may attend to more than one key; a row of one key can only be pointed."""
    step, at = block.step, {"sentence": block.sentence}
    open_keys = [step.may_attend(h, block.rows, **at).sum(-1) for h in heads_that_differ(step, "mean")]
    widest = torch.stack(open_keys).clamp(min=1).double().log().expand(len(block.heads), -1)
    return block.mean(block.entropies)[0], widest.masked_fill(~block.counted, 0).sum(1)


def confidence(block: RowBlock) -> Sums:
    return block.mean(block.weights.amax(-1))


NEAR = 16
"""Tokens up to which a key is local."""


def distance(block: RowBlock) -> Sums:
    """Of the weight on tokens: what a sink takes stands nowhere."""
    return _on_tokens(block, lambda far: far)


def local(block: RowBlock) -> Sums:
    return _on_tokens(block, lambda far: far <= NEAR)


def _on_tokens(block: RowBlock, of: Callable[[Tensor], Tensor]) -> Sums:
    """The mean over the weight on tokens of something of their distance."""
    weights = block.weights[..., : len(block.queries)]
    far = of((block.position[:, None] - torch.arange(len(block.queries))).abs()).double()
    counted = block.counted & (weights.sum(-1) > 0)
    means = (weights * far).sum(-1) / weights.sum(-1).where(counted, 1)
    return means.masked_fill(~counted, 0).sum(1), counted.sum(1).double()


def _at(block: RowBlock, by: int) -> Sums:
    """The weight on the key so many places after the row, where there is a token."""
    at = block.position + by
    inside = (at >= 0) & (at < block.seen)
    column = at.clamp(0, len(block.keys) - 1).expand(len(block.heads), -1).unsqueeze(-1)
    return block.mean(block.weights.gather(-1, column).squeeze(-1), inside)


def itself(block: RowBlock) -> Sums:
    return _at(block, 0)


def previous(block: RowBlock) -> Sums:
    return _at(block, -1)


def following(block: RowBlock) -> Sums:
    return _at(block, 1)


def first(block: RowBlock) -> Sums:
    """In one text the first row is left out: it would look at itself."""
    return block.mean(block.weights[..., 0], block.position > 0 if block.one_text else None)


def special(block: RowBlock) -> Sums:
    """Measured only where there is a special token among the keys that are not padding."""
    at = torch.arange(len(block.keys))
    among = block.special & ((at < block.seen) | (block.step.has_sink & (at == len(at) - 1)))
    return block.mean((block.weights * among).sum(-1), among.any())


def duplicate(block: RowBlock) -> Sums:
    return block.mean((block.weights * block.same).sum(-1), block.same.any(-1))


def induction(block: RowBlock) -> Sums:
    """The keys right after those that hold the row's token."""
    after = torch.zeros_like(block.same)
    after[:, 1:] = block.same[:, :-1]
    after &= torch.arange(len(block.keys)) < block.seen
    return block.mean((block.weights * after).sum(-1), after.any(-1))


def asymmetry(block: RowBlock) -> Sums:
    """Over all pairs of tokens with a finite score either way, masked or not."""
    there, back = block.scores
    pairs = there.isfinite() & back.isfinite() & (block.position < block.looks)[:, None]
    there, back = there.where(pairs, 0), back.where(pairs, 0)
    return (there - back).square().sum((1, 2)), 4 * there.square().sum((1, 2))


def value_weighted(block: RowBlock) -> Sums:
    """Σ_j ‖w_ij v_j‖ of each row: how long all that a query takes would be, end to end."""
    return block.mean(torch.einsum("hrk,hk->hr", block.weights, block.value_norms))


def output_share(block: RowBlock) -> Sums:
    """Over the rows that are measured in every head, so that the heads of a site share 1."""
    total = block.output_norms.sum(0)
    where = (total > 0) & block.counted.all(0)
    return block.mean(block.output_norms / total.where(where, 1), where)
