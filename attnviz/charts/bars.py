"""Rows of bars and texts beside names: before a change bars are hollow and quiet, after it filled."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import altair as alt

from attnviz.charts import axes, frame
from attnviz.charts.frame import Frame, box, text_width, words
from attnviz.charts.picture import Form, Picture, formed
from attnviz.charts.theme import FONT, LINE, MONO, WORD_CHARACTER, Theme, config
from attnviz.core.amounts import percent

THICK, THIN = 12, 8
"""Pixels: a bar that is filled, and one that is hollow."""

STEP = 22
"""Pixels from bar to bar."""

PERCENT, GAP, SWATCH = 48, 18, 18
"""Pixels that a bar's number takes beside it, between two columns, and of a bar in a legend."""

NARROWEST = 330
"""Pixels in which titles and notes are broken if the bars are narrower."""


@dataclass(frozen=True)
class Column:
    """A bar, or a text, for each name.

    Attributes:
        values: shares or amounts; NaN has no bar, and None nothing at all.
        texts: what is written; where there are bars, their values in percent if none are given.
        name, group: a caption, or what a legend says of the bars, and what stands over the captions; constants.
        longest: the value whose bar has the whole length.
        hollow: whether its bars stand back.
        hollow_values: of hollow bars around the others; as `values`.
        color: of the texts.
    """

    values: Sequence[float | None] = ()
    texts: Sequence[str] = ()
    name: str = ""
    group: str = ""
    longest: float = 1.0
    hollow: bool = False
    color: str = ""
    hollow_values: Sequence[float | None] = ()

    def width(self, length: float) -> float:
        widest = max(map(text_width, self.texts), default=0.0)
        wide = length + max(PERCENT, widest) if len(self.values) else widest
        return max(wide, text_width(self.name, WORD_CHARACTER))

    def cells(self, bands: Sequence[str], begin: float, length: float, colors: Theme) -> Iterator[dict]:
        """A row of the table for each bar or text, hollow ones first: the others lie over them."""
        if len(self.hollow_values):
            yield from self._nested(bands, begin, length, colors)
            return
        texts = self.texts or ["" if value is None else percent(value) for value in self.values]
        for band, value, text in zip(bands, self.values or [None] * len(texts), texts, strict=True):
            share = None if value is None or value != value else min(value / self.longest, 1.0)
            color = colors.warning if value != value else colors.quiet if self.hollow or share == 0 else colors.text
            end = begin + (share or 0.0) * length if self.values else begin - 6
            cell = {"band": band, "begin": begin, "end": end, "share": share, "text": text, "mono": not self.values}
            look = dict(zip(("fill", "stroke"), self.looks(colors), strict=True))
            yield cell | look | {"color": self.color or color, "thick": self.thick}

    def _nested(self, bands: Sequence[str], begin: float, length: float, colors: Theme) -> Iterator[dict]:
        """Hollow bars, the filled ones in them, and the texts beside whichever is longer."""
        plain = replace(self, hollow_values=())
        around = replace(plain, values=self.hollow_values, hollow=True)
        for old, new in zip(*(one.cells(bands, begin, length, colors) for one in (around, plain)), strict=True):
            yield old | {"text": "", "thick": THICK + 2}
            yield new | {"text": "", "thick": THIN}
            yield new | {"share": None, "end": max(old["end"], new["end"])}

    @property
    def thick(self) -> int:
        return THIN if self.hollow else THICK

    def looks(self, colors: Theme) -> tuple[str, str]:
        """Fill and stroke of its bars."""
        return (colors.background, colors.quiet) if self.hollow else (colors.ramp[5], colors.ramp[5])


def picture(
    names: Sequence[str],
    columns: Sequence[Column],
    title: str,
    lines: Sequence[str],
    colors: Theme,
    *,
    length: float = 190,
    paired: bool = False,
    marks: Mapping[int, str] | None = None,
    below: Sequence[str] = (),
) -> Picture:
    """Draw columns beside each other under captions, or the bars of two under each other with a legend.

    Args:
        names: of the rows, as they may be drawn.
        title, lines: what stands above, if there is a title.
        length: pixels of the longest bar.
        paired: whether the bars of a name are under each other.
        marks: how names of rows are marked: `axes.QUIET` or `axes.CHOSEN`, by their positions.
        below: lines under all.
    """
    bands, widths = axes.keys(names, marks or {}), [column.width(length) + GAP for column in columns]
    barred = any(len(column.values) for column in columns[:1])
    begins = [0.0] * len(columns) if paired else list(accumulate(widths[:-1], initial=0.0 if barred else GAP / 2))
    cells = [
        {"run": str(i * paired)} | cell
        for i, (column, begin) in enumerate(zip(columns, begins, strict=False))
        for cell in column.cells(bands, begin, length, colors)
    ]
    left, width = -max(map(text_width, names), default=0.0) - axes.PADDING, sum(begins[-1:] + widths[-1:]) - GAP
    bottom = len(names) * STEP * (1 + paired)
    around = _legend(columns, bottom + 10, colors) if paired else _captions(columns, begins, colors)
    around += Frame(
        words=tuple(words(0, bottom + 8 + (i + 0.5) * LINE, text, colors.text) for i, text in enumerate(below))
    )
    around += Frame(boxes=(box(-0.5, 0, 0.5, bottom, fill=colors.line, width=0),) if barred else ())
    if title:
        top = min((word["y"] for word in around.words), default=0.0)
        wide = {"left": left, "width": width - left, "narrowest": NARROWEST}
        around += frame.heading(title, lines, top=min(top - LINE / 2, -6) - 4, **wide, colors=colors)
    return Picture(
        _form(colors), {"bars": {name: [cell[name] for cell in cells] for name in _CELL}} | frame.tables(around, AROUND)
    )


AROUND = ("titles", "words", "boxes")
"""What stands around bars."""
_CELL = ("band", "run", "begin", "end", "share", "text", "color", "mono", "fill", "stroke", "thick")


def _captions(columns: Sequence[Column], begins: Sequence[float], colors: Theme) -> Frame:
    """What columns are called, and over that the run that they are of."""
    places = zip(begins, columns, strict=False)
    said = [(x, text, above) for x, c in places for text, above in ((c.name, 0.5), (c.group, 1.5))]
    return Frame(words=tuple(words(x, -above * LINE, text, colors.quiet) for x, text, above in said if text))


def _legend(columns: Sequence[Column], top: float, colors: Theme) -> Frame:
    """What the bars of each column are. No legend of Altair: with one run there is none, in the same specification."""
    drawn = Frame()
    for i, column in enumerate(columns):
        y, (fill, stroke), half = top + (i + 0.5) * LINE, column.looks(colors), column.thick / 2
        drawn += Frame(
            boxes=(box(0, y - half, SWATCH, y + half, fill=fill, stroke=stroke),),
            words=(words(SWATCH + 8, y, column.name, colors.text),),
        )
    return drawn


@formed(4)
def _form(colors: Theme) -> Form:
    """Bars and texts on an axis of names. Columns are placed in pixels, as only their texts say how wide they are."""
    begin, end = (alt.X(f"{name}:Q", scale=None, axis=None) for name in ("begin", "end"))
    scale = alt.Scale(padding=0)
    base = alt.Chart(alt.NamedData("bars")).encode(
        y=alt.Y("band:N", title=None, axis=axes.band_axis(colors), scale=scale),
        yOffset=alt.YOffset("run:N", scale=scale),
    )
    bars = (
        base.transform_filter("isValid(datum.share)")
        .mark_bar(aria=False, tooltip=None, strokeWidth=1)
        .encode(
            x=begin,
            x2=alt.X2("end:Q"),
            size=alt.Size("thick:Q", scale=None),
            fill=alt.Fill("fill:N", scale=None),
            stroke=alt.Stroke("stroke:N", scale=None),
        )
    )
    font = alt.expr(f"datum.mono ? {json.dumps(MONO)} : {json.dumps(FONT)}")
    texts = base.mark_text(align="left", baseline="middle", dx=6, font=font, aria=False, tooltip=None)
    texts = texts.encode(x=end, text=alt.Text("text:N"), fill=alt.Fill("color:N", scale=None))
    step = alt.Step(STEP, **{"for": "offset"})
    chart = alt.layer(*frame.layers(AROUND), bars, texts, height=step, width=1, autosize="pad")
    return Form.of(chart.configure(**config(colors)))
