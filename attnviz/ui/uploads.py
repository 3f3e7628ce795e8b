"""Limit on the bytes of all uploads of one session on the server."""

import re
from collections import Counter

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from streamlit import config

from attnviz.ui.streamlit_internals import uploaded_bytes

TOGETHER = 4
"""Limit of a session's uploads, being sent or not opened yet, as a multiple of the largest upload."""
AROUND = 2**16
"""Maximum number of bytes of a request around the content of an upload."""
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
            refused = "This session has too many bytes of unopened files already; open fewer at once."
            await PlainTextResponse(refused, 413)(scope, receive, send)
            return
        self._pending[session] += size
        try:
            await self.app(scope, receive, send)
        finally:
            self._pending[session] -= size
            self._pending += Counter()  # removes sessions without uploads
