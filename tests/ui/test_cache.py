"""Cache of the app: each value is computed once for all requests, bounded by bytes, and really released."""

import gc
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from threading import Event, Semaphore, Thread

import numpy as np
import pandas as pd
import pytest
import torch
from test_app import PAGES, opened

from attnviz import figures
from attnviz.core.edits import Edits, Site
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.sources.scratch import Scratch
from attnviz.ui import cache

SOURCE = Scratch(num_heads=2, d_model=16, num_layers=2)
SITE = Site("encoder", 0)
PATIENCE = 60
"""Seconds that a test waits for what must come."""


@pytest.fixture(autouse=True)
def empty() -> Iterator[None]:
    cache.SHARED.clear()
    yield
    cache.SHARED.clear()


@dataclass
class Holder:
    tensor: torch.Tensor


def looked_at(text: str) -> Record:
    """Request a record from the cache as the page Heads does."""
    lines = cache.texts(text, by_line=True)
    cache.sentences(SOURCE, Request(lines))
    cache.unknown(SOURCE, lines)
    record = cache.record(SOURCE, Request(lines, edits=Edits(heads_off=frozenset({(SITE, 1)}))))
    cache.head_metrics(record, 0)
    figure = figures.heads(record, SITE, sentence=0)
    assert cache.screen(figure)
    assert figure.description
    return record


def test_twenty_who_ask_for_a_text_at_once_wait_for_one_run(monkeypatch):
    """A link that is shared with a class costs one run and the memory of one."""
    runs, asked, go_on, records = [], Semaphore(0), Event(), set()

    def ran(*args) -> Record:
        runs.append(args)
        go_on.wait(PATIENCE)
        return run(*args)

    def ask() -> None:
        asked.release()
        records.add(cache.record(SOURCE, Request(("the cat sat on the mat",))))

    run = Scratch.run
    monkeypatch.setattr(Scratch, "run", ran)
    threads = [Thread(target=ask, daemon=True) for _ in range(20)]
    for thread in threads:
        thread.start()
        assert asked.acquire(timeout=PATIENCE)
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE)

    assert len(runs) == len(records) == 1


def test_what_many_texts_leave_in_memory_stays_under_the_bound(monkeypatch):
    """All records alive are counted, kept or not. What gave way is gone at once, without the garbage collector."""
    one = cache.SHARED.bytes if looked_at("cat " * 300) else 0
    cache.SHARED.clear()
    monkeypatch.setattr(cache.SHARED, "most_bytes", 5 * one)
    alive, most = weakref.WeakSet(), 0
    gc.collect()
    gc.disable()
    try:
        for i in range(40):
            alive.add(looked_at(f"{i} " * (261 + i)))
            assert cache.SHARED.bytes <= cache.SHARED.most_bytes
            most = max(most, len(alive))
            assert sum(record.nbytes for record in alive) <= cache.SHARED.most_bytes
    finally:
        gc.enable()

    assert 2 <= most <= 5


def test_a_record_that_gave_way_while_a_page_uses_it_is_not_run_again(monkeypatch):
    """A page asks for its record many times in one run."""
    used = cache.record(SOURCE, Request(("the cat",)))
    cache.SHARED.clear()
    monkeypatch.setattr(Scratch, "run", pytest.fail)

    assert cache.record(SOURCE, Request(("the cat",))) is used


def test_room_for_a_record_is_made_before_it_is_run(monkeypatch):
    """Else old records and the new one stand in memory together."""
    first = weakref.ref(cache.record(SOURCE, Request(("cat " * 300,))))
    monkeypatch.setattr(cache.SHARED, "most_bytes", 2 * cache.SHARED.bytes + 1000)
    second = weakref.ref(cache.record(SOURCE, Request(("mat " * 300,))))
    assert first()
    assert second()

    def ran(*args) -> Record:
        assert second()
        assert not first()
        return run(*args)

    run = Scratch.run
    monkeypatch.setattr(Scratch, "run", ran)
    assert cache.record(SOURCE, Request(("sat " * 300,)))


def records() -> list[Record]:
    return [one for one in gc.get_objects() if type(one) is Record]


LINK = {"model": "scratch", "mask": "causal", "text": "the cat sat"}
STEPS = {"model": "translator", "text": "The cat sat.", "layer": "c1", "head": "0", "b": "part=step&step=100"}


@pytest.mark.parametrize(("title", "link"), [*((title, LINK) for title in PAGES), ("Compare", STEPS)])
def test_an_open_page_holds_no_record_outside_the_cache(title, link):
    """A hundred people who leave their pages open, with every menu unfolded, cost no more than the bound."""
    gc.collect()
    before = len(records())
    app = opened(title, **link)
    for key in [key for key in app.session_state._state.filtered_state if key.startswith(("export ", "numbers "))]:
        app.session_state[key] = True
    app.run()
    assert len(records()) > before

    cache.SHARED.clear()
    gc.collect()
    assert not app.exception
    assert len(records()) == before


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(1000),
        np.zeros(1000)[::2],
        pd.DataFrame({"a": np.zeros(1000)}),
        {"a": [b"x" * 4000]},
        ("x" * 4000,),
        Holder(torch.zeros(1000)),
    ],
    ids=["tensor", "array", "table", "bytes", "text", "dataclass"],
)
def test_what_a_value_holds_is_counted(value):
    assert 4000 <= cache.size_of(value) < 9000
