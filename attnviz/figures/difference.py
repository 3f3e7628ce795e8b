"""Comparison of two maps A and B: the difference A - B with a number per row, and both maps, side by side."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from attnviz.analysis import BLOCKED, sentences, tables
from attnviz.analysis.align import BLANK, AlignedPair, Pair, Side
from attnviz.analysis.blocks import largest_in_size
from attnviz.analysis.sentences import all_heads
from attnviz.analysis.views import groups
from attnviz.charts import axes
from attnviz.charts.axes import KEY, QUERY, GridSide, RowEnd, Size, size_beside
from attnviz.charts.grid import Grid
from attnviz.charts.marks import Ramp, limit_of
from attnviz.charts.pixels import Number, Squares
from attnviz.charts.signs import CROWDED, FAINT, NOT_A_NUMBER, CellState
from attnviz.charts.theme import Style
from attnviz.core.amounts import decimals, digits
from attnviz.core.display import file_stem, in_title, visible_text
from attnviz.core.tokens import Token
from attnviz.figures.base import FigureFacts, edited, figure, subtitles, text_array
from attnviz.figures.forms import Map

LEAST = 0.05
"""Smallest number at the end of the color scale of differences, used if all differences are smaller."""

LONGEST_LABEL, LONGEST_EDITS, LONGEST_TEXT = 14, 16, 90
"""Maximum number of code points: in a token's label, in the edits over a map, in an input text under the title."""

MEASURE = "per row: total variation, half the sum of the sizes of its differences, from 0 (alike) to 1 (apart)"

TILES = "each square shows the weight, and the difference, that is largest in size of"

MORE = "higher in B", "higher in A"
"""Meaning of a negative and of a positive difference."""

ONLY = "blank: only A or only B has this token"

KINDS = (
    CellState("alike", "ramp", legend=""),
    CellState(MORE[1], "ramp", legend=""),
    CellState(MORE[0], "ramp", legend=""),
    CellState("blocked in both", "blocked", "hatch", legend="blocked"),
    CellState(ONLY, "blocked", "hatch", ((1, ONLY),), legend=ONLY),
    CellState(NOT_A_NUMBER, "blocked", "cross"),
)
"""States of a cell; blank cells have vertical strokes, unlike blocked cells."""

Both = tuple[Token | None, Token | None]
"""Token of A and token of B at a row or column; None where a map has no such token."""


@figure
def difference(comparison: AlignedPair, **style: Any) -> Map:
    """Draw three maps in a row: the difference A - B with the total variation per row, then A and B.

    A click selects row and column of the common grid. Without a selection, a page outlines the largest difference.

    Args:
        comparison: aligned maps from `analysis.align.beside`.
    """
    a, b = comparison.a, comparison.b
    names = (f"{side.record.source} {side.site.kind[0]}{side.site.short(side.head)}" for side in (a, b))
    stems = [f"{name} {_text(side)[:16]}" for name, side in zip(names, (a, b), strict=True)]
    lines = lines_of(comparison)
    facts = FigureFacts(
        heading=title_of(comparison),
        notes=lines,
        lines=lines,
        explains_rows=True,
        name=file_stem("compared", stems[0], "with", stems[1], end=edited(a.record.edits)),
        table=partial(tables.comparison_table, comparison),
        words=partial(sentences.compared, comparison),
        arrays=partial(_arrays, comparison),
    )
    return Map(facts=facts, grids=partial(_grids, comparison), **style)


def _arrays(comparison: AlignedPair) -> dict[str, np.ndarray]:
    """Return the arrays to export: A, B and A - B, the total variation of each row, and the tokens of A and B."""
    tile = comparison.tile
    numbers = [numbers for numbers, _ in comparison.tiled(tile)]
    arrays = dict(zip(("a", "b", "difference"), numbers, strict=True)) | {"variation": comparison.variation}
    for axis, what in enumerate(("query", "key")):
        for end, name in enumerate("ab"):
            texts = ["" if both[end] is None else both[end].text for both in _tokens(comparison, axis)]
            arrays[f"{what}_tokens_{name}"] = text_array(texts)
    return arrays | ({"cells_per_side_of_tile": np.array(tile)} if tile > 1 else {})


def _grids(comparison: AlignedPair, style: Style) -> tuple[Grid, Grid, Grid]:
    """Make the grids of A - B, A and B, with the same rows and columns."""
    size = size_beside(len(comparison.rows), len(comparison.columns))
    tiles = comparison.tiled(size.tile)
    selected = comparison.most_changed_cell if style.selected is None and style.on_screen else style.selected
    kinds = [
        np.select([states == BLOCKED, states == BLANK, np.isnan(part), part > 0, part < 0], [3, 4, 5, 1, 2])
        for part, states in tiles
    ]
    ramps, texts = _ramps(comparison, [part for part, _ in tiles]), _cell_texts(tiles)
    names = zip(("a", "b", "difference"), tiles, texts, ("A", "B", "A − B"), strict=True)
    numbers = [Number(name, part, cells, title) for name, (part, _), cells, title in names]
    cells = [KINDS[kind].text for kind in kinds[2].ravel().tolist()]
    grids = []
    for end in (2, 0, 1):
        squares = Squares(
            states=kinds[end],
            kinds=KINDS,
            numbers=numbers,
            ramp=ramps[end],
            colored=end,
            texts=cells,
        )
        sides = [_side(comparison, axis, end) for axis in (0, 1)]
        grids.append(
            Grid(
                title=names_of(comparison)[end],
                lines=[_selected_text(tiles[end][0], texts[end], end, selected, size)],
                rows=sides[0],
                columns=sides[1],
                size=size,
                squares=squares,
                style=replace(style, heading=None, selected=selected),
                ramp=None if end == 1 else ramps[end],
                ends=[_variation_column(comparison, size.tile)] if end == 2 else (),
                signs=[KINDS[i] for i in np.unique(kinds[:2]).tolist()] if end == 1 else (),
                prefix=f"{'abd'[end]}-",
            )
        )
    return tuple(grids)


def _ramps(comparison: AlignedPair, tiles: Sequence[np.ndarray]) -> tuple[Ramp, Ramp, Ramp]:
    """Make the color scales of A, B and A - B: to 1, or to the largest number if that is too faint otherwise."""
    faint = 1 if max(len(comparison.rows), len(comparison.columns)) > CROWDED else FAINT
    tops = [limit_of(*tiles[:2]), max(limit_of(tiles[2]), LEAST)]
    weights, differences = (top if 0 < top < faint else 1.0 for top in tops)
    grays = (side.head in side.step.heads_off for side in (comparison.a, comparison.b))
    a, b = (Ramp("weight", weights, gray=is_gray) for is_gray in grays)
    steps = comparison.a.step, comparison.b.step
    if any(step.linear for step in steps):
        name = " and ".join(dict.fromkeys(step.weight_name for step in steps))
        a = b = Ramp(name, tops[0] or 1.0, signed=True)
        differences = tops[1]
    return a, b, Ramp("difference A − B", differences, signed=True, ends=(f" {MORE[0]}", f" {MORE[1]}"))


def _variation_column(comparison: AlignedPair, tile: int) -> RowEnd:
    """Build the texts at the row ends: the total variation of each row, or the largest in each tile of rows."""
    rows = len(comparison.rows)
    variation = np.repeat(largest_in_size(comparison.variation[:, None], tile)[:, 0], tile)[:rows].tolist()
    return RowEnd("note", "per row", ["–" if math.isnan(value) else f"{value:.2f}" for value in variation])


def _side(comparison: AlignedPair, axis: int, end: int) -> GridSide:
    """Make the rows (`axis` 0) or columns (1) of A (`end` 0), B (1) or A - B (2); rows of A and B have no labels."""
    both, pairs = _tokens(comparison, axis), (comparison.rows, comparison.columns)[axis]
    labels, names = () if axis == 0 and end < 2 else [*map(_label, both)], [*map(_place_name, both, pairs)]
    return GridSide(
        groups([_token(pair, end) for pair in both]), (QUERY, KEY)[axis], ("query", "key")[axis], labels, names
    )


def _tokens(comparison: AlignedPair, axis: int) -> list[Both]:
    """Return the tokens of A and B at each row (0) or column (1)."""
    a, b = comparison.a.tokens[axis], comparison.b.tokens[axis]
    pairs = (comparison.rows, comparison.columns)[axis]
    return [(None if i is None else a[i], None if j is None else b[j]) for i, j in pairs]


def _cell_texts(tiles: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[list[str]]:
    """Format the cells of A, B and A - B, with the same number of decimal places in all three maps."""
    places, texts = sentences.digits_of(*(numbers for numbers, _ in tiles)).ravel().tolist(), []
    for end, (numbers, states) in enumerate(tiles):
        cells = zip(numbers.ravel().tolist(), states.ravel().tolist(), places, strict=True)
        texts.append([WITHOUT.get(state) or _signed_text(value, count, end == 2) for value, state, count in cells])
    return texts


def _selected_text(
    numbers: np.ndarray, texts: Sequence[str], end: int, cell: Sequence[int] | int | None, size: Size
) -> str:
    """Return the text of the selected cell; a blank if no cell is selected."""
    if not isinstance(cell, Sequence):
        return " "
    row, column = (index // size.tile for index in cell)
    value, text = numbers[row, column], texts[row * size.columns + column]
    return f"{text} {MORE[bool(value > 0)]}" if end == 2 and abs(value) > 0 else text


WITHOUT = {BLOCKED: "blocked", BLANK: "blank"}
"""Texts of cells without a number."""


def _signed_text(value: float, places: int, plus: bool) -> str:
    """Format a number with `places` decimal places and a minus sign, or a plus sign if `plus`."""
    sign = "−" if value < 0 else ""
    if plus and value > 0:
        sign = "+"
    size = digits(value) if places == 4 else decimals(abs(value), places)
    return f"{sign}{size.removeprefix('−')}"


def title_of(comparison: AlignedPair) -> str:
    """Build the title, which begins with constant words."""
    names = [f"{_head_name(side)} · {in_title(side.record.source)}" for side in (comparison.a, comparison.b)]
    return f"A and B compared · {names[0] if names[0] == names[1] else f'A: {names[0]} · B: {names[1]}'}"


def _head_name(side: Side) -> str:
    """Name the head of a side: "head 2 of cross layer 1"."""
    if isinstance(side.head, int):
        return side.site.head(side.head)
    return f"{side.head} of {all_heads(side.step)} · {side.site}"


def names_of(comparison: AlignedPair) -> tuple[str, str, str]:
    """Build titles of the maps from the first property in which they differ: model, head, text or edits."""
    pairs = []
    for side in (comparison.a, comparison.b):
        head = side.site.head(side.head) if isinstance(side.head, int) else f"{side.head} of {side.site}"
        edits = ", ".join(side.record.edits.in_words()) or "original"
        pairs.append((side.record.source, head, _text(side), edits if len(edits) <= LONGEST_EDITS else "changed"))
    names = next((pair for pair in zip(*pairs, strict=True) if pair[0] != pair[1]), ("", ""))
    if names == (pairs[0][2], pairs[1][2]) and all(names):  # from the first differing word on, for lack of room
        texts = [text.split() for text in names]
        differs = (i for i, pair in enumerate(zip(*texts, strict=False)) if pair[0] != pair[1])
        if first := next(differs, min(map(len, texts)) - 1):
            names = tuple(f"… {' '.join(text[first:])}" for text in texts)
    a, b = (f": {in_title(name)}" if name else "" for name in names)
    return f"A{a}", f"B{b}", "Difference A − B"


def lines_of(comparison: AlignedPair) -> list[str]:
    """Return the lines under the title: both texts, origin of the weights, edits, and the part that is drawn."""
    size = size_beside(len(comparison.rows), len(comparison.columns))
    sides, lines = (comparison.a, comparison.b), []
    texts = [visible_text(_text(side), LONGEST_TEXT).replace("␣", " ") for side in sides]
    for a, b in (texts, [" · ".join(filter(None, subtitles(side.record))) for side in sides]):
        lines += [a] if a == b else [f"A: {a}", f"B: {b}"]
    return [*lines, *filter(None, [sentences.window_text(comparison)]), MEASURE, *axes.notes_on(size, TILES)]


def _text(side: Side) -> str:
    """Return the input text of a side."""
    return side.record.sentences[side.sentence].text


def _label(both: Both) -> str:
    """Return the label of a row or column: "cat → dog", or "down (B)" if only B has the token."""
    texts = [None if token is None else axes.short(token.text, LONGEST_LABEL) for token in both]
    ending = next((f" ({side})" for side, text in zip("BA", texts, strict=True) if text is None), "")
    return " → ".join(dict.fromkeys(text for text in texts if text is not None)) + ending


def _token(both: Both, end: int) -> Token:
    """Return the token of a row or column, marked as special if only one map has it."""
    tokens = [token for token in both if token is not None]
    token = tokens[0] if end == 2 or both[end] is None else both[end]
    return replace(token, special=len(tokens) == 1 or all(other.special for other in tokens))


def _place_name(both: Both, pair: Pair) -> str:
    """Name a row or column of the common grid: "cat (1) → dog (1)", or "cat (1), only in A"."""
    names = [f"{visible_text(token.text)} ({i})" for token, i in zip(both, pair, strict=True) if token is not None]
    if len(names) == 1:
        return f"{names[0]}, only in {'A' if both[1] is None else 'B'}"
    return " → ".join(dict.fromkeys(names))
