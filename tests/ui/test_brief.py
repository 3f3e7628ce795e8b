"""Brief runs: what a browser is told of them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as some
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from attnviz.ui import brief

DONE, EARLY = ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY, ForwardMsg.FINISHED_EARLY_FOR_RERUN


def began(*fragments: str) -> ForwardMsg:
    """What a run begins with: of fragments, or of the whole page."""
    message = ForwardMsg()
    message.new_session.name = "attnviz"
    message.metadata.run.fragment_ids.extend(fragments)
    return message


def runs(now: bool) -> ForwardMsg:
    """What tells whether the app runs."""
    message = ForwardMsg()
    message.session_status_changed.script_is_running = now
    return message


def drawn(place: int = 0, body: str = "a picture", again: bool = False) -> ForwardMsg:
    """An element; one that is to be sent again has an effect each time."""
    message = ForwardMsg(hash=body)
    message.delta.new_element.html.body = body
    message.delta.new_element.has_one_shot_effect = again
    message.metadata.delta_path.append(place)
    return message


def button(place: int, key: str, label: str = "press") -> ForwardMsg:
    message = ForwardMsg(hash=f"{key} {label}")
    message.delta.new_element.button.id, message.delta.new_element.button.label = key, label
    message.metadata.delta_path.append(place)
    return message


def box(place: int, kind: str) -> ForwardMsg:
    """A container."""
    message = ForwardMsg(hash=kind)
    message.delta.add_block.id = kind
    message.metadata.delta_path.append(place)
    return message


def known(message: ForwardMsg) -> ForwardMsg:
    """What is sent in the place of a message that the browser keeps."""
    return ForwardMsg(ref_hash=message.hash, metadata=message.metadata)


def ended(how: int = DONE) -> ForwardMsg:
    return ForwardMsg(script_finished=how)


def run(*drawn: ForwardMsg | None, part: str = "body", how: int = DONE) -> list[ForwardMsg | None]:
    """All that Streamlit says of a run of a part."""
    return [began(part), runs(True), *drawn, ended(how), runs(False)]


def told(*script: ForwardMsg | None) -> list[ForwardMsg]:
    """What a browser is told where the app says this; None is longer than a moment."""

    async def app(scope, receive, send):
        for message in script:
            if message is None:
                await asyncio.sleep(3 * brief.MOMENT)
            else:
                await send({"type": "websocket.send", "bytes": message.SerializeToString()})

    async def listen() -> list[bytes]:
        sent = []

        async def send(message):
            sent.append(message["bytes"])

        await brief.BriefRuns(app)({"type": "websocket"}, None, send)
        await asyncio.sleep(3 * brief.MOMENT)  # what is still on its way would come now
        return sent

    with ThreadPoolExecutor(1) as own:  # in a thread of its own: another test may run a loop in this one
        return [ForwardMsg.FromString(one) for one in own.submit(asyncio.run, listen()).result()]


def told_of_second(first: list[ForwardMsg], second: list[ForwardMsg | None]) -> list[ForwardMsg]:
    """What a browser is told of the second of two runs."""
    return told(*first, *second)[len(told(*first)) :]


def quiet(run: list[ForwardMsg | None]) -> list[ForwardMsg]:
    """All of a run but that the app runs, or ran."""
    return [one for one in run if one and not one.HasField("session_status_changed")]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(brief, "MOMENT", 0.01)


def test_a_brief_run_of_a_part_is_told_without_that_it_runs():
    assert told(*run(drawn())) == quiet(run(drawn()))


def test_of_the_same_elements_at_the_same_places_those_are_sent_that_changed():
    """And nothing of the run itself."""
    before = run(box(0, "row"), drawn(1), drawn(2), button(3, "go"))
    after = run(box(0, "row"), drawn(1), drawn(2, "another"), button(3, "go", "stop"))

    assert told_of_second(before, before) == []
    assert told_of_second(before, after) == [after[4], after[5]]
    assert told_of_second([*before, *after], before) == [before[4], before[5]]


def test_what_has_an_effect_each_time_is_sent_each_time():
    assert told_of_second(run(drawn(), drawn(1, again=True)), run(drawn(), drawn(1, again=True))) == [
        drawn(1, again=True)
    ]


def test_a_picture_that_the_browser_keeps_is_named():
    """Not where it stands there already."""
    first, second = run(button(0, "map", "old")), run(button(0, "map", "new"))
    back = run(known(button(0, "map", "old")))

    assert told_of_second([*first, *second], back) == [back[2]]
    assert told_of_second(first, back) == []


@pytest.mark.parametrize(
    "after",
    [
        [drawn(), box(1, "row"), button(2, "go"), drawn(3)],
        [drawn(), box(1, "row")],
        [drawn(body="another"), box(1, "column"), button(2, "go")],
        [drawn(body="another"), box(1, "row"), button(2, "stop")],
    ],
    ids=["one more place", "one place less", "another container", "another widget"],
)
def test_what_is_drawn_at_other_places_is_told_whole(after):
    """As Streamlit tells it, in this order, whatever was sent of it before."""
    before = run(drawn(), box(1, "row"), button(2, "go"))

    assert told_of_second(before, run(*after))[-len(after) - 2 :] == quiet(run(*after))
    assert told_of_second([*before, *run(*after)], run(*after)) == []


def test_after_a_told_run_that_was_ended_the_next_is_told():
    """What it had yet to draw may stand there still, or not."""
    before = [*run(drawn(), drawn(1)), *run(drawn(2), how=EARLY)]

    assert told_of_second(before, run(drawn(2))) == quiet(run(drawn(2)))


def test_a_run_that_takes_longer_is_told_whole_after_a_moment():
    first, second = run(drawn(), drawn(1)), run(drawn(body="new"), None, drawn(1))
    begin, runs_now, new, _, rest, *end = second

    assert told_of_second(first, second) == [new, begin, new, runs_now, rest, *end]
    assert told(*second) == [begin, new, runs_now, rest, *end]


def test_a_run_of_the_whole_page_is_told_at_once():
    """Also where it ends a brief run of a part, of which nothing is told later; the next of a part is told, too."""
    part, whole = run(drawn()), [began(), runs(True), drawn(), ended(), runs(False)]

    assert told(*whole) == whole
    assert told(*part[:3], *whole, None) == [*quiet(part[:3]), *whole]
    assert told(*part, *whole, *part) == [*quiet(part), *whole, *quiet(part)]


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
        elif message.HasField("delta"):
            stands[message.metadata.delta_path[0]] = message.hash, name
        elif message.HasField("script_finished") and message.script_finished == DONE and parts:
            stands = {place: (one, by) for place, (one, by) in stands.items() if by == name}
    return {place: one for place, (one, _) in stands.items()}


SOME_RUNS = some.lists(
    some.builds(
        lambda places, long, how: run(*(drawn(at, body) for at, body in places.items()), *[None] * long, how=how),
        some.dictionaries(some.integers(0, 2), some.sampled_from("ab"), min_size=1),
        some.booleans(),
        some.sampled_from([DONE, DONE, EARLY]),
    ),
    min_size=2,
    max_size=4,
)


@given(SOME_RUNS)
def test_a_browser_shows_what_it_would_show_if_it_were_told_all(script):
    everything = [message for one in script for message in one]

    assert shows(told(*everything)) == shows([message for message in everything if message])
