"""One stage of an attention call, large: each of its tables with tokens, numbers and shapes."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack

import numpy as np
import pandas as pd
from torch import Tensor

from attnviz.charts import frame, hatch, panels, pixels
from attnviz.charts.frame import SWATCH, Entry, Frame, Ramp, text_width
from attnviz.charts.panels import Panel, Panels
from attnviz.charts.style import Style
from attnviz.charts.theme import LINE, TEXT_SIZE, WORD_CHARACTER, Theme
from attnviz.core.amounts import in_cell
from attnviz.core.display import in_title, shown
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.core.tokens import Token
from attnviz.figures.figure import Drawn, Figure, stem, subtitles, titled
from attnviz.walk import Matrix, Neurons, Part, Row, Stage
from attnviz.walk.stages import in_letters, plural_of

WIDE, HIGH, ALONE = 540, 380, 896
"""Pixels of a table at most, where there is no need for more, and across the page."""

WEIGHTS = 240
"""Pixels of a table of weights at most: it has no tokens, so that nothing is read along its rows."""

LARGEST, SMALLEST = 52, 6
"""Pixels of the side of a cell."""

DIMENSION = 8.0
"""Pixels of a dimension at least."""

READABLE = (34, 16)
"""Pixels of a cell, across and down, that has room for its number."""

MOST_COLUMNS = 64
"""Dimensions drawn at most, the first; the table of numbers holds all that are known."""

GAP, COLUMN, COLUMN_GAP = 30, 60, 28
LONGEST_LABEL = 12

Tokens = tuple[tuple[Token, ...], tuple[Token, ...]]
"""Of the queries and of the keys, all of them."""


def stage(
    record: Record,
    site: Site,
    head: int,
    stage: Stage,
    matrices: tuple[Matrix, ...],
    *,
    sentence: int = 0,
    **drawn: Unpack[Drawn],
) -> Figure:
    """Some tables of one stage, large: one under the other, with the labels of tokens and dimensions.

    Args:
        matrices: which of its tables.
        drawn: `selected` is the (query, key) that is outlined; -1 for none.
    """
    tokens = record.tokens(site, sentence=sentence)
    where = f"{site.head(head)} · {in_title(record.source)}"
    said = (stage.text, where, *subtitles(record))
    return Figure(
        name=stem(record, site, f"head-{head}-{stage.key}", sentence=sentence),
        title=titled(f"{stage.title} · {where}", record),
        style=Style(**drawn),
        draw=lambda style: drawing_of(stage, tokens, matrices, None if style.on_screen else said, style),
        describe=lambda: f"{stage.title}: {stage.text}. {stage.missing or stage.changed}".strip(),
        tabulate=lambda: table(matrices, tokens),
        collect=lambda: {matrix.key: matrix.values.numpy() for matrix in matrices},
    )


def drawing_of(
    stage: Stage, tokens: Tokens, matrices: tuple[Matrix, ...], lines: tuple[str, ...] | None, style: Style
) -> Panels:
    """The tables over one legend.

    Args:
        lines: what stands under the title; None for no title.
    """
    labels = {
        axis: [shown(t.text, LONGEST_LABEL) for t in part] for axis, part in zip(("query", "key"), tokens, strict=True)
    }
    wide = ALONE if stage.key == "neurons" else WIDE
    plans = [_Plan(stage, matrix, labels, style.colors, wide) for matrix in _as_columns(matrices)]
    left = -max((plan.room for plan in plans), default=0.0) - 8
    made, around, y = [], Frame(), 0.0
    for i, plan in enumerate(plans):
        beside = made[-1].x + made[-1].width + COLUMN_GAP if made else 0.0
        if plan.is_column and made:
            plan, x, y, start = replace(plan, is_beside=True), beside, made[-1].y, 0.0
        else:
            x, y, start = 0.0, y + (plan.above if i else 0.0), left
        panel = plan.panel(y, start)
        around += plan.around(panel, start).moved(x, 0.0)
        made.append(replace(panel, x=x, beside=(panel.beside[0] + x, panel.beside[1])))
        y += panel.height + GAP
    if made:
        around += _legend(made, y - GAP + 14, style.colors)
    if lines is not None:
        wide = {"width": max((panel.x + panel.width for panel in made), default=0.0) - left, "narrowest": 420}
        top = -plans[0].above - 8 if plans else 0.0
        around += frame.heading(stage.title, lines, left=left, top=top, colors=style.colors, **wide)
    return Panels(tuple(made), around, style, style.selected or (-1, -1), *called(tokens))


def _as_columns(matrices: tuple[Matrix, ...]) -> list[Matrix]:
    """A number for each key stands upright where a table before it has a row for each key."""
    upright = any(matrix.axes[0] == "key" for matrix in matrices)
    return [_turned(matrix) if upright and matrix.axes == ("1", "key") else matrix for matrix in matrices]


def _turned(matrix: Matrix) -> Matrix:
    turned = {"axes": matrix.axes[::-1], "shape": matrix.shape[::-1], "rows": matrix.columns, "columns": matrix.rows}
    return replace(matrix, values=matrix.values.T, **turned)


def called(tokens: Tokens) -> tuple[list[str], list[str]]:
    """What queries and keys are called in a readout."""
    queries, keys = ([f"{shown(token.text)} ({i})" for i, token in enumerate(part)] for part in tokens)
    return queries, keys


def are_weights(stage: Stage, matrix: Matrix) -> bool:
    """Whether a table holds weights, from 0 to 1; a mask does where it comes after the softmax."""
    return matrix.key in ("weights", "dropped", "may_attend") or (
        matrix.key == "masked" and "mask(softmax" in stage.text
    )


def _legend(made: list[Panel], top: float, colors: Theme) -> Frame:
    """One legend; tables of different scales have the same colors, each up to its largest number."""
    signed, shared = any(panel.signed for panel in made), len({panel.limit for panel in made}) == 1
    limit = in_cell(made[-1].limit) if shared else "max"
    ticks = ((0, f"−{limit}"), (0.5, "0"), (1, limit)) if signed else ((0, "0"), (1, "1"))
    caption = "from negative over 0 to positive" if signed else "weight, from 0 to 1"
    caption = caption if shared else f"each table: {caption}"
    ramp = Ramp(caption, pixels.ramp_uri(panels.ground(signed, colors)), ticks)
    hatched = any(panel.kinds()[1].any() for panel in made)
    entries = [Entry("blocked", hatch.shape(0, SWATCH), colors.hatch, 1.0, colors.blocked)] if hatched else []
    return frame.legend(entries, ramp, top=top, width=400, colors=colors)


@dataclass(frozen=True, eq=False)
class _Plan:
    """Where a table, its caption and its labels stand.

    Attributes:
        labels: tokens, by the axis whose they are.
        wide: pixels of the table at most, where there is no need for more.
        is_beside: whether it stands right of a table with the same rows, which name its own.
    """

    stage: Stage
    matrix: Matrix
    labels: dict[str, list[str]]
    colors: Theme
    wide: int = WIDE
    is_beside: bool = False

    @property
    def of_tokens(self) -> tuple[bool, bool]:
        """Whether rows and columns are tokens."""
        rows, columns = (axis in self.labels for axis in self.matrix.axes)
        return rows, columns

    @property
    def is_column(self) -> bool:
        """Whether it is one number for each row."""
        return self.matrix.axes[1] == "1"

    @property
    def columns(self) -> range:
        return self.matrix.columns[:MOST_COLUMNS]

    @property
    def room(self) -> float:
        """Pixels left of the table for the labels of its rows."""
        if not self.of_tokens[0]:
            return 30.0
        return max((text_width(self.labels[self.matrix.axes[0]][i]) for i in self.matrix.rows), default=0.0)

    @property
    def cell(self) -> tuple[float, float]:
        """Width and height of a cell."""
        rows, columns = len(self.matrix.rows), len(self.columns)
        if all(self.of_tokens):
            side = min(_side(columns, self.wide), _side(rows, max(HIGH, 14 * rows)))
            side = max(side, 14.0) if columns <= 40 else max(side, 10.0)
            return side, min(side, 40.0)
        high = 22.0 if rows <= 12 else 16.0 if self.of_tokens[0] else max(1, min(SMALLEST, WEIGHTS // rows))
        most = float(COLUMN if self.is_column else 44)
        return max(DIMENSION, min(most, float(self.wide // max(1, columns)))), high

    @property
    def names(self) -> list[str]:
        """What columns are called."""
        if self.of_tokens[1]:
            return [self.labels[self.matrix.axes[1]][i] for i in self.columns]
        return [str(i) for i in self.columns]

    @property
    def upright(self) -> bool:
        """Whether column labels are turned, because they are wider than their cells."""
        return self.of_tokens[1] and any(text_width(name) > self.cell[0] - 4 for name in self.names)

    @property
    def above(self) -> float:
        """Pixels of the caption, of the number that is read of a cell and of the labels of the columns."""
        labels = max(map(text_width, self.names)) + 14 if self.upright else TEXT_SIZE + 12
        return labels + (1 + (self.is_read_below and not self.is_column)) * LINE + 6

    @property
    def is_read_below(self) -> bool:
        """Whether the number that is read stands under the caption, not beside it."""
        return all(self.of_tokens) or self.is_column

    @property
    def caption(self) -> str:
        matrix, cut = self.matrix, []
        if self.is_column:
            return matrix.name
        for axis, seen, size in zip(matrix.axes, (matrix.rows, self.columns), matrix.shape, strict=True):
            if len(seen) < size:
                what = (
                    f"{plural_of(axis, size)} {seen.start} to {seen.stop - 1}" if seen.start else f"first {len(seen)}"
                )
                cut.append(f", {what} shown")
        return f"{matrix.name}: {_sizes(matrix, lettered=not cut)}{''.join(cut)}"

    def panel(self, y: float, left: float) -> Panel:
        """The table itself."""
        wide, high = self.cell
        values = self.matrix.values[:, : len(self.columns)].double().numpy()
        signed = not are_weights(self.stage, self.matrix)
        limit = panels.limit_of(values) if signed else max(1.0, panels.limit_of(values))
        beside = left, y - self.above + 1.5 * LINE
        if not self.is_read_below:
            beside = left + text_width(self.caption, WORD_CHARACTER) + 24, beside[1] - LINE
        sides = 0.0, y, wide * len(self.columns), high * len(self.matrix.rows)
        blocked = self.matrix.blocked
        hatched = None if blocked is None else blocked[:, : len(self.columns)].numpy()
        given = self.matrix.axes, self.matrix.rows, self.columns, values, *sides, limit, signed, beside
        return Panel(*given, blocked=hatched)

    def around(self, panel: Panel, left: float) -> Frame:
        """Caption, labels and a line around it."""
        caption = frame.words(left, panel.y - self.above + LINE / 2, self.caption, self.colors.text)
        line = frame.box(0, panel.y, panel.width, panel.y + panel.height, stroke=self.colors.line)
        return Frame(words=(caption,), boxes=(line,)) + self._labels(panel.y) + self._numbers(panel)

    def _labels(self, y: float) -> Frame:
        wide, high = self.cell
        rows, color = self.matrix.rows, self.colors.text if self.of_tokens[1] else self.colors.quiet
        if self.is_beside:
            named = []
        elif self.of_tokens[0]:
            named = [(i, self.labels[self.matrix.axes[0]][i]) for i in rows]
        else:
            every = max(1, round(16 / high)) * (4 if high < 10 else 1)
            named = [(i, str(i)) for i in rows[::every]] if len(rows) > 1 else []
        every = 1 if self.of_tokens[1] else next(n for n in (1, 2, 4, 8, 16) if n * wide >= 22)
        above = [((i + 0.5) * wide, name) for i, name in enumerate(self.names)][::every]
        above = [] if self.is_column else above
        beside = tuple(frame.words(-6, y + (i - rows.start + 0.5) * high, text, self.colors.text) for i, text in named)
        if self.upright:
            return Frame(rows=beside, columns=tuple(frame.words(x, y - 6, text, color) for x, text in above))
        return Frame(rows=beside, ticks=tuple(frame.words(x, y - 9, text, color) for x, text in above))

    def _numbers(self, panel: Panel) -> Frame:
        """The numbers inside of cells that have room for them."""
        (wide, high), ramp = self.cell, panels.ground(panel.signed, self.colors)
        if wide < READABLE[0] or high < READABLE[1]:
            return Frame()
        drawn, on_ramp = [], panel.kinds()[0]
        closed = np.zeros_like(on_ramp) if panel.blocked is None else panel.blocked
        short = max(text_width(in_cell(value)) for value in panel.values.flat) > wide - 4
        for (row, column), value in np.ndenumerate(panel.values):
            if closed[row, column]:
                continue
            ground = pixels.color_at(panel.place(value), ramp) if on_ramp[row, column] else None
            color = pixels.readable(ground, self.colors) if ground else self.colors.text
            drawn.append(frame.words((column + 0.5) * wide, panel.y + (row + 0.5) * high, in_cell(value, short), color))
        return Frame(ticks=tuple(drawn))


def _sizes(matrix: Matrix, *, lettered: bool) -> str:
    """What stands along both axes: "11 queries × 64 numbers (dₖ)"; of a table of numbers alone these once."""
    letters = [axis for axis in matrix.axes if axis not in ("query", "key", "1")]
    counts = [f"{n:,} {plural_of(axis, n)}" for axis, n in zip(matrix.axes, matrix.shape, strict=True) if axis != "1"]
    if len(letters) == 2:
        counts = [f"{matrix.shape[0]:,}", counts[1]]
    return " × ".join(counts) + (f" {in_letters(letters)}" if letters and lettered else "")


def _side(count: int, room: float) -> float:
    return float(max(SMALLEST, min(LARGEST, room // max(1, count))))


# Numbers as tables


def table(matrices: tuple[Matrix, ...], tokens: Tokens) -> pd.DataFrame:
    """One row per number: of one table of queries and keys query, query_token, key, key_token, value; else also table.

    The axes of other tables are called row and column, with the tokens that they stand for.
    """
    parts = [_tidy(matrix, tokens) for matrix in matrices]
    if len(parts) == 1 and set(matrices[0].axes) == {"query", "key"}:
        names = {"row": "query", "row_token": "query_token", "column": "key", "column_token": "key_token"}
        return parts[0].drop(columns="table").rename(columns=names)
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["table", "row", "column", "value"])


def _tidy(matrix: Matrix, tokens: Tokens) -> pd.DataFrame:
    texts = dict(zip(("query", "key"), ([token.text for token in part] for part in tokens), strict=True))
    rows, columns = matrix.rows, matrix.columns
    name = partial(_name, texts)
    return pd.DataFrame(
        {
            "table": matrix.name,
            "row": [i for i in rows for _ in columns],
            "row_token": [name(matrix.axes[0], i) for i in rows for _ in columns],
            "column": [j for _ in rows for j in columns],
            "column_token": [name(matrix.axes[1], j) for _ in rows for j in columns],
            "value": matrix.values.double().flatten().numpy(),
        }
    )


def _name(texts: dict[str, list[str]], axis: str, position: int) -> str:
    return texts[axis][position] if axis in texts else ""


def values(worked: Row, num_keys: int) -> Stage:
    """Weighted values and their sum, as tables."""
    wide = worked.weighted_values.shape[1]
    each = Matrix(
        "weighted",
        "weighted values (w ∘ V)",
        ("key", "d_v"),
        (num_keys, wide),
        worked.keys,
        range(wide),
        worked.weighted_values,
    )
    total = _line("o, their sum over all keys", "d_v", worked.output.unsqueeze(0))
    return _tables("weighted", "Weighted values", "o = Σ w v", (each, total))


def neurons(found: Neurons, num_keys: int, d_k: int) -> Stage:
    """Element by element, as tables: q, k and q ∘ k of one query against every key and dimension."""
    sizes = (num_keys, d_k)

    def of_keys(key: str, name: str, numbers: Tensor) -> Matrix:
        return Matrix(key, name, ("key", "d_k"), sizes, found.keys, found.dimensions, numbers)

    def column(key: str, name: str, numbers: Tensor) -> Matrix:
        return Matrix(key, name, ("1", "key"), (1, num_keys), range(1), found.keys, numbers.unsqueeze(0))

    query = Matrix("q", "q", ("1", "d_k"), (1, d_k), range(1), found.dimensions, found.query_vector.unsqueeze(0))
    matrices = (
        query,
        of_keys("k", "k", found.key_vectors),
        of_keys("qk", "q ∘ k", found.products),
        column("sums", "q · k", found.sums),
        column("weights", "weight", found.weights),
    )
    return _tables("neurons", "Element by element", "q · k = Σ q ∘ k", matrices)


def _line(name: str, axis: str, numbers: Tensor) -> Matrix:
    wide = numbers.shape[1]
    return Matrix(name, name, ("1", axis), (1, wide), range(1), range(wide), numbers)


def _tables(key: str, title: str, text: str, matrices: tuple[Matrix, ...]) -> Stage:
    return Stage(key, title, (Part(text, False),), (), (), matrices)
