"""How alike heads look on one text: every two of them as a matrix under a tree, and each as a dot on a map."""

from collections.abc import Callable
from typing import Unpack

import altair as alt
import numpy as np

from attnviz import tables, words
from attnviz.charts import frame, maps, pixels
from attnviz.charts.frame import Frame, Ramp, box
from attnviz.charts.mosaic import Head
from attnviz.charts.picture import Form, Picture, formed
from attnviz.charts.style import Style
from attnviz.charts.theme import CHARACTER, Theme
from attnviz.core.display import file_stem, in_title
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, edited, subtitles, text_array, titled
from attnviz.metrics.alike import Divergences, map2d, tree

SIDE, LARGEST, THINNEST = 420, 52, 13
"""Pixels: of the matrix, of a cell at most, and of a cell that has room for its label."""

TREE, DOT = 90, 9
"""Pixels: the height of the tree, and of a dot of the map across."""

MOST_RECTANGLES = 40
"""Heads up to which each cell of the matrix is a rectangle; above, the matrix is one image."""

APART = float(np.log(2))
"""The divergence of two heads that never look at the same token, in nats."""

MEASURE = "Jensen-Shannon divergence, the mean over the rows: 0 (alike) to 0.69 (apart)"
TREE_SAYS = "the tree joins the most alike first: average linkage of square roots of divergences"
MAP_SAYS = "distances are as near as two dimensions allow to square roots of divergences"


def alike(record: Record, found: Divergences, **drawn: Unpack[Drawn]) -> Figure:
    """The divergence of every two heads, in the order of the leaves of a tree that stands over the matrix.

    A click selects the head of the row under "head", with the fields kind, layer, head, rev.

    Args:
        found: what `metrics.alike.divergences` gave of the record.

    Raises:
        InputError: by what is drawn, if there are fewer than two heads.
    """
    return _figure(record, found, "alike", matrix, Style(**drawn))


def alike_map(record: Record, found: Divergences, **drawn: Unpack[Drawn]) -> Figure:
    """Heads as dots, those that look alike near each other; a click selects one as in `alike`."""
    return _figure(record, found, "alike map", dots, Style(**drawn))


def _figure(record: Record, found: Divergences, what: str, draw: Callable[..., Picture], style: Style) -> Figure:
    named = f"{len(found.heads)} heads compared on one text."
    return Figure(
        name=file_stem(record.source, found.heads[0][0].kind, "heads", what, end=edited(record.edits)),
        title=titled(f"How alike are the heads · {in_title(record.source)}", record),
        style=style,
        draw=lambda style: draw(record, found, style),
        describe=lambda: f"{named} {words.alike(found, *style.focused)}" if style.focused in found.heads else named,
        tabulate=lambda: tables.alike_table(found),
        collect=lambda: {
            "divergence": found.divergence,
            "places": map2d(found),
            "heads": text_array([site.head(head) for site, head in found.heads]),
        },
    )


# The matrix


def matrix(record: Record, found: Divergences, style: Style) -> Picture:
    """Every two heads, with the tree over them; a screen says the title elsewhere."""
    colors, joined = style.colors, tree(found)
    order = [found.heads[i] for i in joined.leaves]
    cell = min(LARGEST, SIDE / len(order))
    side, many = cell * len(order), len(order) > MOST_RECTANGLES
    shade = 1 - np.clip(found.divergence[np.ix_(joined.leaves, joined.leaves)] / APART, 0, 1)
    around = _tree(joined.lines, cell, colors) + _labels(order, cell, style) + _framed(order, cell, style)
    ends = ((0, "0 alike"), (0.5, "0.35"), (1, "0.69 apart"))
    ramp = Ramp("how differently two heads look", _ramp_uri(colors), ends)
    around += frame.legend([], ramp, top=side + 40, width=side, colors=colors)
    if not style.on_screen:
        title, lines = f"How alike are the heads · {in_title(record.source)}", [MEASURE, TREE_SAYS, *subtitles(record)]
        around += frame.heading(title, lines, left=-54, top=-TREE - 16, width=side + 54, colors=colors)
    drawn = _strips(found, order, cell, style.rev) if many else _pairs(found, order, shade, cell, style)
    drawn |= {"image": {"x": [0.0], "y": [0.0], "uri": [_uri(shade, side, colors)]}} if many else {}
    return Picture(_matrix_form(side, cell, many, colors), drawn | frame.tables(around))


def _uri(shade: np.ndarray, side: float, colors: Theme) -> str:
    image = pixels.paint(pixels.shades(shade), (), height=round(2 * side), width=round(2 * side))
    return pixels.data_uri(image, pixels.palette(colors))


def short(head: Head) -> str:
    """A head by its layer and number: "1.2"."""
    return head[0].short(head[1])


def _heads(heads: list[Head], rev: int) -> dict[str, list]:
    return {
        "kind": [site.kind for site, _ in heads],
        "layer": [site.layer for site, _ in heads],
        "head": [head for _, head in heads],
        "rev": [rev] * len(heads),
        "name": [site.head(head) for site, head in heads],
    }


def _pairs(found: Divergences, order: list[Head], shade: np.ndarray, cell: float, style: Style) -> dict[str, dict]:
    rows, columns = (index.ravel() for index in np.indices(shade.shape))
    at = [found.heads.index(head) for head in order]
    values = found.divergence[np.ix_(at, at)].ravel().tolist()
    places = {"x": columns * cell, "x2": (columns + 1) * cell, "y": rows * cell, "y2": (rows + 1) * cell}
    colors = pixels.hexadecimal(pixels.palette(style.colors)[pixels.shades(shade).ravel()])
    pairs = _heads([order[i] for i in rows], style.rev) | {name: place.tolist() for name, place in places.items()}
    pairs |= {"other": [order[i][0].head(order[i][1]) for i in columns], "divergence": values, "color": colors}
    return {"pairs": pairs | {"text": [f"{value:.4f}" for value in values]}}


def _strips(found: Divergences, order: list[Head], cell: float, rev: int) -> dict[str, dict]:
    """The rows of a matrix that is an image, to be pointed at."""
    near, rows = dict(zip(found.heads, _near(found), strict=True)), np.arange(len(order))
    places = {"x": 0.0 * rows, "x2": 0.0 * rows + cell * len(order), "y": rows * cell, "y2": (rows + 1) * cell}
    strips = _heads(order, rev) | {name: place.tolist() for name, place in places.items()}
    return {"pairs": strips | {"near": [near[head] for head in order], "color": ["transparent"] * len(order)}}


def _near(found: Divergences) -> list[str]:
    """Of each head the one that looks most like it."""
    near = [next(iter(found.nearest(site, head, 1)), None) for site, head in found.heads]
    return ["" if one is None else f"{one[0].head(one[1])}, {one[2]:.4f}" for one in near]


def _tree(lines: np.ndarray, cell: float, colors: Theme) -> Frame:
    """The brackets of a tree as thin boxes over the matrix."""
    most = max(float(lines[:, :, 1].max()), 1e-9)
    boxes = []
    for (x, low, *_), (_, high, *_), (_, _, *_), (x2, low2, *_) in lines.tolist():
        left, right = (x + 0.5) * cell, (x2 + 0.5) * cell
        top, a, b = (-6 - value / most * (TREE - 12) for value in (high, low, low2))
        for one, other in (((left, top), (left, a)), ((left, top), (right, top)), ((right, top), (right, b))):
            boxes.append(box(one[0] - 0.5, one[1] - 0.5, other[0] + 0.5, other[1] + 0.5, fill=colors.quiet, width=0))
    return Frame(boxes=tuple(boxes))


def _labels(order: list[Head], cell: float, style: Style) -> Frame:
    """The names of heads beside the rows and under the columns, each so-many-th where there is no room."""
    step, focused = max(1, int(np.ceil(THINNEST / cell))), style.focused
    kept = [i for i, head in enumerate(order) if i % step == 0 or head == focused]
    if focused in order and step > 1:
        kept = [i for i in kept if i == order.index(focused) or abs(i - order.index(focused)) * cell >= THINNEST]
    names = [(i, short(order[i]), style.colors.accent if order[i] == focused else style.colors.text) for i in kept]
    bottom = cell * len(order) + 6
    return Frame(
        rows=tuple(frame.words(-6, (i + 0.5) * cell, text, color) for i, text, color in names),
        columns=tuple(
            frame.words((i + 0.5) * cell, bottom + CHARACTER * len(text), text, color) for i, text, color in names
        ),
    )


def _framed(order: list[Head], cell: float, style: Style) -> Frame:
    """A frame around the row and the column of the chosen head."""
    if style.focused not in order:
        return Frame()
    low, side = order.index(style.focused) * cell, cell * len(order)
    line = {"stroke": style.colors.accent, "width": 1.5}
    return Frame(boxes=(box(0, low, side, low + cell, **line), box(low, 0, low + cell, side, **line)))


@formed(32)
def _matrix_form(side: float, cell: float, many: bool, colors: Theme) -> Form:
    """A rectangle per pair; of many heads an image, and over it a strip per row."""
    x, y = frame.pixels()
    names = {"name": "head"} | ({"near": "most alike"} if many else {"other": "other head", "text": "divergence"})
    stroke = {} if many else {"stroke": colors.background, "strokeWidth": 1 if cell > 8 else 0}
    cells = alt.Chart(alt.NamedData("pairs")).mark_rect(cursor="pointer", aria=False, **stroke)
    cells = cells.encode(x=x, y=y, x2=alt.X2("x2:Q"), y2=alt.Y2("y2:Q"), fill=alt.Fill("color:N", scale=None))
    cells = cells.encode(tooltip=maps.tooltip(names)).add_params(maps.clicked("head", "kind", "layer", "head", "rev"))
    return frame.form([frame.image("image", side, side, tooltip=None)] * many + [cells], side, side, colors)


def _ramp_uri(colors: Theme) -> str:
    """From alike, which is strong, to apart."""
    return pixels.data_uri(np.arange(pixels.SHADES, dtype=np.uint8)[::-1][None], pixels.palette(colors))


# The map


def dots(record: Record, found: Divergences, style: Style) -> Picture:
    """Each head as a dot, so that heads that look alike stand together; see `metrics.alike.map2d`."""
    colors, places = style.colors, map2d(found)
    span = max(float(np.ptp(places, axis=0).max(initial=0.0)), 1e-9)
    middle = (places.max(0, initial=-np.inf) + places.min(0, initial=np.inf)) / 2 if len(places) else np.zeros(2)
    at = (places - middle) / span * (SIDE - 100) * (1, -1) + SIDE / 2
    chosen = [head == style.focused for head in found.heads]
    table = _heads(list(found.heads), style.rev) | {
        "x": at[:, 0].tolist(),
        "y": at[:, 1].tolist(),
        "color": [colors.accent if one else colors.ramp[5] for one in chosen],
        "size": [DOT**2 * (2.2 if one else 1) for one in chosen],
        "near": _near(found),
    }
    around = Frame(boxes=(box(0, 0, SIDE, SIDE, stroke=colors.line),)) + _names(found, at.tolist(), style)
    if not style.on_screen:
        title = f"Map of the heads · {in_title(record.source)}"
        lines = [MAP_SAYS, MEASURE, *subtitles(record)]
        around += frame.heading(title, lines, left=0, top=-10, width=SIDE, colors=colors)
    return Picture(_dots_form(colors), {"dots": table} | frame.tables(around))


def _names(found: Divergences, places: list[list[float]], style: Style) -> Frame:
    """A head's name beside its dot, the chosen one's first; left out where it would cover another dot or name."""
    taken: list[list[float]] = []
    drawn = []
    for i in sorted(range(len(found.heads)), key=lambda i: found.heads[i] != style.focused):
        (x, y), name, chosen = places[i], short(found.heads[i]), found.heads[i] == style.focused
        wide = DOT + CHARACTER * len(name) + 4
        over = any(0 <= u - x < wide and abs(y - v) < 9 for j, (u, v) in enumerate(places) if j != i)
        beside = any(abs(x - u) < wide and abs(y - v) < 14 for u, v in taken)
        if chosen or not (over or beside):
            taken.append(places[i])
            drawn.append(frame.words(x + DOT, y, name, style.colors.accent if chosen else style.colors.text))
    return Frame(tokens=tuple(drawn))


@formed(4)
def _dots_form(colors: Theme) -> Form:
    x, y = frame.pixels()
    points = alt.Chart(alt.NamedData("dots")).mark_point(
        filled=True, opacity=0.9, stroke=colors.background, strokeWidth=1, cursor="pointer", aria=False
    )
    fill, size = alt.Fill("color:N", scale=None), alt.Size("size:Q", scale=None)
    names = maps.tooltip({"name": "head", "near": "most alike"})
    points = points.encode(x=x, y=y, fill=fill, size=size, tooltip=names)
    points = points.add_params(maps.clicked("head", "kind", "layer", "head", "rev"))
    return frame.form([points], SIDE, SIDE, colors)
