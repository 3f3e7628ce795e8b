"""Texts of a person never reach a label as Markdown: every widget of every page shows them as typed."""

import io
import re

import hostile
import pytest
import tiny
import torch
from PIL import Image
from streamlit.testing.v1 import AppTest
from test_app import PAGES, drop, opened
from torch import nn

import attnviz
from attnviz import Site, api
from attnviz.core import assets
from attnviz.core.edits import Take
from attnviz.ui.text import literal

HOSTILE = "``` --- *** _a_ ![x](http:evil) :red[x] $x$ # 1. :smile: <b>b</b> www.evil.com".split()


class Reader(nn.Module):
    """A causal model that reads any words and writes them."""

    def __init__(self):
        super().__init__()
        self.embed, self.attention = nn.Embedding(64, 8), nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 64)

    def forward(self, ids):
        x, n = self.embed(ids), ids.shape[1]
        later = torch.ones(n, n, dtype=torch.bool).triu(1)
        return self.head(self.attention(x, x, x, attn_mask=later)[0])


@pytest.fixture
def reader():
    """A source whose tokens are what stands between blanks."""
    torch.manual_seed(0)
    words = [*HOSTILE, *(f"w{i}" for i in range(64 - len(HOSTILE)))]
    source = attnviz.wrap(Reader(), lambda text: [words.index(word) for word in text.split()], words[0], words=words)
    yield api.offer(source)
    api.OFFERED.clear()


PLAIN_ELEMENTS = ("html", "vega_lite_chart", "arrow_data_frame", "code", "text", "selectbox", "text_area", "text_input")
"""Elements whose texts Streamlit shows as they are."""


def nodes(block):
    """Every element of a page, and every part that holds others."""
    for child in getattr(block, "children", {}).values():
        yield child
        yield from nodes(child)


def markdown_of(app: AppTest) -> list[str]:
    """Whatever a page hands to Streamlit as Markdown: labels, options, help and texts."""
    texts = []
    for node in nodes(app.main):
        proto = getattr(node, "proto", None)
        if node.type in PLAIN_ELEMENTS:
            continue
        texts += [str(getattr(proto, name, "")) for name in ("label", "help", "body")]
        texts += [getattr(option, "content", option) for option in getattr(proto, "options", [])]
    return texts


PLAIN = [word for word in HOSTILE if len(word) > 2]


@pytest.mark.parametrize(
    "link",
    [
        {"cell": "3.1", "zoom": "0.4.0.4", "form": "text"},
        {"mask": "causal", "heads_off": "d0.1", "take": f"output-d0.1-{' '.join(HOSTILE)}", "lab": "compose"},
        {"also": "1", "form": "lines", "pins": "q2"},
    ],
)
@pytest.mark.parametrize("title", PAGES)
def test_no_token_and_no_text_is_read_as_markdown(title, reader, link):
    app = opened(title, model=reader, text=" ".join(HOSTILE), **link)

    assert not app.exception
    assert [(text, word) for text in markdown_of(app) for word in PLAIN if word in text] == []


@pytest.mark.parametrize("word", HOSTILE)
def test_a_literal_label_keeps_every_character(word):
    assert re.sub(r"\\(.)", r"\1", literal(word)).replace("\N{WORD JOINER}", "") == word


WORDS = tuple(word for word in hostile.MARKDOWN if " " not in word)
ANSWER, EXAMPLES = WORDS[7:17], WORDS[17:20]


@pytest.fixture
def hostile_words(tmp_path, monkeypatch):
    """A story model that knows words of Markdown and begins with such examples."""
    card = tiny.card
    monkeypatch.setattr(tiny, "ENGLISH", ["the", "cat", *ANSWER])
    monkeypatch.setattr(tiny, "card", lambda name: card(name) | {"examples": EXAMPLES})
    real = assets.path
    monkeypatch.setattr(assets, "path", lambda name: tmp_path / name if "models/story" in name else real(name))
    tiny.write(tmp_path, "story")
    tiny.forget()
    yield
    monkeypatch.undo()
    tiny.forget()


def answered():
    """The words of an answer."""
    ids = "-".join(str(6 + number) for number in range(len(ANSWER)))
    return opened(model="story", text="the cat", answer=ids, cell="3.0"), ()


def taken():
    """What was taken from other texts."""
    takes = [str(Take(word, "output", Site("decoder", 0), 0, 0)) for word in ANSWER[:4]]
    return opened("Compare", model="story", text="the cat", take="\n".join(takes)), ANSWER[:4]


def dropped():
    """The name of a file."""
    name = " ".join(word for word in WORDS if "/" not in word)
    file = io.BytesIO()
    Image.new("RGB", (24, 24)).save(file, "PNG")
    return drop(opened(model="shapes"), (f"{name[:40]}.png", file.getvalue())), ()


PLACES = {
    "answer": answered,
    "take": taken,
    "file": dropped,
    "examples": lambda: (opened(model="story", text=""), EXAMPLES),
}


@pytest.mark.parametrize("place", PLACES)
def test_no_word_and_no_name_is_markdown_in_a_label(hostile_words, place):
    """Each is there as Markdown shows it, and none as it was typed."""
    app, shown = PLACES[place]()
    labels = markdown_of(app)

    assert not app.exception
    assert [word for word in shown if not any(literal(word) in label for label in labels)] == []
    assert [
        (word, label)
        for word in WORDS
        for label in labels
        if len(word) > 2 and word in label.replace(literal(word), "")
    ] == []
