"""A part of a large map: by a link, by a phrase, and back; without a browser."""

import re
from html import unescape

import pytest
from test_pages import button, html, masks_page, opened
from test_pages_compare import compare_page

from attnviz.core.request import Request
from attnviz.ui import cache
from attnviz.ui.shared import zoom
from attnviz.ui.shared.look import ViewContext

WORDS = " ".join(f"w{i}" for i in range(60))


def test_a_link_shows_a_part_of_a_map_and_says_which():
    app = opened(text=WORDS, zoom="10.49.0.39-20.29.5.14")

    assert not app.exception
    assert "10 queries by 10 keys" in html(app)
    said = re.search(r"“w\d+” \((\d+)\) gives [\d.]+ of its attention to “w\d+” \((\d+)\)", unescape(html(app)))
    assert int(said[1]) in range(20, 30)
    assert int(said[2]) in range(5, 15)
    assert [b.label for b in app.button if b.label.startswith(("Whole", "queries"))] == [
        "Whole map",
        "queries 10–49, keys 0–39",
    ]


@pytest.mark.parametrize("form", ["lines", "text"])
def test_lines_and_text_show_the_part_that_is_zoomed_into(form):
    app = opened(text=WORDS, zoom="20.29.5.14", **{"as": form})

    assert not app.exception
    said = unescape(html(app))
    positions = {*map(int, re.findall(r"“w\d+” \((\d+)\)", said))}
    assert positions <= {*range(5, 15), *range(20, 30)}
    assert positions & {*range(5, 15)}
    assert [b.label for b in app.button if b.label.startswith("Whole")]


def test_crumbs_lead_back():
    app = opened(text=WORDS, zoom="10.49.0.39-20.29.5.14")

    app = button(app, "queries 10–49, keys 0–39").click().run()
    assert app.query_params["zoom"] == "10.49.0.39"
    app = button(app, "Whole map").click().run()

    assert "zoom" not in app.query_params
    assert "60 queries by 60 keys" in html(app)


def test_a_button_zooms_to_half_of_what_is_seen_around_the_selected_cell():
    """Down to parts whose cells are rectangles; then it is disabled."""
    app = opened(text=WORDS, cell="50.8")

    app = button(app, "Zoom in").click().run()
    assert app.query_params["zoom"] == "30.59.0.29"
    app = button(app, "Zoom in").click().run()
    assert app.query_params["zoom"] == "30.59.0.29-42.57.0.15"

    assert button(app, "Zoom in").disabled


def test_a_part_that_is_not_there_is_let_go_of_and_said():
    app = opened(text=WORDS, zoom="10.49.0.99")

    assert ": 10.49.0.99 does not exist. The picture has 60 queries and 60 keys, counted from 0." in html(app)
    assert "60 queries by 60 keys" in html(app)


def test_another_text_is_seen_as_a_whole():
    app = opened(text=WORDS, zoom="10.49.0.39")

    app = app.text_area(key="text").set_value(f"{WORDS} {WORDS}").run()

    assert "120 queries by 120 keys" in html(app)


@pytest.mark.parametrize(
    ("typed", "found"), [("W40 w41", [40]), ("w1", [1, *range(10, 20)]), ("w", [*range(60)]), ("x", [])]
)
def test_places_of_a_phrase_are_all_found_whatever_its_case(typed, found):
    source = cache.source("scratch")
    tokens = cache.sentences(source, Request((WORDS,)))[0].tokens

    assert [position for position, _ in zoom._places(WORDS, tokens, typed)] == found


def test_places_are_shown_with_whole_words_around_them():
    source = cache.source("scratch")
    tokens = cache.sentences(source, Request((WORDS,)))[0].tokens

    ((_, context),) = zoom._places(WORDS, tokens, "w40 w41")

    assert set(context.split()) <= set(WORDS.split())
    assert len(context) > len("w40 w41") + 20


def test_a_place_leads_to_the_strongest_cell_of_its_row_or_column():
    source = cache.source("scratch")
    at = ViewContext(source, Request((WORDS,)), 0, source.sites[0], 0, dark=False)
    weights = at.record.step(at.site).weights(0)

    assert zoom._strongest(at, 0, 40) == (40, int(weights[40].argmax()))
    assert zoom._strongest(at, 1, 40) == (int(weights[:, 40].argmax()), 40)


def test_a_map_of_sentences_is_chosen_in_the_display_menu_and_stands_in_the_link():
    """The picture says how it is made; a text of one sentence has no such choice."""
    text = "The cat sat. The dog ran. Both slept."

    app = opened(text=text, model="constructed")
    choice = next(one for one in app.button_group if one.label == "Rows and columns")
    app = choice.set_value("sentences").run()

    assert app.query_params["view"] == "sentences"
    assert "3 queries by 3 keys" in html(app)
    assert "tokens are merged into sentences" in html(app).lower()
    assert not any(w.label == "Rows and columns" for w in opened(text="The cat sat", model="constructed").button_group)


def test_compare_and_masks_show_the_part_that_heads_shows():
    """Each says which; with <sos>, Masks has one token more."""
    link = {"text": WORDS, "zoom": "10.29.0.19", "heads_off": "e0.1", "layer": "e1", "head": "0"}

    compared, masks = opened(compare_page, **link), opened(masks_page, **link)

    assert not compared.exception
    assert "Queries 10 to 29 of 60, keys 0 to 19 of 60. " in unescape(html(compared))
    assert "Mask 'causal', 20 queries by 20 keys" in unescape(html(masks))
    assert "Queries 10 to 29 of 61, keys 0 to 19 of 61." in unescape(html(masks))
    for app in (compared, masks):
        assert "Whole map" in [one.label for one in app.button]


def test_compare_says_what_a_square_of_many_cells_shows():
    """Of the weights and of their difference."""
    words = " ".join(f"w{i}" for i in range(300))

    said = unescape(html(opened(compare_page, model="constructed", text=words, b="head-d0.1")))

    assert "Each square shows the weight, and the difference, that is largest in size of 2 × 2 cells." in said


def test_a_long_text_is_seen_in_ten_parts():
    """What each gives to each."""
    app = opened(text="w1 w2 w3 w4 " * 30, model="constructed")
    choice = next(one for one in app.button_group if one.label == "Rows and columns")
    app = choice.set_value("ten parts").run()

    assert app.query_params["view"] == "parts10"
    assert "10 queries by 10 keys" in html(app)
    assert "tokens are merged into 10 parts" in html(app).lower()
    choice = next(one for one in app.button_group if one.label == "Rows and columns")
    assert "view" not in choice.set_value("tokens").run().query_params
