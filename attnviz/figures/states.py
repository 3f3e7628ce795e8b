"""A grid whose cells are in one of a few states: what a convention writes, what a wrong reader sees, where NaN stands,
which cells a finding is about."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import pandas as pd

from attnviz.charts import pixels
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.frame import Ramp
from attnviz.charts.maps import Map, pooled, size_within
from attnviz.charts.state import State
from attnviz.charts.style import Style
from attnviz.core.display import file_stem
from attnviz.core.tokens import Token
from attnviz.figures.figure import Drawn, Figure, text_array
from attnviz.views import as_tokens, groups

Tokens = Sequence[Token | str]


@dataclass(frozen=True, eq=False)
class Grid:
    """Cells in states.

    Attributes:
        title: one line that begins with a constant word.
        states: (rows, columns), which of `kinds` each cell is.
        kinds: what a cell can be. Of a grid too large for single cells a square shows the last one among its cells.
        rows, columns: the tokens.
        titles: of the row axis and of the column axis.
        lines: what stands under the title.
        note: what stands under the legend.
        name: what a file is called after.
        weights: numbers from 0 to 1, (rows, columns), of the cells whose ground is the ramp.
    """

    title: str
    states: np.ndarray
    kinds: tuple[State, ...]
    rows: Tokens
    columns: Tokens
    titles: tuple[str, str] = (QUERY, KEY)
    lines: tuple[str, ...] = ()
    note: str = ""
    name: str = "grid"
    weights: np.ndarray | None = None

    @property
    def labels(self) -> list[list[str]]:
        """What rows and columns are called."""
        return [[token.text for token in as_tokens(tokens)] for tokens in (self.rows, self.columns)]

    def in_words(self) -> str:
        """The title, how many cells are in which state, and the note."""
        counts = np.bincount(self.states.ravel(), minlength=len(self.kinds)).tolist()
        told = "; ".join(f"{count:,} {kind.says}" for count, kind in zip(counts, self.kinds, strict=True) if count)
        said = [self.title, *self.lines, f"Cells: {told}", *([self.note] if self.note else [])]
        return " ".join(f"{part.rstrip('.')}." for part in said)

    def table(self) -> pd.DataFrame:
        """One row per cell: query, query_token, key, key_token, weight if there are any, state."""
        row, column = (index.ravel() for index in np.indices(self.states.shape))
        rows, columns = self.labels
        places = {"query": row, "query_token": [rows[i] for i in row]}
        places |= {"key": column, "key_token": [columns[i] for i in column]}
        weights = {} if self.weights is None else {"weight": self.weights.ravel()}
        return pd.DataFrame(places | weights | {"state": [self.kinds[i].says for i in self.states.ravel()]})


def states(grid: Grid, **drawn: Unpack[Drawn]) -> Figure:
    """A grid of cells in a few states; a click selects a cell under the name "cell" with query, key and rev."""
    rows, columns = grid.labels
    return Figure(
        name=file_stem(grid.name, " ".join(columns)),
        title=grid.title,
        style=Style(**drawn),
        draw=lambda style: drawing_of(grid, style),
        describe=grid.in_words,
        tabulate=grid.table,
        collect=lambda: {
            "states": grid.states,
            "names": text_array([kind.says for kind in grid.kinds]),
            "row_tokens": text_array(rows),
            "column_tokens": text_array(columns),
        },
    )


def drawing_of(grid: Grid, style: Style) -> Map:
    """The grid as a map."""
    rows, columns = (groups(as_tokens(tokens)) for tokens in (grid.rows, grid.columns))
    size = size_within(rows, columns, style)
    weights = None if grid.weights is None else pooled(grid.weights, size.tile)
    return Map(
        title=grid.title,
        lines=grid.lines,
        rows=rows,
        columns=columns,
        size=size,
        states=pooled(grid.states, size.tile),
        kinds=grid.kinds,
        style=style,
        titles=grid.titles,
        shade=weights,
        ramp=None if weights is None else Ramp("weight", pixels.ramp_uri(style.colors), ((0, "0"), (1, "1"))),
        numbers={} if weights is None else {"weight": (weights, ".3f")},
        below=[grid.note],
        tiles="each square shows the last of the legend among its",
    )
