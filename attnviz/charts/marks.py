"""Parts of Vega-Lite specifications as plain data, and the tables of a chart, which alone change on the screen."""

import math
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from attnviz.charts.theme import CHARACTER, TITLE_CHARACTER, WORD_CHARACTER, Style, Theme, config, gray_ramp

Spec = dict[str, Any]
"""Part of a Vega-Lite specification."""
Table = dict[str, list]
"""Columns of plain values: finite numbers, strings, bytes, True, False and None."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.1.0.json"
APART = {"scale": dict.fromkeys(("color", "fill", "stroke", "shape", "strokeWidth"), "independent")}
"""Setting that gives each view and layer color scales of its own."""
NARROWEST, PHONE = 400, 360
"""Minimum line width of titles in pixels, by default and on a phone."""
BOX = "M-0.94,-0.94H0.94V0.94H-0.94V-0.94"
"""Outline of a sign in a legend."""
_EMOJI = "[\u2600-\u27bf\U0001f000-\U0001faff]\ufe0f?"
JOINED_SIGN = re.compile(f"[\U0001f1e6-\U0001f1ff]{{2}}|{_EMOJI}(?:[\u200d·]{_EMOJI})+")
"""Pattern of flags and joined emoji, each drawn as one wide character; a middle dot joins them in pictures."""
TEXTS = {"text": "title", "subtitle": "subtitle"}
"""Parts of a title, and the table columns with their texts."""
LOWEST, HUGE = 1e-4, 1e8
"""Smallest number of a logarithmic scale; size from which numbers, such as -1e9 in a mask, do not extend a scale."""


@dataclass(frozen=True, eq=False)
class Form:
    """A Vega-Lite chart without its data."""

    spec: Spec

    @cached_property
    def draws_images(self) -> bool:
        """Whether any layer of the chart is an image."""
        return _has_image(self.spec)


def _has_image(view: Spec) -> bool:
    """Return whether a view is an image, or contains one at any depth."""
    inner_views = (inner for name in ("layer", "hconcat", "vconcat") for inner in view.get(name, ()))
    return view.get("mark", {}).get("type") == "image" or any(map(_has_image, inner_views))


def records(table: Table) -> list[dict]:
    """Convert a table to rows, as dictionaries."""
    return [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]


def columns(names: Sequence[str], rows: Sequence[dict]) -> Table:
    """Convert rows to a table with the columns `names`; missing values are None."""
    return {name: [row.get(name) for row in rows] for name in names}


def layer(table: str, kind: str, encoding: Spec, *, where: str = "", **properties: Any) -> Spec:
    """Build a layer that draws a mark, such as "rect", for each row of a table, with tooltips only from `encoding`.

    Args:
        where: Vega expression that selects rows; "" for all rows.
        properties: further properties of the mark.
    """
    spec = {"data": {"name": table}, "mark": {"type": kind, "aria": False, "tooltip": None} | properties}
    if where:
        spec["transform"] = [{"filter": where}]
    return spec | {"encoding": encoding}


def unseen(table: str) -> Spec:
    """Build an invisible point for a table, because Vega-Lite drops tables that no mark uses."""
    return layer(table, "point", {"x": pixels_at(0), "y": pixels_at(0)}, opacity=0, size=0)


def pixels_at(pixels: Any) -> Spec:
    """Build a channel with a constant value in pixels."""
    return {"value": pixels}


def field(name: str) -> Spec:
    """Build a nominal channel that reads a field."""
    return {"field": name, "type": "nominal"}


def as_is(name: str, kind: str = "nominal") -> Spec:
    """Build a channel that uses the values of a field unchanged, as a color, path, width or position."""
    return {"field": name, "type": kind, "scale": None}


def pixels_of(name: str) -> Spec:
    """Build a position channel that reads pixels from a field."""
    return as_is(name, "quantitative") | {"axis": None}


def box(x: Spec, y: Spec) -> Spec:
    """Build the channels of a rectangle whose ends are the fields x, y, x2 and y2, on the scales of `x` and `y`."""
    return {"x": x | {"field": "x"}, "y": y | {"field": "y"}, "x2": {"field": "x2"}, "y2": {"field": "y2"}}


def looks() -> Spec:
    """Build the channels fill, stroke and stroke width, which are read from fields."""
    return {"fill": as_is("fill"), "stroke": as_is("stroke"), "strokeWidth": as_is("stroke_width", "quantitative")}


def when(test: str, then: Spec, otherwise: Spec) -> Spec:
    """Build a channel that is `then` where the Vega expression `test` is true, and `otherwise` elsewhere."""
    return {"condition": {"test": test} | then} | otherwise


def tips(*fields: tuple[str, str]) -> list[Spec]:
    """Build tooltip entries from pairs of a field and its title."""
    return [field(name) | {"title": title} for name, title in fields]


def places(count: float, axis: Spec | None = None, **scale: Any) -> Spec:
    """Build a position channel on a scale from 0 to `count`, without its field; `scale` has its further properties."""
    return {"type": "quantitative", "scale": {"domain": [0, count], "nice": False, "zero": False} | scale, "axis": axis}


def click(name: str, views: Sequence[str], *fields: str) -> Spec:
    """Build the selection `name`: a click on a mark in the layers `views` selects its `fields`, Escape clears it.

    With a counter `rev` in the data, the same item can be clicked again.
    """
    escape = "window:keydown[event.key === 'Escape']"
    select = {"type": "point", "fields": [*fields], "on": "click", "toggle": False, "clear": escape}
    return {"name": name, "select": select, "views": [*views]}


def hover(views: Sequence[str], *fields: str) -> Spec:
    """Build the selection "pointed": values of `fields` of the mark under the pointer, in the layers `views`."""
    select = {"type": "point", "fields": [*fields], "on": "pointerover", "clear": "pointerout"}
    return {"name": "pointed", "select": select, "views": [*views]}


def drag(name: str, views: Sequence[str], colors: Theme) -> Spec:
    """Build a selection by a drag, as intervals of the row and column axes: {"row": [1.2, 3.4], "column": ...}.

    The selection covers the cells and blocks clicks, so it is cleared 0.3 s after the drag, when the app has received
    it. Only a drag that began on the picture clears it: a click elsewhere would clear the start of the next drag.
    """
    mark = {"fill": colors.accent, "fillOpacity": 0.12, "stroke": colors.accent, "strokeOpacity": 0.6}
    ended = "[pointerdown, window:pointermove[!event.buttons]] > window:pointerup{0, 300}"  # Vega event stream
    select = {"type": "interval", "encodings": ["x", "y"], "mark": mark, "clear": ended}
    return {"name": name, "select": select | {"zoom": False, "translate": False}, "views": [*views]}


def whole(chart: Spec, colors: Theme) -> Form:
    """Complete a chart with the configuration of all pictures, the automatic size and the schema of Vega-Lite."""
    return Form({"config": config(colors), "autosize": "pad"} | chart | {"$schema": SCHEMA})


def beside(*views: Spec, **options: Any) -> Spec:
    """Arrange views in a row, each with scales of its own; `options` are further properties of the chart."""
    return {"hconcat": [*views], "resolve": APART} | options


def below(*views: Spec, **options: Any) -> Spec:
    """Arrange views in a column, like `beside`."""
    return {"vconcat": [*views], "resolve": APART} | options


@dataclass(frozen=True)
class LegendEntry:
    """One line of a legend: a text, and a sign with its SVG path, color and background color (`ground`)."""

    text: str
    path: str
    color: str
    ground: str


@lru_cache(maxsize=16_384)
def text_width(text: str, character: float = CHARACTER) -> float:
    """Estimate the width in pixels of a text in monospaced characters of `character` pixels; wide ones count twice."""
    text = JOINED_SIGN.sub("漢", text)  # a joined emoji is as wide as one Chinese character
    signs = (c for c in text if not unicodedata.combining(c))
    return character * sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in signs)


def heading(title: str, lines: Sequence[str], width: float, style: Style, narrowest: int = NARROWEST) -> Table:
    """Build a table of one row, for `title_spec`: a title, and the lines below it as a subtitle.

    Both are wrapped at the width of the style, or else at `width` pixels, but at `narrowest` pixels or more.
    """
    if style.heading is not None:
        title, lines = style.heading, ()
    width = max(width, narrowest) if style.width is None else style.width

    def wrap(lines: Sequence[str], character: float) -> list[str]:
        """Wrap lines between words, at `width` pixels with characters of `character` pixels; leave out empty lines."""
        length = max(12, int(width / character))
        return ["\n".join(part for line in lines for part in textwrap.wrap(line, length, break_on_hyphens=False))]

    return {"title": wrap([title], TITLE_CHARACTER), "subtitle": wrap(lines, WORD_CHARACTER)}


def title_spec(table: str = "meta", view_of: Theme | None = None) -> dict[str, Any]:
    """Build title and subtitle that Vega expressions read from a table, see `heading`.

    The limit is 0, for none, because Streamlit would otherwise cut titles at the first width of the picture.

    Args:
        view_of: colors if this is the title of one view in a chart, whose subtitle is a highlighted number; else None.
    """
    where = {"frame": "group", "subtitleColor": view_of.accent} if view_of else {"frame": "bounds"}
    texts = {
        part: {"expr": f"split((data('{table}')[0] || {{}}).{column} || '', '\\n')"} for part, column in TEXTS.items()
    }
    return texts | {"anchor": "start", "offset": 12, "limit": 0} | where


def fill_titles(view: dict[str, Any], data: dict[str, Table], table: str = "meta") -> dict[str, Any]:
    """Replace expressions in the titles of a chart and of its views by the texts in `data`, and remove empty titles."""
    for name in ("hconcat", "vconcat"):
        if name in view:
            view = view | {name: [fill_titles(inner, data, f"{inner.get('name', '')}meta") for inner in view[name]]}
    if not view.get("title"):
        return view
    texts = {part: data[table][column][0].split("\n") for part, column in TEXTS.items()}
    if any(map(any, texts.values())):
        return view | {"title": view["title"] | texts}
    return {name: value for name, value in view.items() if name != "title"}


def legend_table(entries: Sequence[LegendEntry]) -> Table:
    """Build the table that `signs_spec` reads; without entries, it has one empty line, because Vega needs a line.

    Vega merges equal values of a scale. To make them unique, a text begins with its number, which the legend hides, a
    path ends with moves that draw nothing, and colors differ in opacity.
    """
    entries = entries or [LegendEntry("", "", "transparent", "transparent")]
    return {
        "says": [f"{i:02d} {line.text}" for i, line in enumerate(entries)],
        "path": [BOX + line.path + i * "M0,0" for i, line in enumerate(entries)],
        "ground": [_distinct_color(line.ground, i) for i, line in enumerate(entries)],
        "stroke": [_distinct_color(line.color, i) for i, line in enumerate(entries)],
    }


def _distinct_color(color: str, i: int) -> str:
    """Make a color unique for line `i` of a legend: its opacity is 255 - i of 255."""
    return f"{color}{255 - i:02x}" if color.startswith("#") else color


@dataclass(frozen=True)
class Ramp:
    """Color scale of numbers, and its legend.

    Attributes:
        title: meaning of the color.
        top: number at the end of the scale.
        log: whether the scale is logarithmic, from LOWEST to 1.
        signed: whether the scale goes from -top to top, with diverging colors; else from 0, with sequential colors.
        gray: whether the colors are gray.
        ends: words after the numbers at both ends.
        largest: text in place of the numbers at the ends, if each table has its own scale.
    """

    title: str
    top: float
    log: bool = False
    signed: bool = False
    gray: bool = False
    ends: tuple[str, str] = ("", "")
    largest: str = ""

    def colors(self, theme: Theme) -> tuple[str, ...]:
        """Return the colors from the beginning of the scale to its end."""
        if self.signed:
            return theme.diverging
        return gray_ramp(theme) if self.gray else theme.ramp

    def shade(self, values: np.ndarray) -> np.ndarray:
        """Map numbers to positions on the ramp, 0 to 1; NaN has the position of 0."""
        share = values / (self.top or 1.0)
        if self.log:
            share = 1 - np.log10(np.clip(values, LOWEST, 1)) / math.log10(LOWEST)
        share = np.nan_to_num(share)
        return np.clip((share + 1) / 2 if self.signed else share, 0, 1)


def limit_of(*tables: np.ndarray) -> float:
    """Return the largest absolute number in arrays, or 0; numbers that are infinite or at least HUGE do not count."""
    sizes = [np.abs(table[np.isfinite(table)]) for table in tables]
    return max((float(size[size < HUGE].max(initial=0.0)) for size in sizes), default=0.0)


def scale_of(title: str, values: np.ndarray, *, signed: bool = False) -> Ramp:
    """Make a color scale that ends at the largest number; a signed scale is diverging around 0."""
    return Ramp(title, limit_of(values) or 1.0, signed=signed)


def ramp_spec(ramp: Ramp, colors: Sequence[str], where: Spec, table: str = "meta") -> Spec:
    """Build an invisible point with the legend of a color scale of these colors; `where` places the legend.

    The number at the end of the scale is in the column `top` of a table.
    """
    top = f"((data('{table}')[0] || {{}}).top || 1)"
    ends = [f"-{top}", "0", top] if ramp.signed else ["0", f"{top} / 2", top]
    domain = [LOWEST, 1] if ramp.log else [{"expr": ends[0]}, {"expr": top}]
    scale = {"type": "log" if ramp.log else "linear", "domain": domain, "range": [*colors], "interpolate": "rgb"}
    legend = {
        "title": ramp.title,
        "type": "gradient",
        "direction": "horizontal",
        "gradientLength": 280 if any(ramp.ends) else 160,
        "gradientThickness": 10,
        "values": [1e-4, 1e-3, 1e-2, 0.1, 1] if ramp.log else {"expr": f"[{', '.join(ends)}]"},
        "format": "~g" if ramp.log else ".3~g",
        **where,
    }
    if any(ramp.ends):
        below, above = (f"datum.label + '{words}'" for words in ramp.ends)
        legend["labelExpr"] = f"datum.value < 0 ? {below} : datum.value > 0 ? {above} : datum.label"
    if ramp.largest:
        legend["labelExpr"] = f"datum.value < 0 ? '−{ramp.largest}' : datum.value > 0 ? '{ramp.largest}' : '0'"
    point = unseen(table)
    point["encoding"]["color"] = {"field": "top", "type": "quantitative", "scale": scale, "legend": legend}
    return point


def signs_spec(where: Spec, table: str = "legend") -> Spec:
    """Build invisible points with a legend of a sign and a text per line, from a `legend_table`; `where` places it."""
    legend = {
        "title": None,
        "direction": "vertical",
        "columns": 1,
        "symbolSize": 225,
        "symbolStrokeWidth": 1,
        "symbolOpacity": 1,
        "labelExpr": "substring(datum.label, 3)",  # without the number
        "labelOffset": 6,
        **where,
    }
    point = unseen(table)
    for channel, name in {"shape": "path", "fill": "ground", "stroke": "stroke"}.items():
        scale = {"range": {"field": name}}
        point["encoding"][channel] = field("says") | {"sort": "ascending", "scale": scale, "legend": legend}
    return point
