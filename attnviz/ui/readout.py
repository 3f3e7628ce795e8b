"""Figures as Streamlit takes them; a large grid is an image with a readout of the cell under the pointer.

Vega-Lite cannot map the pointer to a row and a column of an image, but Vega signals can: this is the only Vega
specification. The chart of the grid is compiled to Vega and extended by these signals, so title, axes and legend have
one source. A page passes one table, named "source", with a column `kind`; the browser requests the numbers of the cells
as a separate file.
"""

import json
import marshal
from functools import cached_property, lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Any

import numpy as np

from attnviz.charts.axes import Size
from attnviz.charts.grid import READOUT, Grid
from attnviz.charts.marks import Form, Table
from attnviz.charts.theme import FONT, LINE, TEXT_SIZE, Theme
from attnviz.figures import Figure

LOADED = "{url: datum.uri, src: datum.uri, complete: true, width: 1, height: 1}"
"""Vega expression for an already loaded image at the address in the field uri.

Without it, Vega draws the picture first without its images, and again 0.01 s later. Only the SVG renderer needs nothing
but the address of an image, so the expression is for the screen, which uses SVG, and not for files.
"""
FORMATS = {"score": ".3f", "difference": "+.6f"}
"""Number formats by the name of the number; all others have six decimals."""
HINT = "Point at a square to read it, click to keep it."
NO_CELLS = "data:application/json,[]"
"""Address of the cells before there is a map."""


def screen(figure: Figure) -> tuple[dict[str, Any], Table | None]:
    """Build the specification for Streamlit and, for a large map, the table to pass with it under the name "source".

    Full Vega if a large map needs a readout under the pointer; otherwise Vega-Lite, which contains its tables.
    """
    drawing = figure.on_page.drawing
    if drawing.read is not None:
        return vega(drawing.read, drawing.form, drawing.data)
    spec = drawing.form.spec | {"datasets": drawing.data}
    if drawing.form.draws_images:
        spec["config"] = spec["config"] | {"image": {"image": {"signal": LOADED}}}
        spec["usermeta"] = {"embedOptions": {"renderer": "svg"}}  # Streamlit draws 2,000 marks on a canvas
    return spec, None


def vega(grid: Grid, form: Form | None = None, data: dict[str, Table] | None = None) -> tuple[dict[str, Any], Table]:
    """Build a Vega specification of a grid, and the table to pass to it under the name "source".

    Args:
        form, data: chart and tables of several grids of one size in a row, including this grid, whose cells the pointer
            reads; None for this grid alone.

    The column "numbers" has a `CellNumbers`; the caller replaces it by an address that serves its `json`. A click sets
    the signal "cell" to the value of a Vega-Lite point selection: [{"query": ..., "key": ..., "rev": ...}].
    """
    tile = 1 if grid.squares.offsets is None else grid.size.tile  # a square shows tile x tile cells
    titles = tuple((number.name, number.title or number.name) for number in grid.squares.numbers)
    chart = marshal.dumps((form or grid.form).spec, 2)  # hashable, for the cache; five times as fast as JSON
    return _spec(chart, grid.size, titles, tile, grid.style.colors), table(grid, data or grid.data)


def warm() -> None:
    """Start the compiler to Vega, whose first specification takes a third of a second."""
    import vl_convert

    vl_convert.vegalite_to_vega({"mark": "point", "data": {"values": []}})


def table(grid: Grid, data: dict[str, Table]) -> Table:
    """Join all tables into one, with their names in the column `kind`.

    The rows of the grid are first, then its columns, its meta (one line) and the texts of the cells' states: the
    signals find these by their index.
    """
    squares, used = grid.squares, grid.squares.occurring
    state_codes = _pack_codes(np.searchsorted(used, squares.states), len(used))
    numbers = {number.name: _float32(number.values) for number in squares.numbers} | {"state_code": state_codes}
    offset = None if squares.offsets is None else _pack_codes(squares.offsets, grid.size.tile**2).tobytes().hex()
    rows, columns, meta = (f"{grid.prefix}{name}" for name in ("rows", "columns", "meta"))
    more = {"rev": [grid.style.rev], "numbers": [CellNumbers(numbers)], "offset": [offset]}
    texts = {"name": [squares.kinds[i].text for i in used]}
    first_tables = {rows: data[rows], columns: data[columns], meta: data[meta] | more, "state_texts": texts}
    other_tables = {name: part for name, part in data.items() if name not in first_tables}
    joined: Table = {"kind": []}
    for name, part in (first_tables | other_tables).items():
        lines_before, lines = len(joined["kind"]), len(next(iter(part.values())))
        joined |= {column: [None] * lines_before for column in part if column not in joined}
        for column, values in joined.items():
            values.extend(part.get(column) or [None] * lines)
        joined["kind"][lines_before:] = [name] * lines
    return joined


class CellNumbers:
    """Numbers of each cell, as big-endian arrays (rows, columns) by name.

    Weight and score are float32, exact to the last bit; "state_code" is the index of the state's text.
    """

    def __init__(self, arrays: dict[str, np.ndarray]):
        self.arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    @cached_property
    def name(self) -> str:
        """Digest of the content: equal only for equal cells."""
        content = blake2b(digest_size=20)
        for name, array in self.arrays.items():
            content.update(f"{name} {array.dtype} {array.shape} ".encode())
            content.update(array)
        return content.hexdigest()

    def json(self, address: str) -> bytes:
        """Encode as JSON: "of" is the address of this file; each name has the numbers of all cells as hex digits."""
        cells = {name: array.tobytes().hex() for name, array in self.arrays.items()}
        return json.dumps([{"of": address} | cells]).encode()


def _pack_codes(codes: np.ndarray, count: int) -> np.ndarray:
    """Convert codes below `count` to the smallest unsigned integer type, big-endian."""
    return codes.astype(np.min_scalar_type(max(0, count - 1)).newbyteorder(">"))


def _float32(values: np.ndarray) -> np.ndarray:
    """Convert to big-endian float32; finite numbers beyond the range are clipped, so that they stay finite."""
    most = np.finfo(np.float32).max
    return np.where(np.isfinite(values), values.clip(-most, most), values).astype(">f4")


@lru_cache(maxsize=64)
def _spec(chart: bytes, size: Size, titles: tuple[tuple[str, str], ...], tile: int, colors: Theme) -> dict[str, Any]:
    """Compile the chart of a grid to Vega, in a group with data from the table "source" and signals of the pointer.

    `chart` is the Vega-Lite specification, encoded by `marshal`; `titles` has the name and title of each number.
    """
    import vl_convert

    vega = vl_convert.vegalite_to_vega(marshal.loads(chart))
    inner_names = ("scales", "axes", "legends", "title", "marks", "layout")
    inner = {name: vega.pop(name) for name in inner_names if name in vega}
    maps = [mark["marks"] for mark in inner["marks"] if mark["type"] == "group"] or [inner["marks"]]
    for mark in chain(*maps):  # only the image of the cells and invisible labels, which enlarge texts, react to clicks
        is_label = mark["type"] == "text" and mark["encode"]["update"].get("opacity") == {"value": 0}
        mark["interactive"] = is_label or mark["type"] == "image"
        if mark["type"] == "image":
            mark["name"] = "cells"
            mark["encode"]["update"] |= {"image": {"signal": LOADED}, "cursor": {"value": "crosshair"}}
    data = [dataset if "source" in dataset else _kind_dataset(dataset) for dataset in vega.pop("data")]
    cells = {"url": {"signal": f"pointed_meta.numbers || '{NO_CELLS}'"}, "format": {"type": "json"}, "async": True}
    inner["data"] = [*data, _kind_dataset({"name": "state_texts"}), {"name": "numbers"} | cells]
    sides = {name: {"value": value} for name, value in (("width", size.width), ("height", size.height))}
    size_signals = [{"name": name} | side for name, side in sides.items()]
    inner["signals"] = [*size_signals, *vega.get("signals", ()), *_text_signals(size, titles, tile)]
    maps_with_cells = [marks for marks in maps if any(mark.get("name") == "cells" for mark in marks)]
    for i, marks in enumerate(maps_with_cells):
        *frame_and_lines, cell_text, numbers_text = _pointer_marks(size, colors)
        marks += [*frame_and_lines, cell_text, numbers_text] if i == 0 else frame_and_lines
    return {name: vega[name] for name in ("$schema", "background", "config") if name in vega} | {
        "autosize": "pad",
        "padding": {"left": 0, "top": 0, "right": 0, "bottom": 4},
        "width": size.width,
        "height": size.height,
        "params": [{"name": "cell", "select": "point"}],
        "data": {"name": "source"},
        "signals": _signals(size, tile),
        "marks": [{"type": "group", "encode": {"update": sides}, **inner}],
    }


def _kind_dataset(dataset: dict) -> dict:
    """Define a dataset as the rows of "source" whose `kind` is the name of the dataset."""
    of_kind = {"type": "filter", "expr": f"datum.kind === '{dataset['name']}'"}
    return dataset | {"source": "source", "transform": [of_kind]}


def _signals(size: Size, tile: int) -> list[dict]:
    """Build signals about the cell under the pointer: its index `at` (row by row; -1: no cell), row, column and text.

    The signal "cell" is the clicked cell. In the table "source", the grid's rows come first, then columns and meta.
    """
    rows, columns = size.rows, size.columns
    row = f"clamp(floor(y(group()) / {size.cell}), 0, {rows - 1})"
    column = f"clamp(floor(x(group()) / {size.cell}), 0, {columns - 1})"
    label = {"type": "click", "marktype": "text", "filter": "datum && isValid(datum.query)"}
    by_cell = _point_value("query: pointed_query, key: pointed_key")
    clicks = [
        {"events": "@cells:click", "update": by_cell},
        {"events": label, "update": _point_value("query: datum.query, key: datum.key")},
        {"events": "window:keydown[event.key === 'Escape']", "update": "null"},
    ]
    moves = [
        {"events": "@cells:pointermove", "update": f"{row} * {columns} + {column}"},
        {"events": "@cells:pointerout", "update": "-1"},
    ]
    updates = {
        "pointed_meta": f"data('source')[{rows + columns}] || {{}}",
        "pointed_row": f"data('source')[floor(at / {columns})] || {{}}",
        "pointed_column": f"data('source')[{rows} + at % {columns}] || {{}}",
        "offset": _cell_code("pointed_meta.offset", rows * columns, "at < 0") if tile > 1 else "0",  # within the tile
        "pointed_query": f"pointed_row.position + floor(offset / {tile})",
        "pointed_key": f"pointed_column.position + offset % {tile}",
        "cell_text": f"at < 0 ? '{HINT}' : pointed_row.name + ' → ' + pointed_column.name",
    }
    return [
        {"name": "at", "value": -1, "on": moves},
        *({"name": name, "update": update} for name, update in updates.items()),
        {"name": "cell", "value": None, "on": clicks},
    ]


def _text_signals(size: Size, titles: tuple[tuple[str, str], ...], tile: int) -> list[dict]:
    """Build the signal `numbers_text` about the cell under the pointer ("…" while numbers load), and its inputs."""
    is_loaded = "length(data('numbers')) && data('numbers')[0].of === pointed_meta.numbers"
    texts = [f"'{title} ' + {number_of(name, FORMATS.get(name, '.6f'))}" for name, title in titles]
    if tile > 1:
        texts.append("'from query ' + pointed_query + ' to key ' + pointed_key")
    first_state_text = size.rows + size.columns + 1  # in "source", after the rows, the columns and one line of meta
    texts.append(f"(data('source')[{first_state_text} + state_code] || {{}}).name")
    updates = {
        name: _cell_code(f"data('numbers')[0].{name}", size.rows * size.columns, f"at < 0 || !({is_loaded})")
        for name in (*dict(titles), "state_code")
    }
    joined = " + '   ·   ' + ".join(texts)
    updates["numbers_text"] = f"at < 0 ? '' : {is_loaded} ? {joined} : '…'"
    return [{"name": name, "update": update} for name, update in updates.items()]


def number_of(bits: str, form: str) -> str:
    """Build a Vega expression that formats a float32, given its bits as an integer; also "NaN", "∞" and "−∞".

    A float32 has a sign bit (2**31), 8 bits of exponent (from 2**23) and 23 bits of fraction.
    """
    sign, exponent, fraction = f"({bits} < 2147483648 ? 1 : -1)", f"floor({bits} / 8388608) % 256", f"{bits} % 8388608"
    finite = f"{sign} * ({fraction} + ({exponent} ? 8388608 : 0)) * pow(2, max({exponent}, 1) - 150)"
    others = f"{fraction} ? 'NaN' : {sign} < 0 ? '−∞' : '∞'"
    return f"({exponent} === 255 ? {others} : format({finite}, '{form}'))"


def _cell_code(digits: str, count: int, is_missing: str) -> str:
    """Build a Vega expression for the number of the cell `at`, from the hex `digits` of all `count` cells; else 0."""
    digits_per_cell = f"length({digits}) / {count}"
    return f"{is_missing} ? 0 : toNumber('0x' + slice({digits}, at * {digits_per_cell}, (at + 1) * {digits_per_cell}))"


def _point_value(fields: str) -> str:
    """Build the value of a point selection with these fields."""
    return f"{{vlPoint: {{or: [{{{fields}, rev: pointed_meta.rev}}]}}}}"


def _pointer_marks(size: Size, colors: Theme) -> list[dict]:
    """Build a frame around the cell under the pointer, lines to its labels, and the text below the map."""
    columns, cell = size.columns, size.cell
    x, y = f"at % {columns} * {cell}", f"floor(at / {columns}) * {cell}"
    over_cell = {"opacity": "at < 0 ? 0 : 1"}
    thin = {"stroke": colors.accent, "strokeWidth": 1, "strokeOpacity": 0.6}
    square = {"width": cell, "height": cell, "stroke": colors.accent, "strokeWidth": 1.5}
    text = {"x": 0, "baseline": "middle", "font": FONT, "fontSize": TEXT_SIZE}
    below = size.height + READOUT - 2 * LINE
    name_color = f"at < 0 ? '{colors.quiet}' : '{colors.text}'"
    return [
        _mark("rule", thin | {"x": 0}, over_cell | {"x2": x, "y": f"{y} + {cell / 2}"}),
        _mark("rule", thin | {"y": 0}, over_cell | {"y2": y, "x": f"{x} + {cell / 2}"}),
        _mark("rect", square, over_cell | {"x": x, "y": y}),
        _mark("text", text | {"y": below}, {"text": "cell_text", "fill": name_color}, name="readout"),
        _mark("text", text | {"y": below + LINE, "fill": colors.text}, {"text": "numbers_text"}, name="readout-more"),
    ]


def _mark(kind: str, values: dict[str, object], signals: dict[str, str], **more: str) -> dict:
    """Build a mark that ignores the pointer, from channels with a value and channels with an expression."""
    channels = {name: {"value": value} for name, value in values.items()}
    update = channels | {name: {"signal": expression} for name, expression in signals.items()}
    return {"type": kind, "aria": False, "encode": {"update": update}, "interactive": False} | more
