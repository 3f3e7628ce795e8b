"""Tokens that contents and words come from: attention rollout, gradient times weight, relevance of tokens."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import sentences, tables
from attnviz.analysis.blocks import largest_in_size
from attnviz.analysis.relevance import IntegratedGradients, Relevance, WordLogit
from attnviz.analysis.rollout import Mixed
from attnviz.analysis.sentences import in_quotes, quoted_token
from attnviz.analysis.views import groups
from attnviz.charts.bars import Bars, Column
from attnviz.charts.grid import Grid, size_within
from attnviz.charts.legends import Ramp
from attnviz.charts.signs import CellState
from attnviz.core.amounts import digits
from attnviz.core.display import file_stem, in_title, visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import Figure, FigureFacts, edited, largest, number_arrays, subtitles, text_array

MAP = 440
"""Pixels of the side of the map, which has one row of bars beside it."""

MOST_BARS = 40
"""Tokens drawn at most, those with the largest shares; the table holds all."""

WHAT = "½ the attention of a layer (mean of its heads) and ½ the residual, multiplied through the layers"
"""Definition of rollout on the picture."""

SHORT, ROW = 150, 480
"""Pixels of the longest bar, and of all of a row on a wide screen."""


@dataclass(frozen=True, eq=False)
class Traced:
    """Rollout through the first layers of a stack.

    Attributes:
        record: of the run.
        mixed: what each of these layers mixes; none after them.
        layer: the number of the last of them.
        shares: (n, n) float64, of what stands at row i after them, how much came from token j; of a long text the rows
            that were followed, by their positions.
    """

    record: Record
    mixed: Mixed
    layer: int
    shares: np.ndarray | Mapping[int, np.ndarray]

    @property
    def texts(self) -> list[str]:
        return [token.text for token in self.mixed.tokens]

    def called(self, position: int) -> str:
        return f"{visible_text(self.texts[position])} ({position})"

    def subtitles(self) -> list[str]:
        """Notes on what is not followed, and on rows that had nothing to mix."""
        rows, note = self.mixed.left_out, self.mixed.note
        notes = [note.rstrip(".")] if note else []
        return [*notes, *([f"{rows} rows had no weights, and keep what they hold"] if rows else [])]

    def facts(self, what: str, subject: str, **functions: Callable) -> FigureFacts:
        """FigureFacts of a figure of rollout."""
        record, where = self.record, f"{self.mixed.kind} after layer {self.layer}"
        end = edited(record.edits)
        name = file_stem(record.source, where, subject, " ".join(self.texts), end=end)
        return FigureFacts(
            what=f"{what} · {self.mixed.kind}, after layer {self.layer}", name=name, record=record, **functions
        )


@dataclass(frozen=True, eq=False)
class Rollout(Figure):
    """How much of each token is in what stands at each position after a layer; `selected` is a row.

    A click selects a cell under the name "cell" with the fields query, key and rev.
    """

    traced: Traced

    def facts(self) -> FigureFacts:
        shares, texts = self.traced.shares, self.traced.texts
        facts = self.traced.facts(
            "Attention rollout",
            "rollout",
            table=partial(tables.numbers_table, shares, "share", texts, texts),
            words=partial(sentences.reaches, shares, texts),
            arrays=self._arrays,
        )
        lines = [f"rollout: {WHAT}", *self.traced.subtitles(), *subtitles(facts.record, self)]
        heading = f"{facts.what} · {in_title(facts.record.source)}"
        return replace(facts, title=" · ".join(filter(None, (heading, *lines))))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"rollout": self.traced.shares, "tokens": text_array(self.traced.texts)}

    def draw(self) -> Grid:
        traced, tokens = self.traced, groups(self.traced.mixed.tokens)
        size = size_within(tokens, tokens, self, side=MAP)
        shares = largest_in_size(traced.shares, size.tile)
        ramp = Ramp("share", float(np.nanmax(shares, initial=0.0)) or 1.0, self.colors.ramp)
        largest = f"colors end at {ramp.top:.3g}, the largest here" if ramp.top <= 0.999 else ""
        return Grid(
            **self._above("" if self.on_screen else f"rollout: {WHAT}", *traced.subtitles(), largest),
            rows=tokens,
            columns=tokens,
            size=size,
            titles=(f"Position after layer {traced.layer}", "Token"),
            states=np.where(shares == 0, 1, 0),
            kinds=[CellState("arrives", "ramp", legend=""), CellState("no path", "blocked", "hatch")],
            shade=ramp.shade(shares),
            ramp=ramp,
            numbers={"share": (shares, ".4f")},
            verb="comes from",
        )


@dataclass(frozen=True, eq=False)
class RolloutRow(Figure):
    """Bars of how much of each token reaches one position by rollout."""

    traced: Traced
    position: int

    def facts(self) -> FigureFacts:
        shares, texts = self.traced.shares[self.position], self.traced.texts
        return self.traced.facts(
            f"Mixed into {self.traced.called(self.position)}",
            f"reaches {self.position}",
            table=partial(tables.reached_table, {"rollout": shares}, texts),
            words=partial(sentences.reached, shares, texts, self.position),
            arrays=self._arrays,
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        return {"rollout": self.traced.shares[self.position], "tokens": text_array(self.traced.texts)}

    def draw(self) -> Bars:
        traced, shares = self.traced, self.traced.shares[self.position]
        indices = np.sort(np.argsort(-shares, kind="stable")[:MOST_BARS])
        lines = [f"the {MOST_BARS} tokens with the largest shares of {len(shares)}"] if len(shares) > MOST_BARS else []
        has_map = self.on_screen and not isinstance(traced.shares, Mapping)  # which says the rest beside the row
        above = self._above(*lines, *traced.subtitles())
        if self.on_screen:
            above["title"] = f"Mixed into {traced.called(self.position)}"
        return Bars(
            **above | ({"lines": lines} if has_map else {}),
            names=[traced.called(i) for i in indices.tolist()],
            columns=[Column(values=shares[indices].tolist(), name="share by rollout")],
            length=ROW if self.on_screen else SHORT,
        )


CUT, SIGNED = "max(gradient × weight, 0)", "gradient × weight"

NOTHING = "no weight of this head raises the logit, as far as its gradient tells"

SMALL_GAP = 0.05
"""Part of the change of a logit up to which a gap is small."""

LARGE_GAP = "So the tokens do not account for the whole change: take more steps."

LENGTH, WIDE = 180, 260
"""Pixels of the longest bar: on a page, which may be a phone's, and in a file, whose title has a sentence more."""


def of_word(word: WordLogit) -> str:
    """The logit that gradients are of: `logit of “mats” at “the” (5)`."""
    token = list(word.texts.values())[-1][word.position]
    return f"logit of {in_quotes(word.token)} at {quoted_token(token.text, word.position)}"


class LogitFigure(Figure):
    """A figure of the gradients of a word's logit, `word`."""

    @property
    def sentence(self) -> int:
        return self.word.sentence

    def _of_word(self, what: str, *subject: object, **functions: Callable) -> FigureFacts:
        """FigureFacts of a figure of the word's logit; its title has the logit before the origin of the weights."""
        heading = f"{what} · {in_title(self.record.source)}"
        title = " · ".join(filter(None, [heading, of_word(self.word), *subtitles(self.record)]))
        return FigureFacts(what=what, title=title, subject=subject, record=self.record, **functions)

    def _above(self, *lines: str) -> dict:
        return super()._above(of_word(self.word), *lines)

    def _token_bars(
        self, values: np.ndarray, texts: list[str], *lines: str, own: int = -1, measure: str = "", **options
    ) -> Bars:
        """The bars with their texts; the name of the token `own` stands out, and they stand beside a map."""
        both, is_signed = len(self.word.texts) > 1, own < 0
        names = [
            f"{visible_text(token.text)} ({i}{', decoder' if both and kind == 'decoder' else ''})"
            for kind, tokens in self.word.texts.items()
            for i, token in enumerate(tokens)
        ]
        drawn = np.sort(np.argsort(-np.abs(values), kind="stable")[:MOST_BARS]).tolist()
        left_out = [f"the {MOST_BARS} largest of {len(values)}"] if len(values) > MOST_BARS else []
        begins = [0.0] * len(drawn) if is_signed else ()
        column = Column([texts[i] for i in drawn], values[drawn].tolist(), begins=begins, name=measure)
        chosen = [row for row, i in enumerate(drawn) if i == own]
        above = (self._above if is_signed else self._beside)(*lines, *left_out)
        drawn_names = [names[i] for i in drawn]
        return Bars(**above, names=drawn_names, columns=[column], chosen=chosen, **options)


@dataclass(frozen=True, eq=False)
class RelevanceMap(LogitFigure):
    """Gradient times weight of a head, or the mean of all: how much each weight raises the logit of a word.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Attributes:
        word: gradients of the word's logit.
        signed: whether negative ones are drawn, too.
    """

    record: Record
    word: Relevance
    site: Site
    head: int | str = "mean"
    signed: bool = False

    is_map = True

    @cached_property
    def products(self) -> np.ndarray:
        """Gradient times weight of the head, (Q, K), float64."""
        return self.word.head(self.site, self.head, signed=self.signed).double().numpy()

    def facts(self) -> FigureFacts:
        head = "mean of all heads" if self.head == "mean" else f"head {self.head}"
        return self._of_word(
            f"Gradient times weight · {self.site}, {head}",
            *(self.site, self.head, "signed relevance" if self.signed else "relevance", self.word.token),
            table=self._table,
            arrays=self._arrays,
        )

    def _table(self) -> pd.DataFrame:
        return tables.numbers_table(
            self.products, "gradient_times_weight", *([token.text for token in side] for side in self._tokens)
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        queries, keys = (text_array([token.text for token in side]) for side in self._tokens)
        return {"gradient_times_weight": self.products, "queries": queries, "keys": keys}

    def draw(self) -> Grid:
        rows, columns = map(groups, self._tokens)
        size = size_within(rows, columns, self, side=MAP)
        products, step = largest_in_size(self.products, size.tile), self.record.step(self.site)
        window = tuple(slice(length) for length in self.products.shape)
        allowed = analysis.may_attend(step, self.head, *window, sentence=self.sentence).double().numpy()
        top = float(np.nanmax(np.abs(products), initial=0.0)) or 1.0
        colors = self.colors.diverging if self.signed else self.colors.ramp
        ramp = Ramp(SIGNED if self.signed else CUT, top, colors, signed=self.signed)
        return Grid(
            **self._above("" if self.products.any() else NOTHING),
            rows=rows,
            columns=columns,
            size=size,
            states=np.where(largest_in_size(allowed, size.tile) == 0, 1, 0),
            kinds=[CellState("raises the logit", "ramp", legend=""), CellState("blocked", "blocked", "hatch")],
            shade=ramp.shade(products),
            ramp=ramp,
            numbers={"share": (products, ".5f")},
        )

    @property
    def _tokens(self) -> tuple[tuple, tuple]:
        queries, keys = self.record.tokens(self.site, sentence=self.sentence)
        rows, columns = self.products.shape
        has_sink = self.record.step(self.site).has_sink
        return queries[:rows], (*keys[: columns - has_sink], *(keys[-1:] if has_sink else ()))


@dataclass(frozen=True, eq=False)
class RelevanceBars(LogitFigure):
    """Relevance of each token for the logit of a word after a layer: a bar of what the layers added to its start."""

    record: Record
    word: Relevance
    layer: int

    def facts(self) -> FigureFacts:
        subject = f"relevance {self.word.token} after {self.layer}"
        return self._of_word(f"Attention relevance · after layer {self.layer}", subject, table=self._table)

    def _table(self) -> pd.DataFrame:
        return self.word.table.query("layer == @self.layer").reset_index(drop=True)

    def draw(self) -> Bars:
        each, texts_of = self.word.layers[self.layer], self.word.texts
        values = np.concatenate([each[kind].numpy() for kind in texts_of])
        own = sum(map(len, [*texts_of.values()][:-1])) + self.word.position
        values[own] -= 1
        texts = [*map(digits, values)]
        texts[own] = f"1 + {texts[own]}"
        line = "its own token begins with 1 (the residual)"
        return self._token_bars(values, texts, line, own=own, measure="relevance", length=LENGTH)


@dataclass(frozen=True, eq=False)
class AttributionBars(LogitFigure):
    """Integrated gradients: bars of how much the embedding of each token raises, or lowers, the logit of a word."""

    record: Record
    word: IntegratedGradients

    def facts(self) -> FigureFacts:
        return self._of_word(
            f"Integrated gradients · {self.word.steps} steps",
            f"integrated gradients {self.word.token}",
            table=self._table,
            words=self._words,
            arrays=self._arrays,
        )

    def _table(self) -> pd.DataFrame:
        return self.word.table

    def _words(self) -> str:
        return f"{self.title}. {largest(self.table)} {gap_in_words(self.word)}"

    def _arrays(self) -> dict[str, np.ndarray]:
        ends = {name: np.array(getattr(self.word, name)) for name in ("logit", "baseline", "gap")}
        return number_arrays(self.table) | {"tokens": text_array(self.table["token"])} | ends

    def draw(self) -> Bars:
        values = np.concatenate([self.word.attributions[kind].numpy() for kind in self.word.texts])
        lines = [] if self.on_screen else [gap_in_words(self.word)]
        return self._token_bars(values, [*map(digits, values)], *lines, length=LENGTH if self.on_screen else WIDE)


def gap_in_words(word: IntegratedGradients) -> str:
    """Completeness gap as a sentence with its numbers."""
    rise, total = word.logit - word.baseline, word.logit - word.baseline + word.gap
    way = f"from {digits(word.baseline)} with zero vectors to {digits(word.logit)}"
    gap = f"The logit changes by {digits(rise)}, {way}; all tokens sum to {digits(total)}: a gap of {digits(word.gap)}."
    return gap if abs(word.gap) <= SMALL_GAP * abs(rise) else f"{gap} {LARGE_GAP}"
