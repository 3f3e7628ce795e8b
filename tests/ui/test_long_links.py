"""A link of more settings than are read opens with the first of them."""

from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit.runtime.state import query_params

from attnviz.ui import long_links, server
from attnviz.ui.long_links import LongLinks
from attnviz.ui.shared.setting import OMITTED


async def _page(request):
    return PlainTextResponse(request.url.query)


CLIENT = TestClient(Starlette(routes=[Route("/{path:path}", _page)], middleware=[Middleware(LongLinks)]))


@pytest.mark.parametrize("path", ["/", "/masks", "//evil.example/"])
@pytest.mark.parametrize("more", [1, 12, 5_000])
def test_too_many_settings_are_cut_and_counted(path, more):
    given = "model=story&text=a+dog&" + "&".join(f"x{i}=1" for i in range(long_links.MOST - 2 + more))

    reply = CLIENT.get(f"{path}?{given}", follow_redirects=False)

    assert reply.is_redirect
    assert not urlsplit(reply.headers["location"]).netloc
    shorter = urlsplit(reply.headers["location"]).query
    assert query_params.sanitize_query_string(shorter) == shorter
    kept = parse_qs(shorter)
    assert kept["model"] == ["story"]
    assert kept["text"] == ["a dog"]
    assert int(kept[OMITTED][0]) + len(kept) - 1 == long_links.MOST + more


def test_as_many_as_are_read_stay():
    """No more than Streamlit reads: else it would drop them all."""
    given = "&".join(f"x{i}=1" for i in range(long_links.MOST))

    assert CLIENT.get(f"/?{given}", follow_redirects=False).text == given
    assert long_links.MOST == query_params.CLIENT_STATE_QUERY_STRING_MAX_FIELDS
    assert LongLinks in [one.cls for one in server.middleware]
