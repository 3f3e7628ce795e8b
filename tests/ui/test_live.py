"""The app beside a person's own code: `attnviz.show`."""

import asyncio
import signal
import sys
import threading
import urllib.request
from dataclasses import dataclass

import pytest
import torch
from own_models import WORDS, Writer, tokenize
from seeing import PICTURE, Sees, seen_by
from test_app import PAGES, html, opened

import attnviz
from attnviz import api, tokenizers
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.core.tap import Tap
from attnviz.sources.base import Source
from attnviz.sources.own_code import Recorded
from attnviz.sources.scratch import Scratch
from attnviz.ui import cache, live, runs, server

TEXT = "the cat sat on the mat"
PATIENCE = 60
"""Seconds that a test waits for what must come."""


@dataclass(frozen=True)
class Mine(Source):
    """Source whose tokens look at themselves, with a sharpness that may change."""

    name: str = "mine"
    sharpness: int = 3

    provenance = "constructed"
    title = "Mine"
    does = "Each token looks at itself."
    examples = ("my own words",)
    sites = (Site("encoder", 0),)
    num_heads = 2
    d_model = 8

    def tokenize(self, texts):
        return tokenizers.batch(tokenizers.load("words"), texts)

    def run(self, sentences, edits=Edits(), targets=()):
        n = len(sentences[0].tokens)
        x = self.sharpness * torch.eye(n).expand(len(sentences), 2, n, n)
        tap = Tap(edits)
        output = tap.attend(x, x, x, site=self.sites[0])
        return Record(sentences, self.name, self.provenance, edits, tuple(tap.steps), output.mean(1))


def answer(shown) -> str:
    address = shown.url.split("/?")[0]
    return urllib.request.urlopen(f"{address}/_stcore/health", timeout=PATIENCE).read().decode()


@pytest.fixture
def threads():
    """Check that all threads of a test end with it."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
        assert not thread.is_alive(), thread
    assert live._serving is None
    assert api.OFFERED == {}


def test_a_source_is_shown_until_it_is_stopped(threads, capsys):
    """It answers on this machine alone, takes no signal, says where it is, and can be shown again."""
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    for _ in range(2):
        with attnviz.show(Mine(), "a text & more") as shown:
            assert answer(shown) == "ok"
            assert shown.url.startswith("http://127.0.0.1:")
            assert shown.url.endswith("/?model=mine&text=a%20text%20%26%20more")
            assert api.load("mine") == Mine()
            assert [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)] == handlers
            assert shown.url.replace("&", "&amp;") in shown._repr_html_()
        assert f"attnviz is open at {shown.url}\n" in capsys.readouterr().out


def test_several_sources_share_one_app(threads):
    """The app ends with the last of them, and each is offered for as long as it is shown."""
    first, second = attnviz.show(Mine("one")), attnviz.show(Mine("two"))
    assert first.url.split("/?")[0] == second.url.split("/?")[0]

    first.stop()
    first.stop()

    assert tuple(api.OFFERED) == ("two",)
    assert answer(second) == "ok"
    second.stop()


def test_a_record_is_shown(threads):
    """Also one of a shipped model, which is then another one."""
    with attnviz.show(attnviz.analyze("the cat sat", "story")) as shown:
        assert shown.url.endswith("/?model=story%20%28saved%29")
        assert answer(shown) == "ok"


def test_a_shipped_model_is_shown_by_the_link_that_any_server_reads():
    """Nothing is offered for it, and its settings stand in the link."""
    assert live._choices(Scratch(seed=5, positions=False)).chosen == {"model": "scratch:seed=5,positions=false"}
    assert live._choices(api.load("induction", step=0)).chosen == {"model": "induction", "step": 0}


def test_what_is_no_source_is_refused_in_one_sentence(threads):
    """It says how one is made, and nothing is left open."""
    with pytest.raises(InputError, match=r"is not a source; make one with attnviz\.wrap"):
        attnviz.show(torch.nn.Linear(2, 2))
    with pytest.raises(InputError, match="it takes Edits and gives a Record"):
        attnviz.show(lambda edits: None)
    with pytest.raises(InputError, match="is called 'story'; give yours another name"):
        attnviz.show(Mine("story"))


def test_the_module_main_stays_the_process_own(monkeypatch):
    """Streamlit puts a module of its own in its place before each run; pickles of a notebook would fail."""
    before = sys.modules["__main__"]

    async def beside():
        async with server.lifespan_in_process(None):
            monkeypatch.setitem(sys.modules, "__main__", threading)
            server.keep_main()
            assert sys.modules["__main__"] is before

    thread = threading.Thread(target=asyncio.run, args=(beside(),))
    thread.start()
    thread.join()


@pytest.mark.parametrize("title", PAGES)
def test_a_person_s_own_model_has_every_page(monkeypatch, title):
    """Its layers are named by its modules, and a change of its weights is seen at the next click."""
    model = Writer()
    source = attnviz.wrap(model, tokenize, TEXT, words=WORDS)
    monkeypatch.setitem(api.OFFERED, "Writer", source)
    app = opened(title, model="Writer", heads_off="d0.1", lab="compose")

    assert app.text_area(key="text").value == TEXT
    assert "decoder layer 1 · attn.1" in app.selectbox(key="layer").options
    if title == "Heads":
        shown = [told(app)]
        model.head.weight.data.neg_()
        app.run()
        assert told(app) not in shown


@pytest.mark.parametrize("form", ["map", "text", "picture"])
def test_a_picture_is_a_form_where_positions_are_patches(monkeypatch, form):
    """A source that maps edits to a record has this form; a model that reads words has not, whatever a link says."""

    def run(edits):
        with torch.no_grad(), attnviz.capture(model, edits) as seen:
            model(PICTURE[None])
        return seen.record(places=(3, 5), image=PICTURE)

    seen_by(model := Sees(), PICTURE)
    monkeypatch.setitem(api.OFFERED, "Sees", Recorded.of(run))
    app = opened(model="Sees", form=form, heads_off="e0.1")
    assert app.segmented_control(key="form").value == form

    app.selectbox(key="model").set_value("story").run()
    assert not app.exception
    assert app.segmented_control(key="form").options == ["map", "lines", "text"]


def told(app) -> str:
    """Return the text about the prediction."""
    texts = [element.proto.body for element in app.get("html")]
    return next(text for text in texts if "most changed" in text or ">After" in text)


def test_an_offered_source_is_one_more_model(monkeypatch):
    """First in the list, with its own text, and each run sees it as it is now."""
    monkeypatch.setitem(api.OFFERED, "mine", Mine())
    app = opened(model="mine")

    assert app.selectbox(key="model").value == "mine"
    assert app.text_area(key="text").value == "my own words"

    api.OFFERED["mine"] = Mine(sharpness=1)

    assert cache.source("mine") == Mine(sharpness=1)
    del api.OFFERED["mine"]
    monkeypatch.setattr(runs, "RUN_WAIT", PATIENCE)  # the search for another model of this name
    app.run()
    assert not app.exception
    assert "mine" in html(app)
