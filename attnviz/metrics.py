"""Numbers read off records. Everything here is exact; what would need n x n numbers is worked in row blocks."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from attnviz.core.edits import Site
from attnviz.core.errors import InputError, ShapeError
from attnviz.core.masks import Mask
from attnviz.core.record import ALL, Record, Step

AGGREGATIONS = ("mean", "max", "min")
"""Ways to see all heads of a step as one."""

BLOCK = 2**21
"""How many cells are held at once (8 MB of float32)."""

WEIGHT, BLOCKED, NAN, EMPTY = range(4)
"""States of a cell, in the order of `STATES`."""

STATES = ("weight", "blocked", "nan", "empty row")


def combined_weights(step: Step, how: str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """The weights of all heads as one, (rows, columns): their mean, or the largest or smallest of each cell."""
    if how not in AGGREGATIONS:
        raise InputError(f"Heads cannot be combined by {how!r}; there are {', '.join(AGGREGATIONS)}.")
    together = step.weights(0, rows, columns, sentence=sentence)
    for head in range(1, step.num_heads):
        weights = step.weights(head, rows, columns, sentence=sentence)
        join = {"mean": torch.add, "max": torch.maximum, "min": torch.minimum}[how]
        together = join(together, weights)
    return together / step.num_heads if how == "mean" else together


def weights_of(step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0) -> Tensor:
    """The weights of one head, or of all heads combined by a name of `AGGREGATIONS`."""
    if isinstance(head, str):
        return combined_weights(step, head, rows, columns, sentence=sentence)
    return step.weights(head, rows, columns, sentence=sentence)


@dataclass(frozen=True, eq=False)
class Cells:
    """A window of one head, or of all combined, ready to be drawn or written down; arrays are (rows, columns).

    Where `tile` is above 1 each entry stands for a square of `tile` x `tile` cells: its weight is the largest (or the
    sum) of theirs, and it is blocked only where every one of them is.

    Attributes:
        queries, keys: positions of the rows and columns; of tiles, the first.
        weights: as the record gives them.
        scores: before the mask; None where heads are combined or cells pooled.
        states: `WEIGHT`, `BLOCKED`, `NAN` or `EMPTY` (the row has no key left; its weights follow the policy).
        reasons: the distinct rules that block cells here.
        blocked: 0 = may attend, i = blocked by reasons[i - 1].
        tile: cells per side of an entry.
    """

    queries: np.ndarray
    keys: np.ndarray
    weights: np.ndarray
    scores: np.ndarray | None
    states: np.ndarray
    reasons: tuple[str, ...]
    blocked: np.ndarray
    tile: int = 1


def cells(
    step: Step,
    head: int | str,
    *,
    sentence: int = 0,
    rows: slice = ALL,
    columns: slice = ALL,
    tile: int = 1,
    how: str = "max",
) -> Cells:
    """The weights, scores, states and rules of a window; with a `tile` above 1, pooled by "max" or "sum".

    Pooling goes through blocks of rows: memory grows with the tokens, not with their square.
    """
    queries, keys = np.arange(step.shape[2])[rows], np.arange(step.shape[3])[columns]
    if tile == 1:
        return _cells(step, head, sentence, rows, columns, queries, keys)
    if how not in ("max", "sum"):
        raise InputError(f"Cells cannot be pooled by {how!r}; there are max, sum.")
    height = max(1, BLOCK // max(1, len(keys)) // tile) * tile
    names: dict[str, int] = {}
    parts = [
        _pooled(_cells(step, head, sentence, _slice(part), columns, part, keys), tile, how, names)
        for part in (queries[start : start + height] for start in range(0, len(queries), height))
    ]
    weights, states, blocked = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Cells(queries[::tile], keys[::tile], weights, None, states, tuple(names), blocked, tile)


def _cells(
    step: Step, head: int | str, sentence: int, rows: slice, columns: slice, queries: np.ndarray, keys: np.ndarray
) -> Cells:
    weights = weights_of(step, head, rows, columns, sentence=sentence)
    reasons, blocked = reasons_of(step, head, rows, columns, sentence=sentence)
    states = torch.where(weights.isnan(), NAN, torch.where(blocked > 0, BLOCKED, WEIGHT))
    states[empty_queries(step, head, sentence=sentence)[rows]] = EMPTY
    scores = None if isinstance(head, str) else step.scores(head, rows, columns, sentence=sentence).numpy()
    return Cells(queries, keys, weights.numpy(), scores, states.numpy(), reasons, blocked.numpy())


def _pooled(found: Cells, tile: int, how: str, names: dict[str, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights, states and numbers of rules of tiles; `names` collects the rules of all blocks."""
    numbers = np.array([0, *(names.setdefault(reason, len(names) + 1) for reason in found.reasons)])
    weights = pool(torch.from_numpy(found.weights), tile, how)
    blocked = pool(torch.from_numpy(numbers[found.blocked]).float(), tile, "min").long()
    empty = pool(torch.from_numpy(found.states == EMPTY).float(), tile, "min") > 0
    states = torch.where(weights.isnan(), NAN, torch.where(blocked > 0, BLOCKED, WEIGHT)).masked_fill(empty, EMPTY)
    return weights.numpy(), states.numpy(), blocked.numpy()


def _slice(positions: np.ndarray) -> slice:
    """The slice that picks evenly spaced positions, which are not empty."""
    stride = int(positions[1] - positions[0]) if len(positions) > 1 else 1
    return slice(int(positions[0]), int(positions[-1]) + 1, stride)


def reasons_of(
    step: Step, head: int | str, rows: slice = ALL, columns: slice = ALL, *, sentence: int = 0
) -> tuple[tuple[str, ...], Tensor]:
    """`Step.reasons` for one head; of combined heads a cell counts as blocked where every head blocks it."""
    if step.mask is None or isinstance(step.mask, Mask):
        return step.reasons(rows, columns, sentence=sentence)
    heads = range(step.num_heads) if isinstance(head, str) else (head,)
    if step.mask.dim() < 4 or step.mask.shape[1] == 1:
        heads = heads[:1]
    open_cells = torch.stack([step.may_attend(h, rows, columns, sentence=sentence) for h in heads]).any(0)
    return ("the model's mask",), (~open_cells).long()


def empty_queries(step: Step, head: int | str, *, sentence: int = 0) -> Tensor:
    """Which queries have no key left, boolean, (Q,); of combined heads, those that no head can answer."""
    heads = range(step.num_heads) if isinstance(head, str) else (head,)
    return torch.stack([step.empty_queries(h, sentence=sentence) for h in heads]).all(0)


def tile_of(step: Step, size: int) -> int:
    """How many cells a tile is wide and high, so that `size` tiles cover both axes."""
    return max(1, -(-max(step.shape[2:]) // size))


def pooled(step: Step, head: int | str, size: int, sentence: int = 0, how: str = "max") -> Tensor:
    """The weights on at most `size` x `size` square tiles, the "max" or "sum" of their cells; never n x n at once."""
    return torch.from_numpy(cells(step, head, sentence=sentence, tile=tile_of(step, size), how=how).weights)


def pool(block: Tensor, tile: int, how: str) -> Tensor:
    """(n, m) -> (ceil(n / tile), ceil(m / tile)); the last tiles may hold fewer cells."""
    if tile == 1:
        return block
    fill = {"max": -torch.inf, "min": torch.inf, "sum": 0.0}[how]
    n, m = block.shape
    padded = torch.nn.functional.pad(block, (0, -m % tile, 0, -n % tile), value=fill)
    grid = padded.unflatten(0, (-1, tile)).unflatten(-1, (-1, tile))
    return {"max": grid.amax, "min": grid.amin, "sum": grid.sum}[how]((1, 3))


def largest_weight(record: Record, site: Site, *, sentence: int = 0) -> float:
    """The largest weight of all heads of a site, NaN aside: what the "shared" color domain ends at."""
    step = record.step(site)
    blocks = (step.weights(h, rows, sentence=sentence) for h in range(step.num_heads) for rows in _row_blocks(step))
    return max((float(block.nan_to_num().max()) for block in blocks if block.numel()), default=0.0)


def strongest(
    step: Step, head: int | str, *, sentence: int = 0, rows: slice = ALL, columns: slice = ALL
) -> tuple[np.ndarray, np.ndarray]:
    """Each row's largest weight, NaN aside, and the column it stands in, counted within the window; both (rows,)."""
    blocks = (weights_of(step, head, block, columns, sentence=sentence) for block in _row_blocks(step))
    found = [block.nan_to_num(nan=-1.0).max(1) for block in blocks if block.shape[1]]
    if not found:
        return np.zeros(0), np.zeros(0, np.int64)
    most, at = (torch.cat([getattr(f, name) for f in found]).numpy()[rows] for name in ("values", "indices"))
    return most, at


def row_sums(step: Step, head: int | str, *, sentence: int = 0, rows: slice = ALL) -> Tensor:
    """The sum of each row's weights over all keys, (rows,)."""
    sums = [weights_of(step, head, block, sentence=sentence).sum(-1) for block in _row_blocks(step)]
    return torch.cat(sums)[torch.arange(step.shape[2])[rows]]


def _row_blocks(step: Step) -> Iterator[slice]:
    queries, keys = step.shape[2:]
    height = max(1, BLOCK // max(1, keys))
    for start in range(0, queries, height):
        yield slice(start, min(start + height, queries))


def output_change(before: Record, after: Record, sentence: int = 0) -> Tensor:
    """How far each token's output vector moved, as a share of its length before, (n,): ||after - before|| / ||before||.

    Where the vector before was zero the share is 0 if it stayed zero, else infinite.

    Raises:
        ShapeError: if the records are not of the same tokens.
    """
    if before.output.shape != after.output.shape:
        raise ShapeError(f"The outputs differ in shape: {tuple(before.output.shape)}, {tuple(after.output.shape)}.")
    moved = (after.output[sentence] - before.output[sentence]).norm(dim=-1)
    length = before.output[sentence].norm(dim=-1)
    return torch.where(moved == 0, torch.zeros_like(moved), moved / length)
