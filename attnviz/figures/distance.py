"""Attention against distance: how much a head gives to keys so far away, in bins that double."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis.batch import NEAR
from attnviz.analysis.views import see
from attnviz.charts.bars import Bars, Column
from attnviz.core.amounts import digits, percent
from attnviz.core.display import file_stem, in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import BarFigure
from attnviz.figures.figure import subtitles
from attnviz.figures.head import called

TITLE = "Attention by distance"


class DistanceBars(BarFigure):
    """A bar for the share of the attention, and the mean weight of a pair, of each bin of distances.

    The bins are the query itself, 1 before it, 2 to 3, 4 to 7, ..., and so after it. See `analysis.by_distance`.
    """

    lines: list[str]

    @cached_property
    def description(self) -> str:
        bins = self.table.sort_values("share", ascending=False)[:1].itertuples()
        most = [f"Most of it goes to: {_bin(row)}, {percent(float(row.share))}." for row in bins]
        return " ".join([f"{self._heading}. {'; '.join(self.measured)}.", *most])

    @cached_property
    def bars(self) -> Bars:
        """The bins that some pair is in, the nearest first: the query itself, before it, after it."""
        bins = self.table[(self.table["pairs"] > 0) | (self.table["share"] > 0)]
        bins = bins.iloc[np.lexsort((bins["nearest"].abs(), bins["nearest"] > 0))]
        return Bars(
            title=TITLE if self.on_screen else self._heading,
            lines=self.lines,
            names=[_bin(row) for row in bins.itertuples()],
            columns=[
                Column(values=bins["share"].tolist(), name="share of attention"),
                Column([digits(mean) for mean in bins["mean"]], name="mean weight"),
            ],
            style=self.style,
        )


@dataclass(frozen=True, eq=False)
class DistanceProfile(DistanceBars):
    """Attention by distance of a head in one text."""

    record: Record
    site: Site
    head: int | str
    _: KW_ONLY
    sentence: int = 0

    @property
    def _subject(self) -> tuple:
        return self.site, f"head-{self.head}" if isinstance(self.head, int) else f"heads-{self.head}", "distance"

    @property
    def _heading(self) -> str:
        return f"{TITLE} · {called(see(self.record, self.site, sentence=self.sentence), self.head)}"

    @cached_property
    def table(self) -> pd.DataFrame:
        return self._distances.curve()

    @cached_property
    def _distances(self) -> analysis.ByDistance:
        return analysis.by_distance(self.record.step(self.site), self.head, sentence=self.sentence)

    @property
    def measured(self) -> list[str]:
        """Share of near keys, and a note where a sink takes attention."""
        near = f"{percent(self._distances.within(NEAR))} of the attention goes to keys at most {NEAR} tokens away"
        sink = ["what the sink takes is left out"] if self.record.step(self.site).has_sink else []
        return [f"local share: {near}", *sink]

    @property
    def lines(self) -> list[str]:
        """Lines under the title."""
        return [*self.measured, *subtitles(self.record, self)]


@dataclass(frozen=True, eq=False)
class CorpusDistance(DistanceBars):
    """Attention by distance of a head over all tokens of many texts.

    Attributes:
        model: its name.
        head: what the head is called.
        curve: nearest, furthest, share, pairs and mean, as `atlas.Atlas.table` gives "distances".
        texts: how many.
    """

    model: str
    head: str
    curve: pd.DataFrame
    texts: int

    @cached_property
    def name(self) -> str:
        return file_stem(self.model, "atlas", self.head, "distance")

    @cached_property
    def title(self) -> str:
        return f"{self._heading} · {in_title(self.model)}"

    @property
    def _heading(self) -> str:
        return f"{TITLE} · {self.head}"

    @property
    def table(self) -> pd.DataFrame:
        return self.curve

    @property
    def lines(self) -> list[str]:
        """Lines under the title: what was measured."""
        return [f"all tokens of {self.texts:,} texts"]

    measured = lines


def _bin(row) -> str:
    """A bin in words: "itself", "4–7 before"."""
    if not row.nearest:
        return "itself"
    near, far = abs(row.nearest), abs(row.furthest)
    return f"{near:,}{f'–{far:,}' if far != near else ''} {'before' if row.nearest < 0 else 'after'}"
