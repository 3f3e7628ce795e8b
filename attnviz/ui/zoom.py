"""Zoom in a large map: *Zoom in* shows a part, breadcrumbs lead back to larger parts, and *Find* goes to a phrase."""

import re

import streamlit as st

from attnviz import analysis
from attnviz.charts.axes import RECTANGLES
from attnviz.core.display import visible_text
from attnviz.core.tokens import occurrences
from attnviz.ui.request import change, now, put
from attnviz.ui.text import label, literal, quiet
from attnviz.ui.toolbar import Context

DEEPEST = 8
"""Maximum number of nested zooms."""
MOST_PLACES = 6
"""Maximum number of occurrences of a phrase that are listed."""
AROUND = 24
"""Characters of context before and after an occurrence."""


def crumbs(context: Context) -> None:
    """Draw breadcrumbs of the zoomed parts and, on a large map, the buttons *Zoom in* and *Find*."""
    windows = now()["zoom"]
    if not windows and max(map(len, context.tokens)) <= RECTANGLES:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        for depth in range(len(windows)):
            title = _part_name(windows[depth - 1]) if depth else "Whole map"
            outer = windows[:depth]
            st.button(title, key=f"crumb {depth}", type="tertiary", on_click=put, kwargs={"zoom": outer})
            label("›")
        if windows:
            label(_part_name(windows[-1]))
        if max(map(len, context.tokens)) > RECTANGLES:
            st.button("Zoom in", icon=":material/zoom_in:", type="tertiary", on_click=_zoom_in, args=(context,))
            _find(context)


def _part_name(window: tuple[int, int, int, int]) -> str:
    top, bottom, left, right = window
    return f"rows {top}–{bottom}, columns {left}–{right}"


def _zoom_in(context: Context) -> None:
    """Zoom in to half the rows and half the columns in view, around the selected cell or the center."""
    sizes = [*map(len, context.tokens)]
    top, bottom, left, right = now()["zoom"][-1] if now()["zoom"] else (0, sizes[0] - 1, 0, sizes[1] - 1)
    center = context.cell or ((top + bottom) // 2, (left + right) // 2)
    spans = [max(RECTANGLES, last - first + 1) // 2 for first, last in ((top, bottom), (left, right))]
    window = _part_around(center, spans, sizes)
    if window not in now()["zoom"]:
        put(zoom=(*now()["zoom"], window)[-DEEPEST:])


def _part_around(cell: tuple[int, int], spans: list[int], sizes: list[int]) -> tuple[int, int, int, int]:
    """Return the first and last row and the first and last column of a part around a cell."""
    firsts = [max(0, min(place - span // 2, size - span)) for place, span, size in zip(cell, spans, sizes, strict=True)]
    lasts = [min(size, first + span) - 1 for first, span, size in zip(firsts, spans, sizes, strict=True)]
    return firsts[0], lasts[0], firsts[1], lasts[1]


def _find(context: Context) -> None:
    """Draw a menu that lists where a phrase occurs in the rows and in the columns; a click goes there."""
    popover = st.popover("Find", icon=":material/search:", on_change="rerun", key="find")
    if not popover.open:
        return
    with popover:
        phrase = st.text_input("Word or phrase", key="phrase", max_chars=200)
        if not phrase.strip():
            quiet("Type a word or a phrase of the text.")
            return
        for side, name in enumerate(("rows", "columns")):
            text = context.record.texts(context.site, sentence=context.sentence)[side].text
            places = list(occurrences(text, context.tokens[side], re.escape(phrase.strip())))
            st.caption(f"{len(places)} among the {name}" + (", the first:" if len(places) > MOST_PLACES else ""))
            for position, _, match in places[:MOST_PLACES]:
                around = text[max(0, match.start() - AROUND) : match.end() + AROUND]
                title = f"{position} · {literal(visible_text(' '.join(around.split())))}"
                st.button(
                    title, key=f"go {side} {position}", type="tertiary", on_click=_go, args=(context, side, position)
                )


def _go(context: Context, side: int, position: int) -> None:
    """Select the strongest cell of a row or a column, and zoom to the part around the cell."""
    step, span = context.record.step(context.site), slice(position, position + 1)
    if side == 0:
        cell = position, int(analysis.strongest(step, context.head, sentence=context.sentence, rows=span)[1][0])
    else:
        weights = analysis.strongest(step, context.head, sentence=context.sentence, columns=span)[0]
        cell = int(weights.argmax()), position
    part = _part_around(cell, [RECTANGLES, RECTANGLES], [*map(len, context.tokens)])
    change(lambda choices: choices.put(cell=cell, zoom=(part,)))
