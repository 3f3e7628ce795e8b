"""A and B: two maps that differ in one thing, what moved, what both say; and this head against all others."""

from functools import partial

import streamlit as st

from attnviz import figures, words
from attnviz.charts import difference
from attnviz.core.display import as_sentence
from attnviz.core.errors import AttnvizError
from attnviz.metrics.beside import Beside, Places, Side, at_a, beside
from attnviz.sources.base import Source
from attnviz.ui.compare import alike, other, said
from attnviz.ui.compare.other import Chosen
from attnviz.ui.shared import cache, editing, looking, pictures
from attnviz.ui.shared.notes import heading, in_words, note, quiet, sideways


def page(source: Source, lines: tuple[str, ...]) -> None:
    edits_bar = st.container(gap="xsmall")
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        site = looking.site(source, looking.opening_site(source))
        sentence = looking.sentence(lines)
        source = looking.step(source)
        head = looking.focus(source)
    with edits_bar:
        edits, _ = editing.edits_bar(source, lines)
    record = cache.record(source, lines, edits)
    a = Chosen(source, lines, sentence, edits, site, head)
    with st.container(gap="xsmall", key="b"):
        b = other.side(a)
    if isinstance(b, AttnvizError):
        note(str(b))
    else:
        _compared(a, b)
    alike.panel(record, site, head, sentence)


def _compared(a: Chosen, b: Side) -> None:
    try:
        found = beside(a.side, b)
    except AttnvizError as error:
        note(f"{error} Here they stand beside each other.", "notice")
        _side_by_side(a.side, b)
        said.both(a.side, b, None, None)
        return
    cell = _on_grid(found, looking.selected(a.record, a.site))
    figure = figures.compare.difference(found, selected=cell, dark=looking.is_dark(), rev=looking.rev("cell"))
    _in_words(found, cell)
    sideways("B and the difference")
    pictures.picture(figure, "difference", select="cell", on_select=partial(_select, found.rows, found.columns))
    quiet(f"{as_sentence(difference.MEASURE)} The tokens of A and B are aligned by difflib.")
    pictures.take_away(figure, "difference")
    pictures.numbers(figure, "difference")
    heading("What A and B say")
    said.both(a.side, b, found, cell)


def _in_words(found: Beside, cell: tuple[int, int] | None) -> None:
    in_words(words.compared(found) if cell is None else words.compared_cell(found, *cell))
    pictures.how_to_select(cell is not None)


def _on_grid(found: Beside, cell: tuple[int, int] | None) -> tuple[int, int] | None:
    """Where a cell of A stands on the grid of both."""
    if cell is None:
        return None
    places = [[pair[0] for pair in part] for part in (found.rows, found.columns)]
    if not all(at in part for part, at in zip(places, cell, strict=True)):
        return None
    return places[0].index(cell[0]), places[1].index(cell[1])


def _select(rows: Places, columns: Places, point: dict | None) -> None:
    """Keep the cell that was clicked, by its tokens in A; a cell that only B has cannot be kept."""
    if point is None:
        looking.select(None)
        return
    query, key = at_a(rows, columns, int(point["query"]), int(point["key"]))
    if query is not None and key is not None:
        looking.select(point | {"query": query, "key": key})


def _side_by_side(a: Side, b: Side) -> None:
    for column, name, side in zip(st.columns(2), "AB", (a, b), strict=True):
        with column:
            heading(name)
            shown = {"sentence": side.sentence, "dark": looking.is_dark()}
            figure = figures.head(side.record, side.site, side.head, **shown)
            pictures.picture(figure, f"map {name}")
            pictures.take_away(figure, f"map {name}", f"map {name}")
