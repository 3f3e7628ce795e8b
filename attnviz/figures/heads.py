"""Thumbnails of heads, as images in one view, because a browser needs seconds for a facet of 144 maps."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from attnviz.analysis import Cells, sentences, tables, views
from attnviz.analysis.heads import head_metrics
from attnviz.analysis.views import AttentionView
from attnviz.charts import marks, pixels, signs
from attnviz.charts.marks import Ramp, Spec, Table, heading, legend_table, ramp_spec, signs_spec, text_width, title_spec
from attnviz.charts.signs import NOT_A_NUMBER, CellState, Domain, adaptive_domain, domain_of
from attnviz.charts.theme import LINE, Theme
from attnviz.core.amounts import written
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import Figure, FigureFacts, SiteFigure, Views, subtitles
from attnviz.figures.head import arrays_of, states_of

Head = tuple[Site, int]
MARGIN = 3
"""Pixels around all thumbnails, for the frame of the focused thumbnail."""
OWN = "weight, as a share of each head's largest"
"""Title of the legend if colors end at the largest weight of each head."""
CALL, PAIRED = 336, 296
"""Width in pixels of all thumbnails of a call together: alone (fits a phone), and beside a map."""
WIDEST, TALLEST = 150, 212
"""Maximum width in pixels of a thumbnail of a call with one or two heads: alone, and beside a map."""
GAP, LABEL = 14, 20
"""Pixels between the thumbnails of a call, and above each thumbnail for its label."""
WIDTH, HIGH = 980, 480
"""Pixels for all heads of a model: maximum width; height that is exceeded to keep thumbnails of USUAL_SIDE."""
MAX_SIDE, USUAL_SIDE, MIN_SIDE, SPACE = 190, 96, 26, 10
"""Side of a thumbnail in pixels: at most, usual for many heads, and at least; pixels between two thumbnails."""
FEW, ORDERED, ACROSS = 4, 170, 8
"""Heads in a given order: maximum number of heads drawn large, their side in pixels, small thumbnails per row."""
THUMBNAIL, BESIDE = ("x", "x2", "y", "y2", "uri", "label", "ink", "off", "focused"), ("x", "y", "label", "align", "ink")
SELECTED = ("kind", "layer", "head", "rev")
"""Columns of the tables of thumbnails, and of labels beside them; columns that a click on a head selects."""
LEFT, ABOVE = 64, 26
"""Pixels left of a row for the label of its layer, and above the layers of a kind for the head numbers."""


class Layout(NamedTuple):
    """Places of thumbnails of one size, in pixels.

    Attributes:
        width, height: size of a thumbnail.
        above: height for the text above each thumbnail.
        thumbnails: head, left edge, top edge and text of each thumbnail.
        labels: x, y, text and alignment of each label beside the thumbnails.
    """

    width: int
    height: int
    above: int
    thumbnails: Sequence[tuple[Head, int, int, str]]
    labels: Sequence[tuple[float, float, str, str]] = ()

    @property
    def ends(self) -> tuple[int, int]:
        """Right and bottom edge of all thumbnails."""
        right = max((x for _, x, _, _ in self.thumbnails), default=0) + self.width
        return right, max((y for _, _, y, _ in self.thumbnails), default=0) + self.height


def in_rows(heads: Sequence[Head], texts: Sequence[str], across: int, width: int, height: int, above: int) -> Layout:
    """Lay out heads in rows of `across` thumbnails, with their texts above them."""
    across_step, down_step = width + GAP, height + above + GAP
    thumbnails = [
        (head, i % across * across_step, i // across * down_step, text)
        for i, (head, text) in enumerate(zip(heads, texts, strict=True))
    ]
    return Layout(width, height, above, thumbnails)


def thumbnail_chart(
    table: str,
    ends: tuple[float, float],
    colors: Theme,
    click: Spec,
    tips: list[Spec],
    *,
    above: int = 0,
    **target: Spec,
) -> Spec:
    """Build a chart of images, from a table and from the table "labels" of texts beside the images.

    Args:
        ends: pixels of the right and the lower end of all images.
        click, tips: selection by a click on an image, and its tooltip.
        above: pixels above an image for its text.
        target: channels x, x2, y or y2 of the area of an image that can be clicked, if they are not those of the image.
    """
    left, right, top, bottom = -MARGIN, ends[0] + MARGIN, -max(MARGIN, above), ends[1] + MARGIN
    x, y = marks.places(0, domain=[left, right]), marks.places(0, domain=[bottom, top])
    box, has_image = marks.box(x, y), "isValid(datum.uri)"
    strike = box | {"y": y | {"field": "y2"}, "y2": {"field": "y"}}  # a diagonal of the image
    label = {"x": box["x"], "y": box["y"], "text": marks.field("label"), "fill": marks.as_is("ink")}
    frame = {"fill": None, "stroke": colors.accent, "strokeWidth": 2.5}
    lines = {"lineBreak": "\n", "lineHeight": LINE, "align": "left", "baseline": "top"}
    layers = [
        marks.layer(table, "image", box | {"url": marks.field("uri")}, where=has_image, aspect=False, smooth=False),
        marks.layer(table, "rect", box, where=has_image, fill=None, stroke=colors.line),
        marks.layer(table, "rule", strike, where="datum.off", color=colors.quiet, strokeWidth=1.5),
        marks.layer(table, "rect", box, where="datum.focused", **frame),
        marks.layer(table, "text", label, dy=3 - above, **lines),
        marks.layer("labels", "text", label, align={"expr": "datum.align"}, baseline="middle"),
        marks.layer(table, "rect", box | target | {"tooltip": tips}, fill="transparent", cursor="pointer")
        | {"name": table},
    ]
    size = {"width": right - left, "height": bottom - top}
    return {"layer": layers, **size, "resolve": marks.APART, "params": [click]}


def thumbnail_tables(table: str, rows: Sequence[dict], labels: Sequence[tuple], *fields: str) -> dict[str, Table]:
    """Build the tables of `thumbnail_chart`: `table`, a row per image with further columns `fields`, and "labels"."""
    label_rows = [dict(zip(BESIDE, label, strict=True)) for label in labels]
    return {table: marks.columns((*THUMBNAIL, *fields), rows), "labels": marks.columns(BESIDE, label_rows)}


class Thumbnails(Figure):
    """Thumbnails of heads; a click selects a head under "head" with the fields kind, layer, head and rev.

    Subclasses define `layout`, the positions of the thumbnails; `views`, a view of each attention call; and `_header`,
    which returns title and lines. Without a title, the lines are below the thumbnails.
    """

    @cached_property
    def cells(self) -> dict[Head, Cells]:
        """Cells of each head, pooled to the pixels of a thumbnail: the largest weight of each tile."""
        cells_by_head, layout = {}, self.layout
        for site, view in self.views.items():
            heads = [head for head, *_ in layout.thumbnails if head[0] == site]
            tile = max(math.ceil(len(view.queries) / layout.height), math.ceil(len(view.keys) / layout.width), 1)
            cells_by_head |= zip(heads, view.cells([number for _, number in heads], tile), strict=True)
        return cells_by_head

    @cached_property
    def largest(self) -> dict[Head, str]:
        """Largest weight of each head, as text; in linear attention, the weight farthest from 0."""
        texts = {}
        for (site, number), cells in self.cells.items():
            weights = cells.weights[~np.isnan(cells.weights)]
            sizes = np.abs(weights) if self.views[site].step.linear else weights
            texts[site, number] = written(float(weights[sizes.argmax()]), ".4f") if len(weights) else "NaN"
        return texts

    @cached_property
    def _ramps(self) -> dict[Head, Ramp]:
        """Color scale of each head; if one ends at the head's largest weight, as on its large map, all others do.

        Weights of both signs, as in linear attention, have one diverging scale.
        """
        steps = {(site, number): self.views[site].step for site, number in self.cells}
        signed = [head for head, cells in self.cells.items() if steps[head].linear or (cells.weights < 0).any()]
        limit = marks.limit_of(*(self.cells[head].weights for head in signed)) or 1.0
        diverging = {head: Ramp(steps[head].weight_name, limit, signed=True) for head in signed}
        heads, domains = [head for head in self.cells if head not in diverging], {}
        if self.domain == "adapts":
            domains = {head: adaptive_domain(self.cells[head], self.views[head[0]]) for head in heads}
        elif heads:  # one scale for all
            domain = domain_of(self.domain, self.views[heads[0][0]], self.cells[heads[0]])
            domains = dict.fromkeys(heads, domain)
        if any(domain.kind == "adapts" for domain in domains.values()):
            for head, domain in domains.items():
                if domain.kind != "adapts":
                    largest = float(np.nan_to_num(self.cells[head].weights).max(initial=0.0))
                    domains[head] = Domain("adapts", largest)
        ramps = {head: domain.ramp(gray=head[1] in steps[head].heads_off) for head, domain in domains.items()}
        return ramps | diverging

    @cached_property
    def _legends(self) -> list[Ramp]:
        """Color legends: one of weights from 0 on, and one of weights of both signs, or only one of these."""
        signed = [ramp for ramp in self._ramps.values() if ramp.signed]
        others = [ramp for ramp in self._ramps.values() if not ramp.signed]
        if not others and signed:
            return signed[:1]
        legend = min(others, key=lambda ramp: ramp.gray, default=Domain().ramp())  # gray only if all heads are off
        if len({ramp.top for ramp in others}) > 1:  # the colors of each head end at its largest weight
            legend = replace(legend, title=OWN, top=1.0)
        return [legend, *signed[:1]]

    def draw(self) -> Views:
        """Draw the heads as images, those switched off in gray and struck through."""
        title, lines = self._header()
        layout, colors = self.layout, self.colors
        tile = max((cells.tile for cells in self.cells.values()), default=1)
        tiles = [f"each square shows the largest of {tile} × {tile} cells"] if tile > 1 else []
        lines = [*filter(None, lines), *tiles]
        style = self if title else replace(self, width=layout.ends[0])  # lines below the thumbnails, at most as wide
        where = {"orient": "right" if self.aside else "bottom", "offset": 14}
        click = marks.click("head", ["heads"], *SELECTED)
        tips = marks.tips(("name", "head"), ("largest", "largest weight"), ("state", "state"))
        chart = thumbnail_chart("heads", layout.ends, colors, click, tips, above=layout.above)
        legends = dict(zip(("meta", "signed"), self._legends, strict=False))
        ramps = [ramp_spec(ramp, ramp.colors(colors), where, name) for name, ramp in legends.items()]
        chart["layer"] = [*ramps, signs_spec(where), *chart["layer"]]
        if title or lines:
            chart["title"] = title_spec() | {"orient": "top" if title else "bottom"}
        states = {
            CellState("blocked", "blocked", "hatch"): any(cells.blocked.any() for cells in self.cells.values()),
            CellState(NOT_A_NUMBER, "blocked", "cross"): any(np.isnan(c.weights).any() for c in self.cells.values()),
        }
        rows, labels = [*map(self._row, layout.thumbnails)], [(*label, colors.quiet) for label in layout.labels]
        return Views(
            marks.whole(chart, colors),
            {
                **{name: {"top": [ramp.top]} for name, ramp in legends.items()},
                "meta": heading(title, lines, layout.ends[0], style) | {"top": [legends["meta"].top]},
                "legend": legend_table(signs.legend([state for state, occurs in states.items() if occurs], colors)),
                **thumbnail_tables("heads", rows, labels, *SELECTED, "name", "largest", "state"),
            },
        )

    def _row(self, thumbnail: tuple[Head, int, int, str]) -> dict[str, Any]:
        """Build the row of a head in the table of the chart."""
        (site, number), x, y, label = thumbnail
        colors, view, width, height = self.colors, self.views[site], self.layout.width, self.layout.height
        is_off, is_focused = number in view.step.heads_off, self.focused in (number, (site, number))
        ramp, cells = self._ramps[site, number], self.cells[site, number]
        kinds, states = states_of(cells, view)
        theme = replace(colors, ramp=ramp.colors(colors))
        ink = colors.quiet if is_off else colors.text
        return {
            "x": x,
            "x2": x + width,
            "y": y,
            "y2": y + height,
            "uri": pixels.uri(states, kinds, ramp.shade(cells.weights), theme, height=height, width=width),
            "label": label,
            "ink": colors.accent if is_focused else ink,
            "off": is_off,
            "focused": is_focused,
            "kind": site.kind,
            "layer": site.layer,
            "head": number,
            "rev": self.rev,
            "name": site.head(number),
            "largest": self.largest[site, number],
            "state": "off: its output is zero" if is_off else "on",
        }


@dataclass(frozen=True, eq=False)
class AllHeads(SiteFigure, Thumbnails):
    """Thumbnails of all heads of a site; a click selects "head" with the fields kind, layer, head and rev."""

    @property
    def facts(self) -> FigureFacts:
        table = partial(tables.heads_table, self.attention_view)
        facts = {"table": table, "words": self._words, "arrays": self._arrays}
        return FigureFacts(what=f"All heads · {self.site}", subject=(self.site, "heads"), explains_rows=True, **facts)

    def _words(self) -> str:
        return sentences.heads(self.attention_view, [*self.on_page.largest.values()])

    def _arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays to export, stacked over heads: (heads, queries, keys)."""
        by_head = [arrays_of(self.attention_view, head) for head in range(self.attention_view.step.num_heads)]
        names = [name for name in ("weights", "scores", "may_attend") if name in by_head[0]]
        return by_head[0] | {name: np.stack([arrays[name] for arrays in by_head]) for name in names}

    @property
    def views(self) -> Mapping[Site, AttentionView]:
        return {self.site: self.attention_view}

    def _header(self) -> tuple[str, list[str]]:
        """Return title and lines; on a page, which has the others elsewhere, only the notes on the view."""
        view = self.attention_view
        if self.on_screen:
            return "", [*view.notes]
        return self.heading_text, [*subtitles(self.record, self, self.sentence), *view.rule, *view.notes]

    @cached_property
    def layout(self) -> Layout:
        """Grid of thumbnails with the aspect ratio of their maps; beside a large map, there are fewer per row."""
        view, is_paired = self.attention_view, self.paired and self.on_screen
        count, off = view.step.num_heads, view.step.heads_off
        limits = (2, 6, 12) if is_paired else (1, 4, 9)  # maximum numbers of heads with 1, 2 and 3 thumbnails per row
        across = 1 + sum(count > limit for limit in limits)
        side = ((PAIRED if is_paired else CALL) - GAP * (across - 1)) // across
        if count <= 2:
            side = min(side, TALLEST if is_paired else WIDEST)
        height = round(side * max(0.25, min(2.0, len(view.queries) / max(1, len(view.keys)))))
        labels = [f"head {i}{' · off' if i in off else ''}" for i in range(count)]
        if self.on_screen:  # the page says elsewhere which heads are off
            labels = [f"head {i}" if side > text_width("head 00") else str(i) for i in range(count)]
        return in_rows([(self.site, i) for i in range(count)], labels, across, side, height, LABEL)


@dataclass(frozen=True, eq=False)
class ModelHeads(Thumbnails):
    """Thumbnails of all heads of a model; a click selects "head" with the fields kind, layer, head and rev.

    Attributes:
        order: heads to show, in this order; None for all heads, a row for each layer.
        captions: short text for each head of `order`, such as the number by which they are sorted.
        by: meaning of the captions.
    """

    record: Record = field()
    _: KW_ONLY
    order: Sequence[Head] | None = None
    captions: Sequence[str] | None = None
    by: str = ""

    @property
    def facts(self) -> FigureFacts:
        facts = {"subject": ("every head",), "table": self._table, "words": self._words}
        return FigureFacts(what="Every head", explains_rows=True, **facts)

    def _table(self) -> pd.DataFrame:
        return head_metrics(self.record, self.sentence).drop(columns="site")

    def _words(self) -> str:
        heads = ((step.site, head) for step in self.record.steps for head in range(step.num_heads))
        kinds = Counter(site.kind for site, _ in (heads if self.order is None else self.order))
        listed = ", ".join(f"{count} of {kind} attention" for kind, count in kinds.items()) or "none"
        return f"Maps of {kinds.total()} heads: {listed}. Their numbers are in the table."

    @cached_property
    def views(self) -> Mapping[Site, AttentionView]:
        sites = dict.fromkeys(site for (site, _), *_ in self.layout.thumbnails)
        return {site: views.see(self.record, site, sentence=self.sentence) for site in sites}

    def _header(self) -> tuple[str, list[str]]:
        """Return title and lines; the notes on the view are the same for all attention calls."""
        views, lines = [*self.views.values()], []
        if views:
            rules = dict.fromkeys(line for view in views for line in view.rule)
            lines = [*subtitles(self.record, self, self.sentence), *rules, *views[0].notes]
        if self.order is not None:
            lines.append("named by layer.head")
        return self.heading_text, [*lines, f"number: {self.by}" if self.by else ""]

    @cached_property
    def layout(self) -> Layout:
        """Rows of the heads of `order`, with their captions; without `order`, a row of heads for each layer."""
        if self.order is None:
            return _layer_layout(self.record)
        texts, above = [site.brief(head) for site, head in self.order], LINE + 3
        if self.captions:
            texts = [f"{name}\n{caption}" for name, caption in zip(texts, self.captions, strict=True)]
            above += LINE
        across, side = (2, ORDERED) if len(texts) <= FEW else (ACROSS, USUAL_SIDE)
        return in_rows(self.order, texts, max(1, min(len(texts), across)), side, side, above)


def _layer_layout(record: Record) -> Layout:
    """Lay out a row of heads for each attention call, kind by kind, with larger thumbnails if all fit on a screen."""
    steps, kinds = record.steps, [*dict.fromkeys(step.site.kind for step in record.steps)]
    most = max((step.num_heads for step in steps), default=1)
    side_that_fits = (HIGH - ABOVE * len(kinds)) // max(1, len(steps)) - SPACE
    side = max(MIN_SIDE, min((WIDTH - LEFT) // most - SPACE, MAX_SIDE, max(USUAL_SIDE, side_that_fits)))
    pitch, y, thumbnails, labels = side + SPACE, 0, [], []
    for kind in kinds:
        calls = [call for call in steps if call.site.kind == kind]
        labels.append((-8, y - 11, kind, "right"))
        for head in range(max(call.num_heads for call in calls)):
            name = f"head {head}" if side > text_width("head 00") else str(head)
            labels.append((head * pitch + side / 2, y - 11, name, "center"))
        for call in calls:
            labels.append((-8, y + side / 2, f"layer {call.site.layer}", "right"))
            thumbnails += [((call.site, head), head * pitch, y, "") for head in range(call.num_heads)]
            y += pitch
        y += ABOVE
    return Layout(side, side, 0, thumbnails, labels)
