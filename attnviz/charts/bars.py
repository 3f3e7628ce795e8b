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

    def tables(self, i: int, colors: Theme) -> tuple[Table, Table]:
        """Its part of the table of all rows and of the table "meta"; places of bars are on a scale from 0 to 1.

        An infinite amount stands at an end of the scale, and what is no number nowhere.
        """
        count, is_signed = len(self.written), len(self.begins) > 0
        rows: Table = {f"text_{i}": self.written, f"ink_{i}": [colors.text] * count}
        if self.values is None:
            return rows, {f"caption_{i}": [self.name], f"zero_{i}": [0.0]}
        values, before, begins = (
            np.array([*(amounts or [filler] * count)], float)
            for amounts, filler in ((self.values, 0.0), (self.before, np.nan), (self.begins, 0.0))
        )
        every = np.array([0.0, *values, *before, *begins])
        finite = every[np.isfinite(every)]
        low, high = (finite.min() if is_signed else 0.0), self.longest or finite.max()

        def places(amounts: np.ndarray) -> list[float | None]:
            on_scale = np.clip((amounts - low) / ((high - low) or 1.0), 0, 1).tolist()
            return [None if np.isnan(place) else place for place in on_scale]

        fill, inks = np.full(count, colors.ramp[5]), np.where(values == 0, colors.quiet, colors.text)
        if is_signed:
            fill = np.where(values < begins, colors.diverging[2], colors.diverging[-3])
            inks = np.full(count, colors.text)
        bars = {
            f"ink_{i}": np.where(np.isnan(values), colors.warning, inks).tolist(),
            f"begin_{i}": places(begins),
            f"share_{i}": places(values),
            f"fill_{i}": fill.tolist(),
            f"before_{i}": places(before),
            f"end_{i}": places(np.nan_to_num(np.fmax(np.fmax(values, before), begins))),
        }
        return rows | bars, {f"caption_{i}": [self.name], f"zero_{i}": places(np.zeros(1))}


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
        texts = [self.names, *(column.written for column in self.columns)]
        width = sum(max(map(text_width, column), default=0.0) + GAP for column in texts)
        width += self.length * sum(column.values is not None for column in self.columns)
        meta = heading(self.title, self.lines, width, self.style)
        for i, column in enumerate(self.columns):
            own_rows, own_meta = column.tables(i, colors)
            rows |= own_rows
            meta |= own_meta
        return {"meta": meta, "rows": rows}


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
    zero, before, begin, end = (
        alt.X(f"{field}_{i}:Q", scale=alt.Scale(domain=[0, 1]), axis=None)
        for field in ("zero", "before", "begin", "end")
    )
    is_inner, fill = f"isValid(datum.before_{i})", alt.Fill(f"fill_{i}:N", scale=None)
    hollow = {"size": OUTER, "fill": colors.background, "stroke": colors.quiet, **QUIET_MARK}
    filled = rows.transform_filter(f"isValid(datum.share_{i})").mark_bar(**QUIET_MARK)
    thick = alt.condition(is_inner, alt.value(INNER), alt.value(THICK))
    layers += [
        meta.mark_rule(color=colors.line, **QUIET_MARK).encode(x=zero),
        rows.transform_filter(is_inner).mark_bar(**hollow).encode(x=before),
        filled.encode(x=begin, x2=f"share_{i}", fill=fill, size=thick),
        texts.encode(x=end),
    ]
    return alt.layer(*layers, width=length, height=alt.Step(STEP))
