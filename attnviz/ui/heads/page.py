"""Every head of a site, one of them large in a form of its own, what it does, and what the model says."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import streamlit as st

from attnviz import figures
from attnviz.figures import FORMS, Figure
from attnviz.sources.base import Source
from attnviz.ui.heads import forms, words
from attnviz.ui.shared import cache, edits, everything, findings, look, pictures, runs, says, toolbar, zoom
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.text import label


def page(source: Source, lines: tuple[str, ...]) -> None:
    bar = toolbar.bar(source, lines, combined=True, original="", more=look.display)
    at = bar.at
    with bar.view:
        form = forms.form(at)
        if form == "map":
            zoom.ways(at)
    shown = bar.shown
    if at.asked is None or at.before is not None:  # else the bars beside the map show the next word
        bar.predict()
    else:
        with bar.prediction:
            says.nameless(at)
    is_wide = forms.is_wide(form, at, shown)
    with st.container(horizontal=True, gap="small"):
        left = st.container(width=344 if is_wide else 304, key="overview")
        right = st.container(width="stretch")
    with right:  # first: of a long text each map takes seconds
        place = st.container(horizontal=True, gap="small")
        with place, nullcontext() if forms.whole_map() else st.container(width="content", gap="small"):
            forms.controls(form, at)
            figure, key = forms.figure(form, at, shown), forms.key(form)
            pictures.picture(figure, key, select="cell", on_select=forms.select(form), on_zoom=zoom.asked)
    with left:
        every = _every(form, at, shown, paired=not is_wide)
    with left if is_wide else place, st.container(width="stretch", key="beside"):
        effect = _beside(form, at, shown, is_wide)
    drawn = {words.THIS_HEAD: (figure, key), words.ALL_HEADS: (every, "heads")} | effect
    pictures.numbers_of_one(drawn, key)
    with bar.export:
        pictures.take_one(drawn, key, more=partial(everything.button, at, (figure,)))


def _beside(form: str, at: Look, shown: dict, is_wide: bool) -> dict[str, tuple[Figure, str]]:
    """What the head does, what is selected, what changed; under the thumbnails of a wide map the first stands last."""
    edits.elsewhere(at)
    if not is_wide:
        findings.of_head(at)
    effect = says.panel(at, forms.said(form, at, shown["view"]))
    if is_wide:
        findings.of_head(at)
    return effect


def _every(form: str, at: Look, shown: dict, *, paired: bool) -> Figure:
    """All heads of the site, to choose one and to switch some off."""
    drawn = {"sentence": at.sentence, "view": shown["view"], "domain": shown["domain"], "dark": at.dark}
    drawn |= {"paired": paired, "explained": FORMS[form].has_legend, "focused": at.head, "rev": look.rev("head")}
    drawn |= zoom.framed(at) if "rows" in FORMS[form].takes else {}
    cost = at.cost(at.source.num_heads)
    drawn["cost"] = replace(cost, seconds=cost.seconds / 2)  # of a thumbnail less is asked than of a map
    figure = cache.drawn(figures.heads, at.record, at.site, **drawn)
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False, key="active"):
        label(common.ACTIVE_HEADS)
        edits.active_heads(at)
    with st.container(key="thumbnails"), runs.beside():
        pictures.picture(figure, "heads", select="head", on_select=look.select_head)
        edits.eyes(at, figure.corners)
    return figure
