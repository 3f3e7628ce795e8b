"""The model writes: a text and its answer, which every page shows."""

import io
from html import unescape
from urllib.parse import urlencode

import numpy as np
import pytest
from test_pages import heads_page, html, masks_page, opened
from test_pages_compare import compare_page
from test_pages_overview import overview_page
from test_pages_steps import steps_page

from attnviz import Edits, Site, analyze, cases, export, figures, files, generate, load
from attnviz.analysis.align import Side, beside
from attnviz.analysis.views import View
from attnviz.ui.heads import writing
from attnviz.ui.shared.answer import ANSWER
from attnviz.ui.shared.look import CELL, VIEW

TEXT, SITE = "the cat sat on", Site("decoder", 1)
WRITTEN = generate(TEXT, "story", 8)
LINK = {"model": "story", "text": TEXT, "continued": "-".join(map(str, WRITTEN.ids))}


def state(app):
    return app.session_state["state"].state


def test_the_answer_is_the_models_and_stands_in_the_link():
    """One click; no answer is there before."""
    app = opened(heads_page, model="story", text=TEXT)
    assert "continued" not in app.query_params

    app.button(key="continue").click().run()

    assert state(app)[ANSWER] == WRITTEN.ids
    assert app.query_params["continued"] in (LINK["continued"], [LINK["continued"]])
    assert list(app.button_group(key="cell answer").options) == [token.text for token in WRITTEN.tokens]


@pytest.mark.parametrize("page", [heads_page, overview_page, masks_page, steps_page, compare_page])
def test_every_page_shows_text_and_answer(page):
    """As the link holds them; nothing is written again."""
    app = opened(page, **LINK)

    assert not app.exception
    assert state(app)[ANSWER] == WRITTEN.ids
    assert 'role="alert"' not in html(app)


def test_a_written_word_outlines_the_row_that_it_was_written_from():
    """With the most probable tokens there, of which another one goes on otherwise."""
    app = opened(heads_page, **LINK)
    app.button_group(key="cell answer").set_value(WRITTEN.prompt + 1).run()
    position = WRITTEN.prompt + 1
    other = next(id for id, _, _ in WRITTEN.alternatives(position) if id != WRITTEN.ids[1])

    assert state(app)[CELL][0] == position - 1
    assert f"({position}) was written from row" in html(app)

    app.button(key=f"instead {other}").click().run()

    assert state(app)[ANSWER] == generate(TEXT, "story", 64, begin=(WRITTEN.ids[0], other)).ids
    assert "Before (differs from token 2 on):" in html(app)


def test_the_end_of_text_may_be_written_instead():
    """The answer ends there."""
    source = load("story")
    drawn = generate(TEXT, source, 24, sampling_temperature=1.0, seed=3)
    (end,) = source.ends
    place = next(place for place in range(1, 9) if end in [id for id, _, _ in drawn.alternatives(drawn.prompt + place)])
    app = opened(heads_page, **LINK | {"continued": "-".join(map(str, drawn.ids))})
    app.button_group(key="cell answer").set_value(drawn.prompt + place).run()
    app.button(key=f"instead {end}").click().run()

    assert state(app)[ANSWER] == drawn.ids[:place]


def test_a_long_answer_is_there_in_parts(monkeypatch):
    """A selected row turns to the part that has the token that was written from it."""
    monkeypatch.setattr(writing, "AT_ONCE", 16)
    ids, position = range(300, 340), WRITTEN.prompt + 35
    app = opened(heads_page, **LINK | {"continued": "-".join(map(str, ids)), "cell": f"{position - 1}.0"})
    words = app.button_group(key="cell answer")

    assert (len(words.options), words.value) == (40 - 2 * 16, position)

    app.button(key="icon chevron_left").click().run()

    assert len(app.button_group(key="cell answer").options) == 16
    assert "Tokens 17 to 32 of 40" in html(app)


def test_with_a_head_off_the_answer_is_written_again():
    """The first one stays to be read, with its first token that differs marked."""
    edits = Edits(heads_off=frozenset({(Site("decoder", 1), 0)}))
    changed = generate(TEXT, "story", 64, edits)
    app = opened(heads_page, **LINK, off="d1.0")
    app.button(key="continue").click().run()

    assert state(app)[ANSWER] == changed.ids
    place = changed.first_difference(WRITTEN) - changed.prompt
    assert f"<u>{WRITTEN.tokens[place].text}</u>" in html(app)


def test_an_answer_goes_with_its_text():
    """And by its button."""
    app = opened(heads_page, **LINK)
    app.button(key="no answer").click().run()
    assert state(app)[ANSWER] == ()

    app = opened(heads_page, **LINK)
    app.text_area[0].set_value("a dog").run()
    assert state(app)[ANSWER] == ()


def test_a_model_that_continues_no_text_has_no_button():
    keys = {button.key for button in opened(heads_page, model="translator", text=TEXT).button}

    assert "continue" not in keys


def test_an_id_that_there_is_not_is_one_sentence():
    """A link may hold any number."""
    app = opened(heads_page, model="story", text=TEXT, continued="5-99999")

    assert not app.exception
    assert "There is no token with the id 99999" in html(app)


def test_another_model_reads_the_answer_as_text():
    """Its ids are other ones."""
    app = opened(compare_page, **LINK, b="model-induction")

    assert not app.exception
    assert 'role="alert"' not in html(app)


HEAD_OFF = Edits(heads_off=frozenset({(SITE, 1)}))
ANSWERED = {
    "?layer=d1&head=0": lambda: figures.head(WRITTEN.record, SITE, 0),
    "overview?": lambda: figures.overview(WRITTEN.record),
    "masks?layer=d1": lambda: figures.mask(
        WRITTEN.record.step(SITE).mask, *WRITTEN.record.tokens(SITE), predicted=WRITTEN.record.predicted(SITE)
    ),
    "compare?layer=d1&head=0&heads_off=d1.1": lambda: _difference(again(HEAD_OFF), WRITTEN.record),
    "compare?layer=d1&head=0&b=step-0": lambda: _difference(WRITTEN.record, again(source=load("story", step=0))),
    "compare?layer=d1&head=0&b=sentence-the dog sat": lambda: _difference(
        WRITTEN.record, analyze("the dog sat", "story")
    ),
    "compare?layer=d1&head=0&b=model-induction": lambda: _difference(
        WRITTEN.record, analyze(WRITTEN.sentence.text, "induction")
    ),
}
"""Figures of links that hold the answer: of the record that was written with it, or its tokens run again."""


def again(edits=Edits(), source=None):
    """The record of the answer, run otherwise."""
    return (source or load("story")).run(WRITTEN.record.sentences, edits)


def _difference(*records):
    return figures.difference(beside(*(Side(record, SITE, 0) for record in records)))


@pytest.mark.parametrize("link", ANSWERED)
def test_a_link_with_an_answer_is_exported_with_it(run, link):
    """The numbers of prompt and answer, as the pages show them."""
    page, _, query = link.partition("?")
    status, _, err = run("export", f"{page}?{urlencode(LINK)}&{query}", "-o", "link.npz")
    expected = np.load(io.BytesIO(export.render(ANSWERED[link](), "npz")))

    assert (status, err) == (0, "")
    with np.load("link.npz") as exported:
        assert sorted(exported) == sorted(expected)
        for name in expected:
            np.testing.assert_array_equal(exported[name], expected[name])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a cat", "--model", "translator", "--continued", "5"], "'translator' predicts no next token"),
        (
            ["a cat\na dog", "--model", "story", "--lines", "--continued", "5"],
            "An answer continues one text; there are 2",
        ),
        (["a cat", "--model", "story", "--continued", "5,6"], "'5,6' are no ids of tokens; give 12-5-7"),
        (["a cat", "--model", "story", "--continued", "99999"], "There is no token with the id 99999"),
    ],
)
def test_an_answer_that_does_not_fit_is_one_sentence(run, arguments, message):
    status, out, err = run("export", *arguments)

    assert (status, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_saved_answer_comes_out_the_same(tmp_path):
    """Its tokens are run again, and not cut anew."""
    path = tmp_path / "answer.attn"
    files.save(WRITTEN.record, path)

    assert cases.verify(path, load("story")).same


def test_from_a_cell_of_sentences_a_button_leads_to_its_tokens_and_back():
    """Prompt and answer are a sentence each: of <sos>, 4 and 4 tokens; `cell` is within both, and is selected again."""
    app = opened(heads_page, **LINK, view="sentences", cell="6.2")
    assert "“the␣mats.” (5–7) gives" in unescape(html(app))

    app.button(key="tokens of cell").click().run()
    assert app.query_params["zoom"] in ("5.7.1.4", ["5.7.1.4"])
    assert "view" not in app.query_params
    assert "3 queries by 4 keys" in html(app)

    app.button(key="back to units").click().run()
    assert "zoom" not in app.query_params
    assert state(app)[VIEW] == View(sentences=True)
    assert state(app)[CELL] == (5, 1)


def test_a_part_that_is_no_cell_of_sentences_leads_back_to_the_whole_map_alone():
    app = opened(heads_page, **LINK, zoom="5.7.0.4")

    assert [button.key for button in app.button if button.key in ("crumb 0", "back to units")] == ["crumb 0"]
