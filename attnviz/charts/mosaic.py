"""Many heads at a glance: a thumbnail per head, each one image at its place in one view.

A facet of 144 maps takes a browser seconds, and images at the places of a table a tenth of one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attnviz.analysis import Cells
from attnviz.analysis.views import AttentionView
from attnviz.charts import pixels, signs
from attnviz.charts.domain import NOT_A_NUMBER, Domain, adapted, colored, domain_of
from attnviz.charts.legends import Ramp, entry, heading, ramp_spec, signs_spec, title_spec
from attnviz.charts.marks import (
    APART,
    Form,
    Table,
    as_is,
    click,
    columns,
    field,
    layer,
    pixels_at,
    places,
    tips,
    whole,
)
from attnviz.charts.signs import CellState, blocked_by, your_rules
from attnviz.charts.theme import LINE, Style, Theme
from attnviz.core.amounts import written
from attnviz.core.edits import Site

Head = tuple[Site, int]

MARGIN = 3
"""Pixels around all thumbnails, for the frame of the focused one."""

OWN, OF_MARKED = "weight, as a share of each head's largest", "weight; with a corner mark: as a share of the largest"
"""Titles of a legend of heads whose colors end at their own largest weight: of all heads, or of those with a mark."""

CORNER = "M-1,0L0,0L0,1Z"
"""Mark in the right upper corner of a thumbnail, in a box from -1 to 1."""

TILES = "each square shows the largest of {0} × {0} cells"


class MosaicLayout(NamedTuple):
    """Sizes in pixels: of a thumbnail, of the lines over it, and from the first thumbnail to the end of the last."""

    side: int
    height: int
    above: int
    width: int
    depth: int


class Thumbnail(NamedTuple):
    """A head, the place of its left upper corner in pixels, and the lines over it."""

    head: Head
    x: int
    y: int
    label: str = ""


class Label(NamedTuple):
    """A text "left" of the thumbnail at a place, "above" it, or at its "corner"."""

    x: int
    y: int
    text: str
    where: str


@dataclass(frozen=True, eq=False, kw_only=True)
class Mosaic:
    """Thumbnails of heads under one title and over one legend.

    Attributes:
        lines: what stands under the title; without a title, under the thumbnails.
        views: the weights of each site.
    """

    title: str
    lines: Sequence[str]
    layout: MosaicLayout
    thumbnails: Sequence[Thumbnail]
    labels: Sequence[Label] = ()
    views: Mapping[Site, AttentionView]
    style: Style

    read = None
    """Nothing of it is read under the pointer beside tooltips."""

    @cached_property
    def form(self) -> Form:
        """The chart without its tables."""
        orient = "bottom" if self._lines else ""
        if self.title:
            orient = "top"
        return _form(self.layout, replace(self._ramp, top=0.0), orient, self.style.aside, self.style.colors)

    @cached_property
    def data(self) -> dict[str, Table]:
        """Tables of the chart: meta, heads, labels and legend."""
        style = self.style if self.title else replace(self.style, width=self.layout.width)  # in a column of a page
        title = heading(self.title, self._lines, self.layout.width, style)
        return {
            "meta": title | {"top": [self._ramp.top]},
            "heads": columns(_COLUMNS, [self._row(thumbnail) for thumbnail in self.thumbnails]),
            "labels": columns(Label._fields, [label._asdict() for label in self.labels]),
            "legend": entry(signs.legend(self._states, style.colors)),
        }

    @cached_property
    def cells(self) -> dict[Head, Cells]:
        """The cells of all heads of a site at once, as coarse as a thumbnail shows them: the largest of each tile."""
        cells = {}
        for site, view in self.views.items():
            heads = [head for (other, head), *_ in self.thumbnails if other == site]
            tile = max(1, -(-len(view.queries) // self.layout.height), -(-len(view.keys) // self.layout.side))
            for head, part in zip(heads, view.cells(heads, tile), strict=True):
                cells[site, head] = part
        return cells

    @cached_property
    def largest(self) -> dict[Head, str]:
        """The largest weight of each head, written."""
        weights = {head: cells.weights[~np.isnan(cells.weights)] for head, cells in self.cells.items()}
        return {head: written(float(values.max()), ".4f") if len(values) else "NaN" for head, values in weights.items()}

    @cached_property
    def _domains(self) -> dict[Head, Domain]:
        """The scale of each head; one that adapts does so for each head by itself, as that of its large map."""
        if self.style.domain == "adapts":
            return {head: adapted(cells, self.views[head[0]]) for head, cells in self.cells.items()}
        for (site, _), cells in self.cells.items():
            return dict.fromkeys(self.cells, domain_of(self.style.domain, self.views[site], cells))
        return {}

    @cached_property
    def _ramp(self) -> Ramp:
        """The color legend; of heads with scales of their own it says which these are."""
        domains = {*self._domains.values()} or {Domain()}
        is_gray = bool(self.cells) and all(map(self._is_off, self.cells))
        ramp = next(iter(domains)).legend(self.style.colors, gray=is_gray)
        if len(domains) == 1:
            return ramp
        return replace(ramp, title=OWN if all(domain.kind == "adapts" for domain in domains) else OF_MARKED, top=1.0)

    @property
    def _states(self) -> list[CellState]:
        """States of cells that a legend explains."""
        blocked = any(cells.blocked.any() for cells in self.cells.values())
        states = [CellState("blocked", "blocked", "hatch")] if blocked else []
        nan = any(np.isnan(cells.weights).any() for cells in self.cells.values())
        return [*states, CellState(NOT_A_NUMBER, "blocked", "cross")] if nan else states

    @cached_property
    def _lines(self) -> list[str]:
        """Lines under the title, with a note where a square has several cells."""
        most = max((cells.tile for cells in self.cells.values()), default=1)
        return [*filter(None, self.lines), *([TILES.format(most)] if most > 1 else [])]

    def _is_off(self, head: Head) -> bool:
        return head[1] in self.views[head[0]].step.heads_off

    def _is_focused(self, head: Head) -> bool:
        return self.style.focused in (head[1], head)

    def _row(self, thumbnail: Thumbnail) -> dict[str, object]:
        """The place of a head, its image and what hovering says."""
        (site, number), colors = thumbnail.head, self.style.colors
        off, focused = self._is_off(thumbnail.head), self._is_focused(thumbnail.head)
        domain = self._domains[thumbnail.head]
        ink = colors.quiet if off else colors.text
        return thumbnail._asdict() | {
            "kind": site.kind,
            "layer": site.layer,
            "head": number,
            "rev": self.style.rev,
            "uri": self._uri(thumbnail.head),
            "ink": colors.accent if focused else ink,
            "name": site.head(number),
            "largest": self.largest[thumbnail.head],
            "state": "off: its output is zero" if off else "on",
            "off": off,
            "focused": focused,
            "marked": self._ramp.title == OF_MARKED and domain.kind == "adapts",
        }

    def _uri(self, head: Head) -> str:
        cells, layout = self.cells[head], self.layout
        shade, view = self._domains[head].shade(cells.weights), self.views[head[0]]
        patterns = [state.pattern for state in blocked_by(cells.reasons, your_rules(view.record, view.site))]
        padding = view.padding[:: cells.tile, None]
        states = colored(cells) & ~padding, cells.blocked, np.isnan(cells.weights), patterns
        image = pixels.weights(shade, *states, height=layout.height, width=layout.side)
        colors = self.style.colors
        if self._is_off(head):
            colors = replace(colors, ramp=pixels.gray_ramp(colors))
        return pixels.data_uri(image, pixels.palette(colors))


_COLUMNS = ("x", "y", "label", "kind", "layer", "head", "rev", "uri", "ink", "name", "largest", "state")
_COLUMNS += ("off", "focused", "marked")


def _form(layout: MosaicLayout, ramp: Ramp, orient: str, aside: bool, colors: Theme) -> Form:
    """The chart of a layout; the title and its lines stand where `orient` says, or nowhere."""
    side, height, above, width, depth = layout
    ends = [-MARGIN, width + MARGIN], [depth + MARGIN, -max(MARGIN, above)]
    x, y = (places(0, domain=pair) for pair in ends)
    place, to = {"x": x | {"field": "x"}, "y": y | {"field": "y"}}, {"x2": {"field": "x"}, "y2": {"field": "y"}}
    box = {"x2Offset": side, "yOffset": height, "fill": None}
    frame = box | {"xOffset": -1.5, "x2Offset": side + 1.5, "yOffset": height + 1.5, "y2Offset": -1.5}
    image = {"width": side, "height": height, "align": "left", "baseline": "top", "smooth": False, "aspect": False}
    tooltip = tips(("name", "head"), ("largest", "largest weight"), ("state", "state"))
    corner = {"shape": CORNER, "size": 400, "filled": True, "opacity": 1, "strokeWidth": 1, "xOffset": side}
    inks = {"fill": pixels_at(colors.accent), "stroke": pixels_at(colors.background)}
    over = {"align": "left", "baseline": "top", "dy": 3 - above, "lineBreak": "\n", "lineHeight": LINE}
    beside = {
        "left": {"align": "right", "baseline": "middle", "dx": -8, "dy": height / 2, "color": colors.quiet},
        "above": {"align": "center", "baseline": "bottom", "dx": side / 2, "dy": -5, "color": colors.quiet},
        "corner": {"align": "right", "baseline": "bottom", "dx": -8, "dy": -5},
    }
    where = {"orient": "right" if aside else "bottom", "offset": 14}
    images = layer("heads", "image", place | {"url": field("uri"), "tooltip": tooltip}, cursor="pointer", **image)
    layers = [
        ramp_spec(ramp, where),
        signs_spec(where),
        images | {"name": "heads"},
        layer("heads", "rect", place | to, stroke=colors.line, strokeWidth=1, **box),
        layer("heads", "rule", place | to, where="datum.off", stroke=colors.quiet, strokeWidth=1.5, **box),
        layer("heads", "rect", place | to, where="datum.focused", stroke=colors.accent, strokeWidth=2.5, **frame),
        layer("heads", "point", place | inks, where="datum.marked", **corner),
        layer("heads", "text", place | {"text": field("label"), "fill": as_is("ink")}, **over),
        *(
            layer("labels", "text", place | {"text": field("text")}, where=f"datum.where === '{end}'", **mark)
            for end, mark in beside.items()
        ),
    ]
    chart = {"layer": layers, "width": width + 2 * MARGIN, "height": depth + MARGIN + max(MARGIN, above)}
    title = {"title": title_spec() | {"orient": orient}} if orient else {}
    chart["resolve"] = APART
    chart["params"] = [click("head", ["heads"], "kind", "layer", "head", "rev")]
    return whole(chart | title, colors)
