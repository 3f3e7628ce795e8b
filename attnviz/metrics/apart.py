"""How two maps over the same tokens differ, at any length: worked block by block, and never held whole."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnviz.core.record import Step
from attnviz.metrics.blocks import pool
from attnviz.metrics.combined import empty_queries
from attnviz.metrics.spread import row_sums
from attnviz.metrics.stream import CellBlock, blocks
from attnviz.metrics.tiles import Pooled, Tiles
from attnviz.metrics.windows import BLOCKED, EMPTY, NAN, WEIGHT

Map = tuple[Step, int | str, int]
"""An attention call, a head of it or a name of `AGGREGATIONS`, and a sentence of its batch."""


@dataclass(frozen=True, eq=False)
class Apart:
    """A window of two maps in tiles; arrays are (r, c).

    Attributes:
        maps: both, pooled.
        states: of the tiles of both: `WEIGHT` where a cell of a row of numbers is open, else `EMPTY`, `NAN`, `BLOCKED`.
        difference: the cell of a tile in which A has more than B, or less, by the most, with its sign, float64.
        at_query, at_key: where that cell stands.
        variation: total variation of each row, (rows,), float64; every key outside of the window counts as one of them.
    """

    maps: tuple[Pooled, Pooled]
    states: tuple[np.ndarray, np.ndarray]
    difference: np.ndarray
    at_query: np.ndarray
    at_key: np.ndarray
    variation: np.ndarray


def apart(a: Map, b: Map, rows: range, columns: range, tile: int) -> Apart:
    """Compare a window of two maps whose queries and keys are the same tokens."""
    kinds = (torch.float32, torch.float32, torch.float64, torch.float64)
    tiles_a, tiles_b, more, less = (Tiles(rows, columns, tile, kind) for kind in kinds)
    sums = torch.zeros(3, len(rows), dtype=torch.float64)  # of |A - B|, of A, of B
    each = (blocks(step, head, rows, columns, tile, sentence=sentence) for step, head, sentence in (a, b))
    for in_a, in_b in zip(*each, strict=True):
        tiles_a.add(in_a)
        tiles_b.add(in_b)
        if in_a.weights is None and in_b.weights is None:
            continue
        weights = [_weights(block) for block in (in_a, in_b)]
        difference = weights[0] - weights[1]
        span = slice(in_a.down.start, in_a.down.start + len(in_a.down.places))
        for total, cells in zip(sums, (difference.abs(), *weights), strict=True):
            total[span] += cells.sum(1)
        difference = difference.nan_to_num(nan=0.0)
        for tiles, signed in ((more, difference), (less, -difference)):
            tiles.add(CellBlock(in_a.down, in_a.across, False, signed.clamp(min=0)))
    maps, ends = (tiles_a.pooled(), tiles_b.pooled()), (more.pooled(), less.pooled())
    down = ends[1].largest > ends[0].largest
    picked = [np.where(down, ends[1].__dict__[name], ends[0].__dict__[name]) for name in ("at_query", "at_key")]
    signed = np.where(down, -ends[1].largest, ends[0].largest)
    variation = _variation(a, b, rows, sums, whole=len(columns) == a[0].shape[3])
    states = tuple(_states(*side, tiles, rows) for side, tiles in zip((a, b), maps, strict=True))
    return Apart(maps, states, signed, *picked, variation.numpy())


def _weights(block: CellBlock) -> Tensor:
    """The weights of a block, float64."""
    if block.weights is None:
        return torch.zeros(len(block.down.places), len(block.across.places), dtype=torch.float64)
    return block.weights.double()


def _variation(a: Map, b: Map, rows: range, sums: Tensor, *, whole: bool) -> Tensor:
    """Half of what differs in each row, with what stands outside of the window; NaN where one is no distribution."""
    span = slice(rows.start, rows.stop)
    each = () if whole else (a, b)
    totals = [row_sums(step, head, sentence=sentence, rows=span).double() for step, head, sentence in each] or sums[1:]
    outside = (totals[1] - sums[2]) - (totals[0] - sums[1])
    sums_to_1 = torch.stack([total.isfinite() & ((total - 1).abs() < 1e-3) for total in totals]).all(0)
    return ((sums[0] + outside.abs()) / 2).where(sums_to_1, torch.nan)


def _states(step: Step, head: int | str, sentence: int, tiles: Pooled, rows: range) -> np.ndarray:
    span = slice(rows.start, rows.stop)
    empty = empty_queries(step, head, sentence=sentence)[span]
    sums = step.logsumexp[sentence, head, span] if isinstance(head, int) else step.logsumexp[sentence, :, span].sum(0)
    any_of = [
        pool(rows_of.float()[:, None], tiles.tile, across=1).numpy() > 0
        for rows_of in (~empty & ~sums.isnan(), empty, sums.isnan())
    ]
    cases = [any_of[0] & (tiles.open > 0), any_of[1].repeat(tiles.open.shape[1], 1), any_of[2] & (tiles.open > 0)]
    return np.select(cases, (WEIGHT, EMPTY, NAN), BLOCKED)
