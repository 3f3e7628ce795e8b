"""One stage of an attention call, large: each of its tables with tokens, numbers and shapes."""

from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial

import numpy as np
import pandas as pd
from torch import Tensor

from attnviz.charts.matrices import Matrices, NumberCells, limit_of
from attnviz.charts.picture import Form, Table
from attnviz.charts.size import STRIDES, THINNEST
from attnviz.core.display import in_title, visible_text
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.core.tokens import Token
from attnviz.figures.base import Figure
from attnviz.figures.figure import stem, subtitles, titled
from attnviz.walk import EquationPart, Matrix, Neurons, Row, Stage
from attnviz.walk.stages import in_letters, plural_of

WIDE, HIGH, ALONE = 540, 380, 896
"""Pixels of a table at most, where there is no need for more, and across the page."""

WEIGHTS = 240
"""Pixels of a table of weights at most: it has no tokens, so that nothing is read along its rows."""

LARGEST, SMALLEST = 44, 6
"""Pixels of the side of a cell."""

DIMENSION, COLUMN, NUMBERED = 8.0, 60.0, 44.0
"""Pixels of a dimension at least, and at most alone and beside others."""

MOST_COLUMNS = 64
"""Dimensions drawn at most, the first; the table of numbers holds all that are known."""

LONGEST_LABEL = 12

Tokens = tuple[tuple[Token, ...], tuple[Token, ...]]
"""All tokens of the queries and of the keys."""


@dataclass(frozen=True, eq=False)
class StageTables(Figure):
    """Some tables of one stage, large: one under the other, with the labels of tokens and dimensions.

    A click selects under the name "cell" the fields query, key and rev; -1 for what a table has no axis of.

    Attributes:
        matrices: which of its tables.
        selected: the (query, key) that is outlined; -1 for none.
    """

    record: Record
    site: Site
    head: int
    stage: Stage
    matrices: tuple[Matrix, ...]
    _: KW_ONLY
    sentence: int = 0

    @cached_property
    def name(self) -> str:
        return stem(self.record, self.site, f"head-{self.head}-{self.stage.key}", sentence=self.sentence)

    @cached_property
    def title(self) -> str:
        return titled(f"{self.stage.title} · {self._where}", self.record)

    @cached_property
    def description(self) -> str:
        return f"{self.stage.title}: {self.stage.text}. {self.stage.missing or self.stage.changed}".strip()

    @cached_property
    def table(self) -> pd.DataFrame:
        return table(self.matrices, self._tokens)

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return {matrix.key: matrix.values.numpy() for matrix in self.matrices}

    @property
    def form(self) -> Form:
        return self._matrices.form

    @property
    def data(self) -> dict[str, Table]:
        return self._matrices.data

    @property
    def _where(self) -> str:
        return f"{self.site.head(self.head)} · {in_title(self.record.source)}"

    @cached_property
    def _tokens(self) -> Tokens:
        return self.record.tokens(self.site, sentence=self.sentence)

    @cached_property
    def _matrices(self) -> Matrices:
        upright = any(matrix.axes[0] == "key" for matrix in self.matrices)
        tables = [_turned(matrix) if upright and matrix.axes == ("1", "key") else matrix for matrix in self.matrices]
        lines = [self.stage.text, self._where, *subtitles(self.record)]
        matrices = [self._matrix(matrix, is_first=i == 0) for i, matrix in enumerate(tables)]
        return Matrices(title=self.stage.title, lines=lines, matrices=matrices, style=self.style)

    def _matrix(self, matrix: Matrix, *, is_first: bool) -> NumberCells:
        columns = matrix.columns[:MOST_COLUMNS]
        of_tokens = tuple(axis in ("query", "key") for axis in matrix.axes)
        is_column = matrix.axes[1] == "1"
        cell = _cell(matrix, len(columns), ALONE if self.stage.key == "neurons" else WIDE)
        values = matrix.values[:, : len(columns)].double().numpy()
        signed, limit = not are_weights(self.stage, matrix), limit_of(values)
        labels = [self._labels(axis, places) for axis, places in zip(matrix.axes, (matrix.rows, columns), strict=True)]
        return NumberCells(
            title=_caption(matrix, columns),
            axes=matrix.axes,
            rows=matrix.rows,
            columns=columns,
            values=values,
            labels=tuple(labels),
            names=tuple(map(self._names, matrix.axes, (matrix.rows, columns), ("row", "number"))),
            cell=cell,
            every=(_every(cell[1], THINNEST), 1 if of_tokens[1] and cell[0] >= THINNEST else _every(cell[0], 22)),
            limit=limit if signed else max(1.0, limit),
            signed=signed,
            blocked=None if matrix.blocked is None else matrix.blocked[:, : len(columns)].numpy(),
            is_beside=is_column and not is_first,
        )

    def _labels(self, axis: str, places: range) -> list[str]:
        if axis in ("query", "key"):
            return [visible_text(self._tokens[axis == "key"][i].text, LONGEST_LABEL) for i in places]
        return [] if axis == "1" else [str(i) for i in places]

    def _names(self, axis: str, places: range, what: str) -> list[str]:
        """Names of positions under the pointer."""
        if axis in ("query", "key"):
            return called(self._tokens)[axis == "key"][places.start : places.stop]
        return ["" if axis == "1" else f"{what} {i}" for i in places]


def _turned(matrix: Matrix) -> Matrix:
    """A number for each key, upright: where a table before it has a row for each key."""
    turned = {"axes": matrix.axes[::-1], "shape": matrix.shape[::-1], "rows": matrix.columns, "columns": matrix.rows}
    return replace(matrix, values=matrix.values.T, **turned)


def called(tokens: Tokens) -> tuple[list[str], list[str]]:
    """Names of queries and keys in a readout."""
    queries, keys = ([f"{visible_text(token.text)} ({i})" for i, token in enumerate(part)] for part in tokens)
    return queries, keys


def are_weights(stage: Stage, matrix: Matrix) -> bool:
    """Whether a table holds weights, from 0 to 1; a mask does where it comes after the softmax."""
    return matrix.key in ("weights", "dropped", "may_attend") or (
        matrix.key == "masked" and "mask(softmax" in stage.text
    )


def _cell(matrix: Matrix, columns: int, wide: int) -> tuple[float, float]:
    """Width and height of a cell; those between tokens are square."""
    rows = len(matrix.rows)
    if {*matrix.axes} <= {"query", "key"}:
        side = min(_side(columns, wide), _side(rows, max(HIGH, 14 * rows)))
        side = max(side, 14.0 if columns <= 40 else 10.0)
        return side, side
    of_tokens = matrix.axes[0] in ("query", "key")
    if rows <= 12:
        high = 22.0
    elif of_tokens:
        high = 16.0
    else:
        high = max(1, min(SMALLEST, WEIGHTS // rows))
    most = COLUMN if matrix.axes[1] == "1" else NUMBERED
    return max(DIMENSION, min(most, float(wide // max(1, columns)))), high


def _every(pixels: float, room: float) -> int:
    return next((n for n in STRIDES if n * pixels >= room), 2 * STRIDES[-1])


def _caption(matrix: Matrix, columns: range) -> str:
    """The name of a table, its sizes, and what is left out."""
    if matrix.axes[1] == "1":
        return matrix.name
    cut = []
    for axis, places, size in zip(matrix.axes, (matrix.rows, columns), matrix.shape, strict=True):
        if len(places) < size:
            what = (
                f"{plural_of(axis, size)} {places.start} to {places.stop - 1}"
                if places.start
                else f"first {len(places)}"
            )
            cut.append(f", {what} shown")
    return f"{matrix.name}: {_sizes(matrix, lettered=not cut)}{''.join(cut)}"


def _sizes(matrix: Matrix, *, lettered: bool) -> str:
    """Sizes along both axes: "11 queries × 64 numbers (dₖ)"; of a table of numbers alone these once."""
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


def neurons(elements: Neurons, num_keys: int, d_k: int) -> Stage:
    """Element by element, as tables: q, k and q ∘ k of one query against every key and dimension."""
    sizes = (num_keys, d_k)

    def of_keys(key: str, name: str, numbers: Tensor) -> Matrix:
        return Matrix(key, name, ("key", "d_k"), sizes, elements.keys, elements.dimensions, numbers)

    def column(key: str, name: str, numbers: Tensor) -> Matrix:
        return Matrix(key, name, ("1", "key"), (1, num_keys), range(1), elements.keys, numbers.unsqueeze(0))

    query = Matrix("q", "q", ("1", "d_k"), (1, d_k), range(1), elements.dimensions, elements.query_vector.unsqueeze(0))
    matrices = (
        query,
        of_keys("k", "k", elements.key_vectors),
        of_keys("qk", "q ∘ k", elements.products),
        column("sums", "q · k", elements.sums),
        column("weights", "weight", elements.weights),
    )
    return _tables("neurons", "Element by element", "q · k = Σ q ∘ k", matrices)


def _line(name: str, axis: str, numbers: Tensor) -> Matrix:
    wide = numbers.shape[1]
    return Matrix(name, name, ("1", axis), (1, wide), range(1), range(wide), numbers)


def _tables(key: str, title: str, text: str, matrices: tuple[Matrix, ...]) -> Stage:
    return Stage(key, title, (EquationPart(text, False),), (), (), matrices)
