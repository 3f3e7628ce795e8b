"""Every head of a site, one of them large, what it does, and what the model says with heads and masks changed."""

import streamlit as st

from attnviz import figures
from attnviz.core.edits import Edits
from attnviz.ui import cache, editing, effects, findings, inputs, looking, pictures, says, state


def page() -> None:
    body(*inputs.input_bar())


@st.fragment
def body(source, lines) -> None:
    edits_bar = st.container(gap="xsmall")
    with st.container(horizontal=True, gap="medium"):
        left, right = st.container(width=344, key="overview"), st.container(width="stretch")
    with left:
        site = looking.site(source, looking.opening_site(source))
        sentence = looking.sentence(lines)
        source = looking.step(source)
        overview = st.container()
    with edits_bar:
        edits, said = editing.edits_bar(source, lines)
    record = pictures.run(source, lines, edits)
    before = cache.record(source, lines) if edits != Edits() else None
    with right, st.container(horizontal=True, vertical_alignment="center", gap="small"):
        focus = looking.focus(source)
        options = looking.display(record, site, sentence)
        menu = st.container(width="content")
    cell = looking.selected(record, site)
    shown = {"sentence": sentence, "dark": looking.is_dark(), "domain": options["domain"], "view": options["view"]}
    with said:
        says.line(record, before, position=says.position(record, site, cell, sentence), sentence=sentence)
    with overview:
        every = cache.heads(record, site, focused=focus, rev=looking.rev("head"), **shown)
        pictures.picture(every, "heads", select="head", on_select=looking.select_head)
        editing.heads_on(source, site)
        pictures.take_away(every, "heads", "all heads")
        pictures.numbers(every, "heads")
    with right:
        head = figures.head(record, site, focus, selected=cell, rev=looking.rev("cell"), **(shown | options))
        with menu:
            pictures.take_away(head, "head")
        with st.container(horizontal=True, gap="medium"):
            pictures.picture(head, "head", select="cell", on_select=looking.select)
            with st.container(width="stretch", key="beside"):
                findings.of_head(source, site, focus)
                pictures.cell_in_words(record, site, focus, cell, sentence, options["view"])
                effects.panel(record, before, site, cell, sentence)
        pictures.numbers(head, "head")
    state.write_link()
