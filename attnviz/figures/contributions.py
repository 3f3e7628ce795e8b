"""Numbers of heads, layers x heads: contributions to a logit, effects of patching, and composition of heads."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd

from attnviz.analysis.circuits import Circuits
from attnviz.analysis.contributions import Carried, Contributions, contributions
from attnviz.analysis.predictions import token_at
from attnviz.analysis.sentences import in_quotes, quoted_token
from attnviz.analysis.views import as_tokens, groups
from attnviz.charts.axes import GridSide, Size
from attnviz.charts.bars import Bars, Column
from attnviz.charts.grid import READABLE, Grid, Number, limit_of
from attnviz.charts.marks import Ramp
from attnviz.charts.signs import CellState
from attnviz.core.amounts import counted, digits, in_cell, remainder
from attnviz.core.display import file_stem, in_title
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.figures.base import Figure, FigureFacts, subtitles, text_array, text_in_line

HEAD = ("kind", "layer", "head")
"""Columns of a table, and fields of a selection, that name a head."""
MOST_NUMBERED, ROOMY, NARROW = 16, (44, 26), (22, 16)
"""Most heads of a layer whose cells show numbers; pixels (across, down) of a cell with and without a number."""
WIDE, LARGEST, SMALLEST, ROOM, MOST_CELLS = 520, 36, 3, 30, 4096
"""Composition: pixels of the map at most, of a cell at most and at least, of a label; most cells as rectangles."""

ADDS, FALLS, WAY = "adds directly", "falls when off", "part of the way from A to B"
LESS = "color: how much the logit falls when the head is off; less than the head adds where other parts make up for it"
READS = {"q": "queries", "k": "keys", "v": "values"}
"""Inputs of a later head, by the kind of composition."""


def number_grid(
    values: np.ndarray, rows: GridSide, columns: GridSide, ramp: Ramp, size: Size, *also: Number, **settings: Any
) -> Grid:
    """Build a grid of colored numbers, written into the cells where there is room; NaN has the color of 0."""
    flat = values.ravel().tolist()
    return Grid(
        rows=rows,
        columns=columns,
        size=size,
        states=np.zeros(values.shape, int),
        kinds=(CellState("number", "ramp", legend=""),),
        shade=ramp.shade(values),
        ramp=ramp,
        numbers=[Number("number", values, [*map(digits, flat)], ramp.title), *also],
        text_title="",
        written=[*map(in_cell, flat)] if size.cell >= READABLE[0] else (),
        **settings,
    )


def side_of(title: str, axis: str, labels: Sequence[str], names: Sequence[str] | None = None) -> GridSide:
    """Make rows or columns of texts that are not tokens."""
    return GridSide(groups(as_tokens(labels)), title, axis, labels, names or labels)


class HeadNumbers(Figure):
    """Base class of grids with one number per head, layers x heads; a click selects a head under "head".

    The selection has the fields kind, layer, head and rev. `focused` is the framed head, as (site, head).
    """

    def _head_grid(self, table: pd.DataFrame, measure: str, also: str = "", **above: Any) -> Grid:
        """Build the grid from a table with one row per head: kind, layer, head and, as the last column, the number.

        Args:
            also: name of a second number, in the column before the last, for the tooltip.
            above: title, lines below the title, and style.
        """
        sites = sorted({*map(Site, table["kind"], table["layer"])}, key=lambda site: (site.layer, site.kind))
        both = np.full((2, len(sites), 1 + int(table["head"].max())), np.nan)
        for kind, layer, head, *numbers in table.itertuples(index=False):
            both[:, sites.index(Site(kind, layer)), head] = numbers[0], numbers[-1]
        values, count = both[1], both.shape[2]
        wide, high = ROOMY if count <= MOST_NUMBERED else NARROW
        every = [(site.kind, site.layer, head) for site in sites for head in range(count)]
        site, focused = self.focused or (None, None)
        cell = (sites.index(site), focused) if site in sites and focused in range(count) else None
        return number_grid(
            values,
            side_of("Layer", "query", [f"{site.kind} {site.layer}" for site in sites]),
            side_of("Head", "key", [*map(str, range(count))]),
            Ramp(measure, limit_of(values) or 1.0, self.colors.diverging, signed=True),
            Size("rectangles", wide, *values.shape, high=high),
            *([Number("also", both[0], [*map(digits, both[0].ravel().tolist())], also)] if also else []),
            selects="head",
            more={name: [place[i] for place in every] for i, name in enumerate(HEAD)},
            **above | {"style": replace(above["style"], selected=cell)},
        )


@dataclass(frozen=True, eq=False)
class WordFigure(Figure):
    """Figure of the logit of a word after a position, for a run with `stream=True`.

    Attributes:
        token, position, minus, sentence: see `attnviz.analysis.contributions`.

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

    def facts(self) -> FigureFacts:
        logit, (called, on_page, beginning) = self.contributions, self._titles
        token = token_at(self.record, logit.position, sentence=self.sentence)
        where = f"after {quoted_token(token, logit.position)} · {in_title(self.record.source)}"
        words = " ".join(filter(None, (logit.token, logit.minus and f"minus {logit.minus}")))
        return FigureFacts(
            heading=on_page if self.on_screen else f"{beginning} {logit.called} {where}",  # a page says the rest
            subject=(f"{called} {logit.position} {words}",),
            table=logit.table,
            words=logit.in_words,
        )

    def _header(self, *lines: str) -> dict[str, Any]:
        notes = [] if self.on_screen else subtitles(self.record, self, self.sentence)
        return {"title": self._heading, "lines": [*lines, *notes], "style": self.style}


@dataclass(frozen=True, eq=False)
class HeadContributions(WordFigure, HeadNumbers):
    """Direct contribution of each head to the logit of a word; a click selects a head, see `HeadNumbers`.

    Attributes:
        falls: table from `attnviz.studies.ablation.logit_falls` for the same word and position: then the number of a
            head is the decrease of the logit when the head is switched off; None for the contributions.
    """

    _: KW_ONLY
    falls: pd.DataFrame | None = None

    @property
    def _titles(self) -> tuple[str, str, str]:
        if self.falls is None:
            return "contributions", "What each head adds", "Added by each head to"
        return "replaced", "Each head switched off", "Heads switched off, for"

    def facts(self) -> FigureFacts:
        """Return the facts; with falls, the table has a row per head, the largest contribution first."""
        if self.falls is None:
            return super().facts()
        table = self.contributions.with_falls(self.falls).query("part == 'head'").drop(columns="part")
        table = table.sort_values("contribution", ascending=False, kind="stable", ignore_index=True)
        return replace(super().facts(), table=table, words=partial(self.contributions.in_words, self.falls))

    def draw(self) -> Grid:
        if self.falls is None:
            return self._head_grid(self.contributions.heads[[*HEAD, "contribution"]], ADDS, **self._header())
        return self._head_grid(self.table[[*HEAD, "contribution", "fall"]], FALLS, ADDS, **self._header(LESS))


@dataclass(frozen=True, eq=False)
class PartContributions(WordFigure):
    """Waterfall chart of the contribution of each part to the logit of a word, with the sum as the last bar."""

    _titles = "parts", "All parts", "Parts of"

    def draw(self) -> Bars:
        logit, parts = self.contributions, self.contributions.summary
        amounts = parts["contribution"].to_numpy()
        total = amounts.sum()
        ends = [*np.cumsum(amounts), total]
        whole = f"{'logit' if logit.minus is None else 'difference of both logits'} {digits(logit.logit)}"
        return Bars(
            **self._header(f"sum {digits(total)}; {whole}; residual {remainder(logit.residual, logit.logit)}"),
            names=[*parts["part"], "sum"],
            columns=[Column([*map(digits, [*amounts, total])], ends, begins=[0.0, *ends[:-2], 0.0])],
            length=140,
            chosen=[len(amounts)],
        )


@dataclass(frozen=True, eq=False)
class CarriedHeads(HeadNumbers):
    """Effect of patching each head from text B into text A, as a share of the change from A (0) to B (1).

    Attributes:
        record: run of text A.
        carried: result from `attnviz.studies.ablation.carried`.
    """

    record: Record
    carried: Carried

    def facts(self) -> FigureFacts:
        return FigureFacts(
            what=f"Carried by each head's {self.carried.part}",
            subject=(f"{self.carried.part} from", self.carried.texts[1]),
            table=self.carried.table,
            words=self.carried.in_words,
        )

    def draw(self) -> Grid:
        measured = self.carried
        named = [f"{name}: {text_in_line(text)}" for name, text in zip("AB", measured.texts, strict=True)]
        words = " − ".join(map(in_quotes, measured.words))
        above = self._header(*named, f"logit of {words} after position {measured.position}")
        if self.on_screen:  # a page says the rest beside the picture
            above["lines"] = []
        return self._head_grid(self.table[[*HEAD, "carried"]], WAY, **above)


@dataclass(frozen=True, eq=False)
class CompositionMap(Figure):
    """Map of composition scores: a row for each earlier head, a column for each later head.

    Attributes:
        kind: "q", "k" or "v".
        model: name of the model.

    Raises:
        InputError: if there is no such kind, or all heads are in one layer.
    """

    circuits: Circuits
    kind: str = "k"
    _: KW_ONLY
    model: str = ""

    def __post_init__(self):
        self.circuits.matrix(self.kind)
        if not len(self.circuits.composition):
            raise InputError("All heads are in one layer, so no head can read the output of another head.")

    @property
    def _heads(self) -> list[tuple[Site, int]]:
        rows = self.circuits.heads[[*HEAD]].itertuples(index=False, name=None)
        return [(Site(kind, layer), head) for kind, layer, head in rows]

    def facts(self) -> FigureFacts:
        kind, pairs = self.kind, self.circuits.composition
        most = [
            f"{row.layer}.{row.head} to {row.later_layer}.{row.later_head}, {digits(getattr(row, kind))}"
            for row in pairs.dropna(subset=kind).nlargest(3, kind).itertuples()
        ]
        heads = text_array([site.brief(head) for site, head in self._heads])
        return FigureFacts(
            heading=f"{kind.upper()}-composition{f' · {in_title(self.model)}' if self.model else ''}",
            name=file_stem(self.model, f"{kind}-composition"),
            table=pairs,
            words=f"Largest {kind.upper()}-composition of {counted(len(pairs), 'pair')}: {'; '.join(most)}.",
            arrays={"composition": self.circuits.matrix(kind), "heads": heads},
        )

    def draw(self) -> Grid:
        heads, pairs = self._heads, self.table
        rows = [place for place in heads if place[0].layer < pairs["later_layer"].max()]
        columns = [place for place in heads if place[0].layer > pairs["layer"].min()]
        places = np.ix_(*([heads.index(place) for place in part] for part in (rows, columns)))
        values = np.nan_to_num(self.circuits.matrix(self.kind)[places])
        side = float(np.clip(WIDE // max(values.shape), SMALLEST, LARGEST))
        a_layer = sum(site == heads[0][0] for site, _ in heads)
        every = next((n for n in [1, *(a_layer * 2**power for power in range(12))] if n * side >= ROOM), 1)
        form = "rectangles" if values.size <= MOST_CELLS else "pixels"
        return number_grid(
            values,
            side_of("earlier head", "query", *_head_texts(rows)),
            side_of("later head", "key", *_head_texts(columns)),
            Ramp("composition score", limit_of(values), self.colors.ramp),
            Size(form, side, *values.shape, every=every),
            title=self._heading,
            lines=[f"Rows: earlier heads that write. Columns: later heads whose {READS[self.kind]} read it."],
            style=self.style,
        )


def _head_texts(heads: Sequence[tuple[Site, int]]) -> tuple[list[str], list[str]]:
    """Return labels and names of heads."""
    return [site.short(head) for site, head in heads], [site.brief(head) for site, head in heads]
