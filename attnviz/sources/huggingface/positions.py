"""Boxes of a model's positions in the picture or the sound that it reads.

Convolutions divide the input numbers of a model into maps of cells; the positions are the cells, row by row. Processors
resize, crop, pad and cut in many ways, which attnviz does not repeat: it measures on a ramp of colors where each pixel
of the input lies in the picture.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from attnviz.capturing import Capture
from attnviz.capturing.captured import patches
from attnviz.core.places import Box
from attnviz.core.tokens import Token
from attnviz.core.windows import WindowGrid
from attnviz.sources.huggingface.hooks import watching

EDGE = 0.05
"""Share of the rows and columns at each end that is not measured, as processors repeat pixels there."""
PADDING = "padding"
"""Name of a position that fills a window beyond the picture."""
WAVES = 8
"""Number of times that noise of one color goes through its range."""
DIGITS = 3
"""Digits of a measured edge of a box."""


@dataclass(frozen=True)
class Plane:
    """Rows and columns of the input numbers of a model, with their positions in the picture or spectrogram.

    Attributes:
        height, width: sizes in pixels; for a sound, bands of frequencies and frames or samples.
        across, down: scale and offset: the left edge of column c lies at scale · c + offset of the picture's width.
        digits: digits of the edges of boxes.
    """

    height: int
    width: int
    across: tuple[float, float] = (1.0, 0.0)
    down: tuple[float, float] = (1.0, 0.0)
    digits: int = DIGITS

    def box(self, left: float, top: float, right: float, bottom: float) -> Box | None:
        """Convert a rectangle in pixels to a box in fractions of the picture; None if it lies in the padding."""
        (scale_x, offset_x), (scale_y, offset_y) = self.across, self.down
        x, x2 = sorted((scale_x * left + offset_x, scale_x * right + offset_x))
        y, y2 = sorted((scale_y * top + offset_y, scale_y * bottom + offset_y))
        x, x2, y, y2 = (round(min(max(edge, 0.0), 1.0), self.digits) for edge in (x, x2, y, y2))
        return Box(x, y, x2, y2) if x2 - x > 1e-9 and y2 - y > 1e-9 else None


def planes(process: Callable[[Tensor], Tensor], size: tuple[int, int]) -> list[Plane]:
    """Measure the planes of the tiles that a processor cuts a picture into; most processors make one tile.

    A ramp of 256 colors is processed; noise along the other side averages out the rounding of the colors.

    Args:
        process: function from (height, width, 3), uint8, to (tiles, 3, height, width) floats.
        size: height and width of the picture.
    """
    height, width = size
    ramp = torch.zeros(height, width, 3)
    ramp[..., 0] = torch.linspace(0, 255, width) + (torch.linspace(0, WAVES, height).frac() - 0.5)[:, None]
    ramp[..., 1] = torch.linspace(0, 255, height)[:, None] + torch.linspace(0, WAVES, width).frac() - 0.5
    low, high = (process(torch.full((height, width, 3), value, dtype=torch.uint8)) for value in (0, 255))
    span, colors = high - low, process(ramp.round().clamp(0, 255).to(torch.uint8))
    shares = ((colors - low) / span).nan_to_num(-1)
    return [_plane(*tile, size) for tile in zip(shares, span.abs() > 1e-3, strict=True)]


def _plane(shares: Tensor, is_real: Tensor, size: tuple[int, int]) -> Plane:
    """Measure the plane of one tile by fitting a line to the colors of each axis.

    Args:
        shares: colors of the processed ramp in parts of white, (3, height, width).
        is_real: whether a number is not padding, (3, height, width).
    """
    lines = []
    for channel, pixels in ((0, size[1]), (1, size[0])):  # red grows along the width, green along the height
        totals = shares[channel].where(is_real[channel], 0).sum(channel)
        counts = is_real[channel].sum(channel)
        indices = counts.nonzero()[:, 0]  # of rows or columns that are not all padding
        margin = math.ceil(len(indices) * EDGE)
        if len(indices) > 4 * margin + 4:
            indices = indices[margin : len(indices) - margin]
        parts = (totals[indices] / counts[indices]).double() * (pixels - 1) / pixels + 0.5 / pixels
        slope, offset = np.polyfit(indices + 0.5, parts, 1)
        lines.append((float(slope), float(offset)))
    return Plane(*shares.shape[1:], *lines)


class Convolution(NamedTuple):
    """Convolution or pooling along one axis; `rounds_up` counts a part of a cell at the end as a cell (ceil_mode)."""

    kernel: int
    stride: int
    padding: int = 0
    dilation: int = 1
    rounds_up: bool = False


class CellAxis(NamedTuple):
    """Cells along one axis: their number, the center of the first and the step to the next, in pixels."""

    count: int
    first: float
    step: float

    def convolved(self, layer: Convolution) -> Self:
        """Cells that a convolution makes of these cells; each lies at the center of the cells that it reads."""
        reach = layer.dilation * (layer.kernel - 1)
        rounded = math.ceil if layer.rounds_up else math.floor
        count = rounded((self.count + 2 * layer.padding - reach - 1) / layer.stride) + 1
        return CellAxis(max(0, count), self.first + (reach / 2 - layer.padding) * self.step, self.step * layer.stride)

    def middle(self, i: int) -> float:
        """Center of a cell, in pixels."""
        return self.first + i * self.step

    def edges(self, i: int) -> tuple[float, float]:
        """Both ends of a cell, halfway to its neighbors."""
        return self.middle(i) - self.step / 2, self.middle(i) + self.step / 2


@dataclass(frozen=True)
class Patching:
    """Division of the input numbers of a model into positions.

    Attributes:
        layers: convolutions in their order, each for rows and for columns.
        extra: names of the positions before the cells.
    """

    layers: tuple[tuple[Convolution, Convolution], ...]
    extra: tuple[str, ...] = ()

    def cells(self, plane: Plane) -> tuple[CellAxis, CellAxis]:
        """Rows and columns of cells."""
        rows, columns = CellAxis(plane.height, 0.5, 1.0), CellAxis(plane.width, 0.5, 1.0)
        for down, across in self.layers:
            rows, columns = rows.convolved(down), columns.convolved(across)
        return rows, columns

    def count(self, plane: Plane) -> int:
        """Number of positions."""
        rows, columns = self.cells(plane)
        return len(self.extra) + rows.count * columns.count

    def tokens(self, plane: Plane) -> tuple[Token, ...]:
        """Positions row by row, with the boxes of the cells."""
        rows, columns = self.cells(plane)
        tokens = [*patches(rows.count, columns.count, self.extra)]
        for i, token in enumerate(tokens[len(self.extra) :]):
            (top, bottom), (left, right) = rows.edges(i // columns.count), columns.edges(i % columns.count)
            tokens[len(self.extra) + i] = replace(token, box=plane.box(left, top, right, bottom))
        return tuple(tokens)

    def stages(self) -> Iterator[Self]:
        """Divisions of this stage and later stages, whose patches are 1, 2, 4, 8 ... times as wide and as high."""
        for power in range(16):
            merge = Convolution(2**power, 2**power, rounds_up=True)
            yield replace(self, layers=(*self.layers, (merge, merge)))

    def in_windows(self, windows: WindowGrid, plane: Plane) -> tuple[Token, ...] | None:
        """Positions of patches with the padding that fills their windows, which has no boxes; None if no stage fits."""
        for stage in replace(self, extra=()).stages():
            if [cells.count for cells in stage.cells(plane)] == [windows.rows, windows.columns]:
                break
        else:
            return None
        (rows, columns), patch_tokens = windows.padded, iter(stage.tokens(plane))
        tokens = []
        for id in range(rows * columns):
            is_patch = id // columns < windows.rows and id % columns < windows.columns
            token = next(patch_tokens) if is_patch else Token(PADDING, id, 0, 0, special=True)
            tokens.append(replace(token, id=id))
        return tuple(tokens)


def square_patching(count: int, plane: Plane, extra: Sequence[str]) -> Patching | None:
    """Find square patches, side by side, that cut a picture into `count` positions; None if there are none.

    Args:
        extra: names of positions that may stand before the patches.
    """
    sides = range(min(plane.height, plane.width), 0, -1)
    without_rest = [Convolution(n, n) for n in sides if plane.height % n == plane.width % n == 0]
    rounded_down = [Convolution(n, n) for n in sides]
    rounded_up = [Convolution(n, n, rounds_up=True) for n in sides]
    for names in dict.fromkeys((tuple(extra), ())):
        for patch in (*without_rest, *rounded_down, *rounded_up):
            squares = Patching(((patch, patch),), names)
            if squares.count(plane) == count:
                return squares
    return None


class CellMap(NamedTuple):
    """A map of cells in a run: the number of attention calls before it, its rows and columns, and its convolutions."""

    calls: int
    size: tuple[int, int]
    layers: tuple[tuple[Convolution, Convolution], ...]


def patching(maps: list[CellMap], count: int, call: int, extra: tuple[str, ...]) -> Patching | None:
    """Find the division into `count` positions by the convolutions before an attention call; None if no map fits."""
    for names in dict.fromkeys((extra, ())):
        for cells in reversed(maps):
            if cells.calls <= call and math.prod(cells.size) + len(names) == count:
                return Patching(cells.layers, names)
    return None


@contextmanager
def cell_maps(model: nn.Module, captured: Capture) -> Iterator[list[CellMap]]:
    """Collect the maps of cells that convolutions make in a run whose attention is captured; the first is the input."""
    maps: list[CellMap] = []
    convolutions = [part for part in model.modules() if all(hasattr(part, name) for name in ("kernel_size", "stride"))]

    def keep(module: nn.Module, inputs: tuple, output: Any) -> None:
        """Add the map that a convolution makes of a known map."""
        if not (inputs and isinstance(inputs[0], Tensor) and isinstance(output, Tensor)):
            return
        axes = inputs[0].dim() - 2
        if axes not in (1, 2) or output.dim() - 2 != axes:
            return
        size, output_size = ((1, *tensor.shape[2:])[-2:] for tensor in (inputs[0], output))  # rows and columns
        if not maps:
            maps.append(CellMap(0, size, ()))
        layers = next((cells.layers for cells in reversed(maps) if cells.size == size), None)
        layer = _convolution(module, axes)
        if layers is None or layer is None:
            return
        axes_made = [CellAxis(n, 0, 1).convolved(along) for n, along in zip(size, layer, strict=True)]
        if tuple(axis.count for axis in axes_made) == output_size:
            maps.append(CellMap(len(captured.calls), output_size, (*layers, layer)))

    with watching(convolutions, keep):
        yield maps


def _convolution(module: nn.Module, axes: int) -> tuple[Convolution, Convolution] | None:
    """Convolutions of a module along rows and columns; None if its settings are not numbers."""
    settings = [getattr(module, name, 1) for name in ("kernel_size", "stride", "padding", "dilation")]
    if not all(isinstance(setting, int | tuple) for setting in settings):
        return None
    per_axis = [setting if isinstance(setting, tuple) else (setting,) * axes for setting in settings]
    layers = [Convolution(*numbers, getattr(module, "ceil_mode", False)) for numbers in zip(*per_axis, strict=True)]
    return layers[0] if axes == 2 else Convolution(1, 1), layers[-1]
