"""Every head of the model at once, by its layer or by a number, and what each may be for."""

import streamlit as st

from attnviz.sources.base import Source
from attnviz.ui.overview import every, numbers, reach, tables, texts
from attnviz.ui.shared import cache, edits, look, says
from attnviz.ui.shared.look import Look
from attnviz.ui.shared.text import heading


def page(source: Source, lines: tuple[str, ...]) -> None:
    with st.container(gap="xsmall"):
        changed, said = edits.edits_bar(source, lines)
    source = look.step(source)
    site, head = every.framed(source, cache.record(source, lines, changed))
    at = Look(source, lines, changed, look.sentence(lines), site, head)
    with said:
        says.line(at, look.asked_at(at.record, look.opening_site(source), None, at.sentence))
    bar = st.container(horizontal=True, vertical_alignment="center", gap="small")
    with st.container(horizontal=True, gap="medium"):
        place, beside = st.container(width="content"), st.container(width="stretch", key="beside")
    known, order = every.maps(at, bar, place)
    with beside:
        tables.of_head(at, known)
    heading("When a head is off")
    numbers.switch_each_off(at, known)
    heading("All numbers of this text")
    tables.all_heads(known, order)
    every.against(at, known)
    heading("Over many texts")
    texts.over_many_texts(at)
    heading("What reaches what")
    reach.reach(at)
