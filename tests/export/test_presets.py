"""Pictures for a paper, a slide and a web page."""

import base64
import html
import re
from io import BytesIO

import pytest
from fontTools.ttLib import TTFont
from pictures import SITE, record_of, story_of
from PIL import Image

from attnviz import export, figures
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError
from attnviz.export import PRESETS

FEW, MANY = ["The", "cat", "sat"], [f"w{i}" for i in range(60)]


def svg(words, preset, off=False, **drawn):
    record = record_of(words, edits=Edits(heads_off=frozenset({(SITE, 1)} if off else ())))
    return export.render(figures.head(record, SITE, 0, **drawn), "svg", preset=preset).decode()


def width_of(picture):
    return float(re.search(r'width="([\d.]+)pt"', picture)[1])


@pytest.mark.parametrize("words", [FEW, MANY])
def test_a_picture_for_a_paper_fits_a_column_with_text_of_8_points(words):
    """3.35 inches; its text is 12 units high in a view that is drawn two thirds as large."""
    picture = svg(words, "paper")
    view = float(re.search(r'viewBox="0 0 ([\d.]+)', picture)[1])

    assert width_of(picture) <= 3.35 * 72
    assert width_of(picture) / view == pytest.approx(8 / 12, rel=1e-3)


def test_the_title_is_left_out_of_a_paper_alone():
    """What it says, and what was changed, is in the caption."""
    title = "Head 0 of encoder layer 0"

    assert title not in re.sub("<[^>]*>", "", svg(FEW, "paper").split("</desc>")[1])
    for preset in ("slide", "web"):
        said = re.sub("<[^>]*>", "", svg(FEW, preset, off=True).split("</desc>")[1])
        assert title in said
        assert "random weights" in said
        assert "changed: head 1 of encoder layer 0 off" in said


def test_a_paper_is_light():
    assert svg(FEW, "paper", dark=True).split("</desc>")[1] == svg(FEW, "paper").split("</desc>")[1]


def test_a_picture_too_wide_for_a_column_takes_the_page():
    """Its text stays at 8 points as long as that is 7 inches wide, and then shrinks."""
    picture = export.render(figures.overview(record_of(FEW, heads=12)), "svg", preset="paper").decode()

    assert 3.35 * 72 < width_of(picture) <= 7 * 72


def test_a_map_on_a_slide_is_wider_than_high():
    """Its legend stands right of it, and its text has 18 points."""
    width, height = map(float, re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg(FEW, "slide")).groups())

    assert width > height
    assert float(re.search(r'viewBox="0 0 ([\d.]+)', svg(FEW, "slide"))[1]) * 1.5 == pytest.approx(width, rel=1e-3)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_tall_picture_is_no_higher_than_the_preset(preset):
    """A map is as high as wide; a slide is not."""
    picture = svg([f"w{i}" for i in range(20)], preset)
    width, height = map(float, re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', picture).groups())

    assert height <= PRESETS[preset].high * 72 + 0.01
    assert width <= PRESETS[preset].inches[1] * 72


def test_thumbnails_say_whose_text_they_are_of():
    """In a file, where no token stands beside them; on the page it stands above."""
    for figure in (figures.heads(record_of(FEW), SITE), figures.overview(record_of(FEW))):
        assert "text: “The cat sat”" in export.render(figure, "svg").decode()
        assert "text: “" not in str(figure.screen[0]["datasets"])


@pytest.mark.parametrize("preset", PRESETS)
def test_fonts_are_in_the_pdf(preset):
    """A reader draws the same letters, whatever is installed."""
    pdf = export.render(figures.head(record_of(FEW), SITE, 0), "pdf", preset=preset)

    assert b"/FontFile" in pdf
    assert export.filename(figures.head(record_of(FEW), SITE, 0), "pdf", preset=preset).endswith(f"-{preset}.pdf")


def test_fonts_are_in_the_svg():
    """As many characters as the picture has: every text can be drawn by them; an emoji is said to be left out."""
    words = (*FEW, "été", "дом", "👩‍👧")
    picture = svg(words, None)
    fonts = [
        TTFont(BytesIO(base64.b64decode(data))) for data in re.findall("base64,([^)]*)", picture.split("</style>")[0])
    ]
    has = set().union(*(font.getBestCmap() for font in fonts))
    drawn = {ord(c) for text in re.findall("<text[^>]*>([^<]*)", picture) for c in html.unescape(text)}

    assert len(fonts) == 2
    assert {chr(c) for c in drawn - has} == {"👩", "👧"}
    assert len(has) < len(drawn) + 10
    assert all("font-family=\"'attnviz-" in text for text in re.findall("<text[^>]*[^/]>", picture))
    assert export.lacking(f"a {words[-1]} or 漢 é") == ["👩‍👧", "漢"]


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


def test_an_unknown_preset_names_those_there_are():
    with pytest.raises(InputError, match="paper, slide, web"):
        export.render(figures.head(record_of(FEW), SITE, 0), "png", preset="poster")


def test_a_png_for_a_paper_has_300_pixels_per_inch_unless_a_size_is_asked_for():
    """Of 72 it would be a blur in print."""
    figure = figures.head(record_of(FEW), SITE, 0)
    width, twice = (Image.open(BytesIO(export.render(figure, "png", preset="paper", scale=n))).width for n in (1, 2))

    assert width == pytest.approx(twice / 144 * 300, abs=2)
