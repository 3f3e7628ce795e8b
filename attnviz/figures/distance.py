"""Attention of a head by the distance between query and key, in bins that double in width."""

from abc import abstractmethod
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
from attnviz.figures.base import Figure, FigureFacts, subtitles
from attnviz.figures.head import called, heads_in_name

TITLE = "Attention by distance"
ROW_BY_ROW = "patches are counted row by row, not measured across the picture"


class DistanceBars(Figure):
    """Base class of charts of attention by distance: a bar for the share of each bin, and the mean weight of a pair.

    The bins are the query itself, 1 before it, 2 to 3, 4 to 7, ..., and the same after it. See `analysis.by_distance`.
    """

    @abstractmethod
    def _measure_notes(self) -> list[str]:
        """Return lines on what was measured."""

    def _words(self) -> str:
        text = f"{self._heading}. {'; '.join(self._measure_notes())}."
        for row in self.table.sort_values("share", ascending=False)[:1].itertuples():
            text += f" Most of it goes to: {_bin_name(row)}, {percent(float(row.share))}."
        return text

    def draw(self) -> Bars:
        """Draw the bins that have pairs, nearest first: the query itself, keys before it, keys after it."""
        bins = self.table[(self.table["pairs"] > 0) | (self.table["share"] > 0)]
        bins = bins.iloc[np.lexsort((bins["nearest"].abs(), bins["nearest"] > 0))]
        means = Column([digits(mean) for mean in bins["mean"]], name="mean weight")
        return Bars(
            title=TITLE if self.on_screen else self._heading,
            lines=[*self._measure_notes(), *subtitles(self._facts.record, self)],
            names=[_bin_name(row) for row in bins.itertuples()],
            columns=[Column(values=bins["share"].tolist(), name="share of attention"), means],
            style=self.style,
        )


def _bin_name(row) -> str:
    """Name a bin: "itself", "4–7 before"."""
    if not row.nearest:
        return "itself"
    near, far = abs(row.nearest), abs(row.furthest)
    return f"{near:,}{f'–{far:,}' if far != near else ''} {'before' if row.nearest < 0 else 'after'}"


@dataclass(frozen=True, eq=False)
class DistanceProfile(DistanceBars):
    """Attention of a head by distance, in one text."""

    record: Record
    site: Site
    head: int | str
    _: KW_ONLY
    sentence: int = 0

    def facts(self) -> FigureFacts:
        view = see(self.record, self.site, sentence=self.sentence)
        return FigureFacts(
            heading=f"{TITLE} · {called(view, self.head)}",
            subject=(self.site, heads_in_name(self.head), "distance"),
            table=self._curve,
            words=self._words,
            record=self.record,
        )

    def _curve(self) -> pd.DataFrame:
        return self._distances.curve()

    @cached_property
    def _distances(self) -> analysis.ByDistance:
        return analysis.by_distance(self.record.step(self.site), self.head, sentence=self.sentence)

    def _measure_notes(self) -> list[str]:
        """Return lines: share of near keys, and notes for a sink and for patches."""
        near = f"{percent(self._distances.within(NEAR))} of the attention goes to keys at most {NEAR} tokens away"
        sink = ["what the sink takes is left out"] if self.record.step(self.site).has_sink else []
        has_picture = bool(self.record.sentences[self.sentence].pictures)
        return [f"local share: {near}", *sink, *([ROW_BY_ROW] if has_picture else [])]


@dataclass(frozen=True, eq=False)
class CorpusDistance(DistanceBars):
    """Attention of a head by distance, over all tokens of many texts.

    Attributes:
        model: name of the model.
        head: name of the head.
        curve: table of nearest, furthest, share, pairs and mean, from `atlas.Atlas.table("distances")`.
        texts: number of texts.
    """

    model: str
    head: str
    curve: pd.DataFrame
    texts: int

    def facts(self) -> FigureFacts:
        heading, name = f"{TITLE} · {self.head}", file_stem(self.model, "atlas", self.head, "distance")
        title = f"{heading} · {in_title(self.model)}"
        return FigureFacts(heading=heading, title=title, name=name, table=self.curve.copy, words=self._words)

    def _measure_notes(self) -> list[str]:
        return [f"all tokens of {self.texts:,} texts"]
