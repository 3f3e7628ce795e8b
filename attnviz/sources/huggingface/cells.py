"""Places of the tokens of a picture within a text, in the order in which a model reads them.

A processor makes tiles of a picture, or patches in groups; the k-th token of a tile is the k-th cell of its grid, row
by row. Where tiles and patches stand is measured on a ramp of colors, see `placing`.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnviz.core.places import Box, grid
from attnviz.sources.huggingface import placing
from attnviz.sources.huggingface.placing import PixelMap

PATCHES = "image_grid_thw"
"""Input with the rows and columns of patches, of processors that give patches one by one."""
ANYRES = "LlavaNextProcessor"
"""Class of processors whose tiles make one grid without its padding, each row with an end of its own."""


class Cell(NamedTuple):
    """The name of a token of a picture, and its place; None where it stands for no part of the picture."""

    name: str
    box: Box | None


@lru_cache(maxsize=32)
def cells(processor: Any, size: tuple[int, int], count: int) -> tuple[Cell, ...] | None:
    """The tokens of a picture alone; None where they cannot be placed.

    Args:
        size: height and width of the picture.
        count: how many tokens it has.
    """

    def process(pixels: Tensor) -> dict[str, Tensor]:
        return processor(images=[[pixels.numpy()]], text=[processor.image_token], return_tensors="pt")

    sample = process(torch.zeros(*size, 3, dtype=torch.uint8))
    if PATCHES in sample:
        rows, columns = sample[PATCHES][0, 1:].tolist()
        return _merged(lambda pixels: _colors(process(pixels)["pixel_values"]), size, rows, columns, count)
    if sample["pixel_values"].dim() < 4:
        return None
    maps = placing.pixel_maps(lambda pixels: process(pixels)["pixel_values"].flatten(0, -4).float(), size)
    if not all(math.isfinite(number) for pixels in maps for number in (*pixels.across, *pixels.down)):
        return None
    if type(processor).__name__ == ANYRES:
        result = _anyres(maps, processor.patch_size, count)
    else:
        result = _tiles(maps, count, getattr(processor, "vision_feature_select_strategy", "") == "full")
    return result if result and len(result) == count else None


def _colors(patches: Tensor) -> Tensor:
    """Mean of each channel of flat patches (n, C · T · p · p), as tiles (1, C, 1, n)."""
    return patches.float().unflatten(1, (3, -1)).mean(-1).T[None, :, None]


def _merged(colors: Any, size: tuple[int, int], rows: int, columns: int, count: int) -> tuple[Cell, ...] | None:
    """Cells of so many consecutive patches each as make the count, by their mean color."""
    side = math.isqrt(rows * columns // count)
    if side * side * count != rows * columns or rows % side or columns % side:
        return None
    rows, columns = rows // side, columns // side
    centers = placing.centers(colors, size)[0, :, 0].unflatten(1, (count, -1)).mean(-1)
    places = [(math.floor(y * rows), math.floor(x * columns)) for x, y in centers.T.tolist()]
    boxes = grid(rows, columns)
    if sorted(places) != [(row, column) for row in range(rows) for column in range(columns)]:
        return None
    return tuple(Cell(f"row{row}·col{column}", boxes[row * columns + column]) for row, column in places)


def _tiles(maps: list[PixelMap], count: int, has_class: bool) -> tuple[Cell, ...] | None:
    """Cells of tiles that have as many each."""
    each, rest = divmod(count, len(maps))
    patching = placing.patching_of(each, maps[0], ("[CLS]",) if has_class else ())
    if rest or patching is None:
        return None
    names = [f"tile{number}·" if len(maps) > 1 else "" for number in range(len(maps))]
    return tuple(
        Cell(name + token.text, token.box)
        for name, pixels in zip(names, maps, strict=True)
        for token in patching.tokens(pixels)
    )


def _anyres(maps: list[PixelMap], stride: int, count: int) -> tuple[Cell, ...] | None:
    """Cells of the whole picture, then those of its tiles side by side, each row with an end.

    Rows or columns of padding are left out on both sides alike; the count says how many.
    """
    whole, *tiles = maps
    rows, columns = whole.height // stride, whole.width // stride
    first = tuple(
        Cell(f"whole·row{row}·col{column}", whole.box(*_edges(row, column, stride)))
        for row in range(rows)
        for column in range(columns)
    )
    if not tiles:
        return (*first, Cell("[newline]", None))
    tops = [round(_offset(tile.down, tile.height) * 100) for tile in tiles]
    across = tops.count(tops[0])
    high, wide = len(tiles) // across * rows, across * columns
    rest = count - len(first)
    above = max(0.0, -tiles[0].down[1] / tiles[0].down[0]) > max(0.0, -tiles[0].across[1] / tiles[0].across[0])
    shown = (rest // (wide + 1), wide) if above else (high, rest // high - 1)
    cut = high - shown[0], wide - shown[1]
    if shown[0] * (shown[1] + 1) != rest or any(part < 0 or part % 2 for part in cut):
        return None

    def row_of(row: int) -> Iterator[Cell]:
        for column in range(cut[1] // 2, wide - cut[1] // 2):
            tile = tiles[row // rows * across + column // columns]
            yield Cell(f"row{row}·col{column}", tile.box(*_edges(row % rows, column % columns, stride)))
        yield Cell("[newline]", None)

    return (*first, *(cell for row in range(cut[0] // 2, high - cut[0] // 2) for cell in row_of(row)))


def _offset(line: tuple[float, float], side: int) -> float:
    """Center of a tile on an axis, in its own sides."""
    return line[1] / (line[0] * side)


def _edges(row: int, column: int, side: int) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a cell, in pixels."""
    return column * side, row * side, (column + 1) * side, (row + 1) * side
