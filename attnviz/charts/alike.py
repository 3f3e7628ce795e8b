"""How alike heads look on one text: every two of them as a matrix under a tree, and each as a dot on a map."""

from functools import lru_cache

import altair as alt
import numpy as np

from attnviz.charts import frame, maps, pixels
from attnviz.charts.frame import Frame, Ramp, box, words
from attnviz.charts.heatmap import subtitles_of
from attnviz.charts.picture import Form, Picture
from attnviz.charts.theme import CHARACTER, Theme, config, theme
from attnviz.core.display import in_title
from attnviz.core.record import Record
from attnviz.metrics.alike import Divergences, Head, map2d, tree

SIDE, LARGEST, THINNEST = 420, 52, 13
"""Pixels: of the matrix, of a cell at most, and of a cell that has room for its label."""

TREE, DOT = 90, 9
"""Pixels: the height of the tree, and of a dot of the map across."""

MOST_RECTANGLES = 40
"""Of more heads the matrix is one image, of which each row tells its head."""

APART = float(np.log(2))
"""The divergence of two heads that never look at the same token, in nats."""

MEASURE = "Jensen-Shannon divergence, the mean over the rows: 0 (alike) to 0.69 (apart)"
TREE_SAYS = "the tree joins the most alike first: average linkage of square roots of divergences"
MAP_SAYS = "distances are as near as two dimensions allow to square roots of divergences"


def matrix_picture(
    record: Record,
    found: Divergences,
    *,
    focused: Head | None = None,
    dark: bool = False,
    rev: int = 0,
    titled: bool = True,
) -> Picture:
    """Draw the divergence of every two heads, in the order of the leaves of a tree that stands over it.

    A click selects the head of the row under "head", with the fields kind, layer, head, rev.

    Args:
        found: what `metrics.alike.divergences` gave of the record.
        focused: the head that is framed.

    Raises:
        InputError: if there are fewer than two heads.
    """
    colors, joined = theme(dark), tree(found)
    order = [found.heads[i] for i in joined.leaves]
    count = len(order)
    cell = min(LARGEST, SIDE / count)
    side = cell * count
    divergence = found.divergence[np.ix_(joined.leaves, joined.leaves)]
    around = _tree(joined.lines, cell, colors) + _labels(order, focused, cell, colors)
    around += _framed(order, focused, cell, side, colors)
    ends = ((0, "0 alike"), (0.5, "0.35"), (1, "0.69 apart"))
    ramp = Ramp("Jensen-Shannon divergence", _ramp_uri(colors), ends)
    around += frame.legend([], ramp, top=side + 40, width=side, colors=colors)
    if titled:
        lines = [MEASURE, TREE_SAYS, *subtitles_of(record)]
        around += frame.heading(title_of(record), lines, left=-54, top=-TREE - 16, width=side + 54, colors=colors)
    if count > MOST_RECTANGLES:
        shade = 1 - np.clip(divergence / APART, 0, 1)
        every = np.ones(shade.shape, bool)
        image = pixels.paint(
            shade, every, np.zeros(shade.shape, int), ~every, height=round(2 * side), width=round(2 * side)
        )
        cells = {"x": [0.0], "y": [0.0], "uri": [pixels.data_uri(image, pixels.palette(colors))]}
        tables = {"image": cells, "strips": _strips(found, order, cell, rev)} | frame.tables(around)
        return Picture(_image_form(side, colors), tables)
    return Picture(_form(side, cell, colors), {"pairs": _pairs(order, divergence, cell, rev)} | frame.tables(around))


def dots_picture(
    record: Record,
    found: Divergences,
    *,
    focused: Head | None = None,
    dark: bool = False,
    rev: int = 0,
    titled: bool = True,
) -> Picture:
    """Draw each head as a dot, so that heads that look alike stand together; see `metrics.alike.map2d`.

    A click selects a head as in `matrix_picture`.
    """
    colors, side = theme(dark), SIDE
    places = map2d(found)
    span = max(float(np.ptp(places, axis=0).max(initial=0.0)), 1e-9)
    middle = (places.max(0, initial=-np.inf) + places.min(0, initial=np.inf)) / 2 if len(places) else np.zeros(2)
    at = (places - middle) / span * (side - 100) + side / 2
    table = {
        "x": at[:, 0].tolist(),
        "y": (side - at[:, 1]).tolist(),
        **_heads(list(found.heads), rev),
        "color": [colors.accent if one == focused else colors.ramp[5] for one in found.heads],
        "size": [2.2 * DOT**2 if one == focused else DOT**2 for one in found.heads],
        "near": _near(found),
    }
    named = Frame(boxes=(box(0, 0, side, side, stroke=colors.line),)) + _names(found, at, focused, side, colors)
    named += frame.legend([], None, top=side, width=side, colors=colors)
    if titled:
        lines = [MAP_SAYS, MEASURE, *subtitles_of(record)]
        named += frame.heading(f"Map of {_which(record)}", lines, left=0, top=-10, width=side, colors=colors)
    return Picture(_dots_form(side, colors), {"dots": table} | frame.tables(named))


def title_of(record: Record) -> str:
    """What is drawn, beginning with constant words."""
    return f"How alike are {_which(record)}"


def _which(record: Record) -> str:
    return f"the heads · {in_title(record.source)}"


def short(head: Head) -> str:
    """A head by its layer and number: "1.2"."""
    return f"{head[0].layer}.{head[1]}"


def _heads(heads: list[Head], rev: int) -> dict[str, list]:
    return {
        "kind": [site.kind for site, _ in heads],
        "layer": [site.layer for site, _ in heads],
        "head": [head for _, head in heads],
        "rev": [rev] * len(heads),
        "name": [f"{site} head {head}" for site, head in heads],
    }


def _pairs(order: list[Head], divergence: np.ndarray, cell: float, rev: int) -> dict[str, list]:
    i, j = (index.ravel().tolist() for index in np.indices(divergence.shape))
    rows = _heads([order[a] for a in i], rev)
    return rows | {
        "x": [b * cell for b in j],
        "x2": [(b + 1) * cell for b in j],
        "y": [a * cell for a in i],
        "y2": [(a + 1) * cell for a in i],
        "other": [f"{order[b][0]} head {order[b][1]}" for b in j],
        "divergence": divergence.ravel().tolist(),
        "text": [f"{value:.4f}" for value in divergence.ravel().tolist()],
    }


def _strips(found: Divergences, order: list[Head], cell: float, rev: int) -> dict[str, list]:
    """The rows of a matrix that is an image, to be pointed at."""
    near = dict(zip(found.heads, _near(found), strict=True))
    places = {"x": [0.0] * len(order), "x2": [cell * len(order)] * len(order)}
    places |= {"y": [i * cell for i in range(len(order))], "y2": [(i + 1) * cell for i in range(len(order))]}
    return _heads(order, rev) | places | {"near": [near[head] for head in order]}


def _near(found: Divergences) -> list[str]:
    """Of each head the one that looks most like it."""
    near = [next(iter(found.nearest(site, head, 1)), None) for site, head in found.heads]
    return ["" if one is None else f"{one[0]} head {one[1]}, {one[2]:.4f}" for one in near]


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


def _labels(order: list[Head], focused: Head | None, cell: float, colors: Theme) -> Frame:
    """The names of heads beside the rows and under the columns, each so-many-th where there is no room."""
    step = max(1, int(np.ceil(THINNEST / cell)))
    shown = [i for i, head in enumerate(order) if i % step == 0 or head == focused]
    if focused in order and step > 1:
        shown = [i for i in shown if i == order.index(focused) or abs(i - order.index(focused)) * cell >= THINNEST]
    color = {i: colors.accent if order[i] == focused else colors.text for i in shown}
    bottom = cell * len(order) + 6
    return Frame(
        rows=tuple(words(-6, (i + 0.5) * cell, short(order[i]), color[i]) for i in shown),
        columns=tuple(
            words((i + 0.5) * cell, bottom + CHARACTER * len(short(order[i])), short(order[i]), color[i]) for i in shown
        ),
    )


def _framed(order: list[Head], focused: Head | None, cell: float, side: float, colors: Theme) -> Frame:
    """A frame around the row and the column of the chosen head."""
    if focused not in order:
        return Frame()
    low = order.index(focused) * cell
    high = low + cell
    return Frame(
        boxes=(
            box(0, low, side, high, stroke=colors.accent, width=1.5),
            box(low, 0, high, side, stroke=colors.accent, width=1.5),
        )
    )


def _names(found: Divergences, at: np.ndarray, focused: Head | None, side: float, colors: Theme) -> Frame:
    """A head's name beside its dot, the chosen one's first; left out where it would cover another dot or name."""
    order = sorted(range(len(found.heads)), key=lambda i: found.heads[i] != focused)
    places = [(float(x), side - float(y)) for x, y in at]
    taken: list[tuple[float, float]] = []
    drawn = []
    for i in order:
        x, y = places[i]
        wide = DOT + CHARACTER * len(short(found.heads[i])) + 4
        over = any(0 <= u - x < wide and abs(y - v) < 9 for j, (u, v) in enumerate(places) if j != i)
        beside = any(abs(x - u) < wide and abs(y - v) < 14 for u, v in taken)
        if found.heads[i] != focused and (over or beside):
            continue
        taken.append((x, y))
        color = colors.accent if found.heads[i] == focused else colors.text
        drawn.append(words(x + DOT, y, short(found.heads[i]), color))
    return Frame(tokens=tuple(drawn))


@lru_cache(maxsize=32)
def _form(side: float, cell: float, colors: Theme) -> Form:
    x, y = frame.pixels()
    names = {"name": "head", "other": "other head", "text": "divergence"}
    scale = alt.Scale(domain=[APART * i / 10 for i in range(11)], range=list(reversed(colors.ramp)), clamp=True)
    cells = (
        alt.Chart(alt.NamedData("pairs"))
        .mark_rect(stroke=colors.background, strokeWidth=1 if cell > 8 else 0, cursor="pointer", aria=False)
        .encode(
            x=x,
            y=y,
            x2="x2:Q",
            y2="y2:Q",
            color=alt.Color("divergence:Q", scale=scale, legend=None),
            tooltip=maps.tooltip(names),
        )
        .add_params(maps.clicked("head", "kind", "layer", "head", "rev"))
    )
    return _around([cells], side, colors)


@lru_cache(maxsize=32)
def _image_form(side: float, colors: Theme) -> Form:
    x, y = frame.pixels()
    mark = {"width": side, "height": side, "align": "left", "baseline": "top", "aria": False}
    image = alt.Chart(alt.NamedData("image")).mark_image(smooth=False, aspect=False, tooltip=None, **mark)
    strips = (
        alt.Chart(alt.NamedData("strips"))
        .mark_rect(fill=colors.accent, fillOpacity=0, cursor="pointer", aria=False)
        .encode(x=x, y=y, x2="x2:Q", y2="y2:Q", tooltip=maps.tooltip({"name": "head", "near": "most alike"}))
        .add_params(maps.clicked("head", "kind", "layer", "head", "rev"))
    )
    return _around([image.encode(x=x, y=y, url="uri:N"), strips], side, colors)


@lru_cache(maxsize=8)
def _dots_form(side: float, colors: Theme) -> Form:
    x, y = frame.pixels()
    names = {"name": "head", "near": "most alike"}
    points = (
        alt.Chart(alt.NamedData("dots"))
        .mark_point(filled=True, opacity=0.9, stroke=colors.background, strokeWidth=1, cursor="pointer", aria=False)
        .encode(
            x=x,
            y=y,
            fill=alt.Fill("color:N", scale=None),
            size=alt.Size("size:Q", scale=None),
            tooltip=maps.tooltip(names),
        )
        .add_params(maps.clicked("head", "kind", "layer", "head", "rev"))
    )
    return _around([points], side, colors)


def _around(layers: list[alt.Chart], side: float, colors: Theme) -> Form:
    chart = alt.layer(*layers, *frame.layers(), width=side, height=side, autosize="pad")
    return Form.of(chart.configure(**config(colors)))


def _ramp_uri(colors: Theme) -> str:
    """From alike, which is strong, to apart."""
    place = np.arange(pixels.SHADES, dtype=np.uint8)[::-1][None]
    return pixels.data_uri(place, pixels.palette(colors))
