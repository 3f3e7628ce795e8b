"""Pictures from files: what is taken, what is changed in them and said, and what is refused in one sentence."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import attnviz
from attnviz.core.errors import InputError
from attnviz.files import media

RED = (200, 30, 30)
ROOT = Path(__file__).parents[1]


def content(image, format="PNG", **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
def test_a_picture_is_read_as_it_is(format):
    picture, notes = media.read_picture("a", content(Image.new("RGB", (40, 20), RED), format))

    assert (picture.size, notes) == ((20, 40), ())
    assert abs(picture.pixels.numpy().astype(int) - RED).max() < 6


FRAMES = [Image.new("RGB", (20, 20), color) for color in (RED, (0, 0, 255), (0, 255, 0))]
LEVELS = np.linspace(0, 65535, 400).reshape(20, 20).astype(np.uint16)


@pytest.mark.parametrize(
    ("file", "pixels", "note"),
    [
        (content(Image.new("RGBA", (20, 20), (*RED, 0))), 255, "Its transparent parts are read as white."),
        (
            content(FRAMES[0], "WEBP", save_all=True, append_images=FRAMES[1:], lossless=True),
            np.array(RED),
            "Only the first of its 3 frames is read.",
        ),
        (
            content(Image.new("CMYK", (20, 20), (0, 255, 255, 0)), "JPEG"),
            np.array([254, 0, 0]),
            "Its print colors (CMYK) are converted to RGB.",
        ),
        (content(Image.fromarray(LEVELS)), LEVELS[..., None] // 256, "Its 65,536 levels of gray are read as 256."),
    ],
    ids=["transparent", "frames", "print", "16 bits"],
)
def test_what_is_changed_in_a_picture_is_said(file, pixels, note):
    picture, notes = media.read_picture("a", file)

    assert abs(picture.pixels.numpy().astype(int) - pixels).max() <= 2
    assert notes == (note,)


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "P", "RGBA", "I;16"])
def test_a_large_picture_of_any_mode_keeps_its_colors(mode):
    """Turned by its EXIF, too: half of it is of one color and half of another."""
    image = Image.new("L", (3000, 1500))
    image.paste(255, (1500, 0, 3000, 1500))
    levels = np.asarray(image)
    image = Image.fromarray(levels.astype(np.uint16) * 257) if mode == "I;16" else image.convert(mode)
    exif = image.getexif()
    exif[0x0112] = 6
    pixels = media.read_picture("a", content(image, exif=exif))[0].pixels

    assert pixels.shape == (2048, 1024, 3)
    assert pixels[:1000].max() <= 2
    assert pixels[-1000:].min() >= 253


def test_pictures_are_decoded_one_at_a_time_and_not_larger_than_needed():
    """Eight pictures at once, each of 36 MB when decoded, do not need eight times the memory of one."""
    code = """
import io, resource
from concurrent.futures import ThreadPoolExecutor
from PIL import Image
from attnviz.files import media
file = io.BytesIO()
Image.new("RGBA", (3000, 3000), (9, 9, 9, 9)).save(file, "PNG")
media.read_picture("a.png", file.getvalue())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with ThreadPoolExecutor(8) as threads:
    kept = [*threads.map(lambda number: media.read_picture("a.png", file.getvalue())[0].size, range(8))]
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert int(done.stdout) < 150


def test_100_megapixels_are_refused_before_they_are_decoded():
    with pytest.raises(InputError, match=r"'big.png' has 10,000 x 10,000 pixels; at most 40 million are read"):
        media.read_picture("big.png", content(Image.new("1", (10_000, 10_000))))
    with pytest.raises(InputError, match=r"'huge.png' has more than 40 million pixels"):
        media.read_picture("huge.png", content(Image.new("1", (20_000, 20_000))))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"", "is not a PNG, JPEG or WebP picture"),
        (b"hello", "is not a PNG, JPEG or WebP picture"),
        (content(Image.new("RGB", (20, 20)), "GIF"), "is not a PNG, JPEG or WebP picture"),
        (content(Image.effect_noise((90, 90), 50))[:2000], "is damaged"),
        (content(Image.new("RGB", (1, 1))), "has 1 x 1 pixels; it needs at least 8 x 8"),
        (content(Image.new("1", (4_999_999, 8))), "has 4,999,999 x 8 pixels; one side is at most 256 times the other"),
    ],
    ids=["empty", "text", "gif", "cut", "tiny", "strip"],
)
def test_what_is_no_picture_is_refused_in_one_sentence(given, said):
    with pytest.raises(InputError, match=f"'cat.png' {said}"):
        media.read_picture("cat.png", given)


def test_a_picture_may_be_a_path_an_image_or_numbers(tmp_path):
    image = Image.effect_noise((30, 20), 50).convert("RGB")
    image.save(tmp_path / "cat.png")

    assert attnviz.picture(tmp_path / "cat.png") == attnviz.picture(image) == attnviz.picture(np.asarray(image))
    assert len(attnviz.picture([image, image], "Which one?").pictures[0]) == 2
    with pytest.raises(InputError, match=r"The picture .* cannot be read: No such file"):
        attnviz.picture(tmp_path / "dog.png")


NOISE = np.random.RandomState(0).randint(0, 256, (20, 31, 4)).astype(np.uint8)


@pytest.mark.parametrize(
    "image",
    [
        Image.fromarray(NOISE),
        Image.fromarray(NOISE[..., :3]),
        Image.fromarray(NOISE[..., 0]),
        Image.fromarray(NOISE[..., 0] > 100),
        Image.fromarray(NOISE[..., 0].astype(np.uint16) * 256 + NOISE[..., 1]),
        Image.fromarray(NOISE[..., :3].repeat(100, 0)),
    ],
    ids=["transparent", "colors", "gray", "black and white", "16 bits", "large"],
)
def test_a_picture_is_one_as_a_file_an_image_and_numbers(image, tmp_path):
    """And as a tensor, where PyTorch has a number type for it."""
    image.save(tmp_path / "cat.png")
    by_file, numbers = attnviz.picture(tmp_path / "cat.png"), np.asarray(image)

    assert by_file == attnviz.picture(image) == attnviz.picture(numbers)
    assert numbers.shape[2:] == (4,) or attnviz.picture(torch.tensor(numbers)) == by_file


def test_exif_turns_an_image_as_its_file(tmp_path):
    image = Image.fromarray(NOISE[..., :3])
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(tmp_path / "cat.jpg", exif=exif)

    with Image.open(tmp_path / "cat.jpg") as again:
        assert attnviz.picture(again) == attnviz.picture(tmp_path / "cat.jpg")
        assert attnviz.picture(again).pictures[0][0].size == (31, 20)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        (np.full((20, 20, 3), 300), "whole numbers from 0 to 255, .* given int64 with 300"),
        (np.full((20, 20, 3), 256, np.uint32), "given uint32 with 256"),
        (np.full((20, 20, 3), -1, np.int8), "given int8 with -1"),
        (np.full((20, 20, 3), np.inf), "given float64 with inf"),
        (np.zeros((20, 20, 3), complex), "A picture is a PIL image or .height, width, 3. numbers; given 'ndarray'"),
        (np.zeros((4, 5, 3)), "The picture has 5 x 4 pixels; it needs at least 8 x 8"),
        (Image.new("L", (9000, 9000)), "The picture has 9,000 x 9,000 pixels; at most 40 million are read"),
    ],
    ids=["300", "256", "-1", "infinite", "complex", "tiny", "huge"],
)
def test_numbers_that_are_no_picture_are_refused(numbers, said):
    """None wraps to another color."""
    with pytest.raises(InputError, match=said):
        attnviz.picture(numbers)
