"""A map whose tokens are seen in groups, such as words or sentences: exact, block by block, and never held whole."""

from collections.abc import Iterable

import numpy as np
import torch

from attnviz.analysis.stream import CellBlock
from attnviz.core.masks import Mask

Spans = tuple[np.ndarray, np.ndarray]
"""The first position of each group and the one after its last, in the order of the text; no group is empty."""


def stretch(spans: Spans) -> range:
    """The positions from the first group to the last."""
    return range(int(spans[0][0]), int(spans[1][-1]))


def grouped(blocks: Iterable[CellBlock], queries: Spans, keys: Spans) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the weights between groups, float64, and whether any query of the one may attend to any key of the
    other; both (queries, keys).

    Args:
        blocks: those of `stream.blocks`, or of `stream.openings`, of the `stretch` of both.
    """
    numbers = [_groups(spans) for spans in (queries, keys)]
    shape = len(queries[0]), len(keys[0])
    sums, is_open = np.zeros(shape), np.zeros(shape, bool)
    for block in blocks:
        (rows, i), (columns, j) = (
            _runs(of[part.start : part.start + len(part.places)])
            for of, part in zip(numbers, (block.down, block.across), strict=True)
        )
        groups, positions = np.ix_(i[i >= 0], j[j >= 0]), np.ix_(i >= 0, j >= 0)
        if block.weights is not None:
            of_keys = np.add.reduceat(block.weights.numpy(), columns, 1)
            sums[groups] += np.add.reduceat(of_keys.astype(np.float64), rows, 0)[positions]
        if isinstance(block.open, torch.Tensor):
            of_keys = np.logical_or.reduceat(block.open.numpy(), columns, 1)
            is_open[groups] |= np.logical_or.reduceat(of_keys, rows, 0)[positions]
        else:
            is_open[groups] |= block.open
    return sums, is_open


def _groups(spans: Spans) -> np.ndarray:
    """The group of each position of a stretch; -1 for none."""
    places = stretch(spans)
    numbers = np.full(len(places), -1)
    for i, (start, stop) in enumerate(zip(*(ends - places.start for ends in spans), strict=True)):
        numbers[start:stop] = i
    return numbers


def _runs(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Start of each run of the same number, and that number."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-2))
    return starts, numbers[starts]


def first_reasons(
    mask: Mask | torch.Tensor, lengths: tuple[int, int], queries: Spans, keys: Spans, *, sentence: int = 0
) -> tuple[tuple[str, ...], np.ndarray]:
    """`Step.reasons` of the first query of each group for the first key of each, as if none of them were open."""
    if isinstance(mask, torch.Tensor):
        return ("the model's mask",), np.ones((len(queries[0]), len(keys[0])), np.int64)
    firsts = {"rows": torch.from_numpy(queries[0]), "columns": torch.from_numpy(keys[0])}
    reasons, codes = mask.reasons(*lengths, sentence=sentence, **firsts)
    return reasons, codes.numpy()
