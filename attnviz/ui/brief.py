"""Brief runs: the browser is not told that a part of its page runs, if that is over in a moment.

It renders and styles all of the page anew as it is told so, and again as the run ends: an eighth of a click.
"""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

MOMENT = 0.1
"""Seconds that a run may take before the browser is told of it: what comes sooner feels instant."""

LARGEST = 32
"""Bytes of a message that tells whether the app runs, at most."""


class BriefRuns:
    """Passes messages to the browser; what tells that a fragment runs waits for a moment, or for the end of the run."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            return await self.app(scope, receive, send)
        telling = _Telling(send)
        try:
            await self.app(scope, receive, telling.send)
        finally:
            telling.forget()


class _Telling:
    """What one browser was told."""

    def __init__(self, send: Send):
        self._send, self._before = send, b""
        self._later: asyncio.Task | None = None

    async def send(self, message: Message) -> None:
        before, self._before = self._before, message.get("bytes") or b""
        runs = _runs(self._before)
        if runs and ForwardMsg.FromString(before).metadata.run.fragment_ids:  # the message that a run begins with
            self._later = asyncio.create_task(self._tell(message))
        elif runs is not False or not self.forget():
            await self._send(message)

    async def _tell(self, message: Message) -> None:
        await asyncio.sleep(MOMENT)
        self._later = None
        await self._send(message)

    def forget(self) -> bool:
        """Do not tell what waits to be told; gives whether anything does."""
        later, self._later = self._later, None
        return later is not None and later.cancel()


def _runs(message: bytes) -> bool | None:
    """Whether a message tells that the app runs, or that it does not; None of any other."""
    if not 0 < len(message) <= LARGEST:
        return None
    told = ForwardMsg.FromString(message)
    return told.session_status_changed.script_is_running if told.HasField("session_status_changed") else None
