"""One attention call step by step: every number from tokens to output."""

import streamlit as st

from attnviz.core.display import shown
from attnviz.core.edits import Edits, Site
from attnviz.core.record import Record
from attnviz.ui import cache, editing, inputs, looking, pictures, says
from attnviz.ui.notes import label, quiet
from attnviz.ui.steps import changes, handout, parts, play, rail
from attnviz.ui.steps.base import Walk


def page() -> None:
    body(*inputs.input_bar())


@st.fragment
@pictures.one_sentence()
def body(source, lines) -> None:
    if st.session_state.pop("model changed", False):
        st.rerun()  # the model is chosen outside of this fragment
    source = changes.applied(source, lines)
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
    at = Walk(source, lines, sentence, site, head, edits, query, key, st.session_state["knobs"], looking.is_dark())
    _chain(at)


def _query(record: Record, site: Site, sentence: int) -> tuple[int, int | None]:
    """The query that is worked, and the key if a cell is selected."""
    cell = looking.selected(record, site)
    tokens = record.tokens(site, sentence=sentence)[0]
    chosen = cell[0] if cell else st.session_state["query"]
    typed = [i for i, token in enumerate(tokens) if not token.special]
    if chosen is None or chosen >= len(tokens):
        chosen = typed[-1] if typed else 0
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        label("Query")
        st.session_state["query chosen"] = chosen
        names = [f"{i} · {shown(token.text)}" for i, token in enumerate(tokens)]
        options = {"format_func": names.__getitem__, "on_change": _choose, "label_visibility": "collapsed"}
        st.selectbox("Query", range(len(tokens)), key="query chosen", width=170, **options)
    return chosen, cell[1] if cell else None


def _choose() -> None:
    """Another query; the key stays."""
    st.session_state["query"], cell = st.session_state["query chosen"], st.session_state["cell"]
    st.session_state["cell"] = cell and (st.session_state["query"], cell[1])


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
