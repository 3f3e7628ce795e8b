"""The picture whose patches a model read, shaded by the attention from one of them, or to it."""

import json
import re
from dataclasses import replace

import pytest
import torch
from pictures import data, draw
from PIL import Image
from seeing import PICTURE, Finder, Sees, seen_by

import attnviz
from attnviz import figures
from attnviz.core.edits import Site
from attnviz.core.errors import AttnvizError, InputError
from attnviz.core.places import Box, Picture, grid
from attnviz.core.tokens import Sentence, Token
from attnviz.figures.patches import DOT, STRONGEST, frames_of

CELLS = "cells"
SITE = Site("encoder", 0)


@pytest.fixture(scope="module")
def record():
    """Make a record of a picture of 3 x 5 patches, with one position before them."""
    return seen_by(Sees(), PICTURE).record(places=(3, 5), image=PICTURE)


def cells(figure):
    """The positions of where it stands, and of where it looks: words before patches."""
    both = [*data(figure.chart, "words"), *data(figure.chart, CELLS)]
    return [row for row in both if row["end"] == 0], [row for row in both if row["end"] == 1]


def test_positions_are_patches_row_by_row(record):
    """After what is no patch, which is special; the picture is kept with it."""
    assert record.sentences[0].labels[:3] == ("[CLS]", "row0·col0", "row0·col1")
    assert record.sentences[0].labels[-1] == "row2·col4"
    assert [token.special for token in record.sentences[0].tokens[:2]] == [True, False]
    assert record.sentences[0].tokens[0].box is None
    assert record.sentences[0].tokens[8].box == Box(2 / 5, 1 / 3, 3 / 5, 2 / 3)
    assert record.sentences[0].pictures[0].size == (30, 50)


def test_a_patch_has_the_more_tint_the_more_attention_it_gets(record):
    """As a share of the largest weight, over the picture as it is; the chosen patch is outlined on both pictures."""
    figure = figures.patches(record, SITE, 1, chosen=8, domain="shared")
    plain, shaded = cells(figure)
    weights = record.step(SITE).weights(1)[8]
    top = max(float(record.step(SITE).weights(head).max()) for head in range(3))

    assert [row["cover"] for row in shaded[1:]] == pytest.approx((STRONGEST * weights[1:] / top).tolist(), abs=1e-6)
    assert {row["cover"] for row in plain[1:]} == {0.0}
    assert [row for row in plain + shaded if row["stroke_width"] == 2.5] == [plain[8], shaded[8]]
    assert (shaded[8]["x"], shaded[8]["y"]) == pytest.approx((2 / 5, 1 / 3))
    assert figure.arrays["weights"].shape == (16,)
    assert figure.table["query"].unique().tolist() == [8]
    assert "looks most at" in figure.description


def test_the_picture_is_in_the_file_itself(record):
    """As a data URI: what draws files fetches nothing; and it is drawn."""
    figure = figures.patches(record, SITE, 0, chosen=3)
    (first, second) = data(figure.chart, "pictures")

    assert first["uri"] == second["uri"]
    assert first["uri"].startswith("data:image/jpeg;base64,")
    (pixels,) = draw(figure.chart.to_dict())
    assert (abs(pixels - [200, 40, 40]).max(-1) < 30).sum() > 500  # its red part
    assert "http" not in json.dumps(data(figure.chart, "pictures"))


def test_without_a_picture_the_grid_is_colored():
    """By the ramp, with its legend, and once."""
    record = seen_by(Sees(), PICTURE).record(places=(3, 5))
    figure = figures.patches(record, SITE, 0, chosen=3)

    assert [len(part) for part in cells(figure)] == [0, 16]
    assert data(figure.chart, "pictures") == []
    assert "gradient" in json.dumps(figure.form.spec)


def test_queries_of_a_detector_look_at_a_picture():
    """Cross-attention from numbers to patches: what stands at one end is on the picture, the other in a line."""
    record = seen_by(Finder(), PICTURE).record(places=(3, 5), image=PICTURE)
    site = Site("cross", 0)
    figure = figures.patches(record, site, 0, chosen=2)

    assert record.tokens(site)[0][2].text == "2"
    assert record.tokens(site)[1][2].text == "row0·col2"
    assert [len(part) for part in cells(figure)] == [4, 15]
    assert len(data(figure.chart, "pictures")) == 1
    assert figures.on_grid(record, site)
    assert not figures.on_grid(record, Site("decoder", 0))
    with pytest.raises(InputError, match=r"Neither queries nor keys of decoder layer 0 are patches"):
        figures.patches(record, Site("decoder", 0), 0)


@pytest.mark.parametrize(
    "image",
    [
        PICTURE,
        PICTURE * 2 - 1,
        (PICTURE * 255).to(torch.uint8),
        PICTURE.permute(1, 2, 0).numpy(),
        Image.fromarray((PICTURE.permute(1, 2, 0) * 255).to(torch.uint8).numpy()),
    ],
    ids=["floats", "normalized", "bytes", "numpy", "PIL"],
)
def test_what_a_picture_may_be(image):
    """Numbers in either order of axes, or of PIL."""
    kept = Picture.of(image).pixels
    assert kept.dtype is torch.uint8
    normalized = isinstance(image, torch.Tensor) and image.min() < 0
    assert kept[0, 0].tolist() == pytest.approx([255, 0, 0] if normalized else [200, 40, 40], abs=2)


@pytest.mark.parametrize(
    ("grid", "image", "said"),
    [
        ((14, 14), None, "A grid of 14 x 14 has 196 patches, and the attention calls have 16 positions"),
        ((3,), None, "it has two whole numbers, rows and columns"),
        ((3, 5), "picture.png", "A picture is a PIL image"),
        ((3, 5), [PICTURE, PICTURE], "There are 2 pictures for 1 sentences"),
        ((3, 5), torch.rand(7), r"A picture is a PIL image or \(height, width, 3\) numbers; given \(7,\) numbers"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(grid, image, said):
    with pytest.raises(InputError, match=said):
        seen_by(Sees(), PICTURE).record(places=grid, image=image)


def test_a_picture_is_in_the_file_of_a_record(record, tmp_path):
    """As it is drawn, with the places of its patches; a file that says something else is refused."""
    attnviz.save(record, tmp_path / "sees.attn")
    again = attnviz.read(tmp_path / "sees.attn")

    assert again.sentences == record.sentences
    (sentence,) = record.sentences
    for box, said in ((Box(0.5, 0, 0.4, 1), "outside"), (Box(0, 0, 1, 1, 3), "a picture that is missing")):
        tokens = (*sentence.tokens[:-1], replace(sentence.tokens[-1], box=box))
        attnviz.save(replace(record, sentences=(replace(sentence, tokens=tokens),)), tmp_path / "wrong.attn")
        with pytest.raises(AttnvizError, match=said):
            attnviz.read(tmp_path / "wrong.attn")


def test_a_picture_read_whole_and_in_tiles_is_drawn_for_each():
    """Else the tint over a patch of the whole would cover those of its tiles."""
    boxes = [*grid(2, 4), *grid(2, 2), *grid(1, 1, picture=1)]
    tokens = tuple(Token(f"{i}", i, 0, 0, box=box) for i, box in enumerate(boxes))
    picture = Picture.of(PICTURE)
    frames = frames_of(Sentence("", tokens, len(tokens), (picture, picture)))

    assert [frame.boxes for frame in frames] == [tuple(boxes[:8]), tuple(boxes[8:12]), tuple(boxes[12:])]
    assert len({(frame.x, frame.y) for frame in frames}) == 3


@pytest.fixture(scope="module")
def heard():
    """A sound of 2 s, of which positions of 0.1 s are heard, and 40 more in the padding after it."""
    sound = attnviz.sound(torch.sin(torch.arange(16_000) / 3), 8_000).pictures[0][0]
    boxes = [Box(i / 20, 0, (i + 1) / 20, 1) for i in range(20)] + [None] * 40
    tokens = tuple(Token(f"{i / 10:.2f} s", i, 0, 0, special=box is None, box=box) for i, box in enumerate(boxes))
    record = attnviz.from_arrays(torch.rand(1, 60, 60).softmax(-1))
    return replace(record, sentences=(Sentence("a sound", tokens, 60, (sound,)),))


def test_a_spectrogram_has_its_seconds_below_it(heard):
    """On its axis, at round numbers; what pads the sound is small dots below them, without names."""
    figure = figures.patches(heard, SITE, 0, chosen=5)
    _, shaded = cells(figure)
    axes = [*re.findall(r'"values": (\[[^]]*\]).{0,40}', json.dumps(figure.form.spec))]

    assert json.loads(axes[0]) == [0, 0.25, 0.5, 0.75, 1]
    assert "datum.value * 2.0" in json.dumps(figure.form.spec)
    assert shaded[40 + 10]["x"] == 0.5
    assert {(row["text"], row["x2"] - row["x"]) for row in shaded[:40]} == {("", DOT)}
