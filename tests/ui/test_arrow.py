"""Tables on their way to the browser."""

import gc

from pictures import SITE, record_of
from starlette.applications import Starlette
from starlette.testclient import TestClient

from attnviz import figures
from attnviz.ui import cache, readout, server


def answered(path: str) -> bytes:
    """Return the server's answer to a browser that requests a path."""
    answer = TestClient(Starlette(routes=server.routes)).get(path)
    assert answer.status_code == 200
    return answer.content


def test_what_is_read_of_cells_is_found_as_long_as_a_picture_of_them_is_kept():
    """At one address, whatever else the pictures show; from any page, and behind any path."""
    record = record_of(["w"] * 60)
    every = (readout.screen(figures.head(record, SITE, 0, selected=cell)) for cell in (None, (2, 1)))
    first, other = (cache.Screen.of(*screen) for screen in every)
    (address,) = set(first.data["numbers"].to_pylist()) - {None}
    content = first.cells.json(address)

    assert {*other.data["numbers"].to_pylist()} == {address, None}
    assert answered(f"/{address}") == answered(f"/behind/{address}") == content
    assert first.nbytes > first.cells.nbytes == 60 * 60 * 9

    del first
    gc.collect()
    assert answered(f"/{address}") == content
    del other
    gc.collect()
    assert answered(f"/{address}") == b"[]"
