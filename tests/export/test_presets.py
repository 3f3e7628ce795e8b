"""Pictures for a paper, a slide and a web page."""

import re
from io import BytesIO

import numpy as np
import pytest
from pictures import SITE, record_of, story_of
from PIL import Image

import attnviz
from attnviz import export, figures
from attnviz.core.edits import Edits, Site
from attnviz.export import PRESETS
from attnviz.export.formats import POINTS_PER_INCH

ONE = "in one column (3.35 in) its text would be smaller than 6 pt."
FEW, MANY = ["The", "cat", "sat"], [f"w{i}" for i in range(60)]


def svg(words, preset, off=False, **drawn):
    record = record_of(words, edits=Edits(heads_off=frozenset({(SITE, 1)} if off else ())))
    return rendered(figures.head(record, SITE, 0, **drawn), preset)


def rendered(figure, preset):
    return export.render(figure, "svg", preset=preset).decode()


def inches(picture):
    return tuple(
        float(side) / POINTS_PER_INCH for side in re.search(r'width="(.*?)pt" height="(.*?)pt"', picture).groups()
    )


def points(picture):
    """Size of the text, which is 12 units high in the view."""
    return 12 * inches(picture)[0] * POINTS_PER_INCH / float(re.search(r'viewBox="0 0 ([\d.]+)', picture)[1])


def texts(picture):
    return re.sub("<[^>]*>", "", picture.split("</style>")[1])


@pytest.fixture(scope="module")
def every():
    """Figures of each layout: maps, lines, thumbnails, words in cells."""
    story = attnviz.analyze("The cat sat on the mat because it was so tired", "story", stream=True)
    site = Site("decoder", 1)
    return {
        "predicts": figures.head(story, site, 0),
        "many": figures.head(record_of(MANY), SITE, 0),
        "lines": figures.lines(story, site, (0,)),
        "heads": figures.heads(story, site),
        "twelve": figures.overview(record_of(FEW, heads=12)),
        "lens": figures.logit_lens(story),
        "pushed": figures.pushed(story, site, 0),
        "contributions": figures.contributions(story, token="sat"),
    }


def test_a_picture_for_a_paper_takes_one_column_or_two_and_says_so(every):
    """Two only where its text would be smaller than 6 points in one."""
    for figure in every.values():
        picture, said = rendered(figure, "paper"), export.notes(figure, "paper")
        width = inches(picture)[0]

        if width > 3.351:
            assert width <= 6.901
            assert points(picture) * 3.35 / width < 6
            assert said == [f"The picture takes two columns ({width:.1f} in): {ONE}"]
        else:
            assert points(picture) >= 5.999
            assert said == []
    assert {name for name, figure in every.items() if export.notes(figure, "paper")} == {"twelve"}


@pytest.mark.parametrize("preset", PRESETS)
def test_no_picture_is_wider_or_higher_than_the_preset(every, preset):
    """A map is as high as wide; a slide is not."""
    for figure in every.values():
        width, height = inches(rendered(figure, preset))

        assert width <= PRESETS[preset].inches[1] + 0.001
        assert height <= PRESETS[preset].high + 0.001


def test_the_title_is_left_out_of_a_paper_alone():
    """The caption has the text of the title and the changes."""
    assert "Head 0 of encoder layer 0" not in texts(svg(FEW, "paper"))
    for preset in ("slide", "web"):
        said = texts(svg(FEW, preset, off=True))
        for part in ("Head 0 of encoder layer 0", "random weights", "changed: head 1 of encoder layer 0 off"):
            assert part in said


def test_the_legend_of_a_slide_stands_right_of_the_map_and_of_the_words_that_it_predicts(every):
    """In the lower part of the picture from left to right map, words and, after the only wide gap, the legend."""
    pixels = np.asarray(Image.open(BytesIO(export.render(every["predicts"], "png", preset="slide"))).convert("L"))
    height, width = pixels.shape
    ink = (pixels[int(0.42 * height) :] < 250).any(0)
    starts = np.flatnonzero(np.diff(np.concatenate([[False], ink])) & ink)
    gaps = [start - np.flatnonzero(ink[:start])[-1] for start in starts[1:]]

    assert width > height
    assert sum(gap > 0.03 * width for gap in gaps) == 1


def test_the_caption_says_model_text_layer_head_and_edits():
    """And that nothing was changed, where that is so."""
    off = Edits(heads_off=frozenset({(SITE, 1)}))
    plain, changed = (figures.head(record_of(FEW, edits=edits), SITE, 0).caption for edits in (Edits(), off))

    about = "Head 0 of encoder layer 0, test, random weights: shows the mechanics, not meaning, original model."
    assert plain == f"{about} Row: the word that looks; column: the word looked at. Text: “The cat sat”."
    assert "changed: head 1 of encoder layer 0 off" in changed
    reads = "Row: the word just read, where the model predicts the next one; column: the word looked at."
    assert reads in figures.head(story_of(["the", "cat"], {"cat": 1.0}, {"sat": 1.0}), SITE, 0).caption
    assert "original" not in changed


def test_a_png_for_a_paper_has_300_pixels_per_inch_unless_a_size_is_asked_for():
    """72 pixels per inch would blur in print. The file name has the purpose."""
    figure = figures.head(record_of(FEW), SITE, 0)
    width, twice = (Image.open(BytesIO(export.render(figure, "png", preset="paper", scale=n))).width for n in (1, 2))

    assert width == pytest.approx(twice / 144 * 300, abs=2)
    assert export.filename(figure, "png", preset="paper", scale=2).endswith("-paper@2x.png")
