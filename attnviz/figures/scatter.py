"""Every head as a mark by one or two of its numbers: stacked dots, or a scatter."""

from typing import Unpack

import altair as alt
import numpy as np
import pandas as pd

from attnviz.charts import frame, maps
from attnviz.charts.picture import Form, Picture, formed
from attnviz.charts.style import Style
from attnviz.charts.theme import LINE, Theme, config
from attnviz.core.display import file_stem, in_title
from attnviz.core.edits import KINDS, Site
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, edited, number_arrays, subtitles, titled
from attnviz.figures.overview import NAMED

SIDE, LOW, LARGE, STACK, DOT, LEFT = 330, 290, 390, 150, 70, 52
"""Pixels: of a scatter, of one on a screen, of one with bars, the height of stacked dots, the area of a mark, and the
room for the numbers of an axis."""

EDGE, MARGIN = 20, 12
"""Pixels between the frame and the marks, and around all."""

BINS, TALLEST = 24, 12
"""Places for stacks; dots of a stack that fill the height."""

MOST_NAMED, AWAY, REACH = 24, 7, 5
"""Heads that are named at most; pixels from the middle of a mark to its name, and to its own edge."""

BARS = "bar: mean ± {times} std. dev. Where it misses the dashed line, this text is unusual"

SHORT = {"encoder": "enc", "decoder": "dec", "cross": "cross"}
"""Kinds where heads of several have their names."""

SHAPES = ("circle", "triangle-up", "diamond")
"""What tells the `KINDS` apart."""


def scatter(
    record: Record,
    table: pd.DataFrame,
    x: str,
    y: str | None,
    *,
    titles: dict[str, str],
    spread: tuple[str, int] | None = None,
    **drawn: Unpack[Drawn],
) -> Figure:
    """Every head by one number (stacked) or two; a click selects one under "head" with kind, layer, head and rev.

    Args:
        table: one row per head: kind, layer, head, and the numbers; heads without such a number are left out.
        x, y: columns; without `y`, heads of about the same `x` stand on each other.
        titles: what the columns are called.
        spread: a column and a number: a bar goes so many of these standard deviations up and down from `y`, and a line
            is where `x` and `y` are equal.
    """
    columns = [name for name in (x, y) if name]
    by = " and ".join(f"{titles[name][:1].lower()}{titles[name][1:]}" for name in columns)
    title, model = f"Heads by {by}", f" · {in_title(record.source)}"
    missing = int(table[columns].isna().any(axis=1).sum())
    said = f"Each of {len(table)} heads by {' and '.join(titles[name] for name in columns)}."
    return Figure(
        name=file_stem(record.source, "heads by", " ".join(titles[name] for name in columns), end=edited(record.edits)),
        title=titled(title + model, record),
        style=Style(**drawn),
        draw=lambda style: drawing_of(
            table, x, y, titles, title + model * (not style.on_screen), subtitles(record, style), style, spread
        ),
        describe=lambda: said + (f" {missing} heads have no such number." if missing else ""),
        tabulate=lambda: table[["kind", "layer", "head", *columns, *(spread or ())[:1]]],
        collect=lambda: number_arrays(table[[*columns, *(spread or ())[:1]]].astype(float)),
    )


def drawing_of(
    table: pd.DataFrame,
    x: str,
    y: str | None,
    titles: dict[str, str],
    title: str,
    said: list[str],
    style: Style,
    spread: tuple[str, int] | None = None,
) -> Picture:
    """The marks on Altair's own axes."""
    colors, names = style.colors, [name for name in (x, y) if name]
    known = table.dropna(subset=names)
    data = known[["kind", "layer", "head"]].assign(x=known[x].astype(float), rev=style.rev)
    places = zip(known["kind"], known["layer"], known["head"], strict=True)
    data["name"] = [Site(kind, layer).head(head) for kind, layer, head in places]
    data["chosen"] = False if style.focused is None else data["name"] == style.focused[0].head(style.focused[1])
    data["at"], data["up"] = _stacked(data["x"]) if y is None else (data["x"], known[y].astype(float))
    data = data.sort_values("chosen", kind="stable")  # the chosen one is above all
    far = known[spread[0]].astype(float) * spread[1] if spread else 0.0
    data["low"], data["high"] = data["up"] - far, data["up"] + far
    kinds = tuple(kind for kind in KINDS if (known["kind"] == kind).any())
    side = LARGE if spread or len(kinds) > 1 else LOW if style.on_screen else SIDE
    ends = data[["at", "low", "high"]].stack() if spread else None
    data = data.assign(**_names(data, side, y is None, ends))
    lines = [f"{len(known)} heads"] if y is None else [BARS.format(times=spread[1])] if spread else []
    lines += [NAMED] if data["label"].any() else []
    lines += [f"{len(table) - len(known)} heads have no such number"] if len(known) < len(table) else []
    wide = {"left": -LEFT, "width": LEFT + side, "narrowest": LEFT + side}
    around = frame.heading(title, [*lines, *said], top=-10, **wide, colors=colors)
    form = _form(tuple(titles[name] for name in names), kinds, side, colors, bool(spread))
    line = {"line": {"end": [] if ends.empty else [ends.min(), ends.max()]}} if spread else {}
    return Picture(form, {"heads": data.to_dict("list")} | line | frame.tables(around))


def _stacked(values: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Where each value stands if those of about the same size stand on each other: the middle of a bin, and a count."""
    low = values.min()
    step = (values.max() - low) / BINS
    bins = ((values - low) / (step or 1.0)).clip(upper=BINS - 1).apply(np.floor)
    return low + (bins + 0.5) * step, bins.groupby(bins).cumcount() + 0.5


def _names(data: pd.DataFrame, side: int, stacked: bool, ends: pd.Series | None) -> dict[str, list]:
    """The short name of each of few heads, and how far from its mark it begins; none where it would cover another.

    The chosen one has its name always.

    Args:
        ends: the numbers from whose least to whose largest both axes go; None if each goes through its own.
    """
    across, up = (_pixels(data[name], side, data[name] if ends is None else ends) for name in ("at", "up"))
    down = STACK * (1 - data["up"] / max(TALLEST, data["up"].max())) if stacked else side - up
    limits, texts = (side, STACK if stacked else side), data["layer"].astype(str) + "." + data["head"].astype(str)
    texts = data["kind"].map(SHORT) + " " + texts if data["kind"].nunique() > 1 else texts
    marks = list(zip(across, down, strict=True))
    taken = [(x - REACH, y - REACH, x + REACH, y + REACH) for x, y in marks]
    each = list(zip(marks, texts, strict=True))
    every = reversed(list(zip(each, data["chosen"], strict=True)))  # the chosen one, last, first
    found = [_beside(mark, text, taken, limits, chosen) for (mark, text), chosen in every][::-1]
    if len(data) > MOST_NAMED or (stacked and NAMELESS in found):  # a stack is named whole or not at all
        found = [one if chosen else NAMELESS for one, chosen in zip(found, data["chosen"], strict=True)]
    return {name: [one[i] for one in found] for i, name in enumerate(("label", "right", "down"))}


NAMELESS = "", 0.0, 0.0
Box = tuple[float, float, float, float]


def _beside(
    mark: tuple[float, float], text: str, taken: list[Box], limits: tuple[int, int], always: bool
) -> tuple[str, float, float]:
    """A name at the first free side of its mark, which is then taken; empty if there is none, or over another mark."""
    wide, half = frame.text_width(text), LINE / 2.5
    over = [(dx, dy) for dx in (-wide / 2, 0.0, -wide) for dy in (-AWAY - half, AWAY + half)]
    for dx, dy in ((AWAY, 0.0), (-AWAY - wide, 0.0), *over):
        x, y = mark[0] + dx, mark[1] + dy
        if _is_free(box := (x, y - half, x + wide, y + half), taken, limits):
            taken.append(box)
            return text, dx, dy
    if not always:
        return NAMELESS
    dx = AWAY if mark[0] < wide + AWAY else -AWAY - wide
    taken.append((mark[0] + dx, mark[1] - half, mark[0] + dx + wide, mark[1] + half))
    return text, dx, 0.0


def _is_free(box: Box, taken: list[Box], limits: tuple[int, int]) -> bool:
    """Whether a box is within the frame and over none of the others."""
    left, top, right, bottom = box
    inside = left >= 0 and top >= 0 and right <= limits[0] and bottom <= limits[1]
    return inside and not any(left < r and a < right and top < b and t < bottom for a, t, r, b in taken)


def _pixels(values: pd.Series, length: int, ends: pd.Series) -> pd.Series:
    """Where the scale of an axis puts its numbers."""
    low, span = ends.min(), ends.max() - ends.min()
    return EDGE + (values - low) / span * (length - 2 * EDGE) if span > 0 else values * 0 + length / 2


@formed(64)
def _form(titles: tuple[str, ...], kinds: tuple[str, ...], side: int, colors: Theme, ranges: bool) -> Form:
    """Marks on Altair's own axes."""
    x, y = _axes(titles, colors)
    under = _ranges(titles, colors) if ranges else []
    numbers = [
        alt.Tooltip(field, title=title, format=".4f") for field, title in zip(("x:Q", "up:Q"), titles, strict=False)
    ]
    legend = alt.Legend(title=None, values=list(kinds)) if len(kinds) > 1 else None
    shapes = SHAPES if legend else SHAPES[:1] * len(SHAPES)  # a form of one kind would say nothing
    marks = (
        alt.Chart(alt.NamedData("heads"))
        .mark_point(filled=True, opacity=0.9, size=DOT, strokeWidth=1, cursor="pointer", aria=False)
        .encode(
            x=x,
            y=y,
            shape=alt.Shape("kind:N", scale=alt.Scale(domain=KINDS, range=shapes), legend=legend),
            fill=alt.when("datum.chosen").then(alt.value(colors.accent)).otherwise(alt.value(colors.dot)),
            stroke=alt.when("datum.chosen").then(alt.value(colors.text)).otherwise(alt.value(colors.background)),
            tooltip=[alt.Tooltip("name:N", title="head"), *numbers],
        )
        .add_params(maps.clicked("head", "kind", "layer", "head", "rev"))
    )
    # Stacks name their domain in one layer alone: in two, Vega-Lite warns that they are not the same.
    names = _called(x, y if len(titles) == 2 else alt.Y("up:Q", axis=None), colors)
    sizes = {"width": side, "height": side if len(titles) == 2 else STACK}
    margins = dict.fromkeys(("left", "top", "right", "bottom"), MARGIN)
    chart = alt.layer(*frame.layers(), *under, names, marks, autosize="pad", padding=margins, **sizes)
    return Form.of(chart.configure(**config(colors)).configure_view(stroke=colors.line))


def _called(x: alt.X, y: alt.Y, colors: Theme) -> alt.Chart:
    """What heads are called, beside their marks."""
    shift = {"dx": alt.expr("datum.right"), "dy": alt.expr("datum.down")}
    names = alt.Chart(alt.NamedData("heads")).mark_text(align="left", baseline="middle", aria=False, **shift)
    color = alt.when("datum.chosen").then(alt.value(colors.accent)).otherwise(alt.value(colors.quiet))
    return names.encode(x=x, y=y, text=alt.Text("label:N"), color=color)


def _ranges(titles: tuple[str, ...], colors: Theme) -> list[alt.Chart]:
    """A line where both numbers are equal, and a bar through each mark."""
    equal = alt.Chart(alt.NamedData("line")).mark_line(color=colors.quiet, strokeDash=[5, 4], strokeWidth=1, aria=False)
    bars = alt.Chart(alt.NamedData("heads")).mark_rule(color=colors.dot, opacity=0.35, strokeWidth=2, aria=False)
    return [
        equal.encode(*_axes(titles, colors, "end", "end")),
        bars.encode(*_axes(titles, colors, up="low"), y2="high:Q"),
    ]


def _axes(titles: tuple[str, ...], colors: Theme, at: str = "at", up: str = "up") -> tuple[alt.X, alt.Y]:
    """Of two fields. From the least to the largest number; stacked dots stand on a count."""
    line = {"domain": True, "domainColor": colors.line, "labelFlush": False, "tickCount": 5, "format": "~r"}
    x = alt.Scale(zero=False, nice=False, padding=EDGE)
    y, beside = x, None
    if len(titles) == 2:
        beside = alt.Axis(title=titles[1], minExtent=LEFT, maxExtent=LEFT, **line)
    else:
        y = alt.Scale(domain=alt.DomainUnionWith(unionWith=[0, TALLEST]))
    return alt.X(f"{at}:Q", scale=x, axis=alt.Axis(title=titles[0], **line)), alt.Y(f"{up}:Q", scale=y, axis=beside)
