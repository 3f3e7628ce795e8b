"""One attention call step by step: every number from tokens to output."""

import streamlit as st

from attnviz.sources.base import Source
from attnviz.ui.shared import everything, look, pictures, state, toolbar
from attnviz.ui.shared.look import CELL, QUERY
from attnviz.ui.shared.setting import State
from attnviz.ui.shared.text import quiet
from attnviz.ui.shared.toolbar import Bar
from attnviz.ui.steps import handout, parts, play, rail
from attnviz.ui.steps.play import KNOBS
from attnviz.ui.steps.walked import Walk


def page(source: Source, lines: tuple[str, ...]) -> None:
    bar = toolbar.bar(source, lines)
    at = bar.at
    with bar.view:
        query = look.query("Query", at.tokens[0], at.cell, step=_with_query)
    bar.predict(look.asked_at(at.record, at.site, (query, 0), at.sentence))
    key = at.cell[1] if at.cell else None
    _chain(bar, Walk(*at.run, at.sentence, at.site, at.head, at.dark, query=query, key=key, knobs=state.get(KNOBS)))


def _with_query(now: State, query: int) -> State:
    """Another query; the key stays."""
    return now.put(QUERY, query).put(CELL, now[CELL] and (query, now[CELL][1]))


def _chain(bar: Bar, at: Walk) -> None:
    every = rail.stages(at)
    chosen = rail.current(every)
    with st.container(horizontal=True, gap="large", key="steps"):
        with st.container(width=344, key="overview"):
            whole = rail.rail(at, every, chosen)
            quiet("Click a step. Point at a cell: all steps show its number. Of vectors, 16 numbers are drawn.")
            with st.container(horizontal=True, gap="small"):
                pictures.take_away(whole, "rail", "all steps")
                handout.button(at, every)
        with st.container(width="stretch", key="stage"):
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                rail.turn(every, chosen)
                menu = st.container(width="content")
            parts.of_cell(at)
            figure = rail.stage(at, every[chosen])
            if figure is not None:
                with menu:
                    pictures.take_away(figure, "stage")
                pictures.numbers(figure, "stage")
            with bar.export:
                everything.menu(at, tuple(filter(None, (whole, figure))))
        with st.container(width=300, key="play"):
            play.play(at)
    parts.parts(at)
