"""A grid whose cells are in one of a few states, each with its own ground and sign: what a convention writes, what a
wrong reader sees, where NaN stands, which cells a finding is about."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from attnviz.charts import axes, frame, hatch, maps, pixels
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.frame import Entry, Ramp
from attnviz.charts.maps import Map
from attnviz.charts.size import size_of
from attnviz.charts.theme import Theme, theme
from attnviz.core.tokens import Token
from attnviz.views import as_tokens, groups

GLYPHS = {
    "dot": hatch.DOT,
    "ring": hatch.RING,
    "cross": hatch.CROSS,
    "dash": hatch.DASH,
    "0": "M0,-0.4A0.24,0.4,0,1,1,-0.01,-0.4Z",
    "1": "M-0.14,-0.28L0.04,-0.4L0.04,0.4",
    "True": "M-0.3,-0.38L0.3,-0.38M0,-0.38L0,0.4",
    "False": "M0.26,-0.38L-0.24,-0.38L-0.24,0.4M-0.24,-0.02L0.18,-0.02",
    "-inf": "M-0.66,0L-0.34,0"
    "M-0.16,0A0.16,0.16,0,1,1,0.16,0A0.16,0.16,0,1,1,-0.16,0M0.16,0A0.16,0.16,0,1,1,0.48,0A0.16,0.16,0,1,1,0.16,0",
    "lowest": "M-0.3,-0.28L0,0.02L0.3,-0.28M-0.3,0.4L0.3,0.4",
}
"""What can be drawn on a cell, as strokes in a box from -1 to 1; "hatch" besides, which goes over its edges."""


@dataclass(frozen=True)
class State:
    """What a cell can be.

    Attributes:
        says: in words, for the legend and under the pointer.
        ground: a color of the theme by its name: "open", "blocked", "hatch", "leak" or "warning".
        sign: one of `GLYPHS`, "hatch", or "" for none.
    """

    says: str
    ground: str = "open"
    sign: str = ""


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
        weights: numbers from 0 to 1, (rows, columns), which color the cells of the first kind along the ramp.
    """

    title: str
    states: np.ndarray
    kinds: tuple[State, ...]
    rows: Sequence[Token | str]
    columns: Sequence[Token | str]
    titles: tuple[str, str] = (QUERY, KEY)
    lines: tuple[str, ...] = ()
    note: str = ""
    name: str = "grid"
    weights: np.ndarray | None = None

    def in_words(self) -> str:
        """The title, how many cells are in which state, and the note."""
        counts = np.bincount(self.states.ravel(), minlength=len(self.kinds)).tolist()
        told = "; ".join(f"{count:,} {kind.says}" for count, kind in zip(counts, self.kinds, strict=True) if count)
        said = [self.title, *self.lines, f"Cells: {told}", *([self.note] if self.note else [])]
        return " ".join(f"{part.rstrip('.')}." for part in said)

    def table(self) -> pd.DataFrame:
        """One row per cell: query, query_token, key, key_token, weight if there are any, state."""
        row, column = (index.ravel() for index in np.indices(self.states.shape))
        names = [[token.text for token in as_tokens(tokens)] for tokens in (self.rows, self.columns)]
        weights = {} if self.weights is None else {"weight": self.weights.ravel()}
        return pd.DataFrame(
            {"query": row, "query_token": [names[0][i] for i in row], "key": column}
            | {"key_token": [names[1][i] for i in column]}
            | weights
            | {"state": [self.kinds[i].says for i in self.states.ravel()]}
        )


def drawing_of(
    grid: Grid, *, dark: bool = False, selected: tuple[int, int] | None = None, rev: int = 0, below: float = 16
) -> Map:
    """What is drawn of a grid.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Args:
        selected: the (row, column) that is outlined.
        rev: a counter to raise after each click, so that the same cell can be clicked again.
        below: how many pixels lie between the map and its legend.
    """
    colors, size = theme(dark), size_of(*grid.states.shape)
    rows, columns = (groups(as_tokens(tokens)) for tokens in (grid.rows, grid.columns))
    bands = axes.bands(rows.tokens[:: size.tile]), axes.bands(columns.tokens[:: size.tile])
    states, room = _tiles(grid.states, size.tile), axes.edges(*bands, size)
    weights = None if grid.weights is None else _tiles(grid.weights, size.tile)
    notes = axes.notes_on(size, "each square shows the last of the legend among its")
    wide = {"width": size.width - room.left, "colors": colors}
    around = frame.heading(grid.title, [*grid.lines, *notes], left=room.left, top=room.top - 8, **wide)
    if size.form != "rectangles":
        around += axes.drawn(grid.titles, *bands, size, room, colors)
    around += axes.ties(rows, columns, size, colors) + maps.outlined(selected, rows, columns, size, colors)
    ramp = None if weights is None else Ramp("weight", pixels.ramp_uri(colors), ((0, "0"), (1, "1")))
    found = [state for i, state in enumerate(grid.kinds) if (states == i).any()]
    entries = [Entry(s.says, *_sign(s, frame.SWATCH, colors, ramp), _ground(s, colors, ramp)) for s in found]
    entries = entries if ramp is None else entries[int(grid.kinds[0] in found) :]
    legend = frame.legend(entries, ramp, top=size.height + below, width=size.width, colors=colors)
    bottom = max(box["y2"] for box in legend.boxes) + 8
    around += legend + frame.lines(grid.note, left=0, top=bottom, width=size.width, colors=colors)
    return Map(
        size=size,
        rows=bands[0],
        columns=bands[1],
        row_names=axes.names(rows, size.tile),
        column_names=axes.names(columns, size.tile),
        queries=rows.starts[:: size.tile],
        keys=columns.starts[:: size.tile],
        titles=grid.titles,
        shade=np.zeros(states.shape) if weights is None else weights,
        colored=np.ones(states.shape, bool) if weights is None else states == 0,
        sayings=tuple(state.says for state in grid.kinds),
        saying=states,
        signs={i: _sign(state, size.cell, colors, weights is not None) for i, state in enumerate(grid.kinds)},
        blocked=np.isin(states, [i for i, state in enumerate(grid.kinds) if state.ground == "blocked"]).astype(int),
        nan=np.isin(states, [i for i, state in enumerate(grid.kinds) if state.sign == "cross"]),
        numbers={} if weights is None else {"weight": (weights, ".3f")},
        open=None,
        frame=around,
        rev=rev,
        grounds=() if weights is not None else tuple(_ground(state, colors) for state in grid.kinds),
    )


def _tiles(states: np.ndarray, tile: int) -> np.ndarray:
    """The states of the squares: the last among those of a tile."""
    if tile == 1:
        return states
    starts = [np.arange(0, length, tile) for length in states.shape]
    return np.maximum.reduceat(np.maximum.reduceat(states, starts[0], 0), starts[1], 1)


def _ground(state: State, colors: Theme, ramp: object = None) -> str:
    return colors.blocked if ramp else getattr(colors, state.ground)


def _sign(state: State, side: float, colors: Theme, ramp: object = None) -> tuple[str | None, str | None, float | None]:
    """What is drawn on a cell of a side, so that states differ without their colors too."""
    if not state.sign:
        return None, None, None
    if state.sign == "hatch":
        return hatch.shape(0, side), colors.hatch, 1.0
    on = dict.fromkeys(("leak", "warning", "hatch"), colors.background) | {"open": colors.dot}
    color = colors.warning if ramp else on.get(state.ground, colors.quiet)
    return GLYPHS[state.sign], color, hatch.DOT_STROKE * side if state.sign == "dot" else max(1.5, side / 14)
