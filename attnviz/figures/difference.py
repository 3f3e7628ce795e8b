"""Two maps and what the first has more than the second: three maps in a row, and how far each row differs."""

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
from attnviz.charts import axes, pixels
from attnviz.charts.domain import CROWDED, FAINT, NOT_A_NUMBER, Domain
from attnviz.charts.grid import Grid
from attnviz.charts.grid_form import together
from attnviz.charts.legends import Ramp, heading, text_width
from attnviz.charts.marks import Spec, Table, field, layer, pixels_at, places
from attnviz.charts.signs import CellState
from attnviz.charts.size import Size, size_beside
from attnviz.charts.theme import TITLE_CHARACTER, Theme
from attnviz.core.amounts import decimals, digits
from attnviz.core.display import file_stem, in_title, visible_text
from attnviz.core.tokens import Token
from attnviz.figures.base import Figure, FigureFacts, Views, edited, subtitles, text_array

BAR, THIN, NUMBERED, TITLE = 90, 5, 13, 250
"""Pixels: the longest bar of a row, rows that have gaps between bars, rows that have numbers, and a map's name."""

LEAST = 0.05
"""The differences of largest size are at the end of the scale, but if they are smaller than this."""

AFTER = " after step "
"""In the name of a source, between the model and the step of its training."""

LONGEST_LABEL, LONGEST_EDITS, LONGEST_TEXT = 14, 16, 90
"""Code points of a token beside its row, of what was changed over a map, and of a sentence under the title."""

MEASURE = (
    "difference per row: total variation, half the sum of the sizes of its differences, from 0 (alike) to 1 (apart)"
)

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
"""States of a cell; blank cells have upright strokes, unlike blocked ones."""

Both = tuple[Token | None, Token | None]
"""The tokens of A and of B at a row or a column."""


@dataclass(frozen=True, eq=False)
class Difference(Figure):
    """A - B, the total variation of each row, A and B, in this order: a phone shows the first.

    A click selects a cell under the name "cell" with the fields query, key and rev: row and column of the grid of both.

    Attributes:
        comparison: from `analysis.align.beside`.
    """

    comparison: AlignedPair

    is_map = True

    def facts(self) -> FigureFacts:
        both = self.comparison
        names = (f"{side.record.source} {side.site.kind[0]}{side.site.short(side.head)}" for side in self._sides)
        a, b = (f"{name} {_text(side)[:16]}" for name, side in zip(names, self._sides, strict=True))
        return FigureFacts(
            title=" · ".join([title_of(both), *lines_of(both)]),
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
        views = [[difference, _bars_view(self.size, self.colors), a, b]]
        form = together(views, self.style, has_params=difference.is_rectangles)
        width = 3 * (self.size.width + axes.PADDING) + BAR
        scales = zip(("weights", "differences"), self._scales, strict=True)
        ends = [f"colors of {what} end at {scale.top:.2g}" for what, scale in scales if scale.top < 1]
        lines = [*lines_of(self.comparison), ", ".join(ends)]
        meta = heading(title_of(self.comparison), lines, width, self)
        return Views(form, a.data | b.data | difference.data | {"meta": meta, "bars": self._bars()}, difference.read)

    @property
    def size(self) -> Size:
        return size_beside(len(self.comparison.rows), len(self.comparison.columns))

    @cached_property
    def grids(self) -> tuple[Grid, Grid, Grid]:
        """A, B and A - B; the last is drawn first, with the labels of the rows."""
        size, tokens, titles = self.size, self._tokens, names_of(self.comparison)
        selected = self.comparison.most_cell if self.selected is None and self.on_screen else self.selected
        kinds, (weights, differences) = [_kinds(*tiled) for tiled in self._tiled], self._scales
        scales = zip(self._tiled, (weights, weights, differences), strict=True)
        shades = [np.nan_to_num(numbers) / scale.top for (numbers, _), scale in scales]
        shades[2] = (shades[2] + 1) / 2
        ends = f" {MORE[0]}", f" {MORE[1]}"
        signed = Ramp("difference A − B", differences.top, self.colors.diverging, signed=True, ends=ends)
        ramps = weights.legend(self.colors), None, signed
        labels = [[[_label(both, end) for both in axis] for axis in tokens] for end in range(3)]
        widest = max(text_width(label) for _, over in labels for label in over[:: size.every * size.tile])
        same_rows = all(a and b and a.text == b.text for a, b in tokens[0])
        numbers = zip((numbers for numbers, _ in self._tiled), self._texts, strict=True)
        longest = int(max(size.width, TITLE) / TITLE_CHARACTER)
        places = zip(tokens, (self.comparison.rows, self.comparison.columns), strict=True)
        shared = {
            "size": size,
            "kinds": KINDS,
            "style": replace(self, heading=None, selected=selected),
            "numbers": dict(zip(("a", "b", "difference"), numbers, strict=True)),
            "cell_texts": [KINDS[kind].text for kind in kinds[2].ravel().tolist()],
            "called": tuple([*map(_named, *axis)][:: size.tile] for axis in places),
            "extent": 8 * math.ceil(widest / 8) if widest > size.cell - 4 else 0,
        }
        return tuple(
            Grid(
                title=titles[end] if len(titles[end]) <= longest else f"{titles[end][: longest - 1]}…",
                lines=[self._selected_text(end, selected)],
                rows=groups([_token(both, end) for both in tokens[0]]),
                columns=groups([_token(both, end) for both in tokens[1]]),
                states=kinds[end],
                shade=shades[end],
                ramp=ramps[end],
                palette=self._gray(end),
                labels=tuple(labels[end]),
                prefix=f"{'abd'[end]}-",
                is_labeled=end == 2 or not same_rows,
                signs=[KINDS[i] for i in np.unique(kinds[:2]).tolist()] if end == 1 else (),
                **shared,
            )
            for end in range(3)
        )

    def _gray(self, end: int) -> tuple[str, ...] | None:
        """The ramp without colors, for a head that is off."""
        is_off = end < 2 and self._sides[end].head in self._sides[end].step.heads_off
        return pixels.gray_ramp(self.colors) if is_off else None

    @property
    def _sides(self) -> tuple[Side, Side]:
        return self.comparison.a, self.comparison.b

    @cached_property
    def _tokens(self) -> tuple[list[Both], list[Both]]:
        """The tokens of A and of B at each row, and at each column."""
        a, b = (side.tokens for side in self._sides)
        each = zip(a, b, (self.comparison.rows, self.comparison.columns), strict=True)
        return tuple(
            [(None if i is None else in_a[i], None if j is None else in_b[j]) for i, j in places]
            for in_a, in_b, places in each
        )

    @cached_property
    def _tiled(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Numbers and states of the squares of A, B and their difference."""
        return self.comparison.tiled(self.size.tile)

    @cached_property
    def _texts(self) -> list[list[str]]:
        """Texts of all cells, with the same digits in A, in B and in their difference."""
        numbers = [numbers for numbers, _ in self._tiled]
        places = np.full(numbers[0].shape, 4) if self.size.tile > 1 else sentences.digits_of(*numbers)
        cells = (zip(*(part.ravel().tolist() for part in (*tiled, places)), strict=True) for tiled in self._tiled)
        return [[_text_of(*cell, signed=end == 2) for cell in every] for end, every in enumerate(cells)]

    def _selected_text(self, end: int, cell: Sequence[int] | int | None) -> str:
        """The number of the selected cell, if one is."""
        if not isinstance(cell, Sequence):
            return " "
        row, column = (place // self.size.tile for place in cell)
        value, text = self._tiled[end][0][row, column], self._texts[end][row * self.size.columns + column]
        return f"{text} {MORE[bool(value > 0)]}" if end == 2 and abs(value) > 0 else text

    @cached_property
    def _scales(self) -> tuple[Domain, Domain]:
        """Color domains of A and B, and of the difference: those of every two maps, unless they are too faint."""
        faint = 1 if max(len(self.comparison.rows), len(self.comparison.columns)) > CROWDED else FAINT
        tops = [float(np.abs(numbers[np.isfinite(numbers)]).max(initial=0.0)) for numbers, _ in self._tiled]
        largest = max(tops[:2]), max(tops[2], LEAST)
        return tuple(Domain("adapts", top) if 0 < top < faint else Domain() for top in largest)

    def _bars(self) -> Table:
        """How far each row differs, 0 to 1; written if the cell is large enough, with a dash for NaN."""
        moved, cell = largest_in_size(self.comparison.variation[:, None], self.size.tile)[:, 0].tolist(), self.size.cell
        inset = max(0.0, 0.5 - 6 / cell, 2 / cell) if cell >= THIN else 0.0
        texts = ["–" if math.isnan(value) else f"{value:.2f}" for value in moved]
        return {
            "begin": [i + inset for i in range(len(moved))],
            "end": [i + 1 - inset for i in range(len(moved))],
            "middle": [i + 0.5 for i in range(len(moved))],
            "value": [0.0 if math.isnan(value) else value for value in moved],
            "text": texts if cell >= NUMBERED else [""] * len(texts),
        }


def _bars_view(size: Size, colors: Theme) -> Spec:
    """Bars of how far each row differs, which share the rows of the map before them."""
    down = places(size.rows, reverse=True)
    axis = {"orient": "top", "title": "difference per row", "labels": False, "titleAnchor": "start"}
    length = places(1, axis) | {"field": "value"}
    bar = {"y": down | {"field": "begin"}, "y2": {"field": "end"}, "x": length, "x2": {"datum": 0}}
    text = {"y": down | {"field": "middle"}, "x": length, "text": field("text")}
    layers = [
        layer("bars", "rect", bar, fill=colors.ramp[5]),
        layer("bars", "text", text, align="left", baseline="middle", dx=6),
        layer("meta", "rule", {"x": pixels_at(0)}, stroke=colors.line),
    ]
    return {"layer": layers, "width": BAR, "height": size.height}


def _kinds(numbers: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Which of `KINDS` each cell is."""
    return np.select([states == BLOCKED, states == BLANK, np.isnan(numbers), numbers > 0, numbers < 0], [3, 4, 5, 1, 2])


def _text_of(value: float, state: int, places: int, *, signed: bool) -> str:
    """Text of a cell."""
    if state in (BLOCKED, BLANK):
        return "blocked" if state == BLOCKED else "blank"
    plus, size = "+" if signed and value > 0 else "", digits(value) if places == 4 else decimals(abs(value), places)
    return f"{'−' if value < 0 else plus}{size.removeprefix('−')}"


def title_of(comparison: AlignedPair) -> str:
    """Title of the figure, which begins with constant words."""
    names = [f"{_head(side)} · {in_title(side.record.source)}" for side in (comparison.a, comparison.b)]
    return f"A and B compared · {names[0] if names[0] == names[1] else f'A: {names[0]} · B: {names[1]}'}"


def _head(side: Side) -> str:
    """One side in short: "head 2 of cross layer 1"."""
    if isinstance(side.head, int):
        return side.site.head(side.head)
    return f"{side.head} of {all_heads(side.step)} · {side.site}"


def _features(side: Side) -> tuple[str, ...]:
    """Things in which two sides can differ: model, training step, head, text, edits."""
    model, _, step = side.record.source.partition(AFTER)
    if step:
        step = f"step {step}" if step.strip("0") else "untrained"
    head = side.site.head(side.head) if isinstance(side.head, int) else f"{side.head} of {side.site}"
    edits = ", ".join(side.record.edits.in_words()) or "original"
    return model, step or "trained", head, _text(side), edits if len(edits) <= LONGEST_EDITS else "changed"


def names_of(comparison: AlignedPair) -> tuple[str, str, str]:
    """Titles of the maps, by the first thing in which they differ: "A: trained", "B: untrained"."""
    sides = comparison.a, comparison.b
    pairs = zip(*map(_features, sides), strict=True)
    names = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
    if names == tuple(map(_text, sides)) and all(names):  # from the first word that differs: there is no room for all
        texts = [text.split() for text in names]
        differs = (i for i, pair in enumerate(zip(*texts, strict=False)) if len({*pair}) > 1)
        first = next(differs, min(map(len, texts)) - 1)
        names = names if first < 1 else tuple(f"… {' '.join(text[first:])}" for text in texts)
    a, b = (in_title(name) if name else "" for name in names)
    return f"A: {a}" if a else "A", f"B: {b}" if b else "B", "Difference A − B"


def lines_of(comparison: AlignedPair) -> list[str]:
    """Both texts, where the weights come from, what was changed, and what a picture leaves out."""
    size = size_beside(len(comparison.rows), len(comparison.columns))
    sides, lines = (comparison.a, comparison.b), []
    texts = [visible_text(_text(side), LONGEST_TEXT).replace("␣", " ") for side in sides]
    for a, b in (texts, [" · ".join(filter(None, subtitles(side.record))) for side in sides]):
        lines += [a] if a == b else [f"A: {a}", f"B: {b}"]
    return [*lines, *filter(None, [sentences.window_text(comparison)]), MEASURE, *axes.notes_on(size, TILES)]


def _text(side: Side) -> str:
    return side.record.sentences[side.sentence].text


def _label(both: Both, end: int) -> str:
    """Label of a row or of a column of A, B or their difference."""
    texts = [None if token is None else visible_text(token.text, LONGEST_LABEL) for token in both]
    if end < 2:
        return texts[end] or ""
    alone = next((f" ({side})" for side, text in zip("BA", texts, strict=True) if text is None), "")
    return " → ".join(dict.fromkeys(text for text in texts if text is not None)) + alone


def _token(both: Both, end: int) -> Token:
    """The token of a row or column; it stands back where only one map has it."""
    there = [token for token in both if token is not None]
    token = there[0] if end == 2 or both[end] is None else both[end]
    return replace(token, special=len(there) == 1 or all(other.special for other in there))


def _named(both: Both, pair: Pair) -> str:
    """A place of the grid: "cat (1) → dog (1)", or "cat (1), only in A"."""
    each = [f"{visible_text(token.text)} ({i})" for token, i in zip(both, pair, strict=True) if token is not None]
    if len(each) == 1:
        return f"{each[0]}, only in {'A' if both[1] is None else 'B'}"
    return " → ".join(dict.fromkeys(each))
