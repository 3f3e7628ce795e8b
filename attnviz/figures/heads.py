"""All heads of one attention call at a glance: a thumbnail per head."""

from dataclasses import replace
from functools import cache
from typing import Unpack

import numpy as np

from attnviz import tables, words
from attnviz.charts import frame
from attnviz.charts.frame import Frame
from attnviz.charts.mosaic import ABOVE, Mosaic, Thumbnail, tile_of
from attnviz.charts.picture import Picture
from attnviz.charts.style import Style
from attnviz.charts.theme import LINE
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.figure import Figure, Shown, see, stem, subtitles, titled
from attnviz.figures.head import arrays_of
from attnviz.views import Seen

WIDTH, PAIRED = 336, 296
"""Pixels of the whole mosaic, so that it fits a phone; and beside a map, so that there is room right of that, too."""

WIDEST, TALLEST = 150, 212
"""Pixels of a thumbnail at most where there are one or two, and under each other beside a map."""

NAMED = 75
"""Pixels of a thumbnail over which "head 10" has room beside the button of a page; over a narrower one "10" stands."""

GAP, LABEL = 14, 20


def heads(record: Record, site: Site, **shown: Unpack[Shown]) -> Figure:
    """Thumbnails of all heads of a site; a click selects one under the name "head" with the fields head and rev."""
    seen, style = see(record, site, **shown)
    drawn = cache(lambda style: drawing_of(seen, style))
    on_screen = replace(style, on_screen=True)
    return Figure(
        name=stem(record, site, "heads", sentence=seen.sentence, view=seen.view),
        title=titled(title_of(seen), record),
        style=style,
        draw=drawn,
        describe=lambda: words.heads(seen, drawn(on_screen).tables["heads"]["largest"]),
        tabulate=lambda: tables.heads_table(seen),
        collect=lambda: _arrays(seen),
    )


def title_of(seen: Seen) -> str:
    """What is drawn, beginning with constant words."""
    return f"All heads · {seen.site} · {in_title(seen.record.source)}"


def drawing_of(seen: Seen, style: Style) -> Picture:
    """The thumbnails, each as high as its map is for its width."""
    side, height, corners = placed(seen, style)
    places, labels = [], []
    for head, (x, y) in enumerate(corners):
        places.append(Thumbnail(seen.site, head, x, y, f"head {head}"))
        labels.append(_label(seen, head, side, x, y - LABEL / 2, style))
    wide = _width(style)
    plan = Mosaic(places, Frame(words=tuple(labels)), side, height, wide, corners[-1][1] + height, wide)
    title = "" if style.on_screen else title_of(seen)
    lines = [*([] if style.on_screen else subtitles(seen.record, style, seen.sentence)), *_notes(seen, side, height)]
    return plan.picture({seen.site: seen}, title, lines, style)


def _notes(seen: Seen, side: int, height: int) -> list[str]:
    """What is said above thumbnails of that size."""
    tile = tile_of(seen, side, height)
    return [*seen.notes, *([f"each square shows the largest of {tile} × {tile} cells"] if tile > 1 else [])]


def placed(seen: Seen, style: Style) -> tuple[int, int, list[tuple[int, int]]]:
    """Width and height of a thumbnail, and where the left upper corner of each stands; in pixels."""
    count = seen.step.num_heads
    columns = columns_of(count, paired=style.is_paired)
    side = (_width(style) - GAP * (columns - 1)) // columns
    side = min(side, TALLEST if style.is_paired else WIDEST) if count <= 2 else side
    height = round(side * max(0.25, min(2.0, len(seen.queries) / max(1, len(seen.keys)))))
    step = height + LABEL + GAP
    return side, height, [(i % columns * (side + GAP), i // columns * step + LABEL) for i in range(count)]


def corners(record: Record, site: Site, **shown: Unpack[Shown]) -> list[tuple[int, int]]:
    """The right upper corner of each thumbnail on the screen, in pixels: there a page can put a button."""
    seen, style = see(record, site, **shown)
    style = replace(style, on_screen=True)
    (side, height, lefts), wide = placed(seen, style), _width(style)
    said = frame.heading(
        "", _notes(seen, side, height), left=0, top=0, width=wide, narrowest=wide, colors=style.colors
    ).words
    above = len(said) * LINE + (ABOVE if said else 0)  # what is said above moves the thumbnails down
    return [(x + side, y + above) for x, y in lefts]


def columns_of(heads: int, *, paired: bool = False) -> int:
    """Thumbnails in a row; beside a map, which is high, fewer and larger ones."""
    one, two, three = (2, 6, 12) if paired else (1, 4, 9)
    return 1 if heads <= one else 2 if heads <= two else 3 if heads <= three else 4


def _width(style: Style) -> int:
    return PAIRED if style.is_paired else WIDTH


def _label(seen: Seen, head: int, side: int, x: float, y: float, style: Style) -> dict:
    """A thumbnail's number; a head that is off says so, on a page by the button beside it, for which there is room."""
    off, colors = head in seen.step.heads_off, style.colors
    color = colors.accent if head == style.focused else colors.quiet if off else colors.text
    name = f"head {head}" if side >= NAMED else str(head)
    return frame.words(x, y, f"{name}{' · off' if off and not style.on_screen else ''}", color)


def _arrays(seen: Seen) -> dict[str, np.ndarray]:
    """The arrays of each head, stacked: (heads, queries, keys)."""
    each = [arrays_of(seen, head) for head in range(seen.step.num_heads)]
    names = [name for name in ("weights", "scores", "may_attend") if name in each[0]]
    return each[0] | {name: np.stack([arrays[name] for arrays in each]) for name in names}
