"""One stage of an attention call, large: each of its tables with tokens, numbers and shapes."""

import numpy as np

from attnviz.charts import frame, panels, pixels
from attnviz.charts.frame import Frame, Ramp, text_width, words
from attnviz.charts.panels import Panel, Panels
from attnviz.charts.theme import LINE, TEXT_SIZE, WORD_CHARACTER, Theme, theme
from attnviz.core.amounts import in_cell
from attnviz.core.display import shown
from attnviz.core.tokens import Token
from attnviz.walk import Matrix, Stage

WIDE, HIGH = 560, 380
"""Pixels of a table at most, where there is no need for more."""

LARGEST, SMALLEST = 52, 6
"""Pixels of the side of a cell."""

READABLE = (34, 16)
"""Pixels of a cell, across and down, that has room for its number."""

MOST_COLUMNS = 64
"""Of more dimensions the first are drawn; the table of numbers holds all that are known."""

GAP = 30
LONGEST_LABEL = 12

Tokens = tuple[tuple[Token, ...], tuple[Token, ...]]
"""Of the queries and of the keys, all of them."""


def drawing_of(
    stage: Stage,
    tokens: Tokens,
    matrices: tuple[Matrix, ...],
    *,
    selected: tuple[int, int] = (-1, -1),
    lines: tuple[str, ...] = (),
    titled: bool = True,
    dark: bool = False,
    rev: int = 0,
) -> Panels:
    """What is drawn of a stage: its tables one under the other, with the labels of tokens and dimensions.

    Args:
        tokens: of the queries and of the keys.
        matrices: which of its tables.
        selected: the (query, key) that is outlined; -1 for none.
        lines, titled: what stands under the title, and whether there is one; a screen says it elsewhere.
        rev: a counter to raise after each click.
    """
    colors = theme(dark)
    names = tuple(tuple(f"{shown(t.text)} ({i})" for i, t in enumerate(part)) for part in tokens)
    labels = {
        axis: [shown(t.text, LONGEST_LABEL) for t in part] for axis, part in zip(("query", "key"), tokens, strict=True)
    }
    left = -max((_label_room(m, labels) for m in matrices), default=0.0) - 8
    made, around, y = [], Frame(), 0.0
    for i, matrix in enumerate(matrices):
        y += _above(matrix, labels) if i else 0.0
        panel, part = _panel(stage, matrix, labels, y, left, colors)
        made.append(panel)
        around += part
        y += panel.height + GAP
    ramp_top = y - GAP + 14
    signed = not made or made[-1].signed
    limit = panels.limit_of(*(panel.values for panel in made)) if signed else 1.0
    if len({panel.limit for panel in made}) == 1 and made:
        around += _legend(limit, signed, ramp_top, colors)
        ramp_top += 2 * LINE + 26
    if titled:
        wide = {"width": max((panel.width for panel in made), default=0.0) - left, "narrowest": 420}
        top = -_above(matrices[0], labels) - 8 if matrices else 0.0
        around += frame.heading(stage.title, lines, left=left, top=top, colors=colors, **wide)
    return Panels(tuple(made), around, selected, *names, readout=(left, ramp_top + 8), rev=rev)


def are_weights(stage: Stage, matrix: Matrix) -> bool:
    """Whether a table holds weights, from 0 to 1; a mask does where it comes after the softmax."""
    return matrix.key in ("weights", "dropped", "may_attend") or (
        matrix.key == "masked" and "mask(softmax" in stage.text
    )


def _is_tokens(axis: str) -> bool:
    return axis in ("query", "key")


def _label_room(matrix: Matrix, labels: dict[str, list[str]]) -> float:
    if not _is_tokens(matrix.axes[0]):
        return 30.0
    return max((text_width(labels[matrix.axes[0]][i]) for i in matrix.rows), default=0.0)


def _side(count: int, room: float) -> float:
    return float(max(SMALLEST, min(LARGEST, room // max(1, count))))


def _cell(matrix: Matrix) -> tuple[float, float, range]:
    """Width and height of a cell, and which columns are drawn."""
    columns = matrix.columns[:MOST_COLUMNS]
    if all(map(_is_tokens, matrix.axes)):
        side = min(_side(len(columns), WIDE), _side(len(matrix.rows), max(HIGH, 14 * len(matrix.rows))))
        side = max(side, 14.0) if len(columns) <= 40 else max(side, 10.0)
        return side, min(side, 40.0), columns
    high = 22.0 if len(matrix.rows) <= 12 else 14.0 if _is_tokens(matrix.axes[0]) else SMALLEST
    return max(8.0, min(44.0, float(WIDE // max(1, len(columns))))), high, columns


def _upright(matrix: Matrix, labels: dict[str, list[str]]) -> bool:
    wide, _, columns = _cell(matrix)
    axis = matrix.axes[1]
    return _is_tokens(axis) and any(text_width(labels[axis][i]) > wide - 4 for i in columns)


def _above(matrix: Matrix, labels: dict[str, list[str]]) -> float:
    """Pixels of a table's caption and of the labels of its columns."""
    _, _, columns = _cell(matrix)
    if _upright(matrix, labels):
        return max(text_width(labels[matrix.axes[1]][i]) for i in columns) + 14 + LINE + 6
    return TEXT_SIZE + 12 + LINE + 6


def _panel(
    stage: Stage, matrix: Matrix, labels: dict[str, list[str]], y: float, left: float, colors: Theme
) -> tuple[Panel, Frame]:
    wide, high, columns = _cell(matrix)
    values = matrix.values[:, : len(columns)].double().numpy()
    signed = not are_weights(stage, matrix)
    limit = panels.limit_of(values) if signed else max(1.0, panels.limit_of(values))
    width, height = wide * len(columns), high * len(matrix.rows)
    caption = (
        f"{matrix.name}   {matrix.letters} = {matrix.shape[0]:,} × {matrix.shape[1]:,}{_left_out(matrix, columns)}"
    )
    top = y - _above(matrix, labels) + LINE / 2
    beside = left + text_width(caption, WORD_CHARACTER) + 24, top
    panel = Panel(matrix.axes, matrix.rows, columns, values, 0.0, y, width, height, limit, signed, beside)
    drawn = Frame(words=(words(left, top, caption, colors.text),))
    drawn += _row_labels(matrix, labels, y, high, colors) + _column_labels(matrix, labels, columns, y, wide, colors)
    drawn += Frame(boxes=(frame.box(0, y, width, y + height, stroke=colors.line),))
    return panel, drawn + _numbers(panel, wide, high, colors)


def _left_out(matrix: Matrix, columns: range) -> str:
    said = []
    for axis, seen, size in zip(matrix.axes, (matrix.rows, columns), matrix.shape, strict=True):
        if len(seen) < size:
            what = {"query": "queries", "key": "keys"}.get(axis, "dimensions")
            said.append(f"{what} {seen.start} to {seen.stop - 1} of {size:,}")
    return f"   ({', '.join(said)} shown)" if said else ""


def _row_labels(matrix: Matrix, labels, y: float, high: float, colors: Theme) -> Frame:
    if _is_tokens(matrix.axes[0]):
        named = [(i, labels[matrix.axes[0]][i]) for i in matrix.rows]
    elif len(matrix.rows) == 1:
        named = []
    else:
        named = [(i, str(i)) for i in matrix.rows[:: max(1, round(16 / high)) * (4 if high < 10 else 1)]]
    return Frame(
        rows=tuple(words(-6, y + (i - matrix.rows.start + 0.5) * high, text, colors.text) for i, text in named)
    )


def _column_labels(matrix: Matrix, labels, columns: range, y: float, wide: float, colors: Theme) -> Frame:
    if not _is_tokens(matrix.axes[1]):
        every = next(n for n in (1, 2, 4, 8, 16) if n * wide >= 22)
        return Frame(
            ticks=tuple(
                words((i + 0.5) * wide, y - 9, str(columns[i]), colors.quiet) for i in range(0, len(columns), every)
            )
        )
    named = [labels[matrix.axes[1]][i] for i in columns]
    if _upright(matrix, labels):
        return Frame(columns=tuple(words((i + 0.5) * wide, y - 6, text, colors.text) for i, text in enumerate(named)))
    return Frame(ticks=tuple(words((i + 0.5) * wide, y - 9, text, colors.text) for i, text in enumerate(named)))


def _numbers(panel: Panel, wide: float, high: float, colors: Theme) -> Frame:
    """The numbers inside of cells that have room for them."""
    if wide < READABLE[0] or high < READABLE[1]:
        return Frame()
    ramp, drawn, colored = panels.ground(panel.signed, colors), [], panel.kinds()[0]
    for (row, column), value in np.ndenumerate(panel.values):
        on_ramp = colored[row, column]
        color = pixels.readable(pixels.color_at(panel.place(value), ramp), colors) if on_ramp else colors.text
        drawn.append(words((column + 0.5) * wide, panel.y + (row + 0.5) * high, in_cell(value), color))
    return Frame(ticks=tuple(drawn))


def _legend(limit: float, signed: bool, top: float, colors: Theme) -> Frame:
    ramp = panels.ground(signed, colors)
    ticks = ((0, f"−{in_cell(limit)}"), (0.5, "0"), (1, in_cell(limit))) if signed else ((0, "0"), (1, "1"))
    caption = "from negative over 0 to positive" if signed else "weight, from 0 to 1"
    return frame.legend([], Ramp(caption, pixels.ramp_uri(ramp), ticks), top=top, width=400, colors=colors)
