"""The mask beside the weights it causes."""

import streamlit as st

from attnviz import api, figures
from attnviz.core.masks import Full
from attnviz.ui import state, widgets


def page() -> None:
    source, lines = widgets.input_bar()
    if not st.session_state.get("masks opened"):
        st.session_state["masks opened"] = True
        if "mask" not in st.query_params and not st.session_state.get("mask"):
            st.session_state["mask"] = ["subsequent"]
    body(source, lines)


@st.fragment
def body(source, lines) -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        source = widgets.with_sos(source)
        edits = widgets.edits_bar(source, lines, rules=("subsequent",))
    record = widgets.run(source, lines, edits)
    dark = widgets.is_dark()
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                site = widgets.layer(source)
                sentence = widgets.sentence(lines)
                menu = st.container(width="content")
            cell = widgets.selected(record, site)
            tokens = record.sentences[sentence].tokens
            mask = record.step(site).mask or Full()
            predicted = api.predicted(record.sentences[sentence])
            shown = {"sentence": sentence, "selected": cell, "dark": dark, "rev": widgets.rev()}
            grid = figures.mask(mask, tokens, predicted=predicted, **shown)
            with menu:
                widgets.take_away(grid, "mask")
            widgets.picture(grid, "mask", select="cell", on_select=widgets.select)
        with st.container(width="content"):
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                focus = widgets.focus(source)
                options = widgets.display()
                menu = st.container(width="content")
            head = figures.head(record, site, focus, **shown, **options)
            with menu:
                widgets.take_away(head, "head")
            widgets.picture(head, "head", select="cell", on_select=widgets.select)
    widgets.cell_in_words(record, site, focus, cell, sentence)
    widgets.numbers(grid, "mask")
    state.write_link()
