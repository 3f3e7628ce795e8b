"""Masks that were probably read the wrong way round: what a grid looks like when True and False were swapped.

Nothing here is certain, since any boolean grid may be meant. Each finding names the rule that was probably inverted,
the cells that speak for it, and what else the grid may be.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from attnviz.core.errors import MaskError

MOST = 1000
"""How many cells of evidence are listed."""


@dataclass(frozen=True)
class Inversion:
    """One likely mistake.

    Attributes:
        rule: what was probably inverted: "full", "subsequent", "padding", "documents" or "window"; or "transposed", if
            rows and columns of a subsequent mask were probably swapped.
        sentence: what is seen in the grid, and what to do.
        cells: (query, key) of cells that speak for it, at most the first 1,000.
        otherwise: what else it may be; empty if there is nothing that people commonly mean by it.
    """

    rule: str
    sentence: str
    cells: tuple[tuple[int, int], ...]
    otherwise: str = ""


def likely_inverted(grid: Tensor) -> tuple[Inversion, ...]:
    """The likely inversions of a mask, the most telling one first; empty if it looks as masks usually look.

    Args:
        grid: boolean, (Q, K), True = may attend, as the reader of the mask takes it. With different lengths both
            alignments of a subsequent mask are tried, top-left and (with more keys) bottom-right.

    Raises:
        MaskError: if the grid is not boolean or has not two axes.
    """
    if grid.dtype is not torch.bool or grid.dim() != 2:
        raise MaskError(f"A grid is boolean and (Q, K); this one is {grid.dtype} and {tuple(grid.shape)}.")
    if not grid.numel():
        return ()
    if not grid.any():
        sentence = "No query has a key left: a mask that blocks nothing, inverted. Hand over ~mask."
        return (Inversion("full", sentence, _cells(~grid)),)
    return tuple(_found(grid))


def likely_inverted_padding(real: Tensor) -> Inversion | None:
    """Whether the padding of a batch was probably inverted.

    A sentence without padding loses all its keys when its mask is inverted, and a padded one keeps its padding alone:
    the two together are telling, where one padded sentence alone may as well be padded on the left.

    Args:
        real: boolean, (B, K), True = may attend.

    Returns:
        The evidence as (sentence, key), or None.

    Raises:
        MaskError: if it is not boolean or has not two axes.
    """
    if real.dtype is not torch.bool or real.dim() != 2:
        raise MaskError(f"The padding of a batch is boolean and (B, K); this is {real.dtype} and {tuple(real.shape)}.")
    trailing = (real == real.cummax(-1).values).all(-1)
    if not real.numel() or not real.any() or real[:, 0].any() or not trailing.all():
        return None
    emptied = ~real.any(-1, keepdim=True)
    if emptied.any():
        sentence = "Some sentences have no key left, and the others only their last: padding inverted. Hand over ~mask."
        return Inversion("padding", sentence, _cells(emptied.expand_as(real)))
    if 2 * real.sum() >= real.numel():
        return None
    sentence = "Every sentence sees only its last keys, less than half of them: padding inverted. Hand over ~mask."
    return Inversion("padding", sentence, _cells(real), "padding on the left")


def _found(grid: Tensor) -> Iterator[Inversion]:
    """Each finding on a grid with an open cell."""
    queries, keys = grid.shape
    offsets = (0, keys - queries) if keys > queries else (0,)
    if subsequent := next(filter(None, (_subsequent(grid, offset) for offset in offsets)), None):
        yield subsequent
    elif padding := _padding(grid):
        yield padding
    elif documents := _documents(grid):
        yield documents
    elif window := _window(grid):
        yield window


def _subsequent(grid: Tensor, offset: int) -> Inversion | None:
    """The future open and the diagonal blocked. Columns that are the same in every row (padding) say nothing here.

    With more keys than queries, aligned top-left, all of the future must be open: the last rows of a window (a cache)
    hold nothing before their queries either.
    """
    distance = _distance(grid) - offset
    mixed = grid.any(0) & ~grid.all(0)
    past, present, future = (side & mixed for side in (distance < 0, distance == 0, distance > 0))
    if not (future & grid).any():
        return None
    wholly = bool(grid[future].all())
    cached = grid.shape[1] - grid.shape[0] > offset
    only_future = not (grid & (past | present)).any() and (wholly or not cached)
    not_oneself = bool(present.any()) and not (present & grid).any() and bool((past & ~grid).any())
    if only_future or (not_oneself and wholly):
        return Inversion("subsequent", _future_words(grid, offset), _cells(future & grid))
    if bool(past.any()) and not (grid & past).any() and bool(grid[present | future].all()):
        sentence = "Every query sees itself and the future, never the past: rows and columns swapped. Hand over mask.T."
        return Inversion("transposed", sentence, _cells(future & grid), "a model that reads backwards")
    return None


def _future_words(grid: Tensor, offset: int) -> str:
    last = len(grid) - 1
    said = ["Row 0 sees only the future" if not grid[0, : offset + 1].any() else "The future is open"]
    if not (grid & (_distance(grid) == offset)).any():
        said.append("no query sees itself")
    if not grid[last].any():
        said.append(f"row {last}, the last, has no key left")
    listed = said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"
    return f"{listed}: a subsequent mask inverted. Hand over ~mask."


def _padding(grid: Tensor) -> Inversion | None:
    """Only the last keys are open to anyone, less than half; to all alike where it may be the last rows of a window."""
    open_to_some = grid.any(0)
    first = int(open_to_some.int().argmax())
    cached = grid.shape[1] > grid.shape[0] and not bool((grid == grid[:1]).all())
    if 2 * first <= len(open_to_some) or cached:
        return None
    sentence = f"Only the keys from {first} on are open, less than half of them: padding inverted. Hand over ~mask."
    otherwise = "padding on the left" + (", or a window beside a cache" if grid.shape[1] > grid.shape[0] else "")
    return Inversion("padding", sentence, _cells(grid), otherwise)


def _documents(grid: Tensor) -> Inversion | None:
    """Squares along the diagonal blocked, everything else open: two documents or more, not all of one token."""
    if grid.shape[0] != grid.shape[1]:
        return None
    blocked = ~grid
    packed = int(blocked.diagonal().int().cumprod(0).sum())
    starts = torch.ones(packed, dtype=torch.int64)
    starts[1:] = grid.diagonal(1)[: max(0, packed - 1)].long()
    document = starts.cumsum(0)
    if packed < 2 or not 1 < document[-1] < packed:
        return None
    expected = torch.zeros_like(blocked)
    expected[:packed, :packed] = document[:, None] == document
    if not torch.equal(blocked, expected):
        return None
    sentence = "Every query sees all documents but its own: packed documents inverted. Hand over ~mask."
    return Inversion("documents", sentence, _cells(blocked))


def _window(grid: Tensor) -> Inversion | None:
    """A band around the diagonal blocked, wider than the diagonal, and open on both sides of it."""
    distance = _distance(grid)
    blocked = distance[~grid]
    if not len(blocked):
        return None
    before, after = int(blocked.min()), int(blocked.max())
    band = (distance >= before) & (distance <= after)
    sides = bool((distance < before).any()) and bool((distance > after).any())
    if not sides or not before <= 0 <= after or before == after or not torch.equal(band, ~grid):
        return None
    sentence = "Every query sees what is far from it and nothing near: a sliding window inverted. Hand over ~mask."
    return Inversion("window", sentence, _cells(~grid))


def _distance(grid: Tensor) -> Tensor:
    """How far each key lies in the future of each query, (Q, K)."""
    queries, keys = grid.shape
    return torch.arange(keys) - torch.arange(queries)[:, None]


def _cells(chosen: Tensor) -> tuple[tuple[int, int], ...]:
    return tuple((row, column) for row, column in chosen.nonzero()[:MOST].tolist())
