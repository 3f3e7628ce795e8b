"""A picture whose patches are tinted by their attention from, or to, one position."""

import base64
import io
import math
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from PIL import Image

from attnviz.analysis import Cells, pictured
from attnviz.charts import marks, pixels
from attnviz.charts.marks import Spec, heading, ramp_spec, text_width, title_spec
from attnviz.charts.theme import TEXT_SIZE, TINT, Theme
from attnviz.core.display import in_title, visible_text
from attnviz.core.edits import Site
from attnviz.core.errors import InputError
from attnviz.core.places import Box, Picture
from attnviz.core.record import Record
from attnviz.core.tokens import Sentence
from attnviz.figures.base import Views
from attnviz.figures.text_strip import LOOKS, PLACES, TOOLTIP, TokenWeights, balance_lines, word_layers

SIDE, BETWEEN, LEAST, THIN = 300, 6, 24.0, 8
"""Pixels: longer side of all pictures of a text, gap between them, smallest shorter side of a picture, and width below
which a patch has no frame."""
STRONGEST, UNREAD = 0.75, 0.9
"""Opacity of the strongest tint, and of the gray over strips of a picture that the model did not receive."""
NARROW, OVERLAP = 0.004, 0.1
"""Share of a picture's side below which a strip is not drawn; share of the smaller box above which boxes overlap."""
CHIP, DOT = 24, 6
"""Pixels of the height of a position that is not a patch, and of its dot where there are many."""
MOST_CHIPS, MOST_WORDS = 32, 200
"""Maximum number of special tokens, and of all tokens, beside patches that have labels; if exceeded, they are dots."""
CLS = "[CLS]"
LESS = ("", "sinks")
WITHOUT_SINKS = f"without patches above {pictured.SINK:g} times the median mean weight; the rest in parts of their sum"


def on_grid(record: Record, site: Site) -> bool:
    """Return whether queries or keys of a site are patches of a picture."""
    return any(sentence.has_places for sentence in record.texts(site))


@dataclass(frozen=True)
class Frame:
    """A drawn picture: its box in pixels, its image (None if only patches are drawn), and the boxes of its patches."""

    x: float
    y: float
    width: float
    height: float
    picture: Picture | None
    boxes: tuple[Box, ...] = ()


@dataclass(frozen=True, eq=False)
class PatchImage(TokenWeights):
    """Picture whose patches are tinted by their attention from, or to, one chosen position.

    Attributes:
        less: "sinks" to leave out patches that all rows attend to, see `analysis.pictured.without_sinks`; "" for all.

    The default token is [CLS] if `side` is "from" and the queries begin with [CLS], else the one of the largest weight.

    Raises:
        InputError: if neither the queries nor the keys of the site are patches.
    """

    _: KW_ONLY
    less: str = ""

    kind = "picture-"

    def __post_init__(self):
        if self.less not in LESS or (self.less and self.side != "from"):
            raise InputError(f"less is {self.less!r}; it must be '', or 'sinks' for attention from a token.")
        if not on_grid(self.record, self.site):
            where = f"Neither queries nor keys of {self.site} are patches of a picture"
            raise InputError(f"{where}: use record(places=...).")
        super().__post_init__()
        first_query = self.record.tokens(self.site)[0][0]
        if self.chosen is None and self.side == "from" and first_query.text == CLS:
            object.__setattr__(self, "chosen", 0)

    @property
    def most(self) -> int:
        """Maximum number of tokens that are drawn: all of them."""
        return max(self.record.step(self.site).shape[2:])

    @cached_property
    def _texts(self) -> tuple[Sentence, Sentence]:
        """Sentence of the chosen token, and sentence of the shaded tokens."""
        texts = self.record.texts(self.site, sentence=self.sentence)
        return texts if self.side == "from" else texts[::-1]

    @property
    def _patch_sentence(self) -> Sentence:
        """Sentence that has patches: that of the keys, or else that of the queries."""
        queries, keys = self.record.texts(self.site, sentence=self.sentence)
        return keys if keys.has_places else queries

    @property
    def begin(self) -> str:
        """Beginning of the description, with a gap for "from" or "to"."""
        count = sum(token.box is not None for token in self._patch_sentence.tokens)
        return f"A picture of {count:,} patches, the stronger their tint the more attention {{}} one position."

    @cached_property
    def cells(self) -> Cells:
        """Cells of the chosen token, with NaN for sinks if `less` is "sinks"."""
        cells, positions = super().cells, self.ends[1].starts.tolist()
        if not self.less:
            return cells
        options = {"sentence": self.sentence}
        patches = pictured.patches(self.record, self.site, **options)  # their positions
        patch_weights = pictured.without_sinks(self.record, self.site, self.head, self.position, **options)
        weight_at = dict(zip(positions, cells.weights[0].tolist(), strict=True))
        weight_at |= zip(patches, patch_weights.tolist(), strict=True)
        return replace(cells, weights=np.array([[weight_at[position] for position in positions]]))

    def state(self, i: int) -> str:
        """Describe the state of the cell of one shaded token, also of a sink that is left out."""
        is_set_aside = self.less == "sinks" and np.isnan(self.weights[i])
        return "a sink, set aside" if is_set_aside else super().state(i)

    @property
    def token(self) -> str:
        return in_title(self.ends[0].labels[self.index])

    def _arrays(self) -> dict[str, np.ndarray]:
        """Add boxes, (tokens, 5), to the arrays: index of the picture, left, top, right, bottom; NaN without a box."""
        boxes = [token.box for token in self.ends[1].tokens]
        numbers = [[box.picture, box.left, box.top, box.right, box.bottom] if box else [np.nan] * 5 for box in boxes]
        return super()._arrays() | {"boxes": np.array(numbers, np.float32)}

    @property
    def lines(self) -> list[str]:
        """Lines under the title; the line on the color scale is about patches, not words."""
        less = [WITHOUT_SINKS] if self.less else []
        return [*less, *(line.replace("between words", "of a patch") for line in super().lines)]

    @cached_property
    def _layout(self) -> list[tuple[list[Frame], list[dict], list[dict]]]:
        """Frames, table rows of patches, and table rows of words (all other tokens), for each of two texts.

        The first has the shaded tokens; the second has the chosen token, if it is another text or has pixels.
        """
        has_pixels, layout = bool(self._patch_sentence.pictures), []
        for end in (1,) if self.one_text and not has_pixels else (1, 0):
            tokens, is_shaded, frames = self.ends[end], end == 1, frames_of(self._texts[end])
            frame_of = {box: number for number, frame in enumerate(frames) for box in frame.boxes}
            looks, shade = self.looks(tokens, self.colors, is_shaded=is_shaded), self.scale.ramp().shade(self.weights)
            without_box = [token for token in tokens.tokens if token.box is None]
            num_special = sum(token.special for token in without_box)
            are_dots = bool(frames) and (num_special > MOST_CHIPS or len(without_box) > MOST_WORDS)
            patches, words = [], []
            for i, (token, look) in enumerate(zip(tokens.tokens, looks, strict=True)):
                row = look | {"cover": float(is_shaded or not has_pixels), "end": end}
                is_tinted = is_shaded and has_pixels and self.has_color[i]
                if is_tinted:
                    row.update({"fill": TINT, "ink": self.colors.text, "cover": STRONGEST * float(shade[i])})
                if token.box is None:
                    if is_tinted:  # the words have no fill opacity
                        row["fill"] = pixels.mix_colors(TINT, self.colors.background, row["cover"])
                    text = "" if are_dots else visible_text(tokens.labels[i], 16)
                    words.append(row | {"text": text, "number": ""})
                else:
                    box, number = token.box, frame_of[token.box]
                    row.update({"x": box.left, "x2": box.right, "y": box.top, "y2": box.bottom, "frame": number})
                    if row["stroke_width"] <= 1:  # not emphasized
                        row["stroke_width"] = 0.0 if (box.right - box.left) * frames[number].width < THIN else 0.4
                    patches.append(row)
            size, gap = (DOT, 1.0) if are_dots else (CHIP, 4.0)
            widths = [text_width(word["text"]) + 12 if word["text"] else DOT for word in words]
            places = balance_lines(widths, [gap] * len(words), SIDE)
            for word, (x, line), width in zip(words, places, widths, strict=True):
                top = line * (size + gap)
                word.update({"x": x, "x2": x + width, "y": top, "y2": top + size})
            layout.append((frames, patches, words))
        return layout

    def draw(self) -> Views:
        """Draw the picture of the shaded tokens and that of the chosen token's text, each over its words."""
        layout, views_by_end, names = self._layout, [], []
        colors = (self.colors.background, TINT) if self._patch_sentence.pictures else self.colors.ramp
        tables: dict[str, list[dict]] = {"pictures": [], "unread": []}
        for end, (frames, _, words) in zip((1, 0), layout, strict=False):  # 1: shaded tokens; 0: the other text, if any
            legend = [ramp_spec(self.scale.ramp(), colors, {"orient": "bottom", "offset": 10})] if end else []
            views = [_picture(frame, end, i, self.colors) for i, frame in enumerate(frames)]
            names += [f"cells_{end}_{i}" for i in range(len(frames))]
            if legend and not words:
                views[-1]["layer"] = legend + views[-1]["layer"]
            count = across(len(frames))
            rows = [marks.beside(*views[i : i + count]) for i in range(0, len(views), count)]
            if words:
                names.append(f"words_{end}")
                layers = [*legend, *word_layers("words", TEXT_SIZE, self.colors, names[-1], f"datum.end === {end}")]
                depth = max(word["y2"] for word in words)
                rows.append({"layer": layers, "width": SIDE, "height": depth, "resolve": marks.APART})
            views_by_end.append(marks.below(*rows))
            for number, frame in enumerate(frames):
                place = {"end": end, "frame": number}
                if frame.picture:
                    tables["pictures"].append(place | {"uri": data_uri(frame.picture)})
                    tables["unread"] += [place | strip for strip in unread_of(frame)]
        arrange = marks.beside if self.width is None else marks.below
        chart = marks.below(arrange(*views_by_end), spacing=16)
        params = [marks.click("cell", names, "query", "key", "rev")]
        width = 2 * SIDE if len(layout) > 1 and self.width is None else SIDE
        patches, words = ([row for side in layout for row in side[i]] for i in (1, 2))
        data = {
            "meta": heading(self.heading_text, self.lines, width, self) | {"top": [self.scale.top]},
            "pictures": marks.columns(("end", "frame", "uri"), tables["pictures"]),
            "cells": marks.columns(("end", "frame", *PLACES[:4], "cover", *LOOKS), patches),
            "words": marks.columns(("end", *PLACES, *LOOKS), words),
            "unread": marks.columns(("end", "frame", *PLACES[:4]), tables["unread"]),
        }
        return Views(marks.whole(chart | {"title": title_spec(), "params": params}, self.colors), data)


def unread_of(frame: Frame) -> list[dict[str, float]]:
    """Return the strips at the edges of a picture that no patch covers: the model does not receive them."""
    boxes = np.array([(box.left, box.top, box.right, box.bottom) for box in frame.boxes] or [(0, 0, 1, 1)])
    (left, top), (right, bottom) = boxes[:, :2].min(0).tolist(), boxes[:, 2:].max(0).tolist()
    strips = (0, 0, 1, top), (0, bottom, 1, 1), (0, top, left, bottom), (right, top, 1, bottom)
    wide = [strip for strip in strips if min(strip[2] - strip[0], strip[3] - strip[1]) > NARROW]
    return [dict(zip(("x", "y", "x2", "y2"), strip, strict=True)) for strip in wide]


def across(count: int) -> int:
    """Return the number of pictures per row, for `count` pictures in as many rows as columns."""
    return math.ceil(math.sqrt(max(1, count)))


def frames_of(sentence: Sentence) -> list[Frame]:
    """Lay out the pictures of a sentence in a square grid; without pixels a frame has the shape of its patches."""
    layers = _layers([token.box for token in sentence.tokens if token.box is not None])
    count = across(len(layers))
    side = (SIDE - (count - 1) * BETWEEN) / count
    frames, left, top, bottom = [], 0.0, 0.0, 0.0
    for number, (index, boxes) in enumerate(layers):
        picture = sentence.pictures[index] if sentence.pictures else None
        high, wide = len({box.top for box in boxes}), len({box.left for box in boxes})  # in patches
        small_picture = None
        if picture:
            (high, wide), small_picture = picture.size, picture.small
        factor = side / max(high, wide)
        width, height = max(LEAST, wide * factor), max(LEAST, high * factor)
        if number % count == 0:  # begin a row
            left, top = 0.0, bottom + BETWEEN if number else 0.0
        frames.append(Frame(left, top, width, height, small_picture, tuple(boxes)))
        left, bottom = left + width + BETWEEN, max(bottom, top + height)
    return frames


def _layers(boxes: list[Box]) -> list[tuple[int, list[Box]]]:
    """Group boxes into layers without overlap; return the index of the picture and the boxes of each layer.

    A model that reads a picture as a whole and in tiles has two layers for it.
    """
    layers = []
    for picture in range(max((box.picture for box in boxes), default=-1) + 1):
        own_boxes = [box for box in boxes if box.picture == picture]
        edges = np.array([(box.left, box.top, box.right, box.bottom) for box in own_boxes]).reshape(-1, 4)
        starts, stops = edges[:, :2], edges[:, 2:]
        areas = (stops - starts).prod(1)
        layer_of, may_overlap = np.zeros(len(own_boxes), int), areas.sum() > 1 + OVERLAP
        for i in range(1, len(own_boxes)) if may_overlap else ():
            shared_sides = np.minimum(stops[:i], stops[i]) - np.maximum(starts[:i], starts[i])
            overlaps = shared_sides.clip(0).prod(1) > OVERLAP * np.minimum(areas[:i], areas[i])
            layer_of[i] = min({*range(i + 1)} - {*layer_of[:i][overlaps].tolist()})  # the first layer without overlap
        members = [np.flatnonzero(layer_of == layer) for layer in np.unique(layer_of)]
        layers += [(picture, [own_boxes[i] for i in indices]) for indices in members]
    return layers


def _picture(frame: Frame, end: int, number: int, colors: Theme) -> Spec:
    """Build the view of a frame: patches, with `end` and `number` in their rows, over their picture, if any."""
    where, axis = f"datum.end === {end} && datum.frame === {number}", None
    seconds = frame.picture.seconds if frame.picture else 0.0
    if seconds:  # a picture of sound has a time axis
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
    """Encode a picture as a data URI, the only kind of address allowed in a chart for a file."""
    file = io.BytesIO()
    Image.fromarray(picture.pixels.numpy()).save(file, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(file.getvalue()).decode()
