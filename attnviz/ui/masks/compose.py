"""The first tab: the rules, the mask they make, and the weights it causes."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import streamlit as st

from attnviz import analysis, api, figures
from attnviz.analysis.sentences import quoted_token
from attnviz.analysis.views import View, as_tokens
from attnviz.charts.axes import LONGEST_LABEL
from attnviz.ui import cache
from attnviz.ui.masks import added, painting, rulelist, words
from attnviz.ui.masks.lab import Lab
from attnviz.ui.shared import everything, look, mask, pictures, state, toolbar, zoom
from attnviz.ui.shared.look import Cell
from attnviz.ui.shared.setting import Setting, flag, session_setting
from attnviz.ui.shared.state import control
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.text import leads_to, quiet

DRAG: Setting[painting.Drag | None] = session_setting("drag", None)
"""The last drag, of which the browser may say more."""
PAINT = flag("paint", False, "tab")

SIDE, LARGER, LETTERS, LETTER = 350, 390, 14, 8
"""Pixels of a map, so that both stand side by side, right of the rules, on a screen of 1440 pixels, and one where the
weights say no predictions; for how many letters of the longest token and the longest prediction together; and by how
many pixels each letter more narrows both."""


def tab(lab: Lab, bar: Toolbar) -> None:
    with bar.view:
        paint, display = _view(lab)
    part = zoom.part(lab, display["view"])
    default_cell = pictures.default_cell(lab, display["view"], **part)
    options = lab.drawn | {"selected": default_cell}
    zoom.crumbs(lab)
    with st.container(horizontal=True, gap="small"):
        with st.container(width=240, gap="small", key="list"):
            _in_words(lab, display["view"], default_cell)
            rulelist.rules(lab)
            added.controls(lab)
        with st.container(horizontal=True, gap="small", key="maps"):
            options |= {"side": _side(lab), "zooms": True}
            grid = _grid(lab, options, paint, display["view"], part)
            explained = lab.mask is lab.record.step(lab.site).mask  # by the grid beside it
            head = _weights(lab, part, options | display | part | {"explained": explained})
            with st.container(width="content"):
                grid.draw()
            leads_to(words.LEADS_TO)
            with st.container(width="content"):
                head.draw()
    _under(lab, grid.figure, head.figure, bar)


class Drawable(NamedTuple):
    """A picture, and what puts it on the page."""

    figure: figures.Figure
    draw: Callable[[], None]


def _under(lab: Lab, grid: figures.Figure, head: figures.Figure, bar: Toolbar) -> None:
    """Content under both pictures, and the menu that saves them."""
    saved = {words.WEIGHTS: (head, "head"), words.MASK: (grid, "mask")}
    with bar.export:
        pictures.take_one(saved, "head", more=partial(everything.button, lab, (grid, head)))
    added.head_bias(lab)
    pictures.numbers_of_one(saved, "compose")


def _view(lab: Lab) -> tuple[bool, dict[str, object]]:
    """Whether cells are painted, and the display of the maps."""
    paint = control(st.toggle, words.PAINT, PAINT, help=words.PAINT_MEANS)
    display = look.shown_as(lab)
    with st.container(**toolbar.ROW, width="content", key="icon-ways"):  # by their icons: the row is full
        zoom.ways(lab)
    return paint, display


def _in_words(lab: Lab, view: View, default_cell: Cell | None) -> None:
    """The outlined cell in words, the keys left to its query, and the effect of a click."""
    pictures.cell_in_words(lab, view, default_cell)
    left = [] if default_cell is None else [_keys_left(lab, default_cell)]
    quiet(*left, pictures.selecting(lab.cell is not None, default_cell is not None))


def _keys_left(lab: Lab, cell: Cell) -> str:
    """The number of keys left to the query of a cell; of a read-only model also the rules that would block the cell."""
    query, key = cell
    count = int(lab.mask.keys_left(*lab.lengths, sentence=lab.sentence, rows=slice(query, query + 1)))
    token = quoted_token(lab.tokens[0][query].text, query)
    left = words.QUERY_HAS.format(query=token, left=count, keys=lab.lengths[1])
    rules = lab.mask.blocked_by(query, key, sentence=lab.masked) if lab.source.read_only else ()
    return f"{words.RULES_BLOCK.format(rules=' and '.join(rules))} {left}" if rules else left


def _grid(lab: Lab, options: dict[str, Any], paint: bool, view: View, part: dict[str, slice]) -> Drawable:
    """The mask as a picture, on which cells can be painted."""
    brush = paint and view == View()
    mask_options = {"predicted": _predicted(lab), "view": view, "counted": True, "brush": brush}
    mask_options["yours"] = lab.stack.mask()
    predicts = lab.record.prediction is not None
    mask_options |= {"targets": not predicts, "beside": predicts}
    grid = figures.mask(lab.mask, *lab.tokens, **options, **mask_options, **part)
    first = (part["rows"].start, part["columns"].start) if part else (0, 0)
    chosen = _painting(lab, first) if paint else look.select
    clicks = {"select": "cell", "on_select": chosen, "brush": brush, "on_zoom": zoom.zoom_requested}
    return Drawable(grid, partial(pictures.picture, grid, "mask", **clicks))


def _weights(lab: Lab, part: dict[str, slice], options: dict[str, Any]) -> Drawable:
    """The weights under the mask, as a picture."""
    head = cache.rendered(figures.head, lab.record, lab.site, lab.head, cost=lab.cost(**part), **options)
    clicks = {"select": "cell", "on_select": look.select, "on_zoom": zoom.zoom_requested}
    return Drawable(head, partial(pictures.picture, head, "head", **clicks))


def _painting(lab: Lab, first: Cell):
    """Handler of a click or a drag that paints; rows and columns begin at the first visible cell."""

    def flip(point: dict) -> None:
        state.change(mask.put, painting.flipped(lab.stack, look.cell_of(point), sentence=lab.sentence))

    clicked = look.clicks("cell", flip)

    def painted(point: dict | None, drag: dict | None = None) -> None:
        before = state.get(DRAG)
        if drag and (before is None or before.over != drag):
            stroke = painting.dragged(lab.stack, drag, before, lab.sentence, first)
            state.put(DRAG, stroke)
            state.change(mask.amended if stroke.goes_on else mask.put, stroke.stack)
        else:
            clicked(point)
        if not drag:
            state.put(DRAG, None)

    return painted


def _side(lab: Lab) -> int:
    """Pixels of each map, by how much of the row its labels take."""
    parts = lab.tokens[0], as_tokens(_predicted(lab) or ())
    letters = sum(min(LONGEST_LABEL, max((len(token.text) for token in part), default=0)) for part in parts)
    side = LARGER if lab.record.prediction is None else SIDE
    return side - LETTER * max(0, letters - LETTERS)


def _predicted(lab: Lab):
    """Prediction of each row: the model's; of random weights the next token; None where it is unknown."""
    if lab.record.vectors is not None or lab.record.labels is not None or analysis.fills_in(lab.record):
        return None
    if lab.record.prediction is None:  # of random weights, as in a decoder; of a file nothing is known
        return api.predicted(lab.record.sentences[lab.sentence]) if "sos" in lab.source.settings() else None
    return lab.record.predicted(lab.site, sentence=lab.sentence)
