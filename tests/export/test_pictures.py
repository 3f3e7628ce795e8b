"""PNG, SVG and PDF: open them and find the picture."""

import io
import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import altair as alt
import numpy as np
import pandas as pd
import pytest
from PIL import Image
from pypdf import PdfReader

from attnviz.core.errors import InputError
from attnviz.export import ExportError, render
from attnviz.export.worker import with_signs

TOKENS = ["The", "cat", "sat", "on", "the", "mat"]
SVG = "{http://www.w3.org/2000/svg}"


def image(png: bytes) -> Image.Image:
    return Image.open(io.BytesIO(png))


def texts(svg: bytes) -> list[str]:
    return [node.text for node in ET.fromstring(svg).iter(f"{SVG}text")]


@pytest.fixture(scope="module")
def two_cells():
    """20 x 10 points: weight 0 in red beside weight 1 in blue."""
    data = pd.DataFrame({"key": [0, 1], "weight": [0.0, 1.0]})
    color = alt.Color("weight:Q", legend=None, scale=alt.Scale(domain=[0, 1], range=["#ff0000", "#0000ff"]))
    x = alt.X("key:O", axis=None, scale=alt.Scale(padding=0))
    return (
        alt.Chart(data, width=20, height=10, padding=0).mark_rect().encode(x=x, color=color).configure_view(stroke=None)
    )


def test_a_png_grows_with_its_scale_and_prints_at_the_same_size(figure):
    """Twice the pixels come with twice the pixels per inch."""
    small, *larger = (image(render(figure, "png", scale=scale)) for scale in (1, 2, 4))

    assert np.asarray(small.convert("RGB")).std() > 5
    for scale, picture in zip((2, 4), larger, strict=True):
        assert picture.size == (small.width * scale, small.height * scale)
        assert picture.info["dpi"][0] == pytest.approx(72 * scale, abs=0.1)


def test_a_png_for_print_has_300_pixels_per_inch_and_says_so(figure):
    small, printed = image(render(figure, "png")), image(render(figure, "png", ppi=300))

    assert printed.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    assert printed.width == pytest.approx(small.width * 300 / 72, abs=1)


def test_a_cell_of_a_png_has_the_color_of_its_weight(two_cells):
    pixels = np.asarray(image(render(two_cells, "png", scale=2)).convert("RGB"))

    assert pixels.shape == (20, 40, 3)
    assert pixels[10, 10].tolist() == [255, 0, 0]
    assert pixels[10, 30].tolist() == [0, 0, 255]


def test_an_svg_holds_every_token_as_text_and_its_own_description(figure):
    svg = render(figure, "svg")
    root = ET.fromstring(svg)

    assert [text for text in texts(svg) if text in TOKENS] == TOKENS * 2
    assert root.get("aria-label") == figure.title
    assert root.find(f"{SVG}desc").text == figure.description


def test_a_pdf_holds_every_token_as_text_that_can_be_searched(figure):
    page = PdfReader(io.BytesIO(render(figure, "pdf"))).pages[0]
    found = page.extract_text()

    assert all(token in found for token in TOKENS)
    assert float(page.mediabox.width) == image(render(figure, "png")).width


@pytest.mark.parametrize("format", ["png", "svg", "json", "html"])
def test_the_same_figure_gives_the_same_bytes(figure, format):
    assert render(figure, format) == render(figure, format)


def test_raw_hostile_text_becomes_pictures(hostile):
    """vl-convert aborts its process on some of it; here it is replaced first."""
    found = texts(render(hostile, "svg"))

    assert image(render(hostile, "png")).width > 100
    assert PdfReader(io.BytesIO(render(hostile, "pdf"))).pages[0].extract_text()
    assert {"0006 constructor", "0008 =1+1", "0000 ␀␁␛[31m\x7f", "0001 \ufffd", "0019 日本語"} <= set(found)
    assert "0003 </script><script>document.title='x'</script>" in found


def test_more_cells_than_altair_allows_are_drawn():
    """Altair itself refuses more than 5,000 rows."""
    chart = alt.Chart(pd.DataFrame({"x": range(6000)})).mark_tick().encode(x="x:Q")

    assert image(render(chart, "png")).width > 100


def test_a_chart_without_types_is_drawn_as_altair_understands_it():
    chart = alt.Chart(pd.DataFrame({"token": ["cat", "mat"]})).mark_tick().encode(x="token")

    assert {"cat", "mat"} <= set(texts(render(chart, "svg")))


def test_parts_side_by_side_keep_their_tables():
    parts = [alt.Chart(pd.DataFrame({"token": [word]})).mark_text().encode(text="token:N") for word in ("cat", "mat")]

    assert {"cat", "mat"} <= set(texts(render(alt.hconcat(parts[0], alt.layer(parts[1])), "svg")))


def test_a_picture_that_would_fill_the_memory_is_refused():
    chart = alt.Chart(pd.DataFrame({"x": [0]}), width=20_000, height=20_000).mark_point()

    with pytest.raises(ExportError, match="more than 100,000,000"):
        render(chart, "png")


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/x.png", "file:///etc/passwd", "//127.0.0.1/x.png"])
@pytest.mark.parametrize("format", ["png", "svg", "pdf"])
def test_an_image_from_elsewhere_is_never_fetched(address, format):
    """vl-convert's allowed_base_urls does not keep images from being fetched."""
    chart = alt.Chart(pd.DataFrame({"at": [address]})).mark_image(width=9, height=9).encode(url="at:N")

    with pytest.raises(ExportError, match="an image from another place"):
        render(chart, format)


def test_data_from_elsewhere_is_never_fetched():
    with pytest.raises(ExportError, match="not allowed"):
        render(alt.Chart("http://127.0.0.1:9/x.csv").mark_point().encode(x="x:Q"), "png")


@pytest.mark.parametrize("options", [{"scale": 3}, {"scale": 2, "ppi": 300}, {"ppi": 0}], ids=str)
def test_a_size_there_is_not_is_refused(figure, options):
    with pytest.raises(
        InputError, match=r"scale is 3; it must be 1, 2 or 4|ppi\) are (300|0); they go without a scale"
    ):
        render(figure, "png", **options)


def test_a_format_there_is_not_is_refused_with_those_there_are(figure):
    with pytest.raises(InputError, match=r"no format 'gif'\. There are: png, svg, pdf"):
        render(figure, "gif")
    with pytest.raises(InputError, match="no figure"):
        render(SimpleNamespace(), "png")


def test_a_text_with_a_sign_asks_first_for_a_font_that_has_it():
    """Noto Sans has no minus and no arrow: the whole text was drawn in any font with one, bold and slanted."""
    tag, texts = '<text y="1" font-family="Noto Sans, sans-serif"', ["0.5", "A − B", "<tspan>1% → 2%</tspan>"]

    signed = with_signs("".join([f"{tag}/>", *(f"{tag}>{text}</text>" for text in texts)]))

    assert re.findall(r'"DejaVu Sans, [^>]*>(.*?)</text>', signed) == texts[1:]
    assert signed.count("DejaVu Sans") == 2
