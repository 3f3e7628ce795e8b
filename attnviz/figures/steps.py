"""Figures of one attention call step by step: all stages, or the tables of one stage or of one query."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from attnviz.analysis.steps import Matrix, Stage
from attnviz.analysis.views import Groups, as_tokens
from attnviz.charts import marks
from attnviz.charts.axes import THINNEST, TOKENS, GridSide, Size, label_step, number_cell, short
from attnviz.charts.grid import READABLE, Grid, together
from attnviz.charts.marks import Ramp, heading, limit_of, text_width, title_spec
from attnviz.charts.pixels import Number, Squares
from attnviz.charts.signs import CellState
from attnviz.charts.theme import Style
from attnviz.core.amounts import counted, digits, in_cell
from attnviz.core.display import visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.core.tokens import Token
from attnviz.figures.base import Figure, FigureFacts, Views, subtitles
from attnviz.figures.heads import thumbnail_chart, thumbnail_tables

WIDTH, HIGH, WIDE, MISSING, GAP = 302, 36, 84, 18, 8
"""Pixels: width of the overview (fits a phone), height and width of a thumbnail, height of a stage without one, gap."""
FIRST, MOST_COLUMNS = 16, 64
"""Maximum number of dimensions of a vector in a thumbnail, and in a large table; exported tables have them all."""
LONGEST = 12
"""Maximum number of code points of a token's label."""
BESIDE, ALONE = 540, 896
"""Maximum width in pixels of a large table: beside other tables, and alone."""
MOST_CELLS = 4096
"""Maximum number of cells of all tables together for rectangles; larger tables are images with clickable rows."""
KINDS = (
    CellState("number", "ramp", legend=""),
    CellState("blocked", "blocked", "hatch"),
    CellState("NaN: not a number", "blocked", "cross"),
)
"""States of a cell in a table of numbers."""
WEIGHTS, SIDES = ("weight", "weights", "may_attend"), ("row", "column")
"""Keys of tables whose color scale begins at 0, and titles of axes that are not tokens."""
MAIN = ("embedded_query", "q_all", "y")
"""Keys of the tables that represent their stages; other stages are represented by their first table."""


@dataclass(frozen=True, eq=False)
class HeadSteps(Figure):
    """Base class of figures of one head's steps; `shows` has file name and title, `matrices` the numbers."""

    record: Record = field()
    site: Site
    head: int

    @property
    def facts(self) -> FigureFacts:
        key, title = self.shows
        return FigureFacts(
            what=f"{title} · {self.site.head(self.head)}",
            subject=(f"{self.site} head-{self.head}-{key}",),
            table=self._table,
            words=self._in_words,
            arrays=self._arrays,
        )

    @cached_property
    def tokens(self) -> dict[str, tuple[Token, ...]]:
        """Tokens of the query axis and of the key axis, by the name of the axis."""
        return dict(zip(TOKENS, self.record.tokens(self.site, sentence=self.sentence), strict=True))

    def _table(self) -> pd.DataFrame:
        """Table with one row per number: table, row, row_token, column, column_token, value."""
        tables = []
        for matrix in self.matrices:
            rows, columns = np.repeat(matrix.rows, len(matrix.columns)), np.tile(matrix.columns, len(matrix.rows))
            numbers = matrix.values.double().flatten().numpy()
            table = pd.DataFrame({"table": matrix.name, "row": rows, "column": columns, "value": numbers})
            for side, axis in zip(("row", "column"), matrix.axes, strict=True):
                texts = [token.text for token in self.tokens.get(axis, ())]  # empty for an axis of dimensions
                table[f"{side}_token"] = [texts[i] for i in table[side]] if texts else ""
            tables.append(table)
        return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()

    def _arrays(self) -> dict[str, np.ndarray]:
        return {matrix.key: matrix.values.numpy() for matrix in self.matrices}


def main_table(stage: Stage) -> Matrix | None:
    """Return the table that represents a stage; None if its numbers are unknown."""
    main_tables = [matrix for matrix in stage.matrices if matrix.key in MAIN]
    return next(iter(main_tables or stage.matrices), None)


def _first_columns(matrix: Matrix, most: int) -> Matrix:
    """Cut a table to at most `most` columns, the first ones."""
    blocked = None if matrix.blocked is None else matrix.blocked[:, :most]
    return replace(matrix, columns=matrix.columns[:most], values=matrix.values[:, :most], blocked=blocked)


def number_grid(
    matrix: Matrix,
    size: Size,
    style: Style,
    *sides: GridSide,
    texts: Sequence[str] | str = ".3g",
    written: Sequence[str] = (),
    **options: Any,
) -> Grid:
    """Build a grid of colored cells from a table, on a color scale of its own.

    Minus infinity and blocked weights are hatched, NaN has a cross, and infinity has the color of the end of the scale.

    Args:
        sides: rows and columns of the grid; if omitted, those of the matrix, without token texts.
        texts, written: texts of the numbers in tooltips (or their format), and inside the cells.
    """
    rows, columns = sides or map(side_of, matrix.axes, (matrix.rows, matrix.columns))
    values, is_weight = matrix.values.double().numpy(), matrix.key in WEIGHTS
    hatched = values == -np.inf
    if matrix.blocked is not None:
        hatched |= matrix.blocked.numpy()
    top = (max(1.0, limit_of(values)) if is_weight else limit_of(values)) or 1.0
    squares = Squares(
        states=np.select([hatched, np.isnan(values)], [1, 2]),
        kinds=KINDS,
        numbers=[Number("number", values, texts, "value")],
        ramp=Ramp("", top, signed=not is_weight),
        text_title="",
        written=written,
    )
    return Grid(rows=rows, columns=columns, size=size, squares=squares, style=style, is_table=True, **options)


def side_of(
    axis: str, positions: range, title: str = "", labels: Sequence[str] | None = None, names: Any = None, every: int = 0
) -> GridSide:
    """Make the rows or columns of a table, by default without texts; for the arguments see `GridSide`."""
    starts, blanks = np.array(positions, int), [""] * len(positions)
    tokens = Groups(as_tokens(blanks), starts, starts + 1)
    labels, names = (blanks if texts is None else texts for texts in (labels, names))
    return GridSide(tokens, title, axis, labels, names, every)


@dataclass(frozen=True, eq=False)
class StepsOverview(HeadSteps):
    """Thumbnails of all stages of a call; a click selects a stage as "stage" with the fields position and rev.

    Attributes:
        stages: result of `steps.chain`.
        current: key of the stage to mark on the screen.
        selected: (query, key) to show with its number in each table; -1 for none.
    """

    stages: tuple[Stage, ...]
    _: KW_ONLY
    current: str = ""

    shows = "steps", "Step by step"

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        return tuple(filter(None, map(main_table, self.stages)))

    def _in_words(self) -> str:
        texts = (f"{i}. {stage.title}: {stage.missing or stage.changed}" for i, stage in enumerate(self.stages, 1))
        return " ".join(texts)

    def draw(self) -> Views:
        """Draw a thumbnail for each stage, with its name, its shape and its selected number on the right."""
        colors, rows, labels, y = self.colors, [], [], 0.0
        for i, stage in enumerate(self.stages):
            matrix, is_current = main_table(stage), stage.key == self.current and self.on_screen
            row = {"x": 0.0, "x2": 0.0, "y": y, "position": i, "rev": self.rev, "label": "", "focused": False}
            if matrix is None:
                text = f"{i + 1}  {stage.title}: {'not shown' if stage.is_used else 'not used'}"
                rows.append(row | {"y2": y + MISSING})
                labels.append((0.0, y + MISSING / 2, text, "left", colors.quiet))
            else:
                sizes, ink = _sizes(stage.letters[1:], stage.shape[1:]), colors.accent if is_current else colors.text
                wide, uri, number = self._thumbnail(matrix)
                rows.append(row | {"y2": y + HIGH, "x2": wide, "uri": uri, "focused": is_current})
                labels += [
                    (WIDE + 14.0, y + 8, f"{i + 1}  {stage.title}", "left", ink),
                    (WIDE + 14.0, y + 27, sizes, "left", colors.quiet),
                    (float(WIDTH), y + 9, number, "right", colors.accent),
                ]
            y = rows[-1]["y2"] + GAP
        click, end = marks.click("stage", ["stages"], "position", "rev"), marks.pixels_at(WIDTH)
        chart = thumbnail_chart("stages", (WIDTH, max(1.0, y - GAP)), colors, click, [], x=marks.pixels_at(0), x2=end)
        chart["layer"].append(marks.unseen("meta"))
        meta = heading(self.heading_text, subtitles(self.record, self), WIDTH, self)
        data = {"meta": meta, **thumbnail_tables("stages", rows, labels, "position", "rev")}
        title = {} if self.on_screen else {"title": title_spec()}
        return Views(marks.whole(chart | title, colors), data)

    def _thumbnail(self, matrix: Matrix) -> tuple[float, str, str]:
        """Return the width in pixels, the image as a URI, and the selected number of a thumbnail."""
        wide = float(WIDE)
        if {*matrix.axes} == {*TOKENS}:
            wide = max(12.0, min(WIDE, HIGH * len(matrix.columns) / max(1, len(matrix.rows))))
        else:
            matrix = _first_columns(matrix, FIRST)
        cell_width, cell_height = wide / max(1, len(matrix.columns)), HIGH / max(1, len(matrix.rows))
        size = Size("rectangles", cell_width, *matrix.values.shape, high=cell_height)
        grid = number_grid(matrix, size, self.style)
        number = "" if None in grid.selected else digits(matrix.values[grid.selected])
        return wide, grid.uri(1 if self.on_screen else 2), number


@dataclass(frozen=True, eq=False)
class StageTables(HeadSteps):
    """Tables of one stage in full size, one below the other, with labels of tokens and dimensions.

    A click selects a cell under the name "cell" with the fields query, key and rev; -1 if the table has no such axis.

    Attributes:
        matrices: tables of the stage to show.
        selected: (query, key) that is outlined; -1 for none.
    """

    stage: Stage
    matrices: tuple[Matrix, ...]

    @property
    def shows(self) -> tuple[str, str]:
        return self.stage.key, self.stage.title

    def _in_words(self) -> str:
        return f"{self.stage.title}. {self.stage.missing or self.stage.changed}".strip()

    def draw(self) -> Views:
        """Draw the tables one below the other; a table with a single column goes to the right of the one before it."""
        rows: list[list[Grid]] = []
        for matrix, grid in zip(self.matrices, self.grids, strict=True):
            if rows and matrix.axes[1] == "1":  # a single column
                rows[-1].append(grid)
            else:
                rows.append([grid])
        lines = [self.heading_text.removeprefix(f"{self.stage.title} · "), *subtitles(self.record, self)]
        width = max((grid.size.width for grid in self.grids), default=0) + 60
        data = {name: table for grid in self.grids for name, table in grid.data.items()}
        meta = heading(self.stage.title, lines, width, self.style)
        return Views(together(rows, self.style), data | {"meta": meta})

    @cached_property
    def grids(self) -> tuple[Grid, ...]:
        """Grids of the tables; the last grid that begins a row has the legends for all grids."""
        grids = [self._grid(i, matrix) for i, matrix in enumerate(self.matrices)]
        if grids:
            row_begins = [i for i, matrix in enumerate(self.matrices) if i == 0 or matrix.axes[1] != "1"]
            kinds = [KINDS[i] for i in sorted({i for grid in grids for i in grid.squares.occurring})]
            grids[row_begins[-1]] = replace(grids[row_begins[-1]], ramp=self._ramp, signs=kinds)
        return tuple(grids)

    @property
    def _ramp(self) -> Ramp:
        """Color legend of all tables; with several tables, each color scale ends at the largest number of its table."""
        is_signed = any(matrix.key not in WEIGHTS for matrix in self.matrices)
        caption, largest = "from negative over 0 to positive" if is_signed else "weight, from 0 to 1", ""
        if len(self.matrices) > 1:
            caption, largest = f"each table: {caption}", "max"
        top = limit_of(self.matrices[0].values.double().numpy()) or 1.0
        return Ramp(caption, top if is_signed else max(1.0, top), signed=is_signed, largest=largest)

    def _grid(self, i: int, whole: Matrix) -> Grid:
        """Build the grid of table `i`; the line above it describes the selected cell."""
        axes, matrix = whole.axes, _first_columns(whole, MOST_COLUMNS)
        positions = matrix.rows, matrix.columns
        wide, high = number_cell(axes, *map(len, positions), ALONE if self.stage.key == "neurons" else BESIDE)
        row_labels, row_names = self._texts(axes[0], matrix.rows, "row")
        if i and axes[1] == "1":  # the table on the left has row labels
            row_labels = ()
        column_labels, column_names = self._texts(axes[1], matrix.columns, "number")
        column_step = 1 if axes[1] in TOKENS and wide >= THINNEST else label_step(wide, 22)
        cut = (shown for shown, count in zip(positions, whole.shape, strict=True) if len(shown) < count)
        shown_part = "".join(f", {shown.start} to {shown.stop - 1} shown" for shown in cut)
        values = matrix.values.double().flatten().tolist()
        is_image = len(values) > MOST_CELLS // len(self.matrices)
        titles = [axis if axis in TOKENS else side for axis, side in zip(axes, SIDES, strict=True)]
        size = Size("pixels" if is_image else "rectangles", wide, *map(len, positions), high=high)
        grid = number_grid(
            matrix,
            replace(size, every=label_step(high, THINNEST)),
            self.style,
            side_of(axes[0], matrix.rows, titles[0], row_labels, row_names),
            side_of(axes[1], matrix.columns, titles[1], column_labels, column_names, column_step),
            title=matrix.name if axes[1] == "1" else f"{matrix.name}: {_sizes(axes, whole.shape)}{shown_part}",
            prefix=f"{i}-",
            texts=".3g" if is_image else [*map(digits, values)],
            written=self._cell_texts(matrix, values, wide) if wide >= READABLE[0] and high >= READABLE[1] else (),
            signs=(),
            lines=[""],
        )
        if None in grid.selected:
            return grid
        row, column = grid.selected
        verb = " looks at " if axes == TOKENS else ", "
        if matrix.key == "mixing":
            verb = " takes "
        cell = f"{row_names[row]}{verb}{column_names[column]}"
        return replace(grid, lines=[f"{cell}: {digits(matrix.values[row, column])}"])

    @staticmethod
    def _cell_texts(matrix: Matrix, values: list[float], wide: float) -> list[str]:
        """Format numbers for the inside of cells `wide` pixels wide, shorter if they do not fit; "" if blocked."""
        is_short = max((text_width(in_cell(value)) for value in values), default=0) > wide - 4
        blocked = [False] * len(values) if matrix.blocked is None else matrix.blocked.flatten().tolist()
        pairs = zip(values, blocked, strict=True)
        return ["" if is_blocked else in_cell(value, is_short) for value, is_blocked in pairs]

    def _texts(self, axis: str, positions: range, noun: str) -> tuple[list[str], list[str]]:
        """Return the labels of positions on an axis, and their names in tooltips: tokens, or `noun` with a number."""
        if axis == "1":
            return [""] * len(positions), [""] * len(positions)
        if axis not in TOKENS:
            return [str(i) for i in positions], [f"{noun} {i}" for i in positions]
        texts = [self.tokens[axis][i].text for i in positions]
        names = [f"{visible_text(text)} ({i})" for i, text in zip(positions, texts, strict=True)]
        return [short(text, LONGEST) for text in texts], names


def _sizes(axes: tuple[str, ...], sizes: tuple[int, ...]) -> str:
    """Format sizes with nouns: "2 heads × 11 queries × 11 keys"; "" if there are no sizes."""
    nouns = {"H": "head", "Q": "query", "K": "key", "query": "query", "key": "key"}
    sides = ((axis, size) for axis, size in zip(axes, sizes, strict=False) if axis != "1")
    return " × ".join(counted(size, nouns.get(axis, "number")) for axis, size in sides)
