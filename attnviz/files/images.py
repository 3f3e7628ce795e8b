"""Pictures from files: PNG, JPEG and WebP, which may be anybody's; bounded before they are decoded."""

import ctypes
import io
import warnings
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from attnviz.core.errors import InputError, quoted
from attnviz.core.places import Picture
from attnviz.core.request import Request

FORMATS = ("PNG", "JPEG", "WEBP")
MOST_PIXELS = 40_000_000
MOST_SIDE, LEAST_SIDE = 2048, 8
"""Pixels of a side: a larger picture is made smaller; a smaller one is refused."""

_one_at_a_time = Lock()
"""A picture of 0.2 MB may take 500 MB while it is decoded."""


def picture(image: Any, text: str = "") -> Request:
    """A picture in the place of a text, for `attnviz.analyze` and every source that reads pictures.

    Args:
        image: a file of PNG, JPEG or WebP by its path; an image of PIL; numbers (height, width, 3), or (height, width,
            4) of 8 bits with transparency; or a list of these. One picture is the same in all of these forms.
        text: what is asked about it, of a model that reads pictures within a text.

    Raises:
        InputError: if it is no picture, or too large or too small, with the numbers.
    """
    images = image if isinstance(image, list | tuple) else [image]
    return Request((text,), pictures=(tuple(_picture(each) for each in images),))


def read(name: str, content: bytes) -> tuple[Picture, tuple[str, ...]]:
    """The picture of a file, and what was changed in it, a sentence each.

    It is turned as its EXIF says, its transparent parts are white, and of several frames the first is read.

    Raises:
        InputError: if it is no picture of a known form, is damaged, or has too many or too few pixels.
    """
    what = quoted(name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(content), formats=FORMATS)
    except Image.DecompressionBombError:
        raise InputError(f"{what} has more than {MOST_PIXELS / 1e6:g} million pixels. Make it smaller.") from None
    except Exception:  # of a damaged file the library raises nearly anything
        raise InputError(f"{what} is no picture of PNG, JPEG or WebP; choose another file.") from None
    return _seen(image, what)


def _seen(image: Image.Image, what: str) -> tuple[Picture, tuple[str, ...]]:
    """The picture of an image, and what was changed in it, a sentence each; see `read`."""
    width, height = image.size
    if width * height > MOST_PIXELS:
        sizes = f"{width:,} x {height:,} pixels; {MOST_PIXELS / 1e6:g} million are the most"
        raise InputError(f"{what} has {sizes}. Make it smaller.")
    if min(width, height) < LEAST_SIDE:
        raise InputError(f"{what} has {width} x {height} pixels; {LEAST_SIDE} x {LEAST_SIDE} are the least.")
    if max(width, height) * LEAST_SIDE > min(width, height) * MOST_SIDE:
        most = MOST_SIDE // LEAST_SIDE
        sizes = f"{width:,} x {height:,} pixels; one side is at most {most} times the other"
        raise InputError(f"{what} has {sizes}. Cut it.")
    frames, mode = getattr(image, "n_frames", 1), image.mode
    notes = [f"Of its {frames} frames the first is read."] if frames > 1 else []
    if image.has_transparency_data:
        notes.append("Its transparent parts are read as white.")
    if mode == "CMYK":
        notes.append("Its colors, of print (CMYK), are read as those of a screen.")
    if mode.startswith("I"):
        notes.append("Its 65,536 levels of gray are read as 256.")
    try:
        with _one_at_a_time:
            small = _smaller(image) if max(width, height) > MOST_SIDE else image
            seen = Picture.of(ImageOps.exif_transpose(small))
    except Exception:
        raise InputError(f"{what} is damaged; save it again, or choose another file.") from None
    if max(width, height) > MOST_SIDE:
        with suppress(OSError, AttributeError):  # the C library keeps what was freed, 50 MB beside each picture
            ctypes.CDLL(None).malloc_trim(0)
        notes.append(f"It is read with {MOST_SIDE:,} pixels at its longer side, of {max(width, height):,}.")
    return seen, tuple(notes)


def _smaller(image: Image.Image) -> Image.Image:
    """The image with `MOST_SIDE` pixels at its longer side; no larger copy is made of it than that needs."""
    if image.mode.startswith("I"):
        image = image.point(lambda level: level / 256).convert("L")
    mode = "L" if image.mode == "L" else "RGB"
    mode = "RGBA" if image.has_transparency_data else mode
    image = image if image.mode == mode else image.convert(mode)
    factor = MOST_SIDE / max(image.size)
    size = [round(side * factor) for side in image.size]
    return image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)


def _picture(image: Any) -> Picture:
    if isinstance(image, Picture):
        return image
    if isinstance(image, str | Path):
        try:
            content = Path(image).expanduser().read_bytes()
        except OSError as error:
            raise InputError(f"The picture {quoted(str(image))} cannot be read: {error.strerror or error}.") from None
        return read(Path(image).name, content)[0]
    if not isinstance(image, Image.Image):
        with_alpha = isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.shape[2:] == (4,)
        image = Image.fromarray(image if with_alpha else Picture.of(image).pixels.numpy())
    return _seen(image, "The picture")[0]
