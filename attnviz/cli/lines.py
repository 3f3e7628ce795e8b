"""Values as lines for the terminal: tables, JSON, and cards."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from attnviz import api
from attnviz.analysis.contributions import Contributions
from attnviz.analysis.relevance import IntegratedGradients, Relevance
from attnviz.core.amounts import digits, percent, remainder
from attnviz.core.display import label_text, visible_text
from attnviz.core.errors import AttnvizError
from attnviz.core.request import Request
from attnviz.core.tokens import Sentence
from attnviz.figures.attribution import gap_in_words, of_word
from attnviz.sources.base import Source
from attnviz.sources.cards import Card
from attnviz.sources.huggingface import hub

MOST_NOTES = 10
"""Unknown words that are named, at most."""


def unknown(source: Source, request: Request) -> list[str]:
    """A line for each unknown word that known ones are spelled like, with these, and one for all others."""
    words = {} if request.pictures else source.unknown([*request.texts])
    named, more = list(words.items())[:MOST_NOTES], len(words) - MOST_NOTES
    near = {word: f"; it knows {_listed(nearest)}" for word, nearest in named if nearest}
    others = _listed([word for word, _ in named if word not in near])
    if more > 0:
        others = f"{others} and {more} more words" if others else f"{more} more words"
    lines = [(_listed([word]), hint) for word, hint in near.items()] + ([(others, "")] if others else [])
    return [f"'{source.name}' does not know {what} and reads {source.unknown_token}{hint}." for what, hint in lines]


def _listed(words: Iterable[str]) -> str:
    return ", ".join(f"“{visible_text(word)}”" for word in words)


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
            note = "joined" if token.joined else ""
            if token.special:
                note = "special"
            rows.append((number, position, visible_text(token.text), token.id, token.start, token.end, note))
    return columns(rows)


# Contributions


def contributions(logit: Contributions, falls: pd.DataFrame | None) -> list[str]:
    """The answer in words, what each part adds, and their sum; with falls what each head off takes away."""
    table = logit.with_falls(falls)
    whole = "logit" if logit.minus is None else "difference"
    ends = {
        "sum": digits(table["contribution"].sum()),
        whole: digits(logit.logit),
        "residual": remainder(logit.residual, logit.logit),
    }
    rows = [("part", "adds"), *zip(logit.names, map(digits, table["contribution"]), strict=True), *ends.items()]
    if falls is not None:
        off = ["falls when off", *("" if pd.isna(fall) else digits(fall) for fall in table["fall"]), *[""] * len(ends)]
        rows = [(*row, fall) for row, fall in zip(rows, off, strict=True)]
    return [logit.in_words(falls), "", *columns(rows)]


def contributions_json(logit: Contributions, falls: pd.DataFrame | None) -> list[str]:
    """One object: the word, its logit, and a part for each row."""
    table = logit.with_falls(falls).drop(columns=["fall"] if falls is None else [])
    parts = [{name: value for name, value in row.items() if pd.notna(value)} for row in table.to_dict("records")]
    names = ("token", "minus", "position", "sentence", "logit", "residual")
    return [json.dumps({name: getattr(logit, name) for name in names} | {"parts": parts}, indent=1)]


# Gradients


def gradients(relevant: Relevance, integrated: IntegratedGradients, *, as_json: bool) -> list[str]:
    """Relevance of each token after the last layer, beside its integrated gradients, and their gap."""
    table = relevant.table[relevant.table["layer"] == max(relevant.layers)].drop(columns="layer")
    table = integrated.table.merge(table, on=["kind", "position", "token"])
    if as_json:
        names = ("token", "position", "logit", "baseline", "steps", "gap")
        return [json.dumps({name: getattr(integrated, name) for name in names} | {"tokens": table.to_dict("records")})]
    heading = ("stack", "position", "token", "relevance", "integrated gradients")
    rows = [
        (row.kind, row.position, visible_text(row.token), digits(row.relevance), digits(row.attribution))
        for row in table.itertuples()
    ]
    return [f"Gradients of the {of_word(integrated)}.", gap_in_words(integrated), "", *columns([heading, *rows])]


# Models


def models() -> list[str]:
    """Every model, with where its weights come from."""
    return [*columns([(name, *_about(name)) for name in api.SOURCES]), "", _others()]


def _others() -> str:
    """Which models of Hugging Face there are."""
    only = hub.allowed()
    if only is None:
        return f"Also any model of Hugging Face, by its name ({hub.MINILM}) or its folder."
    return f"Also, of Hugging Face: {', '.join(only) or 'none'}."


def _about(name: str) -> tuple[str, str]:
    try:
        card = api.load(name).card
    except AttnvizError as error:
        return api.SOURCES[name].provenance, str(error)
    return api.SOURCES[name].provenance, card.does if card else api.SOURCES[name].does


def card(source: Source) -> list[str]:
    """Facts about a model, with their evidence."""
    card = source.card
    if source.facts:
        return _pretrained(source, source.facts.labels)
    if card is None:
        return [f"{source.name} ({source.provenance})", source.does]
    sizes = columns([(f"  {value:>9,}", name) for name, value in card.sizes.items()])
    about = [f"{card.title} ({source.provenance})", card.does, "", card.origin, card.trained_on, "", "Sizes:", *sizes]
    cannot = ["", "What it cannot do:", *(f"  {line}" for line in card.cannot)]
    return [*about, *_measured(card), *_findings(card), *cannot]


def _pretrained(source: Source, names: Sequence[str]) -> list[str]:
    """Facts that a pretrained model states about itself; none was measured here."""
    labels = ", ".join([*map(label_text, names[:10]), *(["..."] if len(names) > 10 else [])])
    more = [("labels", f"{len(names)}: {labels}")] if names else []
    more += [("changes", f"read-only: {source.read_only}" if source.read_only else "masks, heads, scale, temperature")]
    if source.unseen:
        more.append(("not shown", source.unseen))
    rows = [(f"  {what}:", value) for what, value in [*source.described(), *more]]
    return [f"{source.name} ({source.provenance})", *columns(rows)]


def _measured(card: Card) -> list[str]:
    rows = [
        (f"  {percent(measure.value):>7}", measure.what, "" if measure.goal is None else f"(goal {measure.goal:.0%})")
        for measure in card.measured
    ]
    unseen = ", on texts that training never used" if card.curve else ""
    return ["", f"Measured before it shipped{unseen}:", *columns(rows)] if rows else []


def _findings(card: Card) -> list[str]:
    rows = []
    for finding in card.behaviors:
        rows += [f"  {finding.site.head(*finding.heads)} {finding.does}", f"    {finding.evidence}"]
    return ["", "What heads do:", *rows] if rows else []


def columns(rows: list[Sequence[Any]]) -> list[str]:
    widths = [max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(str(cell).ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
