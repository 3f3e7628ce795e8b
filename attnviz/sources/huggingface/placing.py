"""Places of the patches of a vision model, measured by what its image processor makes of a ramp of colors.

Every processor resizes, crops, pads and cuts in its own way. None of it is repeated here: a picture of the same size
whose colors say where each pixel stands is processed, too.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnviz.capturing.tokens import patches
from attnviz.core.places import Box
from attnviz.core.tokens import Token
from attnviz.core.windows import WindowGrid

EDGE = 0.05
"""Part of the rows and columns at each end that is not measured: there a processor repeats pixels."""

PADDING = "padding"
"""Name of a position beyond the picture, which fills a window."""

WAVES = 8
"""How often noise of one color goes through its range."""
DIGITS = 3
"""Digits of an edge of a box: no more of it is measured."""


@dataclass(frozen=True)
class PixelMap:
    """Places in a picture of the pixels that a model is given.

    Attributes:
        height, width: of what it is given, in pixels.
        across, down: slope and offset: the left edge of column c stands at slope · c + offset of the picture's width.
    """

    height: int
    width: int
    across: tuple[float, float]
    down: tuple[float, float]

    def box(self, left: float, top: float, right: float, bottom: float, picture: int = 0) -> Box | None:
        """Place of a rectangle of pixels; None if it lies outside of the picture, in what was padded."""
        (slope, offset), (fall, begin) = self.across, self.down
        x, x2, y, y2 = slope * left + offset, slope * right + offset, fall * top + begin, fall * bottom + begin
        x, x2, y, y2 = (round(min(max(edge, 0.0), 1.0), DIGITS) for edge in (x, x2, y, y2))
        return Box(x, y, x2, y2, picture) if x2 - x > 1e-6 and y2 - y > 1e-6 else None


def pixel_maps(process: Callable[[Tensor], Tensor], size: tuple[int, int]) -> list[PixelMap]:
    """Places of the pixels of each tile that a processor makes of a picture; of most there is one.

    Args:
        process: from (height, width, 3), uint8, to (tiles, 3, height, width) floats.
        size: height and width of the picture.
    """
    across, down = (torch.linspace(0, WAVES, side).frac() - 0.5 for side in size)
    shares, is_real = _ramp(process, size, torch.stack(torch.broadcast_tensors(across[:, None], down, down), -1))
    return [_pixel_map(*tile, size) for tile in zip(shares, is_real, strict=True)]


def centers(process: Callable[[Tensor], Tensor], size: tuple[int, int]) -> Tensor:
    """Places of pixels, (tiles, 2, height, width): x and y in parts of the picture, from the colors of the ramp.

    Args:
        process, size: see `pixel_maps`.
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
    return ((process((ramp + noise).round().clamp(0, 255).to(torch.uint8)) - low) / span).nan_to_num(
        -1
    ), span.abs() > 1e-3


def _pixel_map(shares: Tensor, is_real: Tensor, size: tuple[int, int]) -> PixelMap:
    """Map of one tile, of (3, height, width) parts of the ramp, and which of it is no padding."""
    lines = []
    for channel, axis, pixels in ((0, 0, size[1]), (1, 1, size[0])):
        real, total = is_real[channel], shares[channel].where(is_real[channel], 0).sum(axis)
        counts = real.sum(axis)
        places = counts.nonzero()[:, 0]
        margin = math.ceil(len(places) * EDGE)
        inner = places[margin : len(places) - margin] if len(places) > 4 * margin + 4 else places
        parts = (total[inner] / counts[inner]).double() * (pixels - 1) / pixels + 0.5 / pixels
        lines.append(_line(inner.double() + 0.5, parts))
    return PixelMap(*shares.shape[1:], lines[0], lines[1])


def _line(x: Tensor, y: Tensor) -> tuple[float, float]:
    """Slope and offset of the straight line nearest to points."""
    spread = x - x.mean()
    slope = float((spread * (y - y.mean())).sum() / (spread * spread).sum().clamp_min(1e-12))
    return slope, float(y.mean() - slope * x.mean())


@dataclass(frozen=True)
class Patching:
    """How a model cuts what it is given into patches.

    Attributes:
        stride: pixels of a side of a patch.
        rounds_up: whether the last row and column may be a part of a patch.
        extra: names of the positions before the patches.
    """

    stride: int
    rounds_up: bool
    extra: tuple[str, ...] = ()

    def size(self, pixels: PixelMap) -> tuple[int, int]:
        """Rows and columns of patches."""
        rounded = math.ceil if self.rounds_up else math.floor
        return rounded(pixels.height / self.stride), rounded(pixels.width / self.stride)

    def tokens(self, pixels: PixelMap) -> tuple[Token, ...]:
        """Positions row by row, those of patches with their boxes."""
        rows, columns = self.size(pixels)
        tokens, side = patches(rows, columns, self.extra), self.stride
        places = [
            pixels.box(column * side, row * side, (column + 1) * side, (row + 1) * side)
            for row in range(rows)
            for column in range(columns)
        ]
        begin = len(self.extra)
        return (*tokens[:begin], *(replace(t, box=box) for t, box in zip(tokens[begin:], places, strict=True)))

    def in_windows(self, windows: WindowGrid, pixels: PixelMap) -> tuple[Token, ...] | None:
        """Positions of patches that are padded to windows, the padding without boxes; None if their number is another.

        Patches of a later stage are 2, 4, 8 ... times as large.
        """
        larger = (Patching(self.stride << power, True) for power in range(16))
        size = windows.rows, windows.columns
        cut = next((patching for patching in larger if patching.size(pixels) == size), None)
        if cut is None:
            return None
        real, (rows, columns) = iter(cut.tokens(pixels)), windows.padded
        return tuple(
            replace(next(real), id=row * columns + column)
            if row < windows.rows and column < windows.columns
            else Token(PADDING, row * columns + column, 0, 0, special=True)
            for row in range(rows)
            for column in range(columns)
        )


def patching_of(count: int, pixels: PixelMap, extra: Sequence[str]) -> Patching | None:
    """The cut into so many positions; None if no square patches give as many.

    Args:
        extra: names of positions that may stand before the patches.
    """
    sides = pixels.height, pixels.width
    strides = range(min(sides), 0, -1)
    exact = [(stride, math.floor) for stride in strides if not any(side % stride for side in sides)]
    others = [(stride, rounded) for rounded in (math.floor, math.ceil) for stride in strides]
    for names in dict.fromkeys((tuple(extra), ())):
        for stride, rounded in (*exact, *others):
            if math.prod(rounded(side / stride) for side in sides) == count - len(names):
                return Patching(stride, rounded is math.ceil, names)
    return None
