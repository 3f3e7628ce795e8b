"""Every use of Streamlit beyond its documented interface; written for streamlit~=1.67.0."""

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
    """Name of this session at the server: runs that several sessions share know by it who waits. Empty in a test."""
    context = get_script_run_ctx()
    return context.session_id if context else ""


def is_host_allowed(host: str | None) -> bool:
    """Whether a `Host` is in `server.allowedHosts`. Streamlit asks it of websockets alone."""
    return starlette_websocket.is_host_allowed(host)


def is_connected(session: str) -> bool:
    """Whether a browser shows this session: what nobody waits for ends. True where there is no server, as in a test."""
    return not runtime.exists() or bool(runtime.get_instance().is_active_session(session))


def is_history_navigation() -> bool:
    """Whether Back or Forward of the browser asked for this run; `st.query_params` does not say how it changed."""
    return get_script_run_ctx().is_history_navigation


def page_hash() -> str:
    """Name of the page that this run draws, which is known before `st.navigation` was called."""
    return get_script_run_ctx().page_script_hash


def peek(key: str, default: Any = None) -> Any:
    """A value of `st.session_state`, or the default.

    Each look at `st.session_state` ends the run if another one is asked for. In a callback Streamlit swallows that end,
    and the rest of the callback, the reported value with it, is lost.
    """
    with suppress(KeyError):
        return get_session_state()._state[key]
    return default


def drop_upload(file_id: str) -> None:
    """Free the memory of an uploaded file at once; Streamlit does so when the session ends."""
    context = get_script_run_ctx()
    context.uploaded_file_mgr.remove_file(context.session_id, file_id)


def uploaded_bytes(session: str) -> int:
    """Bytes of the uploaded files of a session that Streamlit keeps."""
    files = runtime.get_instance().uploaded_file_mgr.file_storage.get(session, {}) if runtime.exists() else {}
    return sum(len(file.data) for file in tuple(files.values()))


def file_keeper(mime: str, name: str) -> Callable[[bytes], None]:
    """A function that keeps a file which a download makes until the session's next one.

    Streamlit drops it after two runs of anybody: where many click, before the browser has asked for it. It is called
    outside of a run, and what it keeps belongs to a session, so it works in a thread with the context of this run.
    """
    context = get_script_run_ctx()

    def keep(content: bytes) -> None:
        if runtime.exists():
            add = runtime.get_instance().media_file_mgr.add
            thread = add_script_run_ctx(Thread(target=add, args=(content, mime, "made", name, True)), context)
            thread.start()
            thread.join()

    return keep


def configure(script: Path, options: dict[str, Any]) -> None:
    """Read the settings beside a script, as `streamlit run` does, for a server that another program starts."""
    if config._main_script_path is None:
        config._main_script_path = str(script)
        bootstrap.load_config_options(options)


def forget_runtime() -> None:
    """Let another server be started in this process after one has ended: Streamlit allows one for good."""
    Runtime._instance = None
