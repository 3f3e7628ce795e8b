"""Every head of a site, one of them large as a map, as lines or as a text, what it does, and what the model says."""

import streamlit as st

from attnviz import figures
from attnviz.sources.base import Source
from attnviz.ui.heads import forms
from attnviz.ui.shared import cache, edits, findings, look, pictures, says, toolbar
from attnviz.ui.shared.look import Look


def page(source: Source, lines: tuple[str, ...]) -> None:
    bar = toolbar.bar(source, lines, combined=True)
    at = bar.at
    with bar.view:
        form = forms.form()
        shown = look.display(at, form)
    bar.predict()
    with st.container(horizontal=True, gap="medium"):
        left, right = st.container(width=344, key="overview"), st.container(width="stretch")
    with left:
        _every(at, shown)
    with right:
        forms.controls(form, at)
        figure, key = forms.figure(form, at, shown), forms.KEYS[form]
        with bar.export:
            pictures.take_away(figure, key)
        with st.container(horizontal=True, gap="medium"):
            pictures.picture(figure, key, select="cell", on_select=forms.select(form))
            with st.container(width="stretch", key="beside"):
                findings.of_head(at.source, at.site, at.head)
                forms.said(form, at, shown["view"])
                says.panel(at)
        pictures.numbers(figure, key)


def _every(at: Look, shown: dict) -> None:
    """All heads of the site, to choose one and to switch some off."""
    drawn = {"sentence": at.sentence, "dark": at.dark, "domain": shown["domain"], "view": shown["view"]}
    figure = cache.drawn(figures.heads, at.record, at.site, focused=at.head, rev=look.rev("head"), **drawn)
    pictures.picture(figure, "heads", select="head", on_select=look.select_head)
    edits.heads_on(at.source, at.site)
    pictures.take_away(figure, "heads", "all heads")
    pictures.numbers(figure, "heads")
