"""Hostile texts and settings in links, on each page as Streamlit runs it, without a browser."""

from html import escape
from urllib.parse import quote, unquote

import hostile
import pytest
from examples import some
from test_app import PAGES, html, opened

from attnviz.core.errors import quoted

TOKENIZERS = ("words", "characters", "bpe")


def linked(text: str) -> str:
    """Return a text as a server reads it from a link: bytes that are not UTF-8 become U+FFFD."""
    return unquote(quote(text, errors="surrogatepass"), errors="replace")


def refusals(app) -> int:
    """Count the sentences on a page that refuse a text or miss one."""
    return html(app).count('class="note error"') + html(app).count(hostile.NO_TEXT)


@pytest.mark.parametrize("title", PAGES)
def test_a_link_with_any_text_shows_pictures_or_says_one_sentence(title):
    """The text stands in the box as it was linked, whether it can be drawn or not; a part of the texts on each page."""
    place = PAGES.index(title)
    for text in some(hostile.TEXTS[place::5], 6):
        tokenizer = TOKENIZERS[place % 3]
        app = opened(title, model=f"scratch:tokenizer={tokenizer}", text=linked(text.text), cell="0.0")

        assert app.text_area(key="text").value == linked(text.text)
        assert bool(refusals(app)) != bool(app.get("vega_lite_chart")), text.name
        if tokenizer == "words":
            assert bool(refusals(app)) == bool(text.refused), text.name


@pytest.mark.parametrize(
    "text", some([*hostile.CONTROL, *hostile.MARKUP, *hostile.CODE], 8), ids=lambda text: text.name
)
def test_hostile_choices_open_the_default_with_a_sentence_each(text):
    """Whatever stands in a choice, or is the name of one, is said as typed."""
    typed = linked(text.text)
    names = ("cell", "mask", "layer", "head", "colors", "empty", "temperature", "view", "zoom", "b")
    app = opened(**{"model": "scratch", typed: "1"}, **dict.fromkeys(names, typed))

    assert html(app).count('class="note notice"') == len(names) + 1
    assert 'class="note error"' not in html(app)
    assert len(app.get("vega_lite_chart")) == 2
    assert escape(quoted(typed[:40])) in html(app)


@pytest.mark.parametrize("title", PAGES)
@pytest.mark.parametrize("text", hostile.CODE[::5], ids=lambda text: text.name)
def test_a_hostile_text_in_every_choice_that_takes_one_stops_no_page(title, text):
    """Parts of pages, orders, roles, words and stages."""
    typed = linked(text.text)
    free = ("form", "part", "sort", "role", "number", "lab", "intent", "library", "stage")
    app = opened(title, model="scratch", **dict.fromkeys(free, typed))

    assert app.get("vega_lite_chart") or 'class="note' in html(app)


@pytest.mark.parametrize("value", ["9" * 400, "inf", "-1e999", "nan", "²", "١"])
@pytest.mark.parametrize("name", ["temperature", "sentence", "step", "head", "softcap"])
def test_a_number_beyond_all_numbers_is_left_out(name, value):
    """Streamlit itself stops at an infinite number in a link."""
    app = opened(model="scratch", **{name: value})

    assert html(app).count(f"The link&#x27;s {name} was left out") == 1
    assert app.get("vega_lite_chart")
