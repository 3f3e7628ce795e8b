"""Comparison of two maps A and B: the difference A - B with a number per row, and both maps, side by side."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from attnviz.analysis import BLOCKED, sentences, tables
from attnviz.analysis.align import BLANK, AlignedPair, Pair
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
from attnviz.figures.base import FigureFacts, edits_in_name, figure, subtitles, text_array
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
WITHOUT = {BLOCKED: "blocked", BLANK: "blank"}
"""Texts of cells without a number."""


@figure
def difference(comparison: AlignedPair, **style: Any) -> Map:
    """Draw three maps in a row: the difference A - B with the total variation per row, then A and B.

    A click selects row and column of the common grid. Without a selection, a page outlines the largest difference.

    Args:
        comparison: aligned maps from `analysis.align.beside`.
    """
    lines, names, file_names = lines_of(comparison), [], []
    for side in (comparison.a, comparison.b):
        text = side.record.sentences[side.sentence].text[:16]
        file_names.append(f"{side.record.source} {side.site.kind[0]}{side.site.short(side.head)} {text}")
        combined = f"{side.head} of {all_heads(side.step)} · {side.site}"
        head = side.site.head(side.head) if isinstance(side.head, int) else combined
        names.append(f"{head} · {in_title(side.record.source)}")
    facts = FigureFacts(
        heading=f"A and B compared · {names[0] if names[0] == names[1] else f'A: {names[0]} · B: {names[1]}'}",
        notes=lines,
        lines=lines,
        explains_rows=True,
        name=file_stem("compared", file_names[0], "with", file_names[1], end=edits_in_name(comparison.a.record.edits)),
        table=partial(tables.comparison_table, comparison),
        words=partial(sentences.compared, comparison),
        arrays=partial(_arrays, comparison),
    )
    return Map(facts=facts, grids=partial(_grids, comparison), **style)


def _arrays(comparison: AlignedPair) -> dict[str, np.ndarray]:
    """Return the arrays to export: A, B and A - B, the total variation of each row, and the tokens of A and B."""
    tile = comparison.tile
    (a, _), (b, _), (difference, _) = comparison.tiled(tile)
    arrays = {"a": a, "b": b, "difference": difference, "variation": comparison.variation}
    for axis, tokens in enumerate(("query_tokens", "key_tokens")):
        for side, letter in enumerate("ab"):
            texts = ["" if both[side] is None else both[side].text for both in _tokens(comparison, axis)]
            arrays[f"{tokens}_{letter}"] = text_array(texts)
    return arrays | ({"cells_per_side_of_tile": np.array(tile)} if tile > 1 else {})


def _grids(comparison: AlignedPair, style: Style) -> tuple[Grid, Grid, Grid]:
    """Make the grids of A - B, A and B, with the same rows and columns, and all three numbers in their tooltips."""
    size = size_beside(len(comparison.rows), len(comparison.columns))
    selected = comparison.most_changed_cell if style.selected is None and style.on_screen else style.selected
    maps = comparison.tiled(size.tile)  # numbers and states of A, B and A - B
    indices = [  # of A, B and A - B: the index in `KINDS` of each cell
        np.select([states == BLOCKED, states == BLANK, np.isnan(values), values > 0, values < 0], [3, 4, 5, 1, 2])
        for values, states in maps
    ]
    ramps, texts, titles = _ramps(comparison, [values for values, _ in maps]), _cell_texts(maps), names_of(comparison)
    columns = ("a", "A"), ("b", "B"), ("difference", "A − B")
    numbers = [Number(name, maps[i][0], texts[i], title) for i, (name, title) in enumerate(columns)]
    shared = {"kinds": KINDS, "texts": [KINDS[kind].text for kind in indices[2].ravel().tolist()]}
    grids = []
    for i, prefix in ((2, "d-"), (0, "a-"), (1, "b-")):
        grid = Grid(
            title=titles[i],
            lines=[_selected_text(maps[i][0], texts[i], selected, size, is_difference=i == 2)],
            rows=_side(comparison, 0, i),
            columns=_side(comparison, 1, i),
            size=size,
            squares=Squares(states=indices[i], numbers=numbers, ramp=ramps[i], colored=i, **shared),
            style=replace(style, heading=None, selected=selected),
            ramp=ramps[i],
            signs=(),
            prefix=prefix,
        )
        if i == 1:  # A and B share a color legend; B has the legend of signs for all
            grid = replace(grid, ramp=None, signs=[KINDS[kind] for kind in np.unique(indices[:2]).tolist()])
        if i == 2:
            grid = replace(grid, ends=[_variation_column(comparison, size.tile)])
        grids.append(grid)
    return tuple(grids)


def _ramps(comparison: AlignedPair, tiles: Sequence[np.ndarray]) -> tuple[Ramp, Ramp, Ramp]:
    """Make the color scales of A, B and A - B: up to 1 or, if the colors would be too faint, to the largest number.

    Args:
        tiles: numbers of A, B and A - B, as they are drawn.
    """
    sides, faint = (comparison.a, comparison.b), FAINT
    if max(len(comparison.rows), len(comparison.columns)) > CROWDED:
        faint = 1
    largest_weight, largest_difference = limit_of(*tiles[:2]), max(limit_of(tiles[2]), LEAST)
    weight_top, difference_top = (top if 0 < top < faint else 1.0 for top in (largest_weight, largest_difference))
    a, b = (Ramp("weight", weight_top, gray=side.head in side.step.heads_off) for side in sides)
    if any(side.step.linear for side in sides):
        name = " and ".join(dict.fromkeys(side.step.weight_name for side in sides))
        a = b = Ramp(name, largest_weight or 1.0, signed=True)
        difference_top = largest_difference
    return a, b, Ramp("difference A − B", difference_top, signed=True, ends=(f" {MORE[0]}", f" {MORE[1]}"))


def _variation_column(comparison: AlignedPair, tile: int) -> RowEnd:
    """Build the texts at the row ends: the total variation of each row; of tiles, the largest among their rows."""
    largest = largest_in_size(comparison.variation[:, None], tile)[:, 0]  # (tiles of rows,)
    variation = np.repeat(largest, tile)[: len(comparison.rows)].tolist()
    return RowEnd("note", "per row", ["–" if math.isnan(value) else f"{value:.2f}" for value in variation])


def _side(comparison: AlignedPair, axis: int, end: int) -> GridSide:
    """Make the rows (`axis` 0) or columns (1) of A (`end` 0), B (1) or A - B (2), which alone has labels of rows."""
    both_tokens = _tokens(comparison, axis)
    tokens = groups([_token(both, end) for both in both_tokens])
    labels = () if axis == 0 and end < 2 else [*map(_label, both_tokens)]
    names = [*map(_place_name, both_tokens, (comparison.rows, comparison.columns)[axis])]
    return GridSide(tokens, (QUERY, KEY)[axis], ("query", "key")[axis], labels, names)


def _tokens(comparison: AlignedPair, axis: int) -> list[Both]:
    """Return the token of A and the token of B at each row (`axis` 0) or column (1), None where one has no token."""
    a, b = comparison.a.tokens[axis], comparison.b.tokens[axis]
    positions = (comparison.rows, comparison.columns)[axis]
    return [(None if i is None else a[i], None if j is None else b[j]) for i, j in positions]


def _cell_texts(tiles: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[list[str]]:
    """Format the cells of A, B and A - B; a cell has the same number of decimal places in all three maps."""
    decimal_places = sentences.digits_of(*(numbers for numbers, _ in tiles)).ravel().tolist()
    texts = []
    for i, (numbers, states) in enumerate(tiles):
        cells = zip(numbers.ravel().tolist(), states.ravel().tolist(), decimal_places, strict=True)
        texts.append([WITHOUT.get(state) or _signed_text(value, places, i == 2) for value, state, places in cells])
    return texts


def _selected_text(
    numbers: np.ndarray, texts: Sequence[str], cell: Sequence[int] | int | None, size: Size, *, is_difference: bool
) -> str:
    """Return the text of the selected cell, such as "+0.12 higher in A"; a blank if no cell is selected."""
    if not isinstance(cell, Sequence):
        return " "
    row, column = (index // size.tile for index in cell)
    value, text = numbers[row, column], texts[row * size.columns + column]
    return f"{text} {MORE[bool(value > 0)]}" if is_difference and abs(value) > 0 else text


def _signed_text(value: float, places: int, plus: bool) -> str:
    """Format a number with `places` decimal places and a minus sign; positive ones have a plus sign if `plus`."""
    sign = "−" if value < 0 else ""
    if plus and value > 0:
        sign = "+"
    size = digits(value) if places == 4 else decimals(abs(value), places)  # `digits` has 4 places, or an exponent
    return f"{sign}{size.removeprefix('−')}"


def names_of(comparison: AlignedPair) -> tuple[str, str, str]:
    """Build the titles of A, B and A - B; A and B are named by what differs first: model, head, text or edits."""
    properties = []
    for side in (comparison.a, comparison.b):
        head = side.site.head(side.head) if isinstance(side.head, int) else f"{side.head} of {side.site}"
        edits = ", ".join(side.record.edits.in_words()) or "original"
        text = side.record.sentences[side.sentence].text
        properties.append((side.record.source, head, text, edits if len(edits) <= LONGEST_EDITS else "changed"))
    names = next((pair for pair in zip(*properties, strict=True) if pair[0] != pair[1]), ("", ""))
    texts = properties[0][2], properties[1][2]
    if names == texts and all(texts):
        words = [text.split() for text in texts]
        differing = (i for i, pair in enumerate(zip(*words, strict=False)) if pair[0] != pair[1])
        first = next(differing, min(map(len, words)) - 1)  # the first word that differs
        if first > 0:  # leave out the words before it, to save room
            names = tuple(f"… {' '.join(words_of_text[first:])}" for words_of_text in words)
    a, b = (f": {in_title(name)}" if name else "" for name in names)
    return f"A{a}", f"B{b}", "Difference A − B"


def lines_of(comparison: AlignedPair) -> list[str]:
    """Return the lines under the title: both texts, origin of the weights, edits, and the part that is drawn."""
    size = size_beside(len(comparison.rows), len(comparison.columns))
    sides, lines = (comparison.a, comparison.b), []
    texts = [visible_text(side.record.sentences[side.sentence].text, LONGEST_TEXT).replace("␣", " ") for side in sides]
    origins_and_edits = [" · ".join(filter(None, subtitles(side.record))) for side in sides]
    for a, b in (texts, origins_and_edits):
        lines += [a] if a == b else [f"A: {a}", f"B: {b}"]
    return [*lines, *filter(None, [sentences.window_text(comparison)]), MEASURE, *axes.notes_on(size, TILES)]


def _label(both: Both) -> str:
    """Return the label of a row or column: "cat → dog", or "down (B)" if only B has the token."""
    texts = [axes.short(token.text, LONGEST_LABEL) for token in both if token is not None]
    if len(texts) == 1:
        return f"{texts[0]} ({'A' if both[1] is None else 'B'})"
    return " → ".join(dict.fromkeys(texts))


def _token(both: Both, end: int) -> Token:
    """Return the token of a row or column of A (`end` 0), B (1) or A - B (2); special (gray) if A or B lacks it."""
    tokens = [token for token in both if token is not None]
    token = tokens[0] if end == 2 or both[end] is None else both[end]
    return replace(token, special=len(tokens) == 1 or all(token.special for token in tokens))


def _place_name(both: Both, pair: Pair) -> str:
    """Name a row or column of the common grid: "cat (1) → dog (1)", or "cat (1), only in A"."""
    names = [f"{visible_text(token.text)} ({i})" for token, i in zip(both, pair, strict=True) if token is not None]
    if len(names) == 1:
        return f"{names[0]}, only in {'A' if both[1] is None else 'B'}"
    return " → ".join(dict.fromkeys(names))
