"""The chosen head: which head matters most, findings about this one, and its numbers."""

import pandas as pd
import streamlit as st

from attnviz import figures
from attnviz.analysis.heads import MAIN
from attnviz.analysis.spread import ByDistance, by_distance
from attnviz.core.amounts import decimals
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.studies.ablation import Sweep
from attnviz.ui import cache
from attnviz.ui.overview import words
from attnviz.ui.overview.numbers import MEANINGS, OFF, SORT, TITLES, Numbers, effects_of, is_by_test
from attnviz.ui.shared import findings, look, pages, pictures, state, zoom
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.state import control
from attnviz.ui.text import large, quiet, table


def verdict(context: ViewContext, swept: Sweep | None) -> None:
    """Which head matters most, and the way to it; without a test, the way to the test."""
    if swept is None:
        if not is_by_test():
            with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="guide"):
                quiet(words.TO_THE_TEST)
                options = {"icon": ":material/arrow_forward:", "type": "tertiary", "key": "to the test"}
                args = (SORT, effects_of(context.record)[0])
                st.button(words.SWITCH_OFF_TEST, on_click=state.put, args=args, **options)
        return
    matters, weights = swept.sentences()
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="matters"):
        large(matters)
        if swept.strongest:
            way_to(context, *swept.strongest)
    if weights:
        quiet(weights)


def way_to(context: ViewContext, site: Site, head: int) -> None:
    """A button to the page of the head that a sentence names, or to it here where another head is chosen."""
    if (site, head) == (context.site, context.head):
        _opens(context)
        return
    options = {"key": "to what matters", "icon": ":material/arrow_forward:", "on_click": look.look_at}
    st.button(words.SHOW_MOST.format(head=site.head(head)), args=(site, head), **options)


def named(context: ViewContext, head_numbers: Numbers, swept: Sweep | None) -> None:
    """The name of the chosen head, its rank by the test, and the way to its page."""
    if swept and swept.strongest == (context.site, context.head):
        return  # named by the verdict
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="chosen"):
        rank = _rank(context, head_numbers, swept.by) if swept and swept.strongest else ""
        large(f"{context.site.head(context.head).capitalize()}{rank}")
        _opens(context)


def _opens(context: ViewContext) -> None:
    if st.button(words.OPEN_HEAD, key="open head", icon=":material/arrow_forward:"):
        look.look_at(context.site, context.head)
        pages.go_to(pages.TITLES[0])


def _rank(context: ViewContext, head_numbers: Numbers, by: str) -> str:
    """The rank of the chosen head by a number; "" where it has no such number."""
    change, changes = head_numbers.row((context.site, context.number))[by], head_numbers.table[by]
    if pd.isna(change):
        return ""
    rank, count = 1 + int((changes > change).sum()), int(changes.notna().sum())
    return words.RANK.format(brief=context.site.brief(context.number), rank=rank, count=count)


def of_head(context: ViewContext, head_numbers: Numbers, swept: Sweep | None) -> None:
    """The chosen head: its role on this text, findings about it, and its numbers."""
    row = head_numbers.row((context.site, context.number))
    named(context, head_numbers, swept)
    findings.of_head(context, role=False)
    if not findings.measured(context.source, context.site, context.head) and (sentence := findings.by_weights(row)):
        (large if context.source.facts else quiet)(sentence)
    names = [name for name in (*OFF, *MAIN) if name in head_numbers.names and not pd.isna(row[name])]
    rows = [(TITLES[name], number(name, float(row[name])), meaning(name)) for name in names]
    table(rows, numbers=(1,), css="facts meant")
    _by_distance(context)
    _on_phrase(context)


def _on_phrase(context: ViewContext) -> None:
    """Heads by their attention on a phrase, from the selected query or the last word: those that retrieve a needle."""
    with pictures.folded(words.ON_PHRASE, "on phrase") as is_open:
        if not is_open:
            return
        phrase = control(st.text_input, common.PHRASE, zoom.PHRASE, max_chars=200)
        query = min(
            look.asked_at(context.record, context.site, context.cell, context.sentence), len(context.tokens[0]) - 1
        )
        tokens = context.tokens[0]
        if context.cell is None and (typed := [i for i in range(query + 1) if tokens[i].start < tokens[i].end]):
            query = typed[-1]  # not [SEP], which nobody chose
        places = zoom.spans(context.cut(1).text, context.tokens[1], phrase)
        if not places:
            quiet(common.TYPE_A_PHRASE if not phrase.strip() else words.NOWHERE)
            return
        where = {"sentence": context.sentence, "dark": context.dark}
        figure = figures.phrase(context.record, context.site.kind, query, places, **where)
        pictures.show(figure, "phrase", words.PHRASE, table=True)


def _by_distance(context: ViewContext) -> None:
    """Attention by distance, in bins that double."""
    with pictures.folded(words.BY_DISTANCE, "by distance") as is_open:
        if is_open:
            where = {"sentence": context.sentence, "dark": context.dark}
            cache.worked(_distances, context.record, context.site, context.head, context.sentence, cost=context.cost())
            figure = cache.rendered(figures.distance, context.record, context.site, context.head, **where)
            pictures.show(figure, "distance", common.BY_DISTANCE, table=True)


def _distances(record: Record, site: Site, head: int | str, sentence: int) -> ByDistance:
    return by_distance(record.step(site), head, sentence=sentence)


def meaning(name: str) -> str:
    """A number's meaning, as a sentence."""
    means = MEANINGS[name]
    return f"{means[:1].upper()}{means[1:].rstrip('.')}."


def number(name: str, value: float) -> str:
    """A number of a head as text: a change of the output in percent, a small one of the prediction in full."""
    if name == "output":
        return f"{value:.1%}"
    return decimals(value, 3 if name == "divergence" else 2)
