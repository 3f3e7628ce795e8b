"""A grid whose cells are in one of a few states, such as those that a finding is about."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from attnviz.analysis.views import as_tokens, groups
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.grid import Grid, pooled, size_within
from attnviz.charts.legends import Ramp
from attnviz.charts.state import CellState
from attnviz.core.display import file_stem
from attnviz.core.tokens import Token
from attnviz.figures.base import GridFigure
from attnviz.figures.figure import text_array

Tokens = Sequence[Token | str]


@dataclass(frozen=True, eq=False)
class States:
    """Cells in states.

    Attributes:
        title: one line that begins with a constant word.
        states: (rows, columns), which of `kinds` each cell is.
        kinds: what a cell can be. Of a grid too large for single cells a square shows the last one among its cells.
        rows, columns: the tokens.
        titles: of the row axis and of the column axis.
        lines: what stands under the title.
        note: a last line over the picture.
        name: what a file is called after.
        weights: numbers from 0 to 1, (rows, columns), of the cells whose ground is the ramp.
        unit: what the cells are, in words.
    """

    title: str
    states: np.ndarray
    kinds: tuple[CellState, ...]
    rows: Tokens
    columns: Tokens
    titles: tuple[str, str] = (QUERY, KEY)
    lines: tuple[str, ...] = ()
    note: str = ""
    name: str = "grid"
    weights: np.ndarray | None = None
    unit: str = "Cells"

    @property
    def labels(self) -> list[list[str]]:
        """Labels of rows and columns."""
        return [[token.text for token in as_tokens(tokens)] for tokens in (self.rows, self.columns)]

    def in_words(self) -> str:
        """The title, how many cells are in which state, and the note."""
        counts = np.bincount(self.states.ravel(), minlength=len(self.kinds)).tolist()
        cell_counts = "; ".join(
            f"{count:,} {kind.text}" for count, kind in zip(counts, self.kinds, strict=True) if count
        )
        sentences = [self.title, *self.lines, f"{self.unit}: {cell_counts}", *([self.note] if self.note else [])]
        return " ".join(f"{part.rstrip('.')}." for part in sentences)

    def table(self) -> pd.DataFrame:
        """One row per cell: query, query_token, key, key_token, weight if there are any, state."""
        row, column = (index.ravel() for index in np.indices(self.states.shape))
        rows, columns = self.labels
        queries = {"query": row, "query_token": [rows[i] for i in row]}
        keys = {"key": column, "key_token": [columns[i] for i in column]}
        weights = {} if self.weights is None else {"weight": self.weights.ravel()}
        return pd.DataFrame(queries | keys | weights | {"state": [self.kinds[i].text for i in self.states.ravel()]})


@dataclass(frozen=True, eq=False)
class StateGrid(GridFigure):
    """A grid of cells in a few states; a click selects a cell under the name "cell" with query, key and rev."""

    states: States

    @cached_property
    def name(self) -> str:
        return file_stem(self.states.name, " ".join(self.states.labels[1]))

    @cached_property
    def title(self) -> str:
        return self.states.title

    @cached_property
    def description(self) -> str:
        return self.states.in_words()

    @cached_property
    def table(self) -> pd.DataFrame:
        return self.states.table()

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        rows, columns = self.states.labels
        return {
            "states": self.states.states,
            "names": text_array([kind.text for kind in self.states.kinds]),
            "row_tokens": text_array(rows),
            "column_tokens": text_array(columns),
        }

    @cached_property
    def grid(self) -> Grid:
        states = self.states
        rows, columns = (groups(as_tokens(tokens)) for tokens in (states.rows, states.columns))
        size = size_within(rows, columns, self)
        weights = None if states.weights is None else pooled(states.weights, size.tile)
        return Grid(
            title=states.title,
            lines=[*states.lines, states.note],
            rows=rows,
            columns=columns,
            size=size,
            states=pooled(states.states, size.tile),
            kinds=states.kinds,
            style=self.style,
            titles=states.titles,
            shade=weights,
            ramp=None if weights is None else Ramp("weight", 1.0, self.colors.ramp),
            numbers={} if weights is None else {"weight": (weights, ".3f")},
            tiles="each square shows the last of the legend among its",
        )
