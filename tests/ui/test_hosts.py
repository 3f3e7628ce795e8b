"""No other web page reaches the app through a visitor's browser."""

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect
from streamlit import config

from attnviz.core.errors import InputError
from attnviz.ui import budget, hosts, launch, server
from attnviz.ui.hosts import OwnHosts

HOSTS = ["localhost", "127.0.0.1", "attention.example.org"]
OTHER_HOST = "This host name does not reach the app. STREAMLIT_SERVER_ALLOWED_HOSTS lists the allowed host names."
OTHER_ORIGIN = "Another web page sent this request. STREAMLIT_SERVER_CORS_ALLOWED_ORIGINS lists the allowed origins."


async def _page(request):
    return PlainTextResponse("page")


async def _socket(websocket):
    await websocket.accept()
    await websocket.send_text("page")
    await websocket.close()


@pytest.fixture(autouse=True)
def as_before():
    """Restore the settings of the server after each test."""
    names = "allowedHosts corsAllowedOrigins maxUploadSize enableCORS enableXsrfProtection".split()
    before = {f"server.{name}": config.get_option(f"server.{name}") for name in names}
    yield
    for name, value in before.items():
        config.set_option(name, value)
    forget()


def forget():
    """Clear the caches, so that the environment is read again."""
    for kept in (hosts.public, server.security_headers, budget._number):
        kept.cache_clear()


def preset(monkeypatch, **variables: str) -> hosts.Public | None:
    """Set ATTNVIZ_ variables, start the server's preset, and return it."""
    for name, value in variables.items():
        monkeypatch.setenv(f"ATTNVIZ_{name}", value)
    forget()
    if preset := hosts.public():
        preset.apply()
    return preset


@pytest.fixture
def asked():
    """Function that sends a request to the app over HTTP or a websocket and returns the answer."""
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
    return ask


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
    assert asked(host) == [(False, OTHER_HOST)] * 3
    assert asked(host, f"http://{host}") == [(False, OTHER_HOST)] * 3


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
    assert asked("localhost:8501", origin) == [(False, OTHER_ORIGIN)] * 3


def test_a_port_that_goes_without_saying_may_be_said(asked):
    """As a proxy may write it."""
    assert asked("attention.example.org:443", "https://attention.example.org") == [(True, "page")] * 3
    assert asked("attention.example.org:80", "https://attention.example.org") == [(False, OTHER_ORIGIN)] * 3


def test_an_origin_that_was_named_is_answered(asked):
    config.set_option("server.corsAllowedOrigins", ["https://portal.example.org"])

    assert asked("localhost", "https://portal.example.org") == [(True, "page")] * 3


def test_whether_it_is_up_is_told_to_anybody(asked):
    """A container's health check asks by an address."""
    assert asked.client.get("/_stcore/health", headers={"host": "10.0.0.7"}).is_success


def test_the_app_has_it():
    assert OwnHosts in [one.cls for one in server.middleware]


# The public preset


@pytest.mark.parametrize("is_public", [True, False])
@pytest.mark.parametrize("host", ["x.hf.space", "my-app.streamlit.app"])
def test_a_name_that_was_given_is_answered_by_a_public_app_alone(host, is_public, asked, monkeypatch):
    """With every other name refused in both, and a page of another origin, too."""
    if is_public:
        preset(monkeypatch, PUBLIC="1", HOST_NAMES="x.hf.space, *.streamlit.app")
    answers = [(True, "page")] * 3 if is_public else [(False, OTHER_HOST)] * 3

    assert asked(host, f"https://{host}") == answers
    for other in ("evil.example", "hf.space", "y.hf.space", "evilstreamlit.app", f"{host}.evil.example"):
        assert asked(other) == [(False, OTHER_HOST)] * 3
    assert asked("localhost") == [(True, "page")] * 3
    assert asked("localhost", "https://evil.example") == [(False, OTHER_ORIGIN)] * 3


def test_a_public_app_that_names_no_host_answers_to_those_of_its_machine(asked, monkeypatch):
    """Also where Streamlit's own setting, left empty, lets in every name."""
    config.set_option("server.allowedHosts", [])
    preset(monkeypatch, PUBLIC="1")

    assert asked("localhost") == [(True, "page")] * 3
    assert asked("evil.example") == [(False, OTHER_HOST)] * 3


def test_a_public_app_says_who_may_frame_it_and_another_one_only_itself(monkeypatch):
    ancestors = "frame-ancestors 'self'"
    preset(monkeypatch)

    assert server.security_headers()["content-security-policy"].endswith(ancestors)

    preset(monkeypatch, PUBLIC="1", FRAMED_BY="https://huggingface.co http://127.0.0.1:9000")

    framed = f"{ancestors} https://huggingface.co http://127.0.0.1:9000"
    assert server.security_headers()["content-security-policy"].endswith(framed)
    assert not config.get_option("server.enableXsrfProtection")


def test_visitors_of_a_public_app_see_no_metrics(asked, monkeypatch):
    address = "/base/_stcore/metrics"

    assert asked.client.get(address, headers={"host": "localhost"}).text == "page"

    preset(monkeypatch, PUBLIC="1")

    refused = asked.client.get(address, headers={"host": "localhost"})
    assert (refused.status_code, refused.text) == (403, "A public app shows no metrics.")


def test_a_public_app_is_bounded(monkeypatch):
    """Uploads, and the time and the memory of a run; what was set is heeded."""
    preset(monkeypatch, PUBLIC="1")

    assert config.get_option("server.maxUploadSize") == 10
    assert (budget.seconds(), budget.memory()) == (10.0, 125_000_000)

    preset(monkeypatch, SECONDS="3", GB="2")

    assert (budget.seconds(), budget.memory()) == (3.0, 250_000_000)


@pytest.mark.parametrize("public", ["", "0"])
def test_what_belongs_to_the_preset_is_refused_without_it(public, monkeypatch):
    """A user who names a framing page and forgets --public would else wonder why the frame stays empty."""
    monkeypatch.setenv("ATTNVIZ_PUBLIC", public)

    assert preset(monkeypatch) is None
    for name, value in (("HOST_NAMES", "x.hf.space"), ("FRAMED_BY", "https://huggingface.co")):
        with monkeypatch.context() as patch, pytest.raises(InputError, match="add --public"):
            preset(patch, **{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("HOST_NAMES", host) for host in ("*", "https://x.hf.space", "a..b", "x.hf.space:80", "a/b", "é.example")),
        *(("FRAMED_BY", page) for page in ("*", "x.hf.space", "https://a;script-src", "https://*", "javascript:x")),
    ],
)
def test_a_name_that_is_none_is_refused_with_one_that_is(name, value, monkeypatch):
    """Neither opens the app to everybody, nor writes another rule into the headers."""
    with pytest.raises(InputError, match=r"cannot be used; an example is .*\.example\.org\."):
        preset(monkeypatch, PUBLIC="1", **{name: value})


NOT_PUBLIC = "Only a public app has extra host names or pages that embed it: add --public, or set ATTNVIZ_PUBLIC=1."
FLAGS = "--public --host-name x.hf.space --host-name *.example.org --framed-by https://huggingface.co --memory 2GB"


def test_flags_of_the_shell_make_the_preset(run, monkeypatch):
    """Flags of the preset are refused without it before a server starts."""
    names = ("PUBLIC", "HOST_NAMES", "FRAMED_BY", "GB", "SECONDS")
    for name in names:
        monkeypatch.setenv(f"ATTNVIZ_{name}", "")  # as before after the test
    monkeypatch.setattr(launch, "check_free", lambda *_: None)
    monkeypatch.setenv("STREAMLIT_SERVER_ALLOWED_HOSTS", "localhost")
    monkeypatch.setattr(launch.cli, "main", lambda *_, **__: None)
    forget()

    assert run("app", *FLAGS.split()) == (0, "", "")
    assert hosts.public() == hosts.Public(("x.hf.space", "*.example.org"), ("https://huggingface.co",))
    assert budget.memory() == 250_000_000

    for name in names:
        monkeypatch.setenv(f"ATTNVIZ_{name}", "")
    forget()

    assert run("app", "--framed-by", "https://huggingface.co") == (2, "", f"attnviz: {NOT_PUBLIC}\n")
