"""PNG, SVG and PDF: open them and find the picture."""

import base64
import html
import io
import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import altair as alt
import numpy as np
import pandas as pd
import pytest
from fontTools.ttLib import TTFont
from pictures import SITE, record_of
from PIL import Image
from pypdf import PdfReader

import attnviz
from attnviz import figures
from attnviz.core.display import visible_text
from attnviz.core.errors import InputError
from attnviz.export import ExportError, draw, lacking, notes, render

TOKENS = ["The", "cat", "sat", "on", "the", "mat"]
SVG = "{http://www.w3.org/2000/svg}"
JOINED = ["🇩🇪", "👩🏽‍💻", "👨‍👩‍👧‍👦", "1️⃣", "👍🏽", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "❤️‍🔥"]
"""Emoji of several characters."""


def image(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png))


def texts(svg: bytes) -> list[str]:
    return ["".join(node.itertext()) for node in ET.fromstring(svg).iter(f"{SVG}text")]


def pdf_page(content: bytes):
    return PdfReader(io.BytesIO(content)).pages[0]


def fonts_of(page) -> set[str]:
    return {font.get_object()["/BaseFont"].partition("+")[2] for font in page["/Resources"]["/Font"].values()}


def test_a_png_grows_with_its_scale_and_prints_at_the_same_size(figure):
    """Twice the pixels come with twice the pixels per inch; for print there are 300, and the file says so."""
    small, *larger = (image(render(figure, "png", scale=scale)) for scale in (1, 2, 4))
    printed = image(render(figure, "png", ppi=300))

    assert np.asarray(small.convert("RGB")).std() > 5
    for scale, picture in zip((2, 4), larger, strict=True):
        assert picture.size == (small.width * scale, small.height * scale)
        assert picture.info["dpi"][0] == pytest.approx(72 * scale, abs=0.1)
    assert printed.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    assert printed.width == pytest.approx(small.width * 300 / 72, abs=1)


def test_an_svg_and_a_pdf_hold_every_token_as_text(figure):
    svg, page = render(figure, "svg"), pdf_page(render(figure, "pdf"))
    root = ET.fromstring(svg)

    assert [text for text in texts(svg) if text in TOKENS] == TOKENS * 2
    assert root.get("aria-label") == figure.title
    assert root.find(f"{SVG}desc").text == figure.description
    assert all(token in page.extract_text() for token in TOKENS)
    assert float(page.mediabox.width) == image(render(figure, "png")).width


@pytest.mark.parametrize("format", ["png", "svg", "json", "html", "csv", "npz"])
def test_the_same_figure_gives_the_same_bytes(figure, format):
    assert render(figure, format) == render(figure, format)


def test_raw_hostile_text_becomes_pictures(hostile):
    """vl-convert aborts its process on some of it; here it is replaced first."""
    found = texts(render(hostile, "svg"))

    assert image(render(hostile, "png")).width > 100
    assert pdf_page(render(hostile, "pdf")).extract_text()
    assert {"0006 constructor", "0008 =1+1", "0000 ␀␁␛[31m\x7f", "0001 \ufffd", "0019 日本語"} <= set(found)
    assert "0003 </script><script>document.title='x'</script>" in found


def test_a_bare_chart_is_drawn_as_altair_understands_it():
    """Without types of its fields, in parts side by side, and with more rows than Altair itself allows."""
    frame = pd.DataFrame({"token": ["cat"] * 6000})
    ticks = alt.Chart(frame).mark_tick().encode(x="token")
    words = alt.layer(alt.Chart(pd.DataFrame({"token": ["mat"]})).mark_text().encode(text="token:N"))

    assert {"cat", "mat"} <= set(texts(render(alt.hconcat(ticks, words), "svg")))


def test_a_picture_that_would_fill_the_memory_is_refused():
    chart = alt.Chart(pd.DataFrame({"x": [0]}), width=20_000, height=20_000).mark_point()

    with pytest.raises(ExportError, match="more than 100,000,000"):
        render(chart, "png")


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/x.png", "file:///etc/passwd", "//127.0.0.1/x.png"])
@pytest.mark.parametrize("format", ["png", "svg", "pdf"])
def test_an_image_from_elsewhere_is_never_fetched(address, format):
    """vl-convert's allowed_base_urls does not keep images from being fetched."""
    chart = alt.Chart(pd.DataFrame({"at": [address]})).mark_image(width=9, height=9).encode(url="at:N")

    with pytest.raises(ExportError, match="an image by its address"):
        render(chart, format)


def test_data_from_elsewhere_is_never_fetched():
    with pytest.raises(ExportError, match="not allowed"):
        render(alt.Chart("http://127.0.0.1:9/x.csv").mark_point().encode(x="x:Q"), "png")


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"scale": 3}, r"scale is 3; it must be 1, 2 or 4"),
        ({"scale": 2, "ppi": 300}, r"ppi\) are 300; give 1 to 1200, and no scale"),
        ({"ppi": 0}, r"ppi\) are 0; give 1 to 1200, and no scale"),
        ({"format": "gif"}, r"no format 'gif'\. Available formats: png, svg, pdf"),
        ({"preset": "poster"}, "no preset 'poster'. Available presets: paper, slide, web"),
        ({"figure": SimpleNamespace()}, "is not a figure"),
    ],
)
def test_what_there_is_not_is_refused_with_what_there_is(figure, asked, sentence):
    with pytest.raises(InputError, match=sentence):
        render(**{"figure": figure, "format": "png"} | asked)


# Fonts


def test_a_title_with_a_minus_or_a_blank_is_drawn_in_the_font_in_which_it_was_measured():
    """Else it is as wide as another font, and words are lost at the edge."""
    record = attnviz.analyze("The cat", "story", stream=True)
    page = pdf_page(render(figures.contributions(record, token="sat", minus="cat"), "pdf"))
    chart = alt.Chart(pd.DataFrame({"x": [1]}), title="a ␣ b → c − d ↵ ∞").mark_point()

    assert fonts_of(page) == {"attnviz-Sans-Regular", "attnviz-Sans-Bold", "DejaVuSansMono"}
    assert "“sat” − “cat” after" in page.extract_text()
    assert fonts_of(pdf_page(render(chart, "pdf"))) <= {"attnviz-Sans-Regular", "attnviz-Sans-Bold"}


def test_fonts_are_in_the_svg():
    """As many characters as the picture has: every text can be drawn by them; an emoji is left to the reader's."""
    picture = render(figures.head(record_of(["The", "été", "дом", "👩‍👧", "a − b"]), SITE, 0), "svg").decode()
    style = picture.split("</style>")[0]
    fonts = [TTFont(io.BytesIO(base64.b64decode(data))) for data in re.findall("base64,([^)]*)", style)]
    has = set().union(*(font.getBestCmap() for font in fonts))
    drawn = {ord(c) for text in re.findall("<text[^>]*>([^<]*)", picture) for c in html.unescape(text)}

    assert re.findall("font-weight:([a-z]*)", style) == ["normal", "bold", "normal"]
    assert {chr(c) for c in drawn - has} == {"👩", "👧"}
    assert len(has) < len(drawn) + 10
    assert all("font-family=\"'attnviz-" in text for text in re.findall("<text[^>]*[^/]>", picture))


def test_a_flag_and_joined_emoji_are_one_sign_and_are_named():
    """In PNG and PDF, where they would run over the cells; an SVG keeps them for the fonts of its reader."""
    figure = figures.head(record_of(["cat", *JOINED, "mat"]), SITE, 0)
    page = pdf_page(render(figure, "pdf"))

    assert page.extract_text().count(draw.SIGN) == 2 * len(JOINED)
    assert fonts_of(page) == {"attnviz-Sans-Regular", "attnviz-Sans-Bold", "DejaVuSansMono"}
    assert {visible_text(token) for token in JOINED} <= set(texts(render(figure, "svg")))
    assert lacking(" ".join([*JOINED, "漢 é"])) == [*JOINED, "漢"]
    assert notes(figure)[0].startswith(f"attnviz has no font for {', '.join(JOINED)}: ")


@pytest.mark.parametrize("text", ["a·b", "1·2", "♠·♣", "☃", "©", "⅓", "👍", "été", "#1", "  "])
def test_what_is_no_joined_emoji_stays(text):
    assert not re.search(draw.JOINED, text)
