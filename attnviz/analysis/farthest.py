"""The heads that look least like one on the same text."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attnviz.analysis import batch
from attnviz.core.edits import Site
from attnviz.core.errors import InputError, ShapeError
from attnviz.core.record import Record, Step

Head = tuple[Site, int]


def jensen_shannon(a: Tensor, b: Tensor) -> Tensor:
    """H((p + q) / 2) - (H(p) + H(q)) / 2 over the last axis, in nats: 0 to ln 2 for distributions.

    Source: Lin 1991, Divergence Measures Based on the Shannon Entropy.
    """
    if a.shape != b.shape:
        raise ShapeError(f"The maps differ in shape: {tuple(a.shape)} and {tuple(b.shape)}.")
    entropy = torch.special.entr
    middle = entropy((a + b) / 2).sum(-1)
    return (middle - (entropy(a) + entropy(b)).sum(-1) / 2).clamp(min=0)


def farthest(
    record: Record, site: Site, head: int, *, sentence: int = 0, count: int = 3
) -> list[tuple[Site, int, float]]:
    """The heads of its kind that look least like one, farthest first, each with its Jensen-Shannon divergence in nats.

    The divergence is the mean over the rows that both heads have, 0 (the same weights) to ln 2 (no key in common);
    heads that share no row are left out. Time grows with the number of heads, not with that of their pairs.

    Raises:
        InputError: if there is no such head.
    """
    steps = [step for step in record.steps if step.site.kind == site.kind]
    heads = tuple((step.site, number) for step in steps for number in range(step.num_heads))
    index = _place(heads, site, head)
    sums, counts = torch.zeros(2, len(heads), dtype=torch.float64)
    for weights, counted in _together(record, steps, sentence, len(heads)):
        for i in range(len(heads)):
            both = counted[i] & counted[index]
            sums[i] += (jensen_shannon(weights[i], weights[index]) * both).sum()
            counts[i] += both.sum()
    means = (sums / counts.clamp(min=1)).tolist()
    others = [(*heads[i], means[i]) for i in range(len(heads)) if i != index and counts[i]]
    return sorted(others, key=lambda other: other[2], reverse=True)[:count]


def _place(heads: tuple[Head, ...], site: Site, head: int) -> int:
    """The place of a head among those that are compared."""
    if (site, head) not in heads:
        raise InputError(f"{site.head(head).capitalize()} is not among the {len(heads)} heads that were compared.")
    return heads.index((site, head))


def _together(record: Record, steps: Sequence[Step], sentence: int, heads: int):
    """The weights of all heads, (N, R, K), and which rows count, (N, R), block by block."""
    options = {"texts": range(sentence, sentence + 1), "heads": 2 * heads, "dtype": torch.float64}  # each held twice
    each = [batch.blocks(step, batch.sides_of(record, step), **options) for step in steps]
    for blocks in zip(*each, strict=True):
        yield torch.cat([block.weights[0] for block in blocks]), torch.cat([block.counted[0] for block in blocks])
