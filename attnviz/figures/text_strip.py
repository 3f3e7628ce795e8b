"""The sentence itself, each token shaded by the attention from one token, or to it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from attnviz.charts import axes, grid, marks, pixels, signs
from attnviz.charts.axes import KEY, QUERY
from attnviz.charts.legends import PHONE, LegendEntry, entry, heading, ramp_spec, signs_spec, text_width, title_spec
from attnviz.charts.marks import Form, Spec, Table
from attnviz.charts.theme import CHARACTER, LINE, MONO, TEXT_SIZE, Theme
from attnviz.core import display
from attnviz.figures.base import Views
from attnviz.figures.shade import TOOLTIP, ShadedFigure

WIDTH, WIDER = 560, 620
"""Pixels in which the sentence is broken into lines, and on a screen."""
SIZE, HIGH, LONGEST = 15, 26, 24
"""Pixels of type and of a token's ground, code points of a token."""
LARGER, FEW = 1.4, 40
"""Factor of these on a screen, and tokens for which it has room; up to as many each weight stands under its token."""
BLANK, BETWEEN = 5.0, 8
"""Pixels between two words, while pieces of a word stand close together, and between two lines."""

PLACES = ("x", "x2", "y", "y2", "text", "number")
LOOKS = ("fill", "ink", "stroke", "stroke_width", "query", "key", "rev", *dict(TOOLTIP))
"""Columns of a table of tokens: where they stand, and what they look like and say."""


@dataclass(frozen=True, eq=False)
class TextStrip(ShadedFigure):
    """The sentence, shaded by what one token gives or gets; of two sentences both. `selected` is outlined."""

    def draw(self) -> Views:
        return Views(self._form(), self._data())

    def _form(self) -> Form:
        ramp = replace(self.scale.legend(self._colors), top=0.0)
        where = {"orient": "bottom", "offset": 10}
        caption = {"x": marks.pixels_at(0), "y": marks.pixels_of("y"), "text": marks.field("text")}
        layers = [
            ramp_spec(ramp, where),
            signs_spec(where),
            *word_layers("tokens", SIZE * self._larger, self._colors, "tokens"),
            marks.layer("captions", "text", caption, color=self.colors.quiet, align="left", baseline="middle"),
        ]
        chart = {"layer": layers, "width": self._extent, "height": self._layout[2], "resolve": marks.APART}
        params = {"params": [marks.click("cell", ["tokens"], "query", "key", "rev")]}
        return marks.whole(chart | params | {"title": title_spec()}, self._colors)

    def _data(self) -> dict[str, Table]:
        tokens, captions, _ = self._layout
        return {
            "meta": heading(self._heading, self.lines, self._extent, self, PHONE) | {"top": [self.scale.top]},
            "tokens": marks.columns((*PLACES, *LOOKS), tokens),
            "captions": marks.columns(("y", "text"), captions),
            "legend": entry(self._legend),
        }

    @cached_property
    def _colors(self) -> Theme:
        """Those of the theme; without colors for a head that is off."""
        return replace(self.colors, ramp=pixels.gray_ramp(self.colors)) if self.shade.off else self.colors

    @cached_property
    def _extent(self) -> int:
        """Pixels that the lines take: on a page no more, for a phone."""
        right = math.ceil(max((token["x2"] for token in self._layout[0]), default=0.0))
        return right if self.on_screen else self.width or WIDTH

    @property
    def _larger(self) -> float:
        """How many times as large the tokens are."""
        return LARGER if self.on_screen and max(map(len, self.shade.ends)) <= FEW else 1

    @cached_property
    def _layout(self) -> tuple[list[dict], list[dict], float]:
        """Tokens and captions at their places, and where they end."""
        shade, tokens, captions, y = self.shade, [], [], 0.0
        ends = [(shade.ends[1], True)] if shade.one_text else [(shade.ends[0], False), (shade.ends[1], True)]
        most, high = self.width or (WIDER if self.on_screen else WIDTH), HIGH * self._larger
        character = CHARACTER * SIZE * self._larger / TEXT_SIZE
        for part, is_shaded in ends:
            rows, numbered = self.looks(part, self._colors, is_shaded=is_shaded), is_shaded and len(part) <= FEW
            chosen = {"stroke": self.colors.accent, "stroke_width": 2.5}
            if self.selected and is_shaded:
                other = part.index_of(self.selected[1 if self.side == "from" else 0])
                if other is not None:
                    rows[other] |= chosen | {"stroke_width": 1.5}
            if shade.one_text or not is_shaded:
                rows[shade.index] |= chosen
            name, stack = (KEY, "encoder") if is_shaded == (self.side == "from") else (QUERY, "decoder")
            name = f"{name} · {stack}" if self.site.kind == "cross" else name
            for role, start, stop in [(name, 0, 0), *part.turns] if len(ends) > 1 else part.turns:
                if role:
                    captions.append({"y": y + LINE / 2, "text": role})
                    y += LINE + 6
                turn = part.tokens[start:stop]
                texts = [display.visible_text(token.text, LONGEST) for token in turn]
                widths = [max(text_width(text, character) + 10, 36.0 if numbered else 14.0) for text in texts]
                gaps = [1.0 if token.joined else BLANK for token in turn]
                step = high + BETWEEN + (LINE if numbered else 0)
                places = balanced(widths, gaps, most)
                for i, (x, line), width, text in zip(range(start, stop), places, widths, texts, strict=True):
                    x, top = most - x - width if axes.from_right(part.labels) else x, y + line * step
                    place = {"x": x, "x2": x + width, "y": top, "y2": top + high, "text": text}
                    tokens.append(place | {"number": self._number(i) if numbered else ""} | rows[i])
                y += (places[-1][1] + 1) * step if places else 0
            y += 0 if is_shaded else BETWEEN
        return tokens, captions, y

    def _number(self, i: int) -> str:
        weight = self.shade.weights[i]
        if np.isnan(weight):
            return "NaN"
        return f"{weight:.2f}" if self.shade.colored[i] else "–"

    @property
    def _legend(self) -> list[LegendEntry]:
        """Legend of the signs in place of weights."""
        colors, shade = self._colors, self.shade
        there = {self.state(i): bool(np.isnan(shade.weights[i])) for i in np.flatnonzero(~shade.colored).tolist()}
        frame, dash = (grid.FRAME, colors.warning), (signs.DASH, colors.hatch)
        entries = [LegendEntry(text, *(frame if is_nan else dash), colors.blocked) for text, is_nan in there.items()]
        more = len(entries) - signs.MOST_RULES
        return entries if more <= 0 else [*entries[: signs.MOST_RULES], signs.rest(more, colors)]


def balanced(widths: Sequence[float], gaps: Sequence[float], most: float) -> list[tuple[float, int]]:
    """Begin of each token, in pixels, and its line: few lines, of much the same length.

    Args:
        widths: pixels of the tokens.
        gaps: pixels left of each where it begins no line.
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

    best = narrower = broken(most)
    while narrower and narrower[-1][1] == best[-1][1] and most > 0:
        best, most = narrower, most - 4
        narrower = broken(most)
    return best


def word_layers(table: str, size: float, colors: Theme, name: str, where: str = "") -> list[Spec]:
    """Rounded grounds of tokens with their texts, and numbers below them; places are pixels."""
    middle = [{"calculate": f"(datum.{axis} + datum.{axis}2) / 2", "as": f"{axis}m"} for axis in "xy"]
    text, x = {"align": "center", "baseline": "middle"}, {"x": marks.pixels_of("xm")}
    box = marks.box(marks.pixels_of("x"), marks.pixels_of("y"))
    grounds = box | marks.looks() | {"tooltip": marks.tips(*TOOLTIP)}
    written = x | {"y": marks.pixels_of("ym"), "text": marks.field("text"), "fill": marks.as_is("ink")}
    numbers = x | {"y": marks.pixels_of("y2"), "text": marks.field("number")}
    layers = [
        marks.layer(table, "rect", grounds, where=where, cursor="pointer", cornerRadius=3),
        marks.layer(table, "text", written, where=where, font=MONO, fontSize=size, **text),
        marks.layer(table, "text", numbers, where=where, color=colors.quiet, dy=LINE / 2, **text),
    ]
    return [
        layers[0] | {"name": name},
        *(layer | {"transform": [*layer.get("transform", ()), *middle]} for layer in layers[1:]),
    ]
