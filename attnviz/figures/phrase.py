"""Attention on a phrase: what every head gives, from one query, to the places of a needle in a haystack."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import pandas as pd

from attnviz import analysis
from attnviz.analysis.sentences import quoted_token
from attnviz.charts.bars import Bars, Column
from attnviz.core.amounts import counted, percent
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.figures.base import BarFigure

MOST = 16
"""Heads drawn at most, those with the largest shares; the table has all."""


@dataclass(frozen=True, eq=False)
class PhraseShares(BarFigure):
    """A bar for each head: its weights on all places of a phrase together; and the place that gets most, by its depth.

    Attributes:
        kind: of the calls whose heads are shown.
        places: where the phrase begins and where it ends, of each place.

    Raises:
        InputError: if there is no such call, or no place.
    """

    record: Record
    kind: str
    query: int
    places: Sequence[tuple[int, int]]
    _: KW_ONLY
    sentence: int = 0

    def __post_init__(self):
        self.table  # noqa: B018 (a phrase that nobody can look at is refused at once)

    @property
    def _subject(self) -> tuple:
        return Site(self.kind, 0), "phrase", self.query

    @property
    def _what(self) -> str:
        queries, _ = self.record.tokens(Site(self.kind, 0), sentence=self.sentence)
        return f"Attention on a phrase · from {quoted_token(queries[self.query].text, self.query)}"

    @cached_property
    def table(self) -> pd.DataFrame:
        steps = [step for step in self.record.steps if step.site.kind == self.kind]
        if not steps:
            raise InputError(f"There is no {self.kind} attention here.")
        if not self.places:
            raise InputError("The phrase has no place in the text.")
        return analysis.on_places(steps, self.query, self.places, sentence=self.sentence)

    @cached_property
    def description(self) -> str:
        most = [f"{Site(self.kind, head[0]).head(head[1])} {percent(share)}" for head, share in self._shares.items()]
        return f"{self._heading}. Most: {', '.join(most[:3])}."

    @cached_property
    def _shares(self) -> pd.Series:
        """The largest shares, by layer and head."""
        return self.table.groupby(["layer", "head"])["share"].sum().sort_values(ascending=False, kind="stable")[:MOST]

    @cached_property
    def bars(self) -> Bars:
        heads, shares = self.table.groupby(["layer", "head"]), self._shares
        most = self.table.loc[heads["share"].idxmax()].set_index(["layer", "head"])["key"]
        keys = len(self.record.tokens(Site(self.kind, 0), sentence=self.sentence)[1])
        depths = [f"{most[head]:,} ({percent(most[head] / keys)} deep)" for head in shares.index]
        return Bars(
            **self._above(f"each bar is what a head gives to {counted(len(self.places), 'place')} of the phrase"),
            names=[Site(self.kind, layer).head(head) for layer, head in shares.index],
            columns=[Column(values=shares.tolist(), name="share on the phrase"), Column(depths, name="most at")],
        )
