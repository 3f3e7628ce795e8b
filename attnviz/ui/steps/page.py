"""One attention call step by step: every number from tokens to output."""

from functools import partial

import streamlit as st

from attnviz.analysis.steps import Stage
from attnviz.core.request import Request
from attnviz.figures import Figure
from attnviz.sources.base import Source
from attnviz.ui import cache
from attnviz.ui.shared import everything, look, pictures, toolbar
from attnviz.ui.shared import words as common
from attnviz.ui.shared.code import python_of_call
from attnviz.ui.shared.look import CELL, QUERY
from attnviz.ui.shared.setting import State
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.steps import numbers, rail, words
from attnviz.ui.steps.scores import scores
from attnviz.ui.steps.view import StepsView


def page(source: Source, request: Request) -> None:
    bar = toolbar.bar(source, request)
    context = bar.at
    with bar.view:
        query = look.query(common.QUERY, context.tokens[0], context.cell, opening=context.roles[1], step=_with_query)
    bar.predict(look.asked_at(context.record, context.site, (query, 0), context.sentence))
    key = context.cell[1] if context.cell else None
    _chain(bar, StepsView.of(context, query=query, key=key))


def _with_query(now: State, query: int) -> State:
    """Another query; the key stays."""
    return now.put(QUERY, query).put(CELL, now[CELL] and (query, now[CELL][1]))


def _chain(bar: Toolbar, context: StepsView) -> None:
    every = rail.stages(context)
    chosen = rail.current(every)
    whole = rail.whole(context, every, chosen)
    numbers.asks(context)
    with st.container(horizontal=True, gap="medium"):
        with st.container(width=344, key="overview"):
            rail.rail(whole, every)
        with st.container(width="stretch", key="stage"):
            rail.turn(every, chosen)
            figure = rail.stage(context, every[chosen])
        with st.container(width=316, key="one-cell"):
            _beside(context, every[chosen], figure)
    exports = {words.SMALL_STEPS: (whole, "rail")} | numbers.in_full(context)
    if figure is not None:
        exports = {words.THIS_STEP: (figure, "stage")} | exports
    with bar.export:
        pictures.take_one(exports, "everything", more=partial(_more, context, tuple(filter(None, (whole, figure)))))


def _more(context: StepsView, figures: tuple[Figure, ...]) -> None:
    """The zip of everything, and Python that computes this call and compares it with PyTorch."""
    everything.button(context, figures)
    if context.source.read_only:
        return
    if code := python_of_call(context.record, context.site, context.number, context.sentence, cache.maker):
        st.caption(words.IN_PYTORCH)
        st.code(code, "python", wrap_lines=True, width=560)


def _beside(context: StepsView, stage: Stage, figure: Figure | None) -> None:
    """One cell at the chosen step, the step's equation, and, folded, all that can be said of it and tried."""
    with st.container():  # what comes and goes, in a place of its own: what follows stays where it is
        numbers.in_numbers(context, stage)
        rail.explained(stage)
    is_changed = context.edits.temperature != 1 or context.edits.scale is not None
    with pictures.folded(words.SCORES, "temperature and scale", is_changed) as is_open:
        if is_open:
            scores(context)
    if figure is not None:
        pictures.numbers(figure, "stage")
