"""The first tab: the rules, the mask they make, and the weights it causes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from attnviz import api, figures, metrics
from attnviz.charts.axes import LONGEST_LABEL
from attnviz.core.masks import ALIGNMENTS
from attnviz.ui.masks import added, boxes, explain, painting, rulelist, words
from attnviz.ui.masks.lab import Lab
from attnviz.ui.shared import cache, everything, look, mask, pictures, state, toolbar, zoom
from attnviz.ui.shared.look import Cell
from attnviz.ui.shared.setting import Setting, kept
from attnviz.ui.shared.state import control
from attnviz.ui.shared.text import leads_to, quiet
from attnviz.ui.shared.toolbar import Bar
from attnviz.views import View, as_tokens

DRAG: Setting[painting.Drag | None] = kept("drag", None)
"""The last drag, of which the browser may say more."""
PAINT = kept("paint", False)
OTHER, QUERIES = kept("other lengths", False), kept("number of queries", None)
ALIGNMENT = kept("alignment of the grid", ALIGNMENTS[0])

SIDE, LARGER, LETTERS, LETTER = 350, 390, 14, 8
"""Pixels of a map, so that both stand side by side, right of the rules, on a screen of 1440 pixels, and one where the
weights say no predictions; for how many letters of the longest token and the longest prediction together; and by how
many pixels each letter more narrows both."""


def tab(lab: Lab, bar: Bar) -> None:
    with bar.view:
        paint, lengths, shown = _view(lab)
    part = zoom.part(lab, shown["view"])
    told = pictures.told(lab, shown["view"], **part)
    drawn = lab.drawn | {"selected": told}
    zoom.crumbs(lab)
    with st.container(horizontal=True, gap="small", key="compose"):
        with st.container(width=240, gap="small", key="list"):
            rulelist.known(lab)
            _in_words(lab, shown["view"], told)
            _rules(lab)
        with st.container(horizontal=True, gap="small", key="maps"):
            drawn |= {"side": _side(lab), "zooms": True}
            grid = _other_grid(lab, *lengths) if lengths else _grid(lab, drawn, paint, shown["view"], part)
            explained = not lengths and lab.mask is lab.record.step(lab.site).mask  # by the grid beside it
            head = _weights(lab, part, drawn | shown | part | {"explained": explained})
            with st.container(width="content"):
                grid.draw()
            leads_to(words.LEADS_TO)
            with st.container(width="content"):
                head.draw()
    _under(lab, grid.figure, head.figure, told, bar)


class Made(NamedTuple):
    """A picture, and what puts it on the page."""

    figure: figures.Figure
    draw: Callable[[], None]


def _under(lab: Lab, grid: figures.Figure, head: figures.Figure, told: Cell | None, bar: Bar) -> None:
    """What stands under both pictures, and the menu that saves them."""
    saved = {words.WEIGHTS: (head, "head"), words.MASK: (grid, "mask")}
    with bar.export:
        pictures.take_one(saved, "head", more=partial(everything.button, lab, (grid, head)))
    explain.explained(lab, told)
    added.shown(lab)
    boxes.table(lab)
    pictures.numbers_of_one(saved, "compose")


def _view(lab: Lab) -> tuple[bool, tuple[int, str] | None, dict[str, object]]:
    """Whether cells are painted, another number of queries, and how maps are shown."""
    paint = control(st.toggle, words.PAINT, PAINT, help=words.PAINT_MEANS)
    lengths, shown = _other_lengths(lab), look.shown_as(lab)
    with st.container(**toolbar.ROW, width="content", key="icon-ways"):  # by their icons: the row is full
        zoom.ways(lab)
    return paint, lengths, shown


def _rules(lab: Lab) -> None:
    """What the mask is made of."""
    rulelist.rules(lab)
    added.controls(lab)


def _in_words(lab: Lab, view: View, told: Cell | None) -> None:
    """What the outlined cell says, how many keys its query has left, and what a click does."""
    pictures.cell_in_words(lab, view, told)
    left = [] if told is None else [explain.left(lab, told)]
    quiet(*left, pictures.selecting(lab.cell is not None, told is not None))


def _grid(lab: Lab, drawn: dict[str, Any], paint: bool, view: View, part: dict[str, slice]) -> Made:
    """The mask as a picture, on which cells can be painted."""
    brush = paint and view == View()
    shown = {"predicted": _predicted(lab), "view": view, "counted": True, "brush": brush}
    says = lab.record.prediction is not None
    shown |= {"targets": not says, "beside": says}
    grid = figures.mask(lab.mask, *lab.tokens, **drawn, **shown, **part)
    first = (part["rows"].start, part["columns"].start) if part else (0, 0)
    chosen = _painting(lab, first) if paint else look.select
    clicks = {"select": "cell", "on_select": chosen, "brush": brush, "on_zoom": zoom.asked}
    return Made(grid, partial(pictures.picture, grid, "mask", **clicks))


def _weights(lab: Lab, part: dict[str, slice], seen: dict[str, Any]) -> Made:
    """What becomes of the weights, as a picture."""
    head = cache.drawn(figures.head, lab.record, lab.site, lab.head, cost=lab.cost(**part), **seen)
    clicks = {"select": "cell", "on_select": look.select, "on_zoom": zoom.asked}
    return Made(head, partial(pictures.picture, head, "head", **clicks))


def _other_grid(lab: Lab, count: int, alignment: str) -> Made:
    """The mask with another number of queries."""
    queries, keys = lab.tokens
    some = queries[:count] if alignment == ALIGNMENTS[0] else queries[len(queries) - count :]
    aligned = lab.mask.aligned(count, len(keys), alignment)
    grid = figures.mask(aligned, some, keys, sentence=lab.sentence, dark=lab.dark, counted=True)

    def draw() -> None:
        pictures.picture(grid, "mask")
        quiet(words.ALIGNED.format(queries=count, keys=len(keys), alignment=alignment))

    return Made(grid, draw)


def _painting(lab: Lab, first: Cell):
    """What a click or a drag does to the rules; bands are numbered from the first cell that is seen."""

    def flip(point: dict) -> None:
        state.change(mask.put, painting.flipped(lab.stack, look.cell_of(point), sentence=lab.sentence))

    clicked = look.clicks("cell", flip)

    def painted(point: dict | None, drag: dict | None = None) -> None:
        before = state.get(DRAG)
        if drag and (before is None or before.over != drag):
            made = painting.dragged(lab.stack, drag, before, lab.sentence, first)
            state.put(DRAG, made)
            state.change(mask.amended if made.goes_on else mask.put, made.stack)
        else:
            clicked(point)
        if not drag:
            state.put(DRAG, None)

    return painted


def _other_lengths(lab: Lab) -> tuple[int, str] | None:
    """Another number of queries than there are, and how they are aligned; None for those that there are."""
    queries, keys = lab.lengths
    if lab.site.kind == "cross" or keys < 2:
        return None
    with st.popover(words.LENGTHS, icon=":material/straighten:"):
        other = control(st.toggle, words.OTHER_QUERIES, OTHER)
        st.caption(words.FOR_THE_GRID)
        count = state.one_of(QUERIES, range(1, queries + 1), max(1, queries // 2))
        control(st.number_input, words.QUERIES, QUERIES, 1, queries, shown=count, disabled=not other)
        options = {"disabled": not other, "help": words.FIRST_QUERY_MEANS}
        alignment = control(st.segmented_control, words.FIRST_QUERY, ALIGNMENT, ALIGNMENTS, **options)
    return (count, alignment) if other else None


def _side(lab: Lab) -> int:
    """Pixels of each map, by how much of the row its labels take."""
    parts = lab.tokens[0], as_tokens(_predicted(lab) or ())
    letters = sum(min(LONGEST_LABEL, max((len(token.text) for token in part), default=0)) for part in parts)
    side = LARGER if lab.record.prediction is None else SIDE
    return side - LETTER * max(0, letters - LETTERS)


def _predicted(lab: Lab):
    """What each row predicts: what the model says; of random weights the next token; None where it is not known."""
    if lab.record.vectors is not None or lab.record.labels is not None or metrics.fills_in(lab.record):
        return None
    if lab.record.prediction is None:  # of random weights, as in a decoder; of a file nothing is known
        return api.predicted(lab.record.sentences[lab.sentence]) if "sos" in lab.source.settings() else None
    return lab.record.predicted(lab.site, sentence=lab.sentence)
