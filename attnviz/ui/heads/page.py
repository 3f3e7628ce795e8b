"""Every head of a site, one of them large as a map, as lines or as a text, what it does, and what the model says."""

import streamlit as st

from attnviz import figures
from attnviz.core.edits import Edits
from attnviz.sources.base import Source
from attnviz.ui.heads import forms as choice
from attnviz.ui.shared import cache, editing, effects, findings, looking, pictures, says


def page(source: Source, lines: tuple[str, ...]) -> None:
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
    record = cache.record(source, lines, edits)
    before = cache.record(source, lines) if edits != Edits() else None
    with right, st.container(horizontal=True, vertical_alignment="center", gap="small"):
        focus = looking.focus(source)
        form = choice.form()
        options = looking.display(record, site, sentence, form=form)
        menu = st.container(width="content")
    cell = looking.selected(record, site)
    shown = {"sentence": sentence, "dark": looking.is_dark(), "domain": options["domain"], "view": options["view"]}
    with said:
        says.line(record, before, position=says.position(record, site, cell, sentence), sentence=sentence)
    with overview:
        every = cache.drawn(figures.heads, record, site, focused=focus, rev=looking.rev("head"), **shown)
        pictures.picture(every, "heads", select="head", on_select=looking.select_head)
        editing.heads_on(source, site)
        pictures.take_away(every, "heads", "all heads")
        pictures.numbers(every, "heads")
    with right:
        choice.controls(form, source, site, focus)
        shown |= options
        head, key = choice.figure(form, record, site, focus, cell, source, shown), choice.KEYS[form]
        with menu:
            pictures.take_away(head, key)
        with st.container(horizontal=True, gap="medium"):
            pictures.picture(head, key, select="cell", on_select=choice.select(form))
            with st.container(width="stretch", key="beside"):
                findings.of_head(source, site, focus)
                choice.said(form, record, site, focus, cell, shown)
                effects.panel(record, before, site, cell, sentence)
        pictures.numbers(head, key)
