"""Large maps on the screen: one image, and what lies under the pointer in words. The one full-Vega specification.

Vega-Lite cannot turn a pointer into a row and a column of an image. Here two signals do. All that changes stands in one
table, so the browser can replace it in place; no text of a user stands in the specification. What is read of the cells
is a file that the browser asks for, as the picture need not wait for it.
"""

import json
from collections.abc import Sequence
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from typing import Protocol

import numpy as np

from attnviz.charts import frame, picture
from attnviz.charts.frame import RAMP_HEIGHT, RAMP_WIDTH
from attnviz.charts.picture import Table
from attnviz.charts.size import Size
from attnviz.charts.state import State
from attnviz.charts.style import Style
from attnviz.charts.theme import FONT, LINE, TEXT_SIZE, Theme

SCHEMA = "https://vega.github.io/schema/vega/v6.json"
"""Names the language; nothing is fetched from there."""

FORMS = {"weight": ".6f", "score": ".3f"}
"""The digits in which the numbers of a cell are read."""

HINT = "Point at a square to read it, click to keep it{}."

LOOKS_AT = "looks at"
"""What a query does to a key, in a readout."""

NO_CELLS = "data:application/json,[]"
"""Where what is read of the cells is found before there is a picture."""

FAR = 6
"""Pixels from which on a pointer that is held down drags."""


class Readable(Protocol):
    """What a readout needs of a map, see `attnviz.charts.maps.Map`."""

    size: Size
    style: Style
    states: np.ndarray
    kinds: Sequence[State]
    numbers: dict[str, tuple[np.ndarray, str]]
    offsets: np.ndarray | None
    frame: frame.Frame
    names: tuple[list[str], list[str]]
    labels: list[dict]
    occurring: list[int]
    positions: tuple[np.ndarray, np.ndarray]
    lasts: tuple[np.ndarray, np.ndarray]

    def uri(self, *, scale: int) -> str:
        """The map as an image."""


def screen(drawing: Readable) -> tuple[dict, Table]:
    """A Vega specification of a map, and the table that it draws.

    The table must be given beside the specification, as the data named "source", with an address in the place of the
    `Cells` in its column "read", where their `json` is found. A click sets the signal "cell" to what
    a Vega-Lite point selection would give: [{"query": ..., "key": ..., "rev": ...}]. Of a map that zooms, a drag sets
    the signal "zoom" in the same way to the first and last positions of what it went over, with the fields top, bottom,
    left and right; the wheel with Ctrl to half of what is seen, around the pointer, or to {"out": 1}.
    """
    style = drawing.style
    tile = 1 if drawing.offsets is None else drawing.size.tile
    hint = HINT.format(", drag to zoom in" if style.zooms else "")
    return _spec(drawing.size, tuple(drawing.numbers), tile, style.zooms, hint, style.colors), table(drawing)


def page(width: float, height: float, select: Sequence[str], colors: Theme) -> dict:
    """What every specification of the screen begins with."""
    return {
        "$schema": SCHEMA,
        "background": colors.background,
        "autosize": "pad",
        "padding": {"left": 0, "top": 0, "right": 0, "bottom": 4},
        "width": width,
        "height": height,
        "params": [{"name": name, "select": "point"} for name in select],
        "data": {"name": "source"},
    }


@lru_cache(maxsize=64)
def _spec(size: Size, numbers: tuple[str, ...], tile: int, zooms: bool, hint: str, colors: Theme) -> dict:
    drawn = {"data": [*parts("map", "label", *frame.KINDS), _cells(size)], "signals": _read(size, numbers, tile)}
    return page(size.width, size.height, ["cell", "zoom"] if zooms else ["cell"], colors) | {
        "signals": _signals(size.rows, size.columns, size.cell, tile, zooms, hint),
        "marks": [{"type": "group", "marks": _marks(size, zooms, colors)} | drawn],
    }


def table(drawing: Readable) -> Table:
    """Rows first, then columns, the map and its sayings, then everything that is drawn, told apart by `kind`."""
    sayings, cells = pack(drawing)
    ends = zip(("row", "column"), drawing.positions, drawing.lasts, drawing.names, strict=True)
    rows, columns = (
        {"kind": [kind] * len(names), "position": first.tolist(), "last": last.tolist(), "name": names}
        for kind, first, last, names in ends
    )
    counts = {"rows": drawing.size.rows, "columns": drawing.size.columns}
    drawn = [{"kind": "map", "uri": drawing.uri(scale=1), "position": drawing.style.rev, "read": cells} | counts]
    drawn[0]["offset"] = None if drawing.offsets is None else _digits(_shortest(drawing.offsets, drawing.size.tile**2))
    drawn += [{"kind": "saying", "name": saying} for saying in sayings]
    drawn += [{"kind": "label", "position": one["query"], "last": one["key"]} | one for one in drawing.labels]
    rest = picture.columns(_COLUMNS, [*drawn, *around(drawing.frame)])
    return picture.stacked(_COLUMNS, [rows, columns, rest])


def around(drawn: frame.Frame) -> list[dict]:
    """A frame as rows of the one table, told apart by `kind`."""
    return [{"kind": kind, **item} for kind, items in vars(drawn).items() for item in items]


_COLUMNS = (
    "kind", "position", "last", "name", "read", "offset", "rows", "columns",
    "x", "y", "x2", "y2", "text", "color", "fill", "stroke", "width", "path", "size", "uri",
)  # fmt: skip


class Cells:
    """What is read of each cell, as arrays of big-endian numbers by name, (rows, columns).

    Weight and score are float32, exact to the last bit; the saying is a number among those that occur.
    """

    def __init__(self, arrays: dict[str, np.ndarray]):
        self.arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    @cached_property
    def name(self) -> str:
        """The same for the same cells, and for no others."""
        content = blake2b(digest_size=20)
        for name, array in self.arrays.items():
            content.update(f"{name} {array.dtype} {array.shape} ".encode())
            content.update(array)
        return content.hexdigest()

    def json(self, of: str) -> bytes:
        """One row: the address that it is found at, and of all cells, row by row, equally many hexadecimal digits."""
        digits = {name: _digits(array) for name, array in self.arrays.items()}
        return json.dumps([{"of": of} | digits]).encode()


def pack(drawing: Readable) -> tuple[list[str], Cells]:
    """The sayings that occur, and what is read of the cells."""
    used = drawing.occurring
    codes = _shortest(np.searchsorted(used, drawing.states), len(used))
    arrays = {name: _float32(values) for name, (values, _) in drawing.numbers.items()} | {"saying": codes}
    return [drawing.kinds[i].says for i in used], Cells(arrays)


def _shortest(codes: np.ndarray, count: int) -> np.ndarray:
    """Codes below a count, in as few bytes as all of them need."""
    return codes.astype(np.min_scalar_type(max(0, count - 1)).newbyteorder(">"))


def _digits(array: np.ndarray) -> str:
    return array.tobytes().hex()


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


def _signals(rows: int, columns: int, cell: float, tile: int, zooms: bool, hint: str) -> list[dict]:
    """From the pointer to a cell. `at` counts cells row by row; -1 is none."""
    place = f"clamp(floor(y() / {cell}), 0, {rows - 1}) * {columns} + clamp(floor(x() / {cell}), 0, {columns - 1})"
    row, column = f"data('source')[floor(at / {columns})]", f"data('source')[{rows} + at % {columns}]"
    drawn = _map(rows, columns)
    query, key = _tiled(f"{row}.position", f"{column}.position", tile)
    clicked = f"{{query: {query}, key: {key}, rev: {drawn}.position}}"
    labeled = f"{{query: datum.position, key: datum.last, rev: {drawn}.position}}"
    offset = {"name": "offset", "update": code_of(f"{drawn}.offset", rows * columns, "at < 0")}
    selected = f"{'far ? cell : ' * zooms}{_point(clicked)}"
    who = f"{row}.name + ' {LOOKS_AT} ' + {column}.name"
    return [
        {
            "name": "at",
            "value": -1,
            "on": [{"events": "@cells:pointermove", "update": place}, {"events": "@cells:pointerout", "update": "-1"}],
        },
        *([offset] if tile > 1 else ()),
        *(_zoom(rows, columns, cell) if zooms else ()),
        {"name": "who", "update": f"at < 0 ? '{hint}' : {who}"},
        _selected(selected, _point(labeled)),
    ]


def _map(rows: int, columns: int) -> str:
    """The row of the table that is the map."""
    return f"data('source')[{rows + columns}]"


def _tiled(query: str, key: str, tile: int) -> tuple[str, str]:
    """The positions of what is read of a tile, from those where it begins."""
    return (f"{query} + floor(offset / {tile})", f"{key} + offset % {tile}") if tile > 1 else (query, key)


def _cells(size: Size) -> dict:
    """The data of what is read of the cells; a picture is drawn without waiting for it."""
    url = f"length(data('source')) ? {_map(size.rows, size.columns)}.read : '{NO_CELLS}'"
    return {"name": "read", "url": {"signal": url}, "format": {"type": "json"}, "async": True}


def _read(size: Size, numbers: tuple[str, ...], tile: int) -> list[dict]:
    """What is read of the cell that is pointed at, in words; "…" while that is on its way."""
    rows, columns = size.rows, size.columns
    query, key = _tiled(
        f"data('source')[floor(at / {columns})].position", f"data('source')[{rows} + at % {columns}].position", tile
    )
    there = f"length(data('read')) && data('read')[0].of === {_map(rows, columns)}.read"
    words = [
        *(f"'{name} ' + {number_of(name, FORMS[name])}" for name in numbers),
        *([f"'from query ' + ({query}) + ' to key ' + ({key})"] if tile > 1 else []),
        f"data('source')[{rows + columns + 1} + saying].name",
    ]
    none = f"at < 0 || !({there})"
    fields = ((name, code_of(f"data('read')[0].{name}", rows * columns, none)) for name in (*numbers, "saying"))
    said = " + '   ·   ' + ".join(words)
    what = f"at < 0 ? '' : {there} ? {said} : '…'"
    return [*({"name": name, "update": how} for name, how in fields), {"name": "what", "update": what}]


def _selected(by_cell: str, by_label: str) -> dict:
    """The cell that is selected, by a click on it or on the label of its row or column, until Escape."""
    clicks = [{"events": "@cells:click", "update": by_cell}, {"events": "@labels:click", "update": by_label}]
    escape = {"events": "window:keydown[event.key === 'Escape']", "update": "null"}
    return {"name": "cell", "value": None, "on": [*clicks, escape]}


def _point(fields: str) -> str:
    """What a selection of points gives for one with such fields."""
    return f"{{vlPoint: {{or: [{fields}]}}}}"


def _zoom(rows: int, columns: int, cell: float) -> list[dict]:
    """Where a drag began and is, whether it went far, and what it or the wheel asks to see."""
    rev = f"data('source')[{rows + columns}].position"
    seen = partial(_between, rows, columns, cell, rev)
    wide, high = columns * cell / 4, rows * cell / 4
    nearer = seen(f"[x() - {wide}, y() - {high}]", f"[x() + {wide}, y() + {high}]")
    wheel = {"source": "view", "type": "wheel", "markname": "cells", "filter": "event.ctrlKey"}
    asks = [
        {"events": "window:pointerup", "update": f"{_held(rev)} ? {seen('begun', 'held')} : zoom"},
        {
            "events": wheel | {"consume": True, "throttle": 250},
            "update": f"event.deltaY < 0 ? {nearer} : {_point(f'{{out: 1, rev: {rev}}}')}",
        },
    ]
    moved = "[@cells:pointerdown, window:pointerup] > window:pointermove!"
    let_go = "@cells:pointerdown, window:keydown[event.key === 'Escape']"
    long = f"abs(held[0] - begun[0]) > {FAR} || abs(held[1] - begun[1]) > {FAR}"
    far = [{"events": "@cells:pointerdown", "update": "false"}]
    far += [{"events": {"signal": "held"}, "update": f"held ? {long} : far"}]
    held = [{"events": let_go, "update": "null"}, {"events": moved, "update": "xy()"}]
    return [
        {"name": "begun", "value": [0, 0], "on": [{"events": "@cells:pointerdown", "update": f"[x(), y(), {rev}]"}]},
        {"name": "zoom", "value": None, "on": asks},
        {"name": "held", "value": None, "on": held},
        {"name": "far", "value": False, "on": far},
    ]


def _between(rows: int, columns: int, cell: float, rev: str, one: str, other: str) -> str:
    """The positions between two points, which are expressions of x and y."""

    def place(at: str, axis: int, count: int) -> str:
        return f"clamp(floor({at}[{axis}] / {cell}), 0, {count - 1})"

    row = f"data('source')[{{}}({place(one, 1, rows)}, {place(other, 1, rows)})]"
    column = f"data('source')[{rows} + {{}}({place(one, 0, columns)}, {place(other, 0, columns)})]"
    ends = f"top: {row.format('min')}.position, bottom: {row.format('max')}.last, "
    ends += f"left: {column.format('min')}.position, right: {column.format('max')}.last"
    return _point(f"{{{ends}, rev: {rev}}}")


def _held(rev: str) -> str:
    """Whether there was a drag over the map that is there."""
    return f"held && far && begun[2] === {rev}"


def code_of(cells: str, count: int, none: str) -> str:
    """The number of the cell that is pointed at, of the equally many hexadecimal digits of each of a count."""
    long = f"length({cells}) / {count}"
    return f"{none} ? 0 : toNumber('0x' + slice({cells}, at * {long}, (at + 1) * {long}))"


def parts(*kinds: str) -> list[dict]:
    """A dataset for each kind of thing that is drawn."""
    return [
        {"name": kind, "source": "source", "transform": [{"type": "filter", "expr": f"datum.kind === '{kind}'"}]}
        for kind in kinds
    ]


def _marks(size: Size, zooms: bool, colors: Theme) -> list[dict]:
    cells = values(x=0, y=0, width=size.width, height=size.height, cursor="crosshair") | at(url="uri")
    cells |= values(aspect=False, smooth=False, tooltip=None)
    return [
        mark("image", cells, "map", name="cells"),
        *frame_marks(),
        *_pointed(size, colors),
        mark("rect", at("x", "y", "x2", "y2") | values(fill="transparent", cursor="pointer"), "label", name="labels"),
        *([_dragged(size, colors)] if zooms else []),
    ]


def frame_marks() -> list[dict]:
    """Marks that draw any frame, from a dataset for each of its kinds."""
    ramp = at("x", "y", url="uri") | values(aspect=False, width=RAMP_WIDTH, height=RAMP_HEIGHT)
    boxes = at("x", "y", "x2", "y2", "fill", "stroke", strokeWidth="width")
    signs = at("x", "y", "size", shape="path", stroke="color", strokeWidth="width") | values(fill=None)
    texts = at("x", "y", "text", fill="color") | values(baseline="middle", font=FONT, fontSize=TEXT_SIZE)
    return [
        mark("image", ramp, "images", quiet=True),
        mark("rect", boxes, "boxes", quiet=True),
        mark("symbol", signs, "signs", quiet=True),
        *(mark("text", texts | values(**how), kind, quiet=True) for kind, how in frame.TEXTS.items()),
    ]


def _pointed(size: Size, colors: Theme) -> list[dict]:
    """A frame around the cell under the pointer, lines to its labels, and the readout under the map."""
    columns, cell = size.columns, size.cell
    x, y = f"at % {columns} * {cell}", f"floor(at / {columns}) * {cell}"
    drawn = signals(opacity="at < 0 ? 0 : 1") | values(stroke=colors.accent)
    thin = drawn | values(strokeWidth=1, strokeOpacity=0.6)
    line = values(x=0, baseline="middle", font=FONT, fontSize=TEXT_SIZE)
    hint = f"at < 0 ? '{colors.quiet}' : '{colors.text}'"
    below = size.height + 16
    what = values(y=below + LINE, fill=colors.text)
    square = drawn | signals(x=x, y=y) | values(width=cell, height=cell, strokeWidth=1.5)
    return [
        mark("rule", thin | signals(x2=x, y=f"{y} + {cell / 2}") | values(x=0), quiet=True),
        mark("rule", thin | signals(y2=y, x=f"{x} + {cell / 2}") | values(y=0), quiet=True),
        mark("rect", square, quiet=True),
        mark("text", line | values(y=below) | signals(text="who", fill=hint), quiet=True, name="readout"),
        mark("text", line | what | signals(text="what"), quiet=True, name="readout-more"),
    ]


def _dragged(size: Size, colors: Theme) -> dict:
    """A frame around what a drag went over, until another map is there."""
    ends = signals(x="begun[0]", y="begun[1]", x2="held ? held[0] : 0", y2="held ? held[1] : 0")
    rev = f"data('source')[{size.rows + size.columns}].position"
    shown = signals(opacity=f"{_held(rev)} ? 1 : 0")
    return mark("rect", ends | shown | values(fill=colors.accent, fillOpacity=0.12, stroke=colors.accent), quiet=True)


def mark(kind: str, channels: dict, data: str | None = None, *, quiet: bool = False, **more: object) -> dict:
    """A mark of Vega, from a dataset if it has one; a quiet one lets the pointer through."""
    channels |= signals(image=picture.LOADED) if kind == "image" else {}
    more |= {"from": {"data": data}} if data else {}
    return {"type": kind, "aria": False, "encode": {"update": channels}, "interactive": not quiet} | more


def at(*fields: str, **others: str) -> dict:
    """Channels that are read from fields, of the same names or of others."""
    return {channel: {"field": name} for channel, name in (dict(zip(fields, fields, strict=True)) | others).items()}


def values(**channels: object) -> dict:
    """Channels that are always the same."""
    return {name: {"value": value} for name, value in channels.items()}


def signals(**channels: str) -> dict:
    """Channels by expressions."""
    return {name: {"signal": expression} for name, expression in channels.items()}
