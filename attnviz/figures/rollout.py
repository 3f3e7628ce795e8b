"""Where what stands at each position came from: attention rollout as a map, and one of its rows beside the flow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Unpack

import numpy as np

from attnviz import tables, words
from attnviz.charts import axes, bars, frame, hatch, panels, pixels
from attnviz.charts.frame import SWATCH, Entry, Frame, Ramp, box
from attnviz.charts.panels import Panel, Panels
from attnviz.charts.picture import Picture
from attnviz.charts.size import size_beside
from attnviz.charts.style import Style
from attnviz.charts.theme import Theme
from attnviz.core.display import file_stem, in_title, shown
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, edited, subtitles, text_array, titled
from attnviz.metrics.beside import tiles
from attnviz.metrics.rollout import Mixed
from attnviz.views import groups

SHORT, LONG = 150, 480
"""Pixels of the longest bar, and of all of a row on a wide screen."""

MAP = 440
"""Pixels of the side of the map, which has one row of bars beside it."""

MOST_BARS = 40
"""Tokens drawn at most, those with the largest shares; the table holds all."""

WHAT = "½ the attention of a layer (mean of its heads) and ½ the residual, multiplied through the layers"
"""What rollout is, on the picture."""


@dataclass(frozen=True, eq=False)
class Traced:
    """Rollout through the first layers of a stack.

    Attributes:
        record: of the run.
        found: what each of these layers mixes; none after them.
        layer: the number of the last of them.
        shares: (n, n) float64, of what stands at row i after them, how much came from token j; of a long text the rows
            that were followed, by their positions.
    """

    record: Record
    found: Mixed
    layer: int
    shares: np.ndarray | Mapping[int, np.ndarray]

    @property
    def texts(self) -> list[str]:
        return [token.text for token in self.found.tokens]

    @property
    def where(self) -> str:
        return f"{self.found.kind}, after layer {self.layer}"

    @property
    def tile(self) -> int:
        """How many positions are a square of the map."""
        return size_beside(*self.shares.shape).tile

    def called(self, position: int) -> str:
        return f"{shown(self.texts[position])} ({position})"

    def stem(self, what: str) -> str:
        where, end = self.where.replace(",", ""), edited(self.record.edits)
        return file_stem(self.record.source, where, what, " ".join(self.texts), end=end)

    def left_out(self) -> list[str]:
        """What is not followed, and rows that had nothing to mix."""
        rows = self.found.left_out
        said = [self.found.note.rstrip(".")] if self.found.note else []
        return [*said, *([f"{rows} rows had no weights, and keep what they hold"] if rows else [])]


def rollout(traced: Traced, **drawn: Unpack[Drawn]) -> Figure:
    """How much of each token is in what stands at each position after a layer; `selected` is a row.

    A click selects a cell under the name "cell" with the fields query, key and rev, counted in squares of `tile` cells.
    """
    return Figure(
        name=traced.stem("rollout"),
        title=" · ".join(filter(None, (title_of(traced), *lines_of(traced)))),
        style=Style(**drawn),
        draw=lambda style: drawing_of(traced, style),
        describe=lambda: words.reaches(traced.shares, traced.texts),
        tabulate=lambda: tables.rollout_table(traced.shares, traced.texts),
        collect=lambda: {"rollout": traced.shares, "tokens": text_array(traced.texts)},
    )


def title_of(traced: Traced, what: str = "Attention rollout", *, on_screen: bool = False) -> str:
    """What is drawn, beginning with constant words; a screen says elsewhere of which model."""
    return " · ".join([what, traced.where, *([] if on_screen else [in_title(traced.record.source)])])


def lines_of(traced: Traced, style: Style = Style()) -> list[str]:
    """What is measured, which a screen says elsewhere, what was left out, the weights' origin, what was changed."""
    measured = [] if style.on_screen else [f"rollout: {WHAT}"]
    return [*measured, *traced.left_out(), *subtitles(traced.record, style)]


def drawing_of(traced: Traced, style: Style) -> Panels:
    """Rows are positions after the layers, columns tokens; the color ends at the largest share."""
    colors, n = style.colors, len(traced.texts)
    size, every = size_beside(n, n, MAP), groups(traced.found.tokens)
    bands = axes.bands(every.tokens[:: size.tile])
    edges, names = axes.edges(bands, bands, size, upright=True), axes.names(every, size.tile)
    values = tiles(traced.shares, size.tile)
    limit, side, below = panels.limit_of(values), range(size.rows), size.height + 14
    sides = (0.0, 0.0, size.width, size.height)
    blocked = values == 0
    read = (0.0, below + 66 + 26 * bool(blocked.any()))
    panel = Panel(("query", "key"), side, side, values, *sides, limit, signed=False, beside=read, blocked=blocked)
    around = axes.drawn((f"Position after layer {traced.layer}", "Token"), bands, bands, size, edges, colors)
    around += axes.ties(every, every, size, colors) + Frame(boxes=(box(*sides, stroke=colors.line),))
    no_path = [Entry("no path", hatch.shape(0, SWATCH), colors.hatch, 1.0, colors.blocked)] * bool(blocked.any())
    around += frame.legend(no_path, _ramp(limit, colors), top=below, width=size.width, colors=colors)
    wide = {"left": edges.left, "top": edges.top - 8, "width": size.width - edges.left, "colors": colors}
    around += frame.heading(
        title_of(traced, on_screen=style.on_screen), [*lines_of(traced, style), *axes.notes_on(size)], **wide
    )
    row = -1 if style.selected is None else style.selected // size.tile
    return Panels((panel,), around, style, (row, -1), names, names, verb="comes from")


def _ramp(limit: float, colors: Theme) -> Ramp:
    """The colors of the shares, which end at the largest one."""
    largest = f"{limit:.3g}" if limit > 0.999 else f"{limit:.3g}, the largest here"
    ticks = tuple((at, f"{at * limit:.3g}") for at in (0, 0.5, 1))
    return Ramp(f"share, from 0 to {largest}", pixels.ramp_uri(colors), ticks)


# One row


def row(traced: Traced, position: int, flow: np.ndarray | None = None, **drawn: Unpack[Drawn]) -> Figure:
    """How much of each token reaches one position, by rollout and, if it is given, by the largest flow.

    Args:
        flow: (n,) of `metrics.rollout.flow` through the same layers.
    """
    numbers = {"rollout": traced.shares[position]} | ({} if flow is None else {"flow": flow})
    what = f"Mixed into {traced.called(position)}"
    title = title_of(traced, what)
    return Figure(
        name=traced.stem(f"reaches {position}"),
        title=titled(title, traced.record),
        style=Style(**drawn),
        draw=lambda style: row_picture(traced, numbers, what if style.on_screen else title, style),
        describe=lambda: words.reached(traced.shares[position], traced.texts, position),
        tabulate=lambda: tables.reached_table(numbers, traced.texts),
        collect=lambda: numbers | {"tokens": text_array(traced.texts)},
    )


def row_picture(traced: Traced, numbers: dict[str, np.ndarray], title: str, style: Style) -> Picture:
    """Bars of what was measured of each token, each kind by its own largest."""
    shares = numbers["rollout"]
    kept = np.sort(np.argsort(-shares, kind="stable")[:MOST_BARS])
    columns = [
        bars.Column(values[kept].tolist(), name=NAMES[name], longest=float(values[kept].max(initial=0.0)) or 1.0)
        for name, values in numbers.items()
    ]
    said = [f"the {MOST_BARS} tokens with the largest shares of {len(shares)}"] if len(shares) > MOST_BARS else []
    if not style.on_screen or isinstance(traced.shares, Mapping):  # else the map beside it says that
        said += [*traced.left_out(), *subtitles(traced.record, style)]
    length = LONG // len(columns) if style.on_screen else SHORT
    return bars.picture([traced.called(i) for i in kept.tolist()], columns, title, said, style.colors, length=length)


NAMES = {"rollout": "share by rollout", "flow": "largest flow"}
"""Names of the bars."""
