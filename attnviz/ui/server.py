"""What happens once per server: imports and a first picture in the background, and headers on every response."""

import asyncio
import ctypes
import gc
import os
import re
import socket
import sys
import threading
import time
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import streamlit
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit import config, runtime
from streamlit.runtime import RuntimeState

from attnviz.core.errors import AttnvizError
from attnviz.ui import launch
from attnviz.ui.brief import BriefRuns
from attnviz.ui.shared import ahead, browser
from attnviz.ui.shared.pages import TITLES
from attnviz.ui.shared.text import SCRIPTS

PAGE = Path(__file__).parent / "script" / "main.py"
"""What runs for each visitor."""


def _inline_scripts() -> str:
    """The scripts of Streamlit's page and ours, by their hash: the only inline code that may run."""
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    scripts = [*re.findall(r"<script>(.*?)</script>", page, re.DOTALL), *SCRIPTS]
    return " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)


HEADERS = {
    "content-security-policy": "; ".join(
        (
            "default-src 'self'",
            " ".join(("script-src", "'self'", _inline_scripts())),
            "img-src 'self' data: blob:",
            "font-src 'self' data:",
            "style-src 'self' 'unsafe-inline'",
            "connect-src 'self' data: blob:",
            "worker-src 'self' blob:",
            "object-src 'none'",
            "base-uri 'self'",
            "frame-ancestors 'self'",
        )
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
}


PAUSE = 2.0
"""Seconds between two collections of garbage: a run leaves half a megabyte, and a collection takes 20 ms."""


KEPT_FOR = 20
"""Runs for which a browser keeps what it was sent: Streamlit's own 2 may pass while a message travels."""


class Headers:
    """Says to the browser that nothing is to be loaded from another host, and no text to be run as code.

    With a page, it also says what draws the frame.
    """

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message.get("headers", [])
                is_page = dict(given).get(b"content-type", b"").startswith(b"text/html")
                named = HEADERS | ({"link": browser.LINK} if is_page else {})
                message["headers"] = [*given, *((name.encode(), value.encode()) for name, value in named.items())]
            await send(message)

        await self.app(scope, receive, send_with_headers)


AFTER = 0.25
"""Seconds after which what is read of cells is sent: what else a click changes is to be painted before."""


class ReadCells:
    """Answers what is read of the cells of a picture, which a browser asks for once it has the picture."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = scope["type"] == "http" and re.search(r"cells/\w+\.json$", scope["path"])
        if asked:
            await asyncio.sleep(AFTER)
        await (_read(asked[0]) if asked else self.app)(scope, receive, send)


def _read(address: str) -> ASGIApp:
    from attnviz.ui.shared.arrow import CELLS

    if (cells := CELLS.get(address)) is None:  # its picture is gone; an error would be one of the page
        return Response(b"[]", media_type="application/json", headers={"cache-control": "no-store"})
    kept = {"cache-control": "private, max-age=86400, immutable"}  # the address says what there is
    return Response(cells.json(address), media_type="application/json", headers=kept)


class NotHere:
    """Tells Streamlit's own script, on a page opened by its address, that no server answers under the page's name.

    It asks there first, and a browser writes each 404 into its console as an error; this status is none of both.
    """

    PROBED = re.compile(rf"/({'|'.join(title.lower() for title in TITLES)})/_stcore/(health|host-config)$")

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_probe = scope["type"] == "http" and self.PROBED.search(scope["path"])
        await (Response(status_code=300) if is_probe else self.app)(scope, receive, send)


middleware = [Middleware(Headers), Middleware(NotHere), Middleware(BriefRuns), Middleware(ReadCells)]


def set_options() -> None:
    """What no file of settings says, as it holds wherever the app is served from.

    Streamlit names a message that the browser kept instead of sending it again: one that the browser had as it asked
    for the run. Where runs follow each other at once, as with Back pressed twice, it would have let go of it by then,
    and the session would end; so it keeps messages for more runs than anybody asks for in that time.

    A run that is asked for while another one goes on waits until that one stops, at its next element: started at once,
    as Streamlit does, both write the session's state, and a setting is lost, or the page is an error.
    """
    config.set_option("runner.postScriptGC", False)
    config.set_option("runner.fastReruns", False)
    config.set_option("global.maxCachedMessageAge", KEPT_FOR)


def send_at_once() -> None:
    """Have what listens send each message as it comes, as asyncio does with what it opened itself.

    Streamlit's socket does not say that it is one of TCP, so asyncio leaves it alone: the body of a file then waits
    until the browser has acknowledged its head, up to 40 ms, and a page has a hundred files.
    """
    for one in gc.get_objects():
        if type(one) is socket.socket and one.family in (socket.AF_INET, socket.AF_INET6):
            with suppress(OSError):  # it is closed, or not one of TCP
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@asynccontextmanager
async def lifespan(app: object) -> AsyncIterator[None]:
    """Warm up beside the server's start, so that the first visitor finds everything imported."""
    launch.welcome()
    set_options()
    send_at_once()
    threading.Thread(target=warm, name="attnviz-warm", daemon=True).start()
    ended = threading.Event()
    threading.Thread(target=collect_garbage, args=(ended,), name="attnviz-garbage", daemon=True).start()
    ahead.SERVES.set()
    yield
    ahead.SERVES.clear()
    ended.set()


@asynccontextmanager
async def beside(app: object) -> AsyncIterator[None]:
    """Around a server in a person's own process: its garbage, its cores and its `__main__` stay that person's."""
    from attnviz.ui.shared import cores

    global _main
    _main = sys.modules["__main__"]
    set_options()
    with cores.left_alone():
        yield
    keep_main()
    _main = None


_main: ModuleType | None = None
"""What `__main__` is in a person's own process; None where the app has a process of its own."""


def keep_main() -> None:
    """Undo what Streamlit does before each run: it puts a module of its own in the place of `__main__`."""
    if _main is not None:
        sys.modules["__main__"] = _main


def collect_garbage(ended: threading.Event) -> None:
    """Now and then while the server is used. Streamlit would do it after every run: for 30 users, all the time.

    What was kept of sessions that ended goes, too. Then give memory back to the system: glibc keeps what is freed, and
    so three times what the app's cache may hold.
    """
    from attnviz.ui.shared import cache

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    while not ended.wait(PAUSE):
        if gc.isenabled() and any(gc.get_count()[1:]):
            collect()
            cache.forget_the_dead()
            if trim is not None:
                trim(0)


def collect() -> None:
    """Collect garbage; while nobody is there, also of what `warm` froze: it holds a session that was open just then."""
    alone = runtime.exists() and runtime.get_instance().state is RuntimeState.NO_SESSIONS_CONNECTED
    if alone:
        gc.unfreeze()
    gc.collect()
    if alone:
        gc.freeze()


LATER = 5.0
"""Seconds after which garbage is collected and what exports made ready: who comes first needs the core this takes."""


def warm() -> None:
    """Import what a picture needs, draw one, and take all of it out of the garbage collector's sight.

    Collecting garbage would look at all of it each time, a quarter of the time that the imports take; what is frozen
    here is looked at while nobody is there.
    """
    gc.disable()
    try:
        from attnviz import export

        draw_first()
        time.sleep(LATER)
    finally:
        gc.enable()
    gc.collect()
    gc.freeze()
    export.warm()


def draw_first() -> None:
    """Import what a picture needs, and draw what a first visit sees."""
    from attnviz import figures
    from attnviz.core.edits import Edits
    from attnviz.core.masks import Subsequent
    from attnviz.ui import settings
    from attnviz.ui.shared import budget, cache, cores, look, says, welcome
    from attnviz.ui.shared.examples import of_model
    from attnviz.ui.shared.pretrained import MODEL
    from attnviz.ui.shared.setting import read

    cores.settle()
    with suppress(AttnvizError):  # each page says what is wrong with the budget
        cache.KEPT.most_bytes = budget.memory()
    first = read(welcome.FIRST, settings.LINKED)
    source, _ = cache.loadable(first[MODEL])
    lines = cache.texts(next(iter(of_model(source).values())))
    site, head = first[look.SITE], first[look.SHOW]
    before, after = (cache.record(source, lines, edits) for edits in (Edits(), Edits(Subsequent())))
    for run in (before, after):
        for figure in (figures.heads(run, site), figures.head(run, site, head)):
            figure.screen  # noqa: B018 (its form is built now, and kept for all)
    for effect in says.choices(before):
        says.drawn(effect, before, before, 0).screen  # noqa: B018
