"""No other web page reaches the app through a visitor's browser."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from streamlit import config

from attnviz.ui import server, words
from attnviz.ui.hosts import OwnHosts

HOSTS = ["localhost", "127.0.0.1", "attention.example.org"]


async def _page(request):
    return PlainTextResponse("page")


async def _socket(websocket):
    await websocket.accept()
    await websocket.send_text("page")
    await websocket.close()


@pytest.fixture
def asked(monkeypatch):
    """What the app answers to a request, over HTTP and over a websocket."""
    before = {name: config.get_option(name) for name in ("server.allowedHosts", "server.corsAllowedOrigins")}
    config.set_option("server.allowedHosts", HOSTS)
    routes = [Route("/{path:path}", _page, methods=["GET", "PUT"]), WebSocketRoute("/_stcore/stream", _socket)]
    client = TestClient(Starlette(routes=routes, middleware=[Middleware(OwnHosts)]))

    def ask(host: str, origin: str | None = None) -> list[tuple[bool, str]]:
        headers = {"host": host} | ({"origin": origin} if origin else {})
        answers = [
            (reply.is_success, reply.text)
            for reply in (client.get("/a", headers=headers), client.put("/a", headers=headers))
        ]
        try:
            with client.websocket_connect("/_stcore/stream", headers=headers) as socket:
                return [*answers, (True, socket.receive_text())]
        except WebSocketDisconnect as closed:
            return [*answers, (False, closed.reason)]

    ask.client = client
    yield ask
    for name, value in before.items():
        config.set_option(name, value)


@pytest.mark.parametrize("host", ["localhost:8501", "127.0.0.1:8501", "LOCALHOST", "attention.example.org"])
def test_the_app_answers_to_its_names(host, asked):
    own = [None, f"http://{host}", f"https://{host}"]

    for origin in own:
        assert asked(host, origin) == [(True, "page")] * 3


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8501", "localhost.evil.example", "127.0.0.2", "localhost@evil.example", "[::1"],
)
def test_a_foreign_host_is_refused_over_http_too(host, asked):
    """A name that leads here is how another page would reach the app (DNS rebinding)."""
    assert asked(host) == [(False, words.OTHER_HOST)] * 3
    assert asked(host, f"http://{host}") == [(False, words.OTHER_HOST)] * 3


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:9999",
        "http://127.0.0.1:8501",
        "http://localhost",
        "https://evil.example",
        "null",
        "file://",
        "http://[",
    ],
)
def test_a_page_of_another_port_or_name_is_refused(origin, asked):
    assert asked("localhost:8501", origin) == [(False, words.OTHER_ORIGIN)] * 3


def test_a_port_that_goes_without_saying_may_be_said(asked):
    """As a proxy may write it."""
    assert asked("attention.example.org:443", "https://attention.example.org") == [(True, "page")] * 3
    assert asked("attention.example.org:80", "https://attention.example.org") == [(False, words.OTHER_ORIGIN)] * 3


def test_an_origin_that_was_named_is_answered(asked):
    config.set_option("server.corsAllowedOrigins", ["https://portal.example.org"])

    assert asked("localhost", "https://portal.example.org") == [(True, "page")] * 3


def test_whether_it_is_up_is_told_to_anybody(asked):
    """A container's health check asks by an address."""
    assert asked.client.get("/_stcore/health", headers={"host": "10.0.0.7"}).is_success


def test_the_app_has_it():
    assert OwnHosts in [one.cls for one in server.middleware]
