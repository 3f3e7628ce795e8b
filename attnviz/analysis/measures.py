"""Measures of a block of rows, for all its heads and texts at once. Every measure is a quotient of two sums.

    B texts   H heads   R rows of the block   K keys   n tokens

Rows of padding, rows with no key left and rows that are no numbers are in neither sum.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from attnviz.analysis.batch import HeadBlock, RowMeasure, Sums

NEAR = 16
"""Tokens up to which a key is local."""


def entropy(block: HeadBlock) -> RowMeasure:
    return RowMeasure(block.entropies)


def effective_keys(block: HeadBlock) -> RowMeasure:
    return RowMeasure(block.entropies.exp())


def evenness(block: HeadBlock) -> Sums:
    """Rows that may attend to one key alone are left out: such a row can only be pointed."""
    widest = block.open_keys.clamp(min=1).double().log()
    numbers = block.entropies.masked_fill(~block.counted, 0)
    return numbers.sum(-1, dtype=torch.float64), (widest * block.counted).sum(-1)


def confidence(block: HeadBlock) -> RowMeasure:
    return RowMeasure(block.largest)


def distance(block: HeadBlock) -> Sums:
    """Mean over the weight on tokens: a sink has no position."""
    return _on_tokens(block, lambda far: far)


def local(block: HeadBlock) -> Sums:
    return _on_tokens(block, lambda far: far <= NEAR)


def _on_tokens(block: HeadBlock, of: Callable[[Tensor], Tensor]) -> Sums:
    """The mean over the weight on tokens of something of their distance."""
    counted, n = block.counted, (block.by_distance.shape[-1] + 1) // 2
    if block.step.has_sink:
        counted = counted & (block.on_tokens.sum(-1) > 0)
    return block.by_distance @ of(torch.arange(-n + 1, n).abs()).double(), counted.sum(-1).double()


def _at_offset(block: HeadBlock, by: int) -> RowMeasure:
    """The weight on the key so many places after the row, where there is a token."""
    offset, rows = block.rows.start + by, len(block.position)
    values = block.weights.diagonal(offset, -2, -1)
    before = min(max(0, -offset), rows)
    values = torch.nn.functional.pad(values, (before, rows - before - values.shape[-1]))
    places = block.position + by
    return RowMeasure(values, (places >= 0) & (places < block.num_keys[:, None]))


def itself(block: HeadBlock) -> RowMeasure:
    return _at_offset(block, 0)


def previous(block: HeadBlock) -> RowMeasure:
    return _at_offset(block, -1)


def following(block: HeadBlock) -> RowMeasure:
    return _at_offset(block, 1)


def first(block: HeadBlock) -> RowMeasure:
    """In one text the first row is left out: it would look at itself."""
    return RowMeasure(block.weights[..., 0], (block.position > 0)[None] if block.one_text else None)


def special(block: HeadBlock) -> RowMeasure:
    """Measured only where there is a special token among the keys that are not padding."""
    return RowMeasure(block.on_columns[..., 0], (block.sides.columns[block.texts, :, 0] > 0).any(-1, keepdim=True))


def _on_pairs(block: HeadBlock, text: Tensor, row: Tensor, key: Tensor) -> Sums:
    """The weights of the rows on some keys each, over the rows that have one."""
    shape = block.counted.shape
    weights = block.weights[text, :, row, key].double()
    has = torch.zeros(shape[0], shape[2], dtype=torch.bool)
    has[text, row] = True
    return weights.new_zeros(shape[:2]).index_add(0, text, weights), (block.counted & has[:, None]).sum(-1).double()


def duplicate(block: HeadBlock) -> Sums:
    return _on_pairs(block, *block.twins)


def induction(block: HeadBlock) -> Sums:
    """The keys right after those that hold the row's token."""
    text, row, key = block.twins
    inside = key + 1 < block.num_keys[text]
    return _on_pairs(block, text[inside], row[inside], key[inside] + 1)


def asymmetry(block: HeadBlock) -> Sums:
    """Over all pairs of tokens with a finite score either way, masked or not."""
    n, is_square = block.step.shape[2], len(block.position) == block.step.shape[2]
    there = block.scores[..., :n].to(block.dtype)
    pairs = block.real[:, None, :, None] & (torch.arange(n) < block.num_keys[:, None])[:, None, None]
    if not pairs.all():
        there = there.where(pairs, 0)
    back = there if is_square else block.scores_of(slice(n), block.rows).to(block.dtype)
    back = back.mT if is_square or pairs.all() else back.mT.where(pairs, 0)
    sums = _lengths(there, back)
    if sums[0].isfinite().all():
        return sums
    finite = there.isfinite() & back.isfinite()
    return _lengths(there.where(finite, 0), back.where(finite, 0))


def _lengths(there: Tensor, back: Tensor) -> Sums:
    apart, length = (torch.linalg.vector_norm(x, dim=(-2, -1)).double().square() for x in (there - back, there))
    return apart, 4 * length


def value_weighted(block: HeadBlock) -> RowMeasure:
    """Σ_j ‖w_ij v_j‖ of each row: how long all that a query takes would be, end to end."""
    return RowMeasure(block.taken[..., block.step.value.shape[-1]])


def output_share(block: HeadBlock) -> RowMeasure:
    """Over the rows that are measured in every head, so that the heads of a site share 1."""
    step = block.step
    norms = block.taken[..., : step.value.shape[-1]].norm(dim=-1)
    if step.heads_off or step.off_alone:
        texts = range(*block.texts.indices(step.shape[0]))
        off = torch.tensor([[step.is_off(h, sentence=b) for h in range(step.num_heads)] for b in texts])
        norms = norms.masked_fill(off[:, :, None], 0)
    total = norms.sum(1)
    where = (total > 0) & block.counted.all(1)
    return RowMeasure(norms / total.where(where, 1)[:, None], where)
