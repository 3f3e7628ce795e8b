"""Bar charts: names with columns of bars and texts; each column is a view of one table."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnviz.charts import marks
from attnviz.charts.marks import Form, Spec, Table
from attnviz.charts.theme import MONO, Style, Theme
from attnviz.core.amounts import percent

STEP, GAP = 22, 16
"""Height of a row in pixels, and pixels between two columns."""
THICK, INNER, OUTER = 12, 8, 14
"""Thickness in pixels: of a bar without a hollow bar, of a bar inside a hollow bar, and of a hollow bar."""


@dataclass(frozen=True)
class Column:
    """Column of texts, or of bars with texts at their ends.

    Attributes:
        texts: text of each row; () for the values in percent.
        values: value at which the bar of each row ends, NaN or None for no bar; None for a column of texts.
        before: value of a hollow bar around the bar of each row, NaN or None for none; () for no hollow bars.
        begins: value at which the bar of each row begins, if values may be negative; () if all bars begin at 0.
        name: caption of the column.
        longest: value of a bar of full length; None for the largest value.
    """

    texts: Sequence[str] = ()
    values: Sequence[float | None] | None = None
    before: Sequence[float | None] = ()
    begins: Sequence[float] = ()
    name: str = ""
    longest: float | None = None

    @cached_property
    def row_texts(self) -> list[str]:
        """Text of each row."""
        return [*self.texts] or ["" if value is None else percent(value) for value in self.values or ()]

    def tables(self, i: int, colors: Theme) -> tuple[Table, Table]:
        """Return what column `i` of the chart adds to its table "rows" and to its table "meta".

        Bars are scaled to 0 to 1. An infinite value is at an end of the scale; NaN has no bar.
        """
        count, is_signed = len(self.row_texts), len(self.begins) > 0
        rows: Table = {f"text_{i}": self.row_texts, f"ink_{i}": [colors.text] * count}
        if self.values is None:
            return rows, {f"caption_{i}": [self.name], f"zero_{i}": [0.0]}
        values = np.array(self.values, float)
        before = np.array(self.before or [np.nan] * count, float)
        begins = np.array(self.begins or [0.0] * count, float)
        numbers = np.array([0.0, *values, *before, *begins])
        finite = numbers[np.isfinite(numbers)]
        low = finite.min() if is_signed else 0.0
        high = self.longest or finite.max()

        def scale(ends: np.ndarray) -> list[float | None]:
            """Map ends of bars from values to positions, 0 to 1; NaN becomes None."""
            positions = np.clip((ends - low) / ((high - low) or 1.0), 0, 1).tolist()
            return [None if np.isnan(position) else position for position in positions]

        fill, inks = np.full(count, colors.ramp[5]), np.where(values == 0, colors.quiet, colors.text)
        if is_signed:
            fill = np.where(values < begins, colors.diverging[2], colors.diverging[-3])
            inks = np.full(count, colors.text)
        bars = {
            f"ink_{i}": np.where(np.isnan(values), colors.warning, inks).tolist(),
            f"begin_{i}": scale(begins),
            f"share_{i}": scale(values),
            f"fill_{i}": fill.tolist(),
            f"before_{i}": scale(before),
            f"end_{i}": scale(np.nan_to_num(np.fmax(np.fmax(values, before), begins))),
        }
        return rows | bars, {f"caption_{i}": [self.name], f"zero_{i}": scale(np.zeros(1))}


@dataclass(frozen=True, eq=False, kw_only=True)
class Bars:
    """Bar chart: names of the rows, with columns beside them.

    Attributes:
        title, lines: title of the chart, and lines below it.
        names: names of the rows, without control characters.
        columns: columns beside the names.
        style: style of the chart.
        length: pixels of the longest bar of each column.
        quiet, chosen: rows whose names are gray, and rows whose names have the accent color.
    """

    title: str = ""
    lines: Sequence[str] = ()
    names: Sequence[str]
    columns: Sequence[Column]
    style: Style = Style()
    length: int = 150
    quiet: Collection[int] = ()
    chosen: Collection[int] = ()

    read = None
    """No readout under the pointer, unlike a large `Grid`."""

    @property
    def form(self) -> Form:
        lengths = [0 if column.values is None else self.length for column in self.columns]
        views = [_view(i, length, self.style.colors) for i, length in enumerate(lengths)]
        return marks.whole({"hconcat": views, "spacing": GAP, "title": marks.title_spec()}, self.style.colors)

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: "meta", a single row with the titles, and "rows"."""
        colors = self.style.colors
        inks = dict.fromkeys(self.quiet, colors.quiet) | dict.fromkeys(self.chosen, colors.accent)
        rows: Table = {
            "row": [*range(len(self.names))],
            "name": [*self.names],
            "name_ink": [inks.get(i, colors.text) for i in range(len(self.names))],
        }
        texts = [self.names, *(column.row_texts for column in self.columns)]
        width = sum(max(map(marks.text_width, column), default=0.0) + GAP for column in texts)
        width += self.length * sum(column.values is not None for column in self.columns)
        meta = marks.heading(self.title, self.lines, width, self.style)
        for i, column in enumerate(self.columns):
            column_rows, column_meta = column.tables(i, colors)
            rows |= column_rows
            meta |= column_meta
        return {"meta": meta, "rows": rows}


def _view(i: int, length: int, colors: Theme) -> Spec:
    """Build the view of column `i`: bars of at most `length` pixels, or texts if `length` is 0."""
    y = {"y": {"field": "row", "type": "ordinal", "axis": None, "scale": {"type": "band", "padding": 0}}}
    text, start = {"align": "left", "baseline": "middle"}, {"x": marks.pixels_at(0)}
    caption = start | {"y": marks.pixels_at(-11), "text": marks.field(f"caption_{i}")}
    layers = [marks.layer("meta", "text", caption, where=f"datum.caption_{i} !== ''", color=colors.quiet, **text)]
    if i == 0:
        names = y | start | {"text": marks.field("name"), "fill": marks.as_is("name_ink")}
        place = {"baseline": "middle", "align": "right", "dx": -6 if length else -12}
        layers.append(marks.layer("rows", "text", names, font=MONO, **place))
    texts = y | {"text": marks.field(f"text_{i}"), "fill": marks.as_is(f"ink_{i}")}
    if not length:
        layers.append(marks.layer("rows", "text", texts | start, font=MONO, **text))
        return {"layer": layers, "width": 1, "height": {"step": STEP}}
    x_of = {end: {"x": marks.places(1) | {"field": f"{end}_{i}"}} for end in ("zero", "before", "begin", "end")}
    has_hollow = f"isValid(datum.before_{i})"
    thickness = marks.when(has_hollow, marks.pixels_at(INNER), marks.pixels_at(THICK))
    filled = y | x_of["begin"] | {"x2": {"field": f"share_{i}"}, "fill": marks.as_is(f"fill_{i}"), "size": thickness}
    hollow = {"size": OUTER, "fill": colors.background, "stroke": colors.quiet}
    layers += [
        marks.layer("meta", "rule", x_of["zero"], color=colors.line),
        marks.layer("rows", "bar", y | x_of["before"], where=has_hollow, **hollow),
        marks.layer("rows", "bar", filled, where=f"isValid(datum.share_{i})"),
        marks.layer("rows", "text", texts | x_of["end"], font=MONO, dx=6, **text),
    ]
    return {"layer": layers, "width": length, "height": {"step": STEP}}
