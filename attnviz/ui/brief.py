"""Brief runs of a part of the page: the browser is sent what they changed, and not told that anything ran.

Streamlit sends all of the part again. As a run begins and as it ends the browser then renders and styles the whole page
anew, to find what was not drawn again: where a run draws at the same places as the one before, that is nothing.
"""

import asyncio
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

MOMENT = 0.1
"""Seconds that a run may take before the browser is told of it: what comes sooner feels instant."""

MOST_UNTOLD = 20_000_000
"""Bytes of runs that a browser was not told of: it keeps what is large in them until it knows that a run ended."""


class BriefRuns:
    """Passes messages to the browser, but those of a brief run that say nothing new."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            return await self.app(scope, receive, send)
        browser = _Browser(send)
        try:
            await self.app(scope, receive, browser.send)
        finally:
            browser.forget()


class _Shown(NamedTuple):
    """What stands at a place: the hash of all that it shows, and the name of the widget, if it is one."""

    hash: str
    widget: str


Places = dict[tuple[int, ...], _Shown]


class _Browser:
    """What one browser knows.

    While it is not told of a run, all that is said of it is held. If then the run draws at other places than the one
    before it, or takes longer than a moment, the browser is told it all, as Streamlit would have done.
    """

    def __init__(self, send: Send):
        self._pass, self._lock = send, asyncio.Lock()
        self._parts: tuple[str, ...] = ()
        self._stands: Places = {}  # of these parts; empty if that is not known
        self._drawn: Places = {}  # by this run
        self._held: list[Message] = []
        self._untold = 0
        self._later: asyncio.Task | None = None

    async def send(self, message: Message) -> None:
        said = ForwardMsg.FromString(message.get("bytes") or b"")
        async with self._lock:
            match said.WhichOneof("type"):
                case "new_session":
                    await self._begin(message, tuple(said.metadata.run.fragment_ids))
                case "delta" | "ref_hash":
                    await self._draw(message, said)
                case "script_finished":
                    await self._end(message, said.script_finished == ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY)
                case "session_status_changed" if self._parts:
                    await self._run(message, said.session_status_changed.script_is_running)
                case _:
                    await self._pass(message)

    async def _begin(self, message: Message, parts: tuple[str, ...]) -> None:
        self.forget()
        if parts != self._parts or self._untold > MOST_UNTOLD:
            self._stands = {}
        self._parts, self._drawn, self._held = parts, {}, [message]
        if not self._stands:
            await self._tell()

    async def _draw(self, message: Message, said: ForwardMsg) -> None:
        path = tuple(said.metadata.delta_path)
        before, now = self._stands.get(path), _shown(said)
        if before and said.ref_hash:  # what the browser keeps: a picture that stood there before
            now = now._replace(widget=before.widget)
        self._drawn[path] = now
        if not self._held:
            await self._pass(message)
            return
        self._held.append(message)
        is_element = said.ref_hash or said.delta.HasField("new_element")
        if before is None or before.widget != now.widget or (before != now and not is_element):
            await self._tell()
        elif before != now or said.delta.new_element.has_one_shot_effect:
            self._stands[path] = now
            self._untold += len(message["bytes"])
            await self._pass(message)

    async def _end(self, message: Message, is_whole: bool) -> None:
        if self._held and is_whole and len(self._drawn) < len(self._stands):
            await self._tell()
        if not self._held:
            self._stands = self._drawn if is_whole else {}
            await self._pass(message)
        self._held = []

    async def _run(self, message: Message, runs: bool) -> None:
        if runs:
            self._later = asyncio.create_task(self._tell_later(message))
        elif not self.forget():
            await self._pass(message)

    async def _tell_later(self, message: Message) -> None:
        await asyncio.sleep(MOMENT)
        async with self._lock:
            self._later = None
            await self._tell()
            await self._pass(message)

    async def _tell(self) -> None:
        """Say all that is held."""
        held, self._held, self._untold = self._held, [], 0
        for message in held:
            await self._pass(message)

    def forget(self) -> bool:
        """Do not tell what waits for a moment to pass; gives whether anything does."""
        later, self._later = self._later, None
        return later is not None and later.cancel()


def _shown(said: ForwardMsg) -> _Shown:
    element = said.delta.new_element
    kind = element.WhichOneof("type")
    return _Shown(said.hash or said.ref_hash, getattr(getattr(element, kind), "id", "") if kind else "")
