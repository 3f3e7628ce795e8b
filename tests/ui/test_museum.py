"""The bug museum on the page Learn, as Streamlit runs it."""

import pytest
from test_pages import button, html, opened

from attnviz import lessons
from attnviz.lessons import bugs

CHAPTER = lessons.course().steps[-1].link | {"chapter": "12"}
NAMES = [bug.name for bug in bugs.museum()]


def learn_page():
    from attnviz.ui import frame
    from attnviz.ui.learn.page import page

    frame.body(page, frame.selection(bar=False))


def gallery(**link):
    """Chapter 12, with a bug and those that were found."""
    return opened(learn_page, **CHAPTER | link)


def named(app, bug, name):
    """The page after a bug was given a name."""
    return app.button_group(key=f"named {bug}").set_value(name).run()


def marked(app):
    """The bugs with a check mark."""
    icons = app.button_group(key="bug").proto.options
    return "".join(one.content for one in icons if "check" in one.content_icon)


def test_a_bug_whose_models_have_to_learn_waits_for_a_press():
    """What it costs is said before; then both curves are there, and stay."""
    number = next(i for i, bug in enumerate(bugs.museum(), 1) if bug.costs)
    bug = bugs.museum()[number - 1]

    app = gallery(bug=str(number))
    assert bug.costs in html(app)
    assert not app.get("vega_lite_chart")

    app = button(app, "Train both models").click().run(timeout=60)
    assert bug.costs not in html(app)
    assert len(app.get("vega_lite_chart")) == 1


def texts(app):
    return " ".join([html(app), *(one.value for one in [*app.markdown, *app.success])])


def test_a_bug_is_named_with_a_wrong_answer_and_a_hint_before_the_right_one():
    """A wrong answer says what speaks against it; a right one shows the fix, the source and what finds it."""
    first, _, third, *_ = bugs.museum()

    app = gallery()
    assert len(app.get("vega_lite_chart")) == 2
    assert first.symptom in texts(app)
    assert first.hints[0] not in texts(app)
    assert marked(app) == ""

    app = button(app, "Hint 1 of 3").click().run()
    assert first.hints[0] in texts(app)
    assert first.hints[1] not in texts(app)

    app = named(app, first.name, third.name)
    assert third.would in texts(app)
    assert "found" not in app.query_params

    app = named(app, first.name, first.name)
    assert app.query_params["found"] == first.name
    for said in (first.source, first.because, "The whole mask is inverted", "attn_mask=~masked"):
        assert said in texts(app)
    assert marked(app) == "1"
    assert not app.exception

    app = button(app, "Next bug").click().run()
    assert app.query_params["bug"] == "2"
    assert first.hints[0] not in texts(app)


def test_three_found_bugs_are_the_chapter_done():
    """Two are not, nor three without an answer; at the end there are words of farewell."""
    step = lessons.course().steps[-1]
    app = gallery(bug="3", found="axis-inverted")
    app = app.button_group(key=f"answer {step.title}").set_value(step.right).run()
    assert "learned" not in app.query_params

    app = named(app, "after", "after")

    assert app.query_params["found"] == "inverted-after-axis"
    assert app.query_params["learned"] == "12"
    assert lessons.course().closing.strip() in texts(app)


def test_what_was_found_stays_on_the_way_to_another_chapter():
    """As what was learned does."""
    app = gallery(found="inverted")

    app = app.selectbox(key="chapter").set_value(1).run()

    assert app.query_params["found"] == "inverted"


@pytest.mark.parametrize("number", range(1, len(NAMES) + 1))
def test_each_bug_shows_what_it_is_once_it_was_found(number):
    """Nothing fails, and what finds it is said."""
    bug = bugs.museum()[number - 1]

    app = gallery(bug=str(number), found=bug.name)

    assert not app.exception
    assert bug.title in texts(app)
    assert (bug.found_by or "attnviz check") in texts(app)
    assert bug.source in texts(app)
