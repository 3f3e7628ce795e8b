"""Requests that another web page could make through a visitor's browser are refused: over HTTP and over websockets."""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config

from attnviz.ui import words
from attnviz.ui.streamlit_internals import is_host_allowed

HEALTH = "/_stcore/health"
"""Answers to any name, as it tells nothing: a container and a proxy ask it by an address."""

LOCAL = {"localhost", "127.0.0.1", "::1", "[::1]"}
"""Names of this machine, by which nobody else reaches it."""

DEFAULT_PORTS = {"http": ":80", "https": ":443"}


class OwnHosts:
    """Answers requests whose Host is in `server.allowedHosts` and whose Origin, if there is one, is that host and port.

    Streamlit looks at the Host of websockets alone, and takes any port of this machine for their Origin.
    """

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        why = refusal(Headers(scope=scope)) if scope["type"] in ("http", "websocket") else ""
        if not why or scope.get("path", "").endswith(HEALTH):
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse(why, 403)(scope, receive, send)
        else:
            await send({"type": "websocket.close", "code": 1008, "reason": why})


def serves_others() -> bool:
    """Whether people on other machines may reach the app: it answers to more than the names of this one."""
    names = config.get_option("server.allowedHosts")
    return not names or not LOCAL.issuperset(names)


def refusal(headers: Headers) -> str:
    """Why a request is refused, as a sentence; empty where it is not."""
    host, origin = headers.get("host"), headers.get("origin")
    if not is_host_allowed(host):
        return words.OTHER_HOST
    return "" if origin is None or _is_own(origin, host or "") else words.OTHER_ORIGIN


def _is_own(origin: str, host: str) -> bool:
    if not config.get_option("server.enableCORS") or origin in config.get_option("server.corsAllowedOrigins"):
        return True
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    port = DEFAULT_PORTS.get(parts.scheme)
    return port is not None and parts.netloc.lower().removesuffix(port) == host.lower().removesuffix(port)
