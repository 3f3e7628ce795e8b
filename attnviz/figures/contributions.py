"""Numbers of heads, layers x heads: what each adds to a word's logit, carries to another text, or reads of others."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial

import numpy as np
import pandas as pd

from attnviz.analysis.circuits import Circuits
from attnviz.analysis.contributions import Carried, Contributions, contributions
from attnviz.analysis.predictions import token_at
from attnviz.analysis.sentences import in_quotes, quoted_token
from attnviz.analysis.views import as_tokens, groups
from attnviz.charts.bars import Bars, Column
from attnviz.charts.grid import READABLE, Grid, limit_of
from attnviz.charts.legends import Ramp, heading, title_spec
from attnviz.charts.marks import Form, click, field, layer, pixels_at, tips, when, whole
from attnviz.charts.signs import CellState
from attnviz.charts.size import Size
from attnviz.charts.theme import MONO, Style
from attnviz.core.amounts import counted, digits, in_cell, remainder
from attnviz.core.display import file_stem, in_title, visible_text
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.record import Record
from attnviz.figures.base import LONGEST_TEXT, Figure, FigureFacts, Views, subtitles, text_array

HEAD = ("head", "kind", "layer", "head", "rev")
"""Name and fields of the selection of a head."""
MOST_NUMBERED, ROOMY, NARROW = 16, (44, 26), (22, 16)
"""Heads of a layer whose cells have room for their numbers, and pixels of a cell of as many and of more."""
MOST_NAMED, APART = 5, (0.45, 0.08)
"""Dots with a name beside them: those farthest from 0, unless one so near, in parts of both axes, has one."""
WIDE, LARGEST, SMALLEST, ROOM, MOST_CELLS = 520, 36, 3, 30, 4096
"""Composition: pixels of the map at most, of a cell at most and at least, and of a label; cells that are rectangles."""
SIDE = 260
"""Pixels of the side of a plot of dots, which a phone has room for with its axis."""

ADDS, FALLS, WAY = "adds directly", "falls when off", "part of the way from A to B"
ON_THE_LINE = "on the dashed line: off, as much is lost as the head adds; below it, other parts make up for the head"
READS = {"q": "queries", "k": "keys", "v": "values"}
"""Inputs of a later head, by the kind of composition."""


def of_head(style: Style, site: Site, head: int) -> dict:
    """Fields that a click on a head selects, and its name."""
    fields = {"kind": site.kind, "layer": site.layer, "head": head, "rev": style.rev}
    return fields | {"name": site.head(head), "focused": (site, head) == style.focused}


def number_grid(values: np.ndarray, sides: Sequence[list[str]], ramp: Ramp, size: Size, **settings: object) -> Grid:
    """A number of each pair of a row and a column as a colored cell, written where it has room; NaN is 0 in color."""
    flat = values.ravel().tolist()
    return Grid(
        rows=groups(as_tokens(sides[0])),
        columns=groups(as_tokens(sides[1])),
        size=size,
        states=np.zeros(values.shape, int),
        kinds=(CellState("number", "ramp", legend=""),),
        shade=ramp.shade(values),
        ramp=ramp,
        numbers={"number": (values, [*map(digits, flat)])},
        written=[*map(in_cell, flat)] if size.cell >= READABLE[0] else (),
        tips=(("number_text", ramp.title),),
        **settings,
    )


def of_heads(table: pd.DataFrame, measure: str, *, style: Style, **above: object) -> Grid:
    """A number of each head as a colored cell, layers x heads; a click selects a head under "head".

    Args:
        table: a row for each head: kind, layer, head and the number, last.
        measure: what the number is.
        above: title, and the lines under it.
    """
    sites = sorted({*map(Site, table["kind"], table["layer"])}, key=lambda site: (site.layer, site.kind))
    values = np.full((len(sites), 1 + int(table["head"].max())), np.nan)
    for *site, head, value in table.itertuples(index=False):
        values[sites.index(Site(*site)), head] = value
    wide, high = ROOMY if values.shape[1] <= MOST_NUMBERED else NARROW
    every = [(site, head) for site in sites for head in range(values.shape[1])]
    selected = next(((sites.index(site), head) for site, head in every if (site, head) == style.focused), None)
    labels = [f"{site.kind} {site.layer}" for site in sites], [*map(str, range(values.shape[1]))]
    return number_grid(
        values,
        labels,
        Ramp(measure, limit_of(values) or 1.0, style.colors.diverging, signed=True),
        Size("rectangles", wide, *values.shape, high=high),
        style=replace(style, selected=selected),
        titles=("Layer", "Head"),
        selects=HEAD,
        more=pd.DataFrame([of_head(style, *place) for place in every]).to_dict("list"),
        labels=labels,
        called=labels,
        **above,
    )


@dataclass(frozen=True, eq=False)
class WordFigure(Figure):
    """A figure of the logit of a word after a position, of a run with `stream=True`.

    Attributes:
        token, position, minus, sentence: see `attnviz.analysis.contributions`.
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

    def facts(self) -> FigureFacts:
        logit, (called, on_page, beginning) = self.contributions, self._titles
        token = token_at(self.record, logit.position, sentence=self.sentence)
        where = f"after {quoted_token(token, logit.position)} · {in_title(self.record.source)}"
        words = " ".join(filter(None, (logit.token, logit.minus and f"minus {logit.minus}")))
        return FigureFacts(
            heading=on_page if self.on_screen else f"{beginning} {logit.called} {where}",  # a page says the rest
            subject=(f"{called} {logit.position} {words}",),
            table=self._table,
            words=logit.in_words,
            record=self.record,
        )

    def _table(self) -> pd.DataFrame:
        return self.contributions.table

    def _above(self, *lines: str) -> dict:
        notes = [] if self.on_screen else subtitles(self.record, self, self.sentence)
        return {"title": self._heading, "lines": [*lines, *notes], "style": self.style}


@dataclass(frozen=True, eq=False)
class HeadContributions(WordFigure):
    """A cell for what each head adds directly to the logit of a word, layers x heads.

    A click selects a head under "head" with the fields kind, layer, head and rev.
    """

    _titles = "contributions", "What each head adds", "Added by each head to"

    def draw(self) -> Grid:
        return of_heads(self.contributions.heads[[*HEAD[1:4], "contribution"]], ADDS, **self._above())


@dataclass(frozen=True, eq=False)
class PartContributions(WordFigure):
    """A bar for what each part adds to the logit of a word, from where the one before ends; the last is the sum."""

    _titles = "parts", "All parts", "Parts of"

    def draw(self) -> Bars:
        logit, parts = self.contributions, self.contributions.summary
        amounts = parts["contribution"].to_numpy()
        total = amounts.sum()
        ends = [*np.cumsum(amounts), total]
        whole = f"{'logit' if logit.minus is None else 'difference of both logits'} {digits(logit.logit)}"
        return Bars(
            **self._above(f"sum {digits(total)}; {whole}; residual {remainder(logit.residual, logit.logit)}"),
            names=[*parts["part"], "sum"],
            columns=[Column([*map(digits, [*amounts, total])], ends, begins=[0.0, *ends[:-2], 0.0])],
            length=140,
            chosen=[len(amounts)],
        )


@dataclass(frozen=True, eq=False)
class HeadsReplaced(WordFigure):
    """A dot for each head: what it adds directly to the logit of a word, and how much the logit falls when it is off.

    A click selects a head under "head" with the fields kind, layer, head and rev.

    Attributes:
        falls: of `attnviz.studies.ablation.logit_falls` for the same word and position.
    """

    _: KW_ONLY
    falls: pd.DataFrame

    _titles = "replaced", "Each head switched off", "Heads switched off, for"

    def facts(self) -> FigureFacts:
        return replace(super().facts(), words=partial(self.contributions.in_words, self.falls))

    def _table(self) -> pd.DataFrame:
        """A row for each head, the one that adds most first: kind, layer, head, contribution and fall."""
        table = self.contributions.with_falls(self.falls).query("part == 'head'").drop(columns="part")
        return table.sort_values("contribution", ascending=False, kind="stable", ignore_index=True)

    def draw(self) -> Views:
        """Dots beside a diagonal, from the tables meta (low and high of both axes) and dots."""
        both, rows, named = self.table[["contribution", "fall"]].to_numpy(), [], []
        low, high = float(both.min(initial=0.0)), float(both.max(initial=0.0))
        span = (high - low) or 1.0
        for i in np.abs(both).max(1, initial=0.0).argsort()[::-1][:MOST_NAMED].tolist():
            near = (np.abs(both[named] - both[i]) < np.array(APART) * span).all(1)
            named += [] if near.any() else [i]
        for i, head in enumerate(self.table.itertuples()):
            site, (x, y) = Site(head.kind, head.layer), both[i].tolist()
            texts = {"label": site.brief(head.head) if i in named else "", "x_text": digits(x), "y_text": digits(y)}
            place = {"x": x, "y": y, "side": "left" if 2 * x < low + high else "right"}
            rows.append(of_head(self, site, head.head) | place | texts)
        above = self._above(ON_THE_LINE)
        ends = {"low": [low - 0.08 * span], "high": [high + 0.08 * span]}
        meta = heading(above["title"], above["lines"], SIDE + 60, self) | ends
        return Views(self._dots(), {"meta": meta, "dots": pd.DataFrame(rows).to_dict("list")})

    def _dots(self) -> Form:
        colors, titles = self.colors, (ADDS.capitalize(), FALLS.capitalize())
        ends = [{"expr": f"(data('meta')[0] || {{}}).{end}"} for end in ("low", "high")]
        scale = {"type": "quantitative", "scale": {"domain": ends, "nice": False, "zero": False}}
        axes = [{"axis": {"title": title, "tickCount": 5, "format": ".3~g"}} for title in titles]
        place = {"x": scale | axes[0] | {"field": "x"}, "y": scale | axes[1] | {"field": "y"}}
        diagonal = {axis: scale | {"field": "low"} for axis in "xy"} | {f"{axis}2": {"field": "high"} for axis in "xy"}
        ring = when("datum.focused", pixels_at(colors.accent), pixels_at(colors.background))
        dot = {"filled": True, "size": 90, "opacity": 1, "strokeWidth": 2, "cursor": "pointer"}
        looks = {"fill": pixels_at(colors.dot), "stroke": ring}
        looks["tooltip"] = tips(("name", "head"), ("x_text", titles[0]), ("y_text", titles[1]))
        layers = [
            *(layer("meta", "rule", {axis: scale | {"datum": 0}}, color=colors.line) for axis in "xy"),
            layer("meta", "rule", diagonal, color=colors.quiet, strokeDash=[4, 3]),
            layer("dots", "point", place | looks, **dot) | {"name": "dots"},
        ]
        for side, dx in (("left", 10), ("right", -10)):
            text = place | {"text": field("label")}
            layers.append(layer("dots", "text", text, where=f"datum.side === '{side}'", font=MONO, align=side, dx=dx))
        chart = {"layer": layers, "width": SIDE, "height": SIDE, "params": [click(HEAD[0], ["dots"], *HEAD[1:])]}
        return whole(chart | {"title": title_spec()}, colors)


@dataclass(frozen=True, eq=False)
class CarriedHeads(Figure):
    """A cell for the part of the way from text A to text B that each head carries, layers x heads: 0 is A, 1 is B.

    A click selects a head under "head" with the fields kind, layer, head and rev.

    Attributes:
        record: the run of A.
        carried: what `attnviz.studies.patching.carried` measured.
        focused: the head that is framed, as (site, head).
    """

    record: Record
    carried: Carried

    def facts(self) -> FigureFacts:
        return FigureFacts(
            what=f"Carried by each head's {self.carried.part}",
            subject=(f"{self.carried.part} from", self.carried.texts[1]),
            table=self._table,
            words=self.carried.in_words,
            record=self.record,
        )

    def _table(self) -> pd.DataFrame:
        return self.carried.table

    def draw(self) -> Grid:
        measured, above = self.carried, self._above()
        if self.on_screen:  # a page says the rest beside the picture
            above["lines"] = []
        else:
            texts = [visible_text(text, LONGEST_TEXT).replace("␣", " ") for text in measured.texts]
            words = " − ".join(map(in_quotes, measured.words))
            named = [f"{name}: “{text}”" for name, text in zip("AB", texts, strict=True)]
            above["lines"] = [*named, f"logit of {words} after position {measured.position}", *above["lines"]]
        return of_heads(self.table[[*HEAD[1:4], "carried"]], WAY, **above)


@dataclass(frozen=True, eq=False)
class CompositionMap(Figure):
    """Composition scores: a row for each earlier head, a column for each later one.

    Attributes:
        kind: "q", "k" or "v".
        model: its name.

    Raises:
        InputError: if there is no such kind, or no two heads of which one is in an earlier layer.
    """

    circuits: Circuits
    kind: str = "k"
    _: KW_ONLY
    model: str = ""

    def __post_init__(self):
        self.circuits.matrix(self.kind)
        if not len(self.circuits.composition):
            raise InputError("All heads are of one layer, so none reads what another writes.")

    def facts(self) -> FigureFacts:
        named = f" · {in_title(self.model)}" if self.model else ""
        name, title = file_stem(self.model, f"{self.kind}-composition"), f"{self.kind.upper()}-composition{named}"
        return FigureFacts(title=title, name=name, table=self._table, words=self._words, arrays=self._arrays)

    def _table(self) -> pd.DataFrame:
        return self.circuits.composition

    def _words(self) -> str:
        pairs = [
            f"{row.layer}.{row.head} to {row.later_layer}.{row.later_head}, {digits(getattr(row, self.kind))}"
            for row in self.table.dropna(subset=self.kind).nlargest(3, self.kind).itertuples()
        ]
        return f"Largest {self.kind.upper()}-composition of {counted(len(self.table), 'pair')}: {'; '.join(pairs)}."

    def _arrays(self) -> dict[str, np.ndarray]:
        heads = text_array([site.brief(head) for site, head in self._heads])
        return {"composition": self.circuits.matrix(self.kind), "heads": heads}

    @property
    def _heads(self) -> list[tuple[Site, int]]:
        rows = self.circuits.heads[[*HEAD[1:4]]].itertuples(index=False, name=None)
        return [(Site(kind, layer), head) for kind, layer, head in rows]

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
            [[site.short(head) for site, head in part] for part in (rows, columns)],
            Ramp("composition score", limit_of(values), self.colors.ramp),
            Size(form, side, *values.shape, every=every),
            title=self.title,
            lines=[f"Rows: earlier heads that write. Columns: later heads whose {READS[self.kind]} read it."],
            style=self.style,
            titles=("earlier head", "later head"),
            called=tuple([site.brief(head) for site, head in part] for part in (rows, columns)),
        )
