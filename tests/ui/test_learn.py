"""The page Learn: chapters that open by themselves, goals that are reached by doing, and the way back."""

from html import unescape

import pytest
from test_pages import button, html, opened

from attnviz import lessons
from attnviz.ui import settings
from attnviz.ui.learn import going as learn
from attnviz.ui.learn import handout
from attnviz.ui.shared.setting import PROBLEMS, State, read

STEPS = lessons.course().steps
CHAPTERS = pytest.mark.parametrize("chapter", range(1, len(STEPS) + 1))


def learn_page():
    from attnviz.ui import frame
    from attnviz.ui.learn.page import page

    frame.body(page, frame.given(bar=False))


def at(chapter: int, **more: str):
    """The page with a chapter open."""
    link = {name: values[0] for name, values in STEPS[chapter - 1].link.items()}
    return opened(learn_page, **link, chapter=str(chapter), **more)


@CHAPTERS
def test_a_chapter_opens_and_its_goal_is_not_reached_yet(chapter):
    """The idea, something to do and a picture are there, and no answer; every link can be read in full."""
    step, app = STEPS[chapter - 1], at(chapter)

    assert not app.exception
    assert f"{chapter} · {step.title}" in html(app)
    assert step.do in " ".join(one.value for one in app.markdown)
    if chapter != 6:  # whose picture is made on demand
        assert app.get("vega_lite_chart") or '<table class="facts walked">' in html(app)
    assert not app.success
    for link in (step.link, *step.goal):
        assert not read(link, settings.LINKED)[PROBLEMS]


@pytest.mark.parametrize("chapter", range(1, 12))
def test_reaching_the_goal_shows_the_answer_and_keeps_it_in_the_link(chapter):
    """By any of its goals, in the state that the chapter begins with."""
    step = STEPS[chapter - 1]
    begun = learn.opened(State(), lessons.course(), chapter)

    assert not learn.reached(step, begun)
    for goal in step.goal:
        assert learn.reached(step, begun.replaced(read(begun.link() | goal, settings.LINKED)))

    app = opened(
        learn_page, **{name: values[0] for name, values in (step.link | step.goal[0]).items()}, chapter=str(chapter)
    )

    assert [one.value for one in app.success] == [step.answer]
    assert app.query_params["learned"] == str(chapter)

    button(app, "Reset this chapter").click().run()

    assert app.query_params["learned"] == str(chapter)
    assert not learn.reached(step, read({name: [value] for name, value in app.query_params.items()}, settings.LINKED))


def test_the_next_chapter_is_one_press_away():
    """With what was learned, and nothing else of the chapter before."""
    app = at(9, positions="false")
    button(app, "Next chapter").click().run()

    assert not app.exception
    assert f"10 · {STEPS[9].title}" in html(app)
    assert app.query_params["learned"] == "9"
    assert "positions" not in app.query_params


def test_what_was_open_on_another_page_waits():
    """A chapter opens with its own text; one press leads back to the other."""
    app = opened(learn_page, model="scratch", text="a text of my own")

    assert app.query_params["text"] == STEPS[0].link["text"][0]
    assert app.query_params["chapter"] == "1"
    assert f"1 · {STEPS[0].title}" in html(app)
    assert button(app, "Back to my text")


def test_both_models_are_trained_on_demand():
    """Chapter 6 shows two losses once they were asked for, and says what writing costs."""
    app = at(6)
    charts = len(app.get("vega_lite_chart"))
    button(app, "Train both models").click().run()

    assert not app.exception
    assert len(app.get("vega_lite_chart")) == charts + 1
    assert "a guess has 2.77" in html(app)
    assert app.query_params["learned"] == "6"


@pytest.mark.parametrize("solved", [False, True])
def test_a_handout_has_every_step_and_its_picture(solved):
    """Answers and notes stand in that of the teacher alone."""
    lesson = lessons.named("20-minutes")
    paper = unescape(handout.page(lesson, solved=solved).decode())

    for i, step in enumerate(lesson.steps, 1):
        assert f"{i}. {step.title}" in paper
        assert step.do in paper
        assert (step.answer in paper) == (step.notes in paper) == solved
    assert paper.count("<img") == 4
