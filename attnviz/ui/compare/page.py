"""A and B: two maps that differ in one thing, what moved and what both predict; and the heads unlike that of A."""

from collections.abc import Callable
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz import figures
from attnviz.analysis import sentences
from attnviz.analysis.align import AlignedPair, Side, apart, beside
from attnviz.analysis.heads import farthest
from attnviz.analysis.views import View
from attnviz.charts.axes import notes_on
from attnviz.charts.size import size_beside
from attnviz.core.display import as_sentence
from attnviz.core.errors import AttnvizError
from attnviz.core.record import ALL
from attnviz.core.request import Request
from attnviz.figures.difference import MEASURE, TILES
from attnviz.sources import estimate
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate
from attnviz.ui import cache, runs
from attnviz.ui.compare import other, predictions, taking, unmoved, words
from attnviz.ui.shared import everything, look, pictures, pretrained, toolbar, zoom
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import Cell, ViewContext
from attnviz.ui.shared.toolbar import Toolbar
from attnviz.ui.text import heading, in_words, note, quiet


def page(source: Source, request: Request) -> None:
    bar = toolbar.bar(source, request, combined=True, original=words.A_IS.format(model=source.name.rpartition("/")[2]))
    a = bar.at
    mine = other.side_of(a)
    maps = st.container()  # they begin at one height, whatever is said of B
    with st.container(gap="xsmall", key="b"):
        b = other.side(a, bar.prediction)
        text = taking.other_text(a, b)
        if text:
            taking.row(a, b)
    if isinstance(b, other.OnItsWay):
        pretrained.ask_or_wait(b.arrival)
    elif isinstance(b, AttnvizError):
        note(str(b))
    else:
        _compared(bar, mine, b, maps)
    if text:
        taking.each_head(a, text)
    with runs.beside():
        _different_heads(a)


def _compared(bar: Toolbar, a: Side, b_context: ViewContext, maps: DeltaGenerator) -> None:
    context, b = bar.at, other.side_of(b_context)
    reads = other.same_words(context, b_context)
    try:
        whole = _measured(context, beside(a, reads, _apart))
    except AttnvizError as error:
        note(words.SIDE_BY_SIDE.format(why=error), "notice")
        _side_by_side(bar, a, b)
        predictions.both(a, b, None, None)
        return
    comparison = _measured(context, _zoomed(context, whole))
    cell = _on_grid(comparison, context.cell)
    still = b.record is context.before and whole.most_cell is None
    with maps:
        if still:
            unmoved.explained(context)
            with pictures.folded(words.SAME_MAPS, key="same maps") as is_open:
                figure = _draw(bar, comparison, cell, visible=is_open)
        else:
            _answered(comparison, cell)
            figure = _draw(bar, comparison, cell)
    _notes(comparison, cell, still=still)
    if reads.record is not b.record:
        quiet(words.SAME_WORDS)
    if not still:
        _numbers(figure)
        if predictions.is_any(a, b):
            heading(words.PREDICTIONS)
            predictions.both(a, b, comparison, cell)


def _numbers(figure: figures.Figure) -> None:
    """Folded: every cell of both maps, and what was measured of them."""
    pictures.numbers(figure, "difference")
    with pictures.folded(common.HOW_COMPUTED, key="how compared") as is_open:
        if is_open:
            quiet(words.MATCHED.format(measure=as_sentence(MEASURE)))


def _answered(comparison: AlignedPair, cell: Cell | None) -> None:
    """The selected cell, or the one that differs most: what the page is for, before its maps."""
    target = comparison.most_cell if cell is None else cell
    if target is None or (cell is None and sentences.nearly_same(comparison)):
        in_words(sentences.compared(comparison))
        return
    sentence, a, b = sentences.compared_cell(comparison, *target), comparison.a, comparison.b
    is_one = isinstance(a.head, int) and (a.site, a.head) == (b.site, b.head)
    most = (
        words.LARGEST_OF.format(head=a.site.head(a.head), cell=sentence)
        if is_one
        else words.LARGEST.format(cell=sentence)
    )
    in_words(most if cell is None else sentence)


def _draw(bar: Toolbar, comparison: AlignedPair, cell: Cell | None, *, visible: bool = True) -> figures.Figure:
    """The three maps, if they are shown, and what of the toolbar is theirs."""
    options = {
        "dark": bar.at.dark,
        "rev": look.rev("cell"),
        "cost": _cost(bar.at, comparison) if comparison.tile > 1 else None,
    }
    figure = figures.difference(comparison, selected=cell, **options)
    with bar.export:
        pictures.take_away(figure, "difference", more=partial(everything.button, bar.at, (figure,)))
    if not visible:
        return figure
    clicked = look.clicks("cell", partial(_select, pictures.lent(comparison, "compared")), look.let_go)
    with bar.view:
        zoom.ways(bar.at)
    zoom.crumbs(bar.at)
    pictures.picture(figure, "difference", select="cell", on_select=clicked)
    return figure


def _on_grid(comparison: AlignedPair, cell: Cell | None) -> Cell | None:
    """Place of a cell of A on the grid of both."""
    if cell is None:
        return None
    places = [[pair[0] for pair in part] for part in (comparison.rows, comparison.columns)]
    if not all(position in part for part, position in zip(places, cell, strict=True)):
        return None
    return places[0].index(cell[0]), places[1].index(cell[1])


def _notes(comparison: AlignedPair, cell: Cell | None, *, still: bool) -> None:
    """Which row differs most, and what is not said above the maps.

    Args:
        still: whether it is said above why nothing changed.
    """
    if still and cell is not None:
        in_words(sentences.compared_cell(comparison, *cell))
    if not still:
        if comparison.most_cell is not None and not (cell is None and sentences.nearly_same(comparison)):
            quiet(sentences.compared(comparison, with_cell=cell not in (None, comparison.most_cell)))
        pictures.how_to_select(cell is not None, outlined=comparison.most_cell is not None)
    size = size_beside(len(comparison.rows), len(comparison.columns))
    if size.tile > 1:
        quiet(" ".join(map(as_sentence, notes_on(size, TILES))))


_apart = cache.cached(apart)


def _measured(context: ViewContext, comparison: AlignedPair) -> AlignedPair:
    """Two maps that are too large to be held, measured: what takes long says how far it is."""
    if comparison.tile > 1:
        cache.worked(apart, *comparison.measured(), cost=_cost(context, comparison))
    return comparison


def _cost(context: ViewContext, comparison: AlignedPair) -> Estimate:
    """Cost of measuring both maps."""
    _, _, rows, columns, _ = comparison.measured()
    return context.cost(2, rows=slice(rows.start, rows.stop), columns=slice(columns.start, columns.stop))


def _zoomed(context: ViewContext, whole: AlignedPair) -> AlignedPair:
    """The part of a large comparison that is zoomed into, by the positions in A."""
    part = [zoom.part(context, View()).get(axis) for axis in ("rows", "columns")]
    if None in part:
        return whole
    spans = []
    for places, window in zip((whole.rows, whole.columns), part, strict=True):
        inside = [i for i, (in_a, _) in enumerate(places) if in_a is not None and window.start <= in_a < window.stop]
        spans.append(slice(inside[0], inside[-1] + 1) if inside else ALL)
    return whole.part(*spans)


def _select(lent: Callable[[], AlignedPair], point: dict) -> None:
    """Keep the cell that was clicked, by its tokens in A; a cell that only B has cannot be kept.

    Of a square of cells it is the one that differs most.
    """
    try:
        comparison = lent()
    except AttnvizError:  # the server needed its memory: the next run makes it again
        return
    row, column = look.cell_of(point)
    tile = size_beside(len(comparison.rows), len(comparison.columns)).tile
    if tile > 1:
        row, column = comparison.most_of(row // tile, column // tile, tile)
    if not (0 <= row < len(comparison.rows) and 0 <= column < len(comparison.columns)):
        return
    query, key = comparison.rows[row][0], comparison.columns[column][0]
    if query is not None and key is not None:
        look.toggle_cell((query, key))


def _side_by_side(bar: Toolbar, a: Side, b: Side) -> None:
    with bar.export:
        everything.menu(bar.at)
    for column, name, side in zip(st.columns(2), "AB", (a, b), strict=True):
        with column:
            heading(name)
            options = {"sentence": side.sentence, "dark": look.is_dark(), "domain": "fixed"}
            cost = estimate.of_maps(side.record.step(side.site))
            figure = cache.rendered(figures.head, side.record, side.site, side.head, cost=cost, **options)
            pictures.show(figure, key=f"map {name}", what=words.MAP.format(side=name))


def _different_heads(a: ViewContext) -> None:
    """The heads that differ most from that of A: a click makes one of them B."""
    if not isinstance(a.head, int):
        return
    cost = estimate.of_all_maps(a.record)
    heads = cache.worked(farthest, a.record, a.site, a.head, sentence=a.sentence, cost=cost)
    if not heads:
        return
    heading(words.DIFFERENT_HEADS.format(head=a.site.head(a.head)))
    quiet(words.DIVERGENCE)
    with st.container(horizontal=True, gap="small", key="different heads"):
        for number, (site, head, divergence) in enumerate(heads):
            name = words.DIFFERENT_HEAD.format(head=site.head(head).capitalize(), divergence=divergence)
            st.button(name, key=f"different head {number}", on_click=other.compare_with, args=((site, head),))
