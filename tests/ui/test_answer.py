"""The model writes: a text and its answer, which every page shows."""

import pytest
from test_pages import heads_page, html, masks_page, opened
from test_pages_compare import compare_page
from test_pages_overview import overview_page
from test_pages_steps import steps_page

from attnviz import Edits, Site, cases, files, generate, load
from attnviz.ui.heads import writing
from attnviz.ui.shared.answer import ANSWER
from attnviz.ui.shared.look import CELL

TEXT = "the cat sat on"
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


def test_the_shell_says_what_it_leaves_out(run):
    """A picture without the answer would be another one."""
    status, out, err = run("export", f"?model=story&text=the+cat&continued={LINK['continued']}")

    assert (status, out) == (2, "")
    assert "write it by attnviz generate" in err


def test_a_saved_answer_comes_out_the_same(tmp_path):
    """Its tokens are run again, and not cut anew."""
    path = tmp_path / "answer.attn"
    files.save(WRITTEN.record, path)

    assert cases.verify(path, load("story")).same
