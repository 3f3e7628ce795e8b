"""The first tab: the rules, the mask they make, and the weights it causes."""

import streamlit as st

from attnviz import api, figures
from attnviz.ui import looking, pictures
from attnviz.ui.lab.base import Lab


def tab(lab: Lab) -> None:
    record, site, sentence = lab.record, lab.site, lab.sentence
    cell = looking.selected(record, site)
    queries, keys = lab.tokens
    shown = {"sentence": sentence, "selected": cell, "dark": lab.dark, "rev": looking.rev("cell")}
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            menu = st.container(horizontal=True, gap="small")
            place = st.container()
        with st.container(width="content"):
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                options = looking.display(record, site, sentence)
                beside = st.container(width="content")
            head = figures.head(record, site, lab.head, **shown, **options)
            with beside:
                pictures.take_away(head, "head")
            pictures.picture(head, "head", select="cell", on_select=looking.select)
        grid = figures.mask(lab.mask, queries, keys, predicted=_predicted(lab), view=options["view"], **shown)
        with menu:
            pictures.take_away(grid, "mask", "mask")
        with place:
            pictures.picture(grid, "mask", select="cell", on_select=looking.select)
    pictures.cell_in_words(record, site, lab.head, cell, sentence, options["view"])
    left, right = st.columns(2)
    with left:
        pictures.numbers(grid, "mask")
    with right:
        pictures.numbers(head, "head")


def _predicted(lab: Lab):
    """What each row predicts: what the model says; without one that says anything, the next token, as in a decoder."""
    if lab.record.prediction is None:
        return api.predicted(lab.record.sentences[lab.sentence])
    return lab.record.predicted(lab.site, sentence=lab.sentence)
