"""Every head of a site, one of them large in a form of its own, what it does, and what the model says."""

from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import streamlit as st

from attnviz import figures
from attnviz.core.finite import not_finite
from attnviz.core.request import Request
from attnviz.figures import FORMS, Figure
from attnviz.sources.base import Source
from attnviz.ui import cache, runs
from attnviz.ui.heads import blanking, forms, words, writing
from attnviz.ui.shared import edits, everything, findings, look, pictures, says, toolbar, zoom
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import ViewContext
from attnviz.ui.text import label, note


def page(source: Source, request: Request) -> None:
    bar = toolbar.bar(source, request, combined=True, original="", more=look.display)
    context = bar.at
    with bar.view:
        form = forms.form(context)
        if form == "map":
            zoom.ways(context)
    display = bar.display
    if context.prediction_position is None or context.before is not None:
        bar.predict()  # else the bars beside the map show the next word
    else:
        with bar.prediction:
            says.nameless(context)
    is_wide = forms.is_wide(form, context, display)
    with st.container(horizontal=True, gap="small"):
        left = st.container(width=344 if is_wide else 304, key="overview")
        right = st.container(width="stretch")
    with right:  # first: of a long text each map takes seconds
        above = st.container(gap="small")
        place = st.container(horizontal=True, gap="small")
        with place, nullcontext() if forms.whole_map(form) else st.container(width="content", gap="small"):
            forms.controls(form, context, display["view"])
            figure, key = forms.figure(form, context, display), forms.key(form)
            pictures.picture(figure, key, select="cell", on_select=forms.select(form), on_zoom=zoom.zoom_requested)
    with left:
        every = _every(form, figure, context, display, paired=not is_wide)
    beside = (left if is_wide else place).container(width="stretch", key="beside")
    with above if is_wide else beside:
        writing.controls(context)
    with beside:
        if isinstance(figure, figures.patches):
            blanking.controls(context, figure)
        effect = _beside(form, context, display, is_wide)
    exports = {words.THIS_HEAD: (figure, key), words.ALL_HEADS: (every, "heads")} | effect
    pictures.numbers_of_one(exports, key)
    with bar.export:
        pictures.take_one(exports, key, more=partial(everything.button, context, (figure,)))


def _beside(form: str, context: ViewContext, display: dict, is_wide: bool) -> dict[str, tuple[Figure, str]]:
    """Role of the head, selection, effects of changes; under the thumbnails of a wide map the role stands last."""
    edits.elsewhere(context)
    if sentence := not_finite(context.record):
        note(sentence)
    if not is_wide:
        findings.of_head(context)
    effect = says.panel(context, forms.selection_in_words(form, context, display["view"]))
    if is_wide:
        findings.of_head(context)
    return effect


def _every(form: str, shown: Figure, context: ViewContext, display: dict, *, paired: bool) -> Figure:
    """All heads of the site, to choose one and to switch some off; beside a picture they are pictures, too."""
    cost, of_picture = context.cost(context.source.num_heads), {}
    if isinstance(shown, figures.patches) and shown.looks_at_picture:
        of_picture = {name: getattr(shown, name) for name in ("side", "less", "neutral")} | {"chosen": shown.position}
    figure = cache.rendered(
        figures.overlays if of_picture else figures.heads,
        context.record,
        context.site,
        sentence=context.sentence,
        view=display["view"],
        domain=display["domain"],
        dark=context.dark,
        paired=paired,
        explained=FORMS[form].has_legend,
        focused=context.head,
        rev=look.rev("head"),
        cost=replace(cost, seconds=cost.seconds / 2),  # of a thumbnail less is asked than of a map
        **of_picture,
        **(zoom.framed(context) if "rows" in FORMS[form].takes else {}),
    )
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False, key="active"):
        label(common.ACTIVE_HEADS)
        edits.active_heads(context)
    with st.container(key="thumbnails"), runs.beside():
        pictures.picture(figure, "heads", select="head", on_select=look.select_head)
        edits.eyes(context, figure.corners)
    return figure
