"""Forms that functions fill with data: a map of cells, numbers of heads, a grid of words, and bars."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd

from attnviz.analysis.views import Groups, as_tokens, groups
from attnviz.charts.axes import KEY, QUERY, GridSide, RowEnd, Size, predictions, size_within
from attnviz.charts.bars import Bars
from attnviz.charts.grid import READABLE, Grid, together
from attnviz.charts.marks import Ramp, heading, scale_of
from attnviz.charts.pixels import Number, Squares
from attnviz.charts.signs import CellState
from attnviz.charts.theme import Style
from attnviz.core.amounts import digits, in_cell
from attnviz.core.edits import Site
from attnviz.figures.base import Figure, FigureFacts, Views, value_of


class RowMarks(NamedTuple):
    """Marks at rows: texts at their ends, predicted words, rows whose prediction changed, framed rows, and a legend."""

    ends: Sequence[RowEnd] = ()
    predicted: Sequence[str] = ()
    moved: Collection[int] = ()
    framed: Collection[int] = ()
    legend: Sequence[CellState] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class Map(Figure):
    """Map of cells: a matrix, or several in a row, with labels, a color scale, signs, and marks at its rows.

    A click selects a cell under the name "cell" with the fields query, key and rev. The color scale of `squares` is
    sequential, or diverging for numbers of both signs. A kind of map is a function that returns a `Map`.

    Attributes:
        facts: title, lines, numbers and words.
        rows, columns: tokens and labels of both sides.
        squares: numbers and states of the squares, or a function that returns them for the cells per side of a tile.
        marks: function that returns the marks at the rows.
        size: size of the cells; None for a size that fits the picture.
        longest: maximum side of the map in pixels, used if the style sets none.
        tiles: words for how a tile summarizes its cells.
        brush: whether a drag over a map of rectangles on a page selects cells.
        grids: function that makes several grids, drawn in a row, for a style; replaces `rows`, `columns`, `squares`.
    """

    facts: FigureFacts
    rows: GridSide | None = None
    columns: GridSide | None = None
    squares: Squares | Callable[[int], Squares] | None = None
    marks: Callable[[], RowMarks] = RowMarks
    size: Size | None = None
    longest: int | None = None
    tiles: str = Grid.tiles
    brush: bool = False
    grids: Callable[[Style], Sequence[Grid]] | None = None

    def draw(self) -> Grid | Views:
        """Draw the map, or several maps side by side if `grids` is given."""
        header = self.above
        if self.grids is not None:
            grids = self.grids(self.style)
            meta = heading(header["title"], header["lines"], len(grids) * grids[0].size.width + 100, self)
            data = {name: table for grid in grids for name, table in grid.data.items()}
            form = together([grids], self.style, has_params=grids[0].is_rectangles)
            return Views(form, data | {"meta": meta}, grids[0].read)
        marks = self.marks()
        ends = [*marks.ends, *predictions(marks.predicted, marks.moved)]
        size = self.size or size_within(self.rows.groups, self.columns.groups, self, ends, side=self.longest)
        squares = self.squares(size.tile) if callable(self.squares) else self.squares
        return Grid(
            **header | {"lines": [*header["lines"], *squares.lines]},
            rows=replace(self.rows, predicted=marks.predicted),
            columns=self.columns,
            size=size,
            squares=squares,
            ramp=squares.ramp,
            ends=ends,
            framed=marks.framed,
            notes=marks.legend,
            tiles=self.tiles,
            brush=self.brush and self.on_screen,
        )


def token_sides(queries: Groups, keys: Groups, titles: Sequence[str] = (QUERY, KEY)) -> dict[str, GridSide]:
    """Make the sides of a map of tokens, as arguments of a `Map`."""
    return {"rows": GridSide(queries, titles[0], "query"), "columns": GridSide(keys, titles[1], "key")}


def text_side(title: str, axis: str, labels: Sequence[str], names: Sequence[str] | None = None) -> GridSide:
    """Make rows or columns of texts that are not tokens."""
    return GridSide(groups(as_tokens(labels)), title, axis, labels, names or labels)


def numbers_in_cells(values: np.ndarray, ramp: Ramp, *others: Number, written: bool = True) -> Squares:
    """Color squares by `values` (NaN as 0), written inside if `written`; tooltips also list the numbers `others`."""
    flat = values.ravel().tolist()
    return Squares(
        states=np.zeros(values.shape, int),
        kinds=(CellState("number", "ramp", legend=""),),
        numbers=[Number("number", values, [*map(digits, flat)], ramp.title), *others],
        ramp=ramp,
        text_title="",
        written=[*map(in_cell, flat)] if written else (),
    )


HEAD = ("kind", "layer", "head")
"""Columns of a table, and fields of a selection, that name a head."""
MOST_NUMBERED, ROOMY, NARROW = 16, (44, 26), (22, 16)
"""Maximum number of heads in a layer for numbers in the cells; pixels (width, height) of a cell with and without."""


@dataclass(frozen=True, eq=False, kw_only=True)
class HeadNumbers(Figure):
    """Grid with a number for each head, layers x heads, on a diverging scale.

    A click selects a head as "head" with the fields kind, layer, head and rev. `focused` is framed, as (site, head).

    Attributes:
        facts: title, lines, numbers and words.
        numbers: table with a row per head, or a function that returns it: kind, layer, head and, last, the number.
        measure: name of the number.
        also: name of the number in the column before the last, for the tooltip; "" for none.
    """

    facts: FigureFacts
    numbers: pd.DataFrame | Callable[[], pd.DataFrame]
    measure: str
    also: str = ""

    def draw(self) -> Grid:
        """Draw the grid; NaN stands for heads that a layer does not have."""
        table = value_of(self.numbers)
        sites = sorted({*map(Site, table["kind"], table["layer"])}, key=lambda site: (site.layer, site.kind))
        also, values = np.full((2, len(sites), 1 + int(table["head"].max())), np.nan)  # each (layers, heads)
        for kind, layer, head, *numbers in table.itertuples(index=False):
            row = sites.index(Site(kind, layer))
            also[row, head], values[row, head] = numbers[0], numbers[-1]
        count = values.shape[1]
        heads = [(site.kind, site.layer, head) for site in sites for head in range(count)]
        wide, high = ROOMY if count <= MOST_NUMBERED else NARROW
        more = [Number("also", also, [*map(digits, also.ravel().tolist())], self.also)] if self.also else []
        ramp, header = scale_of(self.measure, values, signed=True), self.above
        site, head = self.focused or (None, None)
        cell = (sites.index(site), head) if site in sites and head in range(count) else None
        return Grid(
            **header | {"style": replace(header["style"], selected=cell)},
            rows=text_side("Layer", "query", [f"{site.kind} {site.layer}" for site in sites]),
            columns=text_side("Head", "key", [*map(str, range(count))]),
            size=Size("rectangles", wide, *values.shape, high=high),
            squares=numbers_in_cells(values, ramp, *more, written=wide >= READABLE[0]),
            ramp=ramp,
            selects="head",
            more={name: [head[i] for head in heads] for i, name in enumerate(HEAD)},
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class BarChart(Figure):
    """Bars with names and texts.

    Attributes:
        facts: title, lines, numbers and words.
        bars: names and columns, or a function that returns them; its lines are the first below the title.
        wide: pixels of the longest bar on a page; None for the same as in files.
    """

    facts: FigureFacts
    bars: Bars | Callable[[], Bars]
    wide: int | None = None

    def draw(self) -> Bars:
        """Draw the bars under the title; on a page, with their length for pages."""
        bars, header = value_of(self.bars), self.above
        length = self.wide if self.on_screen and self.wide else bars.length
        return replace(bars, **header | {"lines": [*bars.lines, *header["lines"]]}, length=length)
