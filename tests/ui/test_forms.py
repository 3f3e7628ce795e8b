"""A head as a map, as lines or as a text: the choice, what belongs to it, and the link."""

from html import unescape

import pytest
from streamlit.testing.v1 import AppTest

from attnviz import figures
from attnviz.figures import FORMS, HeadForm


def heads_page():
    from attnviz.ui import frame
    from attnviz.ui.heads.page import page

    frame.body(page, frame.selection())


def opened(**parts) -> AppTest:
    """The page Heads with random weights, opened by a link."""
    app = AppTest.from_function(heads_page, default_timeout=60)
    for name, value in ({"model": "scratch", "text": "the cat sat down"} | parts).items():
        app.query_params[name] = value
    return app.run()


def html(app: AppTest) -> str:
    return unescape(" ".join(element.proto.body for element in app.get("html")))


def test_a_link_shows_lines_of_several_heads_and_what_is_picked():
    """The controls of lines are there, with what the link says, and the link keeps it."""
    app = opened(**{"as": "lines", "also": "1-3", "pins": "q2-k0", "least": "0.2"})

    assert app.selectbox(key="least").placeholder == "none"

    assert not app.exception
    assert 'class="note' not in html(app)
    assert app.session_state["also"] == [1, 3]
    assert app.selectbox(key="least").value == 0.2
    assert app.query_params["pins"] == "q2-k0"
    assert "Lines from queries to keys." in html(app)


def test_a_form_that_selects_nothing_is_drawn_without_a_click(monkeypatch):
    """Weight by distance in place of the map: its picture stands on the page, and nothing waits for a click on it."""
    monkeypatch.setitem(FORMS, "map", HeadForm(figures.distance, selects=None))
    app = opened()

    assert not app.exception
    charts = [chart.proto for chart in app.get("vega_lite_chart")]
    assert all(f'"name": "{name}"' in chart.spec for chart in charts for name in chart.selection_mode)
    assert [[*chart.selection_mode] for chart in charts] == [["head"], []]  # of the thumbnails, and of the form


def test_a_link_shows_the_text_to_a_token():
    """The token that is picked on that side is the one that is said."""
    app = opened(**{"as": "text", "side": "to", "pins": "k2"})

    assert not app.exception
    assert "“sat” (2) is looked at most by" in html(app)
    assert app.query_params["side"] == "to"


def test_choosing_a_form_stands_in_the_link_and_a_map_is_no_part_of_it():
    """What was selected on the map is the token of the text."""
    app = opened(cell="1.3")
    app.button_group(key="as").set_value("text").run()

    assert app.query_params["as"] == "text"
    assert "“cat” (1) looks most at" in html(app)
    assert "Show how the first number is computed" in [one.label for one in app.button]

    app.button_group(key="as").set_value("map").run()

    assert "as" not in app.query_params
    assert "“cat” (1) gives" in html(app)


def test_lines_of_several_heads_say_whose_the_sentence_is():
    """One head alone needs no name, nor do all heads combined."""
    link = {"as": "lines", "pins": "q2"}

    assert "Head 1: “" in html(opened(**link, show="1", also="2"))
    assert "Head 1: “" not in html(opened(**link, show="1"))
    assert "Head mean" not in html(opened(**link, show="mean", also="2"))


def test_the_other_side_is_of_the_same_token():
    """From and to change the side and not the token, where both are the same sentence."""
    app = opened(**{"as": "text", "pins": "q3"})
    app.button_group(key="side").set_value("to").run()

    assert "“down” (3) is looked at most by" in html(app)
    assert app.query_params["pins"] == "k3"


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"as": "bars"}, "is not one of map, lines, text"),
        ({"pins": "z1"}, "cannot be read; it should look like q2-k5"),
        ({"pins": "q77", "as": "lines"}, "q77 does not exist. The picture has 4 queries"),
        ({"also": "9", "as": "lines"}, "9 does not exist"),
        ({"least": "0.3"}, "\"least\": '0.3' is not one of 0.01"),
    ],
)
def test_what_a_link_names_and_is_not_there_is_said(parts, message):
    """The page is drawn without it."""
    app = opened(**parts)

    assert not app.exception
    assert message in html(app)


def test_picked_tokens_are_let_go_by_a_button():
    app = opened(**{"as": "lines", "pins": "q1", "cell": "2.1"})
    next(button for button in app.button if button.label == "Clear tokens").click().run()

    assert "pins" not in app.query_params
    assert "cell" not in app.query_params
    assert not [button for button in app.button if button.label == "Clear tokens"]


def test_a_token_that_is_hidden_is_not_the_token_of_the_text():
    """With special tokens hidden, the picked one gives way to the strongest."""
    app = opened(**{"model": "story", "as": "text", "pins": "q0", "view": "hide"})

    assert not app.exception
    assert "looks most at" in html(app)
    assert "sos" not in next(part for part in html(app).split("<div") if "looks most at" in part)
