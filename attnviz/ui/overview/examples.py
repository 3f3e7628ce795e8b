"""The texts behind the numbers of a head, each with the weights of one query as shades; a click opens it on Heads."""

from html import escape
from math import ceil, floor

import pandas as pd
import streamlit as st

from attnviz import metrics
from attnviz.atlas.opened import Atlas
from attnviz.core.amounts import percent
from attnviz.core.display import shown
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record
from attnviz.metrics.heads import METRICS
from attnviz.ui.overview import words
from attnviz.ui.shared import cache, pages, pictures, state
from attnviz.ui.shared.examples import TEXT
from attnviz.ui.shared.look import CELL, SHOW, SITE, Cell, Look
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import block_html, details_html, note, quiet

PAIRS = words.PAIRS_IN_LINKS
KINDS = {PAIRS: "pairs"} | {one.name: one.name for one in METRICS}
EXAMPLES = choice("atlas-of", KINDS)

COUNT, SEEN = 10, 5
"""Texts of a head, and those of them that are not folded."""

PREDICTED, LEAST = 3, 0.01
"""Words that are named as predicted at most, and the probability of all but the first at least."""


def of_head(at: Look, found: Atlas, role: str) -> None:
    """Ten texts of a head, by its strongest pairs or by a metric.

    Args:
        role: what it is known to look at: a pair is of two tokens, so a head that looks at itself begins with that.
    """
    titles = {PAIRS: words.PAIRS} | {one.name: one.title for one in METRICS}
    begins = "self" if role == "itself" else PAIRS
    options = {"format_func": titles.__getitem__, "width": 250, "shown": state.get(EXAMPLES) or begins}
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        by = control(st.selectbox, words.LARGEST, EXAMPLES, [*KINDS], lead=words.LARGEST, **options)
    word = _word(role)
    try:
        rows = _pairs(at, found, word) if by == PAIRS else found.examples(at.site, at.number, by, COUNT)
    except AttnvizError as error:
        note(str(error))
        return
    if rows.empty:
        quiet(words.NO_NUMBER)
    _texts(at, found, rows.to_dict("records"), by, words.FROM_WORD.format(word=word) if word else words.WHATEVER)


def _texts(at: Look, found: Atlas, rows: list[dict], by: str, order: str) -> None:
    """Texts below each other, some of them folded; how to read the shades before them, the rest after.

    Args:
        by: of `KINDS`, what they are the largest of.
        order: how pairs are ordered.
    """
    named = "" if by == PAIRS else next(one.title for one in METRICS if one.name == by)
    records = [cache.record(at.source, (row["text"],), at.edits) for row in rows]
    weights = [row["value"] for row in rows] if by == PAIRS else []
    largest = words.DARKEST.format(least=floor(1000 * min(weights)) / 10) if weights else words.STRONGER
    shaded = words.SHADED_CROSS if at.site.kind == "cross" else words.SHADED
    quiet(f"{shaded}{largest}{f' {order}' if weights else ''}")
    with st.container(gap="xsmall", key="atlas-texts"):
        for i, (row, record) in enumerate(zip(rows[:SEEN], records, strict=False)):
            _example(at, row, record, i, named)
    if rows[SEEN:]:
        folded = pictures.folded(words.MORE_TEXTS.format(count=len(rows) - SEEN), key="more texts")
        with folded as is_open, st.container(gap="xsmall"):
            for i in range(SEEN, len(rows)) if is_open else ():
                _example(at, rows[i], records[i], i, named)
    notes = [_complete(at, found)] if by == PAIRS else []
    if notes := [*notes, *_marks(at, rows, records)]:
        st.html(details_html(words.ABOUT_TEXTS, block_html(" ".join(notes), "quiet")))


def _marks(at: Look, rows: list[dict], records: list[Record]) -> list[str]:
    """What <sos>, <eos> and a full stop do where a text shows them, and that a model knows no capitals."""
    said = {token.text for record in records for token in record.tokens(at.site)[1]}
    every = list(zip(records, rows, strict=True))
    next_words = {word for record, row in every for word, _ in _predicted(record, at, _cell(record, at, row)[0])}
    notes = [means for mark, means in words.MARKS.items() if mark in said]
    small = sorted(word for word in next_words if word not in said and word.capitalize() in said)
    if any(row.get("query_token") == "." for row in rows):
        notes.append(words.FULL_STOP_PREDICTS if next_words else words.FULL_STOP)
    return notes + [words.NO_CAPITALS.format(word=word, typed=word.capitalize()) for word in small[:1]]


def _predicted(record: Record, at: Look, query: int) -> list[tuple[str, float]]:
    """The most probable words after a query, with their probabilities; none where the model predicts none."""
    if not record.predicted(at.site):
        return []
    found = [(one.word, one.probability) for one in metrics.next_words(record, query, count=PREDICTED)]
    return found[:1] + [one for one in found[1:] if one[1] >= LEAST]


def _complete(at: Look, found: Atlas) -> str:
    """From which weight on no pair is missing."""
    heads = found.heads()
    above = heads[(heads["site"] == str(at.site)) & (heads["head"] == at.number)]["pairs_above"].max()
    return words.COMPLETE.format(weight=ceil(100 * above) / 100)


def _word(role: str) -> str:
    """The one word from which a role looks, such as “the”; "" if it looks from others, too."""
    return role.partition("“")[2].partition("”")[0]


def _pairs(at: Look, found: Atlas, word: str) -> pd.DataFrame:
    """The strongest pair of each text, those from a word first, if one is given."""
    pairs = found.table("pairs", at.site, at.number)
    if word:
        pairs = pairs.sort_values("query_token", key=lambda tokens: tokens.str.lower() != word, kind="stable")
    pairs = pairs.drop_duplicates(["file", "line"]).head(COUNT)
    return pairs.assign(text=list(map(found.text, pairs["file"], pairs["line"])))


def _example(at: Look, row: dict, record: Record, place: int, named: str) -> None:
    """A text that opens, its weights, and its number under its name, if it has one."""
    cell = _cell(record, at, row)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        behavior = {"type": "tertiary", "icon": ":material/arrow_forward:", "key": f"open example {place}"}
        if st.button(words.OPEN, on_click=_look_at, args=(at, row["text"], cell), **behavior):
            pages.go_to(pages.TITLES[0])
        number = words.EXAMPLE_NUMBER.format(name=named, number=row["value"]) if named else ""
        st.html(_shaded(record, at, cell, number))


def _look_at(at: Look, text: str, cell: Cell) -> None:
    """Show a cell of a text."""
    chosen = {TEXT: text, SITE: at.site, SHOW: at.head, CELL: cell}
    state.change(lambda now: now.without("text"))
    for setting, value in chosen.items():
        state.put(setting, value)


def _cell(record: Record, at: Look, row: dict) -> Cell:
    """The cell of a pair; of another example the largest weight of the rows that have a choice."""
    if "query" in row:
        return int(row["query"]), int(row["key"])
    largest, keys = metrics.strongest(record.step(at.site), at.number)
    query = 1 + int(largest[1:].argmax()) if len(largest) > 1 else 0
    return query, int(keys[query])


def _shaded(record: Record, at: Look, cell: Cell, number: str) -> str:
    """The tokens of the keys, each as strong as its weight; in one text the query is underlined; what it predicts."""
    looks, seen = record.tokens(at.site)
    weights = record.step(at.site).weights(at.number, slice(cell[0], cell[0] + 1))[0].tolist()
    name = escape(shown(looks[cell[0]].text))
    query = "" if at.site.kind != "cross" else f"{name} → "
    parts = []
    for i, (token, weight) in enumerate(zip(seen, weights, strict=True)):
        space = "" if token.joined or not i else " "
        is_query = at.site.kind != "cross" and i == cell[0]
        text = f"<u>{name}</u>" if is_query else escape(shown(token.text))
        parts.append(f'{space}<span style="--weight: {max(0.0, weight):.0%}">{text}</span>')
    likely = [escape(_likely(word, percent(share, 0))) for word, share in _predicted(record, at, cell[0])]
    pair = words.PAIR.format(query=name, key=escape(shown(seen[cell[1]].text)), weight=percent(weights[cell[1]], 0))
    said = [escape(number) or pair] + [words.PREDICTS.format(words=", ".join(likely))] * bool(likely)
    return f'<div class="shaded">{query}{"".join(parts)} <i>{"; ".join(said)}</i></div>'


def _likely(word: str, share: str) -> str:
    """A word that may come next, or the end, with its probability."""
    return f"{words.END} {share}" if word == "<eos>" else words.LIKELY.format(word=shown(word), share=share)
