"""Every head of the model at once, in tabs: on this text, as what each adds to a word, and over a corpus."""

import streamlit as st

from attnviz.core.request import Request
from attnviz.sources.base import Source
from attnviz.ui.overview import contributions, corpus, gradients, heads, lens, reach, words
from attnviz.ui.overview.numbers import SORT, effects_of
from attnviz.ui.shared import look, state, toolbar
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import control

TEST, TABLE = words.SWITCH_OFF_TEST, heads.TABLE
"""Tabs of older links: an order and a form of all heads now."""

OPENS = {"Over many texts": words.OVER_A_CORPUS}
PANEL = choice("panel", (*words.TABS, words.ROLLOUT, TEST, TABLE), of="tab", former=OPENS)


def page(source: Source, request: Request) -> None:
    bar = toolbar.bar(source, request, more=_more)
    _read_older_link(bar.at)
    panel = state.get(PANEL) or (words.ROLLOUT if _follows() else words.ALL_HEADS)
    positions = range(bar.at.record.read[bar.at.sentence].length if panel == words.CONTRIBUTIONS else 0)
    bar.predict(state.one_of(look.QUERY, positions, None))
    with st.container(horizontal=True, gap="small", key="tabs"):
        names = words.TABS if panel in words.TABS else (*words.TABS, words.ROLLOUT)
        control(st.segmented_control, common.PARTS, PANEL, names, shown=panel, lead="")
        if panel == words.ALL_HEADS:
            heads.form()
    if panel == words.ROLLOUT:
        with bar.view:
            gradients.method()
    parts = {
        words.ALL_HEADS: heads.all_heads,
        words.CONTRIBUTIONS: lens.words_grid if lens.is_grid() else contributions.parts,
        words.OVER_A_CORPUS: corpus.over_a_corpus,
    }
    parts.get(panel, gradients.chosen() or reach.reach)(bar)


def _read_older_link(context: ViewContext) -> None:
    """Open what stood in a tab of its own before."""
    panel = state.get(PANEL)
    if panel in (TEST, TABLE):
        state.put(PANEL, words.ALL_HEADS)
    if panel == TABLE:
        state.put(heads.FORM, heads.TABLE)
    if panel == TEST and state.get(SORT) is None:
        state.put(SORT, effects_of(context.record)[0])


def _follows() -> bool:
    """Whether a link without a tab is about rollout."""
    return state.get(reach.STACK) is not None or state.get(reach.AFTER) is not None


def _more(context: ViewContext) -> None:
    st.button(words.ATTENTION_ROLLOUT, key="to rollout", on_click=state.put, args=(PANEL, words.ROLLOUT))
