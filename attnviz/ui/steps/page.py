"""One attention call step by step: every number from tokens to output."""

from contextlib import nullcontext
from functools import partial

import streamlit as st

from attnviz.figures import Figure
from attnviz.sources.base import Source
from attnviz.ui.shared import everything, look, pictures, state, toolbar
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import CELL, QUERY
from attnviz.ui.shared.setting import State
from attnviz.ui.shared.text import quiet
from attnviz.ui.shared.toolbar import Bar
from attnviz.ui.steps import handout, parts, play, rail, words
from attnviz.ui.steps.play import KNOBS
from attnviz.ui.steps.walked import Walk
from attnviz.walk import Stage


def page(source: Source, lines: tuple[str, ...]) -> None:
    bar = toolbar.bar(source, lines)
    at = bar.at
    with bar.view:
        query = look.query(common.QUERY, at.tokens[0], at.cell, step=_with_query)
    bar.predict(look.asked_at(at.record, at.site, (query, 0), at.sentence))
    key = at.cell[1] if at.cell else None
    _chain(bar, Walk(*at.run, at.sentence, at.site, at.head, at.dark, query=query, key=key, knobs=state.get(KNOBS)))


def _with_query(now: State, query: int) -> State:
    """Another query; the key stays."""
    return now.put(QUERY, query).put(CELL, now[CELL] and (query, now[CELL][1]))


def _chain(bar: Bar, at: Walk) -> None:
    every = rail.stages(at)
    chosen = rail.current(every)
    whole = rail.whole(at, every, chosen)
    phone = look.room() is not None
    if not phone:
        with st.container(key="result"):
            parts.of_cell(at)
    with st.container(horizontal=not phone, gap="small" if phone else "large", key="steps"):
        with st.container(width="stretch" if phone else 344, key="overview"):
            _all_steps(at, whole, every)
        with st.container(width="stretch", key="stage"):
            figure = _one_step(at, every, chosen)
            if phone:  # the picture is what it shows first
                parts.of_cell(at)
        tried = pictures.part(words.TRY, "try changes", at.is_changed)
        with st.container(width="stretch" if phone else 300, key="play"), tried as is_open:
            if is_open:
                play.play(at)
    with bar.export:
        everything.menu(at, tuple(filter(None, (whole, figure))), partial(handout.button, at, every))
    parts.parts(at)


def _all_steps(at: Walk, whole: Figure, every: tuple[Stage, ...]) -> None:
    """The rail of all steps, and what of them can be exported."""
    with pictures.part(words.ALL_STEPS.format(count=len(every)), "all steps", titled=False) as is_open:
        if is_open:
            rail.rail(whole, every)
            quiet(words.CLICK_A_STEP)
    pictures.take_away(whole, "rail", words.SMALL_STEPS)


def _one_step(at: Walk, every: tuple[Stage, ...], chosen: int) -> Figure | None:
    """The chosen step, large."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        rail.turn(every, chosen)
        menu = None if look.room() else st.container(width="content")
    figure = rail.stage(at, every[chosen])
    if figure is not None:
        with menu or nullcontext():
            pictures.take_away(figure, "stage")
        pictures.numbers(figure, "stage")
    return figure
