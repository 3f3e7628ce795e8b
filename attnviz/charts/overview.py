"""Every head of a model at a glance: a thumbnail each, by layer, or in an order of one's own."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import altair as alt
import numpy as np

from attnviz import views
from attnviz.charts import frame, hatch, maps, pixels
from attnviz.charts.frame import Frame, box, sign, words
from attnviz.charts.heatmap import Domain, colored, domain_of, subtitles_of
from attnviz.charts.maps import number
from attnviz.charts.picture import Form, Picture
from attnviz.charts.theme import LINE, Theme, config, theme
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.metrics import Cells
from attnviz.views import Seen

Head = tuple[Site, int]

WIDTH = 980
"""Pixels of the whole mosaic at most, where thumbnails of `SMALLEST` allow that."""

LARGEST, SMALLEST, GAP = 96, 26, 10
"""Pixels: sides of a thumbnail, and between two."""

LEFT, LABEL, KIND = 64, 18, 26
"""Pixels: left of a row of heads for its layer, above a thumbnail for its name, above the layers of a kind."""


def picture(
    record: Record,
    *,
    order: Sequence[Head] | None = None,
    captions: Sequence[str] | None = None,
    sentence: int = 0,
    dark: bool = False,
    focused: Head | None = None,
    rev: int = 0,
    edits: bool = True,
) -> Picture:
    """Draw a thumbnail of every head; a click selects one under "head" with the fields kind, layer, head and rev.

    Args:
        order: which heads, and in which order; None for all, a row for each layer.
        captions: a few characters about each head of `order`, such as a number by which they are sorted.
        focused: the head that is framed.
        rev: a counter to raise after each click, so that the same head can be clicked again.
        edits: whether the picture says what was changed.
    """
    colors = theme(dark)
    plan = _by_layer(record) if order is None else _in_order(record, tuple(order), tuple(captions or ()))
    seen = {site: views.see(record, site, sentence=sentence) for site in {place.site for place in plan.places}}
    scale = domain_of("fixed", next(iter(seen.values()))) if seen else None
    found = _cells(seen, plan)
    thumbnails, around = [], plan.around(colors)
    for place in plan.places:
        off = place.head in record.step(place.site).heads_off
        cells = found[place.site, place.head]
        thumbnails.append(_thumbnail(place, cells, scale, plan.side, off=off, rev=rev, colors=colors))
        around += _outline(place, plan.side, off=off, focused=(place.site, place.head) == focused, colors=colors)
    lines = [*subtitles_of(record, edits=edits), *next(iter(seen.values())).notes] if seen else []
    around += frame.heading(title_of(record), lines, left=0, top=-8, width=plan.width, colors=colors)
    if scale is not None:
        ramp = frame.Ramp(scale.caption, pixels.ramp_uri(colors), scale.ticks)
        around += frame.legend([], ramp, top=plan.bottom + 14, width=plan.width, colors=colors)
    table = {name: [thumbnail[name] for thumbnail in thumbnails] for name in _COLUMNS}
    return Picture(_form(plan.side, plan.width, plan.bottom, colors), {"heads": table} | frame.tables(around))


def title_of(record: Record) -> str:
    """What is drawn, beginning with constant words."""
    return f"Every head · {in_title(record.source)}"


# Where each head stands


@dataclass(frozen=True)
class _Place:
    site: Site
    head: int
    x: float
    y: float


@dataclass(frozen=True)
class _Plan:
    """The places of the heads, and the words beside them: x, y, text, and whether it is quiet."""

    places: tuple[_Place, ...]
    said: tuple[tuple[float, float, str, bool], ...]
    side: int
    width: float
    bottom: float

    def around(self, colors: Theme) -> Frame:
        return Frame(
            words=tuple(words(x, y, text, colors.quiet if quiet else colors.text) for x, y, text, quiet in self.said)
        )


def _side(columns: int, width: float) -> int:
    return max(SMALLEST, min(LARGEST, int((width + GAP) / max(1, columns)) - GAP))


def _by_layer(record: Record) -> _Plan:
    """A row for each attention call, the kinds one below the other, the numbers of the heads above each kind."""
    most = max((step.num_heads for step in record.steps), default=1)
    side, y, places, said = _side(most, WIDTH - LEFT), 0.0, [], []
    kinds = list(dict.fromkeys(step.site.kind for step in record.steps))
    for kind in kinds:
        said.append((0, y + KIND / 2, kind, False))
        steps = [step for step in record.steps if step.site.kind == kind]
        heads = max(step.num_heads for step in steps)
        said += [(LEFT + head * (side + GAP) + side / 2 - 4, y + KIND / 2, str(head), True) for head in range(heads)]
        y += KIND
        for step in steps:
            said.append((0, y + side / 2, f"layer {step.site.layer}", True))
            places += [_Place(step.site, head, LEFT + head * (side + GAP), y) for head in range(step.num_heads)]
            y += side + GAP
        y += GAP / 2
    return _Plan(tuple(places), tuple(said), side, LEFT + most * (side + GAP) - GAP, y)


def _in_order(record: Record, order: tuple[Head, ...], captions: tuple[str, ...]) -> _Plan:
    """Row after row, the name and the caption of each head above it."""
    columns = max(1, min(len(order), WIDTH // (LARGEST + GAP)))
    side, above = LARGEST, LABEL + (LINE if captions else 0)
    places, said = [], []
    for number_, (site, head) in enumerate(order):
        x, y = number_ % columns * (side + GAP), number_ // columns * (side + GAP + above)
        said.append((x, y + LABEL / 2, f"{site.kind} {site.layer}.{head}", True))
        if captions:
            said.append((x, y + LABEL + LINE / 2 - 3, captions[number_], False))
        places.append(_Place(site, head, x, y + above))
    rows = -(-len(order) // columns)
    return _Plan(tuple(places), tuple(said), side, columns * (side + GAP) - GAP, rows * (side + GAP + above))


# What stands there


def _cells(seen: dict[Site, Seen], plan: _Plan) -> dict[Head, Cells]:
    """The cells of all heads of a site at once, as coarse as a thumbnail shows them: the largest of each tile."""
    found = {}
    for site, one in seen.items():
        heads = [place.head for place in plan.places if place.site == site]
        tile = max(1, -(-max(len(one.queries), len(one.keys)) // plan.side))
        found |= {(site, head): cells for head, cells in zip(heads, one.cells(heads, tile), strict=True)}
    return found


_COLUMNS = ("x", "y", "kind", "layer", "head", "rev", "uri", "name", "largest", "state")


def _thumbnail(
    place: _Place, found: Cells, scale: Domain, side: int, *, off: bool, rev: int, colors: Theme
) -> dict[str, object]:
    nan = np.isnan(found.weights)
    image = pixels.paint(scale.shade(found.weights), colored(found), found.blocked, nan, height=side, width=side)
    most = found.weights[~nan]
    return {
        "x": place.x,
        "y": place.y,
        "kind": place.site.kind,
        "layer": place.site.layer,
        "head": place.head,
        "rev": rev,
        "uri": pixels.data_uri(image, pixels.palette(colors, gray=off)),
        "name": f"{place.site} head {place.head}",
        "largest": number(float(most.max()), ".4f") if len(most) else "NaN",
        "state": "off: its output is zero" if off else "on",
    }


def _outline(place: _Place, side: int, *, off: bool, focused: bool, colors: Theme) -> Frame:
    """A line around a thumbnail; one that is off is struck through, the chosen one framed."""
    x, y = place.x, place.y
    drawn = Frame(boxes=(box(x, y, x + side, y + side, stroke=colors.line),))
    if off:
        drawn += Frame(signs=(sign(x + side / 2, y + side / 2, hatch.STRUCK, colors.quiet, 1.5, side),))
    if focused:
        drawn += Frame(boxes=(box(x - 2.5, y - 2.5, x + side + 2.5, y + side + 2.5, stroke=colors.accent, width=2.5),))
    return drawn


@lru_cache(maxsize=64)
def _form(side: float, width: float, bottom: float, colors: Theme) -> Form:
    x, y = frame.pixels()
    fields = {"name": "head", "largest": "largest weight", "state": "state"}
    mark = {"width": side, "height": side, "align": "left", "baseline": "top", "cursor": "pointer", "aria": False}
    images = (
        alt.Chart(alt.NamedData("heads"))
        .mark_image(smooth=False, aspect=False, **mark)
        .encode(x=x, y=y, url="uri:N", tooltip=maps.tooltip(fields))
        .add_params(maps.clicked("head", "kind", "layer", "head", "rev"))
    )
    chart = alt.layer(images, *frame.layers(), width=width, height=bottom, autosize="pad")
    return Form.of(chart.configure(**config(colors)))
