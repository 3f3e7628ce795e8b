"""The mask beside the weights it causes."""

import streamlit as st

from attnviz import api, figures
from attnviz.core.edits import Edits
from attnviz.core.masks import Full
from attnviz.ui import cache, editing, inputs, looking, pictures, says, state


def page() -> None:
    body(*inputs.input_bar())


@st.fragment
def body(source, lines) -> None:
    source = looking.step(looking.with_sos(source))
    decodes = any(site.kind == "decoder" for site in source.sites)  # then it has a mask of its own to show
    with st.container(gap="xsmall"):
        edits, said = editing.edits_bar(source, lines, rules=() if decodes else ("subsequent",))
    record = pictures.run(source, lines, edits)
    before = cache.record(source, lines) if edits != Edits() else None
    dark = looking.is_dark()
    with st.container(horizontal=True, gap="large"):
        with st.container(width="content"):
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                site = looking.site(source, looking.masked_site(source))
                sentence = looking.sentence(lines)
                menu = st.container(width="content")
            cell = looking.selected(record, site)
            queries, keys = record.tokens(site, sentence=sentence)
            mask = record.step(site).mask or Full()
            place = st.container()
        with st.container(width="content"):
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                focus = looking.focus(source)
                options = looking.display(record, site, sentence)
                beside = st.container(width="content")
            shown = {"sentence": sentence, "selected": cell, "dark": dark, "rev": looking.rev("cell")}
            head = figures.head(record, site, focus, **shown, **options)
            with beside:
                pictures.take_away(head, "head")
            pictures.picture(head, "head", select="cell", on_select=looking.select)
        predicted = _predicted(record, site, sentence)
        grid = figures.mask(mask, queries, keys, predicted=predicted, view=options["view"], **shown)
        with menu:
            pictures.take_away(grid, "mask", "mask")
        with place:
            pictures.picture(grid, "mask", select="cell", on_select=looking.select)
    with said:
        says.line(record, before, position=says.position(record, site, cell, sentence), sentence=sentence)
    pictures.cell_in_words(record, site, focus, cell, sentence, options["view"])
    left, right = st.columns(2)
    with left:
        pictures.numbers(grid, "mask")
    with right:
        pictures.numbers(head, "head")
    state.write_link()


def _predicted(record, site, sentence: int):
    """What each row predicts: what the model says; without one that says anything, the next token, as in a decoder."""
    if record.prediction is None:
        return api.predicted(record.sentences[sentence])
    return record.predicted(site, sentence=sentence)
