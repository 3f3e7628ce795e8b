"""Titles, lines below titles, and legends of color scales and signs."""

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from attnviz.charts.marks import Spec, Table, field, unseen
from attnviz.charts.theme import CHARACTER, TITLE_CHARACTER, WORD_CHARACTER, Style, Theme

NARROWEST, PHONE = 400, 360
"""Pixels: least line width of titles by default, and on a phone."""

BOX = "M-0.94,-0.94H0.94V0.94H-0.94V-0.94"
"""Outline of a sign in a legend."""


_EMOJI = "[\u2600-\u27bf\U0001f000-\U0001faff]\ufe0f?"
JOINED_SIGN = re.compile(f"[\U0001f1e6-\U0001f1ff]{{2}}|{_EMOJI}(?:[\u200d·]{_EMOJI})+")
"""Pattern of flags and joined emoji, each drawn as one wide character; a middle dot joins them in pictures."""


@dataclass(frozen=True)
class LegendEntry:
    """One line of a legend: a text, and a sign as path, color and background color (`ground`)."""

    text: str
    path: str
    color: str
    ground: str


@lru_cache(maxsize=16_384)
def text_width(text: str, character: float = CHARACTER) -> float:
    """Estimate the width of a text in pixels: wide characters count twice, combining marks do not count."""
    signs = (c for c in JOINED_SIGN.sub("漢", text) if not unicodedata.combining(c))
    widths = (2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in signs)
    return sum(widths) * character


def heading(title: str, lines: Sequence[str], width: float, style: Style, narrowest: int = NARROWEST) -> Table:
    """Build the columns title and subtitle of the table that `title_spec` reads, wrapped at `width` pixels."""
    if style.heading is not None:
        title, lines = style.heading, ()
    width = max(width if style.width is None else style.width, narrowest if style.width is None else 0)
    return {
        "title": ["\n".join(broken([title], width / TITLE_CHARACTER))],
        "subtitle": ["\n".join(broken(lines, width / WORD_CHARACTER))],
    }


def broken(lines: Sequence[str], characters: float) -> list[str]:
    """Wrap lines at a number of characters, between words."""
    wide = max(12, int(characters))
    return [part for line in lines if line for part in textwrap.wrap(line, wide, break_on_hyphens=False)]


def title_spec(table: str = "meta", view_of: Theme | None = None) -> dict[str, Any]:
    """Build title and subtitle that are read from a table.

    The limit is 0, for none, because Streamlit would otherwise cut titles at the first width of the picture.

    Args:
        view_of: colors of a view, whose subtitle is a highlighted number; None for a whole picture.
    """
    parts = {part: f"split((data('{table}')[0] || {{}}).{name} || '', '\\n')" for part, name in TEXTS.items()}
    where = {"frame": "group", "subtitleColor": view_of.accent} if view_of else {"frame": "bounds"}
    return (
        {part: {"expr": read} for part, read in parts.items()} | {"anchor": "start", "offset": 12, "limit": 0} | where
    )


TEXTS = {"text": "title", "subtitle": "subtitle"}
"""Parts of a title, and the table columns with their texts."""


def written_out(view: dict[str, Any], data: dict[str, Table], table: str = "meta") -> dict[str, Any]:
    """Replace the expressions in the titles of a chart by their texts; empty titles are removed."""
    for part in ("hconcat", "vconcat"):
        if part in view:
            view = view | {part: [written_out(inner, data, f"{inner.get('name', '')}meta") for inner in view[part]]}
    if not view.get("title"):
        return view
    texts = {part: data[table][name][0].split("\n") for part, name in TEXTS.items()}
    if not any(map(any, texts.values())):
        return {name: part for name, part in view.items() if name != "title"}
    return view | {"title": view["title"] | texts}


def entry(entries: Sequence[LegendEntry]) -> Table:
    """Build the table of legend lines; if empty, with an invisible line, because an empty legend has no size."""
    entries = entries or [LegendEntry("", "", "transparent", "transparent")]
    return {
        "says": [f"{i:02d} {line.text}" for i, line in enumerate(entries)],
        "path": [BOX + line.path + i * "M0,0" for i, line in enumerate(entries)],
        "ground": [_distinct_color(line.ground, i) for i, line in enumerate(entries)],
        "stroke": [_distinct_color(line.color, i) for i, line in enumerate(entries)],
    }


def _distinct_color(color: str, i: int) -> str:
    """Make the color of line `i` unique by a slightly lower opacity, because Vega merges equal values of a scale."""
    return f"{color}{255 - i:02x}" if color.startswith("#") else color


@dataclass(frozen=True)
class Ramp:
    """Scale of a color legend.

    Attributes:
        title: meaning of the color.
        top: number at the end of the scale.
        colors: colors from the beginning of the scale to its end.
        log: whether the scale is logarithmic, from 1e-4 to 1.
        signed: whether the scale goes from -top to top.
        ends: words after the numbers at both ends.
        largest: text in place of the numbers at the ends, if each table has its own scale.
    """

    title: str
    top: float
    colors: tuple[str, ...]
    log: bool = False
    signed: bool = False
    ends: tuple[str, str] = ("", "")
    largest: str = ""

    def shade(self, values: np.ndarray) -> np.ndarray:
        """Map numbers to places on the ramp, 0 to 1; NaN has the place of 0."""
        share = np.nan_to_num(values / (self.top or 1.0))
        return (share + 1) / 2 if self.signed else share


def ramp_spec(ramp: Ramp, where: Spec, table: str = "meta") -> Spec:
    """Build an invisible point that carries the legend of a color scale; the table column `top` has its end."""
    top = f"((data('{table}')[0] || {{}}).top || 1)"
    ends = [f"-{top}", "0", top] if ramp.signed else ["0", f"{top} / 2", top]
    domain = [1e-4, 1] if ramp.log else [{"expr": ends[0]}, {"expr": top}]
    scale = {"type": "log" if ramp.log else "linear", "domain": domain, "range": [*ramp.colors], "interpolate": "rgb"}
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
        ends = [f"datum.label + '{end}'" for end in ramp.ends]
        legend["labelExpr"] = f"datum.value < 0 ? {ends[0]} : datum.value > 0 ? {ends[1]} : datum.label"
    if ramp.largest:
        legend["labelExpr"] = f"datum.value < 0 ? '−{ramp.largest}' : datum.value > 0 ? '{ramp.largest}' : '0'"
    point = unseen(table)
    point["encoding"]["color"] = {"field": "top", "type": "quantitative", "scale": scale, "legend": legend}
    return point


def signs_spec(where: Spec, table: str = "legend") -> Spec:
    """Build invisible points that carry a legend of signs, with texts, paths and colors from a table."""
    legend = {
        "title": None,
        "direction": "vertical",
        "columns": 1,
        "symbolSize": 225,
        "symbolStrokeWidth": 1,
        "symbolOpacity": 1,
        "labelExpr": "substring(datum.label, 3)",
        "labelOffset": 6,
        **where,
    }
    point = unseen(table)
    for channel, name in {"shape": "path", "fill": "ground", "stroke": "stroke"}.items():
        scale = {"range": {"field": name}}
        point["encoding"][channel] = field("says") | {"sort": "ascending", "scale": scale, "legend": legend}
    return point
