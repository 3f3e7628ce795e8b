"""Positions that are patches of a picture: where each stands, and the picture, small enough to be drawn."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from attnviz.core.errors import InputError, quoted
from attnviz.core.tokens import Sentence, Token

MOST_EXTRA = 16
"""Positions before the patches, such as [CLS] and registers."""
SIDE = 384
"""Pixels of the longer side of a kept picture, at most."""
MOST_PATCHES = 16_384


@dataclass(frozen=True, eq=False)
class Patches:
    """Row by row, after `extra` positions that are no patches.

    Attributes:
        rows, columns: of the grid.
        extra: how many positions stand before the first patch.
        images: of each sentence of the batch the picture, (height, width, 3), uint8; empty where nobody gave one.
    """

    rows: int
    columns: int
    extra: int
    images: tuple[Tensor, ...] = ()

    @property
    def count(self) -> int:
        """How many positions there are, with those that are no patches."""
        return self.extra + self.rows * self.columns

    def place(self, position: int) -> tuple[int, int] | None:
        """The row and the column of a patch; None of a position that is none."""
        return divmod(position - self.extra, self.columns) if position >= self.extra else None

    def sentence(self) -> Sentence:
        """The positions as tokens: "row3·col5", counted from 0."""
        names = ["[CLS]"] if self.extra == 1 else [f"[extra {i}]" for i in range(self.extra)]
        places = [f"row{r}·col{c}" for r in range(self.rows) for c in range(self.columns)]
        tokens = [Token(name, id, 0, 0, special=id < self.extra) for id, name in enumerate([*names, *places])]
        return Sentence(f"a picture of {self.rows} x {self.columns} patches", tuple(tokens), len(tokens))


def patches_of(grid: Any, image: Any, sizes: list[int], batch: int) -> Patches:
    """The patches of positions.

    Args:
        grid: rows and columns.
        image: one picture for each sentence, or for all: a PIL image, or (height, width, 3) or (3, height, width).
        sizes: how many positions there are at the ends of attention calls; the most usual that fits is the picture's.

    Raises:
        InputError: if no size fits the grid, with both numbers, or a picture is none.
    """
    if not (isinstance(grid, tuple | list) and len(grid) == 2 and all(type(n) is int and n > 0 for n in grid)):
        raise InputError(f"The grid is {quoted(grid)}; it has two whole numbers, rows and columns.")
    rows, columns = grid
    fit = [size for size in sizes if 0 <= size - rows * columns <= MOST_EXTRA]
    if not fit or rows * columns > MOST_PATCHES:
        there = ", ".join(map(str, sorted(set(sizes))))
        what = f"A grid of {rows} x {columns} has {rows * columns:,} patches, and the attention calls have {there}"
        raise InputError(f"{what} positions, of which up to {MOST_EXTRA} may be no patches.")
    if isinstance(image, tuple | list):
        images = tuple(image)
    elif image is None:
        images = ()
    else:
        images = (image,) * batch
    if images and len(images) != batch:
        raise InputError(f"There are {len(images)} pictures for {batch} sentences; give one for each, or one for all.")
    return Patches(rows, columns, max(fit, key=fit.count) - rows * columns, tuple(map(_small, images)))


def _small(image: Any) -> Tensor:
    """A picture as (height, width, 3), uint8, of at most `SIDE` pixels."""
    if hasattr(image, "convert") and hasattr(image, "tobytes"):  # of PIL
        plain = image.convert("RGB")
        image = torch.frombuffer(bytearray(plain.tobytes()), dtype=torch.uint8).reshape(plain.height, plain.width, 3)
    try:
        pixels = torch.as_tensor(image).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        pixels = torch.empty(0)
    if pixels.dim() == 4 and len(pixels) == 1:
        pixels = pixels[0]
    if pixels.dim() == 3 and pixels.shape[0] in (1, 3) and pixels.shape[-1] not in (1, 3):
        pixels = pixels.permute(1, 2, 0)
    if pixels.dim() == 2:
        pixels = pixels.unsqueeze(-1)
    if pixels.dim() != 3 or pixels.shape[-1] not in (1, 3) or not pixels.numel():
        what = f"{tuple(pixels.shape)} numbers" if pixels.numel() else quoted(type(image).__name__)
        raise InputError(f"A picture is a PIL image or (height, width, 3) numbers; given {what}.")
    pixels = _bytes(pixels.expand(*pixels.shape[:2], 3).float(), pixels.is_floating_point())
    factor = min(1.0, SIDE / max(pixels.shape[:2]))
    size = [max(1, round(side * factor)) for side in pixels.shape[:2]]
    small = interpolate(pixels.permute(2, 0, 1)[None], size, mode="bilinear", antialias=True)[0].permute(1, 2, 0)
    return small.round().clamp(0, 255).to(torch.uint8)


def _bytes(pixels: Tensor, floating: bool) -> Tensor:
    """0 to 255: of floats 0 to 1 stands for that, and what was normalized for a model is stretched to it."""
    if not floating:
        return pixels
    low, high = float(pixels.min()), float(pixels.max())
    if low >= 0 and high <= 1:
        return pixels * 255
    return pixels if low >= 0 and high <= 255 else (pixels - low) / max(high - low, 1e-9) * 255
