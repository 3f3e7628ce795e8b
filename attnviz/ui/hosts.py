"""Access control of the app, and the public preset, which lets other people open or frame the app, with limits.

Requests that another web page makes through a visitor's browser are refused, over HTTP and over websockets, and so are
uploads of one session that together are too large.
"""

import os
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config

from attnviz.core.errors import InputError, quoted
from attnviz.ui.streamlit_internals import is_host_allowed, uploaded_bytes

HEALTH = "/_stcore/health"
"""Path that is served under any host name, as containers and proxies request it by IP address; it reveals nothing."""

METRICS = "/_stcore/metrics"
"""Path of Streamlit's metrics, refused in a public app."""

LOCAL = {"localhost", "127.0.0.1", "::1", "[::1]"}
"""Names of this machine that no other machine can use."""

DEFAULT_PORTS = {"http": ":80", "https": ":443"}

PUBLIC, HOST_NAMES, FRAMED_BY = "ATTNVIZ_PUBLIC", "ATTNVIZ_HOST_NAMES", "ATTNVIZ_FRAMED_BY"
"""Environment variables of the preset; flags of `attnviz app` set them."""

HOST_NAME = r"(\*\.)?[\w-]+(\.[\w-]+)*"
ORIGIN = rf"https?://{HOST_NAME}(:\d{{1,5}})?"


@dataclass(frozen=True)
class Public:
    """Preset of an app for visitors from other machines.

    Attributes:
        host_names: names under which the app answers, besides the local ones. "*.example.org" covers subdomains.
        framed_by: origins of pages that may show the app in a frame.
        gigabytes: memory limit of the server and its child processes, unless `--memory` sets another.
        seconds: time limit of one run, unless `--seconds` sets another.
        seconds_per_minute: time limit of all long runs that a visitor starts within a minute.
        megabytes: size limit of an upload.
    """

    host_names: tuple[str, ...] = ()
    framed_by: tuple[str, ...] = ()
    gigabytes: float = 1.0
    seconds: float = 10.0
    seconds_per_minute: float = 20.0
    megabytes: int = 10

    def apply(self) -> None:
        """Set the options of Streamlit.

        A browser does not send the XSRF cookie from a framed page, so with framing the check of this cookie is off.
        `OwnHosts` still refuses uploads from other pages.
        """
        names = {*LOCAL, *config.get_option("server.allowedHosts"), *self.host_names}
        config.set_option("server.allowedHosts", sorted(names))
        config.set_option("server.maxUploadSize", self.megabytes)
        config.set_option("server.enableCORS", True)
        config.set_option("server.enableXsrfProtection", not self.framed_by)


@cache
def public() -> Public | None:
    """The public preset from the environment variables; None if it is off.

    Raises:
        InputError: if a host name or origin is invalid, or given without the preset.
    """
    names, pages = _split_variable(HOST_NAMES, HOST_NAME), _split_variable(FRAMED_BY, ORIGIN)
    if os.environ.get(PUBLIC, "") in ("", "0"):
        if names or pages:
            reason = "Only a public app has extra host names or pages that embed it"
            raise InputError(f"{reason}: add --public, or set ATTNVIZ_PUBLIC=1.")
        return None
    return Public(names, pages)


def _split_variable(variable: str, pattern: str) -> tuple[str, ...]:
    """Split an environment variable at blanks and commas; raise InputError if a part does not match the pattern."""
    parts = tuple(re.findall(r"[^\s,]+", os.environ.get(variable, "")))
    for part in parts:
        if not re.fullmatch(pattern, part, re.ASCII):
            example = "attention.example.org" if pattern == HOST_NAME else "https://portal.example.org"
            raise InputError(f"{quoted(part)} in {variable} cannot be used; an example is {example}.")
    return parts


class OwnHosts:
    """Middleware that answers only if Host is in `server.allowedHosts` and Origin, if any, equals that host and port.

    Streamlit itself checks Host only for websockets, and accepts any local port as their Origin.
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
    """Whether other machines can reach the app: it is public, or allows other host names than the local ones."""
    names = config.get_option("server.allowedHosts")
    return public() is not None or not names or not LOCAL.issuperset(names)


def refusal(headers: Headers, path: str) -> str:
    """Return a sentence that says why a request is refused; empty if the request is allowed."""
    host, origin = headers.get("host"), headers.get("origin")
    if not is_host_allowed(host):
        return "This host name does not reach the app. STREAMLIT_SERVER_ALLOWED_HOSTS lists the allowed host names."
    if path.endswith(METRICS) and public():
        return "A public app shows no metrics."
    if origin is None or _is_own(origin, host or ""):
        return ""
    return "Another web page sent this request. STREAMLIT_SERVER_CORS_ALLOWED_ORIGINS lists the allowed origins."


def _is_own(origin: str, host: str) -> bool:
    """Whether a request comes from a page of the app itself, or from an origin that Streamlit's options allow."""
    if not config.get_option("server.enableCORS") or origin in config.get_option("server.corsAllowedOrigins"):
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    port = DEFAULT_PORTS.get(parts.scheme)
    return port is not None and parts.netloc.lower().removesuffix(port) == host.lower().removesuffix(port)


# Uploads

TOGETHER = 4
"""Limit of a session's uploads that are being sent or not opened yet, as a multiple of the largest allowed upload."""
AROUND = 2**16
"""Maximum number of bytes of an upload request besides the content of the file."""
ADDRESS = re.compile(r"/_stcore/upload_file/([^/]+)/[^/]+$")


class Uploads:
    """Middleware that refuses an upload if the session would then have too many bytes on the server."""

    def __init__(self, app: ASGIApp):
        self.app = app
        self._pending: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_put = scope["type"] == "http" and scope["method"] == "PUT"
        match = ADDRESS.search(scope["path"]) if is_put else None
        if match is None:
            await self.app(scope, receive, send)
            return
        session, largest = match[1], config.get_option("server.maxUploadSize") * 2**20 + AROUND
        length = Headers(scope=scope).get("content-length", "")
        size = int(length) if length.isdecimal() else largest
        if self._pending[session] + uploaded_bytes(session) + size > TOGETHER * largest:
            refused = "This session has uploaded too many bytes at once; upload fewer files."
            await PlainTextResponse(refused, 413)(scope, receive, send)
            return
        self._pending[session] += size
        try:
            await self.app(scope, receive, send)
        finally:
            self._pending[session] -= size
            self._pending += Counter()  # removes sessions without uploads
