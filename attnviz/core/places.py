"""Places of tokens in pictures, as boxes; a sound is the picture of its spectrogram, with time on the x axis."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from attnviz.core.errors import InputError, quoted

SIDE = 384
"""Maximum number of pixels on the longer side of a picture in figures and files."""

GRAY = 127


@dataclass(frozen=True)
class Box:
    """A rectangle in a picture, in fractions of width and height from the top left, 0 to 1.

    Attributes:
        picture: index of the picture in its sentence.
    """

    left: float
    top: float
    right: float
    bottom: float
    picture: int = 0


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture that a model reads. Pictures are equal if their pixels are equal.

    Attributes:
        pixels: RGB values, (height, width, 3), uint8.
        seconds: duration that the width of a spectrogram covers; 0 for other pictures.
    """

    pixels: Tensor
    seconds: float = 0.0

    @classmethod
    def of(cls, image: Any) -> "Picture":
        """Convert a PIL image, or an array (height, width, 3) or (3, height, width), to a picture.

        Floats are read as 0 to 1 or 0 to 255; floats out of these ranges, such as normalized inputs, are rescaled to 0
        to 255. Of 16 bits, only the upper 8 are kept. Transparent parts become white. Raise InputError for anything
        that is not a picture.
        """
        return image if isinstance(image, Picture) else cls(_convert_to_pixels(image))

    @cached_property
    def digest(self) -> str:
        """A checksum of the pixels, their shape and `seconds`."""
        shape = f"{tuple(self.pixels.shape)} {self.seconds}".encode()
        return hashlib.sha256(shape + self.pixels.contiguous().numpy().tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        height, width = self.size
        return f"<Picture of {width} x {height} pixels>"

    @property
    def nbytes(self) -> int:
        """Size in memory, in bytes."""
        return self.pixels.nbytes

    @property
    def size(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.pixels.shape[0], self.pixels.shape[1]

    def grayed(self, boxes: Iterable[Box]) -> "Picture":
        """A copy with the given rectangles filled with gray."""
        pixels, (height, width) = self.pixels.clone(), self.size
        for box in boxes:
            rows = slice(round(box.top * height), round(box.bottom * height))
            columns = slice(round(box.left * width), round(box.right * width))
            pixels[rows, columns] = GRAY
        return Picture(pixels, self.seconds)

    @cached_property
    def small(self) -> "Picture":
        """The picture, scaled down to at most `SIDE` pixels on its longer side."""
        factor = SIDE / max(self.size)
        if factor >= 1:
            return self
        size = [max(1, round(side * factor)) for side in self.size]
        channels = self.pixels.float().permute(2, 0, 1)[None]
        smaller = interpolate(channels, size, mode="bilinear", antialias=True)[0].permute(1, 2, 0)
        return Picture(smaller.round().clamp(0, 255).to(torch.uint8).contiguous(), self.seconds)


@dataclass(frozen=True, eq=False)
class Sound(Picture):
    """A sound that a model reads, with its spectrogram as the picture. Sounds are equal if samples and rate are equal.

    Attributes:
        samples: audio samples, (n,), float32, from -1 to 1.
        rate: sampling rate in Hz.
    """

    samples: Tensor = field(default_factory=lambda: torch.zeros(0), kw_only=True)
    rate: int = field(default=1, kw_only=True)

    @cached_property
    def digest(self) -> str:
        """A checksum of the samples and their rate."""
        return hashlib.sha256(f"{self.rate} Hz".encode() + self.samples.contiguous().numpy().tobytes()).hexdigest()

    def __repr__(self) -> str:
        return f"<Sound of {self.seconds:.2f} s at {self.rate:,} Hz>"

    @property
    def nbytes(self) -> int:
        return self.pixels.nbytes + self.samples.nbytes

    @cached_property
    def small(self) -> Picture:
        """The spectrogram, scaled down, without the samples."""
        return Picture(self.pixels, self.seconds).small


def grid(rows: int, columns: int, picture: int = 0) -> list[Box]:
    """Boxes of a rows x columns grid of patches over a whole picture, row by row."""
    return [
        Box(column / columns, row / rows, (column + 1) / columns, (row + 1) / rows, picture)
        for row in range(rows)
        for column in range(columns)
    ]


def _convert_to_pixels(image: Any) -> Tensor:
    """Convert an image or array to RGB values, (height, width, 3), uint8, as `Picture.of` describes."""
    try:
        pixels = _convert_to_tensor(image)
    except (TypeError, ValueError, RuntimeError):
        pixels = torch.empty(0)
    if pixels.is_complex():
        pixels = torch.empty(0)
    if pixels.dim() == 4 and len(pixels) == 1:  # a batch of one picture
        pixels = pixels[0]
    if pixels.dim() == 2:  # gray values
        pixels = pixels.unsqueeze(-1)
    elif pixels.dim() == 3 and pixels.shape[0] in (1, 3) and pixels.shape[-1] not in (1, 3):  # channels first
        pixels = pixels.permute(1, 2, 0)
    if pixels.dim() != 3 or pixels.shape[-1] not in (1, 3) or not pixels.numel():
        instead = f"{tuple(pixels.shape)} numbers" if pixels.numel() else quoted(type(image).__name__)
        raise InputError(f"A picture is a PIL image or (height, width, 3) numbers; given {instead}.")
    return _convert_to_8_bits(pixels).expand(*pixels.shape[:2], 3).to(torch.uint8).contiguous()


def _convert_to_tensor(image: Any) -> Tensor:
    """Convert an array or a PIL image to a tensor; transparent parts of an image become white."""
    is_image = hasattr(image, "convert") and hasattr(image, "tobytes")
    if not is_image:
        is_array = hasattr(image, "__array_interface__")  # copied: the array may be read-only, and must not change
        return torch.tensor(image) if is_array else torch.as_tensor(image).detach().cpu()
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = image.copy()
        white.paste("white", (0, 0, *image.size))
        white.alpha_composite(image)
        image = white
    if image.mode.startswith("I"):  # 16 bits
        image = image.point(lambda level: level / 256).convert("L")
    mode, dtype = ("F", torch.float32) if image.mode == "F" else ("RGB", torch.uint8)
    plain = image.convert(mode)
    return torch.frombuffer(bytearray(plain.tobytes()), dtype=dtype).reshape(plain.height, plain.width, -1)


def _convert_to_8_bits(pixels: Tensor) -> Tensor:
    """Map the numbers of a picture to 0 to 255; see `Picture.of`. Raise InputError for a number out of range."""
    if pixels.dtype is torch.uint8:
        return pixels
    if pixels.dtype is torch.bool:
        return pixels.long() * 255
    if pixels.dtype is torch.uint16:
        return pixels.long() // 256
    is_float = pixels.is_floating_point()
    numbers = pixels.float() if is_float else pixels.long()
    is_wrong = ~pixels.isfinite() if is_float else (numbers < 0) | (numbers > 255)
    if is_wrong.any():
        dtype, number = str(pixels.dtype).removeprefix("torch."), numbers[is_wrong][0].item()
        allowed = "whole numbers from 0 to 255, 16-bit whole numbers (uint16), or finite floats"
        raise InputError(f"A picture holds {allowed}; given {dtype} with {number}.")
    if not is_float:
        return numbers
    low, high = float(numbers.min()), float(numbers.max())
    if low < 0 or high > 255:
        numbers = (numbers - low) / max(high - low, 1e-9) * 255  # 1e-9: all numbers may be equal
    elif high <= 1:
        numbers = numbers * 255
    return numbers.round().clamp(0, 255)
