"""Hostile texts and settings in links, on each page as Streamlit runs it, without a browser."""

from html import escape
from urllib.parse import quote, unquote

import hostile
import pytest
from examples import some
from test_pages import heads_page, html, masks_page, opened

TOKENIZERS = ("words", "characters", "bpe")
SETTINGS = ("off", "cell", "mask", "tokenizer", "seed", "site", "show", "colors", "empty")


def linked(text: str) -> str:
    """What a server finds in a link: bytes that are no UTF-8 are U+FFFD."""
    return unquote(quote(text, errors="surrogatepass"), errors="replace")


def refusals(app):
    """How often a page says that it cannot show a text; that there is none yet is no error."""
    return html(app).count('class="note error"') + html(app).count("There is no text yet")


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("page", [heads_page, masks_page])
def test_a_link_with_any_text_shows_pictures_or_says_one_sentence(page, tokenizer):
    """The text stands in the box as it was linked, whether it can be drawn or not."""
    part = (TOKENIZERS.index(tokenizer) + (page is masks_page)) % 3
    for text in some(hostile.TEXTS[part::3], 6):
        app = opened(page, text=linked(text.text), tokenizer=tokenizer, cell="0.0")
        errors = refusals(app)

        assert not app.exception, text.name
        assert app.text_area(key="text").value == linked(text.text)
        assert errors + bool(app.get("vega_lite_chart")) == 1, text.name
        if tokenizer == "words":
            assert errors == bool(text.refused), text.name
            assert text.refused in html(app)


@pytest.mark.parametrize(
    "text", some([*hostile.CONTROL, *hostile.MARKUP, *hostile.CODE], 8), ids=lambda text: text.name
)
def test_hostile_settings_open_the_default_with_one_notice(text):
    """Whatever stands in a setting, or is the name of one, is said as typed."""
    typed = linked(text.text)
    app = opened(**{typed: "1"}, **dict.fromkeys(SETTINGS, typed))

    assert not app.exception
    assert html(app).count('class="note notice"') == 1
    assert 'class="note error"' not in html(app)
    assert len(app.get("vega_lite_chart")) == 2
    assert escape(typed[:40].replace("\0", "␀")) in html(app)
    assert f"And {len(SETTINGS) - 2} more." in html(app)


@pytest.mark.parametrize("name", ["tokenizer", "seed", "colors", "empty"])
def test_an_empty_setting_is_a_bad_one(name):
    """A control would take it for a choice of nothing."""
    app = opened(**{name: ""})

    assert not app.exception
    assert f"&quot;{name}&quot;: &#x27;&#x27; is not" in html(app)
    assert len(app.get("vega_lite_chart")) == 2


@pytest.mark.parametrize("value", ["9" * 400, "inf", "-1e999", "nan"])
@pytest.mark.parametrize("name", ["seed", "d_model", "num_layers"])
def test_a_number_beyond_all_numbers_is_a_bad_one(name, value):
    """Streamlit itself stops at an infinite number in a link."""
    app = opened(mask="window", **{name: value})

    assert not app.exception
    assert html(app).count(f"link setting &quot;{name}&quot;: ") == 1
    assert len(app.get("vega_lite_chart")) == 3


def steps_page():
    from attnviz.ui import frame
    from attnviz.ui.steps.page import page

    frame.body(page, frame.selection())


def overview_page():
    from attnviz.ui import frame
    from attnviz.ui.overview.page import page

    frame.body(page, frame.selection())


def compare_page():
    from attnviz.ui import frame
    from attnviz.ui.compare.page import page

    frame.body(page, frame.selection())


NEW = pytest.mark.parametrize("page", [steps_page, overview_page, compare_page])


@NEW
def test_any_text_on_the_other_pages_shows_pictures_or_says_one_sentence(page):
    """A part of the texts on each; none stops a page."""
    part = [steps_page, overview_page, compare_page].index(page)
    for text in some(hostile.TEXTS[part::9], 5):
        app = opened(page, text=linked(text.text), cell="0.0")
        refused = bool(refusals(app))

        assert not app.exception, text.name
        assert app.text_area(key="text").value == linked(text.text)
        assert refused == bool(text.refused), text.name
        assert refused or app.get("vega_lite_chart"), text.name


@NEW
@pytest.mark.parametrize("text", hostile.CODE[::5], ids=lambda text: text.name)
def test_hostile_settings_of_the_other_pages_open_with_one_notice(page, text):
    """Their own settings too."""
    typed = linked(text.text)
    names = ("sort", "role", "across", "up", "stage", "query", "scores", "tab")
    app = opened(page, **dict.fromkeys(names, typed))

    assert not app.exception
    assert html(app).count('class="note notice"') == 1
    assert 'class="note error"' not in html(app)
    assert app.get("vega_lite_chart")
