"""Names with bars and texts beside them: each column is a view of one table, and Vega-Lite places the views."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import altair as alt
import numpy as np

from attnviz.charts.interaction import QUIET_MARK
from attnviz.charts.picture import Form, Table, formed
from attnviz.charts.style import Style
from attnviz.charts.texts import heading, text_width, titled
from attnviz.charts.theme import MONO, Theme, config
from attnviz.core.amounts import percent

STEP, GAP = 22, 16
"""Pixels from row to row, and between two columns."""

THICK, INNER, OUTER = 12, 8, 14
"""Pixels: a bar alone, a bar inside a hollow one, and a hollow one."""


@dataclass(frozen=True)
class Column:
    """A text for each name, or a bar with a text at its end.

    Attributes:
        texts: what is written; of bars, their values in percent if none are given.
        values: amounts of bars, NaN and None without one; None for a column of texts.
        before: amounts of hollow bars around the others, as `values`; () for none.
        begins: where bars of numbers of both signs begin, each to end at its value; () for all at 0.
        name: caption.
        longest: amount whose bar has the whole length; None for the largest.
    """

    texts: Sequence[str] = ()
    values: Sequence[float | None] | None = None
    before: Sequence[float | None] = ()
    begins: Sequence[float] = ()
    name: str = ""
    longest: float | None = None

    @cached_property
    def written(self) -> list[str]:
        """The texts, row by row."""
        return [*self.texts] or ["" if value is None else percent(value) for value in self.values or ()]

    def table(self, i: int, colors: Theme) -> Table:
        """Its part of the table of all rows."""
        if self.values is None:
            return {f"text_{i}": self.written, f"ink_{i}": [colors.text] * len(self.written)}
        values, begins = np.array([*self.values], float), np.array([*self.begins] or [0.0] * len(self.written))
        before = np.array([*self.before] or [np.nan] * len(values), float)
        fill, inks = np.full(len(values), colors.ramp[5]), np.where(values == 0, colors.quiet, colors.text)
        if len(self.begins):
            fill, inks = (
                np.where(values < begins, colors.diverging[2], colors.diverging[-3]),
                np.full_like(inks, colors.text),
            )
        ends = np.nan_to_num(np.fmax(np.fmax(values, before), begins))
        return {
            f"text_{i}": self.written,
            f"ink_{i}": np.where(np.isnan(values), colors.warning, inks).tolist(),
            f"begin_{i}": self._places(begins),
            f"share_{i}": self._places(values),
            f"fill_{i}": fill.tolist(),
            f"before_{i}": self._places(before),
            f"end_{i}": self._places(ends),
        }

    @property
    def zero(self) -> float:
        """Place of 0 on the scale, 0 to 1."""
        return self._places(np.zeros(1))[0]

    @cached_property
    def _scale(self) -> tuple[float, float]:
        """The smallest and the largest amount: 0 is between them."""
        every = np.array([0.0, *self.begins, *self.before, *(self.values or ())], float)
        finite = every[np.isfinite(every)]
        return (finite.min() if len(self.begins) else 0.0), self.longest or finite.max()

    def _places(self, amounts: np.ndarray) -> list[float | None]:
        """Places on the scale, 0 to 1: what is infinite stands at its end, and what is no number nowhere."""
        low, high = self._scale
        places = np.clip((amounts - low) / ((high - low) or 1.0), 0, 1)
        return [None if np.isnan(place) else place for place in places.tolist()]


@dataclass(frozen=True, eq=False, kw_only=True)
class Bars:
    """Columns beside names.

    Attributes:
        title, lines: what stands above.
        names: of the rows, as they may be drawn.
        columns: what stands beside them.
        style: how they are drawn.
        length: pixels of the longest bar of each column.
        quiet, chosen: rows whose names stand back, and stand out.
    """

    title: str
    lines: Sequence[str]
    names: Sequence[str]
    columns: Sequence[Column]
    style: Style
    length: int = 150
    quiet: Collection[int] = ()
    chosen: Collection[int] = ()

    @property
    def form(self) -> Form:
        """The chart without its tables."""
        return _form(tuple(0 if column.values is None else self.length for column in self.columns), self.style.colors)

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta and rows."""
        colors = self.style.colors
        inks = dict.fromkeys(self.quiet, colors.quiet) | dict.fromkeys(self.chosen, colors.accent)
        rows: Table = {
            "row": [*range(len(self.names))],
            "name": [*self.names],
            "name_ink": [inks.get(i, colors.text) for i in range(len(self.names))],
        }
        meta = heading(self.title, self.lines, self._width, self.style)
        for i, column in enumerate(self.columns):
            rows |= column.table(i, colors)
            meta[f"caption_{i}"], meta[f"zero_{i}"] = [column.name], [column.zero]
        return {"meta": meta, "rows": rows}

    @property
    def _width(self) -> float:
        """About how many pixels wide it is."""
        texts = [self.names, *(column.written for column in self.columns)]
        widths = (max(map(text_width, column), default=0.0) + GAP for column in texts)
        return sum(widths) + self.length * sum(column.values is not None for column in self.columns)


@formed(16)
def _form(lengths: tuple[int, ...], colors: Theme) -> Form:
    """A view for each column: of texts, or of bars that are so many pixels long."""
    views = [_view(i, length, colors) for i, length in enumerate(lengths)]
    chart = alt.hconcat(*views, spacing=GAP, title=titled(colors), autosize="pad")
    return Form.of(chart.configure(**config(colors)))


def _view(i: int, length: int, colors: Theme) -> alt.LayerChart:
    meta, rows = (alt.Chart(alt.NamedData(name)) for name in ("meta", "rows"))
    rows = rows.encode(y=alt.Y("row:O", axis=None, scale=alt.Scale(type="band", padding=0)))
    text = {"align": "left", "baseline": "middle", **QUIET_MARK}
    caption = meta.transform_filter(f"datum.caption_{i} !== ''").mark_text(**text, color=colors.quiet)
    layers = [caption.encode(x=alt.XValue(0), y=alt.YValue(-11), text=f"caption_{i}:N")]
    if i == 0:
        names = rows.mark_text(**text | {"align": "right"}, font=MONO, dx=-6 if length else -12)
        layers.append(names.encode(x=alt.XValue(0), text="name:N", fill=alt.Fill("name_ink:N", scale=None)))
    texts = rows.mark_text(**text, font=MONO, dx=6 if length else 0)
    texts = texts.encode(text=f"text_{i}:N", fill=alt.Fill(f"ink_{i}:N", scale=None))
    if not length:
        return alt.layer(*layers, texts.encode(x=alt.XValue(0)), width=1, height=alt.Step(STEP))

    def x(field: str) -> alt.X:
        return alt.X(f"{field}_{i}:Q", scale=alt.Scale(domain=[0, 1]), axis=None)

    fill = alt.Fill(f"fill_{i}:N", scale=None)

    is_inner = f"isValid(datum.before_{i})"
    hollow = {"size": OUTER, "fill": colors.background, "stroke": colors.quiet, **QUIET_MARK}
    filled = rows.transform_filter(f"isValid(datum.share_{i})").mark_bar(**QUIET_MARK)
    thick = alt.condition(is_inner, alt.value(INNER), alt.value(THICK))
    layers += [
        meta.mark_rule(color=colors.line, **QUIET_MARK).encode(x=x("zero")),
        rows.transform_filter(is_inner).mark_bar(**hollow).encode(x=x("before")),
        filled.encode(x=x("begin"), x2=f"share_{i}", fill=fill, size=thick),
        texts.encode(x=x("end")),
    ]
    return alt.layer(*layers, width=length, height=alt.Step(STEP))
