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
    dark = widgets.is_dark()
    with st.container(horizontal=True, gap="large"):
        with st.container(width=344):
            site = widgets.layer(source)
            sentence = widgets.sentence(lines)
            focus = st.session_state.get("show", "0")
            overview = figures.heads(
                record, site, sentence=sentence, dark=dark, focused=widgets.number(focus), rev=widgets.rev()
            )
            widgets.picture(overview, "heads", select="head", on_select=_focus)
            widgets.heads_on(source, site)
            widgets.take_away(overview, "heads")
        with st.container(width="stretch"):
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                focus = widgets.focus(source)
                options = widgets.display()
                menu = st.container(width="content")
            cell = widgets.selected(record, site)
            shown = {"sentence": sentence, "selected": cell, "dark": dark, "rev": widgets.rev()}
            head = figures.head(record, site, focus, **shown, **options)
            with menu:
                widgets.take_away(head, "head")
            with st.container(horizontal=True, gap="large"):
                widgets.picture(head, "head", select="cell", on_select=widgets.select)
                with st.container(width=340):
                    widgets.cell_in_words(record, site, focus, cell, sentence)
                    if edits != Edits():
                        _change(cache.record(source, lines), record, sentence, dark)
            widgets.numbers(head, "head")
    state.write_link()


def _change(before, after, sentence: int, dark: bool) -> None:
    figure = figures.change(before, after, sentence=sentence, dark=dark)
    widgets.picture(figure, "change")
    widgets.quiet(figure.description)
    widgets.take_away(figure, "change")


def _focus(point: dict | None) -> None:
    if point is not None and widgets.fresh(point):
        st.session_state["show"] = str(point["head"])
        st.session_state["rev"] = widgets.rev() + 1
