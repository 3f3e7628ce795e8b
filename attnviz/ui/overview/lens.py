"""A grid of words: what the residual stream would predict after each layer, or what the chosen head pushes."""

import streamlit as st

from attnviz import figures
from attnviz.analysis.lens import stages
from attnviz.core.errors import AttnvizError, TooLong
from attnviz.core.record import Record
from attnviz.figures.lens import MOST_POSITIONS
from attnviz.ui import cache, runs
from attnviz.ui.overview import words
from attnviz.ui.shared import look, pictures, state
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import QUERY
from attnviz.ui.shared.setting import choice, whole
from attnviz.ui.shared.state import control
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.text import block_html, details_html, lead, note, quiet

READINGS = {words.ADDS: "parts", words.THROUGH: "layers", words.WRITES: "head"}
READ = choice("lens", READINGS, words.ADDS, "tab")
ROW = whole("lens-row", 0, 0, 999, "model tab")
"""The row of the chosen cell, counted from the top; its position is `look.QUERY`."""
FROM = whole("lens-from", None, 0, 999_999, "text")
"""A position among those that are seen of a long text; None for the chosen one."""


def _choose(point: dict) -> None:
    row, position = look.cell_of(point)
    state.change(lambda now: now.put(ROW, row).put(QUERY, position))


select = look.clicks("lens", _choose, lambda: state.put(ROW, 0))


def form() -> None:
    """The choice between parts of a logit and a grid of words."""
    control(st.segmented_control, words.LENS, READ, tuple(READINGS), lead="")


def is_grid() -> bool:
    """Whether the grid is chosen."""
    return state.get(READ) != words.ADDS


def words_grid(bar: Toolbar) -> None:
    """The grid, and under it the most probable words of the chosen cell; of a head, those of the model after it."""
    context, is_head = bar.at, state.get(READ) == words.WRITES
    lead(words.WRITES_ASKS if is_head else words.THROUGH_ASKS)
    with runs.beside():
        try:
            record = cache.with_stream(context.source, context.record)
            positions = range(record.read[context.sentence].length)
            position = state.one_of(QUERY, positions, context.position)
            with st.container(horizontal=True, vertical_alignment="center", gap="small", key="lens-row"):
                form()
                columns = _columns(len(positions), position)
            _draw(bar, record, position, columns, is_head)
        except TooLong:
            raise
        except AttnvizError as error:
            note(str(error), "notice")


def _columns(length: int, position: int) -> slice:
    """Positions that are seen, with buttons to those before and after them where there are more."""
    start = position if state.get(FROM) is None else min(state.get(FROM), length - 1)
    first = start // MOST_POSITIONS * MOST_POSITIONS
    stop = min(length, first + MOST_POSITIONS)
    if length > MOST_POSITIONS:
        ways = ((first - MOST_POSITIONS, "chevron_left", words.EARLIER), (stop, "chevron_right", words.LATER))
        for target, icon, title in ways:
            options = {"disabled": target not in range(length), "help": title, "icon": f":material/{icon}:"}
            st.button(title, key=f"icon {icon}", on_click=state.put, args=(FROM, target), **options)
        quiet(words.POSITIONS.format(first=first, last=stop - 1, count=length))
    return slice(first, stop)


def _draw(bar: Toolbar, record: Record, position: int, columns: slice, is_head: bool) -> None:
    context, styled = bar.at, {"sentence": bar.at.sentence, "dark": bar.at.dark}
    last = len(stages(record)) - 1
    row = state.get(ROW) if is_head else min(state.get(ROW), last)
    options = {"columns": columns, "selected": (row, position), "rev": look.rev("lens"), **styled}
    if is_head:
        grid = figures.pushed(record, context.site, context.head, **options)
    else:
        grid = figures.logit_lens(record, **options)
    if is_head or row == 0:
        bars = figures.next_word(record, position, **styled)
    else:
        bars = figures.lens_words(record, position, stage=last - row, **styled)
    shown = {words.GRID: (grid, "lens"), words.PROBABILITIES: (bars, "lens words")}
    pictures.picture(grid, "lens", select="cell", on_select=select)
    pictures.picture(bars, "lens words")
    quiet(words.CLICK_A_WORD)
    with bar.export:
        pictures.take_one(shown, "lens")
    st.html(details_html(common.HOW_COMPUTED, block_html(words.WRITES_IS if is_head else words.THROUGH_IS, "quiet")))
    pictures.numbers_of_one(shown, "lens")
