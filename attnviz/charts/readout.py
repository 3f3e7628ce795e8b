"""Large grids on a page: an image, and words about the cell under the pointer. The one full-Vega specification.

Vega-Lite cannot turn a pointer into a row and a column of an image; two signals of Vega can. The chart of the grid is
compiled to Vega and gets these signals, so title, axes and legend have one source. A page hands over one table, named
"source", told apart by its column `kind`; what is read of the cells is a file that the browser asks for.
"""

import json
import marshal
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from typing import Any

import numpy as np

from attnviz.charts.grid import Grid
from attnviz.charts.grid_form import READOUT
from attnviz.charts.marks import LOADED, Form, Table
from attnviz.charts.size import Size
from attnviz.charts.theme import FONT, LINE, TEXT_SIZE, Theme

FORMATS = {"score": ".3f", "difference": "+.6f"}
"""Digits of numbers of a cell; of all others six."""

HINT = "Point at a square to read it, click to keep it{}."

NO_CELLS = "data:application/json,[]"
"""Address of the cells before there is a picture."""

DRAG = 6
"""Pixels from which on a pointer that is held down drags."""


def screen(grid: Grid, form: Form | None = None, data: dict[str, Table] | None = None) -> tuple[dict[str, Any], Table]:
    """A Vega specification of a grid, and the table that it draws, to be named "source".

    Args:
        form, data: of several grids of one size in a row, of which this one is read; None for this one alone.

    In its column "read" stands a `CellNumbers`: an address where its `json` is found takes its place. A click sets
    the signal "cell" to what a Vega-Lite point selection would give: [{"query": ..., "key": ..., "rev": ...}]. Of a
    grid that zooms, a drag sets the signal "zoom" in the same way to the first and last positions under it, with
    the fields top, bottom, left and right; the wheel with Ctrl to half of what is there, around the pointer, or to
    {"out": 1}.
    """
    tile = 1 if grid.offsets is None else grid.size.tile
    hint = HINT.format(", drag to zoom in" if grid.style.zooms else "")
    words = hint, grid.verb
    titles = dict(grid.tips)
    numbers = tuple((name, titles[f"{name}_text"]) for name in grid.numbers)
    spec = _spec(
        marshal.dumps((form or grid.form).spec, 2), grid.size, numbers, tile, grid.style.zooms, words, grid.style.colors
    )
    return spec, table(grid, data or grid.data)


def warm() -> None:
    """Start the compiler of large maps: its first specification takes a third of a second."""
    import vl_convert

    vl_convert.vegalite_to_vega({"mark": "point", "data": {"values": []}})


def table(grid: Grid, data: dict[str, Table]) -> Table:
    """All tables as one: rows of the grid first, then columns, then meta and what cells can say."""
    used = grid.occurring
    codes = _shortest(np.searchsorted(used, grid.states), len(used))
    cells = CellNumbers({name: _float32(values) for name, (values, _) in grid.numbers.items()} | {"saying": codes})
    offset = None if grid.offsets is None else _shortest(grid.offsets, grid.size.tile**2).tobytes().hex()
    first, meta = [f"{grid.prefix}{name}" for name in ("rows", "columns", "meta")], f"{grid.prefix}meta"
    more = {"rev": [grid.style.rev], "read": [cells], "offset": [offset]}
    parts = data | {meta: data[meta] | more, "saying": {"name": [grid.kinds[i].text for i in used]}}
    order = [*first, "saying", *(name for name in data if name not in first)]
    tables = [{"kind": [name] * len(next(iter(parts[name].values()))), **parts[name]} for name in order]
    names = dict.fromkeys(name for columns in tables for name in columns)
    counts = [len(columns["kind"]) for columns in tables]
    return {
        name: [value for part, count in zip(tables, counts, strict=True) for value in part.get(name) or [None] * count]
        for name in names
    }


class CellNumbers:
    """Numbers of each cell, as arrays of big-endian numbers by name, (rows, columns).

    Weight and score are float32, exact to the last bit; the saying is a number among those that occur.
    """

    def __init__(self, arrays: dict[str, np.ndarray]):
        self.arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    @cached_property
    def name(self) -> str:
        """A digest: the same for the same cells, and for no others."""
        content = blake2b(digest_size=20)
        for name, array in self.arrays.items():
            content.update(f"{name} {array.dtype} {array.shape} ".encode())
            content.update(array)
        return content.hexdigest()

    def json(self, of: str) -> bytes:
        """One row: the address that it is found at, and of all cells, row by row, equally many hexadecimal digits."""
        digits = {name: array.tobytes().hex() for name, array in self.arrays.items()}
        return json.dumps([{"of": of} | digits]).encode()


def _shortest(codes: np.ndarray, count: int) -> np.ndarray:
    """Codes below a count, in as few bytes as all of them need."""
    return codes.astype(np.min_scalar_type(max(0, count - 1)).newbyteorder(">"))


def _float32(values: np.ndarray) -> np.ndarray:
    """Big-endian float32; what is larger is the largest of them, and does not become infinite."""
    most = np.finfo(np.float32).max
    return np.where(np.isfinite(values), values.clip(-most, most), values).astype(">f4")


@lru_cache(maxsize=64)
def _spec(
    form: bytes,
    size: Size,
    numbers: tuple[tuple[str, str], ...],
    tile: int,
    zooms: bool,
    words: tuple[str, str],
    colors: Theme,
) -> dict[str, Any]:
    """The chart of a grid as Vega, in a group whose data come from the one table, with the signals of the pointer.

    Args:
        form: bytes of the Vega-Lite chart, a key of the cache that is made five times as fast as JSON.
    """
    import vl_convert

    vega = vl_convert.vegalite_to_vega(marshal.loads(form))
    inner_names = ("scales", "axes", "legends", "title", "marks", "layout")
    inner = {name: vega.pop(name) for name in inner_names if name in vega}
    views = [mark["marks"] for mark in inner["marks"] if mark["type"] == "group"] or [inner["marks"]]
    for marks in views:
        for mark in marks:
            _named(mark)
    views = [marks for marks in views if any(mark.get("name") == "cells" for mark in marks)]
    data = [dataset if "source" in dataset else dataset | _of_kind(dataset["name"]) for dataset in vega.pop("data")]
    inner["data"] = [*data, {"name": "saying"} | _of_kind("saying"), _cells(size)]
    inner["signals"] = [
        {"name": "width", "value": size.width},
        {"name": "height", "value": size.height},
        *vega.get("signals", ()),
        *_words(size, numbers, tile),
    ]
    for i, marks in enumerate(views):
        marks += _pointed(size, colors)[: None if i == 0 else -2]
        marks += [_dragged(size, colors)] if zooms else []
    sides = _values(width=size.width, height=size.height)
    select = ["cell", "zoom"] if zooms else ["cell"]
    return {name: vega[name] for name in ("$schema", "background", "config") if name in vega} | {
        "autosize": "pad",
        "padding": {"left": 0, "top": 0, "right": 0, "bottom": 4},
        "width": size.width,
        "height": size.height,
        "params": [{"name": name, "select": "point"} for name in select],
        "data": {"name": "source"},
        "signals": _signals(size, tile, zooms, words),
        "marks": [{"type": "group", "encode": {"update": sides}, **inner}],
    }


def _of_kind(name: str) -> dict:
    return {"source": "source", "transform": [{"type": "filter", "expr": f"datum.kind === '{name}'"}]}


def _named(mark: dict) -> None:
    """Name the image, and the labels that can be clicked, for the events of the signals."""
    if mark["type"] == "image":
        mark["name"] = "cells"
        mark["encode"]["update"] |= {"image": {"signal": LOADED}, "cursor": {"value": "crosshair"}}
        mark["interactive"] = True
    elif mark["type"] == "text" and mark["encode"]["update"].get("opacity") == {"value": 0}:
        mark["interactive"] = True
    else:
        mark["interactive"] = False


def _signals(size: Size, tile: int, zooms: bool, words: tuple[str, str]) -> list[dict]:
    """From the pointer to a cell. `at` counts cells row by row; -1 is none."""
    rows, columns, cell = size.rows, size.columns, size.cell
    place = f"clamp(floor(y(group()) / {cell}), 0, {rows - 1}) * {columns}"
    place += f" + clamp(floor(x(group()) / {cell}), 0, {columns - 1})"
    row, column = f"data('source')[floor(at / {columns})]", f"data('source')[{rows} + at % {columns}]"
    meta = _meta(size)
    query, key = _tiled(f"{row}.position", f"{column}.position", tile)
    by_cell = f"{{query: {query}, key: {key}, rev: {meta}.rev}}"
    by_label = f"{{query: datum.query, key: datum.key, rev: {meta}.rev}}"
    offset = {"name": "offset", "update": _code(f"{meta}.offset", rows * columns, "at < 0")}
    guard = "far ? cell : " if zooms else ""
    hint, verb = words
    who = f"{row}.name + ' {verb} ' + {column}.name"
    clicks = [
        {"events": "@cells:click", "update": f"{guard}{_point(by_cell)}"},
        {
            "events": {"type": "click", "marktype": "text", "filter": "datum && isValid(datum.query)"},
            "update": _point(by_label),
        },
        {"events": "window:keydown[event.key === 'Escape']", "update": "null"},
    ]
    return [
        {
            "name": "at",
            "value": -1,
            "on": [{"events": "@cells:pointermove", "update": place}, {"events": "@cells:pointerout", "update": "-1"}],
        },
        *([offset] if tile > 1 else ()),
        *(_zoom(size) if zooms else ()),
        {"name": "who", "update": f"at < 0 ? '{hint}' : {who}"},
        {"name": "cell", "value": None, "on": clicks},
    ]


def _meta(size: Size) -> str:
    """The row of the one table that is about the whole grid."""
    return f"(data('source')[{size.rows + size.columns}] || {{}})"


def _tiled(query: str, key: str, tile: int) -> tuple[str, str]:
    """Positions of the largest cell of a tile, from those where it begins."""
    return (f"{query} + floor(offset / {tile})", f"{key} + offset % {tile}") if tile > 1 else (query, key)


def _cells(size: Size) -> dict:
    """Data of the cells; a picture is drawn without waiting for it."""
    url = f"{_meta(size)}.read || '{NO_CELLS}'"
    return {"name": "read", "url": {"signal": url}, "format": {"type": "json"}, "async": True}


def _words(size: Size, numbers: tuple[tuple[str, str], ...], tile: int) -> list[dict]:
    """The cell that is pointed at, in words; "…" while they are on their way."""
    rows, columns = size.rows, size.columns
    query, key = _tiled(
        f"data('source')[floor(at / {columns})].position", f"data('source')[{rows} + at % {columns}].position", tile
    )
    there = f"length(data('read')) && data('read')[0].of === {_meta(size)}.read"
    words = [
        *(f"'{title} ' + {number_of(name, FORMATS.get(name, '.6f'))}" for name, title in numbers),
        *([f"'from query ' + ({query}) + ' to key ' + ({key})"] if tile > 1 else []),
        f"(data('source')[{rows + columns + 1} + saying] || {{}}).name",
    ]
    none = f"at < 0 || !({there})"
    fields = ((name, _code(f"data('read')[0].{name}", rows * columns, none)) for name in (*dict(numbers), "saying"))
    text = " + '   ·   ' + ".join(words)
    what = f"at < 0 ? '' : {there} ? {text} : '…'"
    return [*({"name": name, "update": how} for name, how in fields), {"name": "what", "update": what}]


def number_of(bits: str, form: str) -> str:
    """A Vega expression for the digits of a float32 whose bits are an integer: "NaN", "∞" and "−∞" among them."""
    sign, exponent, fraction = f"({bits} < 2147483648 ? 1 : -1)", f"floor({bits} / 8388608) % 256", f"{bits} % 8388608"
    finite = f"{sign} * ({fraction} + ({exponent} ? 8388608 : 0)) * pow(2, max({exponent}, 1) - 150)"
    others = f"{fraction} ? 'NaN' : {sign} < 0 ? '−∞' : '∞'"
    return f"({exponent} === 255 ? {others} : format({finite}, '{form}'))"


def _code(cells: str, count: int, none: str) -> str:
    """The number of the cell that is pointed at, of the equally many hexadecimal digits of each of a count."""
    long = f"length({cells}) / {count}"
    return f"{none} ? 0 : toNumber('0x' + slice({cells}, at * {long}, (at + 1) * {long}))"


def _point(fields: str) -> str:
    """The value of a selection of points for one with such fields."""
    return f"{{vlPoint: {{or: [{fields}]}}}}"


def _zoom(size: Size) -> list[dict]:
    """Signals of a drag: begin, end, whether it went far, and the window that it or the wheel asks for."""
    rev = f"{_meta(size)}.rev"
    between = partial(_between, size, rev)
    wide, high = size.width / 4, size.height / 4
    nearer = between(f"[x() - {wide}, y() - {high}]", f"[x() + {wide}, y() + {high}]")
    wheel = {"source": "view", "type": "wheel", "markname": "cells", "filter": "event.ctrlKey"}
    asks = [
        {"events": "window:pointerup", "update": f"{_held(rev)} ? {between('begun', 'held')} : zoom"},
        {
            "events": wheel | {"consume": True, "throttle": 250},
            "update": f"event.deltaY < 0 ? {nearer} : {_point(f'{{out: 1, rev: {rev}}}')}",
        },
    ]
    moved = "[@cells:pointerdown, window:pointerup] > window:pointermove!"
    let_go = "@cells:pointerdown, window:keydown[event.key === 'Escape']"
    long = f"abs(held[0] - begun[0]) > {DRAG} || abs(held[1] - begun[1]) > {DRAG}"
    far = [{"events": "@cells:pointerdown", "update": "false"}]
    far += [{"events": {"signal": "held"}, "update": f"held ? {long} : far"}]
    held = [{"events": let_go, "update": "null"}, {"events": moved, "update": "xy()"}]
    return [
        {"name": "begun", "value": [0, 0], "on": [{"events": "@cells:pointerdown", "update": f"[x(), y(), {rev}]"}]},
        {"name": "zoom", "value": None, "on": asks},
        {"name": "held", "value": None, "on": held},
        {"name": "far", "value": False, "on": far},
    ]


def _between(size: Size, rev: str, start: str, stop: str) -> str:
    """The positions between two points, which are expressions of x and y."""

    def place(point: str, axis: int, count: int) -> str:
        return f"clamp(floor({point}[{axis}] / {size.cell}), 0, {count - 1})"

    row = f"data('source')[{{}}({place(start, 1, size.rows)}, {place(stop, 1, size.rows)})]"
    columns = f"{{}}({place(start, 0, size.columns)}, {place(stop, 0, size.columns)})"
    column = f"data('source')[{size.rows} + {columns}]"
    ends = f"top: {row.format('min')}.position, bottom: {row.format('max')}.last, "
    ends += f"left: {column.format('min')}.position, right: {column.format('max')}.last"
    return _point(f"{{{ends}, rev: {rev}}}")


def _held(rev: str) -> str:
    """Whether there was a drag over the map that is there."""
    return f"held && far && begun[2] === {rev}"


def _pointed(size: Size, colors: Theme) -> list[dict]:
    """A frame around the cell under the pointer, lines to its labels, and the words under the map."""
    columns, cell = size.columns, size.cell
    x, y = f"at % {columns} * {cell}", f"floor(at / {columns}) * {cell}"
    there = _signal(opacity="at < 0 ? 0 : 1") | _values(stroke=colors.accent)
    thin = there | _values(strokeWidth=1, strokeOpacity=0.6)
    line = _values(x=0, baseline="middle", font=FONT, fontSize=TEXT_SIZE)
    hint = f"at < 0 ? '{colors.quiet}' : '{colors.text}'"
    below = size.height + READOUT - 2 * LINE
    square = there | _signal(x=x, y=y) | _values(width=cell, height=cell, strokeWidth=1.5)
    what = _values(y=below + LINE, fill=colors.text) | _signal(text="what")
    return [
        _mark("rule", thin | _signal(x2=x, y=f"{y} + {cell / 2}") | _values(x=0)),
        _mark("rule", thin | _signal(y2=y, x=f"{x} + {cell / 2}") | _values(y=0)),
        _mark("rect", square),
        _mark("text", line | _values(y=below) | _signal(text="who", fill=hint), name="readout"),
        _mark("text", line | what, name="readout-more"),
    ]


def _dragged(size: Size, colors: Theme) -> dict:
    """A frame around what a drag went over, until another map is there."""
    ends = _signal(x="begun[0]", y="begun[1]", x2="held ? held[0] : 0", y2="held ? held[1] : 0")
    there = _signal(opacity=f"{_held(f'{_meta(size)}.rev')} ? 1 : 0")
    return _mark("rect", ends | there | _values(fill=colors.accent, fillOpacity=0.12, stroke=colors.accent))


def _mark(kind: str, channels: dict, **more: str) -> dict:
    """A mark that lets the pointer through."""
    return {"type": kind, "aria": False, "encode": {"update": channels}, "interactive": False} | more


def _values(**channels: object) -> dict:
    return {name: {"value": value} for name, value in channels.items()}


def _signal(**channels: str) -> dict:
    return {name: {"signal": expression} for name, expression in channels.items()}
