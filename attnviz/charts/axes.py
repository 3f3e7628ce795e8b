"""Labels and names of tokens, and bands beside them: the turns of a chat, a prompt and its answer.

No text of a user stands in an expression, a field name or a tooltip's name: labels are rows of tables.
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
"""Code points of a token shown on an axis, and of a word of which begin and end are shown there."""


def names(groups: Groups, tile: int = 1) -> list[str]:
    """Names of rows or columns in a readout: the token, its position and role; of a tile, the first and the last."""
    labels = groups.labels

    def name(i: int) -> str:
        place = ", ".join(filter(None, (str(groups.place(i)), groups.roles[i])))
        return f"{isolated(visible_text(labels[i]))} ({place})"

    if tile == 1:
        return [name(i) for i in range(len(labels))]
    return [f"{name(i)} … {name(min(i + tile, len(labels)) - 1)}" for i in range(0, len(labels), tile)]


def notes_on(size: Size, shows: str = "each square shows the largest of") -> list[str]:
    """Notes on a map that shows less than everything."""
    notes = [f"{shows} {size.tile} × {size.tile} cells"] if size.tile > 1 else []
    if (n := size.every * size.tile) > 1:
        ending = "th" if n % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
        notes.append(f"every {n}{ending} token is labeled")
    return notes


def word_spans(groups: Groups) -> list[tuple[int, int]]:
    """Begin and end of words of several pieces."""
    begins = [i for i, token in enumerate(groups.tokens) if not (token.joined and i)]
    spans = zip(begins, [*begins[1:], len(groups)], strict=True)
    return [(begin, end) for begin, end in spans if end - begin > 1]


def short(text: str, longest: int = LONGEST_LABEL) -> str:
    """A token as it stands on an axis: a long one is cut in its middle, so that two with one beginning differ."""
    whole, end = visible_text(text, LONGEST_WORD), longest // 3
    return whole if len(whole) <= longest else f"{whole[: longest - 1 - end]}…{whole[-end:]}"


def from_right(labels: Sequence[str]) -> bool:
    """Whether a text runs from right to left: its first letter of either kind does."""
    kinds = (unicodedata.bidirectional(character) for label in labels for character in label)
    return next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L"


NEAR, FAR, MIDDLE = -4, -7, -15
"""Pixels from the cells to the ends of a bar, and to the middle of its name."""

BAR, NAMED = 9, 24
"""Pixels of the bands between cells and labels: where no name fits, and where one does."""

HUES = {"user": 0, "prompt": 0, "assistant": 3, "answer": 3}
"""Hue of a role by its place in the theme; any other role is quiet."""

BAND = ("side", "begin", "middle", "end", "border", "role", "label", "ink")
"""Fields of a band."""


def bands_table(sides: Sequence[Groups], size: Size, colors: Theme) -> Table:
    """A row for each turn that has a role: its side, its ends in squares of the grid, its color and its role.

    The label is the role where it fits along the band. Two pixels are left between bands.
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
    """Pixels that bands take left of the cells, and above them."""
    widths = {"row": [0], "column": [0]}
    for side, label in zip(bands["side"], bands["label"], strict=True):
        widths[side].append(NAMED if label else BAR)
    return max(widths["row"]), max(widths["column"])
