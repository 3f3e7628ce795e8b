"""Brief runs of a part of the page: the browser is sent what they changed, and not told that anything ran.

Streamlit sends all of the part again. As a run begins and as it ends the browser then renders and styles the whole page
anew, to find what was not drawn again: where a run leaves no place empty, that is nothing.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from google.protobuf.message import DecodeError
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from attnviz.ui.shared import ahead

MOMENT = 0.1
"""Seconds that a run may take before keys.js is given a sign of it: what comes sooner feels instant."""

LONG = 0.5
"""Seconds after which the browser is told of the run as of any other: it then fades what is not drawn yet."""

RUNS, RESTS = "attnviz runs", "attnviz rests"
"""The signs: names of fragments that are to be run no more, of which Streamlit has none."""

MOST_UNTOLD = 20_000_000
"""Bytes of runs that a browser was not told of: it keeps what is large in them until it knows that a run ended."""

WHOLE = ForwardMsg.FINISHED_SUCCESSFULLY, ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY


GIVEN = "value", "raw_value", "raw_values"
"""Where elements of Streamlit say which value their widget is given."""


class BriefRuns:
    """Passes messages to the browser, but those of a brief run that say nothing new."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            return await self.app(scope, receive, send)
        browser = _Browser(receive, send)
        try:
            await self.app(scope, browser.receive, browser.send)
        finally:
            browser.forget()


class _Shown(NamedTuple):
    """What stands at a place: the hash of all that it shows, the widget whose value it keeps, the part it is of."""

    hash: str
    keeps: str = ""
    part: str | None = None


class _Browser:
    """What one browser knows.

    While it is not told of a run, all that is said of it is held. If then the run leaves a place empty, puts another
    container or another widget there, or takes long, the browser is told it all, as Streamlit would have done.
    """

    def __init__(self, receive: Receive, send: Send):
        self._hear, self._pass, self._lock = receive, send, asyncio.Lock()
        self._stands: dict[tuple[int, ...], _Shown] = {}
        self._drawn: dict[tuple[int, ...], _Shown] = {}  # by this run
        self._holds: dict[str, list[tuple]] = {}  # the value of each widget, as it reported it or was given it since
        self._large: dict[str, _Shown] = {}  # by hash: what the browser keeps, which is named from then on
        self._parts: tuple[str, ...] = ()  # that run; none is the whole page
        self._held: list[Message] = []
        self._is_told = False  # of a run that has not ended
        self._untold = 0
        self._later: asyncio.Task | None = None
        self._runs: Message | None = None  # what says that the app runs
        self._shows_run = self._has_sign = False
        self._opens = ""  # the page that was asked for last, until the browser speaks of it

    async def receive(self) -> Message:
        message = await self._hear()
        ahead.end()
        with suppress(DecodeError):
            asked = BackMsg.FromString(message.get("bytes") or b"")
            for one in asked.rerun_script.widget_states.widgets:
                self._holds[one.id] = [_values(getattr(one, one.WhichOneof("value") or "id"))]
            if self._is_of_page_left(asked.rerun_script):
                asked.rerun_script.page_script_hash, asked.rerun_script.fragment_id = self._opens, ""
                return message | {"bytes": asked.SerializeToString()}
        return message

    def _is_of_page_left(self, asked: ClientState) -> bool:
        """Whether a run is asked for as if the page were still the one before.

        Where a tap ends the typing in a box and opens another page, the browser asks for that page first, and then says
        what was typed.
        """
        page = asked.page_script_hash
        if asked.is_history_navigation:  # as all our links are
            self._opens = page
        elif page == self._opens:
            self._opens = ""
        return bool(page and self._opens and page != self._opens)

    async def send(self, message: Message) -> None:
        said = ForwardMsg.FromString(message.get("bytes") or b"")
        async with self._lock:
            match said.WhichOneof("type"):
                case "new_session":
                    await self._begin(message, tuple(said.metadata.run.fragment_ids))
                case "delta" | "ref_hash":
                    await self._draw(message, said)
                case "script_finished":
                    await self._end(message, said.script_finished in WHOLE)
                case "session_status_changed" if self._parts:
                    await self._run(message, said.session_status_changed.script_is_running)
                case _:
                    await self._pass(message)

    async def _begin(self, message: Message, parts: tuple[str, ...]) -> None:
        is_untold = self.forget()
        if self._is_told:  # its end is lost where the session took another runner: nobody knows what stands
            self._stands = {}
        self._parts, self._drawn, self._held, self._is_told = parts, {}, [message], False
        if not parts:
            await self._sign(False)
        is_known = parts and any(self._is_redrawn(one) for one in self._stands.values())
        if self._untold > MOST_UNTOLD or not is_known:
            await self._tell()
        if is_untold and self._runs:  # a run that is cut short by this one: it is not said again that the app runs
            await (self._run(self._runs, True) if parts else self._pass(self._runs))

    def _is_redrawn(self, shown: _Shown) -> bool:
        """Whether it goes if this run does not draw it."""
        return not self._parts or shown.part is None or shown.part in self._parts

    async def _draw(self, message: Message, said: ForwardMsg) -> None:
        path = tuple(said.metadata.delta_path)
        if said.ref_hash and self._is_lost(path):
            return
        before, now = self._stands.get(path), self._shown(said)
        has_effect = said.delta.new_element.has_one_shot_effect and self._is_given(said.delta.new_element)
        self._drawn[path] = now
        if not self._held:
            await self._pass(message)
            return
        self._held.append(message)
        is_element = said.ref_hash or said.delta.HasField("new_element")
        if before and (before.keeps != now.keeps or (before != now and not is_element)):
            await self._tell()
        elif before != now or has_effect:
            self._stands[path] = now
            self._untold += len(message["bytes"])
            await self._pass(message)

    def _is_lost(self, path: tuple[int, ...]) -> bool:
        """Whether what it stands in, or next to, was not sent: the browser would answer by ending the page.

        Of a run of a part that the next one cuts short Streamlit drops what is not sent yet, but not what is named. All
        that a run draws stands in a container that it draws.
        """
        parent, at = path[:-1], path[-1]
        if all(path[:n] not in self._drawn for n in range(1, len(path))) and (self._parts or len(path) <= 2):
            return False
        return parent not in self._drawn or (at > 0 and (*parent, at - 1) not in self._drawn)

    def _is_given(self, element: Element) -> bool:
        """Whether an effect is more than a widget that is given the value that it holds."""
        widget = getattr(element, element.WhichOneof("type"))
        given = [_values(getattr(widget, field.name)) for field in widget.DESCRIPTOR.fields if field.name in GIVEN]
        held = self._holds.get(getattr(widget, "id", ""), ())
        if given:
            self._holds[widget.id] = given
        return not any(value in held for value in given)

    def _shown(self, said: ForwardMsg) -> _Shown:
        if said.ref_hash:
            return self._large.get(said.ref_hash, _Shown(said.ref_hash))
        element = said.delta.new_element
        kind = element.WhichOneof("type") or "button"  # which keeps no value
        keeps = "" if kind == "button" else getattr(getattr(element, kind), "id", "")
        shown = _Shown(said.hash, keeps, said.delta.fragment_id)
        if said.metadata.cacheable:
            self._large[said.hash] = shown
        return shown

    async def _end(self, message: Message, is_whole: bool) -> None:
        left = {path: one for path, one in self._stands.items() if not self._is_redrawn(one)}
        gone = self._stands.keys() - left.keys() - self._drawn.keys()
        stays = {path: one for path, one in left.items() if gone.isdisjoint(path[:n] for n in range(len(path)))}
        stands = stays | self._drawn
        if self._held and is_whole and gone:
            await self._clear(gone, stands)
        if not self._held:
            self._stands = stands if is_whole and all(one.part is not None for one in stands.values()) else {}
            await self._pass(message)
        self._held, self._is_told = [], False

    async def _clear(self, gone: set, stands: dict) -> None:
        """Let nothing stand where nothing was drawn.

        All is told where that takes the value of a widget, or leaves a container empty, which is not drawn at all.
        """
        places = {path for path in gone if gone.isdisjoint(path[:n] for n in range(len(path)))}
        lost, filled = self._stands.keys() - stands.keys(), {path[:-1] for path in stands}
        if any(self._stands[path].keeps for path in lost) or not {path[:-1] for path in places} <= filled:
            await self._tell()
            return
        for path in places:
            await self._pass({"type": "websocket.send", "bytes": _nothing(path, self._stands[path].part)})
        self._stands = stands

    async def _run(self, message: Message, runs: bool) -> None:
        is_untold = self.forget()
        if runs:
            self._runs = message
            self._later = asyncio.create_task(self._tell_later(message))
            return
        await self._sign(False)
        if not is_untold:
            await self._pass(message)

    async def _tell_later(self, message: Message) -> None:
        await asyncio.sleep(MOMENT)
        async with self._lock:
            await self._sign(True)
        await asyncio.sleep(LONG - MOMENT)
        async with self._lock:
            self._shows_run = True
            await self._pass(message)
            await self._tell()

    async def _sign(self, runs: bool) -> None:
        """Show whether the app runs: told as Streamlit does it, the browser would render the page anew."""
        if runs != self._has_sign:
            self._has_sign = runs
            message = ForwardMsg(stop_auto_rerun={"fragment_ids": [RUNS if runs else RESTS]})
            await self._pass({"type": "websocket.send", "bytes": message.SerializeToString()})

    async def _tell(self) -> None:
        """Say all that is held."""
        held, self._held, self._untold = self._held, [], 0
        self._is_told |= bool(held)
        for message in held:
            await self._pass(message)

    def forget(self) -> bool:
        """Tell no more of a run that takes longer; gives whether the browser does not show that it ran."""
        later, self._later = self._later, None
        is_untold, self._shows_run = later is not None and not self._shows_run, False
        if later:
            later.cancel()
        return is_untold


def _nothing(path: tuple[int, ...], part: str | None) -> bytes:
    """What lets nothing stand at a place."""
    message = ForwardMsg()
    message.metadata.delta_path.extend(path)
    message.delta.fragment_id = part or ""
    message.delta.new_element.empty.SetInParent()
    return message.SerializeToString()


def _values(value: Any) -> tuple:
    """What a widget holds, one or many, whatever kind it is of."""
    many = getattr(value, "data", value)
    return tuple(many) if isinstance(many, Sequence) and not isinstance(many, str | bytes) else (many,)
