"""Sounds from WAV files and numbers, and their spectrograms."""

import io
import struct
import wave

import numpy as np
import pytest
import torch

import attnviz
from attnviz.core.errors import InputError
from attnviz.files import media

RATE = 8_000
WAVES = np.sin(np.arange(RATE // 2) * 2 * np.pi * 440 / RATE)

FORM = b"fmt \x10\0\0\0\x01"


def wav(width=2, channels=1, rate=RATE, samples=WAVES):
    """Write a WAV file whose channels hold the samples, each half as loud as the channel before."""
    columns = np.stack([samples / 2**channel for channel in range(channels)], 1).flatten()
    whole = np.round(columns * (2 ** (8 * width - 1) - 1)).astype(np.int64)
    data = (
        (whole + 128).astype(np.uint8).tobytes()
        if width == 1
        else b"".join(int(number).to_bytes(width, "little", signed=True) for number in whole)
    )
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((channels, width, rate, 0, "NONE", ""))
        out.writeframes(data)
    return file.getvalue()


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_samples_of_every_width_are_read(width):
    sound = media.read_sound("tone.wav", wav(width))

    assert (sound.rate, sound.seconds) == (RATE, 0.5)
    assert np.abs(sound.samples.numpy() - WAVES).max() < 2.0 ** (2 - 8 * width) + 1e-6


@pytest.mark.parametrize("number_type", ["<f4", "<f8"])
@pytest.mark.parametrize("extensible", [False, True])
def test_floats_and_the_extensible_form_are_read(number_type, extensible):
    """As editors of sounds write them; a chunk of notes before the samples is skipped."""
    width, kind = np.dtype(number_type).itemsize, 0xFFFE if extensible else 3
    form = struct.pack("<HHIIHH", kind, 1, RATE, RATE * width, width, 8 * width)
    guid = struct.pack("<HHIH", 22, 8 * width, 4, 3) + bytes.fromhex("000000001000800000aa00389b71")
    parts = {
        b"fmt ": form + guid if extensible else form,
        b"LIST": b"odd",
        b"data": WAVES.astype(number_type).tobytes(),
    }
    body = b"".join(
        name + struct.pack("<I", len(part)) + part + b"\0" * (len(part) % 2) for name, part in parts.items()
    )
    sound = media.read_sound("tone.wav", b"RIFF" + struct.pack("<I", len(body) + 4) + b"WAVE" + body)

    assert (sound.rate, sound.seconds) == (RATE, 0.5)
    assert np.allclose(sound.samples, WAVES, atol=1e-7)


def test_channels_are_mixed_down(tmp_path):
    """From a file and from numbers, in either order of axes."""
    (tmp_path / "tone.wav").write_bytes(wav(4, channels=2))
    mixed = attnviz.sound(tmp_path / "tone.wav").pictures[0][0].samples
    both = np.stack([WAVES, WAVES / 2])

    assert np.allclose(mixed, WAVES * 0.75, atol=1e-6)
    for numbers in (both, both.T, torch.tensor(both * 32767).to(torch.int16)):
        assert torch.allclose(attnviz.sound(numbers, RATE).pictures[0][0].samples, mixed, atol=1e-4)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "'a.wav' is not an uncompressed WAV file. Save it as 16-bit WAV"),
        (b"ID3 an mp3", "'a.wav' is not an uncompressed WAV file"),
        (wav()[:-100], "'a.wav' is cut. Save it again"),
        (wav(rate=1_000), "'a.wav' has 1,000 samples per second; 4,000 to 192,000 are read"),
        (wav(channels=9), "'a.wav' has 9 channels; 1 to 8 are read"),
        (wav(samples=WAVES[:80]), "'a.wav' lasts 0.01 s; it must last 0.1 to 60 s"),
        (wav(1, samples=np.zeros(RATE * 61)), "'a.wav' lasts 61.00 s; it must last 0.1 to 60 s."),
        (wav().replace(FORM, FORM[:-1] + b"\x06"), "'a.wav' is not an uncompressed WAV file"),
        (wav().replace(FORM, FORM[:-1] + b"\x03"), "'a.wav' is not an uncompressed WAV file"),
        (wav(4, samples=WAVES).replace(FORM, FORM[:-1] + b"\x03"), "'a.wav' has the value nan; give floats from -1"),
    ],
)
def test_what_is_no_sound_says_so(content, sentence):
    with pytest.raises(InputError, match=sentence):
        media.read_sound("a.wav", content)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((WAVES,), "The rate of a sound is None; give whole samples per second"),
        ((WAVES * 3, RATE), "The sound has the value 3; give floats from -1 to 1"),
        ((WAVES * np.nan, RATE), "The sound has the value nan"),
        ((WAVES.reshape(1, 1, -1), RATE), r"numbers; given \(1, 1, 4000\) numbers of float64"),
        (({}, RATE), "A sound is a WAV file or numbers .*given 'dict'"),
        (("there-is-none.wav",), "'there-is-none.wav' cannot be read: No such file"),
        (("there-is-none.wav", RATE), "A WAV file has its own rate"),
        ((np.zeros(0), RATE), "The sound lasts 0.00 s"),
    ],
)
def test_numbers_that_are_no_sound_say_so(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        attnviz.sound(*arguments)


def test_a_spectrogram_is_bright_where_and_when_there_is_sound():
    """Two tones one after the other: the higher one later and further up; silence is dark."""
    time = np.arange(RATE) / RATE
    samples = np.sin(2 * np.pi * np.where(time < 0.5, 300, 2400) * time) * ((time < 0.3) | (time > 0.6))
    pixels = media.spectrogram(torch.tensor(samples).float(), RATE)[..., 0].int()
    low, high = pixels[:, 15], pixels[:, 80]

    assert pixels.shape == (media.BANDS, 100)
    assert int(low.argmax()) > int(high.argmax()) + 10
    assert min(int(low.max()), int(high.max())) > 230
    assert int(pixels[:, 40:55].max()) < 40


def test_a_moment_of_a_long_sound_has_its_place():
    """Columns hear all of the time, also where each is of many samples."""
    samples = torch.zeros(60 * RATE)
    samples[int(45.5 * RATE)] = 1
    loud = media.spectrogram(samples, RATE)[..., 0].float().amax(0)

    assert (loud > 200).sum() in (1, 2)
    assert int(loud.argmax()) == pytest.approx(45.5 / 60 * len(loud), abs=1)
