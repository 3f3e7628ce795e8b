"""Titles, lines under them and legends as tables; Vega-Lite places them."""

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import altair as alt

from attnviz.charts.picture import Table
from attnviz.charts.style import Style
from attnviz.charts.theme import CHARACTER, TITLE_CHARACTER, WORD_CHARACTER, Theme

NARROWEST, PHONE = 400, 360
"""Pixels in which titles are broken if the picture is narrower, and that a phone shows."""

BOX = "M-0.94,-0.94H0.94V0.94H-0.94V-0.94"
"""Outline of a sign in a legend."""


_EMOJI = "[\u2600-\u27bf\U0001f000-\U0001faff]\ufe0f?"
JOINED_SIGN = re.compile(f"[\U0001f1e6-\U0001f1ff]{{2}}|{_EMOJI}(?:[\u200d·]{_EMOJI})+")
"""Flags and joined emoji, each drawn as one wide sign; where they are shown, a middle dot joins them."""


@dataclass(frozen=True)
class LegendEntry:
    """One line of a legend: what a sign on a ground means."""

    text: str
    path: str
    color: str
    ground: str


@lru_cache(maxsize=16_384)
def text_width(text: str, character: float = CHARACTER) -> float:
    """About how wide a text is in pixels: wide characters count twice, combining marks not at all."""
    signs = (c for c in JOINED_SIGN.sub("漢", text) if not unicodedata.combining(c))
    widths = (2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in signs)
    return sum(widths) * character


def heading(title: str, lines: Sequence[str], width: float, style: Style, narrowest: int = NARROWEST) -> Table:
    """The columns title and subtitle of the table that `titled` reads, broken into lines of so many pixels."""
    if style.heading is not None:
        title, lines = style.heading, ()
    width = max(width if style.width is None else style.width, narrowest if style.width is None else 0)
    return {
        "title": ["\n".join(broken([title], width / TITLE_CHARACTER))],
        "subtitle": ["\n".join(broken(lines, width / WORD_CHARACTER))],
    }


def broken(lines: Sequence[str], characters: float) -> list[str]:
    """Lines of at most so many characters, broken between words."""
    wide = max(12, int(characters))
    return [part for line in lines if line for part in textwrap.wrap(line, wide, break_on_hyphens=False)]


def titled(colors: Theme, table: str = "meta", *, is_view: bool = False) -> alt.TitleParams:
    """Title and subtitle, read from a table; of a view its name over it, and a number that stands out.

    Without a limit Streamlit would cut them at the width that the picture had first.
    """
    read = "split((data('{}')[0] || {{}}).{} || '', '\\n')"
    where = {"frame": "group", "subtitleColor": colors.accent} if is_view else {"frame": "bounds"}
    title = alt.TitleParams(alt.expr(read.format(table, "title")), anchor="start", offset=12, limit=0, **where)
    title._kwds["subtitle"] = {"expr": read.format(table, "subtitle")}  # Altair's schema knows no expression here
    return title


def written_out(chart: alt.TopLevelMixin, data: dict[str, Table]) -> alt.TopLevelMixin:
    """A copy of a chart with the texts of its titles in place of the expressions that read them; none without texts."""
    chart, lines = chart.copy(deep=False), _lines(data["meta"])
    if not any(map(any, lines)):
        chart.title = alt.Undefined
    elif chart.title is not alt.Undefined:
        chart.title = chart.title.copy(deep=False)
        chart.title["text"], chart.title["subtitle"] = lines
    for name in ("hconcat", "vconcat"):
        if isinstance(views := chart._kwds.get(name), list):
            chart[name] = [_with_title(view, data) for view in views]
    return chart


def _with_title(view: alt.SchemaBase, data: dict[str, Table]) -> alt.SchemaBase:
    """A view, or a row of views, with the texts of its titles."""
    if "hconcat" in view._kwds:
        return type(view)(**view._kwds | {"hconcat": [_with_title(part, data) for part in view.hconcat]})
    if view.title is alt.Undefined:
        return view
    text, subtitle = _lines(data[f"{view.name}meta"])
    return alt.LayerSpec(**view._kwds | {"title": view.title | {"text": text, "subtitle": subtitle}})


def _lines(meta: Table) -> tuple[list[str], list[str]]:
    return meta["title"][0].split("\n"), meta["subtitle"][0].split("\n")


def entry(entries: Sequence[LegendEntry]) -> Table:
    """A table of legend lines, in their order; of none an unseen one, because a legend without lines has no size."""
    entries = entries or [LegendEntry("", "", "transparent", "transparent")]
    return {
        "says": [f"{i:02d} {line.text}" for i, line in enumerate(entries)],
        "path": [BOX + line.path + i * "M0,0" for i, line in enumerate(entries)],
        "ground": [_distinct(line.ground, i) for i, line in enumerate(entries)],
        "stroke": [_distinct(line.color, i) for i, line in enumerate(entries)],
    }


def _distinct(color: str, i: int) -> str:
    """A color that no other line has: Vega takes equal values of a scale for one, so each is a little less opaque."""
    return f"{color}{255 - i:02x}" if color.startswith("#") else color
