"""Links of more parameters than Streamlit reads: it drops them all, and only the server's log says so."""

from starlette.responses import RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from attnviz.ui.shared.setting import OMITTED

MOST = 1000
"""Parameters of a link that Streamlit reads."""


class LongLinks:
    """Leads a link of too many parameters to one of the first of them, which says how many it leaves out."""

    def __init__(self, app: ASGIApp):
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = scope.get("query_string", b"").split(b"&") if scope["type"] == "http" else []
        if len(parts) > MOST and scope["method"] in ("GET", "HEAD"):
            first = b"&".join(parts[: MOST - 1]).decode("latin-1")
            shorter = RedirectResponse(f"?{first}&{OMITTED}={len(parts) - MOST + 1}")  # of the same path
            await shorter(scope, receive, send)
        else:
            await self.app(scope, receive, send)
