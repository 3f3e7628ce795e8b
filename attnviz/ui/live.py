"""The app beside a person's own code: a thread of that process serves it, and it looks at objects that live there."""

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
from attnviz.sources.saved import Recorded, Saved
from attnviz.ui import launch, server, streamlit_internals

HOST = "127.0.0.1"
GRACE = 3
"""Seconds that open pages have to close when the app is stopped."""


@dataclass(eq=False)
class OpenApp:
    """An app that is open on a source. It ends with `stop`, with its `with` block, or with the process.

    Attributes:
        url: where a browser finds it.
        lock: held while the app runs the model: hold it while you change the weights.
    """

    url: str
    lock: AbstractContextManager = field(repr=False)
    _name: str | None = field(repr=False)

    def wait(self) -> None:
        """Stay until Ctrl+C or `stop`, as the end of a script that shows something."""
        try:
            while (serving := _serving) is not None and self in serving.apps:
                serving.ended.wait(1)
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """Take the source out of the app; with the last one, the app ends."""
        global _serving
        with _lock:
            if _serving is None or self not in _serving.apps:
                return
            _serving.apps.remove(self)
            if self._name is not None and all(other._name != self._name for other in _serving.apps):
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

    The app runs in a thread, answers on 127.0.0.1 alone, and sees the model as it is at each click. A script goes on
    at once: end it with `show(source).wait()`.

    Args:
        source: for example one that `attnviz.wrap` made, or the name of a model; or a record; or, for an input of any
            kind, a function that runs a model with edits and gives the record.
        text: what stands in the box for text.
        port: where the app listens; 0 is a free port. An app that is open already stays where it is.
        browser: whether to open a browser; by default in an interactive Python that is no notebook.

    Raises:
        InputError: if there is no such source, or the app cannot listen there.
    """
    global _serving
    source = api.load(source) if isinstance(source, str) else source
    if isinstance(source, Record):
        source = Saved(source.source if source.source not in api.SOURCES else f"{source.source} (saved)", source)
    elif inspect.isfunction(source):
        source = Recorded.of(source)
    if not isinstance(source, Source):
        raise InputError(f"{quoted(source)} is no source; make one with attnviz.wrap(model, tokenize).")
    with _lock:
        name = None if api.is_named(source) else api.offer(source)
        choices = Choices({"model": name}) if name else _choices(source)
        if _serving is None:
            _serving = _Serving(port)
        if text is not None:
            choices = choices.put(text=text, lines=False if len(text.strip("\r\n").splitlines()) > 1 else None)
        address = urlencode(link.write(choices), quote_via=quote)
        app = OpenApp(f"http://{HOST}:{_serving.port}/?{address}", source.lock, name)
        _serving.apps.append(app)
    print(f"attnviz is open at {app.url}", flush=True)  # noqa: T201 (as a server does)
    if _interactive() if browser is None else browser:
        webbrowser.open(app.url)
    return app


def _choices(source: Source) -> Choices:
    """The model of a link that any server opens: its name, its parameters and its training step."""
    if source.id not in api.SOURCES:
        return Choices({"model": source.id})
    values = {parameter.name: getattr(source, parameter.name) for parameter in parameters(type(source))}
    return Choices({"model": model_text(source.id, values), "step": source.step})


def _interactive() -> bool:
    return hasattr(sys, "ps1") and "ipykernel" not in sys.modules


class _Serving:
    """The app's server in a thread of its own; signals stay with who had them."""

    def __init__(self, port: int):
        if runtime.exists():
            raise InputError("This process serves a Streamlit app already; run attnviz.show in another one.")
        self.apps: list[OpenApp] = []
        self.ended = threading.Event()
        self._socket = _listen(port)
        self.port = self._socket.getsockname()[1]
        _configure(self.port)
        self._app = st.App(
            server.PAGE.resolve(), lifespan=server.beside, middleware=server.middleware, routes=server.routes
        )
        settings: dict[str, Any] = {
            "log_config": None,
            "log_level": "warning",
            "access_log": False,
            "timeout_graceful_shutdown": GRACE,
        }
        self._server = _Uvicorn(uvicorn.Config(self._app, HOST, self.port, **settings))
        self._thread = threading.Thread(target=self._run, name="attnviz-show", daemon=True)
        self._thread.start()
        self._server.ready.wait()
        if not self._server.started:
            self._thread.join()
            raise InputError("The app could not start; what Streamlit said of it stands above.")

    def _run(self) -> None:
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
        self._server.should_exit = True
        if threading.current_thread() is not self._thread:
            self._thread.join()


class _Uvicorn(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, settings: uvicorn.Config):
        super().__init__(settings)
        self.ready = threading.Event()

    async def startup(self, *arguments: Any, **named: Any) -> None:
        await super().startup(*arguments, **named)
        self.ready.set()


_serving: _Serving | None = None
_lock = threading.RLock()


def _listen(port: int) -> socket.socket:
    if port:
        launch.check_free(HOST, port, option="port=")
    listening = socket.socket(proto=socket.IPPROTO_TCP)  # asyncio sends at once only where it is said
    listening.bind((HOST, port))
    return listening


def _configure(port: int) -> None:
    """The settings that ship with the app; what a person set for Streamlit otherwise goes before."""
    streamlit_internals.configure(launch.script(), {"server.address": HOST, "server.headless": True})
    config.set_option("server.port", port)
