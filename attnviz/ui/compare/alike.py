"""This head against all others of its kind, on the sentence at hand."""

import streamlit as st

from attnviz import figures, words
from attnviz.core.edits import KINDS, Site
from attnviz.core.record import Record
from attnviz.metrics import alike
from attnviz.ui.shared import cache, looking, pictures, state
from attnviz.ui.shared.notes import heading, in_words, quiet
from attnviz.ui.shared.state import control

ASKED = state.kept("compare heads", False)

AT_ONCE, MOST_WORK = 40_000_000, 400_000_000
"""Heads x heads x cells of a map that take two seconds, and half a minute: the first at once, the others if asked."""


@cache.kept
def _divergences(record: Record, kind: str, sentence: int) -> alike.Divergences:
    return alike.divergences(record, kind, sentence)


def panel(record: Record, site: Site, head: int | str, sentence: int) -> None:
    """A matrix under a tree, and a map; a click shows a head."""
    heading("This head against all others")
    steps = [step for step in record.steps if step.site.kind == site.kind]
    heads = sum(step.num_heads for step in steps)
    if heads < 2:
        quiet("There is no other head of this kind.")
        return
    if (work := heads**2 * max(step.shape[2] * step.shape[3] for step in steps)) > MOST_WORK:
        quiet(f"{heads} heads of {steps[0].shape[2]:,} tokens are too many to compare here ({work:,} pairs of cells).")
        return
    if work > AT_ONCE and not st.toggle(f"Compare all {heads} heads: this takes some seconds", **control(ASKED)):
        return
    with st.spinner(f"Comparing {heads} heads …", show_time=True):
        found = _divergences(record, site.kind, sentence)
    if len(found.heads) < 2:
        quiet("No two heads have a row in common in which both look at something.")
        return
    focused = (site, head) if (site, head) in found.heads else None
    if focused:
        in_words(words.alike(found, *focused))
    quiet("Heads are called by their layer and number. Click one to compare it.")
    drawn = {"focused": focused, "dark": looking.is_dark(), "rev": looking.rev("head")}
    each = (("alike", figures.compare.alike, "heads matrix"), ("alike map", figures.compare.alike_map, "heads map"))
    with st.container(horizontal=True, gap="large"):
        for key, make, what in each:
            with st.container(width="content"):
                figure = make(record, found, **drawn)
                pictures.picture(figure, key, select="head", on_select=_select)
                pictures.take_away(figure, key, what)
                pictures.numbers(figure, key)


def _select(point: dict | None) -> None:
    if point is not None and looking.counted(point, "head") and point["kind"] in KINDS:
        looking.look_at(Site(str(point["kind"]), int(point["layer"])), int(point["head"]))
