"""Every head of a layer, one of them large, and what switching heads off changes."""

import streamlit as st

from attnviz import figures
from attnviz.core.edits import Edits
from attnviz.ui import cache, editing, inputs, looking, notes, pictures, state


def page() -> None:
    body(*inputs.input_bar())


@st.fragment
def body(source, lines) -> None:
    edits = editing.edits_bar(source, lines)
    record = pictures.run(source, lines, edits)
    with st.container(horizontal=True, gap="medium"):
        left, right = st.container(width=344, key="overview"), st.container(width="stretch")
        with right, st.container(horizontal=True, vertical_alignment="center", gap="small"):
            focus = looking.focus(source)
            options = looking.display()
            menu = st.container(width="content")
        with left:
            site = looking.layer(source)
            sentence = looking.sentence(lines)
            shown = {"sentence": sentence, "dark": looking.is_dark(), "domain": options["domain"]}
            overview = cache.heads(record, site, focused=focus, rev=looking.rev("head"), **shown)
            pictures.picture(overview, "heads", select="head", on_select=looking.select_head)
            editing.heads_on(source, site)
            pictures.take_away(overview, "heads", "all heads")
            pictures.numbers(overview, "heads")
        with right:
            cell = looking.selected(record, site)
            head = figures.head(record, site, focus, selected=cell, rev=looking.rev("cell"), **(shown | options))
            with menu:
                pictures.take_away(head, "head")
            with st.container(horizontal=True, gap="medium"):
                pictures.picture(head, "head", select="cell", on_select=looking.select)
                with st.container(width=372):
                    pictures.cell_in_words(record, site, focus, cell, sentence)
                    if edits != Edits():
                        _change(cache.record(source, lines), record, sentence)
            pictures.numbers(head, "head")
    state.write_link()


def _change(before, after, sentence: int) -> None:
    figure = figures.change(before, after, sentence=sentence, dark=looking.is_dark())
    pictures.picture(figure, "change")
    notes.quiet(figure.description)
    pictures.take_away(figure, "change", "change")
    pictures.numbers(figure, "change")
