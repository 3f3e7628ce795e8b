"""A text of several lines: one text with its line breaks, or a text on each line where that is asked for."""

import pytest
from test_pages import button, html, opened

from attnviz.ui import cache
from attnviz.ui.shared.examples import LINES, by_line, has_lines, with_text
from attnviz.ui.shared.setting import State

PROMPT = "User: one two\nAssistant: three"


def typed(text: str, **link):
    app = opened(**link)
    return app.text_area(key="text").set_value(text).run()


def tokens(app) -> int:
    """The positions of the map, from its description."""
    return int(html(app).split(" queries by ")[0].rsplit(" ", 1)[-1])


def test_a_typed_text_of_two_lines_is_one_text():
    """As it is in Python and in the shell; the link says so, and opens the same."""
    app = typed(PROMPT)
    again = opened(**{name: app.query_params[name] for name in app.query_params})

    for page in (app, again):
        assert page.query_params["lines"] == "false"
        assert tokens(page) == 7  # User : one two Assistant : three
        assert not [one for one in page.selectbox if one.label == "Sentence of the batch"]


def test_line_breaks_at_the_ends_are_part_of_the_text():
    assert cache.texts(f"{PROMPT}:\n", by_line=False) == (f"{PROMPT}:\n",)


def test_several_texts_are_asked_for_by_a_switch_that_the_link_holds():
    app = typed(PROMPT)
    app.checkbox(key="lines").check().run()

    assert app.query_params["lines"] == "true"
    assert [one for one in app.selectbox if one.label == "Sentence of the batch"]

    app.text_area(key="text").set_value("a b\nc d\ne").run()

    assert app.query_params["lines"] == "true"
    assert app.checkbox(key="lines").value


def test_a_text_of_one_line_has_no_switch_and_says_nothing_in_the_link():
    app = typed("one two")

    assert "lines" not in app.query_params
    assert not app.checkbox

    app = app.text_area(key="text").set_value(PROMPT).run()
    app = app.text_area(key="text").set_value("one two").run()

    assert "lines" not in app.query_params


def test_a_link_of_before_opens_a_text_on_each_line():
    """It says nothing of lines."""
    app = opened(text="one two three\none")

    assert app.checkbox(key="lines").value
    assert [one for one in app.selectbox if one.label == "Sentence of the batch"]
    assert "lines" not in app.query_params


def test_an_example_of_several_texts_stays_several_after_a_prompt():
    texts = {"first": "one", "two": "one\ntwo"}
    prompt = with_text(State(), PROMPT, texts)

    assert prompt[LINES] is False
    assert with_text(prompt, texts["two"], texts)[LINES] is None
    assert by_line(with_text(prompt, texts["two"], texts), texts["two"])


@pytest.mark.parametrize("text", ["one\n", "\r\none\n\n", "", "one"])
def test_line_breaks_at_the_ends_are_no_lines(text):
    assert not has_lines(text)


def test_40_lines_are_one_text_and_too_many_as_texts():
    """One sentence says so, nothing typed is lost, and one button reads them as one text, line breaks and all."""
    text = "one two\n" * 39 + "one two"
    app = typed(text)
    assert tokens(app) == 80

    app.checkbox(key="lines").check().run()
    assert html(app).count('class="note') == 1
    assert "There are 40 lines, and each line is a text of its own" in html(app)
    assert app.text_area(key="text").value == text

    app = button(app, "Read all lines as one text").click().run()
    assert app.text_area(key="text").value == text
    assert tokens(app) == 80
