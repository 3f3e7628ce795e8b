"""A window of one head, or of all combined: its weights, scores, states and rules, cell by cell or pooled."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from attnviz.analysis.blocks import pool, tile_of
from attnviz.analysis.combined import empty_queries, reasons_of, weights_of
from attnviz.analysis.tiles import Pooled, largest_of, pooled
from attnviz.core.edits import Site
from attnviz.core.masks import Mask
from attnviz.core.record import ALL, Record, Step

WEIGHT, BLOCKED, NAN, EMPTY = range(4)
"""States of a cell, in the order of `STATES`."""

STATES = ("weight", "blocked", "nan", "empty row")


@dataclass(frozen=True, eq=False)
class Cells:
    """A window of one head, or of all combined, ready to be drawn or written down; arrays are (rows, columns).

    Where `tile` is above 1 each entry stands for a square of `tile` x `tile` cells: its weight is the
    largest of theirs, and it is blocked only where every one of them is.

    Attributes:
        queries, keys: positions of the rows and columns; of tiles, the first.
        weights: as the record gives them.
        scores: before the mask; None where heads are combined or cells pooled or merged, or scores not known.
        states: `WEIGHT`, `BLOCKED`, `NAN` or `EMPTY` (the row has no key left; its weights follow the policy).
        reasons: the distinct rules that block cells here.
        blocked: 0 = may attend, i = blocked by reasons[i - 1].
        tile: cells per side of an entry.
        tiles: of tiles, what else is known: where the largest weight stands, and the sum; of one head alone.
    """

    queries: np.ndarray
    keys: np.ndarray
    weights: np.ndarray
    scores: np.ndarray | None
    states: np.ndarray
    reasons: tuple[str, ...]
    blocked: np.ndarray
    tile: int = 1
    tiles: Pooled | None = None


def cells(step: Step, head: int | str, **window: Any) -> Cells:
    """`cells_of` one head."""
    return cells_of(step, [head], **window)[0]


def cells_of(
    step: Step,
    heads: Sequence[int | str],
    *,
    sentence: int = 0,
    rows: slice = ALL,
    columns: slice = ALL,
    tile: int = 1,
    scores: bool = True,
) -> list[Cells]:
    """The weights, scores, states and rules of a window of several heads; what they share is computed once.

    With a `tile` above 1 they are pooled to the largest of each tile. `scores` is whether the step's are the model's
    own; of a record that is read only they are not. Pooling goes through blocks of rows: memory grows with the tokens,
    not with their square.
    """
    window = {"sentence": sentence, "rows": rows, "columns": columns}
    one_mask = step.mask is None or isinstance(step.mask, Mask)
    shared = reasons_of(step, 0, _every(rows, tile), _every(columns, tile), sentence=sentence) if one_mask else None
    if tile == 1:
        return [_cells(step, head, shared, **window, scored=scores) for head in heads]
    if len(heads) == 1 or any(isinstance(head, str) for head in heads):
        maps = [pooled(step, head, **window, tile=tile) for head in heads]
        return [
            replace(_tiles(step, [head], shared, tiles, **window)[0], tiles=tiles)
            for head, tiles in zip(heads, maps, strict=True)
        ]
    return _tiles(step, heads, shared, largest_of(step, heads, **window, tile=tile), **window)


def _cells(step: Step, head: int | str, rules, *, sentence: int, rows: slice, columns: slice, scored: bool) -> Cells:
    weights = weights_of(step, head, rows, columns, sentence=sentence)
    reasons, blocked = rules or reasons_of(step, head, rows, columns, sentence=sentence)
    states = torch.where(weights.isnan(), NAN, torch.where(blocked > 0, BLOCKED, WEIGHT))
    states[empty_queries(step, head, sentence=sentence)[rows]] = EMPTY
    scores = step.scores(head, rows, columns, sentence=sentence).numpy() if scored and isinstance(head, int) else None
    places = np.arange(step.shape[2])[rows], np.arange(step.shape[3])[columns]
    return Cells(*places, weights.numpy(), scores, states.numpy(), reasons, blocked.numpy())


def _tiles(
    step: Step, heads: Sequence[int | str], shared, tiles: Pooled, *, sentence: int, rows: slice, columns: slice
) -> list[Cells]:
    """A tile whose every cell is blocked is named by the rule that blocks its first."""
    tile = tiles.tile
    window = _every(rows, tile), _every(columns, tile)
    rules = [shared] if shared else [reasons_of(step, head, *window, sentence=sentence) for head in heads]
    blocked = np.stack([codes for _, codes in rules]) * (tiles.open == 0)
    empty = torch.stack([empty_queries(step, head, sentence=sentence)[rows] for head in heads], 1)
    states = np.where(np.isnan(tiles.largest), NAN, np.where(blocked > 0, BLOCKED, WEIGHT))
    states[(pool(empty.float(), tile, "min", across=1).T > 0).numpy()] = EMPTY
    arrays = np.broadcast_to(tiles.largest, states.shape), states, np.broadcast_to(blocked, states.shape)
    reasons = [names for names, _ in rules] * (len(heads) // len(rules))
    return [
        Cells(tiles.queries, tiles.keys, weights, None, of_head, names, codes, tile)
        for weights, of_head, codes, names in zip(*arrays, reasons, strict=True)
    ]


def _every(window: slice, tile: int) -> slice:
    """Each `tile`-th position of a slice."""
    return slice(window.start, window.stop, (window.step or 1) * tile)


def largest_weight(record: Record, site: Site, *, sentence: int = 0) -> float:
    """The largest weight of all heads of a site, NaN aside: what the "shared" color domain ends at."""
    step = record.step(site)
    each = cells_of(step, range(step.num_heads), sentence=sentence, tile=tile_of(step, 128))
    return max((float(np.nan_to_num(window.weights).max()) for window in each if window.weights.size), default=0.0)
