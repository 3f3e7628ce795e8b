"""One head as a map: rows are queries, columns are keys, colors are weights."""

from dataclasses import KW_ONLY, dataclass
from functools import lru_cache, partial

import numpy as np

from attnviz import analysis
from attnviz.analysis import EMPTY, Cells, sentences, tables, views
from attnviz.analysis.views import AttentionView
from attnviz.charts.axes import names
from attnviz.charts.domain import MAY_ATTEND, MINUS_INFINITY, NOT_A_NUMBER, POLICIES, colored, domain_of
from attnviz.charts.grid import ARROW, HUE, Grid, RowEnd, framed, predictions, size_within, with_predictions
from attnviz.charts.legends import LegendEntry
from attnviz.charts.signs import CellState, blocked_by, your_rules
from attnviz.charts.size import size_of
from attnviz.core.amounts import written
from attnviz.core.display import in_title
from attnviz.core.masks import Reason
from attnviz.core.record import Record
from attnviz.figures.base import FigureFacts, SiteFigure, subtitles, text_array

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
        heading = f"{name[:1].upper()}{name[1:]}"
        return FigureFacts(
            heading=heading,
            title=" · ".join(filter(None, [heading, view.window, *subtitles(self.record)])),
            subject=(self.site, heads_in_name(head)),
            table=partial(tables.weights_table, view, head),
            words=partial(sentences.head, view, head),
            arrays=partial(arrays_of, view, head),
            record=self.record,
        )

    def draw(self) -> Grid:
        view, words = self.attention_view, self.attention_view.predicted or ()
        empty, policy = np.flatnonzero(view.empty(self.head)).tolist(), POLICIES[view.step.scoring.empty_rows]
        moved = _changed_rows(view, self.before)
        ends = [*([self._row_sums()] if self.row_sums else []), *predictions(words, self, PREDICTS, moved)]
        size = size_within(view.queries, view.keys, self, ends)
        cells = view.cells([self.head], size.tile)[0]
        scale = domain_of(self.domain, view, cells)
        kinds, states = states_of(cells, view)
        signs = [kinds[i] for i in np.unique(states).tolist() if not (kinds[i].rules and self.explained)]
        scores = {} if cells.scores is None else {"score": (cells.scores, ".3f")}
        offsets = None  # position of the largest weight in its tile, counted row by row
        if tiles := cells.tiles:
            offsets = (tiles.at_query - tiles.queries[:, None]) * tiles.tile + tiles.at_key - tiles.keys
        colors, above = self.colors, self._header()
        notes = [LegendEntry(CHANGED, ARROW, colors.hues[HUE], colors.background)] if moved else []
        return Grid(
            **above | {"lines": [*above["lines"], self._reading_note, view.window, scale.ending, *view.notes]},
            rows=view.queries,
            columns=view.keys,
            size=size,
            states=states,
            kinds=kinds,
            shade=np.nan_to_num(scale.shade(cells.weights)),
            ramp=scale.legend(colors, gray=self.head in view.step.heads_off),
            numbers={"weight": (cells.weights, ".4f")} | scores,
            offsets=offsets,
            called=(with_predictions(view.queries, words, size.tile), names(view.keys, size.tile)),
            ends=ends,
            framed=empty,
            signs=signs if self.on_screen else None,
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
    policy, rules = POLICIES[view.step.scoring.empty_rows], your_rules(view.record, view.site)
    nan, empty = np.isnan(cells.weights), cells.states == EMPTY
    case = np.where(nan, np.uint8(_NAN), np.uint8(_OPEN))
    if empty.any():
        case[empty] = np.where(nan, _EMPTY_NAN, np.where(colored(cells), _FILLED, _EMPTY))[empty]
    if cells.scores is not None and (infinite := cells.scores == -np.inf).any():
        case[infinite & (case == _OPEN) & (cells.blocked == 0)] = _MINUS_INFINITY
    if (padding := view.padding[:: cells.tile]).any():
        case[padding[:, None] & (case == _OPEN)] = _PADDING
    return _kinds(cells.reasons, rules, policy), case * np.int32(len(cells.reasons) + 1) + cells.blocked


@lru_cache(maxsize=64)
def _kinds(reasons: tuple[Reason, ...], yours: frozenset[str], policy: str) -> tuple[CellState, ...]:
    """Build the states of each case, without a rule and with each rule."""
    rules = [None, *blocked_by(reasons, yours)]
    return tuple(_state(case, rule, policy) for case in range(7) for rule in rules)


def _state(case: int, rule: CellState | None, policy: str) -> CellState:
    """Build the state of a case; `rule` is the state of a blocking rule, or None."""
    if case == _PADDING:
        return CellState(PADDING, "blocked", legend=PADDING)
    case_text = ("", policy, policy, NOT_A_NUMBER, policy, MINUS_INFINITY)[case]
    text = ", ".join(filter(None, (case_text, rule.text if rule else ""))) or MAY_ATTEND
    if case in (_NAN, _EMPTY_NAN):
        return CellState(text, "blocked", "cross", legend=NOT_A_NUMBER)
    if case == _MINUS_INFINITY:
        return CellState(text, "ramp", "dash", legend=MINUS_INFINITY)
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
