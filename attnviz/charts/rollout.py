"""Where what stands at each position came from: attention rollout as a map, and one of its rows beside the flow."""

from dataclasses import dataclass

import numpy as np

from attnviz.charts import axes, bars, frame, panels, pixels
from attnviz.charts.frame import Frame, Ramp, box
from attnviz.charts.heatmap import subtitles_of
from attnviz.charts.panels import Panel, Panels
from attnviz.charts.picture import Picture
from attnviz.charts.size import size_beside
from attnviz.charts.theme import theme
from attnviz.core.display import in_title, shown
from attnviz.core.record import Record
from attnviz.metrics.beside import tiles
from attnviz.metrics.rollout import Mixed
from attnviz.views import groups

MOST_BARS = 40
"""Of longer texts the tokens with the largest shares are shown; the table holds all."""

WHAT = "½ the attention of a layer (mean of its heads) and ½ the residual, multiplied through the layers"
"""What rollout is, on the picture."""


@dataclass(frozen=True, eq=False)
class Traced:
    """Rollout through the first layers of a stack.

    Attributes:
        record: of the run.
        found: what each of these layers mixes; none after them.
        layer: the number of the last of them.
        shares: (n, n) float64, of what stands at row i after them, how much came from token j.
    """

    record: Record
    found: Mixed
    layer: int
    shares: np.ndarray

    def called(self, position: int) -> str:
        return f"{shown(self.found.tokens[position].text)} ({position})"


def drawing_of(
    traced: Traced, *, selected: int | None = None, dark: bool = False, rev: int = 0, edits: bool = True
) -> Panels:
    """Rollout as a map: rows are positions after the layers, columns tokens, the color ends at the largest share.

    A click selects a cell under the name "cell" with the fields query, key and rev, counted in squares of `tile` cells.

    Args:
        selected: the row that is outlined.
        edits: whether the picture says what was changed.
    """
    colors, n = theme(dark), len(traced.found.tokens)
    size, every = size_beside(n, n), groups(traced.found.tokens)
    bands = axes.bands(every.tokens[:: size.tile])
    room, names = axes.edges(bands, bands, size), tuple(axes.names(every, size.tile))
    values = tiles(traced.shares, size.tile)
    limit, side = panels.limit_of(values), range(size.rows)
    place = {"x": 0.0, "y": 0.0, "width": size.width, "height": size.height}
    below = size.height + 14
    read = (frame.RAMP_WIDTH + 30.0, below + 26)
    panel = Panel(("query", "key"), side, side, values, **place, limit=limit, signed=False, beside=read)
    around = axes.drawn((f"Position after layer {traced.layer}", "Token"), bands, bands, size, room, colors)
    around += axes.ties(every, every, size, colors)
    around += Frame(boxes=(box(0, 0, size.width, size.height, stroke=colors.line),))
    ticks = tuple((at, f"{at * limit:.3g}") for at in (0, 0.5, 1))
    ramp = Ramp("share, from 0 to the largest of this map", pixels.ramp_uri(colors), ticks)
    around += frame.legend([], ramp, top=below, width=size.width, colors=colors)
    lines = [*lines_of(traced, edits=edits), *axes.notes_on(size)]
    wide = {"left": room.left, "width": size.width - room.left, "colors": colors}
    around += frame.heading(title_of(traced), lines, top=room.top - 8, **wide)
    row = -1 if selected is None else selected // size.tile
    return Panels((panel,), around, (row, -1), names, names, readout=(0, below + 66), rev=rev)


def tile_of(traced: Traced) -> int:
    """How many positions are a square of the map."""
    return size_beside(*traced.shares.shape).tile


def title_of(traced: Traced) -> str:
    """What is drawn, beginning with constant words."""
    return f"What reaches what · {traced.found.kind}, after layer {traced.layer} · {in_title(traced.record.source)}"


def lines_of(traced: Traced, *, edits: bool = True) -> list[str]:
    """What is measured, what was left out, where the weights come from, and what was changed."""
    return [f"rollout: {WHAT}", *left_out(traced), *subtitles_of(traced.record, edits=edits)]


def left_out(traced: Traced) -> list[str]:
    """What is not followed, and rows that had nothing to mix."""
    rows = traced.found.left_out
    said = [traced.found.note.rstrip(".")] if traced.found.note else []
    return [*said, *([f"{rows} rows had no weights, and keep what they hold"] if rows else [])]


# One row


def row_picture(
    traced: Traced, position: int, flow: np.ndarray | None = None, *, dark: bool = False, edits: bool = True
) -> Picture:
    """How much of each token reaches a position: bars of rollout, and of the largest flow if it is given.

    Args:
        flow: (n,) of `metrics.rollout.flow` through the same layers.
        edits: whether the picture says what was changed.
    """
    shares = traced.shares[position]
    kept = np.sort(np.argsort(-shares, kind="stable")[:MOST_BARS])
    measured = {"rollout": shares} | ({} if flow is None else {"largest flow": flow})
    columns = [
        bars.Column(values[kept].tolist(), name=name, longest=float(values[kept].max(initial=0.0)) or 1.0)
        for name, values in measured.items()
    ]
    said = [f"the {MOST_BARS} tokens with the largest shares of {len(shares)}"] if len(shares) > MOST_BARS else []
    lines = [*said, *left_out(traced), *subtitles_of(traced.record, edits=edits)]
    labels = [traced.called(i) for i in kept.tolist()]
    return bars.picture(labels, columns, row_title(traced, position), lines, theme(dark), length=150)


def row_title(traced: Traced, position: int) -> str:
    """What is drawn of a row, beginning with constant words."""
    where = f"{traced.found.kind}, after layer {traced.layer}"
    return f"What reaches {traced.called(position)} · {where} · {in_title(traced.record.source)}"
