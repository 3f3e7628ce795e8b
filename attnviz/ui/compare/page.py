"""A and B: two maps that differ in one thing, what moved and what both predict; and the heads unlike that of A."""

from collections.abc import Callable
from functools import partial

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from attnviz import figures
from attnviz import words as sentences
from attnviz.charts.axes import notes_on
from attnviz.charts.size import size_beside
from attnviz.core.display import as_sentence
from attnviz.core.errors import AttnvizError
from attnviz.core.record import ALL
from attnviz.figures.difference import MEASURE, TILES
from attnviz.metrics.alike import farthest
from attnviz.metrics.beside import Beside, Side, apart_of, at_a, beside
from attnviz.sources import estimate
from attnviz.sources.base import Source
from attnviz.sources.estimate import Estimate
from attnviz.ui.compare import other, said, unmoved, words
from attnviz.ui.shared import cache, everything, look, pictures, pretrained, runs, toolbar, zoom
from attnviz.ui.shared import words as common
from attnviz.ui.shared.look import Cell, Look
from attnviz.ui.shared.text import heading, in_words, note, quiet
from attnviz.ui.shared.toolbar import Bar
from attnviz.views import View


def page(source: Source, lines: tuple[str, ...]) -> None:
    bar = toolbar.bar(source, lines, combined=True, original=words.A_IS.format(model=source.name.rpartition("/")[2]))
    a = bar.at
    mine = other.side_of(a)
    maps = st.container()  # they begin at one height, whatever is said of B
    with st.container(gap="xsmall", key="b"):
        b = other.side(a, bar.prediction)
    if isinstance(b, other.OnItsWay):
        pretrained.ask_or_wait(b.arrival)
    elif isinstance(b, AttnvizError):
        note(str(b))
    else:
        _compared(bar, mine, b, maps)
    with runs.beside():
        _different_heads(a)


def _compared(bar: Bar, a: Side, b: Side, maps: DeltaGenerator) -> None:
    at = bar.at
    reads = other.same_words(a, b)
    try:
        whole = _measured(at, beside(a, reads, _apart))
    except AttnvizError as error:
        note(words.SIDE_BY_SIDE.format(why=error), "notice")
        _side_by_side(bar, a, b)
        said.both(a, b, None, None)
        return
    found = _measured(at, _seen(at, whole))
    cell = _on_grid(found, at.cell)
    still = b.record is at.before and whole.most_cell is None
    with maps:
        if still:
            unmoved.explained(at)
            with pictures.folded(words.SAME_MAPS, key="same maps") as is_open:
                figure = _drawn(bar, found, cell, shown=is_open)
        else:
            _answered(found, cell)
            figure = _drawn(bar, found, cell)
    _said(found, cell, still=still)
    if reads is not b:
        quiet(words.SAME_WORDS)
    if not still:
        _numbers(figure)
        if said.is_any(a, b):
            heading(words.PREDICTIONS)
            said.both(a, b, found, cell)


def _numbers(figure: figures.Figure) -> None:
    """Folded: every cell of both maps, and what was measured of them."""
    pictures.numbers(figure, "difference")
    with pictures.folded(common.HOW_COMPUTED, key="how compared") as is_open:
        if is_open:
            quiet(words.MATCHED.format(measure=as_sentence(MEASURE)))


def _answered(found: Beside, cell: Cell | None) -> None:
    """The selected cell, or the one that differs most: what the page is for, before its maps."""
    at = found.most_cell if cell is None else cell
    if at is None or (cell is None and sentences.nearly_same(found)):
        in_words(sentences.compared(found))
        return
    said, a, b = sentences.compared_cell(found, *at), found.a, found.b
    is_one = isinstance(a.head, int) and (a.site, a.head) == (b.site, b.head)
    most = words.LARGEST_OF.format(head=a.site.head(a.head), cell=said) if is_one else words.LARGEST.format(cell=said)
    in_words(most if cell is None else said)


def _drawn(bar: Bar, found: Beside, cell: Cell | None, *, shown: bool = True) -> figures.Figure:
    """The three maps, if they are shown, and what of the toolbar is theirs."""
    drawn = {"dark": bar.at.dark, "rev": look.rev("cell"), "cost": _cost(bar.at, found) if found.is_long else None}
    figure = figures.difference(found, selected=cell, **drawn)
    with bar.export:
        pictures.take_away(figure, "difference", more=partial(everything.button, bar.at, (figure,)))
    if not shown:
        return figure
    clicked = look.clicks("cell", partial(_select, pictures.lent(found, "compared")), look.let_go)
    with bar.view:
        zoom.ways(bar.at)
    zoom.crumbs(bar.at)
    pictures.picture(figure, "difference", select="cell", on_select=clicked)
    return figure


def _on_grid(found: Beside, cell: Cell | None) -> Cell | None:
    """Where a cell of A stands on the grid of both."""
    if cell is None:
        return None
    places = [[pair[0] for pair in part] for part in (found.rows, found.columns)]
    if not all(at in part for part, at in zip(places, cell, strict=True)):
        return None
    return places[0].index(cell[0]), places[1].index(cell[1])


def _said(found: Beside, cell: Cell | None, *, still: bool) -> None:
    """Which row differs most, and what is not said above the maps.

    Args:
        still: whether it is said above why nothing changed.
    """
    if still and cell is not None:
        in_words(sentences.compared_cell(found, *cell))
    if not still:
        if found.most_cell is not None and not (cell is None and sentences.nearly_same(found)):
            quiet(sentences.compared(found, with_cell=cell not in (None, found.most_cell)))
        pictures.how_to_select(cell is not None, outlined=found.most_cell is not None)
    size = size_beside(len(found.rows), len(found.columns))
    if size.tile > 1:
        quiet(" ".join(map(as_sentence, notes_on(size, TILES))))


_apart = cache.kept(apart_of)


def _measured(at: Look, found: Beside) -> Beside:
    """Two maps that are too large to be held, measured: what takes long says how far it is."""
    if found.is_long:
        cache.worked(apart_of, *found.asked(), cost=_cost(at, found))
    return found


def _cost(at: Look, found: Beside) -> Estimate:
    """What it takes to go through both maps."""
    (top, bottom), (left, right) = found.asked()[2:4]
    return at.cost(2, rows=slice(top, bottom), columns=slice(left, right))


def _seen(at: Look, whole: Beside) -> Beside:
    """The part of a large comparison that is zoomed into, by the positions in A."""
    part = [zoom.part(at, View()).get(axis) for axis in ("rows", "columns")]
    if None in part:
        return whole
    spans = []
    for places, seen in zip((whole.rows, whole.columns), part, strict=True):
        inside = [i for i, (in_a, _) in enumerate(places) if in_a is not None and seen.start <= in_a < seen.stop]
        spans.append(slice(inside[0], inside[-1] + 1) if inside else ALL)
    return whole.part(*spans)


def _select(lent: Callable[[], Beside], point: dict) -> None:
    """Keep the cell that was clicked, by its tokens in A; a cell that only B has cannot be kept.

    Of a square of cells it is the one that differs most.
    """
    try:
        found = lent()
    except AttnvizError:  # the server needed its memory: the next run makes it again
        return
    row, column = look.cell_of(point)
    tile = size_beside(len(found.rows), len(found.columns)).tile
    if tile > 1:
        row, column = found.most_of(row // tile, column // tile, tile)
    query, key = at_a(found.rows, found.columns, row, column)
    if query is not None and key is not None:
        look.toggle_cell((query, key))


def _side_by_side(bar: Bar, a: Side, b: Side) -> None:
    with bar.export:
        everything.menu(bar.at)
    for column, name, side in zip(st.columns(2), "AB", (a, b), strict=True):
        with column:
            heading(name)
            shown = {"sentence": side.sentence, "dark": look.is_dark(), "domain": "fixed"}
            cost = estimate.of_maps(side.record.step(side.site))
            figure = cache.drawn(figures.head, side.record, side.site, side.head, cost=cost, **shown)
            pictures.show(figure, key=f"map {name}", what=words.MAP.format(side=name))


def _different_heads(a: Look) -> None:
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
