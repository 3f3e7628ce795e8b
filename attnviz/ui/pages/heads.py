"""Every head of a layer, one of them large, and what switching heads off changes."""

import streamlit as st

from attnviz import figures
from attnviz.core.edits import Edits
from attnviz.ui import cache, state, widgets


def page() -> None:
    body(*widgets.input_bar())


@st.fragment
def body(source, lines) -> None:
    edits = widgets.edits_bar(source, lines)
    record = widgets.run(source, lines, edits)
    with st.container(horizontal=True, gap="large"):
        left, right = st.container(width=344), st.container(width="stretch")
        with right, st.container(horizontal=True, vertical_alignment="center", gap="small"):
            focus = widgets.focus(source)
            options = widgets.display()
            menu = st.container(width="content")
        with left:
            site = widgets.layer(source)
            sentence = widgets.sentence(lines)
            shown = {"sentence": sentence, "dark": widgets.is_dark(), "rev": widgets.rev()}
            overview = figures.heads(record, site, focused=focus, **shown)
            widgets.picture(overview, "heads", select="head", on_select=_focus)
            widgets.heads_on(source, site)
            widgets.take_away(overview, "heads")
        with right:
            cell = widgets.selected(record, site)
            head = figures.head(record, site, focus, selected=cell, **shown, **options)
            with menu:
                widgets.take_away(head, "head")
            with st.container(horizontal=True, gap="large"):
                widgets.picture(head, "head", select="cell", on_select=widgets.select)
                with st.container(width=340):
                    widgets.cell_in_words(record, site, focus, cell, sentence)
                    if edits != Edits():
                        _change(cache.record(source, lines), record, sentence)
            widgets.numbers(head, "head")
    state.write_link()


def _change(before, after, sentence: int) -> None:
    figure = figures.change(before, after, sentence=sentence, dark=widgets.is_dark())
    widgets.picture(figure, "change")
    widgets.quiet(figure.description)
    widgets.take_away(figure, "change")


def _focus(point: dict | None) -> None:
    if point is not None and widgets.fresh(point):
        st.session_state["show"] = str(point["head"])
        st.session_state["rev"] = widgets.rev() + 1
