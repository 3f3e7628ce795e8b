"""What stands around a map: title, notes, legend, outlines. All of it is data in pixels, counted from the map's corner.

Because no word and no position stands in the specification, a picture can change what it says without being built anew:
the browser replaces data in place, and nothing flickers or jumps.
"""

import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache, partial

import altair as alt

from attnviz.charts.picture import Form, Table, columns
from attnviz.charts.theme import (
    CHARACTER,
    LINE,
    MONO,
    TITLE_CHARACTER,
    TITLE_LINE,
    TITLE_SIZE,
    WORD_CHARACTER,
    Theme,
    config,
)

NARROWEST = 400
"""Pixels in which titles and legends are broken if the map is narrower."""

RAMP_WIDTH, RAMP_HEIGHT, SWATCH = 160, 10, 18


@dataclass(frozen=True)
class Frame:
    """Things around a map, each a dict of one row; frames are joined with ``+``.

    Attributes:
        titles, words, ticks, sides: x, y, text, color: in bold; set left; centered; centered and turned upright.
        rows, columns, tokens: the same, monospaced: set right; turned upright; set left.
        boxes: x, y, x2, y2, fill, stroke, width; a fill of None is no fill.
        signs: x, y, path, color, width, size: strokes in a box of `size` square pixels.
        images: x, y, uri; each as large as the ramp of a legend.
    """

    titles: tuple[dict, ...] = ()
    words: tuple[dict, ...] = ()
    ticks: tuple[dict, ...] = ()
    sides: tuple[dict, ...] = ()
    rows: tuple[dict, ...] = ()
    columns: tuple[dict, ...] = ()
    tokens: tuple[dict, ...] = ()
    boxes: tuple[dict, ...] = ()
    signs: tuple[dict, ...] = ()
    images: tuple[dict, ...] = ()

    def __add__(self, other: "Frame") -> "Frame":
        return Frame(**{name: mine + getattr(other, name) for name, mine in vars(self).items()})

    def moved(self, right: float, down: float = 0.0) -> "Frame":
        """The same, some pixels to the right and down."""
        by = {"x": right, "x2": right, "y": down, "y2": down}
        return Frame(
            **{
                kind: tuple({k: v + by[k] if k in by else v for k, v in item.items()} for item in items)
                for kind, items in vars(self).items()
            }
        )


KINDS = tuple(part.name for part in fields(Frame))


@lru_cache(maxsize=16_384)
def text_width(text: str, character: float = CHARACTER) -> float:
    """About how wide a text is: wide characters count twice, combining marks not at all."""
    widths = (0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
    return sum(widths) * character


def heading(
    title: str,
    lines: Iterable[str],
    *,
    left: float,
    top: float,
    width: float,
    colors: Theme,
    narrowest: float = NARROWEST,
) -> Frame:
    """A title and lines under it, broken to a width, ending just above `top`. The title begins with a constant word."""
    width = max(width, narrowest)
    titles = in_parts(title, int(width / TITLE_CHARACTER)) if title else []
    below = [part for line in lines if line for part in balanced(line, int(width / WORD_CHARACTER))]
    y = top - len(below) * LINE - len(titles) * TITLE_LINE
    bold = tuple(words(left, y + (i + 0.5) * TITLE_LINE, text, colors.text) for i, text in enumerate(titles))
    y += len(titles) * TITLE_LINE
    quiet = tuple(words(left, y + (i + 0.5) * LINE, text, colors.quiet) for i, text in enumerate(below))
    return Frame(titles=bold, words=quiet)


def without_heading(tables: dict[str, list[dict]]) -> dict[str, list[dict]]:
    """The rows of a frame without its title and the lines under it."""
    titles = tables.get("titles", [])
    if not titles:
        return tables
    last, below = titles[-1], []
    for word in tables.get("words", []):
        y = last["y"] + TITLE_LINE / 2 + (len(below) + 0.5) * LINE
        if word["x"] == last["x"] and abs(word["y"] - y) < 0.01:
            below.append(word)
    return tables | {"titles": [], "words": [word for word in tables.get("words", []) if word not in below]}


def lines(text: str, *, left: float, top: float, width: float, colors: Theme, narrowest: float = NARROWEST) -> Frame:
    """A text broken to a width, beginning at `top`."""
    parts = balanced(text, int(max(width, narrowest) / WORD_CHARACTER)) if text else []
    return Frame(words=tuple(words(left, top + (i + 0.5) * LINE, part, colors.quiet) for i, part in enumerate(parts)))


def in_parts(title: str, longest: int) -> list[str]:
    """A title broken between its parts, which stand apart by " · "; a part that fills a line is broken, too."""
    lines: list[str] = []
    for part in title.split(" · "):
        if lines and len(lines[-1]) + len(part) + 3 <= longest:
            lines[-1] += f" · {part}"
        else:
            lines += balanced(part, longest) or [part]
    return lines


def balanced(text: str, longest: int) -> list[str]:
    """A text broken into as few lines as it needs, none much shorter than the others."""

    def broken(width: int) -> list[str]:  # between words, and not at hyphens: names have them, and are read as one
        return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)

    lines = broken(longest)
    if max(map(len, lines), default=0) > longest:  # a name that fills more than a line
        return [line.replace("/ ", "/") for line in textwrap.wrap(text.replace("/", "/ "), longest)]
    tries = map(broken, range(-(-len(text) // max(1, len(lines))), longest))
    return next((one for one in tries if len(one) == len(lines) and max(map(len, one)) <= longest), lines)


@dataclass(frozen=True)
class Entry:
    """One line of a legend: what a sign on a ground means."""

    text: str
    path: str
    color: str
    width: float
    ground: str


@dataclass(frozen=True)
class Ramp:
    """What the colors of a map mean: a caption, an image of the ramp, and words at places from 0 to 1 along it."""

    caption: str
    uri: str
    ticks: Sequence[tuple[float, str]] = field(default_factory=tuple)


def legend(
    entries: Sequence[Entry],
    ramp: Ramp | None,
    *,
    top: float,
    width: float,
    colors: Theme,
    narrowest: float = NARROWEST,
) -> Frame:
    """A legend in words under a map, beginning at `top`."""
    frame, y, width = Frame(), top, max(width, narrowest)
    if ramp is not None:
        frame += lines(ramp.caption, left=0, top=y, width=width, narrowest=width, colors=colors)
        y += (len(frame.words) - 1) * LINE
        frame += Frame(
            images=({"x": 0, "y": y + LINE + 2, "uri": ramp.uri},),
            boxes=(box(0, y + LINE + 2, RAMP_WIDTH, y + LINE + 2 + RAMP_HEIGHT, stroke=colors.line),),
            ticks=tuple(
                words(place * RAMP_WIDTH, y + LINE + RAMP_HEIGHT + 12, text, colors.text) for place, text in ramp.ticks
            ),
        )
        y += 2 * LINE + RAMP_HEIGHT + 12
    x, high = 0.0, (each := SWATCH + 8)
    for entry in entries:
        said = balanced(entry.text, int((width - SWATCH - 8) / WORD_CHARACTER))
        wide = SWATCH + 8 + max(text_width(line, WORD_CHARACTER) for line in said) + 20
        if x and (x + wide > width or len(said) > 1):
            x, y, high = 0.0, y + high, each
        frame += Frame(
            boxes=(box(x, y, x + SWATCH, y + SWATCH, fill=entry.ground, stroke=colors.line),),
            signs=(sign(x + SWATCH / 2, y + SWATCH / 2, entry.path, entry.color, entry.width, SWATCH),),
            words=tuple(
                words(x + SWATCH + 8, y + SWATCH / 2 + i * LINE, line, colors.text) for i, line in enumerate(said)
            ),
        )
        x, high = x + wide, max(high, each + (len(said) - 1) * LINE)
    return frame


def words(x: float, y: float, text: str, color: str) -> dict:
    return {"x": x, "y": y, "text": text, "color": color}


def box(
    x: float, y: float, x2: float, y2: float, *, fill: str | None = None, stroke: str | None = None, width: float = 1
) -> dict:
    return {"x": x, "y": y, "x2": x2, "y2": y2, "fill": fill, "stroke": stroke, "width": width}


def sign(x: float, y: float, path: str, color: str, width: float, side: float) -> dict:
    return {"x": x, "y": y, "path": path, "color": color, "width": width, "size": side**2}


TEXTS = {
    "titles": {"align": "left", "fontSize": TITLE_SIZE, "fontWeight": 600},
    "words": {"align": "left"},
    "ticks": {"align": "center"},
    "sides": {"align": "center", "angle": 270},
    "rows": {"align": "right", "font": MONO},
    "columns": {"align": "left", "angle": 270, "font": MONO},
    "tokens": {"align": "left", "font": MONO},
}
"""How texts of each kind are set."""

COLUMNS = {
    "images": ("x", "y", "uri"),
    "boxes": ("x", "y", "x2", "y2", "fill", "stroke", "width"),
    "signs": ("x", "y", "path", "color", "width", "size"),
    **dict.fromkeys(TEXTS, ("x", "y", "text", "color")),
}
"""The columns of the table of each kind."""


def tables(frame: Frame, kinds: Sequence[str] = KINDS) -> dict[str, Table]:
    """The data of `layers`."""
    assert not any(rows for kind, rows in vars(frame).items() if kind not in kinds)
    return {kind: columns(COLUMNS[kind], getattr(frame, kind)) for kind in kinds}


def layers(kinds: Sequence[str] = KINDS) -> list[alt.Chart]:
    """Layers that draw any frame, to be put above those of a map; their data are `tables`, by name.

    Args:
        kinds: of what there may be in the frame; each takes the browser time at every change, also without any rows.

    Their places are no channels: where other layers have channels in pixels, Vega-Lite forgets the step of a band.
    """
    plain = {"aria": False, "tooltip": None} | {name: alt.expr(f"datum.{name}") for name in ("x", "y")}
    base = {kind: alt.Chart(alt.NamedData(kind)) for kind in KINDS}
    # Not the channel "color": Vega-Lite cannot share it between a scale (of the cells) and none (of the words).
    fill, stroke = (partial(channel, scale=None) for channel in (alt.Fill, alt.Stroke))
    width = alt.StrokeWidth("width:Q", scale=None)
    text = {"text": alt.Text("text:N"), "fill": fill("color:N")}
    ramp = {"width": RAMP_WIDTH, "height": RAMP_HEIGHT, "align": "left", "baseline": "top", "aspect": False}
    boxes = base["boxes"].mark_rect(x2=alt.expr("datum.x2"), y2=alt.expr("datum.y2"), **plain)
    signs = base["signs"].mark_point(filled=False, opacity=1, **plain)
    shape, size = alt.Shape("path:N", scale=None), alt.Size("size:Q", scale=None)
    drawn = {
        "images": base["images"].mark_image(**ramp, **plain).encode(url=alt.Url("uri:N")),
        "boxes": boxes.encode(fill=fill("fill:N"), stroke=stroke("stroke:N"), strokeWidth=width),
        "signs": signs.encode(shape=shape, size=size, stroke=stroke("color:N"), strokeWidth=width),
    }
    for kind, how in TEXTS.items():
        drawn[kind] = base[kind].mark_text(baseline="middle", **plain, **how).encode(**text)
    return [layer for kind, layer in drawn.items() if kind in kinds]


def pixels() -> tuple[alt.X, alt.Y]:
    """Encodings of places that are given in pixels."""
    return alt.X("x:Q", scale=None, axis=None), alt.Y("y:Q", scale=None, axis=None)


def image(data: str, width: float, height: float, **mark: object) -> alt.Chart:
    """Sharp images of one size, from the fields x, y and uri of a table."""
    x, y = pixels()
    mark |= {"width": width, "height": height, "align": "left", "baseline": "top", "aria": False}
    return (
        alt.Chart(alt.NamedData(data))
        .mark_image(smooth=False, aspect=False, **mark)
        .encode(x=x, y=y, url=alt.Url("uri:N"))
    )


def form(
    drawn: Sequence[alt.Chart],
    width: float,
    height: float,
    colors: Theme,
    *,
    above: Sequence = (),
    kinds: Sequence[str] = KINDS,
) -> Form:
    """Charts with the frame over them, of these kinds of things, and what stands above that."""
    chart = alt.layer(*drawn, *layers(kinds), *above, width=width, height=height, autosize="pad")
    return Form.of(chart.configure(**config(colors)))


def bottom(drawn: Frame) -> float:
    """Where words, boxes and ticks end, in pixels."""
    ends = [box["y2"] for box in drawn.boxes] + [word["y"] + LINE / 2 for word in (*drawn.words, *drawn.ticks)]
    return max(ends, default=0.0)
