"""One attention call step by step: every number from tokens to output."""

from functools import partial

import streamlit as st

from attnviz.figures import Figure
from attnviz.sources.base import Source
from attnviz.ui.shared import cache, everything, look, pictures, state, toolbar
from attnviz.ui.shared import words as common
from attnviz.ui.shared.code import python_of_call
from attnviz.ui.shared.look import CELL, QUERY
from attnviz.ui.shared.setting import State
from attnviz.ui.shared.toolbar import Bar
from attnviz.ui.steps import numbers, play, rail, words
from attnviz.ui.steps.play import KNOBS
from attnviz.ui.steps.walked import Walk
from attnviz.walk import Stage


def page(source: Source, lines: tuple[str, ...]) -> None:
    bar = toolbar.bar(source, lines)
    at = bar.at
    with bar.view:
        query = look.query(common.QUERY, at.tokens[0], at.cell, opening=at.roles[1], step=_with_query)
    bar.predict(look.asked_at(at.record, at.site, (query, 0), at.sentence))
    key = at.cell[1] if at.cell else None
    _chain(bar, Walk.of(at, query=query, key=key, knobs=state.get(KNOBS)))


def _with_query(now: State, query: int) -> State:
    """Another query; the key stays."""
    return now.put(QUERY, query).put(CELL, now[CELL] and (query, now[CELL][1]))


def _chain(bar: Bar, at: Walk) -> None:
    every = rail.stages(at)
    chosen = rail.current(every)
    whole = rail.whole(at, every, chosen)
    numbers.asks(at)
    with st.container(horizontal=True, gap="medium"):
        with st.container(width=344, key="overview"):
            rail.rail(whole, every)
        with st.container(width="stretch", key="stage"):
            rail.turn(every, chosen)
            figure = rail.stage(at, every[chosen])
        with st.container(width=316, key="play"):
            _beside(at, every[chosen], figure)
    drawn = {words.SMALL_STEPS: (whole, "rail")} | numbers.in_full(at)
    if figure is not None:
        drawn = {words.THIS_STEP: (figure, "stage")} | drawn
    with bar.export:
        pictures.take_one(drawn, "everything", more=partial(_more, at, tuple(filter(None, (whole, figure)))))


def _more(at: Walk, shown: tuple[Figure, ...]) -> None:
    """The zip of everything, and Python that computes this call and compares it with PyTorch."""
    everything.button(at, shown)
    if at.source.read_only:
        return
    if code := python_of_call(at.record, at.site, at.number, at.sentence, cache.origin):
        st.caption(words.IN_PYTORCH)
        st.code(code, "python", wrap_lines=True, width=560)


def _beside(at: Walk, stage: Stage, figure: Figure | None) -> None:
    """One cell at the chosen step, the step's equation, and, folded, all that can be said of it and tried."""
    with st.container():  # what comes and goes, in a place of its own: what follows stays where it is
        numbers.in_numbers(at, stage)
        rail.explained(stage)
    with pictures.folded(words.TRY, "try changes", at.is_changed) as is_played:
        if is_played:
            play.play(at)
    if figure is not None:
        pictures.numbers(figure, "stage")
