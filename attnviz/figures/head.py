"""One head as a map (rows are queries, columns are keys, colors are weights), and its attention by distance."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import EMPTY, Cells, sentences, tables, views
from attnviz.analysis.batch import NEAR
from attnviz.analysis.views import AttentionView, see
from attnviz.charts import signs
from attnviz.charts.axes import RowEnd, names_with_predictions, predictions, sides, size_of, size_within
from attnviz.charts.bars import Bars, Column
from attnviz.charts.grid import Grid, Number, framed
from attnviz.charts.marks import LegendEntry
from attnviz.charts.signs import CellState
from attnviz.core.amounts import digits, percent, written
from attnviz.core.display import file_stem, in_title
from attnviz.core.edits import Site
from attnviz.core.masks import Reason
from attnviz.core.record import Record
from attnviz.figures.base import Figure, FigureFacts, SiteFigure, subtitles, text_array

ARROW = "M-0.3,-0.45L0.4,0L-0.3,0.45Z"
"""Sign of a changed prediction in a legend, as a path in a box from -1 to 1."""

PREDICTS = "predicts"
NEXT = "each row: where it looks to predict the next word"
NEXT_OF = "row {token}: where it looks to predict {word}"
IN_PLACE = "right: the word predicted in place of a blank"
LABELS = "right: the label predicted for each token"
CHANGED = "changed prediction"
"""Lines over a map whose rows predict."""


@dataclass(frozen=True, eq=False)
class HeadMap(SiteFigure):
    """Map of one head, or of all heads combined by one of `analysis.AGGREGATIONS`.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Attributes:
        before: run before a change, to mark rows whose prediction changed.
    """

    head: int | str
    _: KW_ONLY
    before: Record | None = None

    is_map = True

    def facts(self) -> FigureFacts:
        view, head = self.attention_view, self.head
        name = called(view, head, on_screen=self.on_screen)
        return FigureFacts(
            heading=f"{name[:1].upper()}{name[1:]}",
            notes=[view.window],
            subject=(self.site, heads_in_name(head)),
            table=partial(tables.weights_table, view, head),
            words=partial(sentences.head, view, head),
            arrays=partial(arrays_of, view, head),
        )

    def draw(self) -> Grid:
        view, words = self.attention_view, self.attention_view.predicted or ()
        empty, policy = np.flatnonzero(view.empty(self.head)).tolist(), signs.POLICIES[view.step.scoring.empty_rows]
        moved = _changed_rows(view, self.before)
        ends = [*([self._row_sums()] if self.row_sums else []), *predictions(words, self, PREDICTS, moved)]
        size = size_within(view.queries, view.keys, self, ends)
        cells = view.cells([self.head], size.tile)[0]
        scale = signs.domain_of(self.domain, view, cells)
        kinds, states = states_of(cells, view)
        legend = [kinds[i] for i in np.unique(states).tolist() if not (kinds[i].rules and self.explained)]
        scores = [] if cells.scores is None else [Number("score", cells.scores, ".3f")]
        offsets = None  # position of the largest weight in its tile, counted row by row
        if tiles := cells.tiles:
            offsets = (tiles.at_query - tiles.queries[:, None]) * tiles.tile + tiles.at_key - tiles.keys
        colors, above = self.colors, self._header()
        notes = [LegendEntry(CHANGED, ARROW, colors.hues[1], colors.background)] if moved else []
        return Grid(
            **above | {"lines": [*above["lines"], self._reading_note, view.window, scale.ending, *view.notes]},
            **sides(view.queries, view.keys, names=names_with_predictions(view.queries, words, size.tile)),
            size=size,
            states=states,
            kinds=kinds,
            shade=np.nan_to_num(scale.shade(cells.weights)),
            ramp=scale.legend(colors, gray=self.head in view.step.heads_off),
            numbers=[Number("weight", cells.weights, ".4f"), *scores],
            offsets=offsets,
            ends=ends,
            framed=empty,
            signs=legend if self.on_screen else None,
            notes=[*notes, *([framed(policy, self)] if empty else [])],
        )

    def _row_sums(self) -> RowEnd:
        """Sum of each row, marked if it is not 1; rows that are shown in part may sum to less."""
        view, texts, inks = self.attention_view, [], []
        for value in view.row_sums(self.head).tolist():
            is_odd = not (value < 1 + 5e-4 if view.partial else abs(value - 1) < 5e-4)
            texts.append(f"{written(value, '.3f')}{' not 1' if is_odd else ''}")
            inks.append(self.colors.warning if is_odd else self.colors.text)
        return RowEnd("beside", "sum of what is seen" if view.partial else "row sum", texts, inks)

    @property
    def _reading_note(self) -> str:
        """Line on how to read a row with a prediction, whose label is not the predicted word."""
        view = self.attention_view
        if not any(view.predicted or ()):
            return ""
        row = view.queries.index_of(self.selected[0]) if self.selected else None
        if row is not None and view.predicted[row] and not analysis.fills_in(view.record):
            token, word = sentences.in_quotes(view.queries.labels[row]), sentences.in_quotes(view.predicted[row])
            return NEXT_OF.format(token=token, word=word)
        if analysis.labels_tokens(view.record):
            return LABELS
        return IN_PLACE if analysis.fills_in(view.record) else NEXT


def heads_in_name(head: int | str) -> str:
    """Name a head, or a combination of heads, for a file name."""
    return f"head-{head}" if isinstance(head, int) else f"heads-{head}"


def called(view: AttentionView, head: int | str, *, on_screen: bool = False) -> str:
    """Name a map for a title: "head 2 of cross layer 1 (off) · translator"; on a page without the model's owner."""
    step, source = view.step, view.record.source
    source = source.rpartition("/")[2] or source if on_screen else source
    if isinstance(head, int):
        what, off = view.site.head(head), " (off)" if head in step.heads_off else ""
    else:
        what = f"{head} of {step.num_heads} heads of {view.site}"
        off = ", also those off" if step.heads_off else ""
    return f"{what}{off} · {in_title(source)}"


def _changed_rows(attention_view: AttentionView, before: Record | None) -> frozenset[int]:
    """Return the rows whose predicted word changed; no rows if the runs read different tokens."""
    if before is None or attention_view.predicted is None:
        return frozenset()
    if before.read[attention_view.sentence].tokens != attention_view.record.read[attention_view.sentence].tokens:
        return frozenset()
    window = {name: getattr(attention_view, name) for name in ("sentence", "view", "rows", "columns")}
    pairs = zip(views.see(before, attention_view.site, **window).predicted or (), attention_view.predicted, strict=True)
    return frozenset(i for i, (then, now) in enumerate(pairs) if then != now)


_OPEN, _EMPTY, _FILLED, _NAN, _EMPTY_NAN, _MINUS_INFINITY, _PADDING = range(7)
PADDING = "row of padding: no text stands there"


def states_of(cells: Cells, view: AttentionView) -> tuple[tuple[CellState, ...], np.ndarray]:
    """Return the possible states, and the index of each cell's state: a case combined with a blocking rule or none."""
    policy, rules = signs.POLICIES[view.step.scoring.empty_rows], signs.your_rules(view.record, view.site)
    nan, empty = np.isnan(cells.weights), cells.states == EMPTY
    case = np.where(nan, np.uint8(_NAN), np.uint8(_OPEN))
    if empty.any():
        case[empty] = np.where(nan, _EMPTY_NAN, np.where(signs.colored(cells), _FILLED, _EMPTY))[empty]
    if cells.scores is not None and (infinite := cells.scores == -np.inf).any():
        case[infinite & (case == _OPEN) & (cells.blocked == 0)] = _MINUS_INFINITY
    if (padding := view.padding[:: cells.tile]).any():
        case[padding[:, None] & (case == _OPEN)] = _PADDING
    return _kinds(cells.reasons, rules, policy), case * np.int32(len(cells.reasons) + 1) + cells.blocked


@lru_cache(maxsize=64)
def _kinds(reasons: tuple[Reason, ...], yours: frozenset[str], policy: str) -> tuple[CellState, ...]:
    """Build the states of each case, without a rule and with each rule."""
    rules = [None, *signs.blocked_by(reasons, yours)]
    return tuple(_state(case, rule, policy) for case in range(7) for rule in rules)


def _state(case: int, rule: CellState | None, policy: str) -> CellState:
    """Build the state of a case; `rule` is the state of a blocking rule, or None."""
    if case == _PADDING:
        return CellState(PADDING, "blocked", legend=PADDING)
    case_text = ("", policy, policy, signs.NOT_A_NUMBER, policy, signs.MINUS_INFINITY)[case]
    text = ", ".join(filter(None, (case_text, rule.text if rule else ""))) or signs.MAY_ATTEND
    if case in (_NAN, _EMPTY_NAN):
        return CellState(text, "blocked", "cross", legend=signs.NOT_A_NUMBER)
    if case == _MINUS_INFINITY:
        return CellState(text, "ramp", "dash", legend=signs.MINUS_INFINITY)
    ground = "ramp" if case == _FILLED or (case == _OPEN and not rule) else "blocked"
    return CellState(text, ground, "hatch", rule.rules) if rule else CellState(text, ground, legend="")


def arrays_of(view: AttentionView, head: int | str) -> dict[str, np.ndarray]:
    """Arrays to export: every cell, or, above `MOST_CELLS`, tiles with largest weight, its position and the sum."""
    queries, keys = len(view.queries), len(view.keys)
    tile = 1 if queries * keys <= tables.MOST_CELLS else size_of(queries, keys).tile
    cells = view.cells([head], tile)[0]
    arrays = {
        "weights": cells.weights,
        "may_attend": cells.blocked == 0,
        "queries": cells.queries,
        "keys": cells.keys,
        "query_tokens": text_array(view.queries.labels[::tile]),
        "key_tokens": text_array(view.keys.labels[::tile]),
    }
    if view.predicted is not None:
        arrays["predicted_tokens"] = text_array(view.predicted[::tile])
    if tile > 1:
        arrays["cells_per_side_of_tile"] = np.array(tile)
    if (tiles := cells.tiles) is not None:
        arrays.update(sums=tiles.sums, largest_at_query=tiles.at_query, largest_at_key=tiles.at_key)
    return arrays if cells.scores is None else arrays | {"scores": cells.scores}


TITLE = "Attention by distance"
ROW_BY_ROW = "patches are counted row by row, not measured across the picture"


class DistanceBars(Figure):
    """Base class of charts of attention by distance: a bar for the share of each bin, and the mean weight of a pair.

    The bins are the query itself, 1 before it, 2 to 3, 4 to 7, ..., and the same after it. See `analysis.by_distance`.
    Subclasses give lines on what was measured as `_measure_notes`.
    """

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
            lines=[*self._measure_notes(), *subtitles(self._record, self)],
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
        name, notes = file_stem(self.model, "atlas", self.head, "distance"), [in_title(self.model)]
        heading = f"{TITLE} · {self.head}"
        return FigureFacts(heading=heading, notes=notes, name=name, table=self.curve.copy, words=self._words)

    def _measure_notes(self) -> list[str]:
        return [f"all tokens of {self.texts:,} texts"]
