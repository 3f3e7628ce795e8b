"""Attention on a phrase: what every head gives, from one query, to the places of a needle in a haystack."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz import metrics
from attnviz.charts.bars import Bars, Column
from attnviz.core.amounts import counted, percent
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.core.tokens import Token
from attnviz.figures.base import BarFigure
from attnviz.figures.figure import number_arrays, stem, subtitles, titled
from attnviz.words import quoted_token

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

    @cached_property
    def name(self) -> str:
        return stem(self.record, Site(self.kind, 0), "phrase", str(self.query), sentence=self.sentence)

    @cached_property
    def title(self) -> str:
        return titled(self._heading, self.record)

    @cached_property
    def description(self) -> str:
        most = [
            f"{Site(self.kind, layer).head(head)} {percent(share)}" for (layer, head), share in self._shares.items()
        ]
        return f"{self._heading}. {self._measured}. Most: {', '.join(most[:3])}."

    @cached_property
    def table(self) -> pd.DataFrame:
        steps = [step for step in self.record.steps if step.site.kind == self.kind]
        if not steps:
            raise InputError(f"There is no {self.kind} attention here.")
        if not self.places:
            raise InputError("The phrase has no place in the text.")
        return metrics.on_places(steps, self.query, self.places, sentence=self.sentence)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return number_arrays(self.table)

    @cached_property
    def bars(self) -> Bars:
        by_head, keys = ["layer", "head"], len(self._tokens[1])
        place = self.table.loc[self.table.groupby(by_head)["share"].idxmax()].set_index(by_head)["key"]
        depths = [f"{place[head]:,} ({percent(place[head] / keys)} deep)" for head in self._shares.index]
        return Bars(
            title=self._heading,
            lines=[self._measured, *subtitles(self.record, self)],
            names=[Site(self.kind, layer).head(head) for layer, head in self._shares.index],
            columns=[
                Column(values=self._shares.tolist(), name="share on the phrase"),
                Column(depths, name="most at"),
            ],
            style=self.style,
        )

    @cached_property
    def _shares(self) -> pd.Series:
        """The largest shares, by layer and head."""
        return self.table.groupby(["layer", "head"])["share"].sum().sort_values(ascending=False, kind="stable")[:MOST]

    @property
    def _tokens(self) -> tuple[tuple[Token, ...], tuple[Token, ...]]:
        return self.record.tokens(Site(self.kind, 0), sentence=self.sentence)

    @property
    def _heading(self) -> str:
        token = quoted_token(self._tokens[0][self.query].text, self.query)
        return f"Attention on a phrase · from {token} · {in_title(self.record.source)}"

    @property
    def _measured(self) -> str:
        return f"each bar is what a head gives to {counted(len(self.places), 'place')} of the phrase"
