"""Bands beside a map: which rows and columns are of the system, user or assistant, of a prompt or its answer."""

from collections.abc import Sequence
from operator import itemgetter

from attnviz.analysis.views import Groups
from attnviz.charts.marks import Table, columns
from attnviz.charts.size import Size
from attnviz.charts.texts import text_width
from attnviz.charts.theme import WORD_CHARACTER, Theme

SIDES = ("row", "column")
NEAR, FAR, MIDDLE = -4, -7, -15
"""Pixels from the cells to the ends of a bar, and to the middle of its name."""

BAR, NAMED = 9, 24
"""Pixels of the bands between cells and labels: where no name fits, and where one does."""

HUES = {"user": 0, "prompt": 0, "assistant": 3, "answer": 3}
"""Hue of a role by its place in the theme; any other role is quiet."""


def table(sides: Sequence[Groups], size: Size, colors: Theme) -> Table:
    """A row for each turn that has a role: its side, its ends in squares of the grid, its color and its role.

    The label is the role where it fits along the band. Two pixels are left between bands.
    """
    rows = []
    for side, part in zip(SIDES, sides, strict=True):
        for role, start, stop in filter(itemgetter(0), part.turns):
            begin, end = start / size.tile, stop / size.tile
            gap = min(1 / size.cell, (end - begin) / 4)
            fits = text_width(role, WORD_CHARACTER) <= (end - begin) * size.cell
            rows.append(
                {
                    "side": side,
                    "begin": begin + gap,
                    "middle": (begin + end) / 2,
                    "end": end - gap,
                    "border": begin,
                    "role": role,
                    "label": role if fits else "",
                    "ink": colors.hues[HUES[role]] if role in HUES else colors.quiet,
                }
            )
    return columns(("side", "begin", "middle", "end", "border", "role", "label", "ink"), rows)


def extents(bands: Table) -> tuple[int, int]:
    """Pixels that bands take left of the cells, and above them."""
    widths = {side: [0] for side in SIDES}
    for side, label in zip(bands["side"], bands["label"], strict=True):
        widths[side].append(NAMED if label else BAR)
    return max(widths["row"]), max(widths["column"])
