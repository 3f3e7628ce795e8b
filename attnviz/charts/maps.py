"""A map of cells, as rectangles with tooltips or as one image; heads and masks are both drawn from it."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import altair as alt
import numpy as np

from attnviz.charts import axes, frame, hatch, pixels
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.frame import Entry, Frame, box
from attnviz.charts.picture import Form, Picture, Table
from attnviz.charts.size import Size
from attnviz.charts.theme import STOPS, Theme, config
from attnviz.views import Groups

TOOLTIP = (
    ("query_name", QUERY),
    ("key_name", KEY),
    ("weight_text", "weight"),
    ("score_text", "score"),
    ("says", "cell"),
)
"""Fields and names of what hovering shows; the names are fixed, because some names make a viewer fetch things."""

GRAY = 2.0
"""Where the ramp without colors begins on the scale of shades: chosen by data, so that the form stays."""

MAY_ATTEND = "may attend"
"""What is said of an open cell."""

MOST_REASONS = 12
"""Reasons a legend explains; the strokes of a seventh are those of the first."""


@dataclass(frozen=True, eq=False)
class Map:
    """Everything that is drawn of a map; arrays are (rows, columns) of the squares that are drawn.

    Attributes:
        size: how large, and in which form.
        rows, columns: band keys.
        row_names, column_names: tokens with their positions, for readouts.
        queries, keys: position of each row and column (of a tile, its first).
        titles: of the row axis and of the column axis.
        shade: place on the ramp, 0 to 1.
        colored: where the ramp, or the color of an open cell, is the ground.
        sayings, saying: what can be said of a cell, and which of it is said.
        signs: saying -> path, color and stroke width of what is drawn on such a cell.
        blocked: 0 = may attend, i = blocked by reason i - 1.
        nan: where the weight is not a number.
        numbers: named columns of numbers, each with its form: weight, score.
        open: the one color of colored cells; None for the ramp.
        grounds: saying -> the color of its cells, instead of `shade`, `colored` and `open`; () for these.
        gray: whether the ramp is without colors: of a head that is off.
        brush: whether a drag over rectangles selects them.
        frame: what stands around.
    """

    size: Size
    rows: list[str]
    columns: list[str]
    row_names: list[str]
    column_names: list[str]
    queries: np.ndarray
    keys: np.ndarray
    titles: tuple[str, str]
    shade: np.ndarray
    colored: np.ndarray
    sayings: tuple[str, ...]
    saying: np.ndarray
    signs: dict[int, tuple[str, str, float]]
    blocked: np.ndarray
    nan: np.ndarray
    numbers: dict[str, tuple[np.ndarray, str]]
    open: str | None
    frame: Frame
    gray: bool = False
    rev: int = 0
    brush: bool = False
    grounds: tuple[str, ...] = ()


def picture(drawing: Map, colors: Theme) -> Picture:
    """The map as Vega-Lite, in the form that its size decides."""
    if drawing.size.form != "rectangles":
        uri = pixels.data_uri(*painted(drawing, colors, scale=2))
        table = {"x": [0.0], "y": [0.0], "uri": [uri]}
        return Picture(_image(drawing.size, colors), {"map": table} | frame.tables(drawing.frame))
    upright = axes.edges(drawing.rows, drawing.columns, drawing.size).upright
    numbers, own = tuple(drawing.numbers), bool(drawing.grounds)
    form = _rectangles(drawing.size, drawing.titles, upright, drawing.open, numbers, own, drawing.brush, colors)
    return Picture(form, {"cells": cell_table(drawing)} | frame.tables(drawing.frame))


@lru_cache(maxsize=128)
def _rectangles(
    size: Size,
    titles: tuple[str, str],
    upright: bool,
    open_color: str | None,
    numbers: tuple[str, ...],
    own: bool,
    brush: bool,
    colors: Theme,
) -> Form:
    """A rectangle per cell, strokes on those that are no weight, and the frame."""
    y, x = axes.encodings(titles, upright, colors)
    fields = {field: name for field, name in TOOLTIP if not field.endswith("_text") or field[:-5] in numbers}
    base = alt.Chart(alt.NamedData("cells")).encode(y=y, x=x, tooltip=tooltip(fields))
    domain, range = [*STOPS, *(GRAY + stop for stop in STOPS)], [*colors.ramp, *pixels.gray_ramp(colors)]
    ramp = alt.Scale(domain=domain, range=range, interpolate="rgb", clamp=True)
    ground = alt.Color("shade:Q", scale=ramp, legend=None) if open_color is None else alt.value(open_color)
    fill = alt.when("datum.colored").then(ground).otherwise(alt.value(colors.blocked))
    cells = (
        base.mark_rect(stroke=colors.background, strokeWidth=1, cursor="pointer", aria=False)
        .encode(color=alt.Color("ground:N", scale=None) if own else fill)
        .add_params(clicked("cell", "query", "key", "rev"), *([dragged("drag", colors)] if brush else []))
    )
    strokes = (
        base.transform_filter("isValid(datum.path)")
        .mark_point(size=size.cell**2, filled=False, opacity=1, cursor="pointer", aria=False)
        .encode(
            shape=alt.Shape("path:N", scale=None),
            stroke=alt.Stroke("stroke:N", scale=None),
            strokeWidth=alt.StrokeWidth("stroke_width:Q", scale=None),
        )
    )
    return _form([cells, strokes], size, colors)


@lru_cache(maxsize=128)
def _image(size: Size, colors: Theme) -> Form:
    """One image in place of all cells, and the frame, which carries the labels of the axes."""
    x, y = frame.pixels()
    mark = {"width": size.width, "height": size.height, "align": "left", "baseline": "top", "aria": False}
    image = alt.Chart(alt.NamedData("map")).mark_image(smooth=False, aspect=False, tooltip=None, **mark)
    return _form([image.encode(x=x, y=y, url="uri:N")], size, colors)


def _form(layers: list[alt.Chart], size: Size, colors: Theme) -> Form:
    # Not alt.Step: Vega-Lite forgets a step where other layers are placed in pixels.
    chart = alt.layer(*layers, *frame.layers(), width=size.width, height=size.height, autosize="pad")
    return Form.of(chart.configure(**config(colors)))


def painted(drawing: Map, colors: Theme, *, scale: int) -> tuple[np.ndarray, np.ndarray]:
    """The map as palette indices and their palette, `scale` times as large as on the screen."""
    shade = drawing.shade if drawing.open is None else None
    if drawing.grounds:
        shade = drawing.saying / (pixels.SHADES - 1)
    zoom = max(1, round(scale * drawing.size.cell))
    sides = {"height": drawing.size.rows * zoom, "width": drawing.size.columns * zoom}
    image = pixels.paint(shade, drawing.colored, drawing.blocked, drawing.nan, **sides)
    return image, pixels.palette(colors, gray=drawing.gray, grounds=drawing.grounds)


def cell_table(drawing: Map) -> Table:
    """One row per cell, row by row: where it is, what it says, what is drawn on it."""
    row, column = (index.ravel() for index in np.indices(drawing.saying.shape))
    saying = drawing.saying.ravel()
    signs = [drawing.signs.get(i, (None, None, None)) for i in range(len(drawing.sayings))]
    path, stroke, width = (_pick([sign[i] for sign in signs], saying) for i in range(3))
    table = {
        "query_band": _pick(drawing.rows, row),
        "key_band": _pick(drawing.columns, column),
        "query": drawing.queries[row].tolist(),
        "key": drawing.keys[column].tolist(),
        "rev": [drawing.rev] * len(row),
        "query_name": _pick(drawing.row_names, row),
        "key_name": _pick(drawing.column_names, column),
        "shade": (drawing.shade.ravel() + (GRAY if drawing.gray else 0.0)).tolist(),
        "colored": drawing.colored.ravel().tolist(),
        "says": _pick(drawing.sayings, saying),
        "path": path,
        "stroke": stroke,
        "stroke_width": width,
    }
    if drawing.grounds:
        table["ground"] = _pick(drawing.grounds, saying)
    for name, (values, form) in drawing.numbers.items():
        flat = values.ravel().tolist()
        table[name] = [value if math.isfinite(value) else None for value in flat]
        table[f"{name}_text"] = [number(value, form) for value in flat]
    return table


def reasons_of(reasons: Iterable[tuple[int, str]], colors: Theme) -> list[Entry]:
    """Legend lines for reasons, by their numbers."""
    strokes = ((hatch.shape(i, frame.SWATCH), f"blocked by {reason}") for i, reason in reasons)
    return shortened([Entry(text, path, colors.hatch, 1.0, colors.blocked) for path, text in strokes], colors)


def shortened(entries: list[Entry], colors: Theme) -> list[Entry]:
    """The first of many legend lines, and one for the others."""
    rest = f"{len(entries) - MOST_REASONS:,} more combinations of rules: each cell names its own, as does the table"
    others = [Entry(rest, "", colors.hatch, 0.0, colors.blocked)]
    return entries if len(entries) <= MOST_REASONS else entries[:MOST_REASONS] + others


def clicked(name: str, *fields: str) -> alt.Parameter:
    """A click, as a selection; Escape clears it. A counter `rev` in the data lets the same thing be clicked again."""
    escape = "window:keydown[event.key === 'Escape']"
    return alt.selection_point(name=name, fields=list(fields), on="click", toggle=False, clear=escape)


def tooltip(fields: dict[str, str]) -> list[alt.Tooltip]:
    """What hovering shows: fields of the data, by what they are called."""
    return [alt.Tooltip(f"{field}:N", title=name) for field, name in fields.items()]


def dragged(name: str, colors: Theme) -> alt.Parameter:
    """A drag over cells, as a selection of the bands of their rows and columns.

    It clears itself a moment after the drag, when it has been told: cells under it could not be clicked.
    """
    mark = alt.BrushConfig(fill=colors.accent, fillOpacity=0.12, stroke=colors.accent, strokeOpacity=0.6)
    ended = "window:pointerup{0, 500}"
    return alt.selection_interval(name=name, encodings=["x", "y"], mark=mark, clear=ended, zoom=False, translate=False)


def outlined(selected: tuple[int, int] | None, queries: Groups, keys: Groups, size: Size, colors: Theme) -> Frame:
    """A frame around the square that holds a (query, key), and a mark at each of its labels; nothing if none does."""
    row, column = (None, None) if selected is None else (queries.at(selected[0]), keys.at(selected[1]))
    if row is None or column is None:
        return Frame()
    x, y, side = float(column // size.tile) * size.cell, float(row // size.tile) * size.cell, size.cell
    grow = max(0.0, (7 - side) / 2)
    return Frame(
        boxes=(
            box(-4, y - grow, -1.5, y + side + grow, fill=colors.accent),
            box(x - grow, -4, x + side + grow, -1.5, fill=colors.accent),
            box(x - grow, y - grow, x + side + grow, y + side + grow, stroke=colors.accent, width=2.5),
        )
    )


def number(value: float, form: str) -> str:
    if math.isnan(value):
        return "NaN"
    return format(value, form) if math.isfinite(value) else "∞" if value > 0 else "−∞"


def _pick(names: Sequence, index: np.ndarray) -> list:
    return [names[i] for i in index.tolist()]
