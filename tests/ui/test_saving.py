"""A file that a button makes is there when the browser asks for it."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import streamlit as st
from streamlit import runtime
from streamlit.runtime.media_file_manager import MediaFileManager
from streamlit.runtime.memory_media_file_storage import MemoryMediaFileStorage
from test_app import html, opened

from attnviz.export import ExportError
from attnviz.ui import streamlit_internals


def test_a_file_stays_while_others_click_until_its_session_makes_another(monkeypatch):
    """Streamlit lets go of it as two runs of anybody end, which is before a browser asks for it where many click."""
    files = MediaFileManager(MemoryMediaFileStorage("/media"))
    monkeypatch.setattr(runtime, "exists", lambda: True)
    monkeypatch.setattr(runtime, "get_instance", lambda: SimpleNamespace(media_file_mgr=files))

    def made(content: bytes) -> str:
        keep = streamlit_internals.file_keeper("text/csv", "a.csv")

        def contents() -> bytes:
            keep(content)
            return content

        button = files.add_deferred(contents, "text/csv", "[0, 1]", "a.csv")
        return files.execute_deferred(button).removeprefix("/media/")

    first = made(b"a,b")
    for _ in range(3):
        files.remove_orphaned_files()

    assert files.read_file(first).content == b"a,b"

    made(b"c,d")
    for _ in range(3):
        files.remove_orphaned_files()

    assert files.read_file(first) is None


@pytest.mark.parametrize("button", ["PNG", "CSV"])
def test_a_file_that_could_not_be_made_is_explained_in_its_menu_whichever_button_asked_for_it(button, monkeypatch):
    """A worker that was killed twice, for one: the browser says no more than that it failed."""
    made = {}
    monkeypatch.setattr(st, "download_button", lambda label, data, *args, **options: made.update({label: data}))
    monkeypatch.setattr(
        "attnviz.export.render", Mock(side_effect=ExportError("The program that draws was killed twice (SIGKILL)."))
    )
    app = opened(model="story")
    app.session_state["export heads"] = True
    app.run()
    assert "killed twice" not in html(app)

    with pytest.raises(ExportError):
        made[button]()
    app.run()

    assert html(app).count("The program that draws was killed twice (SIGKILL).") == 1
    app.run()
    assert "killed twice" not in html(app)
