"""Maps whose cells have one of a few states: masks, leak tests, findings of a check, and any table of states."""

import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from torch import Tensor

from attnviz.analysis import maps, sentences, tables, views
from attnviz.analysis.blocks import largest_in_size
from attnviz.analysis.views import SeenMask, View, as_tokens, groups
from attnviz.charts.axes import KEY, QUERY, RECTANGLES, RowEnd, size_of
from attnviz.charts.marks import Ramp, scale_of
from attnviz.charts.pixels import Number, Squares, pool_largest
from attnviz.charts.signs import MAY_ATTEND, CellState, blocked_by
from attnviz.charts.theme import CAUTIONS
from attnviz.check import AXES, ArrayReport
from attnviz.check.arrays import real_tensor
from attnviz.check.leaks import CLOSED, LEAK, NOT_TESTED, SAW, STATES, UNUSED, LeakTest
from attnviz.core.display import file_stem, in_title
from attnviz.core.masks import Full, Mask
from attnviz.core.record import ALL
from attnviz.core.tokens import Token
from attnviz.figures.base import FigureFacts, edits_in_name, figure, text_array
from attnviz.figures.forms import Map, RowMarks, token_sides

Tokens = Sequence[Token | str]
MOST_WHOLE = 4096**2
"""Maximum number of cells of a mask that is exported cell by cell; larger masks are exported as tiles."""
MOST_TEXTS = RECTANGLES**2
"""Maximum number of cells for which each cell has its own tooltip."""
LONGEST_TITLE = 45
"""Maximum number of characters of a title on a page, which lists the rules elsewhere."""
ALONE, READS = "what each row may look at", "each row: what it may read to predict the next word"
COUNTED = "keys: how many each query has left"
LEAKS = {
    NOT_TESTED: CellState(STATES[NOT_TESTED], "blocked"),
    CLOSED: CellState(STATES[CLOSED], "blocked", "hatch"),
    SAW: CellState(STATES[SAW], "open", "dot"),
    UNUSED: CellState(STATES[UNUSED], "open", "ring"),
    LEAK: CellState(STATES[LEAK], "leak", "cross"),
}
"""States of a cell of a leak test, in rising priority."""


@figure
def mask(
    mask: Mask,
    queries: Tokens,
    keys: Tokens | None = None,
    *,
    predicted: Tokens | None = None,
    sentence: int = 0,
    view: View = View(),
    rows: slice | None = None,
    columns: slice | None = None,
    counted: bool = False,
    brush: bool = False,
    yours: Mask | None = None,
    **style: Any,
) -> Map:
    """Map a mask over tokens: a dot where a query may attend to a key, strokes where a rule blocks it.

    Args:
        queries: input tokens of the rows.
        keys: input tokens of the columns; None for those of the rows.
        predicted: token that each row predicts, or ""; written at the end of the row.
        rows, columns: queries and keys to show; None for all.
        counted: whether each row has the number of its open keys at its end; ignored if `view` merges or hides tokens.
        brush: whether a drag over a map of rectangles selects cells, under the name "drag", as intervals
            {"row": [begin, end], "column": [begin, end]}.
        yours: part of the mask that the user added to the built-in mask; None if there is none.

    Raises:
        InputError: if the view leaves no query or no key.
    """
    tokens = as_tokens(queries), as_tokens(queries if keys is None else keys)
    window = {"sentence": sentence, "view": view, "rows": rows or ALL, "columns": columns or ALL}
    part, is_counted = views.see_mask(mask, *tokens, **window), counted and view == View()
    words = [token.text for token in as_tokens(predicted or ())]
    words = part.queries.last(words) if any(words) else ()
    heading = f"Mask: {'none' if isinstance(mask, Full) else mask}"
    facts = FigureFacts(
        heading=heading,
        on_page=textwrap.shorten(heading, LONGEST_TITLE, placeholder=" …"),
        notes=[part.window],
        lines=[READS if words else ALONE, COUNTED if is_counted else "", part.window, *part.notes],
        name=file_stem("mask", str(mask), " ".join(token.text for token in tokens[0]), end=view.in_short()),
        table=partial(tables.mask_table, part),
        words=partial(sentences.mask, part),
        arrays=partial(arrays_of, part),
    )

    def marks() -> RowMarks:
        """Mark the rows with predicted words, the number of open keys, and frames around fully masked rows."""
        empty = np.flatnonzero(part.queries.every(part.all_open_keys == 0)).tolist()
        if not is_counted:
            legend = [CellState("fully masked row", "background", "frame")] if empty else []
            return RowMarks(predicted=words, framed=empty, legend=legend)
        counts = part.all_open_keys[part.queries.starts].tolist()
        inks = dict.fromkeys(empty, "warning")
        return RowMarks([RowEnd("beside", "keys", [str(n or "none") for n in counts], inks)], words, framed=empty)

    def squares(tile: int) -> Squares:
        """Compute the squares of the map, with `tile` cells per side."""
        reasons, blocked = part.blocked(tile)
        rules = blocked_by(reasons, yours.rules() if yours else ())
        return Squares(states=blocked, kinds=[CellState(MAY_ATTEND, "open", "dot"), *rules])

    options = {"tiles": "an open square has an open cell among its", "brush": brush}
    return Map(facts=facts, **token_sides(part.queries, part.keys), squares=squares, marks=marks, **options, **style)


def arrays_of(mask_view: SeenMask) -> dict[str, np.ndarray]:
    """Return the arrays to export: open cells or, above `MOST_WHOLE` cells, tiles, open if any of their cells is."""
    queries, keys = len(mask_view.queries), len(mask_view.keys)
    tile = 1 if queries * keys <= MOST_WHOLE else size_of(queries, keys).tile
    arrays = {"may_attend": mask_view.blocked(tile)[1] == 0}
    if tile > 1:
        arrays["cells_per_side_of_tile"] = np.array(tile)
    tokens = mask_view.queries.labels[::tile], mask_view.keys.labels[::tile]
    return arrays | {"query_tokens": text_array(tokens[0]), "key_tokens": text_array(tokens[1])}


@figure
def states(
    titled: str,
    states: np.ndarray,
    kinds: Sequence[CellState],
    rows: Tokens,
    columns: Tokens,
    *,
    titles: tuple[str, str] = (QUERY, KEY),
    lines: tuple[str, ...] = (),
    file: str = "grid",
    weights: np.ndarray | None = None,
    scale: Literal["sequential", "diverging"] = "sequential",
    **style: Any,
) -> Map:
    """Map cells in a few states, or with numbers.

    Args:
        titled: title, in one line.
        states: index into `kinds` for each cell, (rows, columns).
        kinds: states of a cell, in rising priority: a tile of a large map shows the last state among its cells.
        rows, columns: tokens of the rows and of the columns.
        titles: titles of the row axis and of the column axis.
        lines: lines under the title.
        file: parts of the file name.
        weights: numbers, (rows, columns), for cells with a color of the ramp.
        scale: colors of the numbers: "sequential" from 0 to 1, or "diverging" around 0, up to the largest number.
    """
    labels = [[token.text for token in as_tokens(tokens)] for tokens in (rows, columns)]

    def words() -> str:
        """Describe the map: title, lines, and the number of cells in each state."""
        counts = zip(np.bincount(states.ravel(), minlength=len(kinds)).tolist(), kinds, strict=True)
        cells = "; ".join(f"{count:,} {kind.text}" for count, kind in counts if count)
        return " ".join(f"{part.rstrip('.')}." for part in (titled, *lines, f"Cells: {cells}"))

    def table() -> pd.DataFrame:
        """Table with one row per cell: query, query_token, key, key_token, weight (if there are weights), state."""
        row, column = (index.ravel() for index in np.indices(states.shape))
        queries = {"query": row, "query_token": [labels[0][i] for i in row]}
        keys = {"key": column, "key_token": [labels[1][i] for i in column]}
        numbers = {} if weights is None else {"weight": weights.ravel()}
        return pd.DataFrame(queries | keys | numbers | {"state": [kinds[i].text for i in states.ravel()]})

    names = {"names": [kind.text for kind in kinds], "row_tokens": labels[0], "column_tokens": labels[1]}
    facts = FigureFacts(
        heading=titled,
        lines=lines,
        name=file_stem(file, " ".join(labels[1])),
        table=table,
        words=words,
        arrays={"states": states} | {name: text_array(texts) for name, texts in names.items()},
    )
    return _state_map(facts, states, kinds, rows, columns, titles, weights=weights, scale=scale, **style)


CHECKED = {
    "mask": (CellState(MAY_ATTEND, "open", "dot"), CellState("blocked", "blocked", "hatch")),
    "weights": (CellState("weight", "ramp", legend=""), CellState("weight 0", "blocked", "hatch")),
    "scores": (CellState("score", "open"), CellState("blocked", "blocked", "hatch")),
}
"""States of an open and of a blocked cell of a checked array, by its kind."""
MOST_CHECKED = 512
"""Maximum number of queries, and of keys, of a checked array that are drawn."""


def checked(array: Tensor | np.ndarray, report: ArrayReport, **style: Any) -> Map:
    """Map one sentence and head of an array and, from its report of `check`, the cells of the first error or warning.

    An array with more than `MOST_CHECKED` queries or keys is drawn in part, without these cells.
    """
    problems = [item for item in report.findings if item.severity != "note" and item.cells]
    finding = problems[0] if problems and max(report.shape[2:]) <= MOST_CHECKED else None
    cells = [dict(zip(finding.axes, cell, strict=True)) for cell in finding.cells] if finding else []
    batch, head = (cells[0].get(axis, 0) if cells else 0 for axis in AXES[:2])
    cells = [cell for cell in cells if (cell.get("batch", batch), cell.get("head", head)) == (batch, head)]
    values = real_tensor(array)
    if any(size not in (1, most) for size, most in zip(values.shape[::-1], report.shape[::-1], strict=False)):
        values = values.reshape(len(values), 1, -1, values.shape[-1])  # its first axis is the batch
    values = values.expand(report.shape)[batch, head, :MOST_CHECKED, :MOST_CHECKED].double()
    parts = f"batch {batch}", f"head {head}", *(f"the first {MOST_CHECKED} {side}" for side in ("queries", "keys"))
    sizes = zip(parts, report.shape, (1, 1, MOST_CHECKED, MOST_CHECKED), strict=True)
    line = ", ".join(f"{part} of {size:,}" for part, size, most in sizes if size > most)
    rule = finding.rule.replace("-", " ") if finding else "no error"
    titles = {"no error": ("What was checked", "evidence"), "deviation": ("Cells that differ", "differs")}
    title, legend_text = titles.get(rule, (f"Evidence of {rule}", "evidence"))
    kinds = *CHECKED[report.kind], CellState(legend_text, "leak", "cross")
    cell_states = maps.checked_states(values, report.kind, report.convention, cells)
    weights = values.nan_to_num(0.0, 0.0, 0.0).clamp(0, 1).numpy() if report.kind == "weights" else None
    options = {"lines": (line,) if line else (), "file": title.lower(), "weights": weights}
    return states(title, cell_states, kinds, *([*map(str, range(size))] for size in values.shape), **options, **style)


def _state_map(
    facts: FigureFacts,
    states: np.ndarray,
    kinds: Sequence[CellState],
    rows: Tokens,
    columns: Tokens,
    titles: tuple[str, str],
    *,
    weights: np.ndarray | None = None,
    scale: str = "sequential",
    cell_text: Callable[[int, int], str] | None = None,
    **style: Any,
) -> Map:
    """Make a map of states in rising priority; `cell_text` describes a cell, given row and column, for its tooltip."""

    def squares(tile: int) -> Squares:
        """Compute the squares of the map, with `tile` cells per side, each in its state of the highest priority."""
        numbers, ramp, texts = [], None, ()
        if weights is not None and scale == "sequential":
            numbers, ramp = [Number("weight", pool_largest(weights, tile), ".3f")], Ramp("weight", 1.0)
        elif weights is not None:
            largest = largest_in_size(weights, tile)
            numbers, ramp = [Number("weight", largest, ".3f")], scale_of("weight", largest, signed=True)
        tile_states = pool_largest(states, tile)
        if cell_text and tile_states.size <= MOST_TEXTS:
            texts = [cell_text(*cell) for cell in np.ndindex(tile_states.shape)]
        last = len(kinds) - 1  # the legend begins with the last of the kinds
        return Squares(states=last - tile_states, kinds=kinds[::-1], texts=texts, numbers=numbers, ramp=ramp)

    sides = token_sides(*(groups(as_tokens(tokens)) for tokens in (rows, columns)), titles)
    tiles = "each square shows the first of the legend among its"
    return Map(facts=facts, **sides, squares=squares, tiles=tiles, **style)


@figure
def leaks(test: LeakTest, *, selected: tuple[int, int] | None = None, **style: Any) -> Map:
    """Map a leak test: which outputs moved when each token was changed; red where the mask forbids it."""
    expected, caution = f"expected: {test.promise}", CAUTIONS.get(test.provenance, "")
    noise = f"differs by {100 * test.noise:.1g}%" if test.noise else "stays the same"
    moved = f"an output has moved if it changes by more than {100 * test.tolerance:.1g}% of its length"
    measured = f"{moved}; if no token is changed, it {noise}"
    edits = f"changed: {', '.join(test.edits.in_words())}" if test.edits.in_words() else ""
    cells = test.pairs[:1]  # to describe in words: the selected cell, or else the first leak, if any
    if selected and all(0 <= i < n for i, n in zip(selected, test.moved.shape, strict=True)):
        cells = [selected]
    texts = {name: [token.text for token in side] for name, side in (("query", test.queries), ("key", test.keys))}
    arrays = {name: getattr(test, name).numpy() for name in ("moved", "promised", "leaks")}
    facts = FigureFacts(
        heading=f"Leak test: {sentences.count_of_leaks(test)} · {test.where} · {in_title(test.source)}",
        notes=[expected, measured, *test.notes, caution, edits],
        lines=[expected, caution],
        more=[measured, *test.notes, edits, *(test.in_words(*cell) for cell in cells)],
        name=file_stem(test.source, "leaks", test.where, test.text, end=edits_in_name(test.edits)),
        table=partial(tables.leaks_table, test),
        words=partial(sentences.leaks, test),
        arrays=arrays | {f"{name}_tokens": text_array(side) for name, side in texts.items()},
    )
    states, titles = test.states.numpy(), ("Query (its output)", "Key (is changed)")
    options = {"cell_text": test.in_words, "selected": selected}
    return _state_map(facts, states, [*LEAKS.values()], test.queries, test.keys, titles, **options, **style)
