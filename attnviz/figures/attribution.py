"""Attribution to tokens: attention rollout, gradient times weight, attention relevance, integrated gradients."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from attnviz import analysis
from attnviz.analysis import sentences, tables
from attnviz.analysis.blocks import largest_in_size
from attnviz.analysis.relevance import IntegratedGradients, Relevance, WordLogit
from attnviz.analysis.rollout import Mixed
from attnviz.analysis.sentences import in_quotes, quoted_token
from attnviz.analysis.views import groups
from attnviz.charts.axes import sides, size_within
from attnviz.charts.bars import Bars, Column
from attnviz.charts.grid import Grid, Number
from attnviz.charts.marks import Ramp
from attnviz.charts.signs import CellState
from attnviz.core.amounts import digits
from attnviz.core.display import file_stem, visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.core.tokens import Token
from attnviz.figures.base import Figure, FigureFacts, edited, largest, number_arrays, text_array

MAP, MOST_BARS = 440, 40
"""Pixels of the side of a map beside a row of bars, and most tokens that have bars; the table has all."""
ROW, WIDE_ROW, SHORT, LONG = 150, 480, 180, 260
"""Pixels of the longest bar: rollout in a file and on a page; gradients without and with a long line above."""

ROLLOUT = "rollout: ½ the attention of a layer (mean of its heads) and ½ the residual, multiplied through the layers"
CUT, SIGNED = "max(gradient × weight, 0)", "gradient × weight"
NOTHING = "no weight of this head raises the logit, as far as its gradient tells"
OWN_TOKEN = "its own token begins with 1 (the residual)"

SMALL_GAP = 0.05
"""Share of the change of a logit up to which the completeness gap is small."""
LARGE_GAP = "So the tokens do not account for the whole change: take more steps."


@dataclass(frozen=True, eq=False)
class Traced:
    """Attention rollout through the first layers of a stack.

    Attributes:
        record: run whose attention is rolled out.
        mixed: mixing matrices of the layers.
        layer: number of the last layer.
        shares: (n, n) float64, share of token j in position i after these layers; for a long text, the computed rows by
            their positions.
    """

    record: Record
    mixed: Mixed
    layer: int
    shares: np.ndarray | Mapping[int, np.ndarray]

    @property
    def texts(self) -> list[str]:
        return [token.text for token in self.mixed.tokens]

    def subtitles(self) -> list[str]:
        """Return notes on what the rollout leaves out, and on rows without weights."""
        rows, note = self.mixed.left_out, self.mixed.note.rstrip(".") if self.mixed.note else ""
        return [note, f"{rows} rows had no weights, and keep what they hold" if rows else ""]

    def facts(self, what: str, subject: str, shares: np.ndarray, **facts: Any) -> FigureFacts:
        """Return the facts of a figure of these shares."""
        where, end = f"{self.mixed.kind} after layer {self.layer}", edited(self.record.edits)
        name = file_stem(self.record.source, where, subject, " ".join(self.texts), end=end)
        arrays = {"rollout": shares, "tokens": text_array(self.texts)}
        what = f"{what} · {self.mixed.kind}, after layer {self.layer}"
        return FigureFacts(what=what, name=name, arrays=arrays, **facts)


def most_of(values: np.ndarray) -> tuple[list[int], list[str]]:
    """Return the indices of the MOST_BARS largest numbers, ascending, and a note if numbers are left out."""
    places = np.sort(np.argsort(-np.abs(values), kind="stable")[:MOST_BARS]).tolist()
    return places, [f"the {MOST_BARS} largest of {len(values)} tokens"] if len(values) > MOST_BARS else []


@dataclass(frozen=True, eq=False)
class TracedFigure(Figure):
    """Figure of attention rollout."""

    traced: Traced

    @property
    def record(self) -> Record:
        return self.traced.record


@dataclass(frozen=True, eq=False)
class Rollout(TracedFigure):
    """Map of attention rollout: the share of each token in each position after a layer; `selected` is a row.

    A click selects a cell under the name "cell" with the fields query, key and rev.
    """

    def facts(self) -> FigureFacts:
        traced, shares, texts = self.traced, self.traced.shares, self.traced.texts
        table = partial(tables.numbers_table, shares, "share", texts, texts)
        words = partial(sentences.reaches, shares, texts)
        notes = [ROLLOUT, *traced.subtitles()]
        return traced.facts("Attention rollout", "rollout", shares, notes=notes, table=table, words=words)

    def draw(self) -> Grid:
        traced, shares = self.traced, self.traced.shares
        ramp = Ramp("share", float(np.nanmax(shares, initial=0.0)) or 1.0, self.colors.ramp)
        ending = f"colors end at {ramp.top:.3g}, the largest here" if ramp.top <= 0.999 else ""
        tokens = groups(traced.mixed.tokens)
        size = size_within(tokens, tokens, self, side=MAP)
        shares = largest_in_size(shares, size.tile)
        return Grid(
            **self._header("" if self.on_screen else ROLLOUT, *traced.subtitles(), ending),
            **sides(tokens, tokens, (f"Position after layer {traced.layer}", "Token")),
            size=size,
            states=np.where(shares == 0, 1, 0),
            kinds=[CellState("arrives", "ramp", legend=""), CellState("no path", "blocked", "hatch")],
            shade=ramp.shade(shares),
            ramp=ramp,
            numbers=[Number("share", shares, ".4f")],
        )


@dataclass(frozen=True, eq=False)
class RolloutRow(TracedFigure):
    """Bars of the share of each token in one position by attention rollout."""

    position: int

    def facts(self) -> FigureFacts:
        shares, texts, position = self.traced.shares[self.position], self.traced.texts, self.position
        what = f"Mixed into {self._token_name(position)}"
        return self.traced.facts(
            what,
            f"reaches {position}",
            shares,
            heading=what if self.on_screen else "",
            table=partial(tables.reached_table, {"rollout": shares}, texts),
            words=partial(sentences.reached, shares, texts, position),
        )

    def _token_name(self, position: int) -> str:
        return f"{visible_text(self.traced.texts[position])} ({position})"

    def draw(self) -> Bars:
        shares, has_map = self.traced.shares[self.position], not isinstance(self.traced.shares, Mapping)
        places, lines = most_of(shares)
        above = self._header(*lines, *self.traced.subtitles())
        if self.on_screen and has_map:  # the map beside the row has the other lines
            above["lines"] = lines
        column = Column(values=shares[places].tolist(), name="share by rollout")
        names, length = [*map(self._token_name, places)], WIDE_ROW if self.on_screen else ROW
        return Bars(**above, names=names, columns=[column], length=length)


def of_word(word: WordLogit) -> str:
    """Name the logit whose gradients are shown: `logit of “mats” at “the” (5)`."""
    token = list(word.texts.values())[-1][word.position]
    return f"logit of {in_quotes(word.token)} at {quoted_token(token.text, word.position)}"


@dataclass(frozen=True, eq=False)
class LogitFigure(Figure):
    """Figure of the gradients of a word's logit.

    Attributes:
        record: run of the model.
        word: gradients of the word's logit, with the word and its position.
    """

    record: Record
    word: Relevance | IntegratedGradients

    @property
    def sentence(self) -> int:
        return self.word.sentence

    def _word_facts(self, what: str, *subject: object, **facts: Any) -> FigureFacts:
        """Return the facts, with the logit in the title."""
        return FigureFacts(what=what, notes=[of_word(self.word)], subject=subject, **facts)

    def _token_bars(
        self, values: np.ndarray, texts: Sequence[str], *lines: str, own: int | None = None, name: str = "", length: int
    ) -> Bars:
        """Draw a bar for each token of all texts, or for the MOST_BARS largest.

        Args:
            own: index of the token whose name stands out, for bars beside a map; None for bars of both signs.
            name: name of the numbers.
        """
        two = len(self.word.texts) > 1
        names = [
            f"{visible_text(token.text)} ({i}{', decoder' if two and kind == 'decoder' else ''})"
            for kind, tokens in self.word.texts.items()
            for i, token in enumerate(tokens)
        ]
        places, left_out = most_of(values)
        begins = [0.0] * len(places) if own is None else ()
        column = Column([texts[i] for i in places], values[places].tolist(), begins=begins, name=name)
        above = self._header(of_word(self.word), *lines, *left_out)
        if self.on_screen and own is not None:  # the map has the other lines
            above["lines"] = [*lines, *left_out]
        chosen = [row for row, i in enumerate(places) if i == own]
        return Bars(**above, names=[names[i] for i in places], columns=[column], chosen=chosen, length=length)


@dataclass(frozen=True, eq=False)
class RelevanceMap(LogitFigure):
    """Map of gradient times weight for a head, or the mean of all heads: how much each weight raises a word's logit.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Attributes:
        signed: whether negative products are drawn, too.
    """

    site: Site
    head: int | str = "mean"
    signed: bool = False

    is_map = True

    @cached_property
    def products(self) -> np.ndarray:
        """Gradient times weight for the head, (Q, K) float64."""
        return self.word.head(self.site, self.head, signed=self.signed).double().numpy()

    @property
    def _tokens(self) -> tuple[Sequence[Token], Sequence[Token]]:
        queries, keys = self.record.tokens(self.site, sentence=self.sentence)
        rows, columns = self.products.shape
        has_sink = self.record.step(self.site).has_sink
        return queries[:rows], (*keys[: columns - has_sink], *(keys[-1:] if has_sink else ()))

    def facts(self) -> FigureFacts:
        name, head = "gradient_times_weight", "mean of all heads" if self.head == "mean" else f"head {self.head}"
        queries, keys = ([token.text for token in side] for side in self._tokens)
        return self._word_facts(
            f"Gradient times weight · {self.site}, {head}",
            *(self.site, self.head, "signed relevance" if self.signed else "relevance", self.word.token),
            table=partial(tables.numbers_table, self.products, name, queries, keys),
            arrays={name: self.products, "queries": text_array(queries), "keys": text_array(keys)},
        )

    def draw(self) -> Grid:
        rows, columns = map(groups, self._tokens)
        size = size_within(rows, columns, self, side=MAP)
        products, step = largest_in_size(self.products, size.tile), self.record.step(self.site)
        window = tuple(slice(length) for length in self.products.shape)
        allowed = analysis.may_attend(step, self.head, *window, sentence=self.sentence).double().numpy()
        name, colors = (SIGNED, self.colors.diverging) if self.signed else (CUT, self.colors.ramp)
        ramp = Ramp(name, float(np.nanmax(np.abs(products), initial=0.0)) or 1.0, colors, signed=self.signed)
        return Grid(
            **self._header(of_word(self.word), "" if self.products.any() else NOTHING),
            **sides(rows, columns),
            size=size,
            states=np.where(largest_in_size(allowed, size.tile) == 0, 1, 0),
            kinds=[CellState("raises the logit", "ramp", legend=""), CellState("blocked", "blocked", "hatch")],
            shade=ramp.shade(products),
            ramp=ramp,
            numbers=[Number("share", products, ".5f")],
        )


@dataclass(frozen=True, eq=False)
class RelevanceBars(LogitFigure):
    """Bars of each token's attention relevance for a word's logit after a layer, less the 1 of its own position."""

    layer: int

    def facts(self) -> FigureFacts:
        table = self.word.table.query("layer == @self.layer").reset_index(drop=True)
        subject = f"relevance {self.word.token} after {self.layer}"
        return self._word_facts(f"Attention relevance · after layer {self.layer}", subject, table=table)

    def draw(self) -> Bars:
        texts_of, word = self.word.texts, self.word
        values = np.concatenate([word.layers[self.layer][kind].numpy() for kind in texts_of])
        own = sum(map(len, [*texts_of.values()][:-1])) + word.position
        values[own] -= 1
        texts = [*map(digits, values)]
        texts[own] = f"1 + {texts[own]}"
        return self._token_bars(values, texts, OWN_TOKEN, own=own, name="relevance", length=SHORT)


@dataclass(frozen=True, eq=False)
class AttributionBars(LogitFigure):
    """Bars of integrated gradients: how much the embedding of each token raises or lowers the logit of a word."""

    def facts(self) -> FigureFacts:
        word, table = self.word, self.word.table
        ends = {name: np.array(getattr(word, name)) for name in ("logit", "baseline", "gap")}
        tokens = {"tokens": text_array(table["token"])}
        what, subject = f"Integrated gradients · {word.steps} steps", f"integrated gradients {word.token}"
        facts = self._word_facts(what, subject, table=table, arrays=number_arrays(table) | tokens | ends)
        return replace(facts, words=self._words)

    def _words(self) -> str:
        return f"{self.title}. {largest(self.table)} {gap_in_words(self.word)}"

    def draw(self) -> Bars:
        values = np.concatenate([self.word.attributions[kind].numpy() for kind in self.word.texts])
        lines, length = ([], SHORT) if self.on_screen else ([gap_in_words(self.word)], LONG)
        return self._token_bars(values, [*map(digits, values)], *lines, length=length)


def gap_in_words(word: IntegratedGradients) -> str:
    """Describe the completeness gap with its numbers."""
    rise, total = word.logit - word.baseline, word.logit - word.baseline + word.gap
    way = f"from {digits(word.baseline)} with zero vectors to {digits(word.logit)}"
    gap = f"The logit changes by {digits(rise)}, {way}; all tokens sum to {digits(total)}: a gap of {digits(word.gap)}."
    return gap if abs(word.gap) <= SMALL_GAP * abs(rise) else f"{gap} {LARGE_GAP}"
