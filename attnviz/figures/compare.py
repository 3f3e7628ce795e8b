"""Figures of two maps compared, and of heads that look alike."""

from functools import partial

import numpy as np

from attnviz import tables, words
from attnviz.charts import alike as alike_chart
from attnviz.charts import difference as difference_chart
from attnviz.charts import panels
from attnviz.charts.theme import theme
from attnviz.core.display import file_stem
from attnviz.core.record import Record
from attnviz.figures.figure import Figure, edited, text_array, titled
from attnviz.metrics.alike import Divergences, Head, map2d
from attnviz.metrics.beside import Beside, Side


def difference(found: Beside, *, selected: tuple[int, int] | None = None, dark: bool = False, rev: int = 0) -> Figure:
    """Two maps and what the second has more; see `charts.difference`.

    Args:
        found: what `metrics.beside.beside` gave.
        selected: the (row, column) of the grid that is outlined.
    """
    drawing = partial(difference_chart.drawing_of, found, selected=selected, dark=dark)
    return Figure(
        name=file_stem("compared", _stem(found.a), "with", _stem(found.b), end=edited(found.a.record.edits)),
        title=" · ".join([difference_chart.title_of(found), *difference_chart.lines_of(found)]),
        describe=lambda: words.compared(found),
        draw=lambda: panels.picture(drawing(), theme(dark)).chart,
        show=lambda: panels.screen(drawing(rev=rev, titled=False), theme(dark), "cell"),
        tabulate=lambda: tables.comparison_table(found),
        collect=lambda: _arrays(found),
    )


def alike(
    record: Record, found: Divergences, *, focused: Head | None = None, dark: bool = False, rev: int = 0
) -> Figure:
    """Every two heads of a kind as a matrix under a tree; see `charts.alike`."""
    picture = partial(alike_chart.matrix_picture, record, found, focused=focused, dark=dark)
    return _heads(record, found, focused, "alike", picture, rev)


def alike_map(
    record: Record, found: Divergences, *, focused: Head | None = None, dark: bool = False, rev: int = 0
) -> Figure:
    """Heads as dots, those that look alike near each other; see `charts.alike`."""
    picture = partial(alike_chart.dots_picture, record, found, focused=focused, dark=dark)
    return _heads(record, found, focused, "alike map", picture, rev)


def _heads(record: Record, found: Divergences, focused: Head | None, name: str, picture, rev: int) -> Figure:
    named = f"{len(found.heads)} heads compared on one text."
    there = focused is not None and focused in found.heads
    return Figure(
        name=file_stem(record.source, found.heads[0][0].kind, "heads", name, end=edited(record.edits)),
        title=titled(alike_chart.title_of(record), record),
        describe=lambda: f"{named} {words.alike(found, *focused)}" if there else named,
        draw=lambda: picture().chart,
        show=lambda: (picture(rev=rev, titled=False).spec, None),
        tabulate=lambda: tables.alike_table(found),
        collect=lambda: {
            "divergence": found.divergence,
            "places": map2d(found),
            "heads": text_array([f"{site} head {head}" for site, head in found.heads]),
        },
    )


def _stem(side: Side) -> str:
    text = side.record.sentences[side.sentence].text
    return f"{side.record.source} {side.site.kind[0]}{side.site.layer} {side.head} {text[:16]}"


def _arrays(found: Beside) -> dict[str, np.ndarray]:
    arrays = {"difference": found.difference, "variation": found.variation}
    for end, (side, name) in enumerate(((found.a, "a"), (found.b, "b"))):
        arrays[name] = found.maps[end][0]
        for axis, what, places in ((0, "query", found.rows), (1, "key", found.columns)):
            texts = ["" if pair[end] is None else side.tokens[axis][pair[end]].text for pair in places]
            arrays[f"{what}_tokens_{name}"] = text_array(texts)
    return arrays
