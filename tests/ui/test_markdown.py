"""Texts of a person never reach a label as Markdown: every widget of every page shows them as typed."""

import re

import pytest
import torch
from streamlit.testing.v1 import AppTest
from test_app import PAGES, opened
from torch import nn

import attnviz
from attnviz import api
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
    """Source whose tokens are the words between blanks."""
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
    """Return all Markdown that a page sends to Streamlit: labels, options, help and texts."""
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
