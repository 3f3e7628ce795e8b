"""Attention against distance: how much a head gives to keys so far away, in bins that double."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis.measures import NEAR
from attnviz.analysis.views import see
from attnviz.charts.bars import Bars, Column
from attnviz.charts.style import Style
from attnviz.core.amounts import digits, percent
from attnviz.core.display import file_stem, in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import BarFigure
from attnviz.figures.figure import number_arrays, stem, subtitles, titled
from attnviz.figures.head import called

TITLE = "Attention by distance"


@dataclass(frozen=True, eq=False)
class DistanceProfile(BarFigure):
    """A bar for the share of the attention, and the mean weight of a pair, of each bin of distances.

    The bins are the query itself, 1 before it, 2 to 3, 4 to 7, ..., and so after it. See `analysis.by_distance`.
    """

    record: Record
    site: Site
    head: int | str
    _: KW_ONLY
    sentence: int = 0

    @cached_property
    def name(self) -> str:
        what = f"head-{self.head}" if isinstance(self.head, int) else f"heads-{self.head}"
        return stem(self.record, self.site, what, "distance", sentence=self.sentence)

    @cached_property
    def title(self) -> str:
        return titled(self._heading, self.record)

    @cached_property
    def description(self) -> str:
        most = next(self.table.sort_values("share", ascending=False).itertuples(), None)
        end = "" if most is None else f"Most of it goes to: {_bin(most)}, {percent(float(most.share))}."
        return f"{self._heading}. {'; '.join(self._measured)}. {end}"

    @cached_property
    def table(self) -> pd.DataFrame:
        return self._distances.curve()

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return number_arrays(self.table)

    @cached_property
    def bars(self) -> Bars:
        title = TITLE if self.on_screen else self._heading
        return bars_of(self.table, title, [*self._measured, *subtitles(self.record, self)], self.style)

    @cached_property
    def _distances(self) -> analysis.ByDistance:
        return analysis.by_distance(self.record.step(self.site), self.head, sentence=self.sentence)

    @property
    def _heading(self) -> str:
        return f"{TITLE} · {called(see(self.record, self.site, sentence=self.sentence), self.head)}"

    @property
    def _measured(self) -> list[str]:
        near = f"{percent(self._distances.within(NEAR))} of the attention goes to keys at most {NEAR} tokens away"
        sink = ["what the sink takes is left out"] if self.record.step(self.site).has_sink else []
        return [f"local share: {near}", *sink]


@dataclass(frozen=True, eq=False)
class CorpusDistance(BarFigure):
    """A bar for the share of the attention of each bin of distances, over all tokens of many texts.

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

    @cached_property
    def description(self) -> str:
        return f"{self._heading}, {self._measured}."

    @property
    def table(self) -> pd.DataFrame:
        return self.curve

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return number_arrays(self.curve)

    @cached_property
    def bars(self) -> Bars:
        return bars_of(self.curve, TITLE if self.on_screen else self._heading, [self._measured], self.style)

    @property
    def _heading(self) -> str:
        return f"{TITLE} · {self.head}"

    @property
    def _measured(self) -> str:
        return f"all tokens of {self.texts:,} texts"


def bars_of(curve: pd.DataFrame, title: str, lines: list[str], style: Style) -> Bars:
    """The bins that some pair is in, the nearest first: the query itself, before it, after it."""
    bins = curve[(curve["pairs"] > 0) | (curve["share"] > 0)]
    bins = bins.iloc[np.lexsort((bins["nearest"].abs(), bins["nearest"] > 0))]
    columns = [
        Column(values=bins["share"].tolist(), name="share of attention"),
        Column([digits(mean) for mean in bins["mean"]], name="mean weight"),
    ]
    return Bars(title=title, lines=lines, names=[_bin(row) for row in bins.itertuples()], columns=columns, style=style)


def _bin(row) -> str:
    """A bin in words: "itself", "4–7 before"."""
    if not row.nearest:
        return "itself"
    near, far = abs(row.nearest), abs(row.furthest)
    return f"{near:,}{f'–{far:,}' if far != near else ''} {'before' if row.nearest < 0 else 'after'}"
