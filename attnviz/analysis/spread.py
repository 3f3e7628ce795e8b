"""Attention of a head in a long text by distance: exact, block by block."""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
import torch

from attnviz.analysis.blocks import blocks, diagonal_sums
from attnviz.core.record import Step


@dataclass(frozen=True, eq=False)
class ByDistance:
    """Weights of a head by distance from query to key. A row of NaN makes all its distances NaN.

    Attributes:
        distances: key - query, all that occur, in increasing order; 0 is the query itself.
        sums: sum of the weights of all pairs at that distance, float64.
        pairs: number of open pairs.
    """

    distances: np.ndarray
    sums: np.ndarray
    pairs: np.ndarray

    def within(self, most: int) -> float:
        """Share of all attention on keys at most `most` tokens before or after the query; NaN without attention."""
        with np.errstate(invalid="ignore"):
            return float(self.sums[abs(self.distances) <= most].sum() / self.sums.sum())

    def curve(self) -> pd.DataFrame:
        """Table of bins that double in size: nearest, furthest, share of the attention, pairs, mean weight of a pair.

        The bins are 0, 1, 2 to 3, 4 to 7, ..., negative for keys before the query. The mean is NaN in bins without an
        open pair, even if empty rows were given weights there.
        """
        size = np.floor(np.log2(np.maximum(abs(self.distances), 0.5))).astype(int) + 1
        bins = np.sign(self.distances) * size
        parts = np.split(np.arange(len(bins)), np.flatnonzero(np.diff(bins)) + 1)  # bins are in increasing order
        bin_sums = [(self.distances[i], self.sums[i].sum(), self.pairs[i].sum()) for i in parts]
        ends = [sorted((int(part[0]), int(part[-1])), key=abs) for part, _, _ in bin_sums]
        sums, pairs = (np.array([row[i] for row in bin_sums]) for i in (1, 2))
        columns = {"nearest": [nearest for nearest, _ in ends], "furthest": [furthest for _, furthest in ends]}
        mean = np.divide(sums, pairs, out=np.full(len(sums), np.nan), where=pairs > 0)
        with np.errstate(invalid="ignore"):
            return pd.DataFrame(columns | {"share": sums / self.sums.sum(), "pairs": pairs, "mean": mean})


def by_distance(step: Step, head: int | str, *, sentence: int = 0) -> ByDistance:
    """Sum the attention of a head by distance; weight on a sink has no distance and is left out."""
    name, curve = _cache.get(step, (None, None))
    if name == (head, sentence):
        return curve
    queries, keys = range(step.shape[2]), range(step.shape[3] - step.has_sink)
    sums = torch.zeros(len(queries) + len(keys) - 1, dtype=torch.float64)
    pairs = torch.zeros(len(sums), dtype=torch.int64)
    for block in blocks(step, head, queries, keys, sentence=sentence):
        high, wide = len(block.down.places), len(block.across.places)
        first = block.across.start - block.down.places[-1] + queries[-1]
        diagonals = slice(first, first + high + wide - 1)
        if block.open is not False:
            open_cells = torch.ones(high, wide, dtype=torch.int64) if block.open is True else block.open.long()
            pairs[diagonals] += diagonal_sums(open_cells)
        if block.weights is not None:
            sums[diagonals] += diagonal_sums(block.weights.double())
    curve = ByDistance(np.arange(len(sums)) - queries[-1], sums.numpy(), pairs.numpy())
    _cache[step] = (head, sentence), curve
    return curve


_cache: WeakKeyDictionary[Step, tuple[tuple[int | str, int], ByDistance]] = WeakKeyDictionary()
"""Cached result of the last call for each step, with its head and sentence: 24 bytes per distance."""
