"""Every hostile text in every picture, exported in every format and opened again."""

import re
from functools import partial
from itertools import product

import files
import hostile
import pytest
from examples import some
from pictures import record_of

from attnviz import figures
from attnviz.charts.axes import short
from attnviz.core.display import isolated, visible_text
from attnviz.core.edits import Edits, Site
from attnviz.core.masks import Subsequent
from attnviz.export import filename, render
from attnviz.sources.scratch import Scratch

SITE = Site("encoder", 0)
EMPTY = [text for text in hostile.TEXTS if not text.text.strip()]
LONG = hostile.Hostile("20,000 tokens", "word " * 20_000)
OTHERS = [text for text in hostile.TEXTS if text not in EMPTY and not text.name[0].isdigit()]
NAME = 24
"""Code points of a token that a readout shows."""

FEW = 32
"""Tokens up to which all are labeled, and every cell has a readout."""


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def in_order(words, texts) -> bool:
    rest = iter(texts)
    return all(word in rest for word in words)


def without_surrogates(text: str) -> str:
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def with_pictures(text: str) -> str:
    """Control characters as their pictures, and without what XML does not have."""
    pictures = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"}
    return re.sub("[\ufffe\uffff]", "\ufffd", without_surrogates(text)).translate(pictures)


@pytest.mark.parametrize("text", some(OTHERS, 5), ids=lambda text: text.name)
def test_a_text_can_be_exported_in_every_format_that_holds_it_as_text(text):
    """Its picture holds its tokens as they may be drawn and in their order, its numbers the tokens themselves."""
    source = Scratch()
    record = source.run(source.tokenize(lines_of(text.text)))
    figure = figures.head(record, SITE, 0)
    labels = record.sentences[0].labels
    found = {format: files.opened(format, render(figure, format)) for format in ("svg", "html", "json", "csv", "npz")}

    if len(labels) <= FEW:
        assert in_order(text.seen, found["svg"])
        assert in_order([short(label) for label in labels], found["svg"])
        assert {f"{isolated(visible_text(label, NAME))} ({i})" for i, label in enumerate(labels)} <= set(found["json"])
    assert found["html"] == found["json"]
    assert {without_surrogates(label).replace("\0", "␀") for label in labels} <= set(found["npz"])
    assert {with_pictures(label) for label in labels} <= set(found["csv"])
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,80}\.csv", filename(figure, "csv"))


@pytest.mark.parametrize("format", ["png", "pdf"])
def test_every_token_of_every_text_can_be_painted(format):
    """Labeled on an axis of maps, as many as are labeled at once."""
    tokens = [token.text for text in OTHERS for token in Scratch().tokenize(lines_of(text.text))[0].tokens]
    distinct = list(dict.fromkeys(tokens))

    for start in some(range(0, len(distinct), FEW), 2):
        record = record_of(distinct[start : start + FEW], keys=2)
        files.opened(format, render(figures.head(record, SITE, 0), format))


@pytest.mark.parametrize(("part", "kind"), some([*product(range(3), ("head", "heads", "mask", "change"))], 1))
def test_whole_texts_as_tokens_can_be_exported_in_every_format(part, kind):
    """A tokenizer may leave a text in one piece: then it stands on the axes, in readouts and in every file as one."""
    labels = [text.text for text in OTHERS[part::3]]
    record, changed = record_of(labels), record_of(labels, edits=Edits(Subsequent(), frozenset({(SITE, 1)})))
    figure = {
        "head": partial(figures.head, changed, SITE, 0),
        "heads": partial(figures.heads, changed, SITE),
        "mask": partial(figures.mask, Subsequent(), changed.sentences[0].tokens),
        "change": partial(figures.change, record, changed),
    }[kind]()

    assert files.opened("zip", render(figure, "zip"))
    assert kind == "heads" or in_order([short(label) for label in labels], files.svg(render(figure, "svg")))


def test_a_long_text_can_be_exported():
    """100,000 characters make a picture of 20,000 tokens; nothing is as large as the square of that."""
    tokens = Scratch().tokenize(lines_of(LONG.text))[0].tokens
    figure = figures.mask(Subsequent(), tokens)

    for format in some(("png", "svg", "pdf", "html", "json", "csv"), 3):
        content = render(figure, format)
        assert any(tokens[0].text in text for text in files.opened(format, content)) or format == "png"
        assert len(content) < 3_000_000
