"""Sounds from files, WAV without compression, which may be anybody's, and from numbers; and their spectrograms."""

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnviz.core.errors import InputError, quoted, readable
from attnviz.core.places import SIDE, Sound
from attnviz.core.request import Request

ENDING = ".wav"
LONGEST, SHORTEST = 60.0, 0.1
"""Seconds of a sound."""
RATES = (4_000, 192_000)
MOST_CHANNELS = 8
FLOAT, EXTENSIBLE = 3, 0xFFFE
"""Types of the numbers in a WAV file."""
WIDTHS = {1: (1, 2, 3, 4), FLOAT: (4, 8)}
"""Bytes of a sample, by the type of the numbers; 1 is whole numbers."""
MOST_BYTES = int(LONGEST) * RATES[1] * MOST_CHANNELS * 8 + 2**16
"""Of the longest sound with its header."""
WINDOW = 0.025
"""Seconds of sound that a column of a spectrogram hears."""
BANDS = 64
"""Rows of a spectrogram: bands of one width on the mel scale, the lowest below."""
RANGE = 80.0
"""Decibels between black and white."""


def sound(sound: Any, rate: int | None = None, text: str = "") -> Request:
    """A sound in the place of a text, for `attnviz.analyze` and each source that hears; its picture is a spectrogram.

    Args:
        sound: a WAV file by its path; or numbers, (n,) or (channels, n): floats within -1 and 1, or whole numbers of
            16 bits. Several channels are mixed down.
        rate: of the numbers, in Hz; a file says it itself.
        text: what is asked about it, of a model that hears within a text.

    Raises:
        InputError: if it is no sound, or too long or too short, with the numbers.
    """
    if not isinstance(sound, str | Path):
        if type(rate) is not int:
            raise InputError(f"The rate of a sound is {quoted(rate)}; give whole samples per second: sound(x, 16000).")
        return Request((text,), pictures=((_of_numbers(sound, rate),),))
    if rate is not None:
        raise InputError(f"A WAV file says its rate itself; leave out {quoted(rate)}.")
    try:
        with Path(sound).expanduser().open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"The sound {quoted(str(sound))} cannot be read: {error.strerror or error}.") from None
    return Request((text,), pictures=((read(Path(sound).name, content),),))


def read(name: str, content: bytes) -> Sound:
    """The sound of a WAV file of whole numbers of 8 to 32 bits, or of floats, its channels mixed down.

    Raises:
        InputError: if it is none, is cut, or too long or too short.
    """
    what = quoted(name)
    with readable(name):
        form, data, announced = _chunks(what, content)
        number_type, channels, rate, _, frame, _ = struct.unpack_from("<HHIIHH", form)
        if number_type == EXTENSIBLE:  # the type stands behind
            (number_type,) = struct.unpack_from("<H", form, 24)
        if number_type not in WIDTHS:
            raise _no_wav(what, f" (its numbers are of type {number_type})")
        _check(what, channels, rate, announced // max(frame, 1))
        width, widths = frame // channels, WIDTHS[number_type]
        if width not in widths:
            bits = f"{8 * widths[0]} to {8 * widths[-1]}"
            raise InputError(f"{what} has samples of {8 * width} bits; {bits} are read. Save it with 16.")
        if len(data) < announced:
            missing = f"{announced // frame:,} samples are announced, {len(data) // frame:,} are there"
            raise InputError(f"{what} is cut: {missing}. Save it again, or choose another file.")
        samples = _decoded(data[: len(data) // frame * frame], width, is_float=number_type == FLOAT)
        return _sound(what, samples.reshape(-1, channels).mean(1), rate)


def _chunks(what: str, content: bytes) -> tuple[bytes, bytes, int]:
    """The form of the samples in a WAV file, their bytes, and how many bytes are announced."""
    position, chunks = 12, {}
    while position + 8 <= len(content) and b"data" not in chunks:
        name, size = struct.unpack_from("<4sI", content, position)
        chunks[name] = content[position + 8 : position + 8 + size], size
        position += 8 + size + size % 2
    if (content[:4], content[8:12]) != (b"RIFF", b"WAVE") or not {b"fmt ", b"data"} <= chunks.keys():
        raise _no_wav(what)
    return chunks[b"fmt "][0], *chunks[b"data"]


def _no_wav(what: str, why: str = "") -> InputError:
    how = "Save it as WAV of 16 bits, or choose another file"
    return InputError(f"{what} is no WAV file without compression{why}. {how}.")


def _decoded(data: bytes, width: int, *, is_float: bool) -> Tensor:
    """Numbers of a WAV file as floats within -1 and 1; whole numbers of 8 bits have no sign."""
    if is_float:
        return torch.from_numpy(np.frombuffer(data, f"<f{width}").astype(np.float32))
    if width == 1:
        return (torch.from_numpy(np.frombuffer(data, np.uint8).astype(np.float32)) - 128) / 128
    if width == 3:  # the upper three bytes of four
        padded = np.zeros((len(data) // 3, 4), np.uint8)
        padded[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        data, width = padded.tobytes(), 4
    numbers = np.frombuffer(data, f"<i{width}").astype(np.float64) / 2.0 ** (8 * width - 1)
    return torch.from_numpy(numbers.astype(np.float32))


def _of_numbers(numbers: Any, rate: int) -> Sound:
    try:
        samples = torch.as_tensor(numbers).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"A sound is a WAV file or numbers (n,); given {quoted(type(numbers).__name__)}.") from None
    if samples.dim() not in (1, 2) or samples.is_complex() or samples.dtype is torch.bool:
        what = f"{tuple(samples.shape)} numbers of {str(samples.dtype).removeprefix('torch.')}"
        raise InputError(f"A sound is (n,) or (channels, n) numbers; given {what}.")
    samples = samples if samples.dim() == 2 else samples[None]
    samples = samples.mT if samples.shape[0] > samples.shape[1] > 0 else samples
    _check("The sound", samples.shape[0], rate, samples.shape[1])
    if not samples.is_floating_point():
        samples = samples.float() / 2**15
    return _sound("The sound", samples.float().mean(0), rate)


def _check(what: str, channels: int, rate: int, frames: int) -> None:
    """Raises: InputError: if there are too many or too few of something, with both numbers."""
    if not RATES[0] <= rate <= RATES[1]:
        raise InputError(f"{what} has {rate:,} samples per second; {RATES[0]:,} to {RATES[1]:,} are read.")
    if not 1 <= channels <= MOST_CHANNELS:
        raise InputError(f"{what} has {channels:,} channels; 1 to {MOST_CHANNELS} are read.")
    if not SHORTEST <= frames / rate <= LONGEST:
        raise InputError(f"{what} lasts {frames / rate:,.2f} s; {SHORTEST:g} to {LONGEST:g} s are read. Cut it.")


def _sound(what: str, samples: Tensor, rate: int) -> Sound:
    loudest = float(samples.abs().max())
    if not loudest <= 1.0:
        raise InputError(f"{what} has the number {loudest:g}; give floats within -1 and 1, or 16-bit whole numbers.")
    return Sound(spectrogram(samples, rate), len(samples) / rate, samples=samples.contiguous(), rate=rate)


def spectrogram(samples: Tensor, rate: int) -> Tensor:
    """Loudness of bands of frequencies over time as gray pixels, (bands, time, 3), uint8, low frequencies below.

    Column c of n is of the c-th of n equal parts of the time.
    """
    columns = min(SIDE, math.ceil(len(samples) / rate / 0.01))
    hop = len(samples) / columns
    width = 2 ** math.ceil(math.log2(max(WINDOW * rate, hop)))
    starts = ((torch.arange(columns) + 0.5) * hop).long()
    around = torch.nn.functional.pad(samples, (width // 2, width))
    parts = around[starts[:, None] + torch.arange(width)] * torch.hann_window(width)
    power = torch.fft.rfft(parts).abs() ** 2
    loudness = 10 * torch.log10((power @ _bands(width, rate)).clamp_min(1e-10))
    levels = ((loudness - loudness.max()) / RANGE + 1).clamp(0, 1) * 255
    return levels.round().to(torch.uint8).mT.flip(0)[..., None].expand(-1, -1, 3).contiguous()


def _bands(width: int, rate: int) -> Tensor:
    """Share of each frequency of a Fourier transform in each band, (width // 2 + 1, bands): triangles that overlap."""
    top = 2595 * math.log10(1 + rate / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, BANDS + 2) / 2595) - 1)
    frequencies = torch.linspace(0, rate / 2, width // 2 + 1)[:, None]
    rising = (frequencies - edges[:-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[2:] - frequencies) / (edges[2:] - edges[1:-1])
    bands = torch.minimum(rising, falling).clamp_min(0)
    nearest = (edges[1:-1] / (rate / 2) * (width // 2)).round().long()
    return bands.scatter(0, nearest[None], 1.0)  # none is without a frequency
