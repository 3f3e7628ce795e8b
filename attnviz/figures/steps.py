"""Figures of one attention call step by step: all stages small, one stage large, one query in full; and why √d_k."""

import math
from dataclasses import KW_ONLY, asdict, dataclass
from functools import cached_property

import altair as alt
import numpy as np
import pandas as pd
from torch import Tensor

from attnviz.analysis.steps import DotProducts, Matrix, Row, Stage
from attnviz.charts.bars import Bars, Column
from attnviz.charts.interaction import QUIET_MARK, clicked, share
from attnviz.charts.matrices import TOKENS, Matrices, NumberCells, limit_of, outline
from attnviz.charts.picture import Form, Table, columns, formed
from attnviz.charts.size import THINNEST, every_of, number_cell
from attnviz.charts.texts import heading, titled
from attnviz.charts.theme import MONO, TITLE_SIZE, Theme, config
from attnviz.core.amounts import counted, digits, percent
from attnviz.core.display import visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record, Step
from attnviz.core.tokens import Token
from attnviz.figures.base import BarFigure, Figure
from attnviz.figures.figure import subtitles

WIDTH, HIGH, WIDE, MISSING, GAP = 302, 36, 84, 18, 8
"""Pixels of all stages, which fit a phone; of a thumbnail; of a stage without numbers; and between two stages."""

FIRST, MOST_COLUMNS = 16, 64
"""Dimensions of a vector in a thumbnail and in a large table, the first; tables of numbers hold all that are known."""

COLUMNS = tuple("position rev is_current x x2 y y2 ink uri title shape number missing".split())
"""Columns of the table of all stages."""

BESIDE, ALONE = 540, 896
"""Pixels of a large table at most, beside other things and alone."""

MAIN = ("embedded_query", "q_all", "y")
"""Tables that stand for their stages; of other stages the first table does."""


@dataclass(frozen=True, eq=False)
class HeadSteps(Figure):
    """Figure of one head of an attention call: `shows` names it, `matrices` are its tables."""

    record: Record
    site: Site
    head: int
    _: KW_ONLY
    sentence: int = 0

    @property
    def _subject(self) -> tuple[str]:
        return (f"{self.site} head-{self.head}-{self.shows[0]}",)

    @property
    def _what(self) -> str:
        return f"{self.shows[1]} · {self.site.head(self.head)}"

    @cached_property
    def tokens(self) -> dict[str, tuple[Token, ...]]:
        """All tokens of the axes that stand for tokens."""
        return dict(zip(TOKENS, self.record.tokens(self.site, sentence=self.sentence), strict=True))

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per number: table, row, row_token, column, column_token, value."""
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

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return {matrix.key: matrix.values.numpy() for matrix in self.matrices}


def main(stage: Stage) -> Matrix | None:
    """The table that stands for a stage; None if its numbers are not known."""
    return next((matrix for matrix in stage.matrices if matrix.key in MAIN), next(iter(stage.matrices), None))


def number_cells(matrix: Matrix, most: int | None, cell: tuple[float, float], **labels: object) -> NumberCells:
    """A table as colored cells on a scale of its own, with its first `most` columns."""
    values = matrix.values[:, :most].double().numpy()
    is_weight, limit = matrix.key in ("weight", "weights", "may_attend"), limit_of(values)
    return NumberCells(
        axes=matrix.axes,
        rows=matrix.rows,
        columns=matrix.columns[:most],
        values=values,
        cell=cell,
        limit=max(1.0, limit) if is_weight else limit,
        signed=not is_weight,
        blocked=None if matrix.blocked is None else matrix.blocked[:, :most].numpy(),
        **{"title": matrix.name} | labels,
    )


@dataclass(frozen=True, eq=False)
class StepsOverview(HeadSteps):
    """All stages of a call as thumbnails; a click selects one under the name "stage" with the fields position and rev.

    Attributes:
        stages: result of `steps.chain`.
        current: key of the stage that is marked on the screen.
        selected: (query, key) whose numbers stand beside each table; -1 for none.
    """

    stages: tuple[Stage, ...]
    _: KW_ONLY
    current: str = ""

    shows = "steps", "Step by step"

    @cached_property
    def matrices(self) -> tuple[Matrix, ...]:
        return tuple(filter(None, map(main, self.stages)))

    @cached_property
    def description(self) -> str:
        return " ".join(
            f"{i}. {stage.title}: {stage.missing or stage.changed}" for i, stage in enumerate(self.stages, 1)
        )

    @property
    def form(self) -> Form:
        height = sum(HIGH if stage.matrices else MISSING for stage in self.stages) + GAP * (len(self.stages) - 1)
        return _overview_form(height, self.colors, is_titled=not self.on_screen)

    @cached_property
    def data(self) -> dict[str, Table]:
        rows, outlines, y = [], [], 0.0
        for i, stage in enumerate(self.stages):
            matrix, is_current = main(stage), self.on_screen and stage.key == self.current
            bottom, ink = y + (HIGH if matrix else MISSING), self.colors.accent if is_current else self.colors.text
            row = {"position": i, "rev": self.rev, "is_current": is_current, "ink": ink, "x": 0, "y": y, "y2": bottom}
            name = f"{i + 1}  {stage.title}"
            if matrix:
                row.update(self._thumbnail(matrix, y, outlines), title=name)
                row["shape"] = _sizes(stage.letters[1:], stage.shape[1:])
            else:
                row["missing"] = f"{name}: {'not shown' if stage.is_used else 'not used'}"
            rows.append(row)
            y = bottom + GAP
        return {
            "meta": heading(self._heading, subtitles(self.record, self), WIDTH, self),
            "stages": columns(COLUMNS, rows),
            "outlines": columns(("x", "x2", "y", "y2"), outlines),
        }

    def _thumbnail(self, matrix: Matrix, y: float, outlines: list[dict[str, float]]) -> dict[str, object]:
        """Columns of a thumbnail; the selected cell, row or column of it is added to the outlines."""
        rows, count, wide = max(1, len(matrix.rows)), len(matrix.columns), WIDE
        if set(matrix.axes) == {*TOKENS}:
            wide = max(12.0, min(WIDE, HIGH * count / rows))
        else:
            count = min(FIRST, count)
        cells = number_cells(matrix, count, (wide / max(1, count), HIGH / rows))
        found = {"x2": wide, "uri": cells.uri(self.colors, (wide, HIGH), 1 if self.on_screen else 2)}
        row, column = cells.index_of(self.selected) if isinstance(self.selected, tuple) else (-1, -1)
        if min(row, column) >= 0:
            found["number"] = digits(cells.values[row, column])
        if max(row, column) >= 0:
            down, across = outline(row, column, len(matrix.rows), count)
            high = [y + edge * cells.cell[1] for edge in down]
            x, x2 = (edge * cells.cell[0] for edge in across)
            outlines.append({"x": x, "x2": x2, "y": high[0], "y2": high[1]})
        return found


@formed(32)
def _overview_form(height: float, colors: Theme, *, is_titled: bool) -> Form:
    scale = {"nice": False, "zero": False}
    down = {"scale": alt.Scale(domain=[0, max(1, height)], reverse=True, **scale), "axis": None}
    y, y2 = alt.Y("y:Q", **down), alt.Y2("y2")
    x = alt.X("x:Q", scale=alt.Scale(domain=[0, WIDTH], **scale), axis=None)
    box = {"y": y, "y2": y2, "x": x, "x2": alt.X2("x2")}
    stages, outlines = alt.Chart(alt.NamedData("stages")), alt.Chart(alt.NamedData("outlines"))
    thumbnails, bar = stages.transform_filter("isValid(datum.uri)"), stages.transform_filter("datum.is_current")
    area = stages.mark_rect(fill="transparent", cursor="pointer", aria=False, tooltip=None)

    def text(field: str, at: float, dy: float, **mark: object) -> alt.Chart:
        texts = stages.transform_filter(f"isValid(datum.{field})")
        texts = texts.mark_text(baseline="middle", dy=dy, **{"align": "left"} | mark, **QUIET_MARK)
        ink = {} if "color" in mark else {"fill": alt.Fill("ink:N", scale=None)}
        return texts.encode(y=y, x=alt.XValue(at), text=alt.Text(f"{field}:N"), **ink)

    layers = [
        thumbnails.mark_image(aspect=False, smooth=False, **QUIET_MARK).encode(**box, url=alt.Url("uri:N")),
        thumbnails.mark_rect(fill=None, stroke=colors.line, **QUIET_MARK).encode(**box),
        outlines.mark_rect(fill=None, stroke=colors.accent, strokeWidth=1.5, **QUIET_MARK).encode(**box),
        bar.mark_rect(fill=colors.accent, **QUIET_MARK).encode(y=y, y2=y2, x=alt.XValue(-10), x2=alt.X2Value(-6)),
        text("title", WIDE + 14, 8, fontWeight=600, fontSize=TITLE_SIZE - 1),
        text("shape", WIDE + 14, 27, color=colors.quiet),
        text("number", WIDTH, 9, align="right", font=MONO, color=colors.accent),
        text("missing", 0, MISSING / 2, color=colors.quiet),
        alt.Chart(alt.NamedData("meta")).mark_point(opacity=0, size=0, **QUIET_MARK),
        area.encode(y=y, y2=y2, x=alt.XValue(-10), x2=alt.X2Value(WIDTH)).properties(name="stages"),
    ]
    chart = alt.layer(*layers, width=WIDTH, height=height, autosize="pad")
    chart.title = titled(colors) if is_titled else alt.Undefined
    chart.params = share(["stages"], clicked("stage", "position", "rev"))
    return Form.of(chart.configure(**config(colors)))


@dataclass(frozen=True, eq=False)
class StageTables(HeadSteps):
    """Some tables of one stage, large: one under the other, with the labels of tokens and dimensions.

    A click selects under the name "cell" the fields query, key and rev; -1 for what a table has no axis of.

    Attributes:
        matrices: tables of the stage to show.
        selected: (query, key) that is outlined; -1 for none.
    """

    stage: Stage
    matrices: tuple[Matrix, ...]

    @property
    def shows(self) -> tuple[str, str]:
        return self.stage.key, self.stage.title

    @cached_property
    def description(self) -> str:
        return f"{self.stage.title}. {self.stage.missing or self.stage.changed}".strip()

    @property
    def form(self) -> Form:
        return self._tables.form

    @property
    def data(self) -> dict[str, Table]:
        return self._tables.data

    @cached_property
    def _tables(self) -> Matrices:
        lines = [self._heading.partition(" · ")[2], *subtitles(self.record)]
        tables = [self._cells(matrix, matrix is not self.matrices[0]) for matrix in self.matrices]
        return Matrices(title=self.stage.title, lines=lines, matrices=tables, style=self.style)

    def _cells(self, matrix: Matrix, has_table_before: bool) -> NumberCells:
        places, axes = (matrix.rows, matrix.columns[:MOST_COLUMNS]), matrix.axes
        wide, high = number_cell(axes, *map(len, places), ALONE if self.stage.key == "neurons" else BESIDE)
        is_read = axes[1] in TOKENS and wide >= THINNEST
        labels, names = zip(*map(self._texts, axes, places, ("row", "number")), strict=True)
        cut = [side for side, size in zip(places, matrix.shape, strict=True) if len(side) < size]
        shown = "".join(f", {side.start} to {side.stop - 1} shown" for side in cut)
        return number_cells(
            matrix,
            MOST_COLUMNS,
            (wide, high),
            title=matrix.name if axes[1] == "1" else f"{matrix.name}: {_sizes(axes, matrix.shape)}{shown}",
            labels=labels,
            names=names,
            every=(every_of(high, THINNEST), 1 if is_read else every_of(wide, 22)),
            is_beside=axes[1] == "1" and has_table_before,
        )

    def _texts(self, axis: str, places: range, noun: str) -> tuple[list[str], list[str]]:
        """Labels of positions, and their names under the pointer."""
        if axis == "1":
            return [], [""] * len(places)
        if axis not in TOKENS:
            return [str(i) for i in places], [f"{noun} {i}" for i in places]
        texts = [self.tokens[axis][i].text for i in places]
        names = [f"{visible_text(text)} ({i})" for i, text in zip(places, texts, strict=True)]
        return [visible_text(text, 12) for text in texts], names


def _sizes(axes: tuple[str, ...], sizes: tuple[int, ...]) -> str:
    """Sizes in nouns: "2 heads × 11 queries × 11 keys"; "" if they are not known."""
    nouns = {"H": "head", "Q": "query", "K": "key", "query": "query", "key": "key"}
    sides = ((axis, size) for axis, size in zip(axes, sizes, strict=False) if axis != "1")
    return " × ".join(counted(size, nouns.get(axis, "number")) for axis, size in sides)


def values(row: Row, num_keys: int) -> Stage:
    """Weighted values and their sum, as tables."""
    each = _of_keys("weighted values (w ∘ V)", row.weighted_values, row, num_keys, "d_v")
    total = _line("o, their sum over all keys", "d_v", row.output)
    return Stage("weighted", "Weighted values", r"o = \sum_j w_j v_j", (), (), (each, total))


def neurons(row: Row, num_keys: int) -> Stage:
    """Element by element, as tables: q, k and q ∘ k of one query against every key and dimension."""
    tables = [
        _line("q", "d_k", row.query_vector),
        _of_keys("k", row.key_vectors, row, num_keys, "d_k"),
        _of_keys("q ∘ k", row.products, row, num_keys, "d_k"),
        _of_keys("q · k", row.sums, row, num_keys),
        _of_keys("weight", row.weights, row, num_keys),
    ]
    return Stage("neurons", "Element by element", r"q \cdot k = \sum_i q_i k_i", (), (), tuple(tables))


def row(worked: Row, step: Step) -> Stage:
    """One query in full: every step that this call has, as a table with a number for each key."""
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
    tables = [_of_keys(name, part, worked, step.shape[3]) for name, part in steps.items() if part is not None]
    totals = {"largest score": worked.maximum, "sum of exp": worked.sum_exps, "sum of weights": worked.row_sum}
    changed = " · ".join(f"{name} {digits(value)}" for name, value in totals.items())
    return Stage(f"query-{worked.query}", f"Query {worked.query} in full", "", (), (), tuple(tables), changed)


def _of_keys(name: str, numbers: Tensor, row: Row, num_keys: int, axis: str = "1") -> Matrix:
    width = 1 if numbers.dim() == 1 else numbers.shape[1]
    return Matrix(name, name, ("key", axis), (num_keys, width), row.keys, range(width), numbers.reshape(-1, width))


def _line(name: str, axis: str, numbers: Tensor) -> Matrix:
    return Matrix(name, name, ("1", axis), (1, len(numbers)), range(1), range(len(numbers)), numbers.unsqueeze(0))


def scale_text(step: Step) -> str:
    """Factor of q · k; 1/√d_k is written so."""
    scale, d_k = step.scoring.scale, step.query.shape[-1]
    return f"÷ √{d_k}" if math.isclose(scale, d_k**-0.5) else f"· {scale:.4g}"


@dataclass(frozen=True, eq=False)
class LargestWeights(BarFigure):
    """Mean largest weight for each d_k, `chosen` marked: a filled bar with the scale, in a hollow one without it."""

    spreads: tuple[DotProducts, ...]
    _: KW_ONLY
    chosen: int | None = None

    name = "why-the-scale"
    title = "Largest weight of a row of random scores"

    @cached_property
    def description(self) -> str:
        texts = (f"{name} {text}" for name, text in zip(self.bars.names, self.bars.columns[0].texts, strict=True))
        return f"{self.title}, as it is → divided by √dₖ: {'; '.join(texts)}."

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per d_k: the variances, and the mean measures of rows without and with the scale."""
        return pd.json_normalize([asdict(spread) for spread in self.spreads], sep="_")

    @cached_property
    def bars(self) -> Bars:
        unscaled, scaled = ([getattr(s, side).largest for s in self.spreads] for side in ("unscaled", "scaled"))
        texts = [f"{percent(a)} → {percent(b)}" for a, b in zip(unscaled, scaled, strict=True)]
        return Bars(
            title="" if self.on_screen else self.title,  # the page says it above
            lines=("hollow bar: q·k as it is; filled bar: with the scale", "16 keys; random numbers of variance 1"),
            names=[f"dₖ = {spread.d_k:,}" for spread in self.spreads],
            columns=[Column(texts, scaled, unscaled, longest=1.0)],
            style=self.style,
            length=220,
            chosen=[i for i, spread in enumerate(self.spreads) if spread.d_k == self.chosen],
        )
