"""Values as lines for the terminal: tables, JSON, and cards."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from attnviz import api, metrics
from attnviz.core.display import shown
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.sources.base import Source
from attnviz.sources.cards import Card
from attnviz.tokenizers.vocabulary import UNK

MOST_NOTES = 10
"""So many unknown words are named."""


def unknown(source: Source, texts: list[str]) -> list[str]:
    """A line for each word that a model does not know, with known ones that are spelled like it."""
    words = source.unknown(texts)
    found = []
    for word, nearest in list(words.items())[:MOST_NOTES]:
        near = f"; it knows {', '.join(map(repr, map(shown, nearest)))}" if nearest else ""
        found.append(f"'{source.name}' does not know '{shown(word)}' and reads {UNK}{near}.")
    more = len(words) - MOST_NOTES
    return [*found, f"'{source.name}' does not know {more} more words."] if more > 0 else found


# Tokens


def tokens_json(sentences: Iterable[Sentence]) -> list[str]:
    listed = [
        {"text": sentence.text, "length": sentence.length, "tokens": [vars(token) for token in sentence.tokens]}
        for sentence in sentences
    ]
    return [json.dumps(listed, indent=1)]


def tokens(sentences: Iterable[Sentence]) -> list[str]:
    rows: list[Sequence[Any]] = [("sentence", "position", "token", "id", "start", "end", "")]
    for number, sentence in enumerate(sentences, 1):
        for position, token in enumerate(sentence.tokens):
            unknown = "unknown" if token.text == UNK else ""
            note = "special" if token.special else "joined" if token.joined else unknown
            rows.append((number, position, shown(token.text), token.id, token.start, token.end, note))
    return _columns(rows)


# What a model says


def says(before: Record | None, after: Record) -> list[str]:
    """What is written, one line per sentence, or the next words; with `before`, both."""
    parts = [_says(before, after, number) for number in range(len(after.sentences))]
    apart = [] if before is None and after.targets else [""]
    return [line for number, part in enumerate(parts) for line in (*(apart if number else ()), *part)]


def _says(before: Record | None, after: Record, sentence: int) -> list[str]:
    if after.targets:
        text = shown_text(after.prediction.written[sentence])
        if before is None:
            return [text]
        return [f"before: {shown_text(before.prediction.written[sentence])}", f"after:  {text}"]
    words = metrics.next_words(after, _last(after, sentence), before=before, sentence=sentence)
    if before is None:
        return _columns([("word", "probability"), *((shown(w.word), f"{w.probability:.3f}") for w in words)])
    rows = ((shown(word.word), f"{word.before:.3f}", f"{word.probability:.3f}") for word in words)
    return _columns([("word", "before", "after"), *rows])


def says_json(before: Record | None, after: Record) -> list[str]:
    listed = []
    for number, sentence in enumerate(after.sentences):
        said = {"says": _said(after, number)}
        if before is not None:
            said = {"before": _said(before, number), "after": said["says"], "edits": after.edits.to_json()}
        listed.append({"text": sentence.text} | said)
    return [json.dumps(listed, indent=1)]


def _said(record: Record, sentence: int) -> str | list[dict[str, Any]]:
    if record.targets:
        return record.prediction.written[sentence]
    words = metrics.next_words(record, _last(record, sentence), sentence=sentence)
    return [{"word": word.word, "probability": word.probability} for word in words]


def _last(record: Record, sentence: int) -> int:
    return record.sentences[sentence].length - 1


def shown_text(text: str) -> str:
    """A text that a model wrote; one without a word is said to be none."""
    return " ".join(shown(word) for word in text.split()) or "(nothing)"


# Models


def models() -> list[str]:
    """Every model, with where its weights come from."""
    return _columns([(name, *_about(name)) for name in api.SOURCES])


def _about(name: str) -> tuple[str, str]:
    try:
        card = api.load(name).card
    except AttnvizError as error:
        return api.SOURCES[name].provenance, str(error)
    return api.SOURCES[name].provenance, card.does if card else _SCRATCH


_SCRATCH = "Attention with random weights, from a seed: the mechanics without a meaning. Nothing is measured."


def card(source: Source) -> list[str]:
    """What is known about a model, and how."""
    card = source.card
    if card is None:
        return [f"{source.name} ({source.provenance})", _SCRATCH]
    sizes = _columns([(f"  {value:>9,}", name) for name, value in card.sizes.items()])
    about = [f"{card.title} ({source.provenance})", card.does, "", card.made, card.trained_on, "", "Sizes:", *sizes]
    cannot = ["", "What it cannot do:", *(f"  {line}" for line in card.cannot)]
    return [*about, *_measured(card), *_findings(card), *cannot]


def _measured(card: Card) -> list[str]:
    rows = [
        (f"  {percent(measure.value):>7}", measure.what, "" if measure.goal is None else f"(goal {measure.goal:.0%})")
        for measure in card.measured
    ]
    return ["", f"Measured, again with: {card.command}", *_columns(rows)] if rows else []


def percent(share: float) -> str:
    """With one digit; only what is all is called 100%."""
    text = f"{share:.1%}"
    return ">99.9%" if text == "100.0%" and share < 1 else text


def _findings(card: Card) -> list[str]:
    found = []
    for finding in card.findings:
        heads = f"head{'s' * (len(finding.heads) > 1)} {', '.join(map(str, finding.heads))}"
        found += [f"  {finding.site} {heads} {finding.does}", f"    {finding.known}"]
    return ["", "What heads do:", *found] if found else []


def _columns(rows: list[Sequence[Any]]) -> list[str]:
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
