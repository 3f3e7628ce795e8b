"""One head as a map: rows are queries, columns are keys, the stronger the color the larger the weight."""

from functools import partial
from typing import Unpack

import numpy as np

from attnviz import metrics, tables, views, words
from attnviz.charts import ends
from attnviz.charts.axes import bands, edges
from attnviz.charts.domain import MAY_ATTEND, MINUS_INFINITY, NOT_A_NUMBER, POLICIES, Domain, colored, domain_of
from attnviz.charts.frame import Frame
from attnviz.charts.maps import Map, size_within
from attnviz.charts.size import Size, size_of
from attnviz.charts.state import State, blocked_by
from attnviz.charts.style import Style
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.figure import Figure, Shown, see, stem, subtitles, text_array, titled
from attnviz.metrics import EMPTY, Cells
from attnviz.views import Seen


def head(
    record: Record, site: Site, head: int | str, *, before: Record | None = None, **shown: Unpack[Shown]
) -> Figure:
    """The map of one head, or of all heads combined by a name of `metrics.AGGREGATIONS`.

    A click selects a cell under the name "cell" with the fields query, key and rev. With a run `before` a change the
    words that rows now predict instead of others are marked.
    """
    seen, style = see(record, site, **shown)
    changed = _changed(seen, before)
    what = f"head-{head}" if isinstance(head, int) else f"heads-{head}"
    return Figure(
        name=stem(record, site, what, sentence=seen.sentence, view=seen.view),
        title=titled(" · ".join(filter(None, [title_of(seen, head), seen.window])), record),
        style=style,
        draw=lambda style: drawing_of(seen, head, style, changed),
        describe=lambda: words.head(seen, head),
        tabulate=lambda: tables.weights_table(seen, head),
        collect=lambda: arrays_of(seen, head),
    )


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


def wide(record: Record, site: Site, **shown: Unpack[Shown]) -> float:
    """Pixels from the labels of the rows to what they predict and the place of their sums: no weight is asked for."""
    seen, style = see(record, site, **shown)
    size = size_of(len(seen.queries), len(seen.keys))
    labels = edges(bands(seen.queries.tokens), bands(seen.keys.tokens), size).left
    beside = ends.predictions(seen.predicted or (), size, style.colors)
    if style.row_sums:
        beside += ends.sums([1.0], beside, size, style.colors)
    return ends.after(beside, size) - ends.GAP - labels


def _changed(seen: Seen, before: Record | None) -> frozenset[int]:
    """The rows that predict another word than before the change; none where other tokens were read."""
    if before is None or seen.predicted is None:
        return frozenset()
    if before.read[seen.sentence].tokens != seen.record.read[seen.sentence].tokens:
        return frozenset()
    window = {"sentence": seen.sentence, "view": seen.view, "rows": seen.rows, "columns": seen.columns}
    pairs = zip(views.see(before, seen.site, **window).predicted or (), seen.predicted, strict=True)
    return frozenset(i for i, (then, now) in enumerate(pairs) if then != now)


def drawing_of(seen: Seen, head: int | str, style: Style, changed: frozenset[int] = frozenset()) -> Map:
    """The weights of a head as a map; `changed` are the rows whose predicted words are marked."""
    at_ends = partial(_at_ends, seen, head, style, changed)
    size = size_within(seen.queries, seen.keys, style, at_ends)
    found = seen.cells([head], size.tile)[0]
    scale = domain_of(style.domain, seen, found)
    explained = style.explained and style.on_screen
    padding = seen.padding[:: size.tile]
    kinds, states = _states(found, POLICIES[seen.step.scoring.empty_rows], explained=explained, padding=padding)
    gray = head in seen.step.heads_off
    scores = {} if found.scores is None else {"score": (found.scores, ".3f")}
    return Map(
        title=title_of(seen, head, on_screen=style.on_screen),
        lines=[*subtitles(seen.record, style), _reading(seen, style), _window(seen, scale), *seen.notes],
        rows=seen.queries,
        columns=seen.keys,
        size=size,
        states=states,
        kinds=kinds,
        style=style,
        shade=np.nan_to_num(scale.shade(found.weights)),
        ramp=scale.ramp(style.colors, gray=gray),
        gray=gray,
        numbers={"weight": (found.weights, ".4f")} | scores,
        offsets=_offsets(found),
        predicted=seen.predicted or (),
        ends=at_ends(size),
        empty=POLICIES[seen.step.scoring.empty_rows],
    )


def _window(seen: Seen, scale: Domain) -> str:
    """Which part is seen, and that its colors are not those of the whole map: the legend may stand off the screen."""
    return " · ".join(filter(None, [seen.window, scale.ending if seen.window else ""]))


def _reading(seen: Seen, style: Style) -> str:
    """How a row that predicts is read: its label is not the word that is predicted there."""
    if not any(seen.predicted or ()):
        return ""
    row = seen.queries.at(style.selected[0]) if style.selected else None
    if row is not None and seen.predicted[row] and not metrics.fills_in(seen.record):
        token, word = words.in_quotes(seen.queries.labels[row]), words.in_quotes(seen.predicted[row])
        return ends.NEXT_OF.format(token=token, word=word)
    if metrics.labels_tokens(seen.record):
        return ends.LABELS
    return ends.IN_PLACE if metrics.fills_in(seen.record) else ends.NEXT


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


def _at_ends(seen: Seen, head: int | str, style: Style, changed: frozenset[int], size: Size) -> Frame:
    """What rows predict, if they do; their sums, if asked for; which have no key left, and what they got instead."""
    beside, colors = Frame(), style.colors
    if seen.predicted is not None:
        chosen = None if style.selected is None else seen.queries.at(style.selected[0])
        beside += ends.predictions(seen.predicted, size, colors, chosen, changed)
    if style.row_sums:
        beside += ends.sums(seen.row_sums(head).tolist(), beside, size, colors, partial=seen.partial)
    return beside + ends.empty_rows(seen.empty(head), size, colors)


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
