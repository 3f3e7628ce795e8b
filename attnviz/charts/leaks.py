"""A leak test as a grid: whose output moved when which token was changed, and whether its mask forbids that."""

import numpy as np

from attnviz.charts import axes, frame, hatch, maps
from attnviz.charts.frame import Entry
from attnviz.charts.maps import Map
from attnviz.charts.size import Size, size_of
from attnviz.charts.theme import CAUTIONS, Theme, theme
from attnviz.core.display import in_title
from attnviz.core.leaks import CLOSED, LEAK, NOT_TESTED, SAW, STATES, UNUSED, LeakTest
from attnviz.views import groups
from attnviz.words import count_of_leaks, leak

TITLES = ("Query (its output)", "Key (is changed)")

ORDER = (LEAK, SAW, UNUSED, CLOSED, NOT_TESTED)
"""Of the states in the legend."""


def drawing_of(
    test: LeakTest,
    *,
    dark: bool = False,
    selected: tuple[int, int] | None = None,
    rev: int = 0,
    below: float = 16,
    edits: bool = True,
) -> Map:
    """Draw a leak test: red where an output moved that must not.

    A click selects a cell under the name "cell" with the fields query, key and rev.

    Args:
        selected: the (query, key) whose cell is outlined and said in words.
        rev: a counter to raise after each click, so that the same cell can be clicked again.
        below: how many pixels lie between the map and its legend.
        edits: whether the picture says what was changed.
    """
    colors, size = theme(dark), size_of(*test.moved.shape)
    rows, columns = groups(test.queries), groups(test.keys)
    bands = axes.bands(test.queries[:: size.tile]), axes.bands(test.keys[:: size.tile])
    states = _tiles(test.states.numpy(), size.tile)
    room = axes.edges(*bands, size)
    lines = [*lines_of(test, edits=edits), *axes.note_on_ties(rows, columns, size)]
    lines += axes.notes_on(size, "each square shows a leak if there is one among its")
    heading = {"left": room.left, "top": room.top - 8, "width": size.width - room.left, "colors": colors}
    around = frame.heading(title_of(test), lines, **heading)
    if size.form != "rectangles":
        around += axes.drawn(TITLES, *bands, size, room, colors)
    around += axes.ties(rows, columns, size, colors) + maps.outlined(selected, rows, columns, size, colors)
    found = [state for state in ORDER if (states == state).any()]
    entries = [Entry(STATES[i], *_sign(i, frame.SWATCH, colors), _ground(i, colors)) for i in found]
    legend = frame.legend(entries, None, top=size.height + below, width=size.width, colors=colors)
    bottom = max(box["y2"] for box in legend.boxes) + 8
    around += legend + frame.lines(_example(test, selected), left=0, top=bottom, width=size.width, colors=colors)
    sayings, saying, says = _said(test, states, size)
    return Map(
        size=size,
        rows=bands[0],
        columns=bands[1],
        row_names=axes.names(rows, size.tile),
        column_names=axes.names(columns, size.tile),
        queries=rows.starts[:: size.tile],
        keys=columns.starts[:: size.tile],
        titles=TITLES,
        shade=np.zeros(states.shape),
        colored=np.ones(states.shape, bool),
        sayings=sayings,
        saying=saying,
        signs={i: _sign(state, size.cell, colors) for i, state in enumerate(says)},
        blocked=np.isin(states, (NOT_TESTED, UNUSED)).astype(int),
        nan=states == LEAK,
        numbers={},
        open=None,
        frame=around,
        rev=rev,
        grounds=tuple(_ground(state, colors) for state in says),
    )


def title_of(test: LeakTest) -> str:
    """What is drawn, beginning with constant words."""
    return f"Leak test: {count_of_leaks(test)} · {test.where} · {in_title(test.source)}"


def lines_of(test: LeakTest, *, edits: bool = True) -> list[str]:
    """What was promised, what counts as moved, what was left out, where the weights are from, and what was changed."""
    changed = test.edits.in_words() if edits else ()
    return [
        f"promised: {test.promise}",
        f"moved: by more than {_percent(test.tolerance)} of its length; equal inputs {_noise(test)}",
        *test.notes,
        CAUTIONS.get(test.provenance, ""),
        f"changed: {', '.join(changed)}" if changed else "",
    ]


def _noise(test: LeakTest) -> str:
    return f"differ by {_percent(test.noise)}" if test.noise else "do not differ"


def _percent(share: float) -> str:
    """A small share in percent, with one digit that counts."""
    return f"{np.format_float_positional(100 * share, precision=1, fractional=False, trim='-')}%"


def _example(test: LeakTest, selected: tuple[int, int] | None) -> str:
    """The selected cell in words, or the first leak."""
    if selected is not None and all(0 <= i < n for i, n in zip(selected, test.moved.shape, strict=True)):
        return leak(test, *selected)
    return leak(test, *test.pairs[0]) if test.pairs else ""


def _tiles(states: np.ndarray, tile: int) -> np.ndarray:
    """The states of the squares: the largest number among those of a tile."""
    if tile == 1:
        return states
    starts = [np.arange(0, length, tile) for length in states.shape]
    return np.maximum.reduceat(np.maximum.reduceat(states, starts[0], 0), starts[1], 1)


def _said(test: LeakTest, states: np.ndarray, size: Size) -> tuple[tuple[str, ...], np.ndarray, list[int]]:
    """What can be said of a cell, which of it is said where, and the state that each is of: a sentence for each cell
    where cells have tooltips, else one for each state."""
    if size.form != "rectangles":
        return STATES, states, list(range(len(STATES)))
    places = np.indices(states.shape).reshape(2, -1).T.tolist()
    return (
        tuple(leak(test, *place) for place in places),
        np.arange(states.size).reshape(states.shape),
        states.ravel().tolist(),
    )


def _ground(state: int, colors: Theme) -> str:
    return {LEAK: colors.leak, SAW: colors.open, UNUSED: colors.open}.get(state, colors.blocked)


def _sign(state: int, side: float, colors: Theme) -> tuple[str | None, str | None, float | None]:
    """What is drawn on a cell, so that states differ without their colors too."""
    return {
        LEAK: (hatch.CROSS, colors.background, max(1.5, side / 10)),
        SAW: (hatch.DOT, colors.dot, hatch.DOT_STROKE * side),
        UNUSED: (hatch.RING, colors.dot, 1.5),
        NOT_TESTED: (hatch.shape(0, side), colors.hatch, 1.0),
    }.get(state, (None, None, None))
