"""Each row's largest weight and where it is: of a long text found once, together with the tiles of the whole map."""

from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
import torch

from attnviz.analysis.stream import CellBlock, blocks
from attnviz.core.attention import LONG
from attnviz.core.record import ALL, Step

Strongest = tuple[np.ndarray, np.ndarray]

PIECE = 64
"""Keys of which the largest weight is found first: argmax is ten times as slow, and goes through one piece alone."""

_cache: WeakKeyDictionary[Step, dict[tuple[int | str, int], Strongest]] = WeakKeyDictionary()
"""By head and sentence, of whole maps of long texts: 12 bytes for each row, for as long as there is their step."""


def strongest(
    step: Step, head: int | str, *, sentence: int = 0, rows: slice = ALL, columns: slice = ALL
) -> tuple[np.ndarray, np.ndarray]:
    """Each row's largest weight, NaN aside, and the column it stands in, counted within the window; both (rows,).

    A row with no number has -1.
    """
    queries, keys = (range(*part.indices(n)) for part, n in zip((rows, columns), step.shape[2:], strict=True))
    if (cached := _cache.get(step, {}).get((head, sentence))) is not None and _is_whole(step, queries, keys):
        return cached
    add, finish = seeker(step, head, queries, keys, sentence=sentence)
    for block in blocks(step, head, queries, keys, sentence=sentence):
        add(block)
    return finish()


def _largest(weights: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Rows cut into pieces (Q, P, n), and the largest of each piece and of each row; what is no number is below all."""
    wide = weights.shape[1]
    cells = weights.unflatten(1, (-1, wide if wide % PIECE else PIECE))
    pieces = cells.amax(2)
    largest = pieces.amax(1)
    return _largest(weights.nan_to_num(nan=-1.0)) if largest.isnan().any() else (cells, pieces, largest)


def seeker(
    step: Step, head: int | str, queries: range, keys: range, *, sentence: int = 0
) -> tuple[Callable[[CellBlock], None], Callable[[], Strongest]]:
    """Two functions: the first takes the blocks of a window in order, the second then gives the largest of each row."""
    dtype = torch.promote_types(step.query.dtype, torch.float32)
    most = torch.full((len(queries) if len(keys) else 0,), -1.0, dtype=dtype)
    columns = torch.zeros(len(most), dtype=torch.int64)

    def add(block: CellBlock) -> None:
        rows = slice(block.down.start, block.down.start + len(block.down.places))
        if block.weights is None:
            if block.across.start == 0:  # else each row has a number already
                most[rows] = 0
            return
        cells, pieces, largest = _largest(block.weights)
        row = (largest > most[rows]).nonzero()[:, 0]
        if len(row):
            piece = pieces[row].argmax(1)
            most[rows.start + row] = largest[row].to(most.dtype)
            column = piece * cells.shape[2] + cells[row, piece].argmax(1)
            columns[rows.start + row] = block.across.start + column

    def finish() -> Strongest:
        result = most.numpy(), columns.numpy()
        if is_long(step, queries, keys):
            _cache.setdefault(step, {})[head, sentence] = result
        return result

    return add, finish


def is_long(step: Step, queries: range, keys: range) -> bool:
    """Whether a window is the whole of a map that takes long."""
    return _is_whole(step, queries, keys) and len(keys) > LONG


def _is_whole(step: Step, queries: range, keys: range) -> bool:
    return (queries, keys) == (range(step.shape[2]), range(step.shape[3]))
