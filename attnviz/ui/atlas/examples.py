"""The texts behind the numbers of a head, each with the weights of one query as shades; a click opens it on Heads."""

from html import escape
from math import ceil

import pandas as pd
import streamlit as st

from attnviz import metrics
from attnviz.atlas.opened import Atlas
from attnviz.core.display import shown
from attnviz.core.errors import AttnvizError
from attnviz.core.record import Record
from attnviz.metrics.heads import METRICS
from attnviz.ui.atlas import words
from attnviz.ui.shared import cache, pages, state
from attnviz.ui.shared.examples import TEXT
from attnviz.ui.shared.look import CELL, SHOW, SITE, Cell, Look
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import note, quiet

PAIRS = words.PAIRS_IN_LINKS
KINDS = {PAIRS: "pairs"} | {one.name: one.name for one in METRICS}
EXAMPLES = choice("atlas-of", KINDS, PAIRS)

COUNT = 10


def of_head(at: Look, found: Atlas) -> None:
    """Ten texts of a head, by its strongest pairs or by a metric."""
    titles = {PAIRS: words.PAIRS} | {one.name: one.title for one in METRICS}
    options = {"format_func": titles.__getitem__, "width": 290}
    by = control(st.selectbox, words.LARGEST, EXAMPLES, [*KINDS], **options)
    try:
        rows = _pairs(at, found) if by == PAIRS else found.examples(at.site, at.number, by, COUNT)
    except AttnvizError as error:
        note(str(error))
        return
    if rows.empty:
        quiet(words.NO_NUMBER)
    shaded = words.SHADED_CROSS if at.site.kind == "cross" else words.SHADED
    quiet(shaded)
    with st.container(gap="xsmall", key="atlas-texts"):
        for i, row in enumerate(rows.to_dict("records")):
            _example(at, row, i)
    if by == PAIRS:
        quiet(_complete(at, found))


def _complete(at: Look, found: Atlas) -> str:
    """From which weight on no pair is missing."""
    heads = found.heads()
    above = heads[(heads["site"] == str(at.site)) & (heads["head"] == at.number)]["pairs_above"].max()
    return words.COMPLETE.format(weight=ceil(100 * above) / 100)


def _pairs(at: Look, found: Atlas) -> pd.DataFrame:
    """The strongest pair of each text."""
    pairs = found.table("pairs", at.site, at.number).drop_duplicates(["file", "line"]).head(COUNT)
    return pairs.assign(text=list(map(found.text, pairs["file"], pairs["line"])))


def _example(at: Look, row: dict, number: int) -> None:
    """A text that opens, its number, and its weights."""
    record = cache.record(at.source, (row["text"],))
    cell = _cell(record, at, row)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        label = words.OPEN.format(number=row["value"])
        behavior = {"type": "tertiary", "icon": ":material/arrow_forward:", "key": f"open example {number}"}
        if st.button(label, on_click=_look_at, args=(at, row["text"], cell), **behavior):
            pages.go_to(pages.TITLES[0])
        st.html(_shaded(record, at, cell))


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


def _shaded(record: Record, at: Look, cell: Cell) -> str:
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
    predicted = record.predicted(at.site)
    said = words.PREDICTS.format(word=escape(shown(predicted[cell[0]])), query=name) if predicted else ""
    return f'<div class="shaded">{query}{"".join(parts)} <i>{said}</i></div>'
