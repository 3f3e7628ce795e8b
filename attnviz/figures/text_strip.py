"""The sentence itself, each token shaded by the attention from one token, or to it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import altair as alt
import numpy as np

from attnviz.analysis.views import Groups
from attnviz.charts import axes, grid, hatch, interaction, legends, picture, pixels, state
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.picture import Form, Table, columns, formed
from attnviz.charts.texts import PHONE, LegendEntry, entry, heading, text_width, titled
from attnviz.charts.theme import CHARACTER, LINE, MONO, TEXT_SIZE, Theme, config
from attnviz.core import display
from attnviz.figures.shade import TOOLTIP, ShadedFigure

WIDTH, WIDER = 560, 620
"""Pixels in which the sentence is broken into lines, and on a screen."""

SIZE, HIGH, LONGEST = 15, 26, 24
"""Pixels of type and of a token's ground, code points of a token."""

LARGER, FEW = 1.4, 40
"""Factor of these on a screen, and tokens for which it has room."""

BLANK = 5.0
"""Pixels between two words; pieces of a word stand close together."""

NUMBERED = 40
"""Tokens up to which each weight is written under its token."""

COLUMNS = (
    "x", "y", "x2", "y2", "middle", "line", "text", "number", "below", "fill", "ink", "stroke", "stroke_width",
    "query", "key", "rev", *TOOLTIP,
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class TextStrip(ShadedFigure):
    """The sentence, shaded by what one token gives or gets; of two sentences both. `selected` is outlined."""

    @property
    def form(self) -> Form:
        ramp = replace(self.scale.legend(self._colors), top=0.0)
        return _form(self._extent, self._layout[1], SIZE * self._larger, ramp, self._colors)

    @cached_property
    def data(self) -> dict[str, Table]:
        (tokens, captions), _ = self._layout
        return {
            "meta": heading(self._heading, self.lines, self._extent, self, PHONE) | {"top": [self.scale.top]},
            "tokens": columns(COLUMNS, tokens),
            "captions": columns(("y", "text"), captions),
            "legend": entry(self._legend),
        }

    @cached_property
    def _colors(self) -> Theme:
        """Those of the theme; without colors for a head that is off."""
        return replace(self.colors, ramp=pixels.gray_ramp(self.colors)) if self.shade.off else self.colors

    @property
    def _width(self) -> int:
        """Pixels of a line."""
        return self.width or (WIDER if self.on_screen else WIDTH)

    @cached_property
    def _extent(self) -> int:
        """Pixels that the lines take: on a page no more, for a phone."""
        tokens = self._layout[0][0]
        return math.ceil(max((token["x2"] for token in tokens), default=0.0)) if self.on_screen else self._width

    @property
    def _larger(self) -> float:
        """How many times as large the tokens are."""
        return LARGER if self.on_screen and max(map(len, self.shade.ends)) <= FEW else 1

    @cached_property
    def _layout(self) -> tuple[tuple[list[dict], list[dict]], float]:
        """Tokens and captions at their places, and where they end."""
        rows, captions, y = [], [], 0.0
        ends = [(self.shade.ends[1], True)] if self.shade.one_text else [*zip(self.shade.ends, (False, True))]  # noqa: B905
        for part, is_shaded in ends:
            if len(ends) > 1:
                captions.append({"y": y + LINE / 2, "text": self._caption(is_shaded)})
                y += LINE + 6
            tokens = []
            for role, start, stop in part.turns:
                if role:
                    captions.append({"y": y + LINE / 2, "text": role})
                    y += LINE + 6
                placed, y = self._paragraph(part, y, is_shaded, range(start, stop))
                tokens += placed
            rows.append(tokens)
            y += 0 if is_shaded else 8
        chosen = {"stroke": self.colors.accent, "stroke_width": 2.5}
        if self.selected:
            other = self.shade.ends[1].index_of(self.selected[1 if self.side == "from" else 0])
            if other is not None:
                rows[-1][other] |= chosen | {"stroke_width": 1.5}
        rows[0][self.shade.index] |= chosen
        return ([row for part in rows for row in part], captions), y

    def _caption(self, is_shaded: bool) -> str:
        """Caption of a text, where there are two."""
        is_query = is_shaded != (self.side == "from")
        name, stack = (QUERY, "decoder") if is_query else (KEY, "encoder")
        return f"{name} · {stack}" if self.site.kind == "cross" else name

    def _paragraph(self, part: Groups, top: float, is_shaded: bool, places: range) -> tuple[list[dict], float]:
        """Some tokens of a part in lines, and where they end; in a text from right to left they begin at the right."""
        numbered, high = is_shaded and len(part) <= NUMBERED, HIGH * self._larger
        step = high + (LINE + 8 if numbered else 8)
        tokens = part.tokens[places.start : places.stop]
        texts = [display.visible_text(token.text, LONGEST) for token in tokens]
        letter, least = CHARACTER * SIZE * self._larger / TEXT_SIZE, 36.0 if numbered else 14.0
        widths = [max(text_width(text, letter) + 10, least) for text in texts]
        lines = balanced(widths, [1.0 if token.joined else BLANK for token in tokens], self._width)
        rows = []
        for i, (x, line), width, text in zip(places, lines, widths, texts, strict=True):
            x, y = self._width - x - width if axes.from_right(part.labels) else x, top + line * step
            place = {"x": x, "x2": x + width, "middle": x + width / 2, "y": y, "y2": y + high, "line": y + high / 2}
            row = place | {"text": text, "below": y + high + LINE / 2, "number": self._number(i) if numbered else ""}
            rows.append(row | self._look(part, i, is_shaded) | self.readout(part, i, is_shaded=is_shaded))
        return rows, top + (lines[-1][1] + 1 if lines else 1) * step

    def _number(self, i: int) -> str:
        weight = self.shade.weights[i]
        if np.isnan(weight):
            return "NaN"
        return f"{weight:.2f}" if self.shade.colored[i] else "–"

    def _look(self, part: Groups, i: int, is_shaded: bool) -> dict:
        """The ground of a token, its outline, and the color of its text."""
        shade, colors = self.shade, self._colors
        fill, stroke = colors.background, {"stroke": colors.line, "stroke_width": 1.0}
        if is_shaded and np.isnan(shade.weights[i]):
            stroke = {"stroke": colors.warning, "stroke_width": 2.0}
        if is_shaded:
            on_ramp = float(self.scale.shade(np.nan_to_num(shade.weights))[i])
            fill = pixels.color_at(on_ramp, colors) if shade.colored[i] else colors.blocked
        ink = pixels.readable(fill, colors)
        quiet = part.tokens[i].special and ink == colors.text
        return {"fill": fill, "ink": colors.quiet if quiet else ink} | stroke

    @property
    def _legend(self) -> list[LegendEntry]:
        """Legend of the signs in place of weights."""
        colors, shade = self._colors, self.shade
        signs = {self.state(i): bool(np.isnan(shade.weights[i])) for i in np.flatnonzero(~shade.colored).tolist()}
        entries = [
            LegendEntry(text, *((grid.FRAME, colors.warning) if is_nan else (hatch.DASH, colors.hatch)), colors.blocked)
            for text, is_nan in signs.items()
        ]
        more = len(entries) - state.MOST_RULES
        return entries if more <= 0 else [*entries[: state.MOST_RULES], state.rest(more, colors)]


def balanced(widths: Sequence[float], gaps: Sequence[float], most: float) -> list[tuple[float, int]]:
    """Begin of each token, in pixels, and its line: few lines, of much the same length.

    Args:
        widths: of the tokens, in pixels.
        gaps: left of each where it begins no line.
        most: pixels of a line, unless one token takes more.
    """

    def broken(most: float) -> list[tuple[float, int]]:
        places, end, line = [], 0.0, 0
        for i, (width, gap) in enumerate(zip(widths, gaps, strict=True)):
            x = end + gap if i else end
            if i and x + width > most:
                x, line = 0.0, line + 1
            places.append((x, line))
            end = x + width
        return places

    def lines(most: float) -> int:
        return max((line for _, line in broken(most)), default=0)

    narrower = (most - by for by in range(0, int(most), 4))
    return broken(min(takewhile(lambda width: lines(width) == lines(most), narrower), default=most))


@formed(16)
def _form(width: int, height: float, size: float, ramp: legends.Ramp, colors: Theme) -> Form:
    def x(name: str) -> alt.X:
        return alt.X(f"{name}:Q", scale=None, axis=None)

    def y(name: str) -> alt.Y:
        return alt.Y(f"{name}:Q", scale=None, axis=None)

    base = alt.Chart(alt.NamedData("tokens"))
    middle = {"align": "center", "baseline": "middle", **interaction.QUIET_MARK}
    grounds = base.mark_rect(aria=False, cursor="pointer", cornerRadius=3).encode(
        x=x("x"),
        y=y("y"),
        x2="x2:Q",
        y2="y2:Q",
        fill=alt.Fill("fill:N", scale=None),
        stroke=alt.Stroke("stroke:N", scale=None),
        strokeWidth=alt.StrokeWidth("stroke_width:Q", scale=None),
        tooltip=interaction.tooltip(TOOLTIP),
    )
    texts = base.mark_text(font=MONO, fontSize=size, **middle)
    texts = texts.encode(x=x("middle"), y=y("line"), text="text:N", fill=alt.Fill("ink:N", scale=None))
    numbers = base.mark_text(color=colors.quiet, **middle).encode(x=x("middle"), y=y("below"), text="number:N")
    captions = alt.Chart(alt.NamedData("captions"))
    captions = captions.mark_text(color=colors.quiet, align="left", baseline="middle", **interaction.QUIET_MARK)
    captions = captions.encode(x=alt.XValue(0), y=y("y"), text="text:N")
    where = {"orient": "bottom", "offset": 10}
    both = legends.ramp_legend(ramp, where), legends.state_legend(where)
    layers = [*both, grounds.properties(name="tokens"), texts, numbers, captions]
    chart = alt.layer(
        *layers, width=width, height=height, autosize="pad", title=titled(colors), resolve=picture.INDEPENDENT
    )
    chart.params = interaction.share(["tokens"], interaction.clicked("cell", "query", "key", "rev"))
    return Form.of(chart.configure(**config(colors)))
