"""Rows in blocks: what would need n x n numbers is worked so that memory grows with the tokens alone."""

import numpy as np
import torch
from torch import Tensor

from attnviz.core.record import Step

BLOCK = 2**21
"""How many cells are held at once (8 MB of float32)."""


def row_slices(queries: int, keys: int, tile: int = 1) -> list[slice]:
    """Blocks of rows, at least one, of about `BLOCK` cells; each but the last is a whole number of tiles high."""
    height = max(1, BLOCK // max(1, keys) // tile) * tile
    return [slice(start, min(start + height, queries)) for start in range(0, max(1, queries), height)]


def tile_of(step: Step, size: int) -> int:
    """How many cells a tile is wide and high, so that `size` tiles cover both axes."""
    return max(1, -(-max(step.shape[2:]) // size))


def pool(block: Tensor, tile: int, how: str = "max", *, down: int | None = None, across: int | None = None) -> Tensor:
    """(n, m) -> (ceil(n / tile), ceil(m / tile)); the last tiles may hold fewer cells. `down` and `across` set the
    tile's height and width apart from each other."""
    down, across = down or tile, across or tile
    if down == across == 1:
        return block
    fill = {"max": -torch.inf, "min": torch.inf}[how]
    n, m = block.shape
    if n % down or m % across:
        block = torch.nn.functional.pad(block, (0, -m % across, 0, -n % down), value=fill)
    for axis, size in ((1, across), (0, down)):
        if size > 1:
            parts = block.unflatten(axis, (-1, size))
            block = {"max": parts.amax, "min": parts.amin}[how](axis + 1)
    return block


def largest_in_size(numbers: np.ndarray, tile: int) -> np.ndarray:
    """The number of largest magnitude in each square of cells, with its sign; NaN where all are."""
    if tile == 1:
        return numbers
    filled = torch.from_numpy(np.nan_to_num(numbers))
    is_finite = pool(torch.from_numpy(np.isfinite(numbers).astype(np.float64)), tile).numpy() > 0
    high, low = pool(filled, tile).numpy(), pool(filled, tile, "min").numpy()
    return np.where(is_finite, np.where(-low > high, low, high), np.nan)
