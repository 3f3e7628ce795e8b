"""Undo and redo of everything that a link holds."""

from hypothesis import given
from hypothesis import strategies as st
from test_pages import heads_page, masks_page, opened

from attnviz.ui.shared.examples import TEXT
from attnviz.ui.shared.history import REMEMBERED, History
from attnviz.ui.shared.setting import State


def state(number: int) -> State:
    return State().put(TEXT, f"text {number}")


@given(st.lists(st.sampled_from(["undo", "redo", 0, 1, 2]), max_size=25))
def test_history_goes_back_and_forth(steps):
    """As a list of states and a place in it do, in which what is new cuts off what was undone."""
    history, listed, place = History(), [State()], 0
    for step in steps:
        if step == "undo":
            history, place = history.undo(), max(0, place - 1)
        elif step == "redo":
            history, place = history.redo(), min(len(listed) - 1, place + 1)
        else:
            history = history.do(state(step))
            if state(step) != listed[place]:
                listed, place = [*listed[: place + 1], state(step)], place + 1

        assert history.present == listed[place]
        assert history.past == tuple(listed[:place])
        assert history.future == tuple(listed[place + 1 :])


def test_a_history_forgets_what_is_long_ago():
    """The oldest steps first."""
    history = History()
    for number in range(REMEMBERED + 5):
        history = history.do(state(number))

    assert len(history.past) == REMEMBERED
    assert history.past[0] == state(4)
    assert history.past[-1] == state(REMEMBERED + 3)


def test_back_of_the_browser_is_undo_and_forward_is_redo():
    """They lead to the states beside; any other state that the browser goes to is a new one."""
    history = History().do(state(1)).do(state(2))

    assert history.browsed(state(1)) == history.undo()
    assert history.undo().browsed(state(2)) == history
    assert history.browsed(state(3)) == history.do(state(3))


def test_another_tab_is_nothing_to_undo():
    """It goes along with the state that it was opened in."""
    app = opened(heads_page, text="one two")
    app.segmented_control(key="as").set_value("lines").run()

    assert app.button(key="icon undo").disabled

    app.text_area(key="text").set_value("three four").run()
    app.segmented_control(key="as").set_value("text").run()
    app.button(key="icon undo").click().run()

    assert (app.query_params["text"], app.query_params["as"]) == ("one two", "lines")
    assert not app.button(key="icon redo").disabled


def test_everything_is_undone_and_done_again():
    """A text, a mask and no text at all: step by step, and each step on the page and in the link."""
    app = opened(masks_page, text="one two")
    links = [dict(app.query_params)]
    for act in (
        lambda: app.text_area(key="text").set_value("three four"),
        lambda: app.button(key="icon remove 0").click(),
        lambda: app.text_area(key="text").set_value(""),
        lambda: app.text_area(key="text").set_value("five"),
    ):
        act().run()
        links.append(dict(app.query_params))

    assert app.button(key="icon redo").disabled
    for link in links[-2::-1]:
        app.button(key="icon undo").click().run()

        assert dict(app.query_params) == link
        assert app.text_area(key="text").value == link.get("text", "")
    assert app.button(key="icon undo").disabled
    for link in links[1:]:
        app.button(key="icon redo").click().run()

        assert dict(app.query_params) == link
    assert not app.exception
