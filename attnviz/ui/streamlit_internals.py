"""All uses of Streamlit beyond its documented interface; written for streamlit~=1.67.0."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

from streamlit import config, runtime
from streamlit.runtime import Runtime
from streamlit.runtime.scriptrunner import add_script_run_ctx, get_script_run_ctx
from streamlit.runtime.state import get_session_state
from streamlit.web import bootstrap
from streamlit.web.server.starlette import starlette_websocket


def session_id() -> str:
    """Return the id of this session, under which it waits for shared jobs; empty in a test."""
    context = get_script_run_ctx()
    return context.session_id if context else ""


def is_host_allowed(host: str | None) -> bool:
    """Whether a `Host` is in `server.allowedHosts`. Streamlit itself checks this only for websockets."""
    return starlette_websocket.is_host_allowed(host)


def is_connected(session: str) -> bool:
    """Whether a browser is connected to a session; if not, its jobs end. True without a server, as in tests."""
    return not runtime.exists() or bool(runtime.get_instance().is_active_session(session))


def is_history_navigation() -> bool:
    """Whether the browser's Back or Forward caused this run, which `st.query_params` does not tell."""
    return get_script_run_ctx().is_history_navigation


def page_hash() -> str:
    """Return the hash of the page that this run draws; it is known before `st.navigation` is called."""
    return get_script_run_ctx().page_script_hash


def peek(key: str, default: Any = None) -> Any:
    """Return a value of `st.session_state`, or the default, without stopping the run.

    An access to `st.session_state` itself stops the run if another run is requested. In a callback Streamlit hides this
    stop, and the rest of the callback, with the reported value, is lost.
    """
    with suppress(KeyError):
        return get_session_state()._state[key]
    return default


def drop_upload(file_id: str) -> None:
    """Free the memory of an uploaded file at once; Streamlit would free it only when the session ends."""
    context = get_script_run_ctx()
    context.uploaded_file_mgr.remove_file(context.session_id, file_id)


def uploaded_bytes(session: str) -> int:
    """Total bytes of a session's uploaded files that Streamlit keeps in memory."""
    files = runtime.get_instance().uploaded_file_mgr.file_storage.get(session, {}) if runtime.exists() else {}
    return sum(len(file.data) for file in tuple(files.values()))


def file_keeper(mime: str, name: str) -> Callable[[bytes], None]:
    """Return a function that keeps the file of a download in memory until the session's next download.

    Streamlit deletes the file after two runs of any session: with many users, this is before the browser has loaded it.
    """
    context = get_script_run_ctx()

    def keep(content: bytes) -> None:
        """Store the file. The media manager finds the session by its thread, so a thread with the context runs it."""
        if runtime.exists():
            add = runtime.get_instance().media_file_mgr.add
            arguments = content, mime, "made", name, True  # "made": our own id in place of an element on the page
            thread = add_script_run_ctx(Thread(target=add, args=arguments), context)
            thread.start()
            thread.join()

    return keep


def configure(script: Path, options: dict[str, Any]) -> None:
    """Load the Streamlit settings beside a script, as `streamlit run` does, for a server inside another program."""
    if config._main_script_path is None:
        config._main_script_path = str(script)
        bootstrap.load_config_options(options)


def forget_runtime() -> None:
    """Allow another server in this process after one has ended; Streamlit allows only one."""
    Runtime._instance = None
