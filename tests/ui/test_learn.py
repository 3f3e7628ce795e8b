"""The page Learn: chapters that open by themselves, goals that are reached by doing, and the way back."""

from html import unescape
from unittest.mock import Mock

import pytest
import streamlit as st
from test_pages import button, html, opened
from test_pages_steps import table

from attnviz import api, lessons
from attnviz.analysis import steps
from attnviz.core.amounts import digits
from attnviz.export import ExportError
from attnviz.ui import settings
from attnviz.ui.learn import going as learn
from attnviz.ui.learn import slides, words
from attnviz.ui.shared import look
from attnviz.ui.shared.setting import PROBLEMS, State, read
from attnviz.ui.shared.welcome import FIRST

STEPS = lessons.course().steps
CHAPTERS = pytest.mark.parametrize("chapter", range(1, len(STEPS) + 1))


def learn_page():
    from attnviz.ui import frame
    from attnviz.ui.learn.page import page

    frame.body(page, frame.selection(bar=False))


def at(chapter: int, **more: str):
    """The page with a chapter open."""
    link = {name: values[0] for name, values in STEPS[chapter - 1].link.items()}
    return opened(learn_page, **link | more, chapter=str(chapter))


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
    if "cell" not in step.link:
        assert "of its attention to" not in html(app)  # nobody has asked about a cell yet
    for link in (step.link, *step.goal):
        assert not read(link, settings.LINKED)[PROBLEMS]


def test_what_a_link_to_a_chapter_has_wrong_is_said():
    """Though the chapter opens with a state of its own."""
    former = unescape(html(opened(learn_page, lesson="20-minutes", present="true")))
    assert 'The page opens without the unknown link setting "lesson"' in former

    app = opened(learn_page, chapter="99")
    why = 'The page opens without the link setting "chapter": 99 does not exist. There are chapters 1 to 12.'
    assert why in unescape(html(app))
    assert STEPS[0].title in unescape(html(app))


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
    if step.choices:
        assert not app.success
        wrong = next(one for one in step.choices if one != step.right)
        pick(app, step, wrong)
        assert step.hint in unescape(html(app))
        assert not app.success
        pick(app, step, step.right)

    assert [one.value for one in app.success] == [step.answer]
    assert app.query_params["learned"] == str(chapter)

    button(app, "Reset this chapter").click().run()

    assert app.query_params["learned"] == str(chapter)
    assert not learn.reached(step, read({name: [value] for name, value in app.query_params.items()}, settings.LINKED))


def pick(app, step, choice: str) -> None:
    """Choose an answer."""
    app.button_group(key=f"answer {step.title}").set_value(choice).run()


@pytest.mark.parametrize(
    ("chapter", "done", "said"),
    [
        (1, {"cell": "10.8"}, "You picked the row “tired” and the column “it”. "),
        (4, {"scores": "temperature-2"}, ""),
        (7, {"head": "3"}, "You picked head 3. "),
        (10, {"heads_off": "d1.1"}, ""),
        (11, {"step": "150"}, ""),
    ],
)
def test_what_is_not_asked_for_is_answered_with_where_to_look(chapter, done, said):
    """Nothing is said before; the answer is not given."""
    wrong = STEPS[chapter - 1].wrong
    assert wrong not in unescape(html(at(chapter)))

    app = at(chapter, **done)

    assert said + wrong in unescape(html(app)).translate(dict.fromkeys(map(ord, "\u2068\u2069")))
    assert not app.success


def test_an_answer_before_it_was_tried_is_a_guess():
    """Right or not, it asks to try; once that is done the guess counts."""
    app, step = at(5), STEPS[4]
    pick(app, step, step.right)

    assert words.FIRST_TRY in html(app)
    assert "learned" not in app.query_params

    app.toggle(key="own_mask learn").set_value(True).run()

    assert [one.value for one in app.success] == [step.answer]


def test_the_lookup_shows_the_values_that_it_adds_up():
    """Each word's value times its weight, and their sum: another query, another picture."""
    shown = [at(2, query=query).get("vega_lite_chart") for query in ("7", "9")]

    assert [len(charts) for charts in shown] == [1, 1]
    assert shown[0][0].proto != shown[1][0].proto


def test_the_dot_products_of_a_lesson_are_the_librarys():
    (spread,) = steps.dot_product_variance((256,))

    assert table(at(3, dk="256"), "500 random queries, dₖ = 256") == [
        ["variance of the scores", digits(spread.variance), digits(spread.scaled_variance)],
        ["entropy (nats)", digits(spread.unscaled.entropy), digits(spread.scaled.entropy)],
        ["largest weight", digits(spread.unscaled.largest), digits(spread.scaled.largest)],
        ["softmax gradient", digits(spread.unscaled.gradient), digits(spread.scaled.gradient)],
    ]


def test_words_in_another_order_keep_their_output_without_positions_alone():
    """Chapter 9: the line under the switch says by how much the outputs change with the words from last to first."""
    said = unescape(html(at(9, positions="true")))
    source, text = api.load("scratch"), STEPS[8].link["text"][0]
    outputs = [api.analyze(order, source).output[0] for order in (text, " ".join(reversed(text.split())))]

    moved = float((outputs[1] - outputs[0].flip(0)).abs().max())

    assert f"the outputs of words change by up to {moved:.2g};" in said
    assert "each word keeps its output, but for rounding" in unescape(html(at(9, positions="false")))


def test_the_end_of_the_slider_is_a_step_of_the_training():
    """The last step is the final one, and reaches the goal of chapter 11, too."""
    app, step = at(11), STEPS[10]
    app.select_slider(key="step learn").set_value(1500).run()
    pick(app, step, step.right)

    assert app.query_params["learned"] == "11"


def test_the_next_chapter_is_one_press_away():
    """With what was learned, and nothing else of the chapter before."""
    app = at(9, positions="false")
    pick(app, STEPS[8], STEPS[8].right)
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
    first_visit = opened(learn_page, **{name: values[0] for name, values in FIRST.items()})
    assert "Back to my text" not in [one.label for one in first_visit.button]


def test_both_models_are_trained_on_demand():
    """Chapter 6 shows the mask and none, over them the losses once they were asked for, and says what writing costs."""
    app = at(6)

    assert len(app.get("vega_lite_chart")) == 2
    assert "Row “cat” (2) has to predict “sat” (3)" in unescape(html(app))

    button(app, "Train both models").click().run()

    assert not app.exception
    steps, with_mask, without = zip(*table(app, "training step"), strict=True)
    assert steps == ("0", "30", "60", "90", "120")
    assert float(with_mask[-1]) == pytest.approx(2.77, abs=0.1)
    assert float(without[-1]) < 0.1
    assert "a guess has 2.77" in html(app)
    pick(app, STEPS[5], STEPS[5].right)
    assert app.query_params["learned"] == "6"


def test_the_picture_for_a_slide_is_that_of_the_state():
    """A PNG, with the cell that is selected."""
    now = learn.begun(STEPS[0])
    plain, chosen = (slides.slide(STEPS[0], one) for one in (now, now.put(look.CELL, (9, 2))))

    assert plain.startswith(b"\x89PNG")
    assert plain != chosen
    assert [one.label for one in at(1).get("download_button")][-1] == words.SLIDE


def test_a_picture_for_a_slide_that_could_not_be_made_is_explained_with_the_next_run(monkeypatch):
    """Once: a worker that was killed twice, for one."""
    made, reason = {}, "The program that draws was killed twice (SIGKILL)."
    monkeypatch.setattr(st, "download_button", lambda label, **options: made.update({label: options["data"]}))
    monkeypatch.setattr("attnviz.export.render", Mock(side_effect=ExportError(reason)))
    app = at(1)
    assert reason not in html(app)

    with pytest.raises(ExportError):
        made[words.SLIDE]()
    app.run()

    assert html(app).count(reason) == 1
    app.run()
    assert reason not in html(app)
