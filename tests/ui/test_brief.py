"""Brief runs: what a browser is told of them.

In a script of what the app says a number is a pause, in seconds, and a function what a browser that was sent this
reports.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from attnviz.ui import brief

DONE, EARLY = ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY, ForwardMsg.FINISHED_EARLY_FOR_RERUN
MOMENT, LONG = 0.04, 0.5
"""Pauses after which there is a sign that the app runs, and after which the browser is told all."""


def began(*fragments: str) -> ForwardMsg:
    """What a run begins with: of fragments, or of the whole page."""
    message = ForwardMsg()
    message.new_session.name = "attnviz"
    message.metadata.run.fragment_ids.extend(fragments)
    return message


def sign(name: str) -> ForwardMsg:
    """What keys.js is told, and Streamlit passes over."""
    return ForwardMsg(stop_auto_rerun={"fragment_ids": [name]})


def runs(now: bool) -> ForwardMsg:
    """What tells whether the app runs."""
    message = ForwardMsg()
    message.session_status_changed.script_is_running = now
    return message


def _delta(hash: str, *path: int, part: str = "body") -> ForwardMsg:
    message = ForwardMsg(hash=hash)
    message.metadata.delta_path.extend(path)
    message.delta.fragment_id = part
    return message


def drawn(place: int = 0, body: str = "a picture", again: bool = False, part: str = "body", within=()) -> ForwardMsg:
    """An element; one that is to be sent again has an effect each time."""
    message = _delta(body, *within, place, part=part)
    message.delta.new_element.html.body = body
    message.delta.new_element.has_one_shot_effect = again
    return message


def picture(place: int, key: str, body: str) -> ForwardMsg:
    """A picture to select in, so large that the browser keeps it."""
    message = _delta(f"{key} {body}", place)
    message.metadata.cacheable = True
    message.delta.new_element.vega_lite_chart.id = key
    return message


def button(place: int, key: str) -> ForwardMsg:
    message = _delta(key, place)
    message.delta.new_element.button.id = key
    return message


def toggle(place: int, key: str, on: bool) -> ForwardMsg:
    """A widget that is given its value."""
    message = _delta(f"{key} {on}", place)
    message.delta.new_element.has_one_shot_effect = message.delta.new_element.checkbox.set_value = True
    message.delta.new_element.checkbox.id, message.delta.new_element.checkbox.value = key, on
    return message


def reports(**values: bool) -> Callable[[list[bytes]], BackMsg]:
    """What the widgets of a browser hold."""
    message = BackMsg()
    for key, value in values.items():
        message.rerun_script.widget_states.widgets.add(id=key, bool_value=value)
    return lambda sent: message


def box(place: int, kind: str, *within: int) -> ForwardMsg:
    """A container."""
    message = _delta(kind, *within, place)
    message.delta.add_block.id = kind
    return message


def known(message: ForwardMsg) -> ForwardMsg:
    """What is sent in the place of a message that the browser keeps."""
    return ForwardMsg(ref_hash=message.hash, metadata=message.metadata)


def ended(how: int = DONE) -> ForwardMsg:
    return ForwardMsg(script_finished=how)


def run(*drawn: ForwardMsg | float, part: str = "body", how: int = DONE) -> list[ForwardMsg | float]:
    """All that Streamlit says of a run of a part."""
    return [began(*filter(None, [part])), runs(True), *drawn, ended(how), runs(False)]


def told(*script: ForwardMsg | float | Callable) -> list[ForwardMsg]:
    """What a browser is told where the app says this."""
    sent: list[bytes] = []
    reported: list[BackMsg] = []

    async def app(scope, receive, send):
        for message in script:
            if isinstance(message, float):
                await asyncio.sleep(message)
            elif callable(message):
                reported.append(message(sent))
                await receive()
            else:
                await send({"type": "websocket.send", "bytes": message.SerializeToString()})

    async def listen() -> list[bytes]:
        async def receive():
            return {"type": "websocket.receive", "bytes": reported.pop().SerializeToString()}

        async def send(message):
            sent.append(message["bytes"])

        await brief.BriefRuns(app)({"type": "websocket"}, receive, send)
        await asyncio.sleep(4 * brief.MOMENT)  # what is still on its way would come now
        return sent

    with ThreadPoolExecutor(1) as own:  # in a thread of its own: another test may run a loop in this one
        return [ForwardMsg.FromString(one) for one in own.submit(asyncio.run, listen()).result()]


def told_of_second(first: list[ForwardMsg], second: list[ForwardMsg | float]) -> list[ForwardMsg]:
    """What a browser is told of the second of two runs."""
    return told(*first, *second)[len(told(*first)) :]


def quiet(run: list[ForwardMsg]) -> list[ForwardMsg]:
    """All of a run but that the app runs, or ran."""
    return [one for one in run if not one.HasField("session_status_changed")]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(brief, "MOMENT", 0.01)
    monkeypatch.setattr(brief, "LONG", 0.1)


def test_a_brief_run_of_a_part_that_was_not_seen_is_told_without_that_it_runs():
    assert told(*run(drawn())) == quiet(run(drawn()))


def test_of_the_same_elements_at_the_same_places_those_are_sent_that_changed():
    """And nothing of the run itself."""
    before = run(box(0, "row"), drawn(1), drawn(2), picture(3, "map", "old"))
    after = run(box(0, "row"), drawn(1), drawn(2, "another"), picture(3, "map", "new"))

    assert told_of_second(before, before) == []
    assert told_of_second(before, after) == [after[4], after[5]]
    assert told_of_second([*before, *after], before) == [before[4], before[5]]


def test_what_has_an_effect_each_time_is_sent_each_time():
    assert told_of_second(run(drawn(), drawn(1, again=True)), run(drawn(), drawn(1, again=True))) == [
        drawn(1, again=True)
    ]


def test_a_picture_that_the_browser_keeps_is_named():
    """Not where it stands there already."""
    first, second = run(picture(0, "map", "old")), run(picture(0, "map", "new"))
    back = run(known(picture(0, "map", "old")))

    assert told_of_second([*first, *second], back) == [back[2]]
    assert told_of_second(first, back) == []


@pytest.mark.parametrize("part", ["body", ""])
def test_what_is_named_is_dropped_with_its_container_and_with_the_one_before_it(part):
    """Of a run that is cut short Streamlit drops what was not sent, but not what is named in it: the page was white."""
    row, first, second = box(0, "row"), box(0, "column", 0), box(1, "column", 0)
    kept, in_lost, after_lost = (known(_delta("a map", *path)) for path in [(0, 0, 0), (0, 1, 0), (0, 2)])

    def sent(*drawn: ForwardMsg) -> list[ForwardMsg]:
        return [one for one in told(*run(*drawn, part=part, how=EARLY)) if one in drawn]

    assert sent(row, first, kept, second, in_lost, after_lost) == [row, first, kept, second, in_lost, after_lost]
    assert sent(row, first, kept, in_lost, after_lost) == [row, first, kept]


@pytest.mark.parametrize(
    "after",
    [
        [drawn(), box(1, "row"), picture(2, "map", "old"), button(3, "go"), drawn(4)],
        [drawn(), box(1, "row"), picture(2, "map", "old"), button(3, "stop")],
    ],
    ids=["one more place", "another button"],
)
def test_what_takes_no_place_from_others_is_sent_alone(after):
    before = run(drawn(), box(1, "row"), picture(2, "map", "old"), button(3, "go"))

    assert told_of_second(before, run(*after)) == after[-1:]


@pytest.mark.parametrize(
    "after",
    [
        [drawn(), box(1, "row"), drawn(0, within=(1,))],
        [drawn(), box(1, "row"), picture(2, "map", "old")],
        [drawn(body="another"), box(1, "column"), picture(2, "map", "old")],
        [drawn(body="another"), box(1, "row"), picture(2, "sheet", "old")],
    ],
    ids=["a widget less", "a container left empty", "another container", "another widget"],
)
def test_what_leaves_a_place_to_another_is_told_whole(after):
    """As Streamlit tells it, in this order, whatever was sent of it before."""
    before = run(drawn(), box(1, "row"), drawn(0, within=(1,)), picture(2, "map", "old"))

    assert told_of_second(before, run(*after))[-len(after) - 2 :] == quiet(run(*after))
    assert told_of_second([*before, *run(*after)], run(*after)) == []


def test_where_nothing_is_drawn_nothing_stands_then():
    """And of what stood in there nothing is said."""
    before, after = run(drawn(), box(1, "row"), drawn(0, within=(1,)), drawn(2, "new")), run(drawn(), drawn(2, "new"))
    (nothing,) = told_of_second(before, after)

    assert nothing.delta.new_element.WhichOneof("type") == "empty"
    assert nothing.metadata.delta_path == [1]
    assert told_of_second([*before, *after], before) == before[3:5]


def test_a_widget_is_given_the_value_that_it_does_not_show():
    first = run(toggle(0, "on", True), toggle(1, "off", False))
    unmoved, moved = reports(on=True, off=False), reports(on=True, off=True)

    assert told_of_second(first, first) == []
    assert told_of_second(first, [unmoved, *first]) == []
    assert told_of_second(first, [moved, *first]) == [first[3]]
    assert told_of_second([*first, moved, *first], [unmoved, *first]) == []


def test_the_browser_shows_after_a_moment_that_the_app_runs():
    """Until the run ends, or the page is run, also where another run of a part cuts it short."""
    first, second, cut = run(drawn(), drawn(1)), run(drawn(body="new"), MOMENT, drawn(1)), run(MOMENT)[:-2]
    new = drawn(body="new")

    assert told_of_second(first, second) == [new, sign(brief.RUNS), sign(brief.RESTS)]
    assert told_of_second([*first, *cut], run(drawn(), drawn(1))) == [sign(brief.RESTS)]
    assert told_of_second([*first, *cut], run(drawn(), part=""))[0] == sign(brief.RESTS)


def test_a_long_run_is_told_whole():
    first, second = run(drawn(), drawn(1)), run(drawn(body="new"), LONG, drawn(1))
    begin, runs_now, new, _, rest, done, no_more = second
    end = [rest, done, sign(brief.RESTS), no_more]

    assert told_of_second(first, second) == [new, sign(brief.RUNS), runs_now, begin, new, *end]
    assert told(*second) == [begin, new, sign(brief.RUNS), runs_now, *end]


def test_a_run_of_the_whole_page_is_told_at_once():
    """Also where it cuts a brief run of a part short: that the app runs is then said of it, once for both."""
    part, whole = run(drawn()), [began(), runs(True), drawn(), ended(), runs(False)]
    begin, _, *rest = whole

    assert told(*whole) == whole
    assert told(*part[:3], begin, *rest, MOMENT) == [*quiet(part[:3]), *whole]
    assert told(*part, *whole, *part) == [*quiet(part), *whole]
    assert told(*whole, *run(drawn(body="new"))) == [*whole, drawn(body="new")]


def test_what_went_with_its_container_is_sent_again():
    """A part within a part, which only this one draws anew."""
    inner = drawn(0, part="inner", within=(1,))
    with_inner, without = run(drawn(), box(1, "row"), inner), run(drawn())

    assert inner in told_of_second([*with_inner, *without], with_inner)


def test_many_bytes_are_not_sent_without_a_run_that_is_told(monkeypatch):
    """The browser keeps what is large until it knows of the end of a run."""
    monkeypatch.setattr(brief, "MOST_UNTOLD", 6000)
    states = [run(drawn(body=f"{i}" * 2000)) for i in range(4)]

    assert len(told(*states[0], *states[1], *states[2])) == 3 + 1 + 1
    assert told_of_second([*states[0], *states[1], *states[2]], states[3]) == quiet(states[3])


def test_nothing_is_told_to_a_browser_that_is_gone():
    assert told(began("body"), runs(True)) == [began("body")]


def shows(messages: list[ForwardMsg]) -> dict[int, str]:
    """What stands in a browser after these messages: as a run ends, what that run did not draw in its parts goes."""
    name, parts, stands = 0, (), {}
    for message in messages:
        if message.HasField("new_session"):
            name, parts = name + 1, tuple(message.metadata.run.fragment_ids)
        elif message.delta.new_element.HasField("empty"):
            stands.pop(message.metadata.delta_path[0], None)
        elif message.HasField("delta"):
            stands[message.metadata.delta_path[0]] = message.hash, message.delta.fragment_id, name
        elif message.HasField("script_finished") and message.script_finished == DONE:
            stands = {at: one for at, one in stands.items() if one[2] == name or (parts and one[1] not in parts)}
    return {place: one[0] for place, one in stands.items()}


PARTS = {"body": range(3), "side": range(3, 5), "": range(5)}
"""Which places the parts draw at; the page all."""


def _run(part: str, bodies: str, pause: float, how: int | None) -> list[ForwardMsg | float]:
    """A run that draws one thing at each place of a part, "-" nothing; its end may be lost."""
    owner = {at: name for name in ("body", "side") for at in PARTS[name]}
    elements = [drawn(at, body, part=owner[at]) for at, body in zip(PARTS[part], bodies, strict=False) if body != "-"]
    whole = run(*elements, *[pause] * bool(pause), part=part, how=how or DONE)
    return whole if how is not None else whole[:-2]


SOME_RUNS = some.lists(
    some.builds(
        _run,
        some.sampled_from(list(PARTS)),
        some.text("ab-", min_size=5, max_size=5),
        some.sampled_from([0.0, 0.0, 0.002, 0.01]),
        some.sampled_from([DONE, DONE, EARLY, None]),
    ),
    min_size=2,
    max_size=5,
)


@settings(max_examples=300)
@given(SOME_RUNS)
def test_a_browser_shows_what_it_would_show_if_it_were_told_all(script):
    everything = [message for one in script for message in one]
    brief.MOMENT, brief.LONG = 0.001, 0.004

    assert shows(told(*everything)) == shows([one for one in everything if not isinstance(one, float)])


def asks(page: str, opens: bool = False) -> BackMsg:
    """A browser that asks for a run of a page, or for another page."""
    message = BackMsg()
    message.rerun_script.page_script_hash, message.rerun_script.is_history_navigation = page, opens
    return message


def asked(*messages: BackMsg) -> list[str]:
    """The pages that the app is asked for."""
    heard: list[str] = []

    async def app(scope, receive, send):
        heard.extend([BackMsg.FromString((await receive())["bytes"]).rerun_script.page_script_hash for _ in messages])

    async def listen():
        waiting = iter(messages)

        async def receive():
            return {"type": "websocket.receive", "bytes": next(waiting).SerializeToString()}

        await brief.BriefRuns(app)({"type": "websocket"}, receive, receive)

    with ThreadPoolExecutor(1) as own:
        own.submit(asyncio.run, listen()).result()
    return heard


def test_what_is_said_of_a_page_that_was_left_does_not_lead_back_to_it():
    """Until the browser speaks of the page that it asked for; from then on the app may lead anywhere."""
    assert asked(asks("heads"), asks("masks", opens=True), asks("heads"), asks("heads")) == ["heads", *["masks"] * 3]
    assert asked(asks("masks", opens=True), asks("masks"), asks("steps")) == ["masks", "masks", "steps"]
    assert asked(asks("masks", opens=True), asks("heads", opens=True), asks("masks")) == ["masks", "heads", "heads"]


class Person:
    """Somebody who turns widgets, at a browser that sees late what the app sent."""

    def __init__(self):
        self.shown: dict[str, bool] = {}
        self.seen = 0

    def see(self, sent: list[bytes]):
        for message in map(ForwardMsg.FromString, sent[self.seen :]):
            if message.delta.new_element.HasField("checkbox"):
                self.shown[message.delta.new_element.checkbox.id] = message.delta.new_element.checkbox.value
        self.seen = len(sent)

    def turns(self, key: str, on: bool, late: bool) -> Callable[[list[bytes]], BackMsg]:
        def report(sent: list[bytes]) -> BackMsg:
            if not late:
                self.see(sent)
            self.shown[key] = on
            return reports(**self.shown)(sent)

        return report


TURNED = some.tuples(some.sampled_from("ab"), some.booleans(), some.booleans(), some.integers(0, 4))
"""Which widget is turned, where to, whether before what is on its way is seen, and after how many messages of a run."""


@settings(max_examples=300)
@given(
    some.lists(some.tuples(some.tuples(some.booleans(), some.booleans()), some.lists(TURNED, max_size=2)), max_size=5)
)
def test_a_widget_shows_what_it_was_given_last(runs_of_part):
    """Whatever somebody turned meanwhile."""
    person, script = Person(), []
    brief.MOMENT, brief.LONG = 0.001, 0.004
    for (a, b), turned in [*runs_of_part, ((True, False), [])]:
        messages = run(toggle(0, "a", a), toggle(1, "b", b))
        for key, on, late, at in turned:
            messages.insert(at, person.turns(key, on, late))
        script += messages
    person.see([message.SerializeToString() for message in told(*script)])

    assert person.shown == {"a": True, "b": False}
