"""The whole chain of an attention call at a glance: a thumbnail per stage, from tokens to what the layer gives."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import altair as alt
import numpy as np
import pandas as pd

from attnviz.charts import matrices
from attnviz.charts.interaction import QUIET_MARK, clicked, share
from attnviz.charts.picture import Form, Table, columns, formed
from attnviz.charts.texts import heading, titled
from attnviz.charts.theme import MONO, TITLE_SIZE, Theme, config
from attnviz.core.amounts import digits
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures import figure
from attnviz.figures.base import Figure
from attnviz.figures.figure import stem, subtitles
from attnviz.figures.stage import are_weights, table
from attnviz.walk import Matrix, Stage
from attnviz.walk.stages import plural_of

WIDTH = 302
"""Pixels of the whole rail, so that it fits a phone."""

HIGH, WIDE, MISSING, GAP = 36, 84, 18, 8
"""Pixels of a thumbnail, of a line of a stage that has no numbers, and between two of them."""

FIRST = 16
"""Dimensions of a vector that a thumbnail shows: more could not be told apart."""

MAIN = {
    "embedding": "words_query",
    "position": "embedded_query",
    "project": "q_all",
    "split": "q",
    "output": "y",
    "mask": "masked",
}
"""Which table of a stage stands for it, where it is not the first."""


@dataclass(frozen=True, eq=False)
class Chain(Figure):
    """All stages of a call as thumbnails; a click selects one under the name "stage" with the fields position and rev.

    Attributes:
        stages: what `walk.chain` gave.
        current: the key of the stage that is marked on the screen.
        selected: the (query, key) whose numbers stand beside each table; -1 for none.
    """

    record: Record
    site: Site
    head: int
    stages: tuple[Stage, ...]
    _: KW_ONLY
    sentence: int = 0
    current: str = ""

    @cached_property
    def name(self) -> str:
        return stem(self.record, self.site, f"head-{self.head}-steps", sentence=self.sentence)

    @cached_property
    def title(self) -> str:
        return figure.titled(self._what, self.record)

    @cached_property
    def description(self) -> str:
        lines = (f"{i}. {stage.title}: {stage.missing or stage.changed}" for i, stage in enumerate(self.stages, 1))
        return " ".join(lines)

    @cached_property
    def table(self) -> pd.DataFrame:
        return table(tuple(self._mains.values()), self.record.tokens(self.site, sentence=self.sentence))

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        return {matrix.key: matrix.values.numpy() for matrix in self._mains.values()}

    @property
    def form(self) -> Form:
        height = sum(HIGH if i in self._mains else MISSING for i in range(len(self.stages)))
        return _form(height + GAP * (len(self.stages) - 1), self.colors, is_titled=not self.on_screen)

    @cached_property
    def data(self) -> dict[str, Table]:
        stages, outlines, y = [], [], 0.0
        for i, stage in enumerate(self.stages):
            matrix = self._mains.get(i)
            is_current = self.on_screen and stage.key == self.current
            ink = self.colors.accent if is_current else self.colors.text
            bottom = y + (HIGH if matrix else MISSING)
            row = {"position": i, "rev": self.rev, "y": y, "is_current": is_current, "y2": bottom, "x": 0, "ink": ink}
            if matrix is None:
                reason = "not shown" if stage.is_used else "not used"
                row["missing"] = f"{i + 1}  {stage.title}: {reason}"
            else:
                thumbnail, (row_at, column_at) = _thumbnail(stage, matrix), (-1, -1)
                rows, count = thumbnail.values.shape
                width = thumbnail.cell[0] * count
                if isinstance(self.selected, tuple):
                    row_at, column_at = thumbnail.index_of(self.selected)
                if min(row_at, column_at) >= 0:
                    row["number"] = digits(thumbnail.values[row_at, column_at])
                if max(row_at, column_at) >= 0:
                    down, across = matrices.outline(row_at, column_at, rows, count)
                    y_of, x_of = (
                        [edge / n * side for edge in ends]
                        for ends, n, side in ((down, rows, HIGH), (across, count, width))
                    )
                    outlines.append({"x": x_of[0], "x2": x_of[1], "y": row["y"] + y_of[0], "y2": row["y"] + y_of[1]})
                uri = thumbnail.uri(self.colors, (width, HIGH), 1 if self.on_screen else 2)
                row.update(x2=width, title=f"{i + 1}  {stage.title}", shape=in_nouns(stage), uri=uri)
            stages.append(row)
            y = bottom + GAP
        return {
            "meta": heading(self._what, subtitles(self.record, self), WIDTH, self),
            "stages": columns(COLUMNS, stages),
            "outlines": columns(("x", "x2", "y", "y2"), outlines),
        }

    @property
    def _what(self) -> str:
        return f"Step by step · {self.site.head(self.head)} · {in_title(self.record.source)}"

    @cached_property
    def _mains(self) -> dict[int, Matrix]:
        """The tables that stand for the stages, by their places."""
        mains = ((i, main(stage)) for i, stage in enumerate(self.stages))
        return {i: matrix for i, matrix in mains if matrix is not None}


COLUMNS = (
    *("position", "rev", "is_current", "x", "x2", "y", "y2"),
    *("ink", "uri", "title", "shape", "number", "missing"),
)


def main(stage: Stage) -> Matrix | None:
    """The table that stands for a stage; None if its numbers are not known."""
    if not stage.matrices:
        return None
    key = MAIN.get(stage.key)
    return next((matrix for matrix in stage.matrices if matrix.key == key), stage.matrices[0])


def in_nouns(stage: Stage) -> str:
    """Sizes of a stage for one sentence: "2 heads × 11 queries × 11 keys"; "" if its sizes are not known."""
    sizes = zip(stage.letters[1:], stage.shape[1:], strict=False)
    return " × ".join(f"{size:,} {plural_of(letter, size)}" for letter, size in sizes)


def _thumbnail(stage: Stage, matrix: Matrix) -> matrices.NumberCells:
    """A table on a scale of its own: what makes it larger or smaller is said by the number beside it."""
    of_tokens = set(matrix.axes) == {"query", "key"}
    first = None if of_tokens else FIRST
    values, is_weight = matrix.values[:, :first].double().numpy(), are_weights(stage, matrix)
    rows, count = values.shape
    width = max(12.0, min(WIDE, HIGH * count / max(1, rows)) if of_tokens else WIDE)
    limit = matrices.limit_of(values)
    return matrices.NumberCells(
        title=stage.title,
        axes=matrix.axes,
        rows=matrix.rows,
        columns=matrix.columns[:first],
        values=values,
        labels=((), ()),
        names=((), ()),
        cell=(width / max(1, count), HIGH / max(1, rows)),
        limit=max(1.0, limit) if is_weight else limit,
        signed=not is_weight,
        blocked=None if matrix.blocked is None else matrix.blocked[:, :first].numpy(),
    )


@formed(32)
def _form(height: float, colors: Theme, *, is_titled: bool) -> Form:
    scale = {"nice": False, "zero": False}
    down = {"scale": alt.Scale(domain=[0, max(1, height)], reverse=True, **scale), "axis": None}
    over = {"scale": alt.Scale(domain=[0, WIDTH], **scale), "axis": None}
    stages, outlines = alt.Chart(alt.NamedData("stages")), alt.Chart(alt.NamedData("outlines"))
    y, y2 = alt.Y("y:Q", **down), alt.Y2("y2")
    box = {"y": y, "y2": y2, "x": alt.X("x:Q", **over), "x2": alt.X2("x2")}
    thumbnails = stages.transform_filter("isValid(datum.uri)")

    def text(field: str, x: float, dy: float, **mark: object) -> alt.Chart:
        texts = stages.transform_filter(f"isValid(datum.{field})")
        texts = texts.mark_text(baseline="middle", dy=dy, **{"align": "left"} | mark, **QUIET_MARK)
        ink = {} if "color" in mark else {"fill": alt.Fill("ink:N", scale=None)}
        return texts.encode(y=y, x=alt.XValue(x), text=alt.Text(f"{field}:N"), **ink)

    bar = stages.transform_filter("datum.is_current").mark_rect(fill=colors.accent, **QUIET_MARK)
    area = stages.mark_rect(fill="transparent", cursor="pointer", aria=False, tooltip=None)
    layers = [
        thumbnails.mark_image(aspect=False, smooth=False, **QUIET_MARK).encode(**box, url=alt.Url("uri:N")),
        thumbnails.mark_rect(fill=None, stroke=colors.line, **QUIET_MARK).encode(**box),
        outlines.mark_rect(fill=None, stroke=colors.accent, strokeWidth=1.5, **QUIET_MARK).encode(**box),
        bar.encode(y=y, y2=y2, x=alt.XValue(-10), x2=alt.X2Value(-6)),
        text("title", WIDE + 14, 8, fontWeight=600, fontSize=TITLE_SIZE - 1),
        text("shape", WIDE + 14, 27, color=colors.quiet),
        text("number", WIDTH, 9, align="right", font=MONO, color=colors.accent),
        text("missing", 0, MISSING / 2, color=colors.quiet),
        alt.Chart(alt.NamedData("meta")).mark_point(opacity=0, size=0, **QUIET_MARK),
        area.encode(y=y, y2=y2, x=alt.XValue(-10), x2=alt.X2Value(WIDTH)).properties(name="stages"),
    ]
    sides = {"width": WIDTH, "height": height, "autosize": "pad"}
    chart = alt.layer(*layers, **sides, **({"title": titled(colors)} if is_titled else {}))
    chart.params = share(["stages"], clicked("stage", "position", "rev"))
    return Form.of(chart.configure(**config(colors)))
