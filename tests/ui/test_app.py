"""Pages drawn without a browser, by what stands in their link."""

import time

import pytest
from streamlit.testing.v1 import AppTest

from attnviz import lessons, link
from attnviz.core.edits import Site
from attnviz.link import Choices

CHAPTERS = lessons.course().steps
PAGES = ("Heads", "Overview", "Masks", "Steps", "Compare")
"""Pages that look at the model and the text of the first row."""


def page_of(title: str) -> None:
    import streamlit as st

    from attnviz.ui import main

    def go_to(other: str) -> None:
        st.session_state["title"] = other
        st.rerun()

    main.go_to = go_to
    title = st.session_state.get("title", title)
    main.row_above(title)
    main.body(title)


def opened(title: str = "Heads", **address: str) -> AppTest:
    """Run a page at a link."""
    app = AppTest.from_function(page_of, args=(title,), default_timeout=120)
    for name, value in address.items():
        app.query_params[name] = value
    app.run()
    assert not app.exception
    return app


def html(app: AppTest) -> str:
    """Return all HTML of the page."""
    return " ".join(element.proto.body for element in app.get("html"))


def button(app: AppTest, label: str):
    """Return the button with a label."""
    return next(button for button in app.button if button.label == label)


def drop(app: AppTest, *files: tuple[str, bytes]) -> AppTest:
    """Open files, each a name and its bytes, in the menu *Open*."""
    app.session_state["open menu"] = True
    app.run()
    app.file_uploader[0].set_value([(name, content, "") for name, content in files]).run()
    assert not app.exception
    return app


def choices(app: AppTest) -> Choices:
    return app.session_state["attnviz"].choices


@pytest.mark.parametrize("number", range(1, len(CHAPTERS) + 1))
def test_a_chapter_opens_and_its_answer_comes_with_the_right_choice(number):
    """A wrong choice gives a hint."""
    chapter, app = CHAPTERS[number - 1], opened("Learn", model="story", chapter=str(number))

    assert chapter.do in " ".join(text.value for text in app.markdown)
    assert not app.success
    if chapter.choices:
        wrong = next(choice for choice in chapter.choices if choice != chapter.right)
        app.radio[0].set_value(wrong).run()
        assert not app.success
        assert chapter.hint in app.info[0].value
        app.radio[0].set_value(chapter.right).run()
    else:
        next(button for button in app.button if button.label == "Show the answer").click().run()
    assert app.success[0].value.strip() == chapter.answer


def test_after_a_chapter_ones_own_text_and_undo_stand_again_and_a_chapter_is_taken_on_when_asked():
    """A link in a chapter opens as it was left."""
    app = opened("Heads", model="story", text="the dog ran", layer="d1", head="1")
    next(group for group in app.button_group if group.key == "heads_off").set_value([0]).run()
    own = choices(app)
    app.session_state["title"] = "Learn"
    app.run()
    app.button("next").click().run()
    assert choices(app)["chapter"] == 2
    app.selectbox("cell row").set_value(9).run()
    linked = opened("Learn", **link.write(choices(app)))
    assert linked.selectbox("cell row").value == app.selectbox("cell row").value == 9

    app.session_state["title"] = "Heads"
    app.run()
    assert choices(app) == own
    app.button("Undo").click().run()
    assert choices(app)["heads_off"] == frozenset()
    app.session_state["title"] = "Learn"
    app.run()
    assert choices(app)["chapter"] == 2
    app.button("go on").click().run()

    assert app.session_state["title"] == "Steps"
    assert choices(app)["chapter"] is None
    assert choices(app)["text"].startswith("The cat")


def test_a_change_is_a_chip_and_undo_takes_it_back():
    app = opened(model="story", layer="d1", head="0")
    pills = next(group for group in app.button_group if group.key == "heads_off")

    pills.set_value([0]).run()
    assert choices(app)["heads_off"] == {(Site("decoder", 1), 1)}
    assert any(button.label == "head 1 of decoder layer 1 off" for button in app.button)
    app.button("Undo").click().run()

    assert choices(app)["heads_off"] == frozenset()
    assert link.write(choices(app)) == {"model": "story", "layer": "d1", "head": "0"}


def test_another_model_keeps_the_mask_and_lets_go_of_what_it_lacks():
    app = opened(model="story", layer="d1", head="1", mask="causal & window(2)", text="the dog ran", heads_off="d1.0")

    app.selectbox("model").set_value("translator").run()

    assert not app.exception
    after = choices(app)
    assert (after["model"], after["layer"], after["heads_off"]) == ("translator", None, frozenset())
    assert after["mask"].text == "causal & window(2)"


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ({"model": "nosuch"}, "nosuch"),
        ({"model": "scratch:d_model=0"}, "d_model"),
        ({"model": "scratch:bogus=1"}, "bogus"),
        ({"model": "story", "text": "cat " * 90}, "story reads up to 64"),
        ({"model": "story", "text": "blorp sat"}, "blorp"),
    ],
)
def test_a_wrong_input_is_one_sentence(address, sentence):
    app = opened(**address)
    while app.get("progress"):
        time.sleep(0.05)
        app.run()

    assert html(app).count('class="note') == 1
    assert sentence in html(app)


def test_a_text_that_is_too_long_is_shortened_to_what_the_model_reads():
    """Or read by a model that takes all of it."""
    text = "the cat sat on the mat because it was tired . " * 9
    app = opened(model="story", text=text)

    app.button("first tokens").click().run()
    assert not app.exception
    shortened = choices(app)["text"]
    assert text.startswith(shortened)
    assert "reads up to" not in html(app)
    longer = text[: len(shortened) + 5]
    assert "reads up to 64" in html(opened(model="story", text=longer))
    app = opened(model="story", text=text)
    app.button("other model").click().run()

    assert choices(app)["model"] != "story"
    assert "reads up to" not in html(app)


@pytest.mark.parametrize(
    ("b", "link", "kind"),
    [("model=translator", {}, "model"), ("original", {"heads_off": "d1.0"}, "original"), ("text=a dog", {}, "text")],
)
def test_what_differs_in_b_follows_from_its_link(b, link, kind):
    """The model that a link leaves out is the usual one, and nothing at all is the original."""
    app = opened("Compare", model="story", b=b, **link)

    assert app.selectbox(key="b kind").value == kind
    assert "B cannot be" not in html(app)


@pytest.mark.parametrize(
    ("b", "sentence"),
    [
        ("part=model&model=no/such/place", "no/such/place"),
        ("part=model&model=shapes", "Only one of shapes and story reads a picture"),
        ("part=head&layer=d7&head=1", "There is no head d7.1"),
        ("part=original", "nothing is changed"),
        ("part=text&text=", "B has no text yet: type one."),
    ],
)
def test_a_b_that_is_not_there_is_one_sentence(b, sentence):
    """The rest of the page stays."""
    app = opened("Compare", model="story", layer="d1", head="0", b=b)

    assert html(app).count('class="note') == 1
    assert sentence in html(app)
    assert app.selectbox(key="b kind").value


def test_a_stage_that_is_not_there_is_a_sentence_with_those_that_are():
    text = html(opened("Steps", model="story", stage="kitchen"))

    assert all(name in text for name in ("kitchen", "softmax"))
