"""Positions of a model in the picture or the sound that it is given, as boxes.

Convolutions cut what a model is given into maps of cells, whose rows one after the other are its positions. Where the
pixels of a picture stand is measured on a ramp of colors: every processor resizes, crops, pads and cuts in its own way,
and none of it is repeated here.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from attnviz.capturing import Capture
from attnviz.capturing.seen import patches
from attnviz.core.places import Box
from attnviz.core.tokens import Token
from attnviz.core.windows import WindowGrid
from attnviz.sources.huggingface.tapped import watching

EDGE = 0.05
"""Part of the rows and columns at each end that is not measured: there a processor repeats pixels."""
PADDING = "padding"
"""Name of a position beyond the picture, which fills a window."""
WAVES = 8
"""How often noise of one color goes through its range."""
DIGITS = 3
"""Digits of a measured edge of a box."""


@dataclass(frozen=True)
class Plane:
    """The numbers that a model is given, as rows and columns, and where they stand in the picture or spectrogram.

    Attributes:
        height, width: in pixels; those of a sound are bands of frequencies and frames, or samples.
        across, down: slope and offset: the left edge of column c stands at slope · c + offset of the picture's width.
        digits: of the edges of boxes.
    """

    height: int
    width: int
    across: tuple[float, float] = (1.0, 0.0)
    down: tuple[float, float] = (1.0, 0.0)
    digits: int = DIGITS

    def box(self, left: float, top: float, right: float, bottom: float, picture: int = 0) -> Box | None:
        """Place of a rectangle of pixels; None if it lies outside of the picture, in what was padded."""
        (slope, offset), (fall, begin) = self.across, self.down
        x, x2 = sorted((slope * left + offset, slope * right + offset))
        y, y2 = sorted((fall * top + begin, fall * bottom + begin))
        x, x2, y, y2 = (round(min(max(edge, 0.0), 1.0), self.digits) for edge in (x, x2, y, y2))
        return Box(x, y, x2, y2, picture) if x2 - x > 1e-9 and y2 - y > 1e-9 else None


def planes(process: Callable[[Tensor], Tensor], size: tuple[int, int]) -> list[Plane]:
    """Planes of the tiles that a processor makes of a picture; of most there is one.

    Args:
        process: from (height, width, 3), uint8, to (tiles, 3, height, width) floats.
        size: height and width of the picture.
    """
    across, down = (torch.linspace(0, WAVES, side).frac() - 0.5 for side in size)
    shares, is_real = _ramp(process, size, torch.stack(torch.broadcast_tensors(across[:, None], down, down), -1))
    return [_plane(*tile, size) for tile in zip(shares, is_real, strict=True)]


def centers(process: Callable[[Tensor], Tensor], size: tuple[int, int]) -> Tensor:
    """Places of pixels, (tiles, 2, height, width): x and y in parts of the picture, from the colors of the ramp.

    Args:
        process, size: see `planes`.
    """
    pixels = torch.tensor([size[1], size[0]], dtype=torch.float64)[:, None, None]
    return _ramp(process, size)[0][:, :2].double() * (pixels - 1) / pixels + 0.5 / pixels


def _ramp(
    process: Callable[[Tensor], Tensor], size: tuple[int, int], noise: Tensor | float = 0.0
) -> tuple[Tensor, Tensor]:
    """Colors of a processed ramp in parts of white, and which of it is no padding.

    Args:
        noise: added to its 256 colors along the other side, so that rounding leaves the mean of a row as it is.
    """
    height, width = size
    ramp = torch.zeros(height, width, 3)
    ramp[..., 0] = torch.linspace(0, 255, width)
    ramp[..., 1] = torch.linspace(0, 255, height)[:, None]
    low, high = (process(torch.full((height, width, 3), value, dtype=torch.uint8)) for value in (0, 255))
    span = high - low
    colors = process((ramp + noise).round().clamp(0, 255).to(torch.uint8))
    return ((colors - low) / span).nan_to_num(-1), span.abs() > 1e-3


def _plane(shares: Tensor, is_real: Tensor, size: tuple[int, int]) -> Plane:
    """Plane of one tile, of (3, height, width) parts of the ramp, and which of it is no padding."""
    lines = []
    for channel, pixels in ((0, size[1]), (1, size[0])):
        real, total = is_real[channel], shares[channel].where(is_real[channel], 0).sum(channel)
        counts = real.sum(channel)
        places = counts.nonzero()[:, 0]
        margin = math.ceil(len(places) * EDGE)
        inner = places[margin : len(places) - margin] if len(places) > 4 * margin + 4 else places
        parts = (total[inner] / counts[inner]).double() * (pixels - 1) / pixels + 0.5 / pixels
        x = inner.double() + 0.5
        spread = x - x.mean()
        slope = float((spread * (parts - parts.mean())).sum() / (spread * spread).sum().clamp_min(1e-12))
        lines.append((slope, float(parts.mean() - slope * x.mean())))
    return Plane(*shares.shape[1:], *lines)


class Convolution(NamedTuple):
    """A convolution or pooling along one axis; `rounds_up` counts a part of a cell at the end."""

    kernel: int
    stride: int
    padding: int = 0
    dilation: int = 1
    rounds_up: bool = False


class CellAxis(NamedTuple):
    """Cells along one axis: how many, the center of the first, and from one to the next, in pixels."""

    count: int
    first: float
    step: float

    def convolved(self, layer: Convolution) -> Self:
        """The cells that a convolution makes of these; each stands for the middle of what it reads."""
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
    """How a model cuts what it is given into positions.

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
        """How many positions there are."""
        rows, columns = self.cells(plane)
        return len(self.extra) + rows.count * columns.count

    def merged(self, side: int) -> Self:
        """The cut in which side x side cells are one."""
        return replace(self, layers=(*self.layers, (Convolution(side, side, rounds_up=True),) * 2))

    def tokens(self, plane: Plane) -> tuple[Token, ...]:
        """Positions row by row, those of cells with their boxes."""
        rows, columns = self.cells(plane)
        tokens, begin = patches(rows.count, columns.count, self.extra), len(self.extra)
        boxes = []
        for row in range(rows.count):
            top, bottom = rows.edges(row)
            for left, right in map(columns.edges, range(columns.count)):
                boxes.append(plane.box(left, top, right, bottom))
        return (*tokens[:begin], *(replace(t, box=box) for t, box in zip(tokens[begin:], boxes, strict=True)))

    def in_windows(self, windows: WindowGrid, plane: Plane) -> tuple[Token, ...] | None:
        """Positions of patches that are padded to windows, the padding without boxes; None if their number is another.

        Patches of a later stage are 2, 4, 8 ... times as large.
        """
        for power in range(16):
            cut = replace(self, extra=()).merged(2**power)
            if tuple(cells.count for cells in cut.cells(plane)) == (windows.rows, windows.columns):
                break
        else:
            return None
        real, (rows, columns) = iter(cut.tokens(plane)), windows.padded
        return tuple(
            replace(next(real), id=row * columns + column)
            if row < windows.rows and column < windows.columns
            else Token(PADDING, row * columns + column, 0, 0, special=True)
            for row in range(rows)
            for column in range(columns)
        )


def square_patching(count: int, plane: Plane, extra: Sequence[str]) -> Patching | None:
    """The cut into so many positions by square patches beside each other; None if none gives as many.

    Args:
        extra: names of positions that may stand before the patches.
    """
    sides = plane.height, plane.width
    strides = range(min(sides), 0, -1)
    exact = [(stride, False) for stride in strides if not any(side % stride for side in sides)]
    others = [(stride, rounds_up) for rounds_up in (False, True) for stride in strides]
    for names in dict.fromkeys((tuple(extra), ())):
        for stride, rounds_up in (*exact, *others):
            cut = Patching(((Convolution(stride, stride, rounds_up=rounds_up),) * 2,), names)
            if cut.count(plane) == count:
                return cut
    return None


class CellMaps:
    """Maps of cells that the convolutions of a run make.

    Attributes:
        history: a row for each map: the number of attention calls before it, its rows and columns, its convolutions.
    """

    def __init__(self):
        self.history: list[tuple[int, tuple[int, int], tuple[tuple[Convolution, Convolution], ...]]] = []
        self._layers: dict[tuple[int, int], tuple[tuple[Convolution, Convolution], ...]] = {}

    def patching(self, count: int, call: int, extra: tuple[str, ...]) -> Patching | None:
        """The cut into so many positions before an attention call, by its number; None if no map has as many."""
        for names in dict.fromkeys((extra, ())):
            for time, size, layers in reversed(self.history):
                if time <= call and math.prod(size) + len(names) == count:
                    return Patching(layers, names)
        return None

    def add(self, module: nn.Module, before: Tensor, after: Tensor, time: int) -> None:
        """Take in a call of a convolution."""
        if before.dim() not in (3, 4) or after.dim() != before.dim():
            return
        size, other = ((1, *tensor.shape[2:])[-2:] for tensor in (before, after))
        if not self._layers:
            self._layers[size] = ()  # what the model is given
        layers, layer = self._layers.get(size), _convolution(module, before.dim() - 2)
        if layers is None or layer is None:
            return
        if tuple(CellAxis(n, 0, 1).convolved(part).count for n, part in zip(size, layer, strict=True)) != other:
            return
        self._layers[other] = (*layers, layer)
        self.history.append((time, other, self._layers[other]))


def _convolution(module: nn.Module, axes: int) -> tuple[Convolution, Convolution] | None:
    """A module as a convolution of rows and of columns; None if its settings are no numbers."""
    names = ("kernel_size", "stride", "padding", "dilation")
    numbers = [getattr(module, name, 1) for name in names]
    if not all(isinstance(number, int | tuple) for number in numbers):
        return None
    columns = zip(*(number if isinstance(number, tuple) else (number,) * axes for number in numbers), strict=True)
    layers = [Convolution(*numbers, getattr(module, "ceil_mode", False)) for numbers in columns]
    return (Convolution(1, 1), *layers)[-2], layers[-1]


@contextmanager
def cell_maps(model: nn.Module, captured: Capture) -> Iterator[CellMaps]:
    """Watch the convolutions of a run whose attention is captured."""
    maps = CellMaps()
    convolutions = [part for part in model.modules() if all(hasattr(part, name) for name in ("kernel_size", "stride"))]

    def keep(module: nn.Module, inputs: tuple, output: Any) -> None:
        if inputs and isinstance(inputs[0], Tensor) and isinstance(output, Tensor):
            maps.add(module, inputs[0], output, len(captured.calls))

    with watching(convolutions, keep):
        yield maps
