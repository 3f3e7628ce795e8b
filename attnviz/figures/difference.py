"""Comparison of two maps A and B: the difference A - B with the difference per row, and both maps, in a row."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from attnviz.analysis import BLOCKED, sentences, tables
from attnviz.analysis.align import BLANK, AlignedPair, Pair, Side
from attnviz.analysis.blocks import largest_in_size
from attnviz.analysis.sentences import all_heads
from attnviz.analysis.views import groups
from attnviz.charts import axes
from attnviz.charts.axes import KEY, QUERY, GridSide, RowEnd, Size, size_beside
from attnviz.charts.grid import Grid, Number, together
from attnviz.charts.marks import Ramp, heading
from attnviz.charts.signs import CROWDED, FAINT, NOT_A_NUMBER, CellState, Domain
from attnviz.charts.theme import gray_ramp
from attnviz.core.amounts import decimals, digits
from attnviz.core.display import file_stem, in_title, visible_text
from attnviz.core.tokens import Token
from attnviz.figures.base import Figure, FigureFacts, Views, edited, subtitles, text_array

LEAST = 0.05
"""Least end of the color scale of differences; larger differences set the end of the scale."""

LONGEST_LABEL, LONGEST_EDITS, LONGEST_TEXT = 14, 16, 90
"""Most code points of a token's label, of the edits over a map, and of an input text under the title."""

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


@dataclass(frozen=True, eq=False)
class Difference(Figure):
    """Maps in a row: A - B first, because a phone shows only the first, then the total variation per row, A, and B.

    A click selects a cell under the name "cell" with the fields query, key and rev: row and column of the common grid.

    Attributes:
        comparison: aligned maps from `analysis.align.beside`.
    """

    comparison: AlignedPair

    is_map = True

    def facts(self) -> FigureFacts:
        both = self.comparison
        names = (f"{side.record.source} {side.site.kind[0]}{side.site.short(side.head)}" for side in self._sides)
        a, b = (f"{name} {_text(side)[:16]}" for name, side in zip(names, self._sides, strict=True))
        return FigureFacts(
            heading=title_of(both),
            notes=lines_of(both),
            name=file_stem("compared", a, "with", b, end=edited(both.a.record.edits)),
            table=partial(tables.comparison_table, both),
            words=partial(sentences.compared, both),
            arrays=self._arrays,
        )

    def _arrays(self) -> dict[str, np.ndarray]:
        tile = self.comparison.tile
        numbers = [numbers for numbers, _ in self.comparison.tiled(tile)]
        arrays = dict(zip(("a", "b", "difference"), numbers, strict=True)) | {"variation": self.comparison.variation}
        for axis, what in enumerate(("query", "key")):
            for end, name in enumerate("ab"):
                texts = ["" if both[end] is None else both[end].text for both in self._tokens[axis]]
                arrays[f"{what}_tokens_{name}"] = text_array(texts)
        return arrays | ({"cells_per_side_of_tile": np.array(tile)} if tile > 1 else {})

    def draw(self) -> Views:
        a, b, difference = self.grids
        form = together([[difference, a, b]], self.style, has_params=difference.is_rectangles)
        scales = zip(("weights", "differences"), self._scales, strict=True)
        ends = [f"colors of {what} end at {scale.top:.2g}" for what, scale in scales if scale.top < 1]
        lines = [*lines_of(self.comparison), ", ".join(ends)]
        meta = heading(title_of(self.comparison), lines, 3 * self.size.width + 100, self)
        return Views(form, a.data | b.data | difference.data | {"meta": meta}, difference.read)

    @property
    def size(self) -> Size:
        return size_beside(len(self.comparison.rows), len(self.comparison.columns))

    @cached_property
    def grids(self) -> tuple[Grid, Grid, Grid]:
        """Grids of A, B and A - B; A - B is drawn first."""
        size, (weights, differences) = self.size, self._scales
        selected = self.comparison.most_cell if self.selected is None and self.on_screen else self.selected
        kinds = [
            np.select([states == BLOCKED, states == BLANK, np.isnan(part), part > 0, part < 0], [3, 4, 5, 1, 2])
            for part, states in self._tiles
        ]
        names = zip(("a", "b", "difference"), self._tiles, self._texts, ("A", "B", "A − B"), strict=True)
        shared = {
            "size": size,
            "kinds": KINDS,
            "style": replace(self, heading=None, selected=selected),
            "numbers": [Number(name, numbers, texts, title) for name, (numbers, _), texts, title in names],
            "texts": [KINDS[kind].text for kind in kinds[2].ravel().tolist()],
        }
        ends, diverging = (f" {MORE[0]}", f" {MORE[1]}"), self.colors.diverging
        ramp = Ramp("difference A − B", differences.top, diverging, signed=True, ends=ends)
        grays = [
            gray_ramp(self.colors) if side.head in side.step.heads_off else self.colors.ramp for side in self._sides
        ]
        own = (
            {"ramp": weights.legend(self.colors), "palette": grays[0], "signs": ()},
            {"palette": grays[1], "signs": [KINDS[i] for i in np.unique(kinds[:2]).tolist()]},
            {"ramp": ramp, "signs": (), "ends": [self._per_row()]},
        )
        return tuple(
            Grid(
                title=names_of(self.comparison)[end],
                lines=[self._selected_text(end, selected)],
                rows=self._side(0, end),
                columns=self._side(1, end),
                states=kinds[end],
                shade=ramp.shade(numbers) if end == 2 else np.nan_to_num(numbers) / weights.top,
                prefix=f"{'abd'[end]}-",
                **shared,
                **own[end],
            )
            for end, (numbers, _) in enumerate(self._tiles)
        )

    def _per_row(self) -> RowEnd:
        """Total variation of each row, or the largest of each tile of rows."""
        tile, rows = self.size.tile, len(self.comparison.rows)
        moved = np.repeat(largest_in_size(self.comparison.variation[:, None], tile)[:, 0], tile)[:rows].tolist()
        texts = ["–" if math.isnan(value) else f"{value:.2f}" for value in moved]
        return RowEnd("note", "per row", texts, [self.colors.text] * rows)

    def _side(self, axis: int, end: int) -> GridSide:
        """Make the rows or columns of A (0), B (1) or A - B (2); only the first map, A - B, has labels of rows."""
        both, pairs = self._tokens[axis], (self.comparison.rows, self.comparison.columns)[axis]
        labels = () if axis == 0 and end < 2 else [*map(_label, both)]
        names = [*map(_place_name, both, pairs)][:: self.size.tile]
        tokens = groups([_token(pair, end) for pair in both])
        return GridSide(tokens, (QUERY, KEY)[axis], ("query", "key")[axis], labels, names)

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self.comparison.a, self.comparison.b

    @cached_property
    def _tokens(self) -> tuple[list[Both], list[Both]]:
        """Tokens of A and B at each row, and at each column."""
        a, b = (side.tokens for side in self._sides)
        each = zip(a, b, (self.comparison.rows, self.comparison.columns), strict=True)
        return tuple(
            [(None if i is None else in_a[i], None if j is None else in_b[j]) for i, j in places]
            for in_a, in_b, places in each
        )

    @cached_property
    def _tiles(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Numbers and states of the cells, or tiles, of A, B and A - B."""
        return self.comparison.tiled(self.size.tile)

    @cached_property
    def _texts(self) -> list[list[str]]:
        """Texts of the cells of A, B and A - B, with the same number of digits in all three."""
        places = sentences.digits_of(*(numbers for numbers, _ in self._tiles)).ravel().tolist()
        texts = []
        for end, (numbers, states) in enumerate(self._tiles):
            cells = zip(numbers.ravel().tolist(), states.ravel().tolist(), places, strict=True)
            texts.append([WITHOUT.get(state) or _signed_text(value, digit, end == 2) for value, state, digit in cells])
        return texts

    def _selected_text(self, end: int, cell: Sequence[int] | int | None) -> str:
        """Return the text of the selected cell; a blank if no cell is selected."""
        if not isinstance(cell, Sequence):
            return " "
        row, column = (place // self.size.tile for place in cell)
        value, text = self._tiles[end][0][row, column], self._texts[end][row * self.size.columns + column]
        return f"{text} {MORE[bool(value > 0)]}" if end == 2 and abs(value) > 0 else text

    @cached_property
    def _scales(self) -> tuple[Domain, Domain]:
        """Color domains of weights and of differences: 0 to 1, or up to the largest number if 0 to 1 is too faint."""
        faint = 1 if max(len(self.comparison.rows), len(self.comparison.columns)) > CROWDED else FAINT
        tops = [float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)) for numbers, _ in self._tiles]
        largest = max(tops[:2]), max(tops[2], LEAST)
        return tuple(Domain("adapts", top) if 0 < top < faint else Domain() for top in largest)


WITHOUT = {BLOCKED: "blocked", BLANK: "blank"}
"""Texts of cells without a number."""


def _signed_text(value: float, places: int, plus: bool) -> str:
    """Format a number with its sign."""
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
    """Return lines with both texts, the origin of the weights, the edits, and the parts that are not drawn."""
    size = size_beside(len(comparison.rows), len(comparison.columns))
    sides, lines = (comparison.a, comparison.b), []
    texts = [visible_text(_text(side), LONGEST_TEXT).replace("␣", " ") for side in sides]
    for a, b in (texts, [" · ".join(filter(None, subtitles(side.record))) for side in sides]):
        lines += [a] if a == b else [f"A: {a}", f"B: {b}"]
    return [*lines, *filter(None, [sentences.window_text(comparison)]), MEASURE, *axes.notes_on(size, TILES)]


def _text(side: Side) -> str:
    return side.record.sentences[side.sentence].text


def _label(both: Both) -> str:
    """Return the label of a row or column: "cat → dog", or "down (B)" if only B has the token."""
    texts = [None if token is None else axes.short(token.text, LONGEST_LABEL) for token in both]
    alone = next((f" ({side})" for side, text in zip("BA", texts, strict=True) if text is None), "")
    return " → ".join(dict.fromkeys(text for text in texts if text is not None)) + alone


def _token(both: Both, end: int) -> Token:
    """Return the token of a row or column, marked as special if only one map has it."""
    there = [token for token in both if token is not None]
    token = there[0] if end == 2 or both[end] is None else both[end]
    return replace(token, special=len(there) == 1 or all(other.special for other in there))


def _place_name(both: Both, pair: Pair) -> str:
    """Name a row or column of the common grid: "cat (1) → dog (1)", or "cat (1), only in A"."""
    each = [f"{visible_text(token.text)} ({i})" for token, i in zip(both, pair, strict=True) if token is not None]
    if len(each) == 1:
        return f"{each[0]}, only in {'A' if both[1] is None else 'B'}"
    return " → ".join(dict.fromkeys(each))
