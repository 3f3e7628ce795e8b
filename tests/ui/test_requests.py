"""The app asks each request once: a text is cut into tokens once in a run of a page, and the model runs for records."""

from collections import Counter
from dataclasses import dataclass

import pytest
import torch
from test_app import PAGES, opened

from attnviz import api, tokenizers
from attnviz.core.edits import Edits, Site
from attnviz.core.record import Record
from attnviz.core.tap import Tap
from attnviz.sources.base import Facts, Source
from attnviz.ui import cache

CALLS: list[str] = []
FACTS = Facts(
    task="states",
    made_of="Counting",
    parameters=0,
    vocabulary=0,
    longest=None,
    dtype=torch.float32,
    device=torch.device("cpu"),
    commit=None,
)


@dataclass(frozen=True)
class Counting(Source):
    """Source whose tokens look at themselves, which counts its calls."""

    name: str = "counting"

    provenance = "constructed"
    title = "Counting"
    does = "Each token looks at itself."
    facts = FACTS
    examples = ("the cat sat",)
    sites = (Site("encoder", 0),)
    num_heads = 2
    d_model = 8
    generates = True

    def tokenize(self, texts):
        CALLS.append("tokenize")
        return tokenizers.batch(tokenizers.load("words"), texts)

    def extended(self, sentence, id):
        return tokenizers.batch(tokenizers.load("words"), [f"{sentence.text} cat"])[0]

    def run(self, sentences, edits=Edits(), targets=()):
        CALLS.append("run")
        n = len(sentences[0].tokens)
        x = torch.eye(n).expand(len(sentences), 2, n, n)
        tap = Tap(edits)
        output = tap.attend(x, x, x, site=self.sites[0])
        return Record(sentences, self.name, self.provenance, edits, tuple(tap.steps), output.mean(1))


@pytest.fixture(autouse=True)
def counting(monkeypatch):
    monkeypatch.setitem(api.OFFERED, "counting", Counting())
    cache.SHARED.clear()
    cache._used.clear()
    CALLS.clear()


@pytest.mark.parametrize("title", PAGES)
@pytest.mark.parametrize("asked", [{}, {"answer": "3-4"}, {"text": "a\nb c", "lines": "true"}, {"temperature": "0.5"}])
def test_a_text_is_cut_once_and_the_model_runs_once_for_each_record(title, asked):
    """For the prompt, its answer and all that the page shows of both, before a change and after it."""
    app = opened(title, model="counting", **asked)
    requests = [key[2] for key in map(tuple, cache.SHARED.keys()) if key[0] == "record"]
    expected = {"tokenize": len({request.prompt for request in requests}), "run": len(requests)}

    assert Counter(CALLS) == expected
    app.run()

    assert Counter(CALLS) == expected
