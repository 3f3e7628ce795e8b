"""Long texts as people have them: opened from a file, pasted, and not sent again at each click."""

import io

import numpy as np
import pytest
from test_opened_files import drop, page
from test_pages import button, html

from attnviz.tokenizers import Words
from attnviz.tokenizers.vocabulary import Vocabulary
from attnviz.ui.shared import examples, inputs, text_file
from attnviz.ui.shared.state import _KEY

LINES = "The cat sat.\n\n  It was tired. \nÄrger"


def text_of(app) -> str:
    return app.session_state[_KEY].state[examples.TEXT]


@pytest.mark.parametrize(
    "content",
    [
        LINES.encode(),
        LINES.replace("\n", "\r\n").encode("utf-8-sig"),
        LINES.encode("utf-16"),
        LINES.encode("utf-16-be").join([b"\xfe\xff", b""]),
    ],
    ids=["UTF-8", "with a mark and CRLF", "UTF-16", "UTF-16, big end first"],
)
def test_a_text_file_is_one_text(content):
    assert text_file.read("a.txt", content) == ("The cat sat. It was tired. Ärger", 3)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("Ärger".encode("latin-1"), "'a.txt' cannot be read: its byte 0 is no UTF-8. Save it as UTF-8, and"),
        (b"\xff\xfea", "its byte 2 is no UTF-16"),
        (b"PK\0\0", "'a.txt' holds bytes that are no text."),
        (b" \n ", "'a.txt' holds no text."),
        (b"a " * 1_100_000, "The text has 2,199,999 characters; this page takes up to 2,000,000."),
    ],
)
def test_a_file_that_is_no_text_is_one_sentence(content, says):
    """And what was looked at stays."""
    app = drop(page(), ("a.txt", content))

    assert says in html(app).replace("&#x27;", "'")
    assert html(app).count('role="alert"') == 1
    assert app.text_area(key="text").value == "a dog ran"
    assert app.get("vega_lite_chart")


def test_a_dropped_text_takes_the_place_of_the_text():
    app = drop(page(), ("a.TXT", b"one dog ran\nup the hill"))

    assert app.text_area(key="text").value == "one dog ran up the hill"
    assert "2 lines of a.TXT are one text here" in html(app)
    assert app.selectbox(key="model").value == "story"


def test_a_dropped_text_is_read_by_a_model_where_one_run_was_open():
    """A file of a run reads no other text."""
    app = page()
    file = io.BytesIO()
    np.savez(file, weights=np.full((2, 3, 3), 1 / 3))
    app = drop(app, ("run.npz", file.getvalue()))
    assert app.selectbox(key="model").value == "file:run.npz"

    app = drop(app, ("a.txt", b"the cat"))

    assert app.selectbox(key="model").value == "translator"
    assert app.text_area(key="text").value == "the cat"


def test_of_a_long_text_the_box_shows_the_beginning(monkeypatch):
    """The whole is looked at, and its numbers are said; a button makes room for another."""
    monkeypatch.setattr(inputs, "WHOLE", 60)
    monkeypatch.setattr(inputs, "BEGINNING", 30)
    monkeypatch.setattr(examples, "LONGEST_LINK", 60)
    long = "the cat sat on the mat " * 5

    app = page(model="constructed", text=long)

    (box,) = app.text_area
    assert box.disabled
    assert box.value == "the cat sat on the mat the …"
    assert "115 characters, 30 tokens: the box shows the beginning, and no link holds the text." in html(app)
    assert "30 queries by 30 keys" in html(app)

    app = button(app, "Replace").click().run()
    assert app.text_area(key="text").value == ""
    app.text_area(key="text").set_value("a dog").run()
    assert "2 queries by 2 keys" in html(app)


@pytest.mark.parametrize("text", ["a" * 30_000, "of " + "a" * 30_000, "猫" * 30_000])
def test_of_a_long_text_without_blanks_the_box_shows_the_beginning_too(text):
    app = page(model="constructed", text=text)

    (box,) = app.text_area
    assert box.value == f"{text[: inputs.BEGINNING]} …"


def test_a_text_of_more_words_than_any_model_reads_is_refused_before_its_tokens_are_counted(monkeypatch):
    """And no other model is asked: each would count them."""
    app, counted = page(), []
    for tokenizer in (Words, Vocabulary):
        monkeypatch.setattr(tokenizer, "encode", lambda *_: counted.append(1) or ())

    app = drop(app, ("long.txt", b"the cat " * 100_000))

    assert "Line 1 has at least 200,000 tokens; &#x27;story&#x27; reads up to 64." in html(app)
    assert not counted
    assert not [one for one in app.button if one.label.startswith("Switch")]


def test_many_lines_can_be_read_as_one_text():
    app = page(model="constructed", text="a dog ran\n" * 40)
    assert "There are 40 lines" in html(app)

    app = button(app, "Read all lines as one text").click().run()

    assert "120 queries by 120 keys" in html(app)


def test_of_many_lines_the_first_are_used_where_one_text_of_all_is_too_long():
    """It would lead back to where lines are split."""
    app = page(model="story", text="The cat sat on the mat.\n" * 60)
    assert not [one for one in app.button if one.label == "Read all lines as one text"]

    app = button(app, "Use the first 32 lines").click().run()

    assert len(app.text_area(key="text").value.splitlines()) == 32
    assert 'role="alert"' not in html(app)
