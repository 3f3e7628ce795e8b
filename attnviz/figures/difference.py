"""Two maps and what the first has more than the second: three maps in a row, and how far each row differs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from attnviz import tables, words
from attnviz.charts import axes, grid, readout
from attnviz.charts.domain import CROWDED, FAINT, NOT_A_NUMBER, Domain
from attnviz.charts.grid import Grid, GridLayout
from attnviz.charts.interaction import QUIET_MARK, clicked, pointed, share
from attnviz.charts.legends import Ramp
from attnviz.charts.picture import Form, Table, formed, together
from attnviz.charts.size import Size, size_beside
from attnviz.charts.state import CellState
from attnviz.charts.texts import heading, text_width, titled
from attnviz.charts.theme import TITLE_CHARACTER, config
from attnviz.core.amounts import decimals, digits
from attnviz.core.display import file_stem, in_title, visible_text
from attnviz.core.tokens import Token
from attnviz.figures.base import Figure
from attnviz.figures.figure import edited, subtitles, text_array
from attnviz.metrics import BLOCKED
from attnviz.metrics.beside import BLANK, AlignedPair, Side, tiles
from attnviz.views import groups
from attnviz.words import all_heads

BAR = 90
"""Pixels of the bar of a row that moved as far as can be."""

THIN, NUMBERED = 5, 13
"""Pixels of rows at least that have gaps between their bars, and numbers."""

TITLE = 250
"""Pixels that the name of a map has at least."""

LEAST = 0.05
"""The differences of largest size are at the end of the scale, but if they are smaller than this."""

AFTER = " after step "
"""In the name of a source, between the model and the step of its training."""

LONGEST_LABEL, LONGEST_EDITS, LONGEST_TEXT = 14, 16, 90
"""Code points of a token beside its row, of what was changed over a map, and of a sentence under the title."""

NAMES = "A", "B", "Difference A − B"

PER_ROW = "difference per row"
"""Title of the bars."""

MEASURE = (
    "difference per row: total variation, half the sum of the sizes of its differences, from 0 (alike) to 1 (apart)"
)

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

ALIKE, IN_A, IN_B, BLOCKED_IN_BOTH, ALONE, NAN = range(6)


@dataclass(frozen=True, eq=False)
class Difference(Figure):
    """A - B, the total variation of each row, A and B; a screen says elsewhere what it shows.

    The difference is the first, so that it is what a phone shows.

    A click selects a cell under the name "cell" with the fields query, key and rev: row and column of the grid of both.

    Attributes:
        comparison: from `metrics.beside.beside`.
    """

    comparison: AlignedPair

    is_map = True

    @cached_property
    def name(self) -> str:
        comparison = self.comparison
        end = edited(comparison.a.record.edits)
        return file_stem("compared", _stem(comparison.a), "with", _stem(comparison.b), end=end)

    @cached_property
    def title(self) -> str:
        return " · ".join([title_of(self.comparison), *lines_of(self.comparison)])

    @cached_property
    def description(self) -> str:
        return words.compared(self.comparison)

    @cached_property
    def table(self) -> pd.DataFrame:
        return tables.comparison_table(self.comparison)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return _arrays(self.comparison)

    @property
    def form(self) -> Form:
        return _form(tuple(panel.layout for panel in self.grids), is_titled=not self.on_screen)

    @cached_property
    def data(self) -> dict[str, Table]:
        width = 3 * (self.size.width + axes.PADDING) + BAR
        tops = {"weights": self._scale.top, "differences": self._signed.top}
        ends = [f"colors of {what} end at {top:.2g}" for what, top in tops.items() if top < 1]
        lines = [*lines_of(self.comparison, self.size), ", ".join(ends)]
        meta = {"meta": heading(title_of(self.comparison), lines, width, self)}
        return (
            {name: table for panel in self.grids for name, table in panel.data.items()} | meta | {"bars": self._bars()}
        )

    @property
    def size(self) -> Size:
        return size_beside(len(self.comparison.rows), len(self.comparison.columns))

    @cached_property
    def grids(self) -> tuple[Grid, Grid, Grid]:
        """A, B and A - B; the last is drawn first, with the labels of the rows."""
        comparison, size = self.comparison, self.size
        style = replace(self, heading=None, selected=comparison.most_cell if self._outlined else self.selected)
        numbers = dict(zip(("a", "b", "difference"), zip(self._numbers, self._texts, strict=True), strict=True))
        kinds = [_kinds(*tiled) for tiled in self._tiled]
        signs = [KINDS[i] for i in np.unique(kinds[:2]).tolist()]
        labels = [[[_label(*part, end) for part in self._places(axis)] for axis in range(2)] for end in range(3)]
        widest = max(text_width(label) for _, over in labels for label in over[:: size.every * size.tile])
        ramps = self._scale.legend(self.colors), None, self._signed_ramp
        return tuple(
            Grid(
                title=self._title(end),
                lines=[self._selected_text(end, style.selected)],
                rows=groups([_token(pair, end, comparison, 0) for pair in comparison.rows]),
                columns=groups([_token(pair, end, comparison, 1) for pair in comparison.columns]),
                size=size,
                states=kinds[end],
                kinds=KINDS,
                style=style,
                shade=self._shade(end),
                ramp=ramps[end],
                gray=end < 2 and self._is_off(end),
                numbers=numbers,
                cell_texts=[KINDS[kind].text for kind in kinds[2].ravel().tolist()],
                labels=tuple(labels[end]),
                called=tuple([in_words(*part) for part in self._places(axis)[:: size.tile]] for axis in range(2)),
                prefix=f"{'abd'[end]}-",
                is_labeled=end == 2 or not comparison.queries.same,
                extent=8 * math.ceil(widest / 8) if widest > size.cell - 4 else 0,
                signs=signs if end == 1 else (),
            )
            for end in range(3)
        )

    def _screen(self) -> tuple[dict[str, Any], Table | None]:
        last = self.grids[2]
        return super()._screen() if last.is_rectangles else readout.screen(last, self.form, self.data)

    @property
    def _outlined(self) -> bool:
        """Whether the cell that differs most is outlined, because none is selected."""
        return self.selected is None and self.on_screen

    def _places(self, axis: int) -> list[tuple]:
        """The tokens of A and B, and where each row (axis 0) or column stands in them."""
        tokens = self.comparison.a.tokens[axis], self.comparison.b.tokens[axis]
        return [(tokens, pair) for pair in (self.comparison.rows, self.comparison.columns)[axis]]

    @cached_property
    def _tiled(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Numbers and states of the squares of A, B and their difference."""
        return self.comparison.tiled(self.size.tile)

    @property
    def _numbers(self) -> tuple[np.ndarray, ...]:
        return tuple(numbers for numbers, _ in self._tiled)

    @cached_property
    def _texts(self) -> list[list[str]]:
        """Texts of all cells, with the same digits in A, in B and in their difference."""
        places = np.full(self._numbers[0].shape, 4) if self.size.tile > 1 else words.digits_of(*self._numbers)
        cells = (zip(*(part.ravel().tolist() for part in (*tiled, places)), strict=True) for tiled in self._tiled)
        return [[_read(*cell, signed=end == 2) for cell in every] for end, every in enumerate(cells)]

    def _selected_text(self, end: int, cell: Sequence[int] | int | None) -> str:
        """The number of the selected cell, if one is."""
        if not isinstance(cell, Sequence):
            return " "
        row, column = (place // self.size.tile for place in cell)
        value, text = self._numbers[end][row, column], self._texts[end][row * self.size.columns + column]
        return f"{text} {MORE[bool(value > 0)]}" if end == 2 and abs(value) > 0 else text

    def _title(self, end: int) -> str:
        name, longest = names_of(self.comparison)[end], int(max(self.size.width, TITLE) / TITLE_CHARACTER)
        return name if len(name) <= longest else f"{name[: longest - 1]}…"

    @cached_property
    def _scale(self) -> Domain:
        """Color domain of A and B, the same for both."""
        return self._domain(_largest(*self._numbers[:2]))

    @cached_property
    def _signed(self) -> Domain:
        """Color domain of the difference: the same for every two maps, unless it is too faint to be seen."""
        return self._domain(max(_largest(self._numbers[2]), LEAST))

    def _domain(self, largest: float) -> Domain:
        crowded = max(len(self.comparison.rows), len(self.comparison.columns)) > CROWDED
        limit = 1 if crowded else FAINT
        return Domain("adapts", largest) if 0 < largest < limit else Domain()

    @property
    def _signed_ramp(self) -> Ramp:
        ends = f" {MORE[0]}", f" {MORE[1]}"
        return Ramp("difference A − B", self._signed.top, self.colors.diverging, signed=True, ends=ends)

    def _shade(self, end: int) -> np.ndarray:
        numbers = np.nan_to_num(self._numbers[end])
        return (numbers / self._signed.top + 1) / 2 if end == 2 else numbers / self._scale.top

    def _is_off(self, end: int) -> bool:
        side = (self.comparison.a, self.comparison.b)[end]
        return side.head in side.record.step(side.site).heads_off

    def _bars(self) -> Table:
        """How far each row differs, 0 to 1; its number where there is room for it, a dash where it has none."""
        moved, cell = tiles(self.comparison.variation[:, None], self.size.tile)[:, 0].tolist(), self.size.cell
        inset = max(0.0, 0.5 - 6 / cell, 2 / cell) if cell >= THIN else 0.0
        texts = ["–" if value != value else f"{value:.2f}" for value in moved]
        return {
            "begin": [i + inset for i in range(len(moved))],
            "end": [i + 1 - inset for i in range(len(moved))],
            "middle": [i + 0.5 for i in range(len(moved))],
            "value": [0.0 if value != value else value for value in moved],
            "text": texts if cell >= NUMBERED else [""] * len(texts),
        }


@formed(64)
def _form(layouts: tuple[GridLayout, GridLayout, GridLayout], *, is_titled: bool) -> Form:
    colors = layouts[0].colors
    a, b, difference = map(grid.view, layouts)
    views = [difference, _bars_view(layouts[0]), a, b]
    names = [f"{layout.prefix}cells" for layout in layouts if layout.size.form == "rectangles"]
    params = share(names, clicked("cell", "query", "key", "rev"), pointed()) if names else ()
    chart = together(views, params, titled(colors) if is_titled else None)
    return Form.of(chart.configure(**config(colors)))


def _bars_view(layout: GridLayout) -> alt.LayerChart:
    """The bars of the rows, which share the axis of the maps' rows."""
    size, colors = layout.size, layout.colors
    scale = alt.Scale(domain=[0, size.rows], nice=False, zero=False, reverse=True)
    across = alt.Scale(domain=[0, 1], nice=False)
    rows = alt.Chart(alt.NamedData("bars"))
    y = alt.Y("begin:Q", scale=scale, axis=None)
    axis = alt.Axis(orient="top", title=PER_ROW, labels=False, titleAnchor="start")
    length = alt.X("value:Q", scale=across, axis=axis)
    text = rows.mark_text(align="left", baseline="middle", dx=6, **QUIET_MARK)
    layers = [
        rows.mark_rect(fill=colors.ramp[5], **QUIET_MARK).encode(y=y, y2=alt.Y2("end"), x=length, x2=alt.X2Datum(0)),
        text.encode(y=alt.Y("middle:Q", scale=scale, axis=None), x=length, text=alt.Text("text:N")),
        alt.Chart(alt.NamedData("meta")).mark_rule(stroke=colors.line, **QUIET_MARK).encode(x=alt.XValue(0)),
    ]
    return alt.layer(*layers, width=BAR, height=size.height)


def _kinds(numbers: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Which of `KINDS` each cell is."""
    cases = [states == BLOCKED, states == BLANK, np.isnan(numbers), numbers > 0, numbers < 0]
    return np.select(cases, [BLOCKED_IN_BOTH, ALONE, NAN, IN_A, IN_B], ALIKE)


def _read(value: float, state: int, places: int, *, signed: bool) -> str:
    """Text of a cell."""
    if state in (BLOCKED, BLANK):
        return "blocked" if state == BLOCKED else "blank"
    sign = ""
    if value < 0:
        sign = "−"
    elif value > 0 and signed:
        sign = "+"
    return f"{sign}{digits(value).removeprefix('−') if places == 4 else decimals(abs(value), places)}"


def _largest(*numbers: np.ndarray) -> float:
    return max(float(np.abs(part[np.isfinite(part)]).max(initial=0.0)) for part in numbers)


def _stem(side: Side) -> str:
    text = side.record.sentences[side.sentence].text
    return f"{side.record.source} {side.site.kind[0]}{side.site.layer} {side.head} {text[:16]}"


def _arrays(comparison: AlignedPair) -> dict[str, np.ndarray]:
    tile = size_beside(len(comparison.rows), len(comparison.columns)).tile if comparison.is_long else 1
    numbers = [numbers for numbers, _ in comparison.tiled(tile)]
    arrays = {"difference": numbers[2], "variation": comparison.variation}
    if tile > 1:
        arrays["cells_per_side_of_tile"] = np.array(tile)
    for end, (side, name) in enumerate(((comparison.a, "a"), (comparison.b, "b"))):
        arrays[name] = numbers[end]
        for axis, what, places in ((0, "query", comparison.rows), (1, "key", comparison.columns)):
            texts = ["" if pair[end] is None else side.tokens[axis][pair[end]].text for pair in places]
            arrays[f"{what}_tokens_{name}"] = text_array(texts)
    return arrays


def title_of(comparison: AlignedPair) -> str:
    """Title of the figure, which begins with constant words."""
    names = [called(side) for side in (comparison.a, comparison.b)]
    return f"A and B compared · {names[0] if names[0] == names[1] else f'A: {names[0]} · B: {names[1]}'}"


def called(side: Side) -> str:
    """One side in short: "head 2 of cross layer 1 · translator"."""
    step = side.record.step(side.site)
    combined = f"{side.head} of {all_heads(step)} · {side.site}"
    what = side.site.head(side.head) if isinstance(side.head, int) else combined
    return f"{what} · {in_title(side.record.source)}"


def _step(side: Side) -> str:
    """Training step of a model trained here, in words."""
    _, _, step = side.record.source.partition(AFTER)
    if not step:
        return "trained"
    return f"step {step}" if step.strip("0") else "untrained"


def _edits(side: Side) -> str:
    """Edits of a side, if they are short enough to stand over a map."""
    text = ", ".join(side.record.edits.in_words()) or "original"
    return text if len(text) <= LONGEST_EDITS else "changed"


def _text(side: Side) -> str:
    return side.record.sentences[side.sentence].text


def _from_difference(*texts: str) -> tuple[str, ...]:
    """Two texts from the first word in which they differ: there is no room for all, and both may begin alike."""
    words = [text.split() for text in texts]
    same = next((i for i, (a, b) in enumerate(zip(*words, strict=False)) if a != b), min(map(len, words)) - 1)
    return texts if same < 1 else tuple(f"… {' '.join(each[same:])}" for each in words)


APART = (
    lambda side: side.record.source.partition(AFTER)[0],
    _step,
    lambda side: f"{side.head} of {side.site}" if isinstance(side.head, str) else side.site.head(side.head),
    _text,
    _edits,
)
"""Names for A and B: the first of these that differs is used (model, training step, head, text, edits)."""


def told_apart(a: Side, b: Side) -> tuple[str, str] | None:
    """Names of two sides, by that in which they differ; None if they do not."""
    each = ((say(a), say(b)) for say in APART)
    apart = next((pair for pair in each if pair[0] != pair[1]), None)
    if apart == (_text(a), _text(b)):
        apart = _from_difference(*apart)
    return apart and (in_title(apart[0]), in_title(apart[1]))


def names_of(comparison: AlignedPair) -> tuple[str, str, str]:
    """Titles of the maps: "A: trained", "B: untrained"."""
    apart = told_apart(comparison.a, comparison.b)
    named = (f"{name}: {text}" for name, text in zip(NAMES[:2], apart, strict=True)) if apart else NAMES[:2]
    return (*named, NAMES[2])


def lines_of(comparison: AlignedPair, size: Size | None = None) -> list[str]:
    """Both texts, where the weights come from, what was changed, and what a picture leaves out."""
    size = size or size_beside(len(comparison.rows), len(comparison.columns))
    sides = comparison.a, comparison.b
    texts = [visible_text(side.record.sentences[side.sentence].text, LONGEST_TEXT).replace("␣", " ") for side in sides]
    origins = [" · ".join(filter(None, subtitles(side.record))) for side in sides]
    window = [comparison.window_text] if comparison.window_text else []
    return [*_each(texts), *_each(origins), *window, MEASURE, *axes.notes_on(size, TILES)]


def _each(texts: list[str]) -> list[str]:
    """Texts of A and of B, once if they are the same."""
    return [texts[0]] if texts[0] == texts[1] else [f"{name}: {text}" for name, text in zip("AB", texts, strict=True)]


TILES = "each square shows the weight, and the difference, that is largest in size of"


def _label(tokens: tuple[tuple[Token, ...], ...], pair: tuple[int | None, int | None], end: int) -> str:
    """Label of a row or of a column of A, B or their difference."""
    both = [None if index is None else part[index] for part, index in zip(tokens, pair, strict=True)]
    if end < 2:
        return "" if both[end] is None else visible_text(both[end].text, LONGEST_LABEL)
    names = list(dict.fromkeys(visible_text(token.text, LONGEST_LABEL) for token in both if token is not None))
    name = " → ".join(names)
    if None not in both:
        return name
    return f"{name} (B)" if both[0] is None else f"{name} (A)"


def _token(pair: tuple[int | None, int | None], end: int, comparison: AlignedPair, axis: int) -> Token:
    """The token of a row or column; it stands back where only one map has it."""
    both = [
        None if index is None else side.tokens[axis][index]
        for side, index in zip((comparison.a, comparison.b), pair, strict=True)
    ]
    there = [token for token in both if token is not None]
    token = there[0] if end == 2 or both[end] is None else both[end]
    return replace(token, special=len(there) == 1 or all(other.special for other in there))


def in_words(tokens: tuple[tuple[Token, ...], tuple[Token, ...]], pair: tuple[int | None, int | None]) -> str:
    """A place of the grid: "cat (1) → dog (1)", or "cat (1), only in A"."""
    each = [
        None if index is None else f"{visible_text(part[index].text)} ({index})"
        for part, index in zip(tokens, pair, strict=True)
    ]
    if None in each:
        return f"{each[0] or each[1]}, only in {'A' if each[1] is None else 'B'}"
    return each[0] if each[0] == each[1] else " → ".join(each)
