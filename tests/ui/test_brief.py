"""Brief runs: what a browser is told of them."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from attnviz.ui import brief


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


def drawn() -> ForwardMsg:
    message = ForwardMsg()
    message.delta.new_element.html.body = "a picture"
    return message


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


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(brief, "MOMENT", 0.02)


def test_a_brief_run_of_a_part_is_not_told():
    """Its elements come, and nothing says that it runs or ran."""
    run = [began("body"), runs(True), drawn(), runs(False)]

    assert told(*run) == [run[0], run[2]]
    assert told(*run, *run) == [run[0], run[2]] * 2


def test_a_longer_run_of_a_part_is_told_after_a_moment():
    run = [began("body"), runs(True), drawn(), None, drawn(), runs(False)]

    assert told(*run) == [run[0], drawn(), runs(True), drawn(), runs(False)]


def test_a_run_of_the_whole_page_is_told_at_once():
    """Also where it ends a brief run of a part, of which nothing is told later."""
    part, whole = [began("body"), runs(True), runs(False)], [began(), runs(True), drawn(), runs(False)]

    assert told(*whole) == whole
    assert told(*part, *whole, None) == [part[0], *whole]


def test_nothing_is_told_to_a_browser_that_is_gone():
    assert told(began("body"), runs(True)) == [began("body")]
