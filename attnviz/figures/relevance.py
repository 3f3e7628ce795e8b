"""Gradients of a word's logit: the map of a head, its relevance by token, and integrated gradients by token."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import tables
from attnviz.analysis.blocks import largest_in_size
from attnviz.analysis.relevance import IntegratedGradients, Relevance, WordLogit
from attnviz.analysis.sentences import in_quotes, quoted_token
from attnviz.analysis.views import groups
from attnviz.charts.bars import Bars, Column
from attnviz.charts.grid import Grid, size_within
from attnviz.charts.legends import Ramp
from attnviz.charts.state import CellState
from attnviz.core.amounts import digits
from attnviz.core.display import visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import BarFigure, Figure, GridFigure
from attnviz.figures.figure import text_array, titled
from attnviz.figures.rollout import MAP, MOST_BARS

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
    """A figure of the gradients of a word's logit, its second field."""

    @property
    def word(self) -> WordLogit:
        """The word's logit."""
        return self.arguments[0][1]

    @property
    def sentence(self) -> int:
        return self.word.sentence

    @cached_property
    def title(self) -> str:
        return titled(f"{self._heading} · {of_word(self.word)}", self.record)

    def _above(self, *lines: str) -> dict:
        return super()._above(of_word(self.word), *lines)


class TokenBars(LogitFigure, BarFigure):
    """Bars of numbers of the tokens that a model reads, of many the largest."""

    def _token_bars(self, values: np.ndarray, texts: list[str], *lines: str, own: int = -1, **options) -> Bars:
        """The bars with their texts; the name of the token `own` stands out."""
        both, is_signed = len(self.word.texts) > 1, own < 0
        names = [
            f"{visible_text(token.text)} ({i}{', decoder' if both and kind == 'decoder' else ''})"
            for kind, tokens in self.word.texts.items()
            for i, token in enumerate(tokens)
        ]
        drawn = np.sort(np.argsort(-np.abs(values), kind="stable")[:MOST_BARS]).tolist()
        left_out = [f"the {MOST_BARS} largest of {len(values)}"] if len(values) > MOST_BARS else []
        begins = [0.0] * len(drawn) if is_signed else ()
        column = Column([texts[i] for i in drawn], values[drawn].tolist(), begins=begins, name=self._measure)
        chosen = [row for row, i in enumerate(drawn) if i == own]
        above, drawn_names = self._above(*lines, *left_out), [names[i] for i in drawn]
        return Bars(**above, names=drawn_names, columns=[column], chosen=chosen, **options)


@dataclass(frozen=True, eq=False)
class RelevanceMap(LogitFigure, GridFigure):
    """Gradient times weight of a head, or the mean of all: how much each weight raises the logit of a word.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Attributes:
        signed: whether negative ones are drawn, too.
    """

    record: Record
    relevance: Relevance
    site: Site
    head: int | str = "mean"
    signed: bool = False

    is_map = True

    @cached_property
    def products(self) -> np.ndarray:
        """(Q, K)."""
        return self.relevance.head(self.site, self.head, signed=self.signed).double().numpy()

    @property
    def _subject(self) -> tuple:
        return self.site, self.head, "signed relevance" if self.signed else "relevance", self.relevance.token

    @property
    def _what(self) -> str:
        head = "mean of all heads" if self.head == "mean" else f"head {self.head}"
        return f"Gradient times weight · {self.site}, {head}"

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.numbers_table(
            self.products, "gradient_times_weight", *([token.text for token in side] for side in self._tokens)
        )

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        queries, keys = (text_array([token.text for token in side]) for side in self._tokens)
        return {"gradient_times_weight": self.products, "queries": queries, "keys": keys}

    @cached_property
    def grid(self) -> Grid:
        rows, columns = map(groups, self._tokens)
        size = size_within(rows, columns, self, side=MAP)
        products, step = largest_in_size(self.products, size.tile), self.record.step(self.site)
        window = tuple(slice(length) for length in self.products.shape)
        allowed = analysis.may_attend(step, self.head, *window, sentence=self.sentence).double().numpy()
        top = float(np.nanmax(np.abs(products), initial=0.0)) or 1.0
        colors = self.colors.diverging if self.signed else self.colors.ramp
        return Grid(
            **self._above("" if self.products.any() else NOTHING),
            rows=rows,
            columns=columns,
            size=size,
            states=np.where(largest_in_size(allowed, size.tile) == 0, 1, 0),
            kinds=[CellState("raises the logit", "ramp", legend=""), CellState("blocked", "blocked", "hatch")],
            shade=(products / top + 1) / 2 if self.signed else products / top,
            ramp=Ramp(SIGNED if self.signed else CUT, top, colors, signed=self.signed),
            numbers={"share": (products, ".5f")},
        )

    @property
    def _tokens(self) -> tuple[tuple, tuple]:
        queries, keys = self.record.tokens(self.site, sentence=self.sentence)
        rows, columns = self.products.shape
        has_sink = self.record.step(self.site).has_sink
        return queries[:rows], (*keys[: columns - has_sink], *(keys[-1:] if has_sink else ()))


@dataclass(frozen=True, eq=False)
class RelevanceBars(TokenBars):
    """Relevance of each token for the logit of a word after a layer: a bar of what the layers added to its start."""

    record: Record
    relevance: Relevance
    layer: int

    _measure = "relevance"

    @property
    def _subject(self) -> tuple[str]:
        return (f"relevance {self.relevance.token} after {self.layer}",)

    @property
    def _what(self) -> str:
        return f"Attention relevance · after layer {self.layer}"

    @cached_property
    def table(self) -> pd.DataFrame:
        table = self.relevance.table
        return table[table["layer"] == self.layer].reset_index(drop=True)

    @cached_property
    def bars(self) -> Bars:
        each = self.relevance.layers[self.layer]
        values = np.concatenate([each[kind].numpy() for kind in self.relevance.texts])
        own = sum(map(len, [*self.relevance.texts.values()][:-1])) + self.relevance.position
        values[own] -= 1
        texts = [*map(digits, values)]
        texts[own] = f"1 + {texts[own]}"
        return self._token_bars(values, texts, "its own token begins with 1 (the residual)", own=own, length=LENGTH)


@dataclass(frozen=True, eq=False)
class AttributionBars(TokenBars):
    """Integrated gradients: bars of how much the embedding of each token raises, or lowers, the logit of a word."""

    record: Record
    integrated: IntegratedGradients

    _measure = ""

    @property
    def _subject(self) -> tuple[str]:
        return (f"integrated gradients {self.integrated.token}",)

    @property
    def _what(self) -> str:
        return f"Integrated gradients · {self.integrated.steps} steps"

    @cached_property
    def description(self) -> str:
        return f"{super().description} {gap_in_words(self.integrated)}"

    @cached_property
    def table(self) -> pd.DataFrame:
        return self.integrated.table

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return super().arrays | {
            name: np.array(getattr(self.integrated, name)) for name in ("logit", "baseline", "gap")
        }

    @cached_property
    def bars(self) -> Bars:
        word = self.integrated
        values = np.concatenate([word.attributions[kind].numpy() for kind in word.texts])
        lines = [] if self.on_screen else [gap_in_words(word)]
        return self._token_bars(values, [*map(digits, values)], *lines, length=LENGTH if self.on_screen else WIDE)


def gap_in_words(word: IntegratedGradients) -> str:
    """Completeness gap as a sentence with its numbers."""
    rise, total = word.logit - word.baseline, word.logit - word.baseline + word.gap
    way = f"from {digits(word.baseline)} with zero vectors to {digits(word.logit)}"
    gap = f"The logit changes by {digits(rise)}, {way}; all tokens sum to {digits(total)}: a gap of {digits(word.gap)}."
    return gap if abs(word.gap) <= SMALL_GAP * abs(rise) else f"{gap} {LARGE_GAP}"
