"""A map of cells, as rectangles with tooltips or as one image; heads and masks are both drawn from it."""

from dataclasses import dataclass

import altair as alt
import numpy as np
import pandas as pd

from attnviz.charts import axes, frame, pixels
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.frame import Frame, box
from attnviz.charts.size import Size
from attnviz.charts.theme import STOPS, Theme, config

TOOLTIP = (
    ("query_name", QUERY),
    ("key_name", KEY),
    ("weight_text", "weight"),
    ("score_text", "score"),
    ("says", "cell"),
)
"""Fields and names of what hovering shows; the names are fixed, because some names make a viewer fetch things."""


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
    rev: int = 0


def chart(drawing: Map, colors: Theme) -> alt.LayerChart:
    """The map as Vega-Lite, in the form that its size decides."""
    size = drawing.size
    parts = _rectangles(drawing, colors) if size.form == "rectangles" else _image(drawing, colors)
    # Not alt.Step: Vega-Lite forgets a step where other layers are placed in pixels.
    return alt.layer(*parts, width=size.width, height=size.height, autosize="pad").configure(**config(colors))


def _rectangles(drawing: Map, colors: Theme) -> list[alt.Chart]:
    """A rectangle per cell, strokes on those that are no weight, and the frame."""
    room = axes.edges(drawing.rows, drawing.columns, drawing.size)
    y, x = axes.encodings(drawing.titles, room.upright, colors)
    data = cell_table(drawing)
    base = alt.Chart(data).encode(
        y=y, x=x, tooltip=[alt.Tooltip(f"{field}:N", title=name) for field, name in TOOLTIP if field in data]
    )
    ramp = alt.Scale(domain=list(STOPS), range=list(colors.ramp), interpolate="rgb", clamp=True)
    ground = alt.Color("shade:Q", scale=ramp, legend=None) if drawing.open is None else alt.value(drawing.open)
    return [
        base.mark_rect(stroke=colors.background, strokeWidth=1, cursor="pointer", aria=False)
        .encode(color=alt.when("datum.colored").then(ground).otherwise(alt.value(colors.blocked)))
        .add_params(clicked("cell", "query", "key", "rev")),
        base.transform_filter("datum.path !== null")
        .mark_point(size=drawing.size.cell**2, filled=False, opacity=1, cursor="pointer", aria=False)
        .encode(
            shape=alt.Shape("path:N", scale=None),
            stroke=alt.Stroke("stroke:N", scale=None),
            strokeWidth=alt.StrokeWidth("stroke_width:Q", scale=None),
        ),
        *frame.layers(drawing.frame),
    ]


def _image(drawing: Map, colors: Theme) -> list[alt.Chart]:
    """One image in place of all cells, and the frame, which carries the labels of the axes."""
    size = drawing.size
    uri = pixels.data_uri(*picture(drawing, colors, zoom=max(1, round(2 * size.cell))))
    x, y = frame.pixels()
    image = (
        alt.Chart(pd.DataFrame({"x": [0.0], "y": [0.0], "uri": [uri]}))
        .mark_image(
            width=size.width, height=size.height, align="left", baseline="top", smooth=False, aspect=False, aria=False
        )
        .encode(x=x, y=y, url="uri:N", tooltip=alt.value(None))
    )
    return [image, *frame.layers(drawing.frame)]


def picture(drawing: Map, colors: Theme, *, zoom: int) -> tuple[np.ndarray, np.ndarray]:
    """The map as palette indices and their palette, `zoom` pixels per side of a cell."""
    shade = drawing.shade if drawing.open is None else None
    image = pixels.paint(shade, drawing.colored, drawing.blocked, drawing.nan, zoom=zoom)
    return image, pixels.palette(colors)


def cell_table(drawing: Map) -> pd.DataFrame:
    """One row per cell, row by row: where it is, what it says, what is drawn on it."""
    shape = drawing.saying.shape
    row, column = (index.ravel() for index in np.indices(shape))
    saying = drawing.saying.ravel()
    signs = [drawing.signs.get(i, (None, None, None)) for i in range(len(drawing.sayings))]
    path, stroke, width = (np.array([sign[i] for sign in signs], dtype=object)[saying] for i in range(3))
    columns = {
        "query_band": _pick(drawing.rows, row),
        "key_band": _pick(drawing.columns, column),
        "query": drawing.queries[row],
        "key": drawing.keys[column],
        "rev": drawing.rev,
        "query_name": _pick(drawing.row_names, row),
        "key_name": _pick(drawing.column_names, column),
        "shade": drawing.shade.ravel().astype(float),
        "colored": drawing.colored.ravel(),
        "says": _pick(drawing.sayings, saying),
        "path": path,
        "stroke": stroke,
        "stroke_width": width,
    }
    for name, (values, form) in drawing.numbers.items():
        columns[name] = [value if np.isfinite(value) else None for value in values.ravel().tolist()]
        columns[f"{name}_text"] = [number(value, form) for value in values.ravel().tolist()]
    return pd.DataFrame(columns).astype(dict.fromkeys(drawing.numbers, object))


def clicked(name: str, *fields: str) -> alt.Parameter:
    """A click, as a selection; Escape clears it. A counter `rev` in the data lets the same thing be clicked again."""
    on = f"click[datum && isValid(datum.{fields[0]})]"
    return alt.selection_point(
        name=name, fields=list(fields), on=on, toggle=False, clear="window:keydown[event.key === 'Escape']"
    )


def outlined(
    selected: tuple[int, int] | None, queries: np.ndarray, keys: np.ndarray, size: Size, colors: Theme
) -> Frame:
    """A frame around the square that holds a (query, key), and a mark at each of its labels; nothing if none does."""
    if selected is None:
        return Frame()
    places = zip((queries, keys), selected, strict=True)
    row, column = (np.flatnonzero((at <= i) & (i < at + size.tile)) for at, i in places)
    if not (len(row) and len(column)):
        return Frame()
    x, y, side = float(column[0]) * size.cell, float(row[0]) * size.cell, size.cell
    grow = max(0.0, (7 - side) / 2)
    return Frame(
        boxes=(
            box(-4, y - grow, -1.5, y + side + grow, fill=colors.accent),
            box(x - grow, -4, x + side + grow, -1.5, fill=colors.accent),
            box(x - grow, y - grow, x + side + grow, y + side + grow, stroke=colors.accent, width=2.5),
        )
    )


def number(value: float, form: str) -> str:
    if np.isnan(value):
        return "NaN"
    return format(value, form) if np.isfinite(value) else "∞" if value > 0 else "−∞"


def _pick(names: list[str] | tuple[str, ...], index: np.ndarray) -> np.ndarray:
    return np.array(names, dtype=object)[index]
