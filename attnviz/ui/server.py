"""Work done once per server: imports and a first picture in the background, and headers on every response."""

import asyncio
import re
import sys
import threading
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import streamlit
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attnviz.core.errors import AttnvizError
from attnviz.ui import hosts, launch
from attnviz.ui.main import PAGES
from attnviz.ui.text import SCRIPTS
from attnviz.ui.uploads import Uploads

PAGE = Path(__file__).parent / "script" / "main.py"
"""Script that runs for each visitor."""


def _inline_scripts() -> str:
    """The scripts of Streamlit's page and ours, by their hash: the only inline code that may run."""
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    scripts = [*re.findall(r"<script>(.*?)</script>", page, re.DOTALL), *SCRIPTS]
    return " ".join(f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" for script in scripts)


@cache
def security_headers() -> dict[str, str]:
    """The headers of every response."""
    preset = hosts.public()
    policy = (
        "default-src 'self'",
        " ".join(("script-src", "'self'", _inline_scripts())),
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "style-src 'self' 'unsafe-inline'",
        "connect-src 'self' data: blob:",
        "worker-src 'self' blob:",
        "object-src 'none'",
        "base-uri 'self'",
        " ".join(("frame-ancestors", "'self'", *(preset.framed_by if preset else ()))),
    )
    return {
        "content-security-policy": "; ".join(policy),
        "x-content-type-options": "nosniff",
        "referrer-policy": "same-origin",
    }


class Headers:
    """Tells the browser to load nothing from another host, and to run no text as code."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                added = ((name.encode(), value.encode()) for name, value in security_headers().items())
                message["headers"] = [*message.get("headers", []), *added]
            await send(message)

        await self.app(scope, receive, send_with_headers)


async def cell_values(request: Request) -> Response:
    """Exact numbers of a picture of many cells, for the readout under the pointer; empty once the picture is gone."""
    from attnviz.ui.arrow import CELLS

    address = f"cells/{request.path_params['name']}"
    if (cells := CELLS.get(address)) is None:
        return Response(b"[]", media_type="application/json", headers={"cache-control": "no-store"})
    headers = {"cache-control": "private, max-age=86400, immutable"}  # the address is a hash of the numbers
    return Response(await asyncio.to_thread(cells.json, address), media_type="application/json", headers=headers)


class NotHere:
    """Tells Streamlit's own script, on a page opened by its address, that no server answers under the page's name.

    It asks there first, and a browser writes each 404 into its console as an error; this status is none of both.
    """

    PROBED = re.compile(rf"/({'|'.join(map(str.lower, PAGES))})/_stcore/(health|host-config)$")

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_probe = scope["type"] == "http" and self.PROBED.search(scope["path"])
        await (Response(status_code=300) if is_probe else self.app)(scope, receive, send)


middleware = [*map(Middleware, (Headers, hosts.OwnHosts, NotHere, Uploads))]
routes = [Route(path, cell_values) for path in ("/cells/{name}", "/{behind:path}/cells/{name}")]


@asynccontextmanager
async def lifespan(app: object) -> AsyncIterator[None]:
    """Warm up beside the server's start, so that the first visitor finds everything imported."""
    if preset := hosts.public():
        preset.apply()
    launch.welcome()
    threading.Thread(target=warm, name="attnviz-warm", daemon=True).start()
    yield


@asynccontextmanager
async def beside(app: object) -> AsyncIterator[None]:
    """Around a server in a person's own process: its cores and its `__main__` stay that person's."""
    from attnviz.ui import cores

    global _main
    _main = sys.modules["__main__"]
    with cores.left_alone():
        yield
    keep_main()
    _main = None


_main: ModuleType | None = None
"""`__main__` of a person's own process; None where the app has a process of its own."""


def keep_main() -> None:
    """Undo what Streamlit does before each run: it puts a module of its own in the place of `__main__`."""
    if _main is not None:
        sys.modules["__main__"] = _main


def warm() -> None:
    """Import and draw what a first visit shows, and start what exports and what compiles large maps."""
    from attnviz import export
    from attnviz.charts import readout

    draw_first()
    export.warm()
    readout.warm()


def draw_first() -> None:
    """Import what a picture needs, and draw what a first visit sees."""
    from attnviz import figures, link
    from attnviz.core import request
    from attnviz.core.edits import Edits
    from attnviz.core.masks import Subsequent
    from attnviz.ui import budget, cache, cores, main

    cores.settle()
    with suppress(AttnvizError):  # each page says what is wrong with the budget
        cache.SHARED.most_bytes = budget.memory()
    first, _ = link.read({name: [value] for name, value in main.FIRST.items()})
    source = cache.source(first["model"])
    first_request = request.Request((source.card.examples[0],))
    site, head = first["layer"], first["head"]
    before = cache.record(source, first_request)
    after = cache.record(source, replace(first_request, edits=Edits(Subsequent())))
    for run in (before, after):
        for figure in (figures.heads(run, site, focused=head, paired=True), figures.head(run, site, head)):
            figure.screen  # noqa: B018 (its form is built now, and kept for all)
