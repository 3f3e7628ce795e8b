"""Figures of one attention call step by step: all stages, one stage, one query in full; and the effect of √d_k."""

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from attnviz.analysis.steps import DotProducts, Matrix, Row, Stage
from attnviz.analysis.views import Groups, as_tokens
from attnviz.charts import marks
from attnviz.charts.axes import THINNEST, TOKENS, GridSide, Size, every_of, number_cell, short
from attnviz.charts.bars import Bars, Column
from attnviz.charts.grid import READABLE, Grid, Number, limit_of, together
from attnviz.charts.marks import Ramp, Spec, heading, text_width, title_spec
from attnviz.charts.signs import CellState
from attnviz.charts.theme import TITLE_SIZE, Style
from attnviz.core.amounts import counted, digits, in_cell, percent
from attnviz.core.display import visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Token
from attnviz.figures.base import Figure, FigureFacts, Views, subtitles

WIDTH, HIGH, WIDE, MISSING, GAP = 302, 36, 84, 18, 8
"""Pixels: width of the overview (fits a phone), height and width of a thumbnail, height of a missing stage, gap."""

FIRST, MOST_COLUMNS = 16, 64
"""Most dimensions of a vector drawn in a thumbnail, and in a large table; exported tables have all known ones."""

LONGEST = 12
"""Most code points of a token's label."""

BESIDE, ALONE = 540, 896
"""Most pixels of the width of a large table, beside other tables and alone."""

MOST_CELLS = 4096
"""Most cells of all tables together that are drawn as rectangles; larger tables are images with clickable rows."""

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
    """Figure of the steps of one head; subclasses give its key and title as `shows`, and its tables as `matrices`."""

    record: Record
    site: Site
    head: int
    _: KW_ONLY
    sentence: int = 0

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
        parts = []
        for matrix in self.matrices:
            rows, columns_ = np.repeat(matrix.rows, len(matrix.columns)), np.tile(matrix.columns, len(matrix.rows))
            numbers = matrix.values.double().flatten().numpy()
            part = pd.DataFrame({"table": matrix.name, "row": rows, "column": columns_, "value": numbers})
            for side, axis in zip(("row", "column"), matrix.axes, strict=True):
                texts = [token.text for token in self.tokens.get(axis, ())]
                part[f"{side}_token"] = [texts[i] for i in part[side]] if texts else ""
            parts.append(part)
        return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()

    def _arrays(self) -> dict[str, np.ndarray]:
        return {matrix.key: matrix.values.numpy() for matrix in self.matrices}


def main(stage: Stage) -> Matrix | None:
    """Return the table that represents a stage; None if its numbers are unknown."""
    return next((matrix for matrix in stage.matrices if matrix.key in MAIN), next(iter(stage.matrices), None))


def _first_columns(matrix: Matrix, most: int) -> Matrix:
    """Cut a table to its first columns."""
    blocked = None if matrix.blocked is None else matrix.blocked[:, :most]
    return replace(matrix, columns=matrix.columns[:most], values=matrix.values[:, :most], blocked=blocked)


def number_grid(matrix: Matrix, size: Size, style: Style, *sides: GridSide, **options: Any) -> Grid:
    """Build a grid of colored cells from a table, on a color scale of its own.

    Minus infinity and blocked weights are hatched, NaN has a cross, and infinity has the color of the end of the scale.

    Args:
        sides: rows and columns; none for those of the table without texts.
    """
    rows, columns = sides or map(side_of, matrix.axes, (matrix.rows, matrix.columns))
    values, is_weight = matrix.values.double().numpy(), matrix.key in WEIGHTS
    limit = (max(1.0, limit_of(values)) if is_weight else limit_of(values)) or 1.0
    hatched = values == -np.inf
    if matrix.blocked is not None:
        hatched |= matrix.blocked.numpy()
    share = np.nan_to_num(np.where(hatched, 0.0, values) / limit, posinf=1.0)
    return Grid(
        rows=rows,
        columns=columns,
        size=size,
        states=np.select([hatched, np.isnan(values)], [1, 2]),
        kinds=KINDS,
        style=style,
        shade=np.clip(share if is_weight else (share + 1) / 2, 0, 1),
        palette=style.colors.ramp if is_weight else style.colors.diverging,
        text_title="",
        is_table=True,
        **options,
    )


def side_of(
    axis: str, positions: range, title: str = "", labels: Sequence[str] | None = None, names: Any = None, every: int = 0
) -> GridSide:
    """Make the rows or columns of a table, by default without texts."""
    starts, none = np.array(positions, int), [""] * len(positions)
    tokens = Groups(as_tokens(none), starts, starts + 1)
    return GridSide(tokens, title, axis, none if labels is None else labels, none if names is None else names, every)


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
        return tuple(filter(None, map(main, self.stages)))

    def _in_words(self) -> str:
        return " ".join(
            f"{i}. {stage.title}: {stage.missing or stage.changed}" for i, stage in enumerate(self.stages, 1)
        )

    def draw(self) -> Views:
        """Draw a thumbnail for each stage, with its name and shape on the right."""
        rows, chosen, y = [], [], 0.0
        for i, stage in enumerate(self.stages):
            matrix, ink = main(stage), self.colors.text
            if stage.key == self.current and self.on_screen:
                ink = self.colors.accent
            row = {"y": y, "position": i, "rev": self.rev, "ink": ink, "text": f"{i + 1}  {stage.title}"}
            if matrix:
                sizes = _sizes(stage.letters[1:], stage.shape[1:])
                row = row | {"y2": y + HIGH, "sizes": sizes} | self._thumbnail(matrix, y, chosen)
            else:
                row = row | {
                    "y2": y + MISSING,
                    "text": f"{row['text']}: {'not shown' if stage.is_used else 'not used'}",
                }
            rows.append(row)
            y = row["y2"] + GAP
        fields = ("x", "x2", "y", "y2", "uri", "text", "sizes", "number", "ink", "position", "rev")
        title = {} if self.on_screen else {"title": title_spec()}
        data = {
            "meta": heading(self._heading, subtitles(self.record, self), WIDTH, self),
            "stages": marks.columns(fields, [{"x": 0.0, "x2": 0.0} | row for row in rows]),
            "chosen": marks.columns(fields[:4], chosen),
        }
        return Views(marks.whole(self._form(max(1, y - GAP)) | title, self.colors), data)

    def _form(self, height: float) -> Spec:
        """Build the chart without title and tables."""
        colors, at, read = self.colors, marks.pixels_at, marks.as_is("ink")
        x, y = marks.places(WIDTH), marks.places(height, reverse=True)
        box, text, left = marks.box(x, y), {"align": "left", "baseline": "middle"}, {"x": at(WIDE + 14)}
        top, accent = {"y": box["y"]}, {"stroke": colors.accent, "strokeWidth": 1.5}
        name, sizes, number = (top | {"text": marks.field(field)} for field in ("text", "sizes", "number"))
        number, right = number | {"x": at(WIDTH)}, {"align": "right", "baseline": "middle", "color": colors.accent}
        missing = {"y": box["y"], "x": at(0), "text": marks.field("text")}
        current, there = f"datum.ink === '{colors.accent}'", "isValid(datum.uri)"
        target = marks.layer(
            "stages", "rect", box | {"x": at(-10), "x2": at(WIDTH)}, fill="transparent", cursor="pointer"
        )
        bold, quiet = {"fontWeight": 600, "fontSize": TITLE_SIZE - 1}, {"color": colors.quiet}
        image = box | {"url": marks.field("uri")}
        layers = [
            marks.layer("stages", "image", image, where=there, aspect=False, smooth=False),
            marks.layer("stages", "rect", box, where=there, fill=None, stroke=colors.line),
            marks.layer("chosen", "rect", box, fill=None, **accent),
            marks.layer(
                "stages", "rule", box | {"x": at(-8), "x2": at(-8)}, where=current, **accent | {"strokeWidth": 4}
            ),
            marks.layer("stages", "text", left | name | {"fill": read}, where=there, dy=8, **text, **bold),
            marks.layer("stages", "text", left | sizes, where=there, dy=27, **text, **quiet),
            marks.layer("stages", "text", missing, where=f"!{there}", dy=MISSING / 2, **text, **quiet),
            marks.layer("stages", "text", number, where="isValid(datum.number)", dy=9, **right),
            marks.unseen("meta"),
            target | {"name": "stages"},
        ]
        params = [marks.click("stage", ["stages"], "position", "rev")]
        return {"layer": layers, "width": WIDTH, "height": height, "resolve": marks.APART, "params": params}

    def _thumbnail(self, matrix: Matrix, y: float, chosen: list[dict]) -> dict[str, Any]:
        """Return width, image and selected number of a thumbnail; its outlines are added to `chosen`."""
        wide = float(WIDE)
        if {*matrix.axes} == {*TOKENS}:
            wide = max(12.0, min(WIDE, HIGH * len(matrix.columns) / max(1, len(matrix.rows))))
        else:
            matrix = _first_columns(matrix, FIRST)
        across, down = wide / max(1, len(matrix.columns)), HIGH / max(1, len(matrix.rows))
        grid = number_grid(matrix, Size("rectangles", across, *matrix.values.shape, high=down), self.style, title="")
        for row, row2, column, column2, *_ in zip(*grid.chosen().values(), strict=True):
            ends = {"x": column * across, "x2": column2 * across, "y": y + row * down, "y2": y + row2 * down}
            chosen.append(ends)
        number = "" if None in grid.selected else digits(matrix.values[grid.selected])
        return {"x2": wide, "uri": grid.uri(1 if self.on_screen else 2), "number": number}


@dataclass(frozen=True, eq=False)
class StageTables(HeadSteps):
    """Tables of one stage in full size, under each other, with labels of tokens and dimensions.

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
        rows: list[list[Grid]] = []
        for matrix, grid in zip(self.matrices, self.grids, strict=True):
            if rows and _is_column(matrix):
                rows[-1].append(grid)
            else:
                rows.append([grid])
        lines = [self._heading.partition(" · ")[2], *subtitles(self.record, self)]
        width = max((grid.size.width for grid in self.grids), default=0) + 60
        data = {name: table for grid in self.grids for name, table in grid.data.items()}
        meta = heading(self.stage.title, lines, width, self.style)
        return Views(together(rows, self.style), data | {"meta": meta})

    @cached_property
    def grids(self) -> tuple[Grid, ...]:
        """Grids of the tables; the last grid that begins a row has the legends for all grids."""
        every = [self._grid(i, matrix) for i, matrix in enumerate(self.matrices)]
        if every:
            last = [i for i, matrix in enumerate(self.matrices) if not (i and _is_column(matrix))][-1]
            kinds = [KINDS[i] for i in sorted({i for grid in every for i in grid.occurring})]
            every[last] = replace(every[last], ramp=self._ramp, signs=kinds)
        return tuple(every)

    @property
    def _ramp(self) -> Ramp:
        """Color legend of all tables; with several tables, each color scale ends at the largest number of its table."""
        signed, is_shared = any(matrix.key not in WEIGHTS for matrix in self.matrices), len(self.matrices) == 1
        caption = "from negative over 0 to positive" if signed else "weight, from 0 to 1"
        top, largest = limit_of(self.matrices[0].values.double().numpy()) or 1.0, "" if is_shared else "max"
        if not is_shared:
            caption = f"each table: {caption}"
        if signed:
            return Ramp(caption, top, self.colors.diverging, signed=True, largest=largest)
        return Ramp(caption, max(1.0, top), self.colors.ramp, largest=largest)

    def _grid(self, i: int, whole: Matrix) -> Grid:
        axes, matrix = whole.axes, _first_columns(whole, MOST_COLUMNS)
        positions = matrix.rows, matrix.columns
        wide, high = number_cell(axes, *map(len, positions), ALONE if self.stage.key == "neurons" else BESIDE)
        (labels, row_names), (over, names) = map(self._texts, axes, positions, ("row", "number"))
        cut = (side for side, size in zip(positions, whole.shape, strict=True) if len(side) < size)
        part = "".join(f", {side.start} to {side.stop - 1} shown" for side in cut)
        numbers = matrix.values.double()
        values = numbers.flatten().tolist()
        is_image, is_read = len(values) > MOST_CELLS // len(self.matrices), axes[1] in TOKENS and wide >= THINNEST
        titles = [axis if axis in TOKENS else side for axis, side in zip(axes, SIDES, strict=True)]
        labels = () if i and _is_column(matrix) else labels  # the previous table has row labels
        size = Size("pixels" if is_image else "rectangles", wide, *map(len, positions), high=high)
        grid = number_grid(
            matrix,
            replace(size, every=every_of(high, THINNEST)),
            self.style,
            side_of(axes[0], positions[0], titles[0], labels, row_names),
            side_of(axes[1], positions[1], titles[1], over, names, 1 if is_read else every_of(wide, 22)),
            title=matrix.name if axes[1] == "1" else f"{matrix.name}: {_sizes(axes, whole.shape)}{part}",
            prefix=f"{i}-",
            numbers=() if is_image else [Number("number", numbers.numpy(), [*map(digits, values)], "value")],
            written=self._cell_texts(matrix, values, wide) if wide >= READABLE[0] and high >= READABLE[1] else (),
            signs=(),
            lines=[""],
        )
        if None in grid.selected:
            return grid
        row, column = grid.selected
        verb = " looks at " if axes == TOKENS else ", "
        return replace(grid, lines=[f"{row_names[row]}{verb}{names[column]}: {digits(matrix.values[row, column])}"])

    @staticmethod
    def _cell_texts(matrix: Matrix, values: list[float], wide: float) -> list[str]:
        """Format numbers for the inside of cells, shorter in narrow cells; blocked cells have none."""
        is_short = max((text_width(in_cell(value)) for value in values), default=0) > wide - 4
        blocked = [False] * len(values) if matrix.blocked is None else matrix.blocked.flatten().tolist()
        return ["" if off else in_cell(value, is_short) for value, off in zip(values, blocked, strict=True)]

    def _texts(self, axis: str, places: range, noun: str) -> tuple[list[str], list[str]]:
        """Return labels of positions, and their names in tooltips."""
        if axis == "1":
            return [""] * len(places), [""] * len(places)
        if axis not in TOKENS:
            return [str(i) for i in places], [f"{noun} {i}" for i in places]
        texts = [self.tokens[axis][i].text for i in places]
        names = [f"{visible_text(text)} ({i})" for i, text in zip(places, texts, strict=True)]
        return [short(text, LONGEST) for text in texts], names


def _is_column(matrix: Matrix) -> bool:
    """Return whether a table has a single column, so that it is drawn right of the previous table."""
    return matrix.axes[1] == "1"


def _sizes(axes: tuple[str, ...], sizes: tuple[int, ...]) -> str:
    """Format sizes with nouns: "2 heads × 11 queries × 11 keys"; "" if they are unknown."""
    nouns = {"H": "head", "Q": "query", "K": "key", "query": "query", "key": "key"}
    sides = ((axis, size) for axis, size in zip(axes, sizes, strict=False) if axis != "1")
    return " × ".join(counted(size, nouns.get(axis, "number")) for axis, size in sides)


def values(row: Row, num_keys: int) -> Stage:
    """Build a stage of the weighted values of one query and their sum."""
    each = _key_table("weighted values (w ∘ V)", row.weighted_values, row, num_keys, "d_v")
    total = _line("o, their sum over all keys", "d_v", row.output)
    return Stage("weighted", "Weighted values", r"o = \sum_j w_j v_j", (), (), (each, total))


def neurons(row: Row, num_keys: int) -> Stage:
    """Build a stage of one query, element by element: q, k and q ∘ k for every key and dimension."""
    tables = [
        _line("q", "d_k", row.query_vector),
        _key_table("k", row.key_vectors, row, num_keys, "d_k"),
        _key_table("q ∘ k", row.products, row, num_keys, "d_k"),
        _key_table("q · k", row.sums, row, num_keys),
        _key_table("weight", row.weights, row, num_keys),
    ]
    return Stage("neurons", "Element by element", r"q \cdot k = \sum_i q_i k_i", (), (), tuple(tables))


def row(worked: Row, step: Step) -> Stage:
    """Build a stage of one query: for each step of this call, a table with a number for each key."""
    scoring = step.scoring
    steps = {
        "q · k": worked.sums,
        scale_text(step): worked.scaled,
        "softcap": None if scoring.softcap is None else worked.capped,
        "+ bias": worked.biased if scoring.bias else None,
        f"/ {scoring.temperature:g}": None if scoring.temperature == 1 else worked.scores,
        "mask": None if step.mask is None else worked.masked,
        "− max": worked.shifted,
        "exp": worked.exps,
        "weight": worked.weights,
    }
    tables = [_key_table(name, part, worked, step.shape[3]) for name, part in steps.items() if part is not None]
    totals = {"largest score": worked.maximum, "sum of exp": worked.sum_exps, "sum of weights": worked.row_sum}
    changed = " · ".join(f"{name} {digits(value)}" for name, value in totals.items())
    return Stage(f"query-{worked.query}", f"Query {worked.query} in full", "", (), (), tuple(tables), changed)


def _key_table(name: str, numbers: Tensor, row: Row, num_keys: int, axis: str = "1") -> Matrix:
    width = 1 if numbers.dim() == 1 else numbers.shape[1]
    return Matrix(name, name, ("key", axis), (num_keys, width), row.keys, range(width), numbers.reshape(-1, width))


def _line(name: str, axis: str, numbers: Tensor) -> Matrix:
    return Matrix(name, name, ("1", axis), (1, len(numbers)), range(1), range(len(numbers)), numbers.unsqueeze(0))


def scale_text(step: Step) -> str:
    """Format the factor of q · k: "÷ √…" for 1/√d_k, otherwise the number."""
    scale, d_k = step.scoring.scale, step.query.shape[-1]
    return f"÷ √{d_k}" if math.isclose(scale, d_k**-0.5) else f"· {scale:.4g}"


@dataclass(frozen=True, eq=False)
class LargestWeights(Figure):
    """Mean largest weight for each d_k: a filled bar with the scale inside a hollow bar without; `chosen` is marked."""

    spreads: tuple[DotProducts, ...]
    _: KW_ONLY
    chosen: int | None = None

    def facts(self) -> FigureFacts:
        title = "Largest weight of a row of random scores"
        return FigureFacts(heading=title, name="why-the-scale", table=self._table, words=self._in_words)

    def _table(self) -> pd.DataFrame:
        """Table with one row per d_k: variances, and mean measures of the rows without and with the scale."""
        return pd.json_normalize([asdict(spread) for spread in self.spreads], sep="_")

    def _in_words(self) -> str:
        bars = self.drawing
        texts = (f"{name} {text}" for name, text in zip(bars.names, bars.columns[0].texts, strict=True))
        return f"{self.title}, as it is → divided by √dₖ: {'; '.join(texts)}."

    def draw(self) -> Bars:
        unscaled, scaled = ([getattr(s, side).largest for s in self.spreads] for side in ("unscaled", "scaled"))
        texts = [f"{percent(a)} → {percent(b)}" for a, b in zip(unscaled, scaled, strict=True)]
        return Bars(
            title="" if self.on_screen else self._heading,  # the page has a title of its own
            lines=("hollow bar: q·k as it is; filled bar: with the scale", "16 keys; random numbers of variance 1"),
            names=[f"dₖ = {spread.d_k:,}" for spread in self.spreads],
            columns=[Column(texts, scaled, unscaled, longest=1.0)],
            style=self.style,
            length=220,
            chosen=[i for i, spread in enumerate(self.spreads) if spread.d_k == self.chosen],
        )
