"""Pictures from files: what is taken, what is changed in them and said, and what is refused in one sentence."""

import io

import numpy as np
import pytest
from PIL import Image

import attnviz
from attnviz.core.errors import InputError
from attnviz.files import images

RED = (200, 30, 30)


def content(image, format="PNG", **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
def test_a_picture_is_read_as_it_is(format):
    picture, notes = images.read("a", content(Image.new("RGB", (40, 20), RED), format))

    assert (picture.size, notes) == ((20, 40), ())
    assert abs(picture.pixels.numpy().astype(int) - RED).max() < 6


def test_exif_turns_it():
    """Orientation 6: the camera was turned; the first row of pixels is the right side."""
    image = Image.new("RGB", (40, 20), RED)
    exif = image.getexif()
    exif[0x0112] = 6
    assert images.read("a", content(image, "JPEG", exif=exif))[0].size == (40, 20)


def test_transparent_parts_are_white_and_that_is_said():
    picture, notes = images.read("a", content(Image.new("RGBA", (20, 20), (*RED, 0))))

    assert (picture.pixels == 255).all()
    assert notes == ("Its transparent parts are read as white.",)


def test_the_first_frame_of_an_animation_is_read_and_that_is_said():
    frames = [Image.new("RGB", (20, 20), color) for color in (RED, (0, 0, 255), (0, 255, 0))]
    moving = content(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=True)
    picture, notes = images.read("a", moving)

    assert picture.pixels[0, 0].tolist() == list(RED)
    assert notes == ("Of its 3 frames the first is read.",)


def test_colors_of_print_are_read_and_that_is_said():
    picture, notes = images.read("a", content(Image.new("CMYK", (20, 20), (0, 255, 255, 0)), "JPEG"))

    assert picture.pixels[0, 0, 0] > 200
    assert picture.pixels[0, 0, 1] < 60
    assert notes == ("Its colors, of print (CMYK), are read as those of a screen.",)


def test_a_large_picture_is_made_smaller_and_that_is_said():
    picture, notes = images.read("a", content(Image.new("RGB", (3000, 1500), RED)))

    assert picture.size == (1024, 2048)
    assert notes == ("It is read with 2,048 pixels at its longer side, of 3,000.",)


def test_100_megapixels_are_refused_before_they_are_decoded():
    with pytest.raises(InputError, match=r"'big.png' has 10,000 x 10,000 pixels; 40 million are the most"):
        images.read("big.png", content(Image.new("1", (10_000, 10_000))))
    with pytest.raises(InputError, match=r"'huge.png' has more than 40 million pixels"):
        images.read("huge.png", content(Image.new("1", (20_000, 20_000))))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"", "is no picture of PNG, JPEG or WebP"),
        (b"hello", "is no picture of PNG, JPEG or WebP"),
        (content(Image.new("RGB", (20, 20)), "GIF"), "is no picture of PNG, JPEG or WebP"),
        (content(Image.effect_noise((90, 90), 50))[:2000], "is damaged"),
        (content(Image.new("RGB", (1, 1))), "has 1 x 1 pixels; 8 x 8 are the least"),
    ],
    ids=["empty", "text", "gif", "cut", "tiny"],
)
def test_what_is_no_picture_is_refused_in_one_sentence(given, said):
    with pytest.raises(InputError, match=f"'cat.png' {said}"):
        images.read("cat.png", given)


def test_a_picture_may_be_a_path_an_image_or_numbers(tmp_path):
    image = Image.effect_noise((30, 20), 50).convert("RGB")
    image.save(tmp_path / "cat.png")

    assert attnviz.picture(tmp_path / "cat.png") == attnviz.picture(image) == attnviz.picture(np.asarray(image))
    assert len(attnviz.picture([image, image], "Which one?").pictures) == 2
    with pytest.raises(InputError, match=r"The picture .* cannot be read: No such file"):
        attnviz.picture(tmp_path / "dog.png")


def test_gray_of_16_bits_keeps_its_levels_and_that_is_said():
    numbers = (np.linspace(0, 65535, 400).reshape(20, 20)).astype(np.uint16)
    picture, notes = images.read("a.png", content(Image.fromarray(numbers)))

    assert abs(picture.pixels[..., 0].numpy().astype(int) - numbers // 256).max() <= 1
    assert notes == ("Its 65,536 levels of gray are read as 256.",)
