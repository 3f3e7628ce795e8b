"""Every head of the model at once, in tabs: as maps, switched off in turn, as numbers, over many texts, and rollout."""

from functools import partial

import streamlit as st

from attnviz.sources.base import Source
from attnviz.ui.overview import card, every, reach, tables, tested, texts, words
from attnviz.ui.overview.numbers import Numbers
from attnviz.ui.shared import state, toolbar
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.setting import choice
from attnviz.ui.shared.state import tabs
from attnviz.ui.shared.text import lead, quiet
from attnviz.ui.shared.toolbar import Bar

PANEL = choice("panel", words.TABS, of="tab")


def page(source: Source, lines: tuple[str, ...]) -> None:
    bar = toolbar.bar(source, lines)
    bar.predict()
    made = (
        partial(_every, bar),
        partial(tested.panel, bar),
        partial(tables.panel, bar),
        partial(texts.over_many_texts, bar),
        partial(reach.reach, bar),
    )
    tabs(PANEL, dict(zip(words.TABS, made, strict=True)), opening=_opening())


def _opening() -> str:
    """The tab that a link without one asks for by what else it holds."""
    asked = {words.TABS[4]: (reach.STACK, reach.AFTER), words.TABS[2]: (tables.ACROSS, tables.UP)}
    return next(
        (name for name, of_it in asked.items() if any(state.get(one) is not None for one in of_it)), words.TABS[0]
    )


def _every(bar: Bar) -> None:
    lead(words.EACH_MAP)
    every.panel(bar, _chosen)


def _chosen(at: Look, known: Numbers) -> None:
    """The way from all heads to what says which of them matters, and the one that is framed."""
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall", key="guide"):
        quiet(words.TO_THE_TEST)
        options = {"icon": ":material/arrow_forward:", "type": "tertiary", "key": "to the test"}
        st.button(words.TABS[1], on_click=state.put, args=(PANEL, words.TABS[1]), **options)
    card.of_head(at, known)
