"""This head against all others of its kind, on the sentence at hand."""

import streamlit as st

from attnviz import figures
from attnviz import words as sentences
from attnviz.core.display import as_sentence
from attnviz.core.edits import KINDS, Site
from attnviz.figures.alike import MAP_SAYS, MEASURE, TREE_SAYS
from attnviz.metrics import alike
from attnviz.metrics.alike import Divergences
from attnviz.ui.compare import words
from attnviz.ui.shared import cache, look, pictures
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.setting import kept
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import heading, in_words, quiet

ASKED = kept("compare heads", False)

AT_ONCE, MOST_WORK = 40_000_000, 400_000_000
"""Heads x heads x cells of a map that take two seconds, and half a minute: the first at once, the others if asked."""


_divergences = cache.kept(alike.divergences)


def panel(at: Look) -> None:
    """This head beside all others of its kind."""
    heading(words.ALL_OTHERS)
    _others(at)


def _others(at: Look) -> None:
    """A matrix under a tree, and a map; a click shows a head."""
    steps = [step for step in at.record.steps if step.site.kind == at.site.kind]
    heads = sum(step.num_heads for step in steps)
    if heads < 2:
        quiet(words.ONLY_HEAD)
        return
    if (work := heads**2 * max(step.shape[2] * step.shape[3] for step in steps)) > MOST_WORK:
        quiet(words.TOO_MANY.format(heads=heads, tokens=steps[0].shape[2], pairs=work))
        return
    if work > AT_ONCE and not control(st.toggle, words.COMPARE_ALL.format(heads=heads), ASKED):
        return
    with st.spinner(words.COMPARING.format(heads=heads), show_time=True):
        found = _divergences(at.record, at.site.kind, at.sentence)
    if len(found.heads) < 2:
        quiet(words.NOTHING_IN_COMMON)
        return
    _found(at, found)


def _found(at: Look, found: Divergences) -> None:
    """The matrix and the map, what they show, and folded how they are computed."""
    focused = (at.site, at.head) if (at.site, at.head) in found.heads else None
    if focused:
        in_words(sentences.alike(found, *focused))
    quiet(words.HEAD_NAMES)
    drawn = {"focused": focused, "dark": at.dark, "rev": look.rev("head")}
    each = (
        ("alike", figures.alike, words.MATRIX, words.MATRIX_MEANS),
        ("alike map", figures.alike_map, words.DOTS, words.DOTS_MEAN),
    )
    with st.container(horizontal=True, gap="large"):
        for key, make, what, means in each:
            with st.container(width="content"):
                quiet(means)
                figure = make(at.record, found, **drawn)
                pictures.show(figure, key, what, table=True, select="head", on_select=_select)
    with pictures.folded(common.HOW_COMPUTED, key="how alike") as is_open:
        if is_open:
            quiet(" ".join(map(as_sentence, (MEASURE, TREE_SAYS, MAP_SAYS))))


def _show(point: dict) -> None:
    if point["kind"] in KINDS:
        look.look_at(Site(str(point["kind"]), int(point["layer"])), int(point["head"]))


_select = look.clicks("head", _show)
