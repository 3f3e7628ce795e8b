"""One head as a map: rows are queries, columns are keys, the stronger the color the larger the weight."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz import metrics, tables, views, words
from attnviz.charts.axes import LONGEST_LABEL, label_width
from attnviz.charts.domain import MAY_ATTEND, MINUS_INFINITY, NOT_A_NUMBER, POLICIES, colored, domain_of
from attnviz.charts.grid import NOTE, Beside, Grid, size_within
from attnviz.charts.size import size_of
from attnviz.charts.state import State, blocked_by
from attnviz.charts.texts import text_width
from attnviz.core.amounts import written
from attnviz.core.display import in_title, shown
from attnviz.core.record import Record
from attnviz.figures.base import GridFigure, SiteFigure
from attnviz.figures.figure import stem, subtitles, text_array, titled
from attnviz.metrics import EMPTY, Cells
from attnviz.views import Seen

PREDICTS = "predicts"
NEXT = "each row: where it looks to predict the next word"
NEXT_OF = "row {token}: where it looks to predict {word}"
IN_PLACE = "right: the word predicted in place of a blank"
LABELS = "right: the label predicted for each token"
CHANGED = "changed prediction"
"""Lines over a map whose rows predict."""


@dataclass(frozen=True, eq=False)
class HeadMap(SiteFigure, GridFigure):
    """The map of one head, or of all heads combined by a name of `metrics.AGGREGATIONS`.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Attributes:
        before: a run before a change: words that rows now predict instead of others are marked.
    """

    head: int | str
    _: KW_ONLY
    before: Record | None = None

    is_map = True

    @cached_property
    def name(self) -> str:
        what = f"head-{self.head}" if isinstance(self.head, int) else f"heads-{self.head}"
        return stem(self.record, self.site, what, sentence=self.sentence, view=self.view)

    @cached_property
    def title(self) -> str:
        return titled(" · ".join(filter(None, [title_of(self.seen, self.head), self.seen.window])), self.record)

    @cached_property
    def description(self) -> str:
        return words.head(self.seen, self.head)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.weights_table(self.seen, self.head)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return arrays_of(self.seen, self.head)

    @cached_property
    def grid(self) -> Grid:
        seen = self.seen
        policy = POLICIES[seen.step.scoring.empty_rows]
        empty = dict.fromkeys(np.flatnonzero(seen.empty(self.head)).tolist(), policy)
        size = size_within(seen.queries, seen.keys, self, seen.predicted or ())
        cells = seen.cells([self.head], size.tile)[0]
        scale = domain_of(self.domain, seen, cells)
        padding = seen.padding[:: size.tile]
        kinds, states = _states(cells, policy, padding=padding, explained=self.explained and self.on_screen)
        gray = self.head in seen.step.heads_off
        scores = {} if cells.scores is None else {"score": (cells.scores, ".3f")}
        changed = _changed(seen, self.before)
        lines = [*subtitles(seen.record, self), self._reading, seen.window, scale.ending, *seen.notes]
        return Grid(
            title=title_of(seen, self.head, on_screen=self.on_screen),
            lines=lines,
            rows=seen.queries,
            columns=seen.keys,
            size=size,
            states=states,
            kinds=kinds,
            style=self.style,
            shade=np.nan_to_num(scale.shade(cells.weights)),
            ramp=scale.legend(self.colors, gray=gray),
            gray=gray,
            numbers={"weight": (cells.weights, ".4f")} | scores,
            offsets=_offsets(cells),
            predicted=seen.predicted or (),
            note_title=PREDICTS,
            changed=(changed, CHANGED),
            beside=row_sums(seen, self.head) if self.row_sums else None,
            empty=empty,
        )

    @property
    def room(self) -> float:
        """About how many pixels wide it is, from the labels of its rows to what they predict; no weight is needed."""
        seen = self.seen
        size = size_of(len(seen.queries), len(seen.keys))
        labels = max(map(label_width, seen.queries.labels), default=0.0)
        notes = max((text_width(f"▸ {shown(word, LONGEST_LABEL)}") for word in seen.predicted or ()), default=0.0)
        return labels + 40 + size.width + NOTE + notes

    @property
    def _reading(self) -> str:
        """How a row that predicts is read: its label is not the word that is predicted there."""
        seen = self.seen
        if not any(seen.predicted or ()):
            return ""
        row = seen.queries.at(self.selected[0]) if self.selected else None
        if row is not None and seen.predicted[row] and not metrics.fills_in(seen.record):
            token, word = words.in_quotes(seen.queries.labels[row]), words.in_quotes(seen.predicted[row])
            return NEXT_OF.format(token=token, word=word)
        if metrics.labels_tokens(seen.record):
            return LABELS
        return IN_PLACE if metrics.fills_in(seen.record) else NEXT


def row_sums(seen: Seen, head: int | str) -> Beside:
    """The sum of each row; those that are not 1 say so. Sums of rows that are seen in part are below 1 by right."""
    sums = seen.row_sums(head).tolist()
    odd = [not (value < 1 + 5e-4 if seen.partial else abs(value - 1) < 5e-4) for value in sums]
    texts = [f"{written(value, '.3f')}{' not 1' if is_odd else ''}" for value, is_odd in zip(sums, odd, strict=True)]
    return Beside("sum of what is seen" if seen.partial else "row sum", texts, odd)


def title_of(seen: Seen, head: int | str, *, on_screen: bool = False) -> str:
    """What is drawn, beginning with a constant word; a screen says elsewhere whose a model is."""
    name = called(seen, head, on_screen=on_screen)
    return f"{name[:1].upper()}{name[1:]}"


def called(seen: Seen, head: int | str, *, on_screen: bool = False) -> str:
    """The same within a title: "head 2 of cross layer 1 (off) · translator"."""
    step, source = seen.step, seen.record.source
    source = source.rpartition("/")[2] or source if on_screen else source
    if isinstance(head, int):
        what, off = seen.site.head(head), " (off)" * (head in step.heads_off)
    else:
        what, off = f"{head} of {step.num_heads} heads of {seen.site}", ", also those off" * bool(step.heads_off)
    return f"{what}{off} · {in_title(source)}"


def _changed(seen: Seen, before: Record | None) -> frozenset[int]:
    """The rows that predict another word than before the change; none where other tokens were read."""
    if before is None or seen.predicted is None:
        return frozenset()
    if before.read[seen.sentence].tokens != seen.record.read[seen.sentence].tokens:
        return frozenset()
    window = {"sentence": seen.sentence, "view": seen.view, "rows": seen.rows, "columns": seen.columns}
    pairs = zip(views.see(before, seen.site, **window).predicted or (), seen.predicted, strict=True)
    return frozenset(i for i, (then, now) in enumerate(pairs) if then != now)


def _offsets(found: Cells) -> np.ndarray | None:
    """Where in its tile the largest weight stands, counted row by row."""
    if (tiles := found.tiles) is None:
        return None
    return (tiles.at_query - tiles.queries[:, None]) * tiles.tile + tiles.at_key - tiles.keys


_OPEN, _EMPTY, _FILLED, _NAN, _EMPTY_NAN, _MINUS_INFINITY, _PADDING = range(7)
PADDING = "row of padding: no text stands there"


def _states(
    found: Cells, policy: str, *, padding: np.ndarray, explained: bool = False
) -> tuple[list[State], np.ndarray]:
    """What cells can be, and which of it each is: a case, combined with the rule that blocks it or with none.

    Args:
        padding: which rows are padding.
        explained: whether another legend says which rules block.
    """
    nan, empty = np.isnan(found.weights), found.states == EMPTY
    case = np.where(nan, np.uint8(_NAN), np.uint8(_OPEN))
    if empty.any():
        case[empty] = np.where(nan, _EMPTY_NAN, np.where(colored(found), _FILLED, _EMPTY))[empty]
    if found.scores is not None:
        case[(case == _OPEN) & (found.blocked == 0) & (found.scores == -np.inf)] = _MINUS_INFINITY
    legend = "" if explained else None
    case[(case == _OPEN) & padding[:, None]] = _PADDING
    kinds = [_state(case, rule, policy, legend) for case in range(7) for rule in (None, *blocked_by(found.reasons))]
    return kinds, case * np.int64(len(found.reasons) + 1) + found.blocked


def _state(case: int, rule: State | None, policy: str, legend: str | None) -> State:
    """A case of a cell that no rule blocks, or that one does; what a legend says of its rules, as `State` has it."""
    if case == _PADDING:
        return State(PADDING, "blocked", legend=PADDING)
    said = ("", policy, policy, NOT_A_NUMBER, policy, MINUS_INFINITY)[case]
    says = ", ".join(filter(None, (said, rule.says if rule else ""))) or MAY_ATTEND
    if case in (_NAN, _EMPTY_NAN):
        return State(says, "blocked", "cross", legend=NOT_A_NUMBER)
    if case == _MINUS_INFINITY:
        return State(says, "ramp", "dash", legend=MINUS_INFINITY)
    ground = "ramp" if case == _FILLED or (case == _OPEN and not rule) else "blocked"
    if rule is None:
        return State(says, ground, legend="")
    return State(says, ground, "hatch", rule.rules, legend=legend)


def arrays_of(seen: Seen, head: int | str) -> dict[str, np.ndarray]:
    """Every cell; of more than `tables.MOST_CELLS`, square tiles: the largest weight, where it is, and the sum."""
    queries, keys = len(seen.queries), len(seen.keys)
    tile = 1 if queries * keys <= tables.MOST_CELLS else size_of(queries, keys).tile
    found = seen.cells([head], tile)[0]
    arrays = {
        "weights": found.weights,
        "may_attend": found.blocked == 0,
        "queries": found.queries,
        "keys": found.keys,
        "query_tokens": text_array(seen.queries.labels[::tile]),
        "key_tokens": text_array(seen.keys.labels[::tile]),
    }
    if seen.predicted is not None:
        arrays["predicted_tokens"] = text_array(seen.predicted[::tile])
    if tile > 1:
        arrays["cells_per_side_of_tile"] = np.array(tile)
    if (tiles := found.tiles) is not None:
        arrays |= {"sums": tiles.sums, "largest_at_query": tiles.at_query, "largest_at_key": tiles.at_key}
    return arrays if found.scores is None else arrays | {"scores": found.scores}
