"""Titles, lines under them and legends as tables; Vega-Lite places them."""

import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from attnviz.charts.marks import Table
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
    """The columns title and subtitle of the table that `title_spec` reads, broken into lines of so many pixels."""
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


def title_spec(table: str = "meta", view_of: Theme | None = None) -> dict[str, Any]:
    """Title and subtitle, read from a table; of a view its name over it, and a number that stands out.

    Without a limit Streamlit would cut them at the width that the picture had first.

    Args:
        view_of: colors of a view; None for a whole picture.
    """
    parts = {part: f"split((data('{table}')[0] || {{}}).{name} || '', '\\n')" for part, name in TEXTS.items()}
    where = {"frame": "group", "subtitleColor": view_of.accent} if view_of else {"frame": "bounds"}
    return (
        {part: {"expr": read} for part, read in parts.items()} | {"anchor": "start", "offset": 12, "limit": 0} | where
    )


TEXTS = {"text": "title", "subtitle": "subtitle"}
"""Parts of a title, and the columns that they are read from."""


def written_out(view: dict[str, Any], data: dict[str, Table], table: str = "meta") -> dict[str, Any]:
    """A chart with the texts of its titles in place of the expressions that read them; none without texts."""
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
