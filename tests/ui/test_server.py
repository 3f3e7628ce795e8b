"""What happens once per server."""

import asyncio
import gc
import re
import socket
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from streamlit import config
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.NewSession_pb2 import Config
from streamlit.runtime import RuntimeState, app_session

from attnviz import export
from attnviz.ui import server
from attnviz.ui.shared import browser, cache, welcome
from attnviz.ui.shared.examples import of_model
from attnviz.ui.shared.text import SCRIPTS

PATIENCE = 60
"""Seconds that a test waits for what must come."""


@pytest.fixture
def options():
    """What the server sets of Streamlit is set back."""
    names = ("runner.postScriptGC", "runner.fastReruns", "global.maxCachedMessageAge")
    before = {name: config.get_option(name) for name in names}
    yield
    for name, value in before.items():
        config.set_option(name, value)


class Ring:
    """What holds itself, and so is freed by the garbage collector alone."""

    def __init__(self, freed: threading.Event):
        self.itself = self
        weakref.finalize(self, freed.set)


def test_garbage_is_collected_while_the_server_runs_and_not_by_each_run(monkeypatch, options):
    """Streamlit's own collection after every run is off, and ours goes on until the server ends."""
    monkeypatch.setattr(server, "PAUSE", 0.01)
    monkeypatch.setattr(server, "warm", lambda: None)
    freed, named = threading.Event(), {thread.name for thread in threading.enumerate()}
    thresholds = gc.get_threshold()

    async def serve() -> list[threading.Thread]:
        async with server.lifespan(None):
            assert not config.get_option("runner.postScriptGC")
            gc.set_threshold(700, 10**6, 10**6)  # what is old is then left to the server's own collection
            ring, kept = Ring(freed), []
            gc.collect()
            del ring
            while not freed.is_set():
                kept += [[] for _ in range(1000)]  # a server that is used makes objects
                await asyncio.sleep(0.001)
                assert len(kept) < 10**7
            return [thread for thread in threading.enumerate() if thread.name not in named]

    try:
        with ThreadPoolExecutor(1) as own:  # in a thread of its own: another test may run a loop in this one
            started = own.submit(asyncio.run, serve()).result()
        for thread in started:
            thread.join(PATIENCE)
            assert not thread.is_alive()
    finally:
        gc.set_threshold(*thresholds)


def test_a_browser_keeps_messages_for_more_runs_than_it_may_ask_for_while_one_travels(options):
    """A session ended where it did not: Back twice was enough."""
    server.set_options()
    told = Config()
    app_session._populate_config_msg(told)

    assert told.max_cached_message_age >= 20


def test_a_run_that_is_asked_for_in_the_midst_of_another_waits_for_that_one(options):
    """Both wrote the session's state where they ran at once: dictionaries that changed while they were read."""
    asked = []
    running = SimpleNamespace(
        request_rerun=lambda data: asked.append(data.query_string) or True,
        request_stop=lambda: asked.append("stop, while it goes on"),
    )
    server.set_options()
    session = SimpleNamespace(
        _state=app_session.AppSessionState.APP_IS_RUNNING,
        _scriptrunner=running,
        _create_scriptrunner=lambda data: asked.append("another one"),
    )
    app_session.AppSession.request_rerun(session, ClientState(query_string="off=d0.1"))

    assert asked == ["off=d0.1"]


@pytest.mark.parametrize("there", ["NO_SESSIONS", "ONE_OR_MORE_SESSIONS"])
def test_a_session_that_was_open_as_the_server_warmed_up_goes_once_nobody_is_there(monkeypatch, there):
    """What is frozen is not looked at while somebody waits."""
    server_now = SimpleNamespace(state=RuntimeState[f"{there}_CONNECTED"])
    monkeypatch.setattr(server, "runtime", SimpleNamespace(exists=lambda: True, get_instance=lambda: server_now))
    freed = threading.Event()
    ring = Ring(freed)
    gc.collect()
    gc.freeze()
    del ring
    try:
        server.collect()

        assert freed.is_set() == (there == "NO_SESSIONS")
    finally:
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def test_as_the_server_warms_up_what_a_first_visit_shows_is_made_and_frozen(monkeypatch):
    """And what exports: nobody hears of an error there, but every click waits for collections of all that is there."""
    done = []
    monkeypatch.setattr(gc, "freeze", lambda: done.append(f"frozen, collected from now on: {gc.isenabled()}"))
    monkeypatch.setattr(server, "LATER", 0)
    monkeypatch.setattr(export, "warm", lambda: done.append("export"))
    cache.KEPT.clear()

    server.warm()

    assert done == ["frozen, collected from now on: True", "export"]
    model, *_ = welcome.FIRST["model"]
    keys = cache.KEPT.keys()
    texts = {key[2] for key in keys if key[0] == "record"}
    assert texts == {tuple(next(iter(of_model(cache.source(model)).values())).splitlines())}


def test_what_listens_sends_each_message_as_it_comes(monkeypatch, options):
    """As asyncio sets what it opened itself, and nothing of what does not say that it is of TCP."""
    monkeypatch.setattr(server, "warm", lambda: None)

    async def accepted() -> bool:
        streams = []
        listening = socket.create_server(("127.0.0.1", 0))
        async with server.lifespan(None):
            serving = await asyncio.start_server(lambda *both: streams.append(both[1]), sock=listening)
            async with serving:
                _, there = await asyncio.open_connection(*listening.getsockname())
                while not streams:
                    await asyncio.sleep(0.001)
                sent = streams[0].get_extra_info("socket")
                there.close()
                streams[0].close()
                return bool(sent.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    with ThreadPoolExecutor(1) as own:
        assert own.submit(asyncio.run, accepted()).result()


def test_streamlit_has_a_file_for_each_kind_of_element_that_a_browser_is_told_of():
    """It names its files anew with each version; one that is missing would come late, and nobody would notice."""
    for kind in (*browser.FRAME, *browser.PAGE):
        assert len(browser.files((kind,))) == 1


def test_the_scripts_of_the_page_reach_it():
    """The browser drops a script in which something looks like a tag."""
    for script in SCRIPTS:
        assert not re.search(r"<[/!?a-zA-Z]", script)
