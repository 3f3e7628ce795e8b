"""Large grids on a page: an image, and words about the cell under the pointer. The one full-Vega specification.

Vega-Lite cannot turn a pointer into a row and a column of an image; signals of Vega can. The chart of the grid is
compiled to Vega and gets these signals, so title, axes and legend have one source. A page hands over one table, named
"source", told apart by its column `kind`; what is read of the cells is a file that the browser asks for.
"""

import json
import marshal
from functools import cached_property, lru_cache
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
        form, data: chart and tables of several grids of one size in a row, of which this one is read; None for this one
            alone.

    In its column "read" stands a `CellNumbers`: an address where its `json` is found takes its place. A click sets
    the signal "cell" to what a Vega-Lite point selection would give: [{"query": ..., "key": ..., "rev": ...}]. Of a
    grid that zooms, a drag sets the signal "zoom" in the same way to the first and last positions under it, with
    the fields top, bottom, left and right; the wheel with Ctrl to half of what is there, around the pointer, or to
    {"out": 1}.
    """
    tile, style = 1 if grid.offsets is None else grid.size.tile, grid.style
    words = HINT.format(", drag to zoom in" if style.zooms else ""), grid.verb
    titles = dict(grid.tips)
    numbers = tuple((name, titles[f"{name}_text"]) for name in grid.numbers)
    key = marshal.dumps((form or grid.form).spec, 2)  # five times as fast as JSON
    return _spec(key, grid.size, numbers, tile, style.zooms, words, style.colors), table(grid, data or grid.data)


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
    return {
        name: [value for part in tables for value in part.get(name) or [None] * len(part["kind"])]
        for name in dict.fromkeys(name for part in tables for name in part)
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
        return json.dumps([{"of": of} | {name: array.tobytes().hex() for name, array in self.arrays.items()}]).encode()


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
    """The chart of a grid as Vega, in a group whose data come from the one table, with the signals of the pointer."""
    import vl_convert

    vega = vl_convert.vegalite_to_vega(marshal.loads(form))
    inner_names = ("scales", "axes", "legends", "title", "marks", "layout")
    inner = {name: vega.pop(name) for name in inner_names if name in vega}
    views = [mark["marks"] for mark in inner["marks"] if mark["type"] == "group"] or [inner["marks"]]
    for mark in (mark for marks in views for mark in marks):
        is_label = mark["type"] == "text" and mark["encode"]["update"].get("opacity") == {"value": 0}
        mark["interactive"] = is_label or mark["type"] == "image"
        if mark["type"] == "image":
            mark["name"] = "cells"
            mark["encode"]["update"] |= {"image": {"signal": LOADED}, "cursor": {"value": "crosshair"}}
    views = [marks for marks in views if any(mark.get("name") == "cells" for mark in marks)]
    data = [dataset if "source" in dataset else _of_kind(dataset) for dataset in vega.pop("data")]
    cells = {"url": {"signal": f"pointed_meta.read || '{NO_CELLS}'"}, "format": {"type": "json"}, "async": True}
    inner["data"] = [*data, _of_kind({"name": "saying"}), {"name": "read"} | cells]
    sides = {name: {"value": value} for name, value in (("width", size.width), ("height", size.height))}
    own = [{"name": name} | side for name, side in sides.items()]
    inner["signals"] = [*own, *vega.get("signals", ()), *_words(size, numbers, tile)]
    for i, marks in enumerate(views):
        marks += _pointed(size, colors)[: None if i == 0 else -2]
        marks += [_dragged(colors)] if zooms else []
    return {name: vega[name] for name in ("$schema", "background", "config") if name in vega} | {
        "autosize": "pad",
        "padding": {"left": 0, "top": 0, "right": 0, "bottom": 4},
        "width": size.width,
        "height": size.height,
        "params": [{"name": name, "select": "point"} for name in (["cell", "zoom"] if zooms else ["cell"])],
        "data": {"name": "source"},
        "signals": _signals(size, tile, zooms, words),
        "marks": [{"type": "group", "encode": {"update": sides}, **inner}],
    }


def _of_kind(dataset: dict) -> dict:
    """A dataset of the rows of the one table that have its name."""
    own = {"type": "filter", "expr": f"datum.kind === '{dataset['name']}'"}
    return dataset | {"source": "source", "transform": [own]}


def _signals(size: Size, tile: int, zooms: bool, words: tuple[str, str]) -> list[dict]:
    """From the pointer to a cell: its row and column in the table, and its positions. `at` counts cells, -1 is none."""
    rows, columns, (hint, verb) = size.rows, size.columns, words
    place = f"clamp(floor(y(group()) / {size.cell}), 0, {rows - 1}) * {columns}"
    place += f" + clamp(floor(x(group()) / {size.cell}), 0, {columns - 1})"
    label = {"type": "click", "marktype": "text", "filter": "datum && isValid(datum.query)"}
    by_cell = _point("query: pointed_query, key: pointed_key")
    clicks = [
        {"events": "@cells:click", "update": f"far ? cell : {by_cell}" if zooms else by_cell},
        {"events": label, "update": _point("query: datum.query, key: datum.key")},
        {"events": "window:keydown[event.key === 'Escape']", "update": "null"},
    ]
    at = [{"events": "@cells:pointermove", "update": place}, {"events": "@cells:pointerout", "update": "-1"}]
    updates = {
        "pointed_meta": f"data('source')[{rows + columns}] || {{}}",
        "pointed_row": f"data('source')[floor(at / {columns})] || {{}}",
        "pointed_column": f"data('source')[{rows} + at % {columns}] || {{}}",
        "offset": _code("pointed_meta.offset", rows * columns, "at < 0") if tile > 1 else "0",  # in the tile
        "pointed_query": f"pointed_row.position + floor(offset / {tile})",
        "pointed_key": f"pointed_column.position + offset % {tile}",
        "who": f"at < 0 ? '{hint}' : pointed_row.name + ' {verb} ' + pointed_column.name",
    }
    return [
        {"name": "at", "value": -1, "on": at},
        *({"name": name, "update": update} for name, update in updates.items()),
        *(_zoom(size) if zooms else ()),
        {"name": "cell", "value": None, "on": clicks},
    ]


def _words(size: Size, numbers: tuple[tuple[str, str], ...], tile: int) -> list[dict]:
    """The cell that is pointed at, in words; "…" while they are on their way."""
    there = "length(data('read')) && data('read')[0].of === pointed_meta.read"
    words = [f"'{title} ' + {number_of(name, FORMATS.get(name, '.6f'))}" for name, title in numbers]
    words += ["'from query ' + pointed_query + ' to key ' + pointed_key"] if tile > 1 else []
    words.append(f"(data('source')[{size.rows + size.columns + 1} + saying] || {{}}).name")
    updates = {
        name: _code(f"data('read')[0].{name}", size.rows * size.columns, f"at < 0 || !({there})")
        for name in (*dict(numbers), "saying")
    }
    text = " + '   ·   ' + ".join(words)
    updates["what"] = f"at < 0 ? '' : {there} ? {text} : '…'"
    return [{"name": name, "update": update} for name, update in updates.items()]


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
    return f"{{vlPoint: {{or: [{{{fields}, rev: pointed_meta.rev}}]}}}}"


def _zoom(size: Size) -> list[dict]:
    """Signals of a drag: begin, end, whether it went far, and the window that it or the wheel asks for."""
    wide, high, cells = size.width / 4, size.height / 4, "@cells:pointerdown"
    nearer = _between(size, f"[x() - {wide}, y() - {high}]", f"[x() + {wide}, y() + {high}]")
    wheel = {"source": "view", "type": "wheel", "markname": "cells", "filter": "event.ctrlKey"}
    asks = [
        {"events": "window:pointerup", "update": f"{HELD} ? {_between(size, 'begun', 'held')} : zoom"},
        {
            "events": wheel | {"consume": True, "throttle": 250},
            "update": f"event.deltaY < 0 ? {nearer} : {_point('out: 1')}",
        },
    ]
    moved = f"[{cells}, window:pointerup] > window:pointermove!"
    let_go = f"{cells}, window:keydown[event.key === 'Escape']"
    long = f"abs(held[0] - begun[0]) > {DRAG} || abs(held[1] - begun[1]) > {DRAG}"
    far = [{"events": cells, "update": "false"}, {"events": {"signal": "held"}, "update": f"held ? {long} : far"}]
    held = [{"events": let_go, "update": "null"}, {"events": moved, "update": "xy()"}]
    begun = [{"events": cells, "update": "[x(), y(), pointed_meta.rev]"}]
    signals = {"begun": ([0, 0], begun), "zoom": (None, asks), "held": (None, held), "far": (False, far)}
    return [{"name": name, "value": value, "on": on} for name, (value, on) in signals.items()]


HELD = "held && far && begun[2] === pointed_meta.rev"
"""Whether there was a drag over the map that is there."""


def _between(size: Size, start: str, stop: str) -> str:
    """The positions between two points, which are expressions of x and y."""
    ends = []
    for names, axis, count, first in (("top bottom", 1, size.rows, 0), ("left right", 0, size.columns, size.rows)):
        places = (f"clamp(floor({point}[{axis}] / {size.cell}), 0, {count - 1})" for point in (start, stop))
        both = ", ".join(places)
        for name, least, field in zip(names.split(), ("min", "max"), ("position", "last"), strict=True):
            ends.append(f"{name}: data('source')[{first} + {least}({both})].{field}")
    return _point(", ".join(ends))


def _pointed(size: Size, colors: Theme) -> list[dict]:
    """A frame around the cell under the pointer, lines to its labels, and the words under the map."""
    columns, cell = size.columns, size.cell
    x, y = f"at % {columns} * {cell}", f"floor(at / {columns}) * {cell}"
    there = {"opacity": "at < 0 ? 0 : 1"}
    thin = {"stroke": colors.accent, "strokeWidth": 1, "strokeOpacity": 0.6}
    square = {"width": cell, "height": cell, "stroke": colors.accent, "strokeWidth": 1.5}
    line = {"x": 0, "baseline": "middle", "font": FONT, "fontSize": TEXT_SIZE}
    below, hint = size.height + READOUT - 2 * LINE, f"at < 0 ? '{colors.quiet}' : '{colors.text}'"
    return [
        _mark("rule", thin | {"x": 0}, there | {"x2": x, "y": f"{y} + {cell / 2}"}),
        _mark("rule", thin | {"y": 0}, there | {"y2": y, "x": f"{x} + {cell / 2}"}),
        _mark("rect", square, there | {"x": x, "y": y}),
        _mark("text", line | {"y": below}, {"text": "who", "fill": hint}, name="readout"),
        _mark("text", line | {"y": below + LINE, "fill": colors.text}, {"text": "what"}, name="readout-more"),
    ]


def _dragged(colors: Theme) -> dict:
    """A frame around what a drag went over, until another map is there."""
    ends = {"x": "begun[0]", "y": "begun[1]", "x2": "held ? held[0] : 0", "y2": "held ? held[1] : 0"}
    looks = {"fill": colors.accent, "fillOpacity": 0.12, "stroke": colors.accent}
    return _mark("rect", looks, ends | {"opacity": f"{HELD} ? 1 : 0"})


def _mark(kind: str, values: dict[str, object], signals: dict[str, str], **more: str) -> dict:
    """A mark that lets the pointer through, from channels with a value and channels with an expression."""
    channels = {name: {"value": value} for name, value in values.items()}
    update = channels | {name: {"signal": expression} for name, expression in signals.items()}
    return {"type": kind, "aria": False, "encode": {"update": update}, "interactive": False} | more
