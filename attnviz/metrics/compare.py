"""Two maps beside each other: what moved, row by row and cell by cell, also between two sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property

import torch
from torch import Tensor

from attnviz.core.edits import Site
from attnviz.core.errors import InputError, ShapeError
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Token
from attnviz.metrics.batch import token_counts
from attnviz.metrics.combined import weights_of
from attnviz.metrics.stream import CellBlock, blocks

MOST_CELLS = 2**22
"""A comparison holds whole maps: of about 2,000 tokens at most."""


@dataclass(frozen=True)
class Alignment:
    """Which places of two token rows belong together; all places count from 0.

    Attributes:
        pairs: (place before, place after), in order; places of the same token, and those of `changed`.
        changed: pairs whose tokens differ, as many one after another in the one row as in the other.
        only_before, only_after: places that have no counterpart.
    """

    pairs: tuple[tuple[int, int], ...]
    changed: tuple[tuple[int, int], ...]
    only_before: tuple[int, ...]
    only_after: tuple[int, ...]

    @property
    def same(self) -> bool:
        """Whether the rows hold the same tokens."""
        return not (self.changed or self.only_before or self.only_after)


def align(before: Sequence[Token | str], after: Sequence[Token | str]) -> Alignment:
    """Which tokens of two rows belong together, by difflib: the same tokens in the same order, and what replaced them.

    A run of tokens that was replaced by as many others is paired in order, since each stands where the other stood;
    tokens that were put in, taken out, or replaced by fewer or more are left without a counterpart.
    """
    rows = [[token if isinstance(token, str) else token.text for token in row] for row in (before, after)]
    if rows[0] == rows[1]:
        return Alignment(tuple((i, i) for i in range(len(rows[0]))), (), (), ())
    pairs, changed, only_before, only_after = [], [], [], []
    for what, i, i_end, j, j_end in SequenceMatcher(None, *rows, autojunk=False).get_opcodes():
        if what != "equal" and i_end - i != j_end - j:
            only_before += range(i, i_end)
            only_after += range(j, j_end)
            continue
        together = list(zip(range(i, i_end), range(j, j_end), strict=True))
        pairs += together
        changed += together if what == "replace" else []
    return Alignment(*map(tuple, (pairs, changed, only_before, only_after)))


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two maps of the same shape, and how they differ.

    Padding, and tokens that have no counterpart, are not in the maps; what such keys (and a sink) hold of a row's
    weight counts as one more key for its variation and divergence.

    Attributes:
        before, after: weights, (rows, columns).
        queries, keys: how the rows and the columns of the one map belong to those of the other.
        variation: total variation of each row, (rows,): half the sum of the sizes of all differences, 0
            (alike) to 1 (apart).
        divergence: Jensen-Shannon divergence of each row in nats, (rows,): 0 (alike) to ln 2 (apart).
        counted: which rows are distributions in both maps, (rows,), as no row of "max" or "min" is; in the others the
            two are NaN.
    """

    before: Tensor
    after: Tensor
    queries: Alignment
    keys: Alignment
    variation: Tensor
    divergence: Tensor
    counted: Tensor

    @property
    def difference(self) -> Tensor:
        """after - before, (rows, columns), -1 to 1."""
        return self.after - self.before


@dataclass(frozen=True, eq=False)
class Side:
    """One of two maps: a head (or a name of `AGGREGATIONS`) at a site of a record, of one sentence of its batch."""

    record: Record
    site: Site
    head: int | str
    sentence: int = 0

    @cached_property
    def tokens(self) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        """Those of the queries and of the keys, without padding."""
        num_queries, num_keys = token_counts(self.record, self.record.step(self.site), self.sentence)
        queries, keys = self.record.tokens(self.site, sentence=self.sentence)
        return queries[:num_queries], keys[:num_keys]


def compare(a: Side, b: Side) -> Comparison:
    """One map beside another: other edits, sentences, models, layers or heads. Tokens of two sentences are aligned.

    Raises:
        InputError: if no two tokens belong together, or the maps are too large, with their sizes.
    """
    weights = [_weights(side) for side in (a, b)]
    queries, keys = (align(old, new) for old, new in zip(a.tokens, b.tokens, strict=True))
    if not (queries.pairs and keys.pairs):
        raise InputError("The two maps have no tokens that belong together, so they cannot be compared.")
    rows, columns = (torch.tensor(alignment.pairs).unbind(1) for alignment in (queries, keys))
    maps = [_part(*part) for part in zip(weights, rows, columns, strict=True)]
    counted = _are_distributions(weights[0])[rows[0]] & _are_distributions(weights[1])[rows[1]]
    variation = total_variation(*maps).where(counted, torch.nan)
    divergence = jensen_shannon(*maps).where(counted, torch.nan)
    count = len(columns[0])
    return Comparison(maps[0][:, :count], maps[1][:, :count], queries, keys, variation, divergence, counted)


def first_moved(before: Record, after: Record, *, sentence: int = 0, least: float = 0.0) -> tuple[Site, int] | None:
    """The first call of a run whose weights are others than before, and its head in which a weight moved most.

    Args:
        least: a weight that moved by no more stayed as it was.

    Returns:
        None if no weight of any call moved; head 0 of a call over other tokens, as where another text was written.
    """
    for step in after.steps:
        old, texts = before.step(step.site), [record.tokens(step.site, sentence=sentence) for record in (before, after)]
        if old.shape != step.shape or texts[0] != texts[1]:
            return step.site, 0
        moved = [_moved(old, step, head, sentence) for head in range(step.num_heads)]
        if max(moved) > least:
            return step.site, moved.index(max(moved))
    return None


def _moved(old: Step, new: Step, head: int, sentence: int) -> float:
    """The largest size of a difference of weights, NaN aside."""
    places = range(new.shape[2]), range(new.shape[3])
    both = (blocks(step, head, *places, sentence=sentence) for step in (old, new))
    sizes = (_apart(*pair) for pair in zip(*both, strict=True))
    return max(sizes, default=0.0)


def _apart(block_a: CellBlock, block_b: CellBlock) -> float:
    there = [block.weights for block in (block_a, block_b) if block.weights is not None]
    difference = torch.sub(*there) if len(there) == 2 else sum(there, torch.zeros(1))
    return float(difference.abs().nan_to_num().max())


def _weights(side: Side) -> Tensor:
    """The weights of a map, float64, (Q, K)."""
    step = side.record.step(side.site)
    if step.shape[2] * step.shape[3] > MOST_CELLS:
        size = " x ".join(f"{length:,}" for length in step.shape[2:])
        apart = f"A map of {size} is too large to compare with that of another text: at most {MOST_CELLS:,} cells."
        raise InputError(f"{apart} Compare another head, model or change on the same text, or shorten it.")
    return weights_of(step, side.head, sentence=side.sentence).double()


def _are_distributions(weights: Tensor) -> Tensor:
    """Which rows are, (Q,)."""
    return weights.isfinite().all(1) & ((weights.sum(1) - 1).abs() < 1e-3)


def _part(weights: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Some rows and columns, and one more column with what the others hold, 0 if there are none."""
    weights = weights[rows]
    part = weights[:, columns]
    left = torch.ones(weights.shape[1], dtype=torch.bool)
    left[columns] = False
    return torch.cat([part, weights[:, left].sum(1, keepdim=True)], 1)


def total_variation(a: Tensor, b: Tensor) -> Tensor:
    """½ Σ |p - q| over the last axis: 0 to 1 for distributions."""
    _same_shape(a, b)
    return (a - b).abs().sum(-1) / 2


def jensen_shannon(a: Tensor, b: Tensor) -> Tensor:
    """H((p + q) / 2) - (H(p) + H(q)) / 2 over the last axis, in nats: 0 to ln 2 for distributions.

    Source: Lin 1991, Divergence Measures Based on the Shannon Entropy.
    """
    _same_shape(a, b)
    entropy = torch.special.entr
    middle = entropy((a + b) / 2).sum(-1)
    return (middle - (entropy(a) + entropy(b)).sum(-1) / 2).clamp(min=0)


def _same_shape(a: Tensor, b: Tensor) -> None:
    if a.shape != b.shape:
        raise ShapeError(f"The maps differ in shape: {tuple(a.shape)} and {tuple(b.shape)}.")
