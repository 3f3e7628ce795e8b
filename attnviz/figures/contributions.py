"""The parts of a word's logit: what each head adds directly, what all parts add, and what each head off takes away."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz.charts import heads
from attnviz.charts.bars import Bars, Column
from attnviz.charts.picture import Form, Table
from attnviz.charts.texts import heading
from attnviz.core.amounts import digits, remainder
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures import head_cells
from attnviz.figures.base import BarFigure, Figure
from attnviz.figures.figure import number_arrays, stem, subtitles, titled
from attnviz.metrics.contributions import Contributions, contributions
from attnviz.metrics.predictions import token_at
from attnviz.words import quoted_token

ADDS, FALLS = "Adds directly", "Falls when off"

MOST_NAMED, APART = 5, (0.45, 0.08)
"""Dots with a name beside them: those farthest from 0, unless one so near, in parts of both axes, has one."""

ON_THE_LINE = "on the dashed line: off, as much is lost as the head adds; below it, other parts make up for the head"


@dataclass(frozen=True, eq=False)
class WordFigure(Figure):
    """A figure of the logit of a word after a position, of a run with `stream=True`.

    Attributes:
        token, position, minus, sentence: see `attnviz.metrics.contributions`.
        focused: the head that is framed, as (site, head).

    Raises:
        InputError: if there is no such word or position, or the record has no stream.
    """

    record: Record
    token: str | int | None = None
    position: int = -1
    _: KW_ONLY
    minus: str | int | None = None
    sentence: int = 0

    def __post_init__(self):
        self.contributions  # noqa: B018 (a word that is not there is refused at once)

    @cached_property
    def contributions(self) -> Contributions:
        return contributions(self.record, self.token, self.position, minus=self.minus, sentence=self.sentence)

    @cached_property
    def name(self) -> str:
        logit = self.contributions
        words = " ".join(filter(None, (logit.token, logit.minus and f"minus {logit.minus}")))
        return stem(self.record, f"{self._what} {logit.position} {words}", sentence=self.sentence)

    @cached_property
    def title(self) -> str:
        return titled(self._heading, self.record)

    @cached_property
    def description(self) -> str:
        return self.contributions.in_words()

    @cached_property
    def table(self) -> pd.DataFrame:
        return self.contributions.table

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return number_arrays(self.table)

    @property
    def _heading(self) -> str:
        logit = self.contributions
        if self.on_screen:  # the page says the rest
            return self._titled[0]
        token = token_at(self.record, logit.position, sentence=self.sentence)
        where = f"after {quoted_token(token, logit.position)} · {in_title(self.record.source)}"
        return f"{self._titled[1]} {logit.called} {where}"

    @property
    def _lines(self) -> list[str]:
        return [] if self.on_screen else subtitles(self.record, self, self.sentence)


@dataclass(frozen=True, eq=False)
class HeadContributions(WordFigure):
    """A cell for what each head adds directly to the logit of a word, layers x heads.

    A click selects a head under "head" with the fields kind, layer, head and rev.
    """

    _what, _titled = "contributions", ("What each head adds", "Added by each head to")

    @property
    def form(self) -> Form:
        sites, columns = self._sites, 1 + int(self.contributions.heads["head"].max())
        return heads.cells(
            len(sites), columns, head_cells.cell_size(self.contributions.heads), ADDS.lower(), self.colors
        )

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta, rows, columns and cells."""
        table = self.contributions.heads
        return head_cells.cells(table, "contribution", self._sites, self._heading, self._lines, self)

    @cached_property
    def _sites(self) -> list[Site]:
        return [*self.record.stream.weights.sites]


@dataclass(frozen=True, eq=False)
class PartContributions(WordFigure, BarFigure):
    """A bar for what each part adds to the logit of a word, from where the one before ends; the last is the sum."""

    _what, _titled = "parts", ("All parts", "Parts of")

    @cached_property
    def bars(self) -> Bars:
        logit, parts = self.contributions, self.contributions.summary
        amounts = parts["contribution"].to_numpy()
        total = amounts.sum()
        ends = [*np.cumsum(amounts), total]
        whole = f"{'logit' if logit.minus is None else 'difference of both logits'} {digits(logit.logit)}"
        return Bars(
            title=self._heading,
            lines=[
                f"sum {digits(total)}; {whole}; residual {remainder(logit.residual, logit.logit)}",
                *self._lines,
            ],
            names=[*parts["part"], "sum"],
            columns=[Column([*map(digits, [*amounts, total])], ends, begins=[0.0, *ends[:-2], 0.0])],
            style=self.style,
            length=140,
            chosen=[len(amounts)],
        )


@dataclass(frozen=True, eq=False)
class HeadsReplaced(WordFigure):
    """A dot for each head: what it adds directly to the logit of a word, and how much the logit falls when it is off.

    A click selects a head under "head" with the fields kind, layer, head and rev.

    Attributes:
        falls: of `attnviz.ablation.logit_falls` for the same word and position.
    """

    _: KW_ONLY
    falls: pd.DataFrame

    _what, _titled = "replaced", ("Each head switched off", "Heads switched off, for")

    @cached_property
    def description(self) -> str:
        return self.contributions.in_words(self.falls)

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row for each head, the one that adds most first: kind, layer, head, contribution and fall."""
        table = self.contributions.with_falls(self.falls).query("part == 'head'").drop(columns="part")
        return table.sort_values("contribution", ascending=False, kind="stable", ignore_index=True)

    @property
    def form(self) -> Form:
        return heads.dots(ADDS, FALLS, self.colors)

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta and dots."""
        table, rows = self.table, []
        both = table[["contribution", "fall"]].to_numpy()
        low, high = float(both.min(initial=0.0)), float(both.max(initial=0.0))
        span = (high - low) or 1.0
        room, named = 0.08 * span, []
        for i in np.abs(both).max(1, initial=0.0).argsort()[::-1][:MOST_NAMED].tolist():
            near = (np.abs(both[named] - both[i]) < np.array(APART) * span).all(1)
            named += [] if near.any() else [i]
        for i, head in enumerate(table.itertuples()):
            site, (x, y) = Site(head.kind, head.layer), both[i].tolist()
            texts = {"label": site.brief(head.head) if i in named else "", "x_text": digits(x), "y_text": digits(y)}
            place = {"x": x, "y": y, "side": "left" if 2 * x < low + high else "right"}
            rows.append(head_cells.of_head(self, site, head.head) | place | texts)
        meta = heading(self._heading, [ON_THE_LINE, *self._lines], heads.SIDE + 60, self)
        return {"meta": meta | {"low": [low - room], "high": [high + room]}, "dots": pd.DataFrame(rows).to_dict("list")}
