"""Who may reach the app, and the public preset: it lets others reach or frame the app, and bounds what they do.

Requests that another web page could make through a visitor's browser are refused, over HTTP and over websockets.
"""

import os
import re
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config

from attnviz.core.errors import InputError, quoted
from attnviz.ui.streamlit_internals import is_host_allowed

HEALTH = "/_stcore/health"
"""Answers to any name, as it tells nothing: a container and a proxy ask it by an address."""

METRICS = "/_stcore/metrics"
"""Counts of Streamlit, which visitors of a public app do not see."""

LOCAL = {"localhost", "127.0.0.1", "::1", "[::1]"}
"""Names of this machine, by which nobody else reaches it."""

DEFAULT_PORTS = {"http": ":80", "https": ":443"}

PUBLIC, HOST_NAMES, FRAMED_BY = "ATTNVIZ_PUBLIC", "ATTNVIZ_HOST_NAMES", "ATTNVIZ_FRAMED_BY"
"""Environment variables of the preset; flags of `attnviz app` set them."""

HOST_NAME = r"(\*\.)?[\w-]+(\.[\w-]+)*"
ORIGIN = rf"https?://{HOST_NAME}(:\d{{1,5}})?"


@dataclass(frozen=True)
class Public:
    """Preset of an app that is shown to others.

    Attributes:
        host_names: names that it answers to, with those of this machine. "*.example.org" is each name below that one.
        framed_by: origins of pages that may frame it.
        gigabytes: memory of the server and what it starts, unless `--memory` sets another.
        seconds: time of one run, unless `--seconds` sets another.
        seconds_per_minute: time of all long runs that a visitor begins within a minute.
        megabytes: size of an upload.
    """

    host_names: tuple[str, ...] = ()
    framed_by: tuple[str, ...] = ()
    gigabytes: float = 1.0
    seconds: float = 10.0
    seconds_per_minute: float = 20.0
    megabytes: int = 10

    def apply(self) -> None:
        """Set the options of Streamlit.

        A browser keeps the cookie of an upload from a page in a frame. `OwnHosts` refuses the uploads of other pages.
        """
        names = {*LOCAL, *config.get_option("server.allowedHosts"), *self.host_names}
        config.set_option("server.allowedHosts", sorted(names))
        config.set_option("server.maxUploadSize", self.megabytes)
        config.set_option("server.enableCORS", True)
        config.set_option("server.enableXsrfProtection", not self.framed_by)


@cache
def public() -> Public | None:
    """The preset of this server; None unless somebody asked for it.

    Raises:
        InputError: if it cannot be read.
    """
    names, pages = (_listed(*part) for part in ((HOST_NAMES, HOST_NAME), (FRAMED_BY, ORIGIN)))
    if os.environ.get(PUBLIC, "") in ("", "0"):
        if names or pages:
            raise InputError(
                "Other host names and framing pages belong to a public app: add --public, or set ATTNVIZ_PUBLIC=1."
            )
        return None
    return Public(names, pages)


def _listed(variable: str, form: str) -> tuple[str, ...]:
    """Parts of an environment variable, which blanks or commas separate."""
    parts = tuple(re.findall(r"[^\s,]+", os.environ.get(variable, "")))
    for part in parts:
        if not re.fullmatch(form, part, re.ASCII):
            example = "attention.example.org" if form == HOST_NAME else "https://portal.example.org"
            raise InputError(f"{quoted(part)} cannot be used; give for example {example}.")
    return parts


class OwnHosts:
    """Answers requests whose Host is in `server.allowedHosts` and whose Origin, if there is one, is that host and port.

    Streamlit looks at the Host of websockets alone, and takes any port of this machine for their Origin.
    """

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_request = scope["type"] in ("http", "websocket")
        why = refusal(Headers(scope=scope), scope["path"]) if is_request else ""
        if not why or scope.get("path", "").endswith(HEALTH):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse(why, 403)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": why})


def serves_others() -> bool:
    """Whether people on other machines may reach the app: it answers to more than the names of this one."""
    names = config.get_option("server.allowedHosts")
    return public() is not None or not names or not LOCAL.issuperset(names)


def refusal(headers: Headers, path: str) -> str:
    """Why a request is refused, as a sentence; empty where it is not."""
    host, origin = headers.get("host"), headers.get("origin")
    if not is_host_allowed(host):
        return "This app does not answer to that name. STREAMLIT_SERVER_ALLOWED_HOSTS names those that it answers to."
    if path.endswith(METRICS) and public():
        return "A public app shows no metrics."
    if origin is None or _is_own(origin, host or ""):
        return ""
    return "This app answers to its own pages alone. STREAMLIT_SERVER_CORS_ALLOWED_ORIGINS names other origins."


def _is_own(origin: str, host: str) -> bool:
    if not config.get_option("server.enableCORS") or origin in config.get_option("server.corsAllowedOrigins"):
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    port = DEFAULT_PORTS.get(parts.scheme)
    return port is not None and parts.netloc.lower().removesuffix(port) == host.lower().removesuffix(port)
