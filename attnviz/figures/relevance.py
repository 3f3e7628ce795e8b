"""Gradients of a word's logit: the map of a head, its relevance by token, and integrated gradients by token."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz import metrics, tables
from attnviz.charts.bars import Bars, Column
from attnviz.charts.grid import Grid, size_within
from attnviz.charts.legends import Ramp
from attnviz.charts.state import CellState
from attnviz.core.amounts import digits
from attnviz.core.display import in_title, visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import BarFigure, Figure, GridFigure
from attnviz.figures.figure import number_arrays, stem, subtitles, text_array, titled
from attnviz.figures.rollout import MAP, MOST_BARS
from attnviz.metrics.blocks import largest_in_size
from attnviz.metrics.relevance import IntegratedGradients, Relevance, WordLogit
from attnviz.views import groups
from attnviz.words import in_quotes, quoted_token

CUT, SIGNED = "max(gradient × weight, 0)", "gradient × weight"


def of_word(word: WordLogit) -> str:
    """The logit that gradients are of: `logit of “mats” at “the” (5)`."""
    token = list(word.texts.values())[-1][word.position]
    return f"logit of {in_quotes(word.token)} at {quoted_token(token.text, word.position)}"


@dataclass(frozen=True, eq=False)
class RelevanceMap(GridFigure):
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

    @cached_property
    def name(self) -> str:
        sentence = self.relevance.sentence
        what = "signed relevance" if self.signed else "relevance"
        return stem(self.record, self.site, self.head, what, self.relevance.token, sentence=sentence)

    @cached_property
    def title(self) -> str:
        return titled(f"{self._heading} · {of_word(self.relevance)}", self.record)

    @cached_property
    def description(self) -> str:
        i, j = (int(k) for k in np.unravel_index(np.abs(self.products).argmax(), self.products.shape))
        queries, keys = self._labels
        ends = f"{quoted_token(queries[i], i)} to {quoted_token(keys[j], j)}"
        largest = f"the largest, {digits(self.products[i, j])}, is that of the weight from {ends}"
        return f"{self._heading}: {of_word(self.relevance)}; {largest}."

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.product_table(self.products, *self._labels)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        queries, keys = self._labels
        return {"gradient_times_weight": self.products, "queries": text_array(queries), "keys": text_array(keys)}

    @cached_property
    def grid(self) -> Grid:
        rows, columns = map(groups, self._tokens)
        size = size_within(rows, columns, self, side=MAP)
        products, step = largest_in_size(self.products, size.tile), self.record.step(self.site)
        window, sentence = tuple(slice(length) for length in self.products.shape), self.relevance.sentence
        allowed = metrics.may_attend(step, self.head, *window, sentence=sentence).double().numpy()
        top = float(np.nanmax(np.abs(products), initial=0.0)) or 1.0
        colors = self.colors.diverging if self.signed else self.colors.ramp
        return Grid(
            title=self._heading,
            lines=[of_word(self.relevance), *self._empty, *subtitles(self.record, self)],
            rows=rows,
            columns=columns,
            size=size,
            states=np.where(largest_in_size(allowed, size.tile) == 0, 1, 0),
            kinds=[CellState("raises the logit", "ramp", legend=""), CellState("blocked", "blocked", "hatch")],
            style=self.style,
            shade=(products / top + 1) / 2 if self.signed else products / top,
            ramp=Ramp(SIGNED if self.signed else CUT, top, colors, signed=self.signed),
            numbers={"share": (products, ".5f")},
        )

    @property
    def _empty(self) -> list[str]:
        """Line of a map without a number; none of another map."""
        return [] if self.products.any() else ["no weight of this head raises the logit, as far as its gradient tells"]

    @property
    def _tokens(self) -> tuple[tuple, tuple]:
        queries, keys = self.record.tokens(self.site, sentence=self.relevance.sentence)
        rows, columns = self.products.shape
        has_sink = self.record.step(self.site).has_sink
        return queries[:rows], (*keys[: columns - has_sink], *(keys[-1:] if has_sink else ()))

    @property
    def _labels(self) -> tuple[list[str], list[str]]:
        queries, keys = self._tokens
        return [token.text for token in queries], [token.text for token in keys]

    @property
    def _heading(self) -> str:
        head = "mean of all heads" if self.head == "mean" else f"head {self.head}"
        return _heading("Gradient times weight", f"{self.site}, {head}", self)


@dataclass(frozen=True, eq=False)
class RelevanceBars(BarFigure):
    """Relevance of each token for the logit of a word after a layer: a bar of what the layers added to its start."""

    record: Record
    relevance: Relevance
    layer: int

    @cached_property
    def name(self) -> str:
        what = f"relevance {self.relevance.token} after {self.layer}"
        return stem(self.record, what, sentence=self.relevance.sentence)

    @cached_property
    def title(self) -> str:
        return titled(f"{self._heading} · {of_word(self.relevance)}", self.record)

    @cached_property
    def description(self) -> str:
        values, names = self._added, _names(self.relevance.texts)
        order = np.argsort(-values, kind="stable")[:3].tolist()
        named = ", ".join(f"{names[i]} {digits(values[i])}" for i in order)
        return f"{self._heading}: {of_word(self.relevance)}; most is added to {named}."

    @cached_property
    def table(self) -> pd.DataFrame:
        table = self.relevance.table
        return table[table["layer"] == self.layer].reset_index(drop=True)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return number_arrays(self.table) | {"tokens": text_array(self.table["token"])}

    @cached_property
    def bars(self) -> Bars:
        values, names = self._added, _names(self.relevance.texts)
        indices, left_out = _largest(values)
        written = [f"1 + {digits(values[i])}" if i == self._own else digits(values[i]) for i in indices]
        return Bars(
            title=self._heading,
            lines=[
                of_word(self.relevance),
                "its own token begins with 1 (the residual)",
                *left_out,
                *subtitles(self.record, self),
            ],
            names=[names[i] for i in indices],
            columns=[Column(texts=written, values=values[indices].tolist(), name="relevance")],
            style=self.style,
            length=LENGTH,
            chosen=[row for row, i in enumerate(indices) if i == self._own],
        )

    @property
    def _own(self) -> int:
        """Row of the token at whose position the word is predicted."""
        texts = list(self.relevance.texts.values())
        return sum(map(len, texts[:-1])) + self.relevance.position

    @cached_property
    def _added(self) -> np.ndarray:
        each = self.relevance.layers[self.layer]
        values = np.concatenate([each[kind].numpy() for kind in self.relevance.texts])
        values[self._own] -= 1
        return values

    @property
    def _heading(self) -> str:
        return _heading("Attention relevance", f"after layer {self.layer}", self)


@dataclass(frozen=True, eq=False)
class AttributionBars(BarFigure):
    """Integrated gradients: bars of how much the embedding of each token raises, or lowers, the logit of a word."""

    record: Record
    integrated: IntegratedGradients

    @cached_property
    def name(self) -> str:
        what = f"integrated gradients {self.integrated.token}"
        return stem(self.record, what, sentence=self.integrated.sentence)

    @cached_property
    def title(self) -> str:
        return titled(f"{self._heading} · {of_word(self.integrated)}", self.record)

    @cached_property
    def description(self) -> str:
        return f"{self._heading}: {of_word(self.integrated)}. {gap_in_words(self.integrated)}"

    @cached_property
    def table(self) -> pd.DataFrame:
        return self.integrated.table

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        word = self.integrated
        numbers = {"logit": word.logit, "baseline": word.baseline, "gap": word.gap}
        named = {name: np.array(value) for name, value in numbers.items()}
        return number_arrays(self.table) | named | {"tokens": text_array(self.table["token"])}

    @cached_property
    def bars(self) -> Bars:
        word, names = self.integrated, _names(self.integrated.texts)
        values = np.concatenate([word.attributions[kind].numpy() for kind in word.texts])
        indices, left_out = _largest(values)
        amounts = values[indices].tolist()
        return Bars(
            title=self._heading,
            lines=[
                of_word(word),
                *([] if self.on_screen else [gap_in_words(word)]),
                *left_out,
                *subtitles(self.record, self),
            ],
            names=[names[i] for i in indices],
            columns=[Column([*map(digits, values[indices])], amounts, begins=[0.0] * len(amounts))],
            style=self.style,
            length=LENGTH if self.on_screen else WIDE,
        )

    @property
    def _heading(self) -> str:
        return _heading("Integrated gradients", f"{self.integrated.steps} steps", self)


SMALL_GAP = 0.05
"""Part of the change of a logit up to which a gap is small."""

LARGE_GAP = "So the tokens do not account for the whole change: take more steps."

LENGTH, WIDE = 180, 260
"""Pixels of the longest bar: on a page, which may be a phone's, and in a file, whose title has a sentence more."""


def gap_in_words(word: IntegratedGradients) -> str:
    """Completeness gap as a sentence with its numbers."""
    rise, total = word.logit - word.baseline, word.logit - word.baseline + word.gap
    way = f"from {digits(word.baseline)} with zero vectors to {digits(word.logit)}"
    gap = f"The logit changes by {digits(rise)}, {way}; all tokens sum to {digits(total)}: a gap of {digits(word.gap)}."
    return gap if abs(word.gap) <= SMALL_GAP * abs(rise) else f"{gap} {LARGE_GAP}"


def _heading(what: str, where: str, figure: Figure) -> str:
    """Title of a figure; a screen names the model elsewhere."""
    return " · ".join([what, where, *([] if figure.on_screen else [in_title(figure.record.source)])])


def _names(texts: Mapping[str, tuple]) -> list[str]:
    """Tokens with their positions; those that the decoder of an encoder-decoder reads say so."""
    both = len(texts) > 1
    return [
        f"{visible_text(token.text)} ({i}{', decoder' if both and kind == 'decoder' else ''})"
        for kind, tokens in texts.items()
        for i, token in enumerate(tokens)
    ]


def _largest(values: np.ndarray) -> tuple[list[int], list[str]]:
    """Indices of the tokens with the largest numbers, in their order, and a note if some are left out."""
    indices = np.sort(np.argsort(-np.abs(values), kind="stable")[:MOST_BARS]).tolist()
    return indices, [f"the {MOST_BARS} largest of {len(values)}"] if len(values) > MOST_BARS else []
