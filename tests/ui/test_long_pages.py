"""Pages of long texts: nothing on them is as large as the square of the tokens."""

from functools import partial, wraps
from importlib import import_module

import pytest
from allocations import Held
from streamlit.testing.v1 import AppTest

from attnviz.analysis import blocks
from attnviz.core import jobs

N = 4_200
TEXT = " ".join(f"w{i % 97}{'.' * (i % 15 == 14)}" for i in range(N))
PAGES = [
    ("heads", {}),
    ("masks", {"tab": "Conventions"}),
    ("steps", {}),
    ("overview", {}),
    *(
        pytest.param(name, link, marks=pytest.mark.sweep)
        for name, link in (
            ("overview", {"pressed": "measure heads"}),
            ("overview", {"sort": "divergence", "pressed": "switch each off"}),
            ("overview", {"form": "Table"}),
            ("heads", {"view": "sentences"}),
            ("heads", {"as": "lines"}),
            ("masks", {}),
            ("masks", {"tab": "Check", "checked": "this mask"}),
            ("masks", {"tab": "Check", "checked": "this head's weights"}),
            ("overview", {"panel": "Rollout"}),
            ("heads", {"view": "parts10"}),
            ("compare", {"heads_off": "d0.1", "layer": "d1"}),
            ("compare", {"heads_off": "d0.1", "layer": "d1", "zoom": "100.4099.90.4050"}),
        )
    ),
]


class Here:
    """In the place of a thread: what is run in it is run at once, where it is measured."""

    def __init__(self, target, args, **named):
        self.start = partial(target, *args)


def long_page():
    from attnviz.ui import frame, measured_page

    frame.body(measured_page, frame.selection())


@pytest.mark.parametrize(("name", "link"), PAGES)
def test_no_page_holds_the_square_of_the_tokens(name, link, monkeypatch):
    """No tensor has a byte for each cell of a map, arrays, tables and texts have not two, and all tensors not eight."""
    import attnviz.ui

    link = dict(link)
    pressed, held, page = link.pop("pressed", None), [], import_module(f"attnviz.ui.{name}.page").page

    @wraps(page)
    def measured(*given):
        with Held() as one:
            page(*given)
        held.append(one)

    monkeypatch.setattr(attnviz.ui, "measured_page", measured, raising=False)
    monkeypatch.setattr(jobs, "Thread", Here)
    monkeypatch.setattr(blocks, "BLOCK", 2**18)
    for text in ("a b c. d e f", TEXT):
        app = AppTest.from_function(long_page, default_timeout=600)
        for key, value in ({"model": "constructed", "text": text} | link).items():
            app.query_params[key] = value
        app.run()
        if pressed and text == TEXT:
            app.button(key=pressed).click().run()
        assert not app.exception

    assert held[-1].tensor < N * N
    assert held[-1].tensors < 8 * N * N
    assert held[-1].arrays < 2 * N * N
