"""A picture whose patches a model read: the stronger the tint of one, the more attention it gets from one position."""

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from PIL import Image

from attnviz.analysis import pictured
from attnviz.charts import marks, pixels
from attnviz.charts.domain import Domain
from attnviz.charts.legends import Ramp, heading, ramp_spec, text_width, title_spec
from attnviz.charts.marks import Form, Spec, Table
from attnviz.charts.theme import TEXT_SIZE, TINT, Theme
from attnviz.core.display import in_title, visible_text
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.places import Box, Picture
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.figures.base import Views
from attnviz.figures.shade import TOOLTIP, Shade, ShadedFigure
from attnviz.figures.text_strip import LOOKS, PLACES, balanced, word_layers

SIDE, BETWEEN, LEAST = 300, 6, 24.0
"""Pixels of the longer side of a picture, between pictures of one text, and of a shorter side, as of time, at least."""
STRONGEST, UNREAD = 0.75, 0.9
"""How much the strongest tint covers of a patch, and gray of what a model was not given of a picture."""
NARROW, OVERLAP = 0.004, 0.1
"""Part of a picture's side too little to be drawn, and of the smaller of two boxes above which they overlap."""
CHIP, DOT = 24, 6
"""Pixels of the height of a position that is no patch, and of one of many."""
MOST_CHIPS, MOST_WORDS = 32, 200
"""Special positions, and any, beside patches that have names, at most; of more, as in padding, each is a dot."""
THIN = 8
"""Pixels of the width of a patch below which it has no frame."""

CLS = "[CLS]"
LESS = ("", "sinks")
WITHOUT_SINKS = f"without patches above {pictured.SINK:g} times the median mean weight; the rest in parts of their sum"
NO_WEIGHT = "no patch gets weight"


def on_grid(record: Record, site: Site) -> bool:
    """Whether queries or keys of a site stand in a picture."""
    return any(sentence.has_places for sentence in record.texts(site))


@dataclass(frozen=True)
class Frame:
    """Pixels of a drawn picture, and the boxes in it; `picture` is None where its patches alone are drawn."""

    x: float
    y: float
    width: float
    height: float
    picture: Picture | None
    boxes: tuple[Box, ...] = ()

    @property
    def seconds(self) -> float:
        """Time that a spectrogram lasts; of a picture 0."""
        return self.picture.seconds if self.picture else 0.0


@dataclass(frozen=True, eq=False)
class PatchImage(ShadedFigure):
    """The picture, each patch with the more tint the more attention one position gives it, or gets from it.

    Attributes:
        less: "sinks" sets patches aside that always win, see `analysis.pictured.without_sinks`; "" shows the weights.

    Without a chosen token it is [CLS], from which a picture is classified, else that of the largest weight.

    Raises:
        InputError: if neither the queries nor the keys of the site are patches.
    """

    _: KW_ONLY
    less: str = ""

    kind = "picture-"

    def __post_init__(self):
        if self.less not in LESS or (self.less and self.side != "from"):
            raise InputError(f"less is {self.less!r}; it may be 'sinks', of attention from a token.")
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

    @cached_property
    def _texts(self) -> tuple[Sentence, Sentence]:
        """The sentences of the chosen token and of the tokens that are shaded."""
        texts = self.record.texts(self.site, sentence=self.sentence)
        return texts if self.side == "from" else texts[::-1]

    @property
    def _placed(self) -> Sentence:
        """The sentence with pictures: of keys, or else of queries."""
        queries, keys = self.record.texts(self.site, sentence=self.sentence)
        return keys if keys.has_places else queries

    @cached_property
    def _is_patch(self) -> np.ndarray:
        """Which of the tokens that are shaded stand in a picture."""
        return np.array([token.box is not None for token in self.shade.ends[1].tokens], bool)

    @property
    def looks_at_picture(self) -> bool:
        """Whether the tokens that are shaded stand in a picture."""
        return bool(self._is_patch.any())

    @property
    def begin(self) -> str:
        size = f"{sum(token.box is not None for token in self._placed.tokens):,}"
        return f"A picture of {size} patches, the stronger their tint the more attention {{}} one position."

    @cached_property
    def shade(self) -> Shade:
        """The weights of the token, without sinks where that is asked for."""
        shade, named = super().shade, {"sentence": self.sentence}
        if not self.less:
            return shade
        row = int(shade.ends[0].starts[shade.index])
        values = pictured.without_sinks(self.record, self.site, self.head, row, **named)
        places = pictured.patches(self.record, self.site, **named)
        by_place = dict(zip(places, values.tolist(), strict=True))
        starts = zip(shade.ends[1].starts.tolist(), shade.weights.tolist(), strict=True)
        weights = np.array([[by_place.get(start, weight) for start, weight in starts]])
        return replace(shade, cells=replace(shade.cells, weights=weights))

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
        return float(np.nan_to_num(self.shade.weights)[self._is_patch].max(initial=0.0))

    @property
    def token(self) -> str:
        return in_title(self.shade.ends[0].labels[self.shade.index])

    def _arrays(self) -> dict[str, np.ndarray]:
        boxes = [token.box for token in self.shade.ends[1].tokens]
        places = [[box.picture, box.left, box.top, box.right, box.bottom] if box else [np.nan] * 5 for box in boxes]
        return super()._arrays() | {"boxes": np.array(places, np.float32)}

    @property
    def lines(self) -> list[str]:
        less = [WITHOUT_SINKS] if self.less else []
        less += [NO_WEIGHT] if self.looks_at_picture and self._largest <= 0 else []
        return [*less, *super().lines]

    @cached_property
    def _layout(self) -> list[tuple[list[Frame], list[dict], list[dict]]]:
        """Pictures where the position looks, and where it stands, their patches, and the other tokens as words.

        Without pixels nothing is to be seen of the same patches a second time.
        """
        shade, has_pixels = self.shade, bool(self._placed.pictures)
        alone = shade.one_text and not has_pixels
        layout = []
        for end in (1,) if alone else (1, 0):
            part, is_shaded, frames = shade.ends[end], end == 1, frames_of(self._texts[end])
            number_of = {box: i for i, frame in enumerate(frames) for box in frame.boxes}
            looks, bright = self.looks(part, self.colors, is_shaded=is_shaded), self.scale.shade(shade.weights)
            if shade.one_text or not is_shaded:
                looks[shade.index] |= {"stroke": self.colors.accent, "stroke_width": 2.5}
            patches, words, beside = [], [], [token for token in part.tokens if token.box is None]
            is_many = sum(token.special for token in beside) > MOST_CHIPS or len(beside) > MOST_WORDS
            for i, (token, look) in enumerate(zip(part.tokens, looks, strict=True)):
                tinted = is_shaded and has_pixels and shade.colored[i]
                covers = STRONGEST * float(bright[i]) if tinted else float(is_shaded or not has_pixels)
                look = look | {"cover": covers} | ({"fill": TINT, "ink": self.colors.text} if tinted else {})
                if (box := token.box) is None:
                    text = "" if frames and is_many else visible_text(part.labels[i], 16)
                    fill = {"fill": pixels.mixed(TINT, self.colors.background, covers)} if tinted else {}
                    words.append({"text": text, "number": ""} | look | fill)
                    continue
                frame = frames[number_of[box]]
                edge = 0.0 if (box.right - box.left) * frame.width < THIN else 0.4
                width = look["stroke_width"] if look["stroke_width"] > 1 else edge
                ends = {"x": box.left, "x2": box.right, "y": box.top, "y2": box.bottom, "stroke_width": width}
                patches.append(look | ends | {"frame": number_of[box], "end": end})
            size, gap = (DOT, 1.0) if frames and is_many else (CHIP, 4.0)
            widths = [text_width(word["text"]) + 12 if word["text"] else DOT for word in words]
            places = balanced(widths, [gap] * len(words), SIDE)
            for word, (x, line), width in zip(words, places, widths, strict=True):
                top = line * (size + gap)
                word.update({"x": x, "x2": x + width, "y": top, "y2": top + size, "end": end})
            layout.append((frames, patches, words))
        return layout

    def draw(self) -> Views:
        ramp = replace(self.scale.legend(self.colors), top=0.0)
        if self._placed.pictures:
            ramp = replace(ramp, colors=(self.colors.background, TINT))
        sides = [(frames, max((word["y2"] for word in words), default=0.0)) for frames, _, words in self._layout]
        return Views(_form(sides, ramp, self.width is None, self.colors), self._data())

    def _data(self) -> dict[str, Table]:
        frames = [(1 - i, number, frame) for i, side in enumerate(self._layout) for number, frame in enumerate(side[0])]
        pictures = [(end, number, frame) for end, number, frame in frames if frame.picture]
        unread = [
            {"end": end, "frame": number, "x": x, "y": y, "x2": x2, "y2": y2}
            for end, number, frame in pictures
            for x, y, x2, y2 in unread_of(frame)
        ]
        width = 2 * SIDE if len(self._layout) > 1 and self.width is None else SIDE
        images = [{"end": end, "frame": number, "uri": data_uri(frame.picture)} for end, number, frame in pictures]
        return {
            "meta": heading(self._heading, self.lines, width, self) | {"top": [self.scale.top]},
            "pictures": marks.columns(("end", "frame", "uri"), images),
            "cells": marks.columns(("end", "frame", *PLACES[:4], "cover", *LOOKS), self._listed(1)),
            "words": marks.columns(("end", *PLACES, *LOOKS), self._listed(2)),
            "unread": marks.columns(("end", "frame", *PLACES[:4]), unread),
        }

    def _listed(self, part: int) -> list[dict]:
        return [row for side in self._layout for row in side[part]]


def unread_of(frame: Frame) -> list[tuple[float, float, float, float]]:
    """Strips of a picture at which no patch stands: a model is not given them."""
    edges = np.array([(box.left, box.top, box.right, box.bottom) for box in frame.boxes] or [(0, 0, 1, 1)])
    (left, top), (right, bottom) = edges[:, :2].min(0).tolist(), edges[:, 2:].max(0).tolist()
    strips = (0, 0, 1, top), (0, bottom, 1, 1), (0, top, left, bottom), (right, top, 1, bottom)
    return [(x, y, x2, y2) for x, y, x2, y2 in strips if x2 - x > NARROW and y2 - y > NARROW]


def across(count: int) -> int:
    """Pictures in a row, of so many."""
    return math.ceil(math.sqrt(max(1, count)))


def frames_of(sentence: Sentence) -> list[Frame]:
    """The pictures of a sentence side by side, in as many rows; without pixels in the shape of their patches."""
    layers = _layers([token.box for token in sentence.tokens if token.box is not None])
    side = (SIDE - (across(len(layers)) - 1) * BETWEEN) / across(len(layers))
    frames, left, top, below = [], 0.0, 0.0, 0.0
    for number, (index, own) in enumerate(layers):
        high, wide = len({box.top for box in own}), len({box.left for box in own})
        if sentence.pictures:
            high, wide = sentence.pictures[index].size
        factor = side / max(high, wide)
        width, height = max(LEAST, wide * factor), max(LEAST, high * factor)
        if number % across(len(layers)) == 0:
            left, top = 0.0, below + BETWEEN if number else 0.0
        small = sentence.pictures[index].small if sentence.pictures else None
        frames.append(Frame(left, top, width, height, small, tuple(own)))
        left, below = left + width + BETWEEN, max(below, top + height)
    return frames


def _layers(boxes: list[Box]) -> list[tuple[int, list[Box]]]:
    """Boxes of each picture, by its number; those that overlap, as tiles and the whole picture, are drawn apart."""
    layers = []
    for number in range(max((box.picture for box in boxes), default=-1) + 1):
        own = [box for box in boxes if box.picture == number]
        edges = np.array([(box.left, box.top, box.right, box.bottom) for box in own]).reshape(-1, 4)
        areas = (edges[:, 2:] - edges[:, :2]).prod(1)
        numbers = np.zeros(len(own), int)
        for i in range(1, len(own) if areas.sum() > 1 + OVERLAP else 0):
            shared = np.minimum(edges[:i, 2:], edges[i, 2:]) - np.maximum(edges[:i, :2], edges[i, :2])
            covers = shared.clip(0).prod(1) > OVERLAP * np.minimum(areas[:i], areas[i])
            numbers[i] = min({*range(i + 1)} - {*numbers[:i][covers].tolist()})
        layers += [(number, [own[i] for i in np.flatnonzero(numbers == layer)]) for layer in np.unique(numbers)]
    return layers


def _form(sides: Sequence, ramp: Ramp, is_row: bool, colors: Theme) -> Form:
    """Pictures of where a position looks over its words, and beside them, or below, those of where it stands.

    Args:
        sides: pictures of each side, and the height of its words.
    """
    parts, names = [], []
    for end, (frames, depth) in zip((1, 0), sides, strict=False):
        legend = [ramp_spec(ramp, {"orient": "bottom", "offset": 10})] if end else []
        views = [_picture(frame, end, i, colors) for i, frame in enumerate(frames)]
        names += [f"cells_{end}_{i}" for i in range(len(frames))]
        if legend and not depth:
            views[-1]["layer"] = legend + views[-1]["layer"]
        count = across(len(frames))
        rows = [marks.beside(*views[i : i + count]) for i in range(0, len(views), count)]
        if depth:
            names.append(f"words_{end}")
            layers = [*legend, *word_layers("words", TEXT_SIZE, colors, names[-1], f"datum.end === {end}")]
            rows.append({"layer": layers, "width": SIDE, "height": depth, "resolve": marks.APART})
        parts.append(marks.below(*rows))
    chart = marks.below(marks.beside(*parts) if is_row else marks.below(*parts), spacing=16)
    params = [marks.click("cell", names, "query", "key", "rev")]
    return marks.whole(chart | {"title": title_spec(), "params": params}, colors)


def _picture(frame: Frame, end: int, number: int, colors: Theme) -> Spec:
    """A picture, or nothing, under its patches on axes from 0 to 1; a spectrogram has its seconds below it."""
    where, axis, seconds = f"datum.end === {end} && datum.frame === {number}", None, frame.seconds
    if seconds:
        step = next(step for step in (0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 600, 3600) if seconds / step <= 5)
        ticks = [i * step / seconds for i in range(int(seconds / step + 1e-9) + 1)]
        label = f"format(datum.value * {seconds}, '~g') + ' s'"
        axis = {"orient": "bottom", "labelExpr": label, "values": ticks, "title": None}
    x, y = marks.places(1, axis), marks.places(1, reverse=True)
    box, name = marks.box(x, y), {"name": f"cells_{end}_{number}"}
    looks = marks.looks() | {"fillOpacity": marks.as_is("cover", "quantitative"), "tooltip": marks.tips(*TOOLTIP)}
    looks["order"] = {"field": "stroke_width", "type": "quantitative"}
    layers = [
        marks.layer("unread", "rect", box, where=where, fill=colors.blocked, fillOpacity=UNREAD),
        marks.layer("cells", "rect", box | looks, where=where, cursor="pointer") | name,
    ]
    if frame.picture is not None:
        image = {"width": frame.width, "height": frame.height, "align": "left", "baseline": "top", "aspect": False}
        place = {"x": marks.pixels_at(0), "y": marks.pixels_at(0), "url": marks.field("uri")}
        layers.insert(0, marks.layer("pictures", "image", place, where=where, **image))
    return {"layer": layers, "width": frame.width, "height": frame.height, "resolve": marks.APART}


@lru_cache(maxsize=8)
def data_uri(picture: Picture) -> str:
    """A picture as a data URI; nothing else may stand in a file that is drawn."""
    file = io.BytesIO()
    Image.fromarray(picture.pixels.numpy()).save(file, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
