"""Labels and names of tokens, and bands along them for the turns of a chat, or for a prompt and its answer.

User texts are only rows of tables, never part of an expression, a field name or a tooltip title.
"""

import unicodedata
from collections.abc import Sequence
from operator import itemgetter

from attnviz.analysis.views import Groups
from attnviz.charts.legends import text_width
from attnviz.charts.marks import Table, columns
from attnviz.charts.size import Size
from attnviz.charts.theme import WORD_CHARACTER, Theme
from attnviz.core.display import isolated, visible_text

QUERY, KEY = "Query (from)", "Key (to)"

LONGEST_LABEL, LONGEST_WORD = 16, 200
"""Most code points of a label on an axis, and of a token that is read to shorten it to its beginning and end."""


def names(groups: Groups, tile: int = 1) -> list[str]:
    """Name rows or columns for a readout: token, position and role; for a tile, those of its first and last token."""
    labels = groups.labels

    def name(i: int) -> str:
        place = ", ".join(filter(None, (str(groups.place(i)), groups.roles[i])))
        return f"{isolated(visible_text(labels[i]))} ({place})"

    if tile == 1:
        return [name(i) for i in range(len(labels))]
    return [f"{name(i)} … {name(min(i + tile, len(labels)) - 1)}" for i in range(0, len(labels), tile)]


def notes_on(size: Size, shows: str = "each square shows the largest of") -> list[str]:
    """Return notes on tiles and on labels that are left out."""
    notes = [f"{shows} {size.tile} × {size.tile} cells"] if size.tile > 1 else []
    if (n := size.every * size.tile) > 1:
        ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
        notes.append(f"every {n}{ending} token is labeled")
    return notes


def word_spans(groups: Groups) -> list[tuple[int, int]]:
    """Return begin and end of each word that has several pieces."""
    begins = [i for i, token in enumerate(groups.tokens) if not (token.joined and i)]
    spans = zip(begins, [*begins[1:], len(groups)], strict=True)
    return [(begin, end) for begin, end in spans if end - begin > 1]


def short(text: str, longest: int = LONGEST_LABEL) -> str:
    """Shorten a token for an axis, in its middle, so that tokens with the same beginning differ."""
    whole, end = visible_text(text, LONGEST_WORD), longest // 3
    return whole if len(whole) <= longest else f"{whole[: longest - 1 - end]}…{whole[-end:]}"


def from_right(labels: Sequence[str]) -> bool:
    """Return whether a text runs from right to left, by its first letter that has a direction."""
    kinds = (unicodedata.bidirectional(character) for label in labels for character in label)
    return next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L"


NEAR, FAR, MIDDLE = -4, -7, -15
"""Pixels from the cells to both edges of a band, and to the middle of its name."""

BAR, NAMED = 9, 24
"""Pixels of the width of bands between cells and labels, without and with names."""

HUES = {"user": 0, "prompt": 0, "assistant": 3, "answer": 3}
"""Index of a role's hue in the theme; other roles are gray."""

BAND = ("side", "begin", "middle", "end", "border", "role", "label", "ink")
"""Fields of a band."""


def bands_table(sides: Sequence[Groups], size: Size, colors: Theme) -> Table:
    """Build a table of bands, one for each turn with a role: side, ends in squares of the grid, color and role.

    The label is the role if it fits along the band. There are two pixels between bands.
    """
    rows = []
    for side, part in zip(("row", "column"), sides, strict=True):
        for role, start, stop in filter(itemgetter(0), part.turns):
            begin, end = start / size.tile, stop / size.tile
            gap = min(1 / size.cell, (end - begin) / 4)
            label = role if text_width(role, WORD_CHARACTER) <= (end - begin) * size.cell else ""
            ink = colors.hues[HUES[role]] if role in HUES else colors.quiet
            rows.append((side, begin + gap, (begin + end) / 2, end - gap, begin, role, label, ink))
    return columns(BAND, [dict(zip(BAND, row, strict=True)) for row in rows])


def band_widths(bands: Table) -> tuple[int, int]:
    """Return the pixels that bands take left of the cells and above the cells."""
    widths = {"row": [0], "column": [0]}
    for side, label in zip(bands["side"], bands["label"], strict=True):
        widths[side].append(NAMED if label else BAR)
    return max(widths["row"]), max(widths["column"])
