"""Large maps on the screen: one image, and what lies under the pointer in words. The one full-Vega specification.

Vega-Lite cannot turn a pointer into a row and a column of an image. Here two signals do; the numbers of a row travel as
hexadecimal strings and only the cell under the pointer is read. All that changes stands in one table, so the
browser can replace it in place; no text of a user stands in the specification.
"""

import numpy as np

from attnviz.charts import frame, picture, pixels
from attnviz.charts.frame import RAMP_HEIGHT, RAMP_WIDTH
from attnviz.charts.maps import Map, painted
from attnviz.charts.picture import Table
from attnviz.charts.theme import FONT, LINE, MONO, TEXT_SIZE, TITLE_SIZE, Theme

SCHEMA = "https://vega.github.io/schema/vega/v6.json"
"""Names the language; nothing is fetched from there."""

READOUT = 2 * LINE + 18
"""Pixels between a map and its legend, for the readout."""

FORMS = {"weight": ".6f", "score": ".3f"}
"""The digits in which the numbers of a cell are read."""

HINT = "Point at a square to read it, click to keep it."


def screen(drawing: Map, colors: Theme) -> tuple[dict, Table]:
    """A Vega specification of a map, and the table that it draws.

    The table must be given beside the specification, as the data named "source". A click sets the signal "cell" to what
    a Vega-Lite point selection would give: [{"query": ..., "key": ..., "rev": ...}].
    """
    size = drawing.size
    spec = {
        "$schema": SCHEMA,
        "background": colors.background,
        "autosize": "pad",
        "padding": {"left": 0, "top": 0, "right": 0, "bottom": 4},
        "width": size.width,
        "height": size.height,
        "params": [{"name": "cell", "select": "point"}],
        "data": {"name": "source"},
        "signals": _signals(*drawing.saying.shape, size.cell, tuple(drawing.numbers)),
        "marks": [{"type": "group", "data": parts("map", *frame.KINDS), "marks": _marks(size, colors)}],
    }
    return spec, table(drawing, colors)


def table(drawing: Map, colors: Theme) -> Table:
    """Rows first, then columns, the map and its sayings, then everything that is drawn, told apart by `kind`."""
    image = pixels.data_uri(*painted(drawing, colors, scale=1))
    sayings, packed = pack(drawing)
    rows = [
        {"kind": "row", "position": int(i), "name": name} | cells
        for i, name, cells in zip(drawing.queries, drawing.row_names, packed, strict=True)
    ]
    columns = [
        {"kind": "column", "position": int(i), "name": name}
        for i, name in zip(drawing.keys, drawing.column_names, strict=True)
    ]
    drawn = [{"kind": "map", "uri": image, "position": drawing.rev}]
    drawn += [{"kind": "saying", "name": saying} for saying in sayings]
    parts = [{"kind": kind, **item} for kind, items in vars(drawing.frame).items() for item in items]
    return picture.columns(_COLUMNS, [*rows, *columns, *drawn, *parts])


_COLUMNS = (
    "kind", "position", "name", "weight", "score", "saying",
    "x", "y", "x2", "y2", "text", "color", "fill", "stroke", "width", "path", "size", "uri",
)  # fmt: skip


def pack(drawing: Map) -> tuple[list[str], list[dict[str, str]]]:
    """The sayings that occur, and each row's cells as hexadecimal strings, by name.

    A cell's weight and score are the eight digits of a float32, exact to its last bit; its saying is a number among
    those that occur, in as many digits as all of them need.
    """
    used = np.flatnonzero(np.bincount(drawing.saying.ravel()))
    shortest = np.min_scalar_type(max(0, len(used) - 1)).newbyteorder(">")
    codes = np.searchsorted(used, drawing.saying).astype(shortest)
    arrays = {name: _float32(values) for name, (values, _) in drawing.numbers.items()} | {"saying": codes}
    rows = zip(*([row.tobytes().hex() for row in array] for array in arrays.values()), strict=True)
    return [drawing.sayings[i] for i in used.tolist()], [dict(zip(arrays, row, strict=True)) for row in rows]


def _float32(values: np.ndarray) -> np.ndarray:
    """Big-endian float32; what is larger is the largest of them, and does not become infinite."""
    most = np.finfo(np.float32).max
    return np.where(np.isfinite(values), values.clip(-most, most), values).astype(">f4")


def number_of(bits: str, form: str) -> str:
    """A Vega expression for the digits of a float32 whose bits are an integer: "NaN", "∞" and "−∞" among them."""
    sign, exponent, fraction = f"({bits} < 2147483648 ? 1 : -1)", f"floor({bits} / 8388608) % 256", f"{bits} % 8388608"
    finite = f"{sign} * ({fraction} + ({exponent} ? 8388608 : 0)) * pow(2, max({exponent}, 1) - 150)"
    others = f"{fraction} ? 'NaN' : {sign} < 0 ? '−∞' : '∞'"
    return f"({exponent} === 255 ? {others} : format({finite}, '{form}'))"


def _signals(rows: int, columns: int, cell: float, numbers: tuple[str, ...]) -> list[dict]:
    """From the pointer to a cell, and from a cell to words. `at` counts cells row by row; -1 is none."""
    place = f"clamp(floor(y() / {cell}), 0, {rows - 1}) * {columns} + clamp(floor(x() / {cell}), 0, {columns - 1})"
    row, column = f"data('source')[floor(at / {columns})]", f"data('source')[{rows} + at % {columns}]"
    drawn = f"data('source')[{rows + columns}]"
    clicked = f"{{query: {row}.position, key: {column}.position, rev: {drawn}.position}}"
    escape = {"events": "window:keydown[event.key === 'Escape']", "update": "null"}
    parts = [f"'{name} ' + {number_of(name, FORMS[name])}" for name in numbers]
    parts.append(f"data('source')[{rows + columns + 1} + saying].name")
    return [
        {
            "name": "at",
            "value": -1,
            "on": [{"events": "@cells:pointermove", "update": place}, {"events": "@cells:pointerout", "update": "-1"}],
        },
        *({"name": name, "update": _code(f"{row}.{name}", columns)} for name in (*numbers, "saying")),
        {"name": "who", "update": f"at < 0 ? '{HINT}' : {row}.name + '  looks at  ' + {column}.name"},
        {"name": "what", "update": "at < 0 ? '' : " + " + '   ·   ' + ".join(parts)},
        {
            "name": "cell",
            "value": None,
            "on": [{"events": "@cells:click", "update": f"{{vlPoint: {{or: [{clicked}]}}}}"}, escape],
        },
    ]


def _code(cells: str, columns: int) -> str:
    """The number of the cell that is pointed at, of the equally long numbers of a row; how long, the row tells."""
    begin = f"length({cells}) * (at % {columns}{{}}) / {columns}"
    return f"at < 0 ? 0 : toNumber('0x' + slice({cells}, {begin.format('')}, {begin.format(' + 1')}))"


def parts(*kinds: str) -> list[dict]:
    """A dataset for each kind of thing that is drawn."""
    return [
        {"name": kind, "source": "source", "transform": [{"type": "filter", "expr": f"datum.kind === '{kind}'"}]}
        for kind in kinds
    ]


def _marks(size, colors: Theme) -> list[dict]:
    zero = {"value": 0}
    whole = {"x": zero, "y": zero, "width": {"value": size.width}, "height": {"value": size.height}}
    image = whole | {
        "url": {"field": "uri"},
        "aspect": {"value": False},
        "smooth": {"value": False},
        "tooltip": {"value": None},
    }
    return [
        {
            "type": "image",
            "name": "cells",
            "from": {"data": "map"},
            "aria": False,
            "encode": {"update": image | {"cursor": {"value": "crosshair"}}},
        },
        *frame_marks(),
        *_pointed(size, colors),
    ]


def frame_marks() -> list[dict]:
    """Marks that draw any frame, from a dataset for each of its kinds."""
    ramp = at("x", "y") | {"url": {"field": "uri"}, "aspect": {"value": False}}
    ramp |= {"width": {"value": RAMP_WIDTH}, "height": {"value": RAMP_HEIGHT}}
    boxes = at("x", "y", "x2", "y2", "fill", "stroke") | {"strokeWidth": {"field": "width"}}
    signs = at("x", "y", "size") | {
        "shape": {"field": "path"},
        "stroke": {"field": "color"},
        "strokeWidth": {"field": "width"},
        "fill": {"value": None},
    }
    quiet = {"interactive": False, "aria": False}
    return [
        {"type": "image", "from": {"data": "images"}, "encode": {"update": ramp}} | quiet,
        {"type": "rect", "from": {"data": "boxes"}, "encode": {"update": boxes}} | quiet,
        {"type": "symbol", "from": {"data": "signs"}, "encode": {"update": signs}} | quiet,
        text_mark("titles", "left", fontSize=TITLE_SIZE, fontWeight=600),
        text_mark("words", "left"),
        text_mark("ticks", "center"),
        text_mark("sides", "center", angle=-90),
        text_mark("rows", "right", font=MONO),
        text_mark("columns", "left", angle=-90, font=MONO),
        text_mark("tokens", "left", font=MONO),
    ]


def _pointed(size, colors: Theme) -> list[dict]:
    """A frame around the cell under the pointer, lines to its labels, and the readout under the map."""
    columns, cell = size.columns, size.cell
    x, y = f"at % {columns} * {cell}", f"floor(at / {columns}) * {cell}"
    half = cell / 2
    hidden = {"opacity": {"signal": "at < 0 ? 0 : 1"}}
    stroke = {"stroke": {"value": colors.accent}}
    square = {"x": {"signal": x}, "y": {"signal": y}, "width": {"value": cell}, "height": {"value": cell}}
    across = {"x": {"value": 0}, "x2": {"signal": x}, "y": {"signal": f"{y} + {half}"}}
    down = {"y": {"value": 0}, "y2": {"signal": y}, "x": {"signal": f"{x} + {half}"}}
    thin = {"strokeWidth": {"value": 1}, "strokeOpacity": {"value": 0.6}}
    quiet = {"interactive": False, "aria": False}
    line = {
        "x": {"value": 0},
        "baseline": {"value": "middle"},
        "font": {"value": FONT},
        "fontSize": {"value": TEXT_SIZE},
    }
    who = line | {"y": {"value": size.height + 16}, "text": {"signal": "who"}}
    what = line | {"y": {"value": size.height + 16 + LINE}, "text": {"signal": "what"}, "fill": {"value": colors.text}}
    return [
        {"type": "rule", "encode": {"update": across | stroke | thin | hidden}} | quiet,
        {"type": "rule", "encode": {"update": down | stroke | thin | hidden}} | quiet,
        {"type": "rect", "encode": {"update": square | stroke | {"strokeWidth": {"value": 1.5}} | hidden}} | quiet,
        {
            "type": "text",
            "encode": {"update": who | {"fill": {"signal": f"at < 0 ? '{colors.quiet}' : '{colors.text}'"}}},
        }
        | quiet,
        {"type": "text", "encode": {"update": what}} | quiet,
    ]


def at(*fields: str) -> dict:
    """Channels that are read from fields of the same names."""
    return {name: {"field": name} for name in fields}


def text_mark(kind: str, align: str, **settings) -> dict:
    """Texts of a dataset with the fields x, y, text and color."""
    values = {"align": align, "baseline": "middle", "font": FONT, "fontSize": TEXT_SIZE} | settings
    update = at("x", "y", "text") | {"fill": {"field": "color"}} | {name: {"value": v} for name, v in values.items()}
    return {"type": "text", "from": {"data": kind}, "interactive": False, "aria": False, "encode": {"update": update}}
