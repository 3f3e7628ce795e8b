"""Every head as a mark by one or two of its numbers: stacked dots, or a scatter. All is drawn in pixels, as data."""

from functools import lru_cache

import altair as alt
import numpy as np
import pandas as pd

from attnviz.charts import frame, maps
from attnviz.charts.frame import Frame, box, words
from attnviz.charts.heatmap import subtitles_of
from attnviz.charts.maps import number
from attnviz.charts.overview import Head
from attnviz.charts.picture import Form, Picture
from attnviz.charts.theme import LINE, Theme, config, theme
from attnviz.core.display import in_title
from attnviz.core.edits import KINDS, Site
from attnviz.core.record import Record

SIDE, STACK = 330, 150
"""Pixels: of a scatter, and the height of stacked dots."""

LEFT, BINS, DOT = 58, 24, 70
"""Pixels left for numbers; places for stacks; area of a mark."""

SHAPES = {"encoder": "circle", "decoder": "triangle-up", "cross": "diamond"}
"""What tells the kinds apart."""

WORDS = {"encoder": "circle", "decoder": "triangle", "cross": "diamond"}


def picture(
    record: Record,
    table: pd.DataFrame,
    x: str,
    y: str | None,
    *,
    titles: dict[str, str],
    dark: bool = False,
    focused: Head | None = None,
    rev: int = 0,
    edits: bool = True,
) -> Picture:
    """Draw each head of a table; a click selects one under "head" with the fields kind, layer, head and rev.

    Args:
        table: one row per head: kind, layer, head, and the numbers; heads without such a number are left out.
        x, y: columns; without `y`, heads of about the same `x` stand on each other.
        titles: what the columns are called.
    """
    colors, height = theme(dark), STACK if y is None else SIDE
    known = table.dropna(subset=[x] if y is None else [x, y])
    across = known[x].to_numpy(float)
    bounds = _bounds(across)
    around = Frame(boxes=(box(LEFT, 0, LEFT + SIDE, height, stroke=colors.line),))
    around += _axis(bounds, titles[x], height, colors)
    if y is None:
        left, bottom = _stacked(across, bounds, height)
        around += Frame(words=(words(0, LINE / 2, f"{len(known)} heads", colors.quiet),))
    else:
        up = known[y].to_numpy(float)
        left, bottom = _share(across, bounds) * SIDE, height - _share(up, _bounds(up)) * height
        around += _axis_up(_bounds(up), titles[y], height, colors)
    lines = subtitles_of(record, edits=edits)
    title = title_of(record, x, y, titles)
    around += frame.heading(title, lines, left=0, top=-LINE - 6, width=LEFT + SIDE, colors=colors)
    around += _legend(known, len(table) - len(known), height, colors)
    names = [name for name in (x, y) if name]
    marks = [
        _mark(row, LEFT + float(at), float(low), names, titles, focused, colors)
        for row, at, low in zip(known.to_dict("records"), left, bottom, strict=True)
    ]
    marks.sort(key=lambda mark: mark["fill"] == colors.accent)  # the chosen one is above all
    data = {name: [mark[name] for mark in marks] for name in _COLUMNS} | {"rev": [rev] * len(marks)}
    return Picture(_form(height, colors), {"heads": data} | frame.tables(around))


def title_of(record: Record, x: str, y: str | None, titles: dict[str, str]) -> str:
    """What is drawn, beginning with constant words."""
    by = " and ".join(f"{titles[name][:1].lower()}{titles[name][1:]}" for name in (x, y) if name)
    return f"Heads by {by} · {in_title(record.source)}"


def _bounds(values: np.ndarray) -> tuple[float, float]:
    """0 to 1 for shares; else from 0, or the least if that is below, to a little more than the largest."""
    if not len(values):
        return 0.0, 1.0
    low, high = min(0.0, float(values.min())), float(values.max())
    if low == 0 and high <= 1:
        return 0.0, 1.0 if high > 0.2 else max(high * 1.1, 1e-9)
    return low, high + (high - low) * 0.05


def _share(values: np.ndarray, bounds: tuple[float, float]) -> np.ndarray:
    """How far between the bounds, 0 to 1."""
    return (values - bounds[0]) / (bounds[1] - bounds[0])


def _stacked(values: np.ndarray, bounds: tuple[float, float], height: float) -> tuple[np.ndarray, np.ndarray]:
    """Where each value stands if those of about the same size stand on each other."""
    bins = np.clip((_share(values, bounds) * BINS).astype(int), 0, BINS - 1)
    counts, below = np.zeros(BINS, int), np.zeros(len(bins), int)
    for at, one in enumerate(bins):
        below[at] = counts[one]
        counts[one] += 1
    tall = min(12.0, height / max(1, counts.max(initial=0)))
    return (bins + 0.5) / BINS * SIDE, height - (below + 0.5) * tall


_COLUMNS = ("x", "y", "kind", "layer", "head", "shape", "name", "first", "second", "fill", "stroke")


def _mark(
    row: dict, x: float, y: float, names: list[str], titles: dict[str, str], focused: Head | None, colors: Theme
) -> dict[str, object]:
    site, head = Site(row["kind"], int(row["layer"])), int(row["head"])
    said = [f"{titles[name]}: {number(float(row[name]), '.4f')}" for name in names]
    chosen = focused == (site, head)
    return {
        "x": x,
        "y": y,
        "kind": site.kind,
        "layer": site.layer,
        "head": head,
        "shape": SHAPES[site.kind],
        "name": f"{site} head {head}",
        "first": said[0],
        "second": said[-1],
        "fill": colors.accent if chosen else colors.dot,
        "stroke": colors.text if chosen else colors.background,
    }


def _axis(bounds: tuple[float, float], title: str, height: float, colors: Theme) -> Frame:
    ticks = [words(LEFT + share * SIDE, height + 12, _tick(bounds, share), colors.text) for share in (0, 0.5, 1)]
    return Frame(ticks=(*ticks, words(LEFT + SIDE / 2, height + 12 + LINE, title, colors.quiet)))


def _axis_up(bounds: tuple[float, float], title: str, height: float, colors: Theme) -> Frame:
    shares = (0, 0.5, 1)
    ticks = [words(LEFT / 2 + 8, height - share * height, _tick(bounds, share), colors.text) for share in shares]
    return Frame(ticks=tuple(ticks), words=(words(LEFT, -LINE / 2 - 2, title, colors.quiet),))


def _tick(bounds: tuple[float, float], share: float) -> str:
    return f"{bounds[0] + share * (bounds[1] - bounds[0]):.3g}"


def _legend(known: pd.DataFrame, missing: int, height: float, colors: Theme) -> Frame:
    """What the shapes mean, where there are several kinds, and how many heads are not there."""
    kinds = [kind for kind in KINDS if (known["kind"] == kind).any()]
    said = [", ".join(f"{kind}: {WORDS[kind]}" for kind in kinds)] if len(kinds) > 1 else []
    said += [f"{missing} heads have no such number"] if missing else []
    top = height + 12 + 2 * LINE + 4
    return Frame(words=tuple(words(LEFT, top + i * LINE, text, colors.quiet) for i, text in enumerate(said)))


@lru_cache(maxsize=16)
def _form(height: float, colors: Theme) -> Form:
    x, y = frame.pixels()
    fields = {"name": "head", "first": "number", "second": "and"}
    marks = (
        alt.Chart(alt.NamedData("heads"))
        .mark_point(filled=True, opacity=0.9, size=DOT, strokeWidth=1, cursor="pointer", aria=False)
        .encode(
            x=x,
            y=y,
            shape=alt.Shape("shape:N", scale=None),
            fill=alt.Fill("fill:N", scale=None),
            stroke=alt.Stroke("stroke:N", scale=None),
            tooltip=maps.tooltip(fields),
        )
        .add_params(maps.clicked("head", "kind", "layer", "head", "rev"))
    )
    chart = alt.layer(*frame.layers(), marks, width=LEFT + SIDE, height=height, autosize="pad")
    return Form.of(chart.configure(**config(colors)))
