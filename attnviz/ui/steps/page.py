"""One attention call step by step: every number from tokens to output."""

import streamlit as st

from attnviz.core.display import shown
from attnviz.core.edits import Edits, Site
from attnviz.core.record import Record
from attnviz.sources.base import Source
from attnviz.ui.shared import cache, editing, looking, pictures, says, state
from attnviz.ui.shared.looking import CELL
from attnviz.ui.shared.notes import label, quiet
from attnviz.ui.shared.state import State, control
from attnviz.ui.steps import handout, parts, play, rail
from attnviz.ui.steps.base import Walk
from attnviz.ui.steps.play import KNOBS
from attnviz.ui.steps.rail import QUERY


def page(source: Source, lines: tuple[str, ...]) -> None:
    edits_bar = st.container(gap="xsmall")
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        site = looking.site(source, looking.opening_site(source))
        sentence = looking.sentence(lines)
        source = looking.step(source)
        head = looking.focus(source, combined=False)
        place = st.container(width="content")
    with edits_bar:
        edits, said = editing.edits_bar(source, lines)
    record = cache.record(source, lines, edits)
    before = cache.record(source, lines) if edits != Edits() else None
    with place:
        query, key = _query(record, site, sentence)
    with said:
        says.line(record, before, position=says.position(record, site, (query, 0), sentence), sentence=sentence)
    knobs, dark = state.get(KNOBS), looking.is_dark()
    _chain(Walk(source, lines, sentence, site, head, edits, query, key, knobs, dark))


def _query(record: Record, site: Site, sentence: int) -> tuple[int, int | None]:
    """The query that is worked, and the key if a cell is selected."""
    cell = looking.selected(record, site)
    tokens = record.tokens(site, sentence=sentence)[0]
    chosen = cell[0] if cell else state.get(QUERY)
    typed = [i for i, token in enumerate(tokens) if not token.special]
    if chosen is None or chosen >= len(tokens):
        chosen = typed[-1] if typed else 0
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("Query")
        names = [f"{i} · {shown(token.text)}" for i, token in enumerate(tokens)]
        options = {"format_func": names.__getitem__, "label_visibility": "collapsed"}
        st.selectbox("Query", range(len(tokens)), width=170, **options, **control(QUERY, chosen, step=_with_query))
    return chosen, cell[1] if cell else None


def _with_query(now: State, query: int) -> State:
    """Another query; the key stays."""
    return now.put(QUERY, query).put(CELL, now[CELL] and (query, now[CELL][1]))


def _chain(at: Walk) -> None:
    every = rail.stages(at)
    chosen = rail.current(every)
    with st.container(horizontal=True, gap="large", key="steps"):
        with st.container(width=344, key="overview"):
            whole = rail.rail(at, every, chosen)
            quiet("Click a step. Point at a cell: all steps show its number.")
            with st.container(horizontal=True, gap="small"):
                pictures.take_away(whole, "rail", "all steps")
                handout.button(at, every)
        with st.container(width="stretch", key="stage"):
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                rail.turn(every, chosen)
                menu = st.container(width="content")
            figure = rail.stage(at, every[chosen])
            if figure is not None:
                with menu:
                    pictures.take_away(figure, "stage")
                pictures.numbers(figure, "stage")
        with st.container(width=300, key="play"):
            play.play(at)
    parts.parts(at)
