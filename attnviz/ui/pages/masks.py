"""The mask beside the weights it causes."""

import streamlit as st

from attnviz import api, figures
from attnviz.core.masks import Full
from attnviz.ui import editing, inputs, looking, pictures, state


def page() -> None:
    body(*inputs.input_bar())


@st.fragment
def body(source, lines) -> None:
    source = looking.with_sos(source)
    edits = editing.edits_bar(source, lines, rules=("subsequent",))
    record = pictures.run(source, lines, edits)
    dark = looking.is_dark()
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                site = looking.layer(source)
                sentence = looking.sentence(lines)
                menu = st.container(width="content")
            cell = looking.selected(record, site)
            tokens = record.sentences[sentence].tokens
            mask = record.step(site).mask or Full()
            predicted = api.predicted(record.sentences[sentence])
            shown = {"sentence": sentence, "selected": cell, "dark": dark, "rev": looking.rev("cell")}
            grid = figures.mask(mask, tokens, predicted=predicted, **shown)
            with menu:
                pictures.take_away(grid, "mask", "mask")
            pictures.picture(grid, "mask", select="cell", on_select=looking.select)
        with st.container(width="content"):
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                focus = looking.focus(source)
                options = looking.display()
                menu = st.container(width="content")
            head = figures.head(record, site, focus, **shown, **options)
            with menu:
                pictures.take_away(head, "head")
            pictures.picture(head, "head", select="cell", on_select=looking.select)
    pictures.cell_in_words(record, site, focus, cell, sentence)
    left, right = st.columns(2)
    with left:
        pictures.numbers(grid, "mask")
    with right:
        pictures.numbers(head, "head")
    state.write_link()
