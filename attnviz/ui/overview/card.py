"""One head beside the maps of all: what it looks like, what is known of it, and its numbers."""

import pandas as pd
import streamlit as st

from attnviz import figures
from attnviz.core.amounts import decimals
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.metrics.measures import NEAR
from attnviz.metrics.spread import ByDistance, by_distance
from attnviz.ui.overview import words
from attnviz.ui.overview.numbers import MEANINGS, OFF, TITLES, Numbers
from attnviz.ui.shared import cache, findings, look, pages, pictures, zoom
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import large, quiet, table

SHOWN = ("confidence", "effective_keys", "distance", "local", "previous", "self", "first", "special", "output_share")
"""The numbers that stand beside the maps; all are in the table."""


def named(at: Look, rank: str = "") -> None:
    """Which head is framed, which rank it has, and the way to its page."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="chosen"):
        large(f"{at.site.head(at.head).capitalize()}{rank}")
        opens(at)


def opens(at: Look) -> None:
    """The way to the page of the framed head."""
    if st.button(words.OPEN_HEAD, key="open head", icon=":material/arrow_forward:"):
        look.look_at(at.site, at.head)
        pages.go_to(pages.TITLES[0])


def of_head(at: Look, known: Numbers) -> None:
    """What the framed head looks like on this text, what is known of it, and its numbers."""
    row = known.row((at.site, at.number))
    named(at)
    findings.of_head(at, role=False)
    if not findings.measured(at.source, at.site, at.head) and (said := findings.by_weights(row)):
        (large if at.source.facts else quiet)(said)
    there = [name for name in (*OFF, *SHOWN) if name in known.names and not pd.isna(row[name])]
    if max(map(len, at.tokens)) <= NEAR:  # all that there is is near
        there = [name for name in there if name != "local"]
    table(
        [(TITLES[name], number(name, float(row[name])), meant(name)) for name in there],
        numbers=(1,),
        css="facts meant",
    )
    _by_distance(at)
    _on_phrase(at)


def _on_phrase(at: Look) -> None:
    """Which heads look at a phrase, from the selected query or the last token: those that retrieve a needle."""
    with pictures.folded(words.ON_PHRASE, "on phrase") as is_open:
        if not is_open:
            return
        phrase = control(st.text_input, common.PHRASE, zoom.PHRASE, max_chars=200)
        query = min(look.asked_at(at.record, at.site, at.cell, at.sentence), len(at.tokens[0]) - 1)
        places = zoom.spans(at.cut(1).text, at.tokens[1], phrase)
        if not places:
            quiet(common.TYPE_A_PHRASE if not phrase.strip() else words.NOWHERE)
            return
        where = {"sentence": at.sentence, "dark": at.dark}
        figure = figures.phrase(at.record, at.site.kind, query, places, **where)
        pictures.show(figure, "phrase", words.PHRASE, table=True)


def _by_distance(at: Look) -> None:
    """How far the head looks, in bins that double."""
    with pictures.folded(words.BY_DISTANCE, "by distance") as is_open:
        if is_open:
            where = {"sentence": at.sentence, "dark": at.dark}
            cache.worked(_distances, at.record, at.site, at.head, at.sentence, cost=at.cost())
            figure = cache.drawn(figures.distance, at.record, at.site, at.head, **where)
            pictures.show(figure, "distance", common.BY_DISTANCE, table=True)


def _distances(record: Record, site: Site, head: int | str, sentence: int) -> ByDistance:
    return by_distance(record.step(site), head, sentence=sentence)


def meant(name: str) -> str:
    """What a number means, as a sentence."""
    means = MEANINGS[name]
    return f"{means[:1].upper()}{means[1:].rstrip('.')}."


def number(name: str, value: float) -> str:
    """A number of a head as it is read: a change of the output in percent, a small one of the prediction in full."""
    return f"{value:.1%}" if name == "output" else decimals(value, 3 if name == "divergence" else 2)
