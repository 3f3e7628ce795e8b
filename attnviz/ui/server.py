"""Setup of the server: imports and a first picture in the background, and security headers on every response."""

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

PAGE = Path(__file__).parent / "script" / "main.py"
"""Script that Streamlit runs for each visitor."""


@cache
def security_headers() -> dict[str, str]:
    """Build the security headers of every response; the only inline code that may run is Streamlit's and our own."""
    preset = hosts.public()
    page = (Path(streamlit.__file__).parent / "static" / "index.html").read_text(encoding="utf-8")
    scripts = [*re.findall(r"<script>(.*?)</script>", page, re.DOTALL), *SCRIPTS]
    hashes = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    policy = (
        "default-src 'self'",
        " ".join(("script-src", "'self'", *(f"'sha256-{digest}'" for digest in hashes))),
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
    """Middleware that adds security headers: the browser loads nothing from other hosts and runs no text as code."""

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
    """Answer with the exact cell values of a large map, for the readout; with an empty list if they are not cached."""
    from attnviz.ui.cache import CELLS

    address = f"cells/{request.path_params['name']}"
    if (cells := CELLS.get(address)) is None:
        return Response(b"[]", media_type="application/json", headers={"cache-control": "no-store"})
    headers = {"cache-control": "private, max-age=86400, immutable"}  # the address is a hash of the numbers
    return Response(await asyncio.to_thread(cells.json, address), media_type="application/json", headers=headers)


async def no_server(request: Request) -> Response:
    """Answer Streamlit's search for its server below a page's address; a 404 would be an error in the console."""
    return Response(status_code=300)


middleware = [*map(Middleware, (Headers, hosts.OwnHosts, hosts.Uploads))]
routes = [Route(path, cell_values) for path in ("/cells/{name}", "/{behind:path}/cells/{name}")]
routes += [Route(f"/{title.lower()}/_stcore/{{probe}}", no_server) for title in PAGES]


@asynccontextmanager
async def lifespan(app: object) -> AsyncIterator[None]:
    """Warm up in a thread while the server starts, so that the first visitor does not wait for imports."""
    if preset := hosts.public():
        preset.apply()
    launch.welcome()
    threading.Thread(target=warm, name="attnviz-warm", daemon=True).start()
    yield


@asynccontextmanager
async def lifespan_in_process(app: object) -> AsyncIterator[None]:
    """Keep torch's thread count and `__main__` of the user's own process unchanged while it serves the app."""
    from attnviz.ui import cores

    global _main
    _main = sys.modules["__main__"]
    with cores.thread_count_kept():
        yield
    keep_main()
    _main = None


_main: ModuleType | None = None
"""`__main__` of the user's own process; None if the app has a process of its own."""


def keep_main() -> None:
    """Restore `__main__`, which Streamlit replaces with a module of its own before each run."""
    if _main is not None:
        sys.modules["__main__"] = _main


def warm() -> None:
    """Do once, before the first visit, what is slow at its first use: imports, the first picture, export and Vega."""
    from attnviz import export
    from attnviz.ui import readout

    draw_first()
    export.warm()
    readout.warm()


def draw_first() -> None:
    """Import the drawing code, and draw the pictures of a first visit."""
    from attnviz import figures, link
    from attnviz.core import request
    from attnviz.core.edits import Edits
    from attnviz.core.masks import Subsequent
    from attnviz.ui import budget, cache, cores, main, readout

    cores.use_one_core()
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
            readout.screen(figure)  # compiles its chart to Vega, which is then cached for all visitors
