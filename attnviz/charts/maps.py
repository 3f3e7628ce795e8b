"""A map of cells: weights of a head, a mask, a grid of states. One composition for all, whatever its size.

Small maps are rectangles with tooltips, larger ones an image with a readout under the pointer: see
`attnviz.charts.screen`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import altair as alt
import numpy as np

from attnviz.charts import axes, ends, frame, labels, pixels, screen, state
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.frame import Entry, Frame, Ramp, box
from attnviz.charts.picture import Form, Picture, Table, columns, formed
from attnviz.charts.size import Size, size_of, within
from attnviz.charts.state import State
from attnviz.charts.style import Style
from attnviz.charts.theme import LINE, Theme
from attnviz.core.amounts import written
from attnviz.core.display import isolated, shown
from attnviz.views import Groups

TOOLTIP = (
    ("query_name", QUERY),
    ("key_name", KEY),
    ("weight_text", "weight"),
    ("score_text", "score"),
    ("says", "cell"),
)
"""Fields and names of what hovering shows; the names are fixed, because some names make a viewer fetch things."""

EDGE = 6
"""Pixels left and right of a picture of a given width, together."""

BELOW, READOUT, ASIDE = 16, 2 * LINE + 18, 200
"""Pixels between a map and its legend, and with a readout between them; and the width of a legend right of a map."""

APART, MARKED_BELOW = 24, 35
"""Pixels between a title and a legend right of it; and under a map, where a legend of marks comes and goes."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Map:
    """Everything that is drawn of a map; arrays are (rows, columns) of the squares that are drawn.

    Attributes:
        title, lines: what stands above.
        rows, columns: the tokens, all of them.
        size: how large, and in which form.
        states: which of `kinds` each cell is.
        kinds: what a cell can be, in the order of the legend.
        titles: of the row axis and of the column axis.
        shade: place on the ramp, 0 to 1, of cells whose ground that is.
        ramp: the legend of the ramp.
        gray: whether the ramp is without colors: of a head that is off.
        numbers: named columns of numbers, each with its form: weight, score.
        offsets: of tiles, where in its tile the largest weight stands: counted row by row.
        says: what is said of each cell, (cells,), instead of what its kind says.
        predicted: the word that each row predicts, which a readout names, too; none if nothing is predicted.
        ends: what stands at the rows' ends.
        empty: the legend of rows without a key, "" for none.
        below: lines under the legend.
        tiles: what a square shows of its cells, where it has several.
        brush: whether a drag over rectangles selects them.
    """

    title: str
    lines: Sequence[str] = ()
    rows: Groups
    columns: Groups
    size: Size
    states: np.ndarray
    kinds: Sequence[State]
    style: Style
    titles: tuple[str, str] = (QUERY, KEY)
    shade: np.ndarray | None = None
    ramp: Ramp | None = None
    gray: bool = False
    numbers: dict[str, tuple[np.ndarray, str]] = field(default_factory=dict)
    offsets: np.ndarray | None = None
    says: Sequence[str] | None = None
    predicted: Sequence[str] = ()
    ends: Frame = Frame()
    empty: str = ""
    below: Sequence[str] = ()
    tiles: str = "each square shows the largest of"
    brush: bool = False

    @property
    def chart(self) -> alt.LayerChart:
        """Vega-Lite, for files."""
        return self.picture.chart

    @property
    def screen(self) -> tuple[dict, Table | None]:
        """Of rectangles Vega-Lite, of an image Vega with a readout."""
        return self.picture.screen if self.size.form == "rectangles" else screen.screen(self)

    @property
    def picture(self) -> Picture:
        """The map as Vega-Lite, in the form that its size decides."""
        colors = self.style.colors
        if self.size.form != "rectangles":
            table = {"x": [0.0], "y": [0.0], "uri": [self.uri(scale=2)]}
            return Picture(_image(self.size, colors), {"map": table} | frame.tables(self.frame))
        drawn = self._room.angle, tuple(self.numbers), self.brush, self.style.on_screen
        form = _rectangles(self.size, self.titles, *drawn, colors)
        met = {"labels": columns(labels.COLUMNS, self.labels)} if self.style.on_screen else {}
        return Picture(form, {"cells": self.table} | met | frame.tables(self.frame))

    @cached_property
    def bands(self) -> tuple[list[str], list[str]]:
        """Band keys of the rows and of the columns."""
        return axes.bands(self.rows.tokens[:: self.size.tile]), axes.bands(self.columns.tokens[:: self.size.tile])

    @cached_property
    def names(self) -> tuple[list[str], list[str]]:
        """Rows and columns as a readout calls them."""
        rows, columns = (axes.names(part, self.size.tile) for part in (self.rows, self.columns))
        if self.predicted and self.size.tile == 1:
            every = zip(rows, self.predicted, strict=True)
            rows = [f"{name} ▸ {isolated(shown(word))}" if word else name for name, word in every]
        return rows, columns

    @property
    def positions(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each row and column the position; of a tile, the first."""
        return self.rows.starts[:: self.size.tile], self.columns.starts[:: self.size.tile]

    @property
    def lasts(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each row and column the last position that it stands for."""
        tile = self.size.tile
        return tuple(
            part.stops[np.arange(tile, len(part) + tile, tile).clip(max=len(part)) - 1] - 1
            for part in (self.rows, self.columns)
        )

    @cached_property
    def _room(self) -> axes.Edges:
        return axes.edges(*self.bands, self.size)

    @cached_property
    def frame(self) -> Frame:
        """What stands around: title, axes, outline, what is at the rows' ends, legend, and lines below."""
        size, colors, both = self.size, self.style.colors, (self.rows, self.columns)
        lines = [*self.lines, *axes.notes_on(size, self.tiles), *axes.note_on_ties(*both, size)]
        wide = {"width": size.width - self._room.left, "narrowest": self._narrowest(0), "colors": colors}
        wide |= {"width": self._beside_title - APART - self._room.left} if self.style.is_paired else {}
        around = frame.heading(self.title, lines, left=self._room.left, top=self._room.top - 8, **wide)
        title = min((word["y"] for word in around.titles), default=0.0) - LINE / 2
        legend, top = self._legend(title)
        around = around.moved(0.0, top - title)
        if size.form != "rectangles":
            around += axes.drawn(self.titles, *self.bands, size, self._room, colors)
        return around + axes.ties(*both, size, colors) + self.ends + self._outline() + legend

    def _legend(self, title: float) -> tuple[Frame, float]:
        """The legend of what occurs, under the map; if it is short, right of the title, and where both begin."""
        lines = state.entries([self.kinds[i] for i in self.occurring], self.style.colors)
        marks = ends.legend(self.ends, self.empty, self.style.colors)
        if not self.style.is_paired:
            return self._below([*lines, *marks], self.ramp), title
        wide = {"width": ASIDE, "narrowest": ASIDE, "colors": self.style.colors}
        above = self._room.top + axes.TITLE_PADDING  # of the labels of the columns
        over = frame.legend(lines, self.ramp, top=0.0, **wide)
        room = Frame(boxes=(box(0, self.size.height, 0, self.size.height + MARKED_BELOW),))
        under = room + frame.legend(marks, None, top=self._under, **wide | {"width": self.size.width})
        if title + frame.bottom(over) > above + 2 * LINE:  # it would push the title down by more than that
            over, under = frame.legend([], self.ramp, top=0.0, **wide), self._below([*lines, *marks], None)
        top = min(title, above - frame.bottom(over))
        return under + over.moved(self._beside_title, top), top

    def _below(self, lines: Sequence[Entry], ramp: Ramp | None) -> Frame:
        """A legend, and lines under it."""
        size, colors = self.size, self.style.colors
        top = self._under
        wide = {"width": size.width, "narrowest": self._narrowest(-self._room.left), "colors": colors}
        right = 0.0
        if self.style.aside:
            top, right, wide = 0.0, ends.after(self.ends, size) + BELOW, wide | {"width": ASIDE, "narrowest": ASIDE}
        around = frame.legend(lines, ramp, top=top, **wide)
        bottom = frame.bottom(around) + 8
        for text in self.below:
            written = frame.lines(text, left=0, top=bottom, **wide)
            around, bottom = around + written, bottom + len(written.words) * LINE
        return around.moved(right)

    @property
    def _under(self) -> float:
        """Where a legend under the map begins: below the readout, if there is one."""
        return self.size.height + (READOUT if self.style.on_screen and self.size.form != "rectangles" else BELOW)

    @property
    def _beside_title(self) -> float:
        """Where a legend begins that stands right of the title: over the right end of all, and left of it the title."""
        end = ends.after(self.ends, self.size) - ends.GAP
        return max(end - frame.RAMP_WIDTH, self._room.left + frame.NARROWEST + APART)

    def _narrowest(self, left: float) -> float:
        """Pixels in which words are broken at least, that begin so far right."""
        return frame.NARROWEST if self.style.width is None else self.style.width - EDGE - left

    def _outline(self) -> Frame:
        """A frame around the square of the selected cell, and a mark at each of its labels."""
        cell = self.style.selected
        row, column = (None, None) if cell is None else (self.rows.at(cell[0]), self.columns.at(cell[1]))
        if row is None or column is None:
            return Frame()
        side, accent = self.size.cell, self.style.colors.accent
        x, y = float(column // self.size.tile) * side, float(row // self.size.tile) * side
        grow = max(0.0, (7 - side) / 2)
        return Frame(
            boxes=(
                box(-4, y - grow, -1.5, y + side + grow, fill=accent),
                box(x - grow, -4, x + side + grow, -1.5, fill=accent),
                box(x - grow, y - grow, x + side + grow, y + side + grow, stroke=accent, width=2.5),
            )
        )

    @cached_property
    def ground(self) -> np.ndarray:
        """The palette index of each cell."""
        places = [0 if kind.ground == "ramp" else pixels.place(kind.ground) for kind in self.kinds]
        ground = np.array(places, np.uint8)[self.states]
        if self.shade is None:
            return ground
        on_ramp = np.array([kind.ground == "ramp" for kind in self.kinds])[self.states]
        return np.where(on_ramp, pixels.shades(self.shade), ground)

    @cached_property
    def occurring(self) -> list[int]:
        """Which of the kinds occur."""
        return np.flatnonzero(np.bincount(self.states.ravel())).tolist()

    @cached_property
    def labels(self) -> list[dict]:
        """What of the labels can be clicked."""
        return labels.clicked(self, angle=self._room.angle)

    @property
    def _palette(self) -> np.ndarray:
        return pixels.palette(self.style.colors, gray=self.gray)

    def uri(self, *, scale: int) -> str:
        """The map as an image, `scale` times its size on the screen; there a pixel a cell if none is drawn on."""
        strokes = {i: stroke for i in self.occurring if (stroke := self.kinds[i].stroke())}
        marks = {stroke: [i for i, other in strokes.items() if other == stroke] for stroke in strokes.values()}
        drawn = [(sign, np.isin(self.states, kinds), color) for (sign, color), kinds in marks.items()]
        zoom = max(1, round(scale * self.size.cell)) if drawn or scale > 1 else 1
        image = pixels.paint(
            self.ground, drawn, height=self.size.rows * zoom, width=self.size.columns * zoom, scale=scale
        )
        return pixels.data_uri(image, self._palette)

    @cached_property
    def table(self) -> Table:
        """One row per cell, row by row: where it is, what it says, what is drawn on it."""
        row, column = (index.ravel() for index in np.indices(self.states.shape))
        size, colors = self.size, self.style.colors
        drawn = [kind.drawn(size.cell, colors) for kind in self.kinds]
        path, stroke, width = (_pick([sign[part] for sign in drawn], self.states.ravel()) for part in range(3))
        table = {
            "query_band": _pick(self.bands[0], row),
            "key_band": _pick(self.bands[1], column),
            "query": self.positions[0][row].tolist(),
            "key": self.positions[1][column].tolist(),
            "rev": [self.style.rev] * len(row),
            "query_name": _pick(self.names[0], row),
            "key_name": _pick(self.names[1], column),
            "ground": _pick(pixels.hexadecimal(self._palette), self.ground.ravel()),
            "says": list(self.says or _pick([kind.says for kind in self.kinds], self.states.ravel())),
            "path": path,
            "stroke": stroke,
            "stroke_width": width,
        }
        for name, (values, form) in self.numbers.items():
            flat = values.ravel().tolist()
            table[name] = [value if math.isfinite(value) else None for value in flat]
            table[f"{name}_text"] = [written(value, form) for value in flat]
        return table


@formed(128)
def _rectangles(
    size: Size,
    titles: tuple[str, str],
    angle: int,
    numbers: tuple[str, ...],
    brush: bool,
    on_screen: bool,
    colors: Theme,
) -> Form:
    """A rectangle per cell, strokes on those that are no weight, the frame, and on a screen labels to be clicked."""
    y, x = axes.encodings(titles, angle, colors)
    fields = {field: name for field, name in TOOLTIP if not field.endswith("_text") or field[:-5] in numbers}
    base = alt.Chart(alt.NamedData("cells")).encode(y=y, x=x, tooltip=tooltip(fields))
    pointed = alt.selection_point(name="pointed", fields=["query", "key"], on="pointerover", clear="pointerout")
    cells = (
        base.mark_rect(stroke=colors.background, strokeWidth=1, cursor="pointer", aria=False)
        .encode(color=alt.Color("ground:N", scale=None))
        .add_params(clicked("cell", "query", "key", "rev"), pointed, *([dragged("drag", colors)] if brush else []))
    )
    strokes = (
        base.transform_filter("isValid(datum.path)")
        .mark_point(size=size.cell**2, filled=False, opacity=1, cursor="pointer", aria=False)
        .encode(
            shape=alt.Shape("path:N", scale=None),
            stroke=alt.Stroke("stroke:N", scale=None),
            strokeWidth=alt.StrokeWidth("stroke_width:Q", scale=None),
        )
    )
    lit = alt.Chart(alt.NamedData("cells")).transform_filter(pointed).transform_filter("isValid(pointed.query)")
    lines = lit.mark_rect(fill=None, stroke=colors.accent, strokeWidth=1.5, aria=False, tooltip=None)
    bands = [lines.encode(y=y, x=alt.XValue(0), x2=alt.X2Value(size.width))]
    bands += [lines.encode(x=x, y=alt.YValue(0), y2=alt.Y2Value(size.height))]
    return _form([cells, strokes, *bands, *([_labels(fields)] if on_screen else [])], size, colors)


def _labels(fields: dict[str, str]) -> alt.Chart:
    """What the pointer meets of the labels; it belongs to the selection of the cells."""
    place = {name: alt.expr(f"datum.{name}") for name in ("x", "y", "x2", "y2")}
    marks = alt.Chart(alt.NamedData("labels")).mark_rect(opacity=0, cursor="pointer", aria=False, **place)
    return marks.encode(tooltip=tooltip({field: name for field, name in fields.items() if field in labels.COLUMNS}))


@formed(128)
def _image(size: Size, colors: Theme) -> Form:
    """One image in place of all cells, and the frame, which carries the labels of the axes."""
    return _form([frame.image("map", size.width, size.height, tooltip=None)], size, colors)


def _form(layers: list[alt.Chart], size: Size, colors: Theme) -> Form:
    # Not alt.Step: Vega-Lite forgets a step where other layers are placed in pixels.
    return frame.form(layers, size.width, size.height, colors)


def size_within(
    rows: Groups, columns: Groups, style: Style, beside: Callable[[Size], Frame] = lambda size: Frame()
) -> Size:
    """How large a map is drawn: in the width of the style, with its labels and what is at its rows' ends."""
    size = size_of(len(rows), len(columns), style.side)
    if style.width is None:
        return size
    after = ends.after(beside(size), size) - size.width - ends.GAP
    left = axes.edges(axes.bands(rows.tokens), axes.bands(columns.tokens), size).left
    return within(size, style.width + left - EDGE - after)


def pooled(states: np.ndarray, tile: int) -> np.ndarray:
    """One state, or number, for each square of a map: the largest among those of a tile."""
    starts = [np.arange(0, length, tile) for length in states.shape]
    return np.maximum.reduceat(np.maximum.reduceat(states, starts[0], 0), starts[1], 1)


def clicked(name: str, *fields: str) -> alt.Parameter:
    """A click, as a selection; Escape clears it. A counter `rev` in the data lets the same thing be clicked again."""
    escape = "window:keydown[event.key === 'Escape']"
    return alt.selection_point(name=name, fields=list(fields), on="click", toggle=False, clear=escape)


def tooltip(fields: dict[str, str]) -> list[alt.Tooltip]:
    """What hovering shows: fields of the data, by what they are called."""
    return [alt.Tooltip(f"{field}:N", title=name) for field, name in fields.items()]


def dragged(name: str, colors: Theme) -> alt.Parameter:
    """A drag over cells, as a selection of the bands of their rows and columns.

    It clears itself a moment after the drag, when it has been told: cells under it could not be clicked. Only after one
    that began on the picture: otherwise a click elsewhere would clear the start of the next drag.
    """
    mark = alt.BrushConfig(fill=colors.accent, fillOpacity=0.12, stroke=colors.accent, strokeOpacity=0.6)
    ended = "[pointerdown, window:pointermove[!event.buttons]] > window:pointerup{0, 300}"
    return alt.selection_interval(name=name, encodings=["x", "y"], mark=mark, clear=ended, zoom=False, translate=False)


def _pick(names: Sequence, index: np.ndarray) -> list:
    return [names[i] for i in index.tolist()]
