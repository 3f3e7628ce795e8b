"""Behavior of a server, and the parts of Streamlit that it depends on."""

import asyncio
import re
import tomllib
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from streamlit.runtime import Runtime
from streamlit.runtime.memory_uploaded_file_manager import MemoryUploadedFileManager
from streamlit.runtime.uploaded_file_manager import UploadedFileRec

from attnviz import export
from attnviz.ui import cache, launch, main, server, streamlit_internals
from attnviz.ui.hosts import Uploads
from attnviz.ui.text import SCRIPTS


def test_runs_of_a_session_wait_for_each_other_and_a_browser_keeps_messages_long_enough():
    """At once, two runs write one state: dictionaries change while they are read. And a session ended at Back twice."""
    settings = tomllib.loads(launch.script().with_name(".streamlit").joinpath("config.toml").read_text())

    assert settings["runner"] == {"fastReruns": False, "postScriptGC": False}
    assert settings["global"]["maxCachedMessageAge"] >= 20


def test_as_the_server_warms_up_what_a_first_visit_shows_is_made(monkeypatch):
    """And what exports: nobody hears of an error in the thread that warms up."""
    done = []
    monkeypatch.setattr(export, "warm", lambda: done.append("export"))
    cache.SHARED.clear()

    server.warm()

    assert done == ["export"]
    texts = {key[2].texts for key in [*cache.SHARED.keys()] if key[0] == "record"}
    assert texts == {(cache.source(main.FIRST["model"]).card.examples[0],)}


@pytest.mark.parametrize(("link", "opened"), [("heads?model=story", "/?model=story"), ("masks", "/masks"), ("", "/")])
def test_the_app_opens_the_page_of_a_link(link, opened, monkeypatch):
    """The first page has no name in its address."""
    given = []
    monkeypatch.setenv("STREAMLIT_SERVER_ALLOWED_HOSTS", "localhost")
    monkeypatch.setattr(launch.cli, "main", lambda arguments, **_: given.append(arguments[-1]))

    launch.launch("127.0.0.1", 0, False, link)

    assert given == [opened]


def test_the_scripts_of_the_page_reach_it():
    """The browser drops a script in which something looks like a tag."""
    for script in SCRIPTS:
        assert not re.search(r"<[/!?a-zA-Z]", script)


def test_uploads_of_one_session_are_bounded_in_bytes(monkeypatch):
    """Running and waiting uploads count together; each session has its own bound; opening a file frees its bytes."""
    keeper = MemoryUploadedFileManager("")
    monkeypatch.setattr(streamlit_internals.runtime, "exists", lambda: True)
    monkeypatch.setattr(streamlit_internals.runtime, "get_instance", lambda: SimpleNamespace(uploaded_file_mgr=keeper))
    statuses, size = [], 49 * 2**20

    async def keep(scope, receive, send):
        session, file = scope["path"].split("/")[-2:]
        await asyncio.sleep(0)
        keeper.add_file(session, UploadedFileRec(file, "a", "", bytes(size)))
        await send({"type": "http.response.start", "status": 204})

    app = Uploads(keep)

    async def put(session, file):
        async def send(message):
            statuses.extend([message["status"]] if "status" in message else [])

        headers = [(b"content-length", str(size + 200).encode())]
        path = f"/_stcore/upload_file/{session}/{file}"
        await app({"type": "http", "method": "PUT", "path": path, "headers": headers}, None, send)

    async def many(session, *files):
        await asyncio.gather(*(put(session, file) for file in files))

    def run(work):  # in a thread: Playwright leaves a loop in that of the tests
        with ThreadPoolExecutor() as pool:
            pool.submit(asyncio.run, work).result()

    run(many("one", *"abcdef"))
    assert sorted(statuses) == [204] * 4 + [413] * 2
    assert streamlit_internals.uploaded_bytes("one") == 4 * size

    run(many("one", "g"))
    keeper.remove_file("one", "a")
    run(many("two", "a"))
    run(many("one", "h"))
    assert statuses[6:] == [413, 204, 204]


def test_what_is_used_of_streamlit_beyond_its_documented_interface_is_there():
    """Another Streamlit than the pinned one may lack it: then attnviz/ui/streamlit_internals.py is written anew."""
    from streamlit import config, runtime
    from streamlit.runtime.media_file_manager import MediaFileManager
    from streamlit.runtime.scriptrunner import ScriptRunContext
    from streamlit.runtime.state import SafeSessionState, SessionState
    from streamlit.web import bootstrap
    from streamlit.web.server.starlette import starlette_websocket

    used = {
        ScriptRunContext: "session_id is_history_navigation page_script_hash fragment_ids_this_run uploaded_file_mgr",
        Runtime: "_instance is_active_session media_file_mgr uploaded_file_mgr",
        MediaFileManager: "add",
        bootstrap: "load_config_options",
        config: "_main_script_path",
        starlette_websocket: "is_host_allowed",
        runtime: "exists get_instance",
    }
    missing = [
        f"{owner.__name__}.{name}"
        for owner, names in used.items()
        for name in names.split()
        if not hasattr(owner, name) and name not in getattr(owner, "__annotations__", {})
    ]
    session = SafeSessionState(SessionState(), lambda: None)

    assert not missing, f"This Streamlit has no {', '.join(missing)}: see {streamlit_internals.__name__}."
    assert isinstance(session._state, SessionState), f"Its session state moved: see {streamlit_internals.__name__}."
