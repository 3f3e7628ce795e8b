"""The texts behind the numbers of a head, each with the weights of one query as shades; a click opens it on Heads."""

from html import escape
from math import ceil, floor

import pandas as pd
import streamlit as st

from attnviz import analysis
from attnviz.analysis.heads import METRICS
from attnviz.atlas.opened import Atlas
from attnviz.core.amounts import percent
from attnviz.core.display import visible_text
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record
from attnviz.core.request import Request
from attnviz.ui import cache
from attnviz.ui.overview import words
from attnviz.ui.shared import pages, pictures, state
from attnviz.ui.shared.examples import TEXT
from attnviz.ui.shared.look import CELL, SHOW, SITE, Cell, ViewContext
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import control
from attnviz.ui.text import block_html, details_html, note, quiet

PAIRS = words.PAIRS_IN_LINKS
KINDS = {PAIRS: "pairs"} | {metric.name: metric.name for metric in METRICS}
EXAMPLES = choice("atlas-of", KINDS)

COUNT, UNFOLDED = 10, 5
"""Texts of a head, and how many of them are not folded."""

PREDICTED, LEAST = 3, 0.01
"""Words that are named as predicted at most, and the probability of all but the first at least."""


def of_head(context: ViewContext, atlas: Atlas, role: str) -> None:
    """Ten texts of a head, by its strongest pairs or by a metric.

    Args:
        role: what it is known to look at: a pair is of two tokens, so a head that looks at itself begins with that.
    """
    titles = {PAIRS: words.PAIRS} | {metric.name: metric.title for metric in METRICS}
    begins = "self" if role == "itself" else PAIRS
    options = {"format_func": titles.__getitem__, "width": 250, "shown": state.get(EXAMPLES) or begins}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        by = control(st.selectbox, words.LARGEST, EXAMPLES, [*KINDS], lead=words.LARGEST, **options)
    word = _word(role)
    try:
        rows = _pairs(context, atlas, word) if by == PAIRS else atlas.examples(context.site, context.number, by, COUNT)
    except AttnvizError as error:
        note(str(error))
        return
    if rows.empty:
        quiet(words.NO_NUMBER)
    _texts(context, atlas, rows.to_dict("records"), by, words.FROM_WORD.format(word=word) if word else words.WHATEVER)


def _texts(context: ViewContext, atlas: Atlas, rows: list[dict], by: str, order: str) -> None:
    """Texts below each other, some of them folded; how to read the shades before them, the rest after.

    Args:
        by: of `KINDS`, what they are the largest of.
        order: how pairs are ordered.
    """
    named = "" if by == PAIRS else next(metric.title for metric in METRICS if metric.name == by)
    records = [cache.record(context.source, Request((row["text"],), edits=context.edits)) for row in rows]
    weights = [row["value"] for row in rows] if by == PAIRS else []
    largest = words.DARKEST.format(least=floor(1000 * min(weights)) / 10) if weights else words.STRONGER
    shaded = words.SHADED_CROSS if context.site.kind == "cross" else words.SHADED
    quiet(f"{shaded}{largest}{f' {order}' if weights else ''}")
    with st.container(gap="xsmall", key="atlas-texts"):
        for i, (row, record) in enumerate(zip(rows[:UNFOLDED], records, strict=False)):
            _example(context, row, record, i, named)
    if rows[UNFOLDED:]:
        folded = pictures.folded(words.MORE_TEXTS.format(count=len(rows) - UNFOLDED), key="more texts")
        with folded as is_open, st.container(gap="xsmall"):
            for i in range(UNFOLDED, len(rows)) if is_open else ():
                _example(context, rows[i], records[i], i, named)
    notes = [_complete(context, atlas)] if by == PAIRS else []
    if notes := [*notes, *_marks(context, rows, records)]:
        st.html(details_html(words.ABOUT_TEXTS, block_html(" ".join(notes), "quiet")))


def _marks(context: ViewContext, rows: list[dict], records: list[Record]) -> list[str]:
    """Notes on <sos>, <eos> and a full stop where a text shows them, and on a model without capitals."""
    token_texts = {token.text for record in records for token in record.tokens(context.site)[1]}
    every = list(zip(records, rows, strict=True))
    next_words = {
        word for record, row in every for word, _ in _predicted(record, context, _cell(record, context, row)[0])
    }
    notes = [means for mark, means in words.MARKS.items() if mark in token_texts]
    small = sorted(word for word in next_words if word not in token_texts and word.capitalize() in token_texts)
    if any(row.get("query_token") == "." for row in rows):
        notes.append(words.FULL_STOP_PREDICTS if next_words else words.FULL_STOP)
    return notes + [words.NO_CAPITALS.format(word=word, typed=word.capitalize()) for word in small[:1]]


def _predicted(record: Record, context: ViewContext, query: int) -> list[tuple[str, float]]:
    """The most probable words after a query, with their probabilities; none where the model predicts none."""
    if not record.predicted(context.site):
        return []
    candidates = [(word.word, word.probability) for word in analysis.next_words(record, query, count=PREDICTED)]
    return candidates[:1] + [pair for pair in candidates[1:] if pair[1] >= LEAST]


def _complete(context: ViewContext, atlas: Atlas) -> str:
    """From which weight on no pair is missing."""
    heads = atlas.heads()
    above = heads[(heads["site"] == str(context.site)) & (heads["head"] == context.number)]["pairs_above"].max()
    return words.COMPLETE.format(weight=ceil(100 * above) / 100)


def _word(role: str) -> str:
    """The one word from which a role looks, such as “the”; "" if it looks from others, too."""
    return role.partition("“")[2].partition("”")[0]


def _pairs(context: ViewContext, atlas: Atlas, word: str) -> pd.DataFrame:
    """The strongest pair of each text, those from a word first, if one is given."""
    pairs = atlas.table("pairs", context.site, context.number)
    if word:
        pairs = pairs.sort_values("query_token", key=lambda tokens: tokens.str.lower() != word, kind="stable")
    pairs = pairs.drop_duplicates(["file", "line"]).head(COUNT)
    return pairs.assign(text=list(map(atlas.text, pairs["file"], pairs["line"])))


def _example(context: ViewContext, row: dict, record: Record, place: int, named: str) -> None:
    """A text that opens, its weights, and its number under its name, if it has one."""
    cell = _cell(record, context, row)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        behavior = {"type": "tertiary", "icon": ":material/arrow_forward:", "key": f"open example {place}"}
        if st.button(words.OPEN, on_click=_look_at, args=(context, row["text"], cell), **behavior):
            pages.go_to(pages.TITLES[0])
        number = words.EXAMPLE_NUMBER.format(name=named, number=row["value"]) if named else ""
        st.html(_shaded(record, context, cell, number))


def _look_at(context: ViewContext, text: str, cell: Cell) -> None:
    """Show a cell of a text."""
    chosen = {TEXT: text, SITE: context.site, SHOW: context.head, CELL: cell}
    state.change(lambda now: now.without("text"))
    for setting, value in chosen.items():
        state.put(setting, value)


def _cell(record: Record, context: ViewContext, row: dict) -> Cell:
    """The cell of a pair; of another example the largest weight of the rows that have a choice."""
    if "query" in row:
        return int(row["query"]), int(row["key"])
    largest, keys = analysis.strongest(record.step(context.site), context.number)
    query = 1 + int(largest[1:].argmax()) if len(largest) > 1 else 0
    return query, int(keys[query])


def _shaded(record: Record, context: ViewContext, cell: Cell, number: str) -> str:
    """The tokens of the keys, each as strong as its weight; in one text the query is underlined; what it predicts."""
    looks, key_tokens = record.tokens(context.site)
    weights = record.step(context.site).weights(context.number, slice(cell[0], cell[0] + 1))[0].tolist()
    name = escape(visible_text(looks[cell[0]].text))
    query = "" if context.site.kind != "cross" else f"{name} → "
    parts = []
    for i, (token, weight) in enumerate(zip(key_tokens, weights, strict=True)):
        space = "" if token.joined or not i else " "
        is_query = context.site.kind != "cross" and i == cell[0]
        text = f"<u>{name}</u>" if is_query else escape(visible_text(token.text))
        parts.append(f'{space}<span style="--weight: {max(0.0, weight):.0%}">{text}</span>')
    likely = [escape(_likely(word, percent(share, 0))) for word, share in _predicted(record, context, cell[0])]
    pair = words.PAIR.format(
        query=name, key=escape(visible_text(key_tokens[cell[1]].text)), weight=percent(weights[cell[1]], 0)
    )
    caption = [escape(number) or pair]
    if likely:
        caption.append(words.PREDICTS.format(words=", ".join(likely)))
    return f'<div class="shaded">{query}{"".join(parts)} <i>{"; ".join(caption)}</i></div>'


def _likely(word: str, share: str) -> str:
    """A word that may come next, or the end, with its probability."""
    return f"{words.END} {share}" if word == "<eos>" else words.LIKELY.format(word=visible_text(word), share=share)
