"""A table of words as colored cells: rows by columns of tokens. Vega-Lite lays it out."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import altair as alt
import numpy as np

from attnviz.charts import pixels
from attnviz.charts.axes import axis
from attnviz.charts.interaction import QUIET_MARK, clicked, share, tooltip
from attnviz.charts.legends import Ramp, ramp_legend
from attnviz.charts.matrices import ground
from attnviz.charts.picture import Form, Table, formed
from attnviz.charts.style import Style
from attnviz.charts.texts import heading, text_width, titled
from attnviz.charts.theme import MONO, Theme, config
from attnviz.core.display import isolated, visible_text

LONGEST_WORD = 10
"""Code points of a word in a cell or over a column; hovering has the whole word."""

HEIGHT, NARROWEST = 26, 40
"""Pixels of a cell: high, and wide at least."""


@dataclass(frozen=True, eq=False, kw_only=True)
class WordCells:
    """Words in cells whose color is a number.

    Attributes:
        title, lines: what stands above.
        titles: of the rows, of the columns, of a word and of its number, as axes and hovering name them.
        rows: names of the rows, the first on top.
        positions, tokens: of the columns.
        words: (rows, columns).
        values: their numbers, (rows, columns); NaN has the ground of what is blocked.
        numbers: the same as texts.
        ramp: the legend; `signed` where values go from -top to top.
        style: how they are drawn; `selected` is the (row, position) of the outlined cell.
    """

    title: str
    lines: Sequence[str]
    titles: tuple[str, str, str, str]
    rows: Sequence[str]
    positions: Sequence[int]
    tokens: Sequence[str]
    words: Sequence[Sequence[str]]
    values: np.ndarray
    numbers: Sequence[Sequence[str]]
    ramp: Ramp
    style: Style

    @property
    def form(self) -> Form:
        """The chart without its tables."""
        return _form(len(self.rows), len(self.positions), self._width, self.titles, self.ramp, self.style.colors)

    @property
    def _texts(self) -> list[str]:
        return [visible_text(word, LONGEST_WORD) for row in self.words for word in row]

    @property
    def _labels(self) -> list[str]:
        return [visible_text(token, LONGEST_WORD) for token in self.tokens]

    @property
    def _width(self) -> int:
        return max(NARROWEST, round(max(map(text_width, [*self._texts, *self._labels]))) + 10)

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta, rows, columns, cells and chosen."""
        row, column = (index.ravel().tolist() for index in np.indices(self.values.shape))
        colors, share = self.style.colors, self.values.ravel() / (self.ramp.top or 1.0)
        places = (share + 1) / 2 if self.ramp.signed else share
        palette = ground(self.ramp.signed, colors)
        grounds = [colors.blocked if np.isnan(place) else pixels.color_at(place, palette) for place in places]
        positions, tokens = list(self.positions), [isolated(visible_text(token)) for token in self.tokens]
        chosen = self.style.selected if isinstance(self.style.selected, tuple) else (-1, -1)
        is_there = chosen[0] in range(len(self.rows)) and chosen[1] in positions
        cells = {
            "row": row,
            "row2": [i + 1 for i in row],
            "column": column,
            "column2": [j + 1 for j in column],
            "position": [positions[j] for j in column],
            "rev": [self.style.rev] * len(row),
            "row_name": [self.rows[i] for i in row],
            "column_name": [f"{tokens[j]} ({positions[j]})" for j in column],
            "text": self._texts,
            "word": [isolated(visible_text(word)) for words in self.words for word in words],
            "number": [number for numbers in self.numbers for number in numbers],
            "ground": grounds,
            "ink": [pixels.readable(color, colors) for color in grounds],
        }
        width = self._width * len(positions) + max(map(text_width, self.rows))
        meta = heading(self.title, self.lines, width, self.style)
        return {
            "meta": meta | {"top": [self.ramp.top]},
            "rows": _axis_labels(self.rows),
            "columns": _axis_labels(self._labels),
            "cells": cells,
            "chosen": {
                "row": [chosen[0]] if is_there else [],
                "column": [positions.index(chosen[1])] if is_there else [],
            },
        }


def _axis_labels(labels: Sequence[str]) -> Table:
    return {"middle": [i + 0.5 for i in range(len(labels))], "label": [*labels], "quiet": [False] * len(labels)}


@formed(32)
def _form(rows: int, columns: int, width: int, titles: tuple[str, ...], ramp: Ramp, colors: Theme) -> Form:
    names = "rows", "columns", "cells", "chosen"
    row_labels, column_labels, cells, chosen = (alt.Chart(alt.NamedData(name)) for name in names)
    sides = [alt.Scale(domain=[0, count], nice=False, zero=False) for count in (rows, columns)]
    sides[0].reverse = True
    y = {"scale": sides[0], "axis": axis("rows", rows, 1, titles[0], colors)}
    x = {"scale": sides[1], "axis": axis("columns", columns, 1, titles[1], colors)}
    box = {"y": alt.Y("row:Q", **y), "y2": alt.Y2("row2"), "x": alt.X("column:Q", **x), "x2": alt.X2("column2")}
    tips = tooltip(
        dict(zip(("column_name", "row_name", "word", "number"), (titles[1], titles[0], *titles[2:]), strict=True))
    )
    squares = cells.mark_rect(cursor="pointer", aria=False, stroke=colors.background, strokeWidth=1)
    squares = squares.encode(**box, fill=alt.Fill("ground:N", scale=None), tooltip=tips).properties(name="cells")
    texts = cells.transform_calculate(middle="datum.row + 0.5", center="datum.column + 0.5")
    texts = texts.mark_text(baseline="middle", font=MONO, limit=width - 4, **QUIET_MARK)
    centered = {"y": alt.Y("middle:Q", **y), "x": alt.X("center:Q", **x)}
    outline = chosen.transform_calculate(row2="datum.row + 1", column2="datum.column + 1")
    unseen = (points.mark_point(opacity=0, size=0, **QUIET_MARK) for points in (row_labels, column_labels))
    layers = [
        ramp_legend(ramp, {"orient": "bottom", "offset": 14}),
        *(points.encode(x=alt.XValue(0), y=alt.YValue(0)) for points in unseen),  # for the axes to read them
        squares,
        texts.encode(**centered, text=alt.Text("text:N"), fill=alt.Fill("ink:N", scale=None)),
        outline.mark_rect(fill=None, stroke=colors.accent, strokeWidth=2.5, **QUIET_MARK).encode(**box),
    ]
    size = {"width": width * columns, "height": HEIGHT * rows}
    chart = alt.layer(*layers, **size, autosize="pad", title=titled(colors))
    chart.params = share(["cells"], clicked("cell", "row", "position", "rev"))
    return Form.of(chart.configure(**config(colors)))
