"""A picture whose patches a model read: the stronger the tint of one, the more attention it gets from one position."""

import base64
import io
import math
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, lru_cache

import altair as alt
import numpy as np
from PIL import Image

from attnviz.analysis import pictured
from attnviz.analysis.views import Groups
from attnviz.charts import interaction, legends, pixels
from attnviz.charts.domain import Domain
from attnviz.charts.picture import INDEPENDENT, Form, Table, columns, formed
from attnviz.charts.texts import heading, text_width, titled
from attnviz.charts.theme import LINE, MONO, TINT, Theme, config
from attnviz.core.display import in_title, visible_text
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.places import Box, Picture
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.figures.head import called
from attnviz.figures.shade import TOOLTIP, Shade, ShadedFigure

SIDE, GAP, BETWEEN = 300, 20, 6
"""Pixels of the longer side of a picture, between its two drawings, and between pictures of one text."""
LEAST = 24.0
"""Pixels of its shorter side at least: positions in time are one row of patches."""
STRONGEST, UNREAD = 0.75, 0.9
"""How much the strongest tint covers of a patch, and gray of what a model was not given of a picture."""
NARROW = 0.004
"""Part of a picture's side that is too little to be drawn."""
OVERLAP = 0.1
"""Part of the smaller of two boxes above which they overlap."""
CLS = "[CLS]"
LESS = ("", "sinks", "neutral")
LESS_MEANS = {
    "sinks": f"without patches above {pictured.SINK:g} times the median mean weight; the rest in parts of their sum",
    "neutral": "minus the weights of the last token of “{question}”",
}
CHIP = 24
"""Pixels of the height of a position that is no patch."""
MOST_CHIPS, MOST_WORDS, DOT = 32, 200, 6
"""Special positions, and any, beside patches that have names, at most; of more, as in padding, each is a square."""
THIN = 8
"""Pixels of the width of a patch below which it has no frame."""
TICKS = 4
"""Steps of the time below a spectrogram, about."""

NONE_MORE, NO_WEIGHT = "no patch gets more than under the neutral question", "no patch gets weight"

COLUMNS = (
    "x", "y", "x2", "y2", "fill", "cover", "stroke", "stroke_width", "text", "ink", "query", "key", "rev", *TOOLTIP,
)  # fmt: skip


def on_grid(record: Record, site: Site) -> bool:
    """Whether queries or keys of a site stand in a picture."""
    return any(sentence.has_places for sentence in record.texts(site))


@dataclass(frozen=True)
class Frame:
    """Place of a drawn picture in pixels, and the boxes in it; `picture` is None where its patches alone are drawn."""

    x: float
    y: float
    width: float
    height: float
    picture: Picture | None
    boxes: tuple[Box, ...] = ()

    @property
    def seconds(self) -> float:
        """Time that a spectrogram lasts; of a picture 0."""
        return 0.0 if self.picture is None else self.picture.seconds

    @property
    def bottom(self) -> float:
        """The line in pixels below which the next thing stands."""
        return self.y + self.height + LINE * bool(self.seconds)

    def ticks(self) -> list[dict]:
        """Times below a spectrogram, and their places."""
        if not self.seconds:
            return []
        step = 10.0 ** math.floor(math.log10(self.seconds / TICKS))
        step *= next(factor for factor in (1, 2, 5, 10) if self.seconds / (step * factor) <= TICKS + 1)
        times = [round(i * step, 6) for i in range(math.floor(self.seconds / step + 1e-9) + 1)]
        return [
            {"x": self.x + time / self.seconds * self.width, "y": self.y + self.height, "text": f"{time:g} s"}
            for time in times
        ]


@dataclass(frozen=True, eq=False)
class PatchImage(ShadedFigure):
    """The picture, each patch as bright as the attention that one position gives it, or that it gives this position.

    Attributes:
        less: "sinks" sets patches aside that always win, see `analysis.pictured.without_sinks`; "neutral" takes the
            weights under another question away, see `minus_neutral`; "" shows the weights.
        neutral: the record of that question.

    Without a chosen token it is [CLS], from which a picture is classified, else that of the largest weight.

    Raises:
        InputError: if neither the queries nor the keys of the site are patches.
    """

    _: KW_ONLY
    less: str = ""
    neutral: Record | None = None

    kind = "picture-"

    def __post_init__(self):
        if self.less not in LESS or (self.less and self.side != "from"):
            raise InputError(f"less is {self.less!r}; it is of attention from a token, one of {', '.join(LESS[1:])}.")
        if not on_grid(self.record, self.site):
            raise InputError(
                f"Neither queries nor keys of {self.site} are patches of a picture: say record(places=...)."
            )
        super().__post_init__()
        if self.chosen is None and self.side == "from" and self.record.tokens(self.site)[0][0].text == CLS:
            object.__setattr__(self, "chosen", 0)

    @property
    def most(self) -> int:
        """Positions drawn at most: all."""
        return max(self.record.step(self.site).shape[2:])

    @property
    def position(self) -> int:
        """Position of the token whose attention is shown."""
        return int(self.shade.ends[0].starts[self.shade.index])

    @property
    def looks_at_picture(self) -> bool:
        """Whether the tokens that are shaded stand in a picture."""
        return any(token.box is not None for token in self.shade.ends[1].tokens)

    @property
    def begin(self) -> str:
        size = f"{sum(token.box is not None for token in self._placed.tokens):,}"
        return f"A picture of {size} patches, the stronger their tint the more attention {{}} one position."

    @cached_property
    def shade(self) -> Shade:
        """The weights of the token, without sinks or those under another question where that is asked for."""
        shade = super().shade
        if not self.less:
            return shade
        row = int(shade.ends[0].starts[shade.index])
        named = {"sentence": self.sentence}
        if self.less == "sinks":
            values = pictured.without_sinks(self.record, self.site, self.head, row, **named)
        else:
            values = pictured.minus_neutral(self.record, self.neutral, self.site, self.head, row, **named)
        places = pictured.patches(self.record, self.site, **named)
        by_place = dict(zip(places, values.tolist(), strict=True))
        starts = zip(shade.ends[1].starts.tolist(), shade.weights.tolist(), strict=True)
        weights = np.array([by_place.get(start, weight) for start, weight in starts])
        return replace(shade, weights=weights, colored=shade.colored & ~np.isnan(weights))

    def state(self, i: int) -> str:
        is_set_aside = self.less == "sinks" and np.isnan(self.shade.weights[i])
        return "a sink, set aside" if is_set_aside else super().state(i)

    @cached_property
    def scale(self) -> Domain:
        """Color domain of the weights; one that adapts ends at the largest weight of a patch."""
        if self.domain != "adapts" or not self.looks_at_picture:
            return super().scale
        return Domain("adapts", max(0.0, self._largest) or 1.0)

    @property
    def _largest(self) -> float:
        """The largest weight of a patch."""
        placed = [token.box is not None for token in self.shade.ends[1].tokens]
        return float(np.nan_to_num(self.shade.weights)[placed].max(initial=0.0 if not self.less else -1.0))

    @property
    def _heading(self) -> str:
        name = in_title(self.shade.ends[0].labels[self.shade.index])
        return f"Attention {self.side} {name} · {called(self.attention_view, self.head)}"

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        boxes = [token.box for token in self.shade.ends[1].tokens]
        places = [[box.picture, box.left, box.top, box.right, box.bottom] if box else [np.nan] * 5 for box in boxes]
        return super().arrays | {"boxes": np.array(places, np.float32)}

    @property
    def lines(self) -> list[str]:
        question = self.neutral.sentences[0].text if self.neutral else ""
        less = [LESS_MEANS[self.less].format(question=question)] if self.less else []
        if self.looks_at_picture and self._largest <= 0:
            less.append(NONE_MORE if self.less == "neutral" else NO_WEIGHT)
        return [*less, *super().lines]

    @property
    def form(self) -> Form:
        width, height = self._extent
        ramp = self.scale.legend(self.colors)
        if self._has_pixels:
            ramp = replace(ramp, colors=(self.colors.background, TINT))
        return _form(width, height, tuple(self._sizes), replace(ramp, top=0.0), self.colors)

    @cached_property
    def data(self) -> dict[str, Table]:
        cells = self._layout[0]
        return {
            "meta": heading(self._heading, self.lines, self._extent[0], self) | {"top": [self.scale.top]},
            "pictures": columns(("x", "y", "size", "uri"), self._pictures),
            "ticks": columns(("x", "y", "text"), [tick for frame in self._layout[1] for tick in frame.ticks()]),
            "cells": columns(COLUMNS, cells),
            "unread": columns(("x", "y", "x2", "y2"), self._unread),
        }

    @property
    def _placed(self) -> Sentence:
        """The sentence with pictures: of keys, or else of queries."""
        queries, keys = self.record.texts(self.site, sentence=self.sentence)
        return keys if keys.has_places else queries

    @property
    def _has_pixels(self) -> bool:
        return bool(self._placed.pictures)

    @property
    def _sizes(self) -> list[tuple[float, float]]:
        """The widths and heights that pictures are drawn in."""
        return list(dict.fromkeys((frame.width, frame.height) for frame in self._layout[1] if frame.picture))

    @property
    def _pictures(self) -> list[dict]:
        sizes = self._sizes
        return [
            {"x": f.x, "y": f.y, "size": sizes.index((f.width, f.height)), "uri": data_uri(f.picture)}
            for f in self._layout[1]
            if f.picture
        ]

    @property
    def _unread(self) -> list[dict]:
        """Strips of pictures at which no patch stands: a model is not given them."""
        strips = []
        for frame in self._layout[1]:
            boxes = frame.boxes
            if not (frame.picture and boxes):
                continue
            left, top = min(box.left for box in boxes), min(box.top for box in boxes)
            right, bottom = max(box.right for box in boxes), max(box.bottom for box in boxes)
            for x, y, x2, y2 in ((0, 0, 1, top), (0, bottom, 1, 1), (0, top, left, bottom), (right, top, 1, bottom)):
                if x2 - x > NARROW and y2 - y > NARROW:
                    ends = {"x": frame.x + x * frame.width, "x2": frame.x + x2 * frame.width}
                    strips.append(ends | {"y": frame.y + y * frame.height, "y2": frame.y + y2 * frame.height})
        return strips

    @property
    def _extent(self) -> tuple[float, float]:
        """Width and height of all."""
        cells, frames = self._layout
        right = [*(row["x2"] for row in cells), *(frame.x + frame.width for frame in frames)]
        bottom = [*(row["y2"] for row in cells), *(frame.bottom for frame in frames)]
        return max(right), max(bottom)

    @cached_property
    def _layout(self) -> tuple[list[dict], list[Frame]]:
        """Cells and pictures: where the position looks, and beside it, or below in a given width, where it stands."""
        chosen, shaded = self.shade.ends
        alone = self.shade.one_text and not self._has_pixels  # nothing is to be seen without colors
        cells, frames, x, y = [], [], 0.0, 0.0
        for part, is_shaded in [(shaded, True)] if alone else [(shaded, True), (chosen, False)]:
            drawn = frames_of(self._sentence_of(part), x, y)
            rows = self._cells(part, x, y, drawn, is_shaded=is_shaded)
            if not is_shaded or self.shade.one_text:
                rows[self.shade.index] |= {"stroke": self.colors.accent, "stroke_width": 2.5}
            frames += drawn
            cells += rows
            below = max([*(row["y2"] for row in rows), *(frame.bottom for frame in drawn)]) + LINE
            x, y = (0.0, below) if self.width else (SIDE + GAP, 0.0)
        return cells, frames

    def _sentence_of(self, part: Groups) -> Sentence:
        """The sentence of whose tokens one end is."""
        is_query = (part is self.shade.ends[0]) == (self.side == "from")
        return self.record.texts(self.site, sentence=self.sentence)[0 if is_query else 1]

    def _cells(self, part: Groups, x: float, y: float, frames: list[Frame], *, is_shaded: bool) -> list[dict]:
        """Patches on their pictures, the other positions in lines below."""
        rows, frame_of = [], {box: frame for frame in frames for box in frame.boxes}
        across, top = x, max((frame.bottom + 8 for frame in frames), default=y)
        beside = [token for token in part.tokens if token.box is None]
        is_small = sum(token.special for token in beside) > MOST_CHIPS or len(beside) > MOST_WORDS
        is_small = is_small and bool(frames)
        for i, token in enumerate(part.tokens):
            box = token.box
            if box is not None:
                frame, text = frame_of[box], ""
                left, upper = frame.x + box.left * frame.width, frame.y + box.top * frame.height
                right, lower = frame.x + box.right * frame.width, frame.y + box.bottom * frame.height
            else:
                text = "" if is_small else visible_text(part.labels[i], 16)
                width, height, gap = (DOT, DOT, 1) if is_small else (text_width(text) + 12, CHIP, 4)
                if across > x and across + width > x + SIDE:
                    across, top = x, top + height + gap
                left, upper, right, lower = across, top, across + width, top + height
                across += width + gap
            place = {"x": left, "y": upper, "x2": right, "y2": lower, "text": text}
            look = self._look(i, is_shaded=is_shaded, is_bare=box is not None and frame_of[box].picture is not None)
            edge = {"stroke_width": 0.0} if right - left < THIN else {}
            rows.append(place | look | edge | self.readout(part, i, is_shaded=is_shaded))
        return rows

    def _look(self, i: int, *, is_shaded: bool, is_bare: bool) -> dict:
        """The ground of a cell and how much it covers; `is_bare` is a patch of a picture that is there."""
        shade, colors = self.shade, self.colors
        fill, cover = colors.background, 1.0 - is_bare
        if is_shaded and not shade.colored[i]:
            fill, cover = colors.blocked, 1.0
        elif is_shaded:
            bright = float(self.scale.shade(shade.weights)[i])
            is_tint = self._has_pixels
            fill, cover = (TINT, STRONGEST * bright) if is_tint else (pixels.color_at(bright, colors), 1.0)
        ink = colors.text if fill == TINT else pixels.readable(fill, colors)
        return {"fill": fill, "cover": cover, "ink": ink, "stroke": colors.line, "stroke_width": 0.4}


def frames_of(sentence: Sentence, x: float, y: float) -> list[Frame]:
    """The pictures of a sentence side by side, in as many rows; without pixels in the shape of their patches."""
    layers = _layers([token.box for token in sentence.tokens if token.box is not None])
    across = math.ceil(math.sqrt(max(1, len(layers))))
    side = (SIDE - (across - 1) * BETWEEN) / across
    frames, left, top, below = [], x, y, y
    for number, (picture, own) in enumerate(layers):
        if sentence.pictures:
            high, wide = sentence.pictures[picture].size
        else:
            high, wide = len({box.top for box in own}), len({box.left for box in own})
        factor = side / max(high, wide)
        width, height = max(LEAST, wide * factor), max(LEAST, high * factor)
        if number and number % across == 0:
            left, top = x, below + BETWEEN
        shown = sentence.pictures[picture].small if sentence.pictures else None
        frames.append(Frame(left, top, width, height, shown, tuple(own)))
        left, below = left + width + BETWEEN, max(below, frames[-1].bottom)
    return frames


def _layers(boxes: list[Box]) -> list[tuple[int, list[Box]]]:
    """Boxes of each picture, by its number; those that overlap, as tiles and the whole picture, are drawn apart."""
    layers = []
    for picture in range(max((box.picture for box in boxes), default=-1) + 1):
        own = [box for box in boxes if box.picture == picture]
        edges = np.array([(box.left, box.top, box.right, box.bottom) for box in own]).reshape(-1, 4)
        areas = (edges[:, 2:] - edges[:, :2]).prod(1)
        numbers = np.zeros(len(own), int)
        for i in range(1, len(own) if areas.sum() > 1 + OVERLAP else 0):
            shared = np.minimum(edges[:i, 2:], edges[i, 2:]) - np.maximum(edges[:i, :2], edges[i, :2])
            covers = shared.clip(0).prod(1) > OVERLAP * np.minimum(areas[:i], areas[i])
            taken = {*numbers[:i][covers].tolist()}
            numbers[i] = min({*range(len(taken) + 1)} - taken)
        count = max(numbers, default=0) + 1
        layers += [(picture, [own[i] for i in (numbers == layer).nonzero()[0]]) for layer in range(count)]
    return layers


@formed(16)
def _form(
    width: float, height: float, sizes: tuple[tuple[float, float], ...], ramp: legends.Ramp, colors: Theme
) -> Form:
    x, y = (channel(f"{name}:Q", scale=None, axis=None) for channel, name in ((alt.X, "x"), (alt.Y, "y")))
    pictures = [
        alt.Chart(alt.NamedData("pictures"))
        .transform_filter(f"datum.size === {i}")
        .mark_image(width=wide, height=high, align="left", baseline="top", aspect=False, **interaction.QUIET_MARK)
        .encode(x=x, y=y, url="uri:N")
        for i, (wide, high) in enumerate(sizes)
    ]
    base = alt.Chart(alt.NamedData("cells"), name="cells")
    cells = base.mark_rect(aria=False, cursor="pointer").encode(
        x=x,
        y=y,
        x2="x2:Q",
        y2="y2:Q",
        fill=alt.Fill("fill:N", scale=None),
        fillOpacity=alt.FillOpacity("cover:Q", scale=None),
        stroke=alt.Stroke("stroke:N", scale=None),
        strokeWidth=alt.StrokeWidth("stroke_width:Q", scale=None),
        order=alt.Order("stroke_width:Q"),
        tooltip=interaction.tooltip(TOOLTIP),
    )
    names = alt.Chart(alt.NamedData("cells")).mark_text(
        align="left", baseline="middle", dx=6, dy=CHIP / 2, font=MONO, **interaction.QUIET_MARK
    )
    names = names.encode(x=x, y=y, text="text:N", fill=alt.Fill("ink:N", scale=None))
    ticks = alt.Chart(alt.NamedData("ticks")).mark_text(
        align="center", baseline="top", dy=4, color=colors.quiet, **interaction.QUIET_MARK
    )
    ticks = ticks.encode(x=x, y=y, text="text:N")
    legend = legends.ramp_legend(ramp, {"orient": "bottom", "offset": 10})
    unread = alt.Chart(alt.NamedData("unread"))
    unread = unread.mark_rect(fill=colors.blocked, fillOpacity=UNREAD, **interaction.QUIET_MARK)
    unread = unread.encode(x=x, y=y, x2="x2:Q", y2="y2:Q")
    layers = [legend, *pictures, unread, cells, names, ticks]
    chart = alt.layer(*layers, width=width, height=height, autosize="pad", title=titled(colors), resolve=INDEPENDENT)
    chart.params = interaction.share(["cells"], interaction.clicked("cell", "query", "key", "rev"))
    return Form.of(chart.configure(**config(colors)))


@lru_cache(maxsize=8)
def data_uri(picture: Picture) -> str:
    """A picture as a data URI; nothing else may stand in a file that is drawn."""
    return jpeg_uri(picture.pixels.numpy())


def jpeg_uri(pixels: np.ndarray) -> str:
    """Pixels, (height, width, 3), uint8, as a data URI."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
