"""What is drawn before anybody asks for it: found by a click, changing nothing, and over when somebody speaks."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from streamlit.testing.v1 import AppTest

from attnviz.core.progress import tell
from attnviz.ui import brief
from attnviz.ui.shared import ahead, arrivals, cache, look


@pytest.fixture(autouse=True)
def empty(monkeypatch) -> Iterator[None]:
    """Guesses are made at once, however busy this machine is."""
    monkeypatch.setattr(ahead, "QUIET", 0)
    monkeypatch.setattr(ahead, "BUSY", float("inf"))
    cache.KEPT.clear()
    yield
    cache.KEPT.clear()


def heads_page():
    from attnviz.ui import frame
    from attnviz.ui.heads.page import page

    frame.body(page, frame.given())


def opened(page: Callable[[], None] = heads_page, **parts: str) -> AppTest:
    app = AppTest.from_function(page, default_timeout=60)
    for name, value in ({"model": "story", "text": "the cat sat down"} | parts).items():
        app.query_params[name] = value
    return app.run()


def guess() -> set:
    """Make what is guessed after a run; gives the keys of all that is kept then."""
    ahead._now.work()
    return {*cache.KEPT.keys()}


def click(app: AppTest, key: str, option: object) -> None:
    """An eye, or a mask, on or off."""
    pills = app.button_group(key=key)
    pills.set_value([*{*pills.value} ^ {option}]).run()


def shown(app: AppTest) -> list[bytes]:
    """All that the browser is sent."""
    return [
        element.proto.SerializeToString(deterministic=True) for element in app.main if getattr(element, "proto", None)
    ]


CLICKS = [("off eyes", 1), ("mask rules", "window"), ("off eyes", 0), ("off eyes", 1)]


@pytest.mark.parametrize("link", [{}, {"as": "lines"}, {"as": "text", "show": "mean"}, {"model": "translator"}])
def test_a_click_shows_the_same_and_draws_nothing_where_it_was_guessed(link):
    """Each next state of a page is there before it is asked for, and is what the page would have drawn."""
    plain = opened(**link)
    apart = [shown(plain)]
    for where in CLICKS:
        click(plain, *where)
        apart.append(shown(plain))
    cache.KEPT.clear()
    app = opened(**link)
    for where, before, after in zip(CLICKS, apart, apart[1:], strict=False):
        assert shown(app) == before

        known = guess()
        click(app, *where)
        made = {key for key in {*cache.KEPT.keys()} - known if key[0] in ("show", "describe")}

        assert not app.exception
        assert not made
        assert shown(app) == after


def steps_page():
    from attnviz.ui import frame
    from attnviz.ui.steps.page import page

    frame.body(page, frame.given())


STEPS = [
    lambda app: app.toggle(key="knobs mask_after_softmax").set_value(True).run(),
    lambda app: app.button(key="go Next").click().run(),
    lambda app: app.toggle(key="tuned scaled").set_value(False).run(),
    lambda app: app.button(key="go Back").click().run(),
]


@pytest.mark.parametrize("link", [{"stage": "softmax"}, {"stage": "position", "model": "translator", "site": "d0"}])
def test_a_knob_or_the_next_step_shows_the_same_and_works_nothing_out_where_it_was_guessed(link):
    """Of one call step by step: its numbers and its pictures."""
    plain = opened(steps_page, knobs="add", **link)
    apart = [step(plain) and shown(plain) for step in STEPS]
    cache.KEPT.clear()
    app = opened(steps_page, knobs="add", **link)
    for step, after in zip(STEPS, apart, strict=True):
        known = guess()
        step(app)

        assert not app.exception
        assert not {key for key in {*cache.KEPT.keys()} - known if "show" in key or "chain" in key}
        assert shown(app) == after


def test_guesses_are_bounded_by_bytes_and_go_with_their_visitor(monkeypatch):
    """Of a session that ended nothing more is guessed, and nothing is kept of what was."""
    opened(model="scratch")

    def lent() -> list:
        return [*filter(lambda key: key[0] == cache.LENT, cache.KEPT.keys())]

    monkeypatch.setattr(look, "MOST_AHEAD", 0)
    opened(model="scratch")
    guess()
    assert not lent()

    monkeypatch.undo()
    monkeypatch.setattr(ahead, "QUIET", 0)
    opened(model="scratch")
    monkeypatch.setattr(arrivals, "is_there", lambda session: False)
    guess()

    assert len(lent()) == 1

    cache.forget_the_dead()

    assert not lent()


def test_any_word_of_a_browser_ends_guesses_and_who_waits_makes_what_was_begun():
    """A guess ends in the midst of a map; what it was making for the cache is no error for anybody."""
    made = []

    def heard() -> None:
        async def hear() -> dict:
            return {"type": "websocket.receive", "bytes": b""}

        asyncio.run(brief._Browser(hear, None).receive())

    def half() -> bool:
        heard()
        tell(0.5)
        return True

    ahead.begin([lambda: made.append("first") is None, lambda: cache.KEPT.get("half", half), lambda: made.append("no")])
    ahead._now.work()

    assert made == ["first"]
    assert "half" not in cache.KEPT
    assert cache.KEPT.get("half", lambda: "made") == "made"


def test_what_is_guessed_while_a_browser_speaks_is_not_begun():
    """A run that follows at once takes the place of guesses that nothing was made of."""
    made = []
    ahead.begin([lambda: made.append(1)])
    before = ahead._now
    ahead.begin([])
    before.work()

    assert not made
