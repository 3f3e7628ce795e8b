"""What each command does: options in, files written, lines for the terminal out."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterable
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

from attnviz import api, export, figures
from attnviz.cli import rules
from attnviz.core.display import shown
from attnviz.core.edits import Edits, Site
from attnviz.core.errors import InputError, quoted
from attnviz.core.masks import Full
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.figures import Figure
from attnviz.sources.base import Source

SETTINGS = ("tokenizer", "sos", "d_model", "num_heads", "num_layers", "seed", "positions", "bias")


def run(options: Namespace) -> Iterable[str]:
    """Run the command that was parsed; gives the lines to print."""
    texts = _texts(options.text)
    if options.command == "tokens":
        sentences = _source(options).tokenize(texts)
        return _json(sentences) if options.json else _table(sentences)
    return _write(_FIGURES[options.command](options, texts), options)


def _head(options: Namespace, texts: list[str]) -> Figure:
    record = _record(options, texts)
    drawn = {"domain": options.domain, "row_sums": options.row_sums, **_drawn(options, record)}
    return figures.head(record, _site(options), options.head, **drawn)


def _heads(options: Namespace, texts: list[str]) -> Figure:
    record = _record(options, texts)
    return figures.heads(record, _site(options), domain=options.domain, **_drawn(options, record))


def _mask(options: Namespace, texts: list[str]) -> Figure:
    record = _record(options, texts)
    drawn = _drawn(options, record)
    sentence = record.sentences[drawn["sentence"]]
    mask = record.step(_site(options)).mask or Full()
    return figures.mask(mask, sentence.tokens, predicted=api.predicted(sentence), **drawn)


def _change(options: Namespace, texts: list[str]) -> Figure:
    if _edits(options) == Edits():
        raise InputError("Nothing is changed; give --mask, --off, --temperature, --score-scale or --empty-rows.")
    before, after = api.analyze(texts, _source(options)), _record(options, texts)
    return figures.change(before, after, **_drawn(options, after))


_FIGURES = {"head": _head, "heads": _heads, "mask": _mask, "change": _change}


# From options to values.


def _texts(typed: str) -> list[str]:
    """One sentence per line, as in the app."""
    try:
        text = sys.stdin.read() if typed == "-" else typed
    except UnicodeDecodeError:
        raise InputError("What came on stdin is not text in UTF-8.") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise InputError("There is no text; give a sentence, or - to read it from stdin.")
    return lines


def _source(options: Namespace) -> Source:
    return api.load(**{name: value for name, value in vars(options).items() if name in SETTINGS})


def _record(options: Namespace, texts: list[str]) -> Record:
    return api.analyze(texts, _source(options), _edits(options))


def _edits(options: Namespace) -> Edits:
    masks = [rules.read(text) for text in options.masks or options.default_masks]
    places = [place for places in options.off for place in places]
    off = {(Site("encoder", options.layer if layer is None else layer), head) for layer, head in places}
    mask = reduce(and_, masks) if masks else None
    return Edits(mask, frozenset(off), options.temperature, options.score_scale, options.empty_rows)


def _site(options: Namespace) -> Site:
    return Site("encoder", options.layer)


def _drawn(options: Namespace, record: Record) -> dict[str, Any]:
    if not 1 <= options.sentence <= len(record.sentences):
        have = f"there are {len(record.sentences)}, counted from 1"
        raise InputError(f"There is no sentence {quoted(options.sentence)}; {have}.")
    return {"sentence": options.sentence - 1, "dark": options.dark}


# What goes out.


def _write(figure: Figure, options: Namespace) -> list[str]:
    """Make every file that was asked for before the first is written; gives their paths."""
    size = {"scale": options.scale, "ppi": options.ppi}
    files = {}
    for path in map(Path, options.output or [export.filename(figure, "png", **size)]):
        format = path.suffix.removeprefix(".").lower()
        if format not in export.FORMATS:
            raise InputError(f"{quoted(path.name)} ends in no format. There are: .{', .'.join(export.FORMATS)}.")
        files[path] = export.render(figure, format, **size)
    for path, content in files.items():
        path.write_bytes(content)
    return [str(path) for path in files]


def _json(sentences: Iterable[Sentence]) -> list[str]:
    listed = [
        {"text": sentence.text, "length": sentence.length, "tokens": [vars(token) for token in sentence.tokens]}
        for sentence in sentences
    ]
    return [json.dumps(listed, indent=1)]


def _table(sentences: Iterable[Sentence]) -> list[str]:
    rows = [("sentence", "position", "token", "id", "start", "end", "")]
    for number, sentence in enumerate(sentences, 1):
        for position, token in enumerate(sentence.tokens):
            note = "special" if token.special else "joined" if token.joined else ""
            rows.append((number, position, shown(token.text), token.id, token.start, token.end, note))
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
