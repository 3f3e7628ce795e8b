"""Pages of long texts: nothing on them is as large as the square of the tokens."""

from functools import partial, wraps
from importlib import import_module

import pytest
from allocations import Held
from test_app import opened

from attnviz.analysis import blocks
from attnviz.core import progress

N = 4_200
TEXT = " ".join(f"w{i % 97}{'.' * (i % 15 == 14)}" for i in range(N))
PAGES = [
    ("Heads", {}),
    ("Steps", {}),
    ("Overview", {}),
    *(
        pytest.param(name, link, marks=pytest.mark.sweep)
        for name, link in (
            ("Overview", {"form": "table"}),
            ("Heads", {"view": "sentences"}),
            ("Heads", {"form": "lines"}),
            ("Masks", {}),
            ("Masks", {"lab": "check mask"}),
            ("Masks", {"lab": "check weights"}),
            ("Overview", {"part": "Rollout"}),
            ("Compare", {"heads_off": "d0.1", "layer": "d1"}),
        )
    ),
]


class Here:
    """Stand-in for a thread that runs its function at once, in the measured thread."""

    def __init__(self, target, args, **named):
        self.start = partial(target, *args)


@pytest.mark.parametrize(("title", "link"), PAGES)
def test_no_page_holds_the_square_of_the_tokens(title, link, monkeypatch):
    """No tensor has a byte for each cell of a map, arrays, tables and texts have not two, and all tensors not eight."""
    held, module = [], import_module(f"attnviz.ui.pages.{title.lower()}")
    page = module.page

    @wraps(page)
    def measured(*given):
        with Held() as one:
            page(*given)
        held.append(one)

    monkeypatch.setattr(module, "page", measured)
    monkeypatch.setattr(progress, "Thread", Here)
    monkeypatch.setattr(blocks, "BLOCK", 2**18)
    for text in ("a b c. d e f", TEXT):
        opened(title, model="constructed", text=text, **link)

    assert held[-1].tensor < N * N
    assert held[-1].tensors < 8 * N * N
    assert held[-1].arrays < 2 * N * N
