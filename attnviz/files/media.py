"""Read pictures (PNG, JPEG, WebP) and sounds (WAV) from files and arrays; sizes are checked before decoding."""

import ctypes
import io
import math
import warnings
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor

from attnviz.core.errors import InputError, quoted
from attnviz.core.places import SIDE, Picture, Sound
from attnviz.core.request import Request

FORMATS = ("PNG", "JPEG", "WEBP")
MOST_PIXELS = 40_000_000
MOST_SIDE, LEAST_SIDE = 2048, 8
"""Limits for the sides of a picture in pixels: larger pictures are reduced, smaller ones are refused."""
_decode_lock = Lock()
"""Lock for decoding, because a picture of 0.2 MB may need 500 MB while it is decoded."""
SOUND_ENDING = ".wav"
LONGEST, SHORTEST = 60.0, 0.1
"""Maximum and minimum length of a sound in seconds."""
RATES = (4_000, 192_000)
MOST_CHANNELS = 8
MOST_BYTES = int(LONGEST) * RATES[1] * MOST_CHANNELS * 8 + 2**16
"""Size of the longest sound with its header, in bytes."""
WINDOW = 0.025
"""Length of the time window for a column of a spectrogram, in seconds."""
BANDS = 64
"""Rows of a spectrogram: bands of equal width on the mel scale, the lowest at the bottom."""
RANGE = 80.0
"""Decibels from black to white."""


def picture(image: Any, text: str = "") -> Request:
    """Make a request with a picture, for `attnviz.analyze` and every source that reads pictures.

    Args:
        image: path of a PNG, JPEG or WebP file; a PIL image; an array (height, width, 3), or uint8 (height, width, 4)
            with transparency; or a list of these. All forms of a picture give the same request.
        text: question about the picture, for a model that reads pictures within a text.

    Raises:
        InputError: if it is not a picture, too large or too small; the message has the numbers.
    """
    images = image if isinstance(image, list | tuple) else [image]
    return Request((text,), pictures=(tuple(map(_picture, images)),))


def _picture(image: Any) -> Picture:
    """Convert a path, a PIL image or an array to a picture; raise the errors of `picture`."""
    if isinstance(image, Picture):
        return image
    if isinstance(image, str | Path):
        return read_picture(Path(image).name, _content("picture", image))[0]
    if not isinstance(image, Image.Image):
        with_alpha = isinstance(image, np.ndarray) and image.dtype == np.uint8 and image.shape[2:] == (4,)
        image = Image.fromarray(image if with_alpha else Picture.of(image).pixels.numpy())
    return _convert(image, "The picture")[0]


def _content(what: str, path: str | Path) -> bytes:
    """Read at most `MOST_BYTES` + 1 bytes of a file; errors name it `what`, "picture" or "sound"."""
    try:
        with Path(path).expanduser().open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"The {what} {quoted(str(path))} cannot be read: {error.strerror or error}.") from None


def read_picture(name: str, content: bytes) -> tuple[Picture, tuple[str, ...]]:
    """Read the picture in a file, with one sentence per change to it.

    The picture is rotated by its EXIF data, transparent parts become white, and the first of several frames is read.

    Raises:
        InputError: if it is not a PNG, JPEG or WebP picture, is damaged, or has too many or too few pixels.
    """
    what = quoted(name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(content), formats=FORMATS)
    except Image.DecompressionBombError:
        raise InputError(f"{what} has more than {MOST_PIXELS / 1e6:g} million pixels. Make it smaller.") from None
    except Exception:  # the library raises nearly anything for a damaged file
        raise InputError(f"{what} is not a PNG, JPEG or WebP picture; choose another file.") from None
    return _convert(image, what)


def _convert(image: Image.Image, what: str) -> tuple[Picture, tuple[str, ...]]:
    """Check the size of an image and decode it; return one sentence per change. Error messages begin with `what`."""
    width, height = image.size
    size, largest_ratio = f"{what} has {width:,} x {height:,} pixels", MOST_SIDE // LEAST_SIDE
    if width * height > MOST_PIXELS:
        raise InputError(f"{size}; at most {MOST_PIXELS / 1e6:g} million are read. Make it smaller.")
    if min(width, height) < LEAST_SIDE:
        raise InputError(f"{size}; it needs at least {LEAST_SIDE} x {LEAST_SIDE}.")
    if max(width, height) > min(width, height) * largest_ratio:
        raise InputError(f"{size}; one side is at most {largest_ratio} times the other. Crop it.")
    num_frames, is_large = getattr(image, "n_frames", 1), max(width, height) > MOST_SIDE
    changes = {
        f"Only the first of its {num_frames} frames is read.": num_frames > 1,
        "Its transparent parts are read as white.": image.has_transparency_data,
        "Its print colors (CMYK) are converted to RGB.": image.mode == "CMYK",
        "Its 65,536 levels of gray are read as 256.": image.mode.startswith("I"),
        f"Its longer side is reduced from {max(width, height):,} to {MOST_SIDE:,} pixels.": is_large,
    }
    notes = tuple(note for note, is_changed in changes.items() if is_changed)
    try:
        with _decode_lock:
            if is_large:  # reduced without large copies in memory
                if image.mode.startswith("I"):  # 16 bits of gray
                    image = image.point(lambda level: level / 256).convert("L")
                gray_or_color = "L" if image.mode == "L" else "RGB"
                mode = "RGBA" if image.has_transparency_data else gray_or_color
                image = image if image.mode == mode else image.convert(mode)
                size = [round(side * MOST_SIDE / max(image.size)) for side in image.size]
                image = image.resize(size, Image.Resampling.LANCZOS, reducing_gap=2.0)
            result = Picture.of(ImageOps.exif_transpose(image))
    except Exception:
        raise InputError(f"{what} is damaged; save it again, or choose another file.") from None
    if is_large:
        with suppress(OSError, AttributeError):  # give back 50 MB of freed memory, which the C library would keep
            ctypes.CDLL(None).malloc_trim(0)
    return result, notes


def sound(sound: Any, rate: int | None = None, text: str = "") -> Request:
    """Make a request with a sound (mean of its channels, shown as a spectrogram), for `attnviz.analyze` and sources.

    Args:
        sound: path of a WAV file, or samples, (n,) or (channels, n), which are floats from -1 to 1 or 16-bit integers.
        rate: sample rate in Hz; None for a file, which has its own.
        text: question about the sound, for a model that reads sounds within a text.

    Raises:
        InputError: if it is not a sound, too long or too short; the message has the numbers.
    """
    if isinstance(sound, str | Path):
        if rate is not None:
            raise InputError(f"A WAV file has its own rate; leave out {quoted(rate)}.")
        return Request((text,), pictures=((read_sound(Path(sound).name, _content("sound", sound)),),))
    if type(rate) is not int:
        raise InputError(f"The rate of a sound is {quoted(rate)}; give whole samples per second: sound(x, 16000).")
    try:
        samples = torch.as_tensor(sound).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"A sound is a WAV file or numbers (n,); given {quoted(type(sound).__name__)}.") from None
    if samples.dim() not in (1, 2) or samples.is_complex() or samples.dtype is torch.bool:
        numbers = f"{tuple(samples.shape)} numbers of {str(samples.dtype).removeprefix('torch.')}"
        raise InputError(f"A sound is (n,) or (channels, n) numbers; given {numbers}.")
    samples = samples.float() if samples.is_floating_point() else samples.float() / 2**15
    return Request((text,), pictures=((_sound("The sound", samples, rate),),))


def read_sound(name: str, content: bytes) -> Sound:
    """Read the sound in a WAV file with integers of 8 to 32 bits, or floats; channels are averaged.

    Raises:
        InputError: if the file is not such a WAV file, is cut short, or its sound is too long or too short.
    """
    from scipy.io import wavfile  # imported only for sounds

    what, remedy = quoted(name), "or choose another file."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", "Reached EOF", wavfile.WavFileWarning)
            rate, numbers = wavfile.read(io.BytesIO(content))
    except wavfile.WavFileWarning:
        raise InputError(f"{what} is cut. Save it again, {remedy}") from None
    except Exception:  # the library raises nearly anything for a damaged file
        raise InputError(f"{what} is not an uncompressed WAV file. Save it as 16-bit WAV, {remedy}") from None
    if numbers.dtype == np.uint8:  # 0 to 255 for -128 to 127: the first bit is inverted
        numbers = numbers.view(np.int8) ^ np.int8(-128)
    if numbers.dtype.kind == "i":
        numbers = numbers / 2.0 ** (8 * numbers.itemsize - 1)
    return _sound(what, torch.from_numpy(numbers.astype(np.float32).T), rate)


def _sound(what: str, samples: Tensor, rate: int) -> Sound:
    """Check a sound, (n,) or (channels, n), average its channels, and draw its spectrogram; errors name it `what`."""
    samples = samples if samples.dim() == 2 else samples[None]
    if samples.shape[0] > samples.shape[1] > 0:  # given as (n, channels)
        samples = samples.mT
    channels, count = samples.shape
    if not RATES[0] <= rate <= RATES[1]:
        raise InputError(f"{what} has {rate:,} samples per second; {RATES[0]:,} to {RATES[1]:,} are read.")
    if not 1 <= channels <= MOST_CHANNELS:
        raise InputError(f"{what} has {channels:,} channels; 1 to {MOST_CHANNELS} are read.")
    if not SHORTEST <= count / rate <= LONGEST:
        raise InputError(f"{what} lasts {count / rate:,.2f} s; it must last {SHORTEST:g} to {LONGEST:g} s.")
    samples = samples.mean(0)
    loudest = float(samples.abs().max())
    if not loudest <= 1.0:
        raise InputError(f"{what} has the value {loudest:g}; give floats from -1 to 1, or 16-bit integers.")
    return Sound(spectrogram(samples, rate), count / rate, samples=samples.contiguous(), rate=rate)


def spectrogram(samples: Tensor, rate: int) -> Tensor:
    """Compute the loudness of frequency bands over time as gray pixels, (bands, time, 3), uint8.

    Low frequencies are at the bottom; column c of n shows the c-th of n equal parts of the time.
    """
    columns = min(SIDE, math.ceil(len(samples) / rate / 0.01))
    samples_per_column = len(samples) / columns
    width = 2 ** math.ceil(math.log2(max(WINDOW * rate, samples_per_column)))  # of a window, in samples
    centers = ((torch.arange(columns) + 0.5) * samples_per_column).long()
    padded = torch.nn.functional.pad(samples, (width // 2, width))  # so that a window begins at its center's index
    windows = padded[centers[:, None] + torch.arange(width)] * torch.hann_window(width)
    power = torch.fft.rfft(windows).abs() ** 2
    # weight of each frequency in each band, (width // 2 + 1, bands): overlapping triangles, of equal width in mel
    highest = 2595 * math.log10(1 + rate / 2 / 700)  # formula of the mel scale
    edges = 700 * (10 ** (torch.linspace(0, highest, BANDS + 2) / 2595) - 1)
    frequencies = torch.linspace(0, rate / 2, width // 2 + 1)[:, None]
    rising = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    nearest = (edges[1:-1] / (rate / 2) * (width // 2)).round().long()
    bands = torch.minimum(rising, falling).clamp_min(0).scatter(0, nearest[None], 1.0)  # so that no band is empty
    loudness = 10 * torch.log10((power @ bands).clamp_min(1e-10))
    levels = ((loudness - loudness.max()) / RANGE + 1).clamp(0, 1) * 255
    return levels.round().to(torch.uint8).mT.flip(0)[..., None].expand(-1, -1, 3).contiguous()
