"""One head as a map (rows are queries, columns are keys, colors are weights), and its attention by distance."""

from collections.abc import Callable
from functools import cache, lru_cache, partial
from typing import Any

import numpy as np
import pandas as pd

from attnviz import analysis
from attnviz.analysis import EMPTY, Cells, sentences, tables, views
from attnviz.analysis.batch import NEAR
from attnviz.analysis.views import AttentionView, View
from attnviz.charts import signs
from attnviz.charts.axes import RowEnd, size_of
from attnviz.charts.bars import Bars, Column
from attnviz.charts.marks import scale_of
from attnviz.charts.pixels import Number, Squares
from attnviz.charts.signs import CellState
from attnviz.core.amounts import digits, percent, written
from attnviz.core.display import file_stem, in_title
from attnviz.core.edits import Site
from attnviz.core.masks import Reason
from attnviz.core.record import ALL, Record
from attnviz.figures.base import FigureFacts, figure, text_array
from attnviz.figures.forms import BarChart, Map, RowMarks, token_sides

TAKES, TAKES_OF = "each row: what it takes to predict the next word", "row {token}: what it takes to predict {word}"
NEXT = "each row: where it looks to predict the next word"
NEXT_OF = "row {token}: where it looks to predict {word}"
IN_PLACE = "right: the word predicted in place of a blank"
LABELS = "right: the label predicted for each token"
CHANGED = "changed prediction"
"""Lines above a map whose rows predict words or labels."""
_CASES = _OPEN, _EMPTY, _FILLED, _NAN, _EMPTY_NAN, _MINUS_INFINITY, _PADDING = range(7)
PADDING = "row of padding: no text stands there"
TITLE = "Attention by distance"
ROW_BY_ROW = "patches are counted row by row, not measured across the picture"


@figure
def head(
    record: Record,
    site: Site,
    head: int | str,
    *,
    sentence: int = 0,
    view: View = View(),
    rows: slice | None = None,
    columns: slice | None = None,
    before: Record | None = None,
    domain: str = "adapts",
    row_sums: bool = False,
    selected: tuple[int, int] | None = None,
    **style: Any,
) -> Map:
    """Map one head, or all heads combined by one of `analysis.AGGREGATIONS`.

    Args:
        rows, columns: queries and keys to show; None for all.
        before: run before a change, to mark rows whose prediction changed.
        domain: color domain of weights, one of `charts.signs.DOMAINS`.
        row_sums: whether the sum of each row is at its end, with a warning if the sum is not 1.
        selected: cell to outline, as (query, key).

    Raises:
        InputError: if the view leaves no query or no key.
    """
    window = {"sentence": sentence, "view": view, "rows": rows or ALL, "columns": columns or ALL}
    part = views.see(record, site, **window)
    name = map_name(part, head)
    facts = FigureFacts(
        what=f"{name[:1].upper()}{name[1:]}",
        notes=[part.window],
        subject=(site, heads_in_name(head)),
        explains_rows=True,
        table=partial(tables.weights_table, part, head),
        words=partial(sentences.head, part, head),
        arrays=partial(arrays_of, part, head),
    )

    def marks() -> RowMarks:
        """Mark rows with a changed prediction and fully masked rows; add predicted words and row sums."""
        changed = () if before is None else _changed_rows(part, views.see(before, site, **window))
        empty = np.flatnonzero(part.empty(head)).tolist()
        legend = [CellState(CHANGED, "background", "arrow")] if changed else []
        legend += [CellState(signs.POLICIES[part.step.scoring.empty_rows], "background", "frame")] if empty else []
        return RowMarks([_row_sums(part, head)] if row_sums else [], part.predicted or (), changed, empty, legend)

    squares = partial(_squares, part, head, domain, selected)
    fields = {"record": record, "sentence": sentence, "view": view, "domain": domain, "selected": selected}
    return Map(facts=facts, **token_sides(part.queries, part.keys), squares=squares, marks=marks, **fields, **style)


def _squares(view: AttentionView, head: int | str, domain: str, selected: tuple[int, int] | None, tile: int) -> Squares:
    """Compute the weights, scores and states of a map; weights of both signs have a diverging scale."""
    cells = view.cells([head], tile)[0]
    scale = signs.domain_of(domain, view, cells)
    kinds, states = states_of(cells, view)
    scores = [] if cells.scores is None else [Number("score", cells.scores, ".3f")]
    offsets = None  # position of the largest weight in its tile, counted row by row
    if tiles := cells.tiles:
        offsets = (tiles.at_query - tiles.queries[:, None]) * tiles.tile + tiles.at_key - tiles.keys
    ramp, title = scale.ramp(gray=head in view.step.heads_off), view.step.weight_name
    if view.step.linear or (cells.weights < 0).any():
        ramp = scale_of(title, cells.weights, signed=True)
    ending = "" if ramp.signed else scale.ending
    return Squares(
        states=states,
        kinds=kinds,
        numbers=[Number("weight", cells.weights, ".4f", title), *scores],
        ramp=ramp,
        offsets=offsets,
        lines=[_reading_note(view, selected), view.window, ending, *view.rule, *view.notes],
    )


def _row_sums(view: AttentionView, head: int | str) -> RowEnd:
    """Build the column of row sums; a sum that is not 1 has a warning, or, if some keys are hidden, a sum above 1."""
    sums = view.row_sums(head)
    texts = [written(total, ".3f") for total in sums.tolist()]
    if view.step.linear:
        return RowEnd("beside", "row sum", texts)
    is_right = np.abs(sums - 1) < 5e-4  # False for NaN
    if view.partial:  # the hidden keys have the rest of the sum
        is_right = sums < 1 + 5e-4
    wrong_rows = np.flatnonzero(~is_right).tolist()
    for row in wrong_rows:
        texts[row] += " not 1"
    title = "sum of what is seen" if view.partial else "row sum"
    return RowEnd("beside", title, texts, dict.fromkeys(wrong_rows, "warning"))


def _reading_note(view: AttentionView, selected: tuple[int, int] | None) -> str:
    """Return a line that explains the predictions of the rows; "" if no row predicts."""
    if not any(view.predicted or ()):
        return ""
    row = view.queries.index_of(selected[0]) if selected else None
    if row is not None and view.predicted[row] and not analysis.fills_in(view.record):
        token, word = sentences.in_quotes(view.queries.labels[row]), sentences.in_quotes(view.predicted[row])
        return (TAKES_OF if view.step.linear else NEXT_OF).format(token=token, word=word)
    if analysis.labels_tokens(view.record):
        return LABELS
    if analysis.fills_in(view.record):
        return IN_PLACE
    return TAKES if view.step.linear else NEXT


def heads_in_name(head: int | str) -> str:
    """Name a head, or a combination of heads, for a file name."""
    return f"head-{head}" if isinstance(head, int) else f"heads-{head}"


def map_name(view: AttentionView, head: int | str) -> str:
    """Name a map for a title: "head 2 of cross layer 1 (off)"."""
    step = view.step
    if isinstance(head, int):
        return f"{view.site.head(head)}{' (off)' if head in step.heads_off else ''}"
    off = ", also those off" if step.heads_off else ""
    return f"{head} of {step.num_heads} heads of {view.site}{off}"


def _changed_rows(now: AttentionView, before: AttentionView) -> frozenset[int]:
    """Return the rows whose predicted word changed between two runs; no rows if the runs read different tokens."""
    if now.predicted is None or before.record.read[now.sentence].tokens != now.record.read[now.sentence].tokens:
        return frozenset()
    pairs = zip(before.predicted or (), now.predicted, strict=True)
    return frozenset(i for i, (old, new) in enumerate(pairs) if old != new)


def states_of(cells: Cells, view: AttentionView) -> tuple[tuple[CellState, ...], np.ndarray]:
    """Return the possible states, and the index of each cell's state: a case combined with a blocking rule or none."""
    policy, rules = signs.POLICIES[view.step.scoring.empty_rows], signs.your_rules(view.record, view.site)
    is_nan, is_masked_row = np.isnan(cells.weights), cells.states == EMPTY
    case = np.where(is_nan, np.uint8(_NAN), np.uint8(_OPEN))
    if is_masked_row.any():
        masked_case = np.where(is_nan, _EMPTY_NAN, np.where(signs.has_color(cells), _FILLED, _EMPTY))
        case[is_masked_row] = masked_case[is_masked_row]
    if cells.scores is not None and (infinite := cells.scores == -np.inf).any():
        case[infinite & (case == _OPEN) & (cells.blocked == 0)] = _MINUS_INFINITY
    if (padding := view.padding[:: cells.tile]).any():
        case[padding[:, None] & (case == _OPEN)] = _PADDING
    return _kinds(cells.reasons, rules, policy), case * np.int32(len(cells.reasons) + 1) + cells.blocked


@lru_cache(maxsize=64)
def _kinds(reasons: tuple[Reason, ...], yours: frozenset[str], policy: str) -> tuple[CellState, ...]:
    """Build all possible states: each case without a rule and with each blocking rule; `yours` are the user's rules."""
    rules = [None, *signs.blocked_by(reasons, yours)]
    return tuple(_state(case, rule, policy) for case in _CASES for rule in rules)


def _state(case: int, rule: CellState | None, policy: str) -> CellState:
    """Build the state of one case, with the text and the hatching of a blocking rule, if any."""
    if case == _PADDING:
        return CellState(PADDING, "blocked", legend=PADDING)
    case_texts = {_OPEN: "", _NAN: signs.NOT_A_NUMBER, _MINUS_INFINITY: signs.MINUS_INFINITY}
    case_text = case_texts.get(case, policy)  # the other cases are of fully masked rows
    text = ", ".join(filter(None, (case_text, rule.text if rule else ""))) or signs.MAY_ATTEND
    if case in (_NAN, _EMPTY_NAN):
        return CellState(text, "blocked", "cross", legend=signs.NOT_A_NUMBER)
    if case == _MINUS_INFINITY:
        return CellState(text, "ramp", "dash", legend=signs.MINUS_INFINITY)
    ground = "ramp" if case == _FILLED or (case == _OPEN and not rule) else "blocked"
    return CellState(text, ground, "hatch", rule.rules) if rule else CellState(text, ground, legend="")


def arrays_of(view: AttentionView, head: int | str) -> dict[str, np.ndarray]:
    """Return the arrays to export for a head: of its cells or, if they exceed `MOST_CELLS`, of tiles of cells."""
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


@figure
def distance(record: Record, site: Site, head: int | str, *, sentence: int = 0, **style: Any) -> BarChart:
    """Draw the attention of a head by distance, in one text: a bar for the share of each bin, and the mean weight.

    The bins are the query itself, 1 before it, 2 to 3, 4 to 7, ..., and the same after it. See `analysis.by_distance`.
    """
    name, step = map_name(views.see(record, site, sentence=sentence), head), record.step(site)

    @cache
    def measure() -> tuple[pd.DataFrame, list[str]]:
        """Return the table of bins, and lines on what was measured."""
        measured = analysis.by_distance(step, head, sentence=sentence)
        near = f"{percent(measured.within(NEAR))} of the attention goes to keys at most {NEAR} tokens away"
        lines = [f"local share: {near}", *(["what the sink takes is left out"] if step.has_sink else [])]
        return measured.curve(), [*lines, *([ROW_BY_ROW] if record.sentences[sentence].pictures else [])]

    facts = {"heading": f"{TITLE} · {name} · {in_title(record.source)}"}
    facts["subject"] = site, heads_in_name(head), "distance"
    return _distance_bars(measure, facts, record=record, sentence=sentence, **style)


@figure
def distance_over_corpus(model: str, head: str, curve: pd.DataFrame, texts: int, **style: Any) -> BarChart:
    """Draw the attention of a head by distance, over all tokens of many texts.

    Args:
        model, head: names of the model and of the head.
        curve: table of nearest, furthest, share, pairs and mean, from `atlas.Atlas.table("distances")`.
        texts: number of texts.
    """

    def measure() -> tuple[pd.DataFrame, list[str]]:
        return curve, [f"all tokens of {texts:,} texts"]

    facts = {"heading": f"{TITLE} · {head}", "notes": [in_title(model)]}
    facts["name"] = file_stem(model, "atlas", head, "distance")
    return _distance_bars(measure, facts, **style)


def _distance_bars(
    measure: Callable[[], tuple[pd.DataFrame, list[str]]], facts: dict[str, Any], **settings: Any
) -> BarChart:
    """Make a figure of bars from `measure`, which returns the table of bins and lines on what was measured."""

    def words() -> str:
        """Describe the bars, with the bin that has the largest share."""
        table, lines = measure()
        text = f"{facts['heading']}. {'; '.join(lines)}."
        for row in table.sort_values("share", ascending=False)[:1].itertuples():
            text += f" Most of it goes to: {_bin_name(row)}, {percent(float(row.share))}."
        return text

    def bars() -> Bars:
        """Draw the bins that have pairs, nearest first: the query itself, keys before it, keys after it."""
        table, lines = measure()
        bins = table[(table["pairs"] > 0) | (table["share"] > 0)]
        bins = bins.iloc[np.lexsort((bins["nearest"].abs(), bins["nearest"] > 0))]
        means = Column([digits(mean) for mean in bins["mean"]], name="mean weight")
        columns = [Column(values=bins["share"].tolist(), name="share of attention"), means]
        return Bars(lines=lines, names=[_bin_name(row) for row in bins.itertuples()], columns=columns)

    def table() -> pd.DataFrame:
        return measure()[0]

    return BarChart(facts=FigureFacts(on_page=TITLE, table=table, words=words, **facts), bars=bars, **settings)


def _bin_name(row) -> str:
    """Name a bin: "itself", "4–7 before"."""
    if not row.nearest:
        return "itself"
    first, last = f"{abs(row.nearest):,}", f"{abs(row.furthest):,}"
    return f"{first if first == last else f'{first}–{last}'} {'before' if row.nearest < 0 else 'after'}"
