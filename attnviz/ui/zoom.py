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


def breadcrumbs(context: Context) -> None:
    """Draw buttons for the larger parts around the part in view and, on a large map, *Zoom in* and *Find*.

    A part is (first row, last row, first column, last column); the choice "zoom" has the nested parts, outermost first.
    """
    parts, is_large = now()["zoom"], max(map(len, context.tokens)) > RECTANGLES
    if not parts and not is_large:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="xsmall"):
        titles = ["Whole map"]
        titles += [f"rows {top}–{bottom}, columns {left}–{right}" for top, bottom, left, right in parts]
        for depth, title in enumerate(titles[:-1]):
            st.button(title, key=f"crumb {depth}", type="tertiary", on_click=put, kwargs={"zoom": parts[:depth]})
            label("›")
        if parts:
            label(titles[-1])
        if is_large:
            st.button("Zoom in", icon=":material/zoom_in:", type="tertiary", on_click=_zoom_in, args=(context,))
            _find(context)


def _zoom_in(context: Context) -> None:
    """Zoom in to half the rows and half the columns in view, around the selected cell or the center."""
    parts = now()["zoom"]
    queries, keys = map(len, context.tokens)
    top, bottom, left, right = parts[-1] if parts else (0, queries - 1, 0, keys - 1)
    center = context.cell or ((top + bottom) // 2, (left + right) // 2)
    rows, columns = bottom - top + 1, right - left + 1
    part = _part_around(context, center, max(RECTANGLES, rows) // 2, max(RECTANGLES, columns) // 2)
    if part not in parts:
        put(zoom=(*parts, part)[-DEEPEST:])


def _part_around(context: Context, cell: tuple[int, int], rows: int, columns: int) -> tuple[int, int, int, int]:
    """Return the part of the map with this number of rows and columns, and the cell as near its center as possible."""
    queries, keys = map(len, context.tokens)
    top = max(0, min(cell[0] - rows // 2, queries - rows))
    left = max(0, min(cell[1] - columns // 2, keys - columns))
    return top, min(queries, top + rows) - 1, left, min(keys, left + columns) - 1


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
            matches = list(occurrences(text, context.tokens[side], re.escape(phrase.strip())))
            more = ", the first:" if len(matches) > MOST_PLACES else ""
            st.caption(f"{len(matches)} among the {name}{more}")
            for position, _, match in matches[:MOST_PLACES]:
                excerpt = text[max(0, match.start() - AROUND) : match.end() + AROUND]
                title = f"{position} · {literal(visible_text(' '.join(excerpt.split())))}"
                action = {"on_click": _go, "args": (context, side, position)}
                st.button(title, key=f"go {side} {position}", type="tertiary", **action)


def _go(context: Context, side: int, position: int) -> None:
    """Select the strongest cell of a row (side 0) or a column (side 1), and zoom to the part around the cell."""
    step, one_position = context.record.step(context.site), slice(position, position + 1)
    if side == 0:
        _, (column,) = analysis.strongest(step, context.head, sentence=context.sentence, rows=one_position)
        cell = position, int(column)
    else:
        weights, _ = analysis.strongest(step, context.head, sentence=context.sentence, columns=one_position)
        cell = int(weights.argmax()), position
    part = _part_around(context, cell, RECTANGLES, RECTANGLES)
    change(lambda choices: choices.put(cell=cell, zoom=(part,)))
