"""The app inside the user's own process: a thread serves the app, which can show models of this process."""

import asyncio
import html
import inspect
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import quote, urlencode

import streamlit as st
import uvicorn
from streamlit import config, runtime

from attnviz import api, link
from attnviz.api import model_text
from attnviz.core.edits import Edits
from attnviz.core.errors import InputError, quoted
from attnviz.core.parameters import parameters
from attnviz.core.record import Record
from attnviz.link import Choices
from attnviz.sources.base import Source
from attnviz.sources.own_code import Recorded
from attnviz.sources.saved import Saved
from attnviz.ui import launch, server, streamlit_internals

HOST = "127.0.0.1"
GRACE = 3
"""Seconds that open connections have to close when the app stops."""


@dataclass(eq=False)
class OpenApp:
    """A running app for a source. It ends with `stop`, at the end of its `with` block, or with the process.

    Attributes:
        url: address for the browser.
        lock: lock that the app holds while it runs the model; hold it while you change the weights.
    """

    url: str
    lock: AbstractContextManager = field(repr=False)
    _name: str | None = field(repr=False)

    def wait(self) -> None:
        """Block until Ctrl+C or `stop`; call it at the end of a script."""
        try:
            while (serving := _serving) is not None and self in serving.apps:
                serving.ended.wait(1)
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """Remove the source from the app; after the last source, the app ends."""
        global _serving
        with _lock:
            if _serving is None or self not in _serving.apps:
                return
            _serving.apps.remove(self)
            is_used = any(other._name == self._name for other in _serving.apps)
            if self._name is not None and not is_used:
                api.OFFERED.pop(self._name, None)
            if not _serving.apps:
                _serving.stop()
                _serving = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def _repr_html_(self) -> str:
        address = html.escape(self.url, quote=True)
        return f'attnviz is open at <a href="{address}" target="_blank">{address}</a>'


def show(
    source: Source | str | Record | Callable[[Edits], Record],
    text: str | None = None,
    *,
    port: int = 0,
    browser: bool | None = None,
) -> OpenApp:
    """Open the app on a source of this process, from a script or a notebook.

    The app runs in a thread, answers on 127.0.0.1 only, and uses the current weights at each click. The call returns
    at once; end a script with `show(source).wait()`.

    Args:
        source: source, for example from `attnviz.wrap`; the name of a model; a record; or, for any kind of input, a
            function that runs a model with edits and returns the record.
        text: content of the text box.
        port: port of the app; 0 takes a free port. An app that runs already keeps its port.
        browser: whether to open a browser; by default only in an interactive Python outside of a notebook.

    Raises:
        InputError: if there is no such source, or the port cannot be used.
    """
    global _serving
    if isinstance(source, str):
        source = api.load(source)
    elif isinstance(source, Record):
        name = f"{source.source} (saved)" if source.source in api.SOURCES else source.source
        source = Saved(name, source)
    elif inspect.isfunction(source):
        source = Recorded.of(source)
    if not isinstance(source, Source):
        raise InputError(f"{quoted(source)} is not a source; make one with attnviz.wrap(model, tokenize).")
    with _lock:
        name = None if api.is_named(source) else api.offer(source)
        choices = Choices({"model": name}) if name else _choices(source)
        if _serving is None:
            _serving = _Serving(port)
        if text is not None:
            has_lines = len(text.strip("\r\n").splitlines()) > 1
            choices = choices.put(text=text, lines=False if has_lines else None)  # one text, not one for each line
        address = urlencode(link.write(choices), quote_via=quote)
        app = OpenApp(f"http://{HOST}:{_serving.port}/?{address}", source.lock, name)
        _serving.apps.append(app)
    print(f"attnviz is open at {app.url}", flush=True)  # noqa: T201 (as a server does)
    if browser is None:
        browser = hasattr(sys, "ps1") and "ipykernel" not in sys.modules
    if browser:
        webbrowser.open(app.url)
    return app


def _choices(source: Source) -> Choices:
    """Return the choices for a model that `attnviz.load` finds: its name, its parameters and its training step."""
    if source.id not in api.SOURCES:
        return Choices({"model": source.id})
    values = {parameter.name: getattr(source, parameter.name) for parameter in parameters(type(source))}
    return Choices({"model": model_text(source.id, values), "step": source.step})


class _Serving:
    """The app's server in a thread of its own; it does not change the signal handlers of the process."""

    def __init__(self, port: int):
        if runtime.exists():
            raise InputError("This process serves a Streamlit app already; run attnviz.show in another process.")
        self.apps: list[OpenApp] = []
        self.ended = threading.Event()
        self._socket = _listen(port)
        self.port = self._socket.getsockname()[1]
        # The app's own settings of Streamlit; the user's take precedence.
        streamlit_internals.configure(launch.script(), {"server.address": HOST, "server.headless": True})
        config.set_option("server.port", self.port)
        parts = {"lifespan": server.lifespan_in_process, "middleware": server.middleware, "routes": server.routes}
        self._app = st.App(server.PAGE.resolve(), **parts)
        settings: dict[str, Any] = {"log_config": None, "log_level": "warning", "access_log": False}
        settings["timeout_graceful_shutdown"] = GRACE
        self._server = _Uvicorn(uvicorn.Config(self._app, HOST, self.port, **settings))
        self._thread = threading.Thread(target=self._run, name="attnviz-show", daemon=True)
        self._thread.start()
        self._server.ready.wait()
        if not self._server.started:
            self._thread.join()
            raise InputError("The app could not start; the message of Streamlit is above.")

    def _run(self) -> None:
        """Serve the app until it ends, then allow another server in this process; runs in the thread of the server."""
        try:
            asyncio.run(self._serve())
        finally:
            self._server.ready.set()
            self._socket.close()
            streamlit_internals.forget_runtime()
            self.ended.set()

    async def _serve(self) -> None:
        await self._server.serve(sockets=[self._socket])
        if self._server.started:
            await self._app._runtime.stopped

    def stop(self) -> None:
        """End the server, and wait for its end unless its own thread calls this."""
        self._server.should_exit = True
        if threading.current_thread() is not self._thread:
            self._thread.join()


class _Uvicorn(uvicorn.Server):
    """Server of uvicorn that sets the event `ready` once it listens."""

    def __init__(self, settings: uvicorn.Config):
        super().__init__(settings)
        self.ready = threading.Event()

    async def startup(self, *arguments: Any, **named: Any) -> None:
        await super().startup(*arguments, **named)
        self.ready.set()


_serving: _Serving | None = None
_lock = threading.RLock()


def _listen(port: int) -> socket.socket:
    """Open a socket for the server; port 0 takes a free port."""
    if port:
        launch.check_free(HOST, port, option="port=")
    listening = socket.socket(proto=socket.IPPROTO_TCP)  # asyncio disables Nagle's delay only if `proto` is set
    listening.bind((HOST, port))
    return listening
