"""All heads of one attention call at a glance: a thumbnail per head."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz.analysis import sentences, tables
from attnviz.charts.mosaic import Mosaic, MosaicLayout, Thumbnail
from attnviz.charts.texts import text_width
from attnviz.figures.base import MosaicFigure, SiteFigure
from attnviz.figures.figure import subtitles
from attnviz.figures.head import arrays_of

WIDTH, PAIRED = 336, 296
"""Pixels of all thumbnails, so that they fit a phone; and beside a map, so that there is room right of that, too."""

WIDEST, TALLEST = 150, 212
"""Pixels of a thumbnail at most where there are one or two, and under each other beside a map."""

GAP, LABEL = 14, 20
"""Pixels between thumbnails, and over each for its number."""


@dataclass(frozen=True, eq=False)
class AllHeads(SiteFigure, MosaicFigure):
    """Thumbnails of all heads of a site; a click selects one under "head" with the fields kind, layer, head and rev."""

    @property
    def _subject(self) -> tuple:
        return self.site, "heads"

    @property
    def _what(self) -> str:
        return f"All heads · {self.site}"

    @cached_property
    def description(self) -> str:
        return sentences.heads(self.attention_view, [*self.on_page.mosaic.largest.values()])

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.heads_table(self.attention_view)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of each head, stacked: (heads, queries, keys)."""
        each = [arrays_of(self.attention_view, head) for head in range(self.attention_view.step.num_heads)]
        names = [name for name in ("weights", "scores", "may_attend") if name in each[0]]
        return each[0] | {name: np.stack([arrays[name] for arrays in each]) for name in names}

    @cached_property
    def mosaic(self) -> Mosaic:
        """Each thumbnail is as high as its map is for its width."""
        view, width = self.attention_view, PAIRED if self.is_paired else WIDTH
        count = view.step.num_heads
        across = columns_of(count, paired=self.is_paired)
        side = (width - GAP * (across - 1)) // across
        if count <= 2:
            side = min(side, TALLEST if self.is_paired else WIDEST)
        ratio = len(view.queries) / max(1, len(view.keys))
        height = round(side * max(0.25, min(2.0, ratio)))
        step, down = (side + GAP, height + LABEL + GAP), -(-count // across)
        lines = [] if self.on_screen else subtitles(view.record, self, self.sentence)
        return Mosaic(
            title="" if self.on_screen else self._heading,
            lines=[*lines, *view.notes],
            layout=MosaicLayout(side, height, LABEL, across * step[0] - GAP, down * step[1] - GAP - LABEL),
            thumbnails=[
                Thumbnail((self.site, i), i % across * step[0], i // across * step[1], self._label(i, side))
                for i in range(count)
            ],
            views={self.site: view},
            style=self.style,
        )

    def _label(self, head: int, side: int) -> str:
        """The number of a head; a page says elsewhere whether it is off."""
        if self.on_screen:
            return f"head {head}" if side > text_width("head 00") else str(head)
        return f"head {head}{' · off' if head in self.attention_view.step.heads_off else ''}"


def columns_of(heads: int, *, paired: bool = False) -> int:
    """Thumbnails in a row; beside a map, which is high, fewer and larger ones."""
    limits = (2, 6, 12) if paired else (1, 4, 9)
    return 1 + sum(heads > limit for limit in limits)
