"""The grids of words on the page Overview, in the tab of contributions."""

import pytest
from test_pages import html, opened
from test_pages_overview import overview_page

from attnviz import Site, analyze, figures
from attnviz.analysis import lens_words, next_words
from attnviz.ui.overview import lens
from attnviz.ui.shared import look, pictures

TEXT = "the cat that the dogs saw sat on the mat"
LONG = " ".join([TEXT] * 4)


@pytest.fixture
def pictured(monkeypatch):
    """Figures by their keys, as the page draws them."""
    figures = {}
    monkeypatch.setattr(pictures, "picture", lambda figure, key, **options: figures.update({key: figure}))
    return figures


def page(**link):
    app = opened(overview_page, **{"model": "story", "text": TEXT, "panel": "Contributions"} | link)
    assert not app.exception
    return app


@pytest.mark.parametrize("reading", ["layers", "head"])
def test_the_grid_has_the_words_of_the_figure(pictured, reading):
    """Of the head that is chosen, where it is about one."""
    record = analyze(TEXT, "story", stream=True)
    by_head = figures.pushed(record, Site("decoder", 0), 1)
    expected = by_head if reading == "head" else figures.logit_lens(record)
    page(lens=reading, layer="d0", head="1")

    assert pictured["lens"].words.words == expected.words.words
    assert pictured["lens words"].words == next_words(record, record.read[0].length - 1)


def test_a_click_shows_the_most_probable_words_of_the_cell_and_is_in_the_link(pictured):
    """Its row and its position, which the line of predictions follows."""
    app = page(lens="layers")
    state = app.session_state["state"]
    state.state = state.state.put(lens.ROW, 2).put(look.QUERY, 3)
    app.run()

    assert pictured["lens"].selected == (2, 3)
    assert pictured["lens words"].words == lens_words(analyze(TEXT, "story", stream=True), 0, 3)
    assert (app.query_params["lens-row"], app.query_params["query"]) == ("2", "3")
    assert "after “that” (3)" in html(app)


def test_a_long_text_is_seen_part_by_part(pictured):
    """From the part of the chosen position on; the buttons turn to the others, and the page says which part it is."""
    app = page(text=LONG, lens="head", query="15")
    for part in (1, 2, 3):
        last = min(12 * part + 11, 40)
        assert f"Positions {12 * part} to {last} of 41" in html(app)
        assert pictured["lens"].words.positions == range(12 * part, last + 1)
        later = app.button(key="icon chevron_right")
        assert later.disabled == (part == 3)
        if part < 3:
            later.click().run()


def test_a_model_whose_stream_is_not_known_says_why():
    app = page(model="scratch", lens="layers")

    assert "predicts no words" in html(app)
