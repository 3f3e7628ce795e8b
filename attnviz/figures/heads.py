"""Thumbnails of the heads of an attention call, or of all heads of a model, by layer or in a given order.

Thumbnails are images in one view, because a browser needs seconds for a facet of 144 maps.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from attnviz.analysis import Cells, sentences, tables, views
from attnviz.analysis.heads import head_metrics
from attnviz.analysis.views import AttentionView
from attnviz.charts import marks, pixels, signs
from attnviz.charts.marks import Ramp, entry, heading, ramp_spec, signs_spec, text_width, title_spec
from attnviz.charts.signs import NOT_A_NUMBER, CellState, Domain, adapted, domain_of
from attnviz.charts.theme import LINE, gray_ramp
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
"""Pixels of the width of all thumbnails of a call: to fit a phone, and to leave room for a map beside them."""

WIDEST, TALLEST = 150, 212
"""Most pixels of a thumbnail if there are one or two: alone, and beside a map, where they stand under each other."""

GAP, LABEL = 14, 20
"""Pixels between thumbnails of a call, and above each for its label."""

WIDTH, HIGH = 980, 480
"""Pixels for all heads of a model: most width, and target height as far as thumbnails do not get below LARGEST."""

LARGE, LARGEST, BANDED, SMALLEST, SPACE = 190, 96, 72, 26, 10
"""Pixels: side of a thumbnail for few heads, for many, for kinds beside each other, and at least; space between two."""

FEW, ORDERED, ACROSS = 4, 170, 8
"""Heads in a given order: most heads that are drawn large, pixels of their side, and small thumbnails per row."""

FIELDS = (
    *("x", "x2", "y", "y2", "uri", "label", "ink", "off", "focused"),
    *("kind", "layer", "head", "rev", "name", "largest", "state"),
)
BESIDE = ("x", "y", "label", "align", "baseline", "ink")
"""Fields of a thumbnail, and of a label beside thumbnails."""

LEFT, ABOVE = 64, 26
"""Pixels left of a row for the label of its layer, and above the layers of a kind for the head numbers."""


class Layout(NamedTuple):
    """Thumbnails of one size in pixels, with `above` pixels for lines of text above each.

    Each thumbnail has its head, its left and upper end, and its text; each label beside the thumbnails has x, y, text,
    align and baseline.
    """

    side: int
    height: int
    above: int
    thumbnails: Sequence[tuple[Head, int, int, str]]
    labels: Sequence[tuple[float, float, str, str, str]] = ()

    @property
    def ends(self) -> tuple[int, int]:
        """Pixels of the right and the lower end of all thumbnails."""
        corners = [(x, y) for _, x, y, _ in self.thumbnails] or [(0, 0)]
        x, y = map(max, zip(*corners, strict=True))
        return x + self.side, y + self.height


def in_rows(heads: Sequence[Head], texts: Sequence[str], across: int, side: int, height: int, above: int) -> Layout:
    """Lay out heads row by row, `across` in each, with their texts above them."""
    x, y = side + GAP, height + above + GAP
    places = ((i % across * x, i // across * y) for i in range(len(heads)))
    thumbnails = [(head, *place, text) for head, place, text in zip(heads, places, texts, strict=True)]
    return Layout(side, height, above, thumbnails)


class Thumbnails(Figure):
    """Thumbnails of heads; a click selects a head under "head" with the fields kind, layer, head and rev.

    Subclasses give the places of the thumbnails as `layout`, the weights of each attention call as `views`, and title
    and lines as `_header`; without a title the lines are below the thumbnails.
    """

    is_map = True

    @cached_property
    def cells(self) -> dict[Head, Cells]:
        """Cells of each head, pooled to the pixels of a thumbnail: the largest weight of each tile."""
        cells, layout = {}, self.layout
        for site, view in self.views.items():
            heads = [head for (other, head), *_ in layout.thumbnails if other == site]
            tile = max(1, -(-len(view.queries) // layout.height), -(-len(view.keys) // layout.side))
            for head, part in zip(heads, view.cells(heads, tile), strict=True):
                cells[site, head] = part
        return cells

    @cached_property
    def largest(self) -> dict[Head, str]:
        """Largest weight of each head, as text."""
        weights = {head: cells.weights[~np.isnan(cells.weights)] for head, cells in self.cells.items()}
        return {head: written(float(values.max()), ".4f") if len(values) else "NaN" for head, values in weights.items()}

    @cached_property
    def _domains(self) -> dict[Head, Domain]:
        """Color domain of each head; if one ends at the head's largest weight, as on its large map, all others do."""
        if self.domain != "adapts":
            for (site, _), cells in self.cells.items():
                return dict.fromkeys(self.cells, domain_of(self.domain, self.views[site], cells))
        domains = {head: adapted(cells, self.views[head[0]]) for head, cells in self.cells.items()}
        if all(domain.kind != "adapts" for domain in domains.values()):
            return domains
        tops = {head: float(np.nan_to_num(cells.weights).max(initial=0.0)) for head, cells in self.cells.items()}
        own = {head: Domain("adapts", top) for head, top in tops.items()}
        return {head: domain if domain.kind == "adapts" else own[head] for head, domain in domains.items()}

    @cached_property
    def _ramp(self) -> Ramp:
        """Color legend, with a title of its own if the colors of each head end at its largest weight."""
        domains = {*self._domains.values()} or {Domain()}
        is_gray = bool(self.cells) and all(head in self.views[site].step.heads_off for site, head in self.cells)
        ramp = next(iter(domains)).legend(self.colors, gray=is_gray)
        return ramp if len(domains) == 1 else replace(ramp, title=OWN, top=1.0)

    def draw(self) -> Views:
        """Draw the heads as images, those switched off in gray and struck through."""
        (title, lines), layout, colors = self._header(), self.layout, self.colors
        most = max((cells.tile for cells in self.cells.values()), default=1)
        tiles = [f"each square shows the largest of {most} × {most} cells"] if most > 1 else []
        lines = [*filter(None, lines), *tiles]
        style = self if title else replace(self, width=layout.ends[0])  # lines below the thumbnails, at most as wide
        sides = (-MARGIN, layout.ends[0] + MARGIN), (-max(MARGIN, layout.above), layout.ends[1] + MARGIN)
        x, y = marks.places(0, domain=[*sides[0]]), marks.places(0, domain=[*sides[1]][::-1])
        box, where = marks.box(x, y), {"orient": "right" if self.aside else "bottom", "offset": 14}
        point = {axis: box[axis] for axis in "xy"}
        strike = box | {"y": y | {"field": "y2"}, "y2": {"field": "y"}}
        text = {"lineBreak": "\n", "lineHeight": LINE}
        beside = {name: {"expr": f"datum.{name}"} for name in ("align", "baseline")}
        label = point | {"text": marks.field("label"), "fill": marks.as_is("ink")}
        tooltip = marks.tips(("name", "head"), ("largest", "largest weight"), ("state", "state"))
        target = marks.layer("heads", "rect", box | {"tooltip": tooltip}, fill="transparent", cursor="pointer")
        frame = {"fill": None, "stroke": colors.accent, "strokeWidth": 2.5}
        layers = [
            ramp_spec(replace(self._ramp, top=0.0), where),
            signs_spec(where),
            marks.layer("heads", "image", box | {"url": marks.field("uri")}, aspect=False, smooth=False),
            marks.layer("heads", "rect", box, fill=None, stroke=colors.line),
            marks.layer("heads", "rule", strike, where="datum.off", color=colors.quiet, strokeWidth=1.5),
            marks.layer("heads", "rect", box, where="datum.focused", **frame),
            marks.layer("heads", "text", label, dy=3 - layout.above, align="left", baseline="top", **text),
            marks.layer("labels", "text", label, **beside),
            target | {"name": "heads"},
        ]
        chart = {
            "layer": layers,
            "width": sides[0][1] - sides[0][0],
            "height": sides[1][1] - sides[1][0],
            "resolve": marks.APART,
            "params": [marks.click("head", ["heads"], "kind", "layer", "head", "rev")],
        }
        if title or lines:
            chart["title"] = title_spec() | {"orient": "top" if title else "bottom"}
        states = {
            CellState("blocked", "blocked", "hatch"): any(cells.blocked.any() for cells in self.cells.values()),
            CellState(NOT_A_NUMBER, "blocked", "cross"): any(np.isnan(c.weights).any() for c in self.cells.values()),
        }
        return Views(
            marks.whole(chart, colors),
            {
                "meta": heading(title, lines, layout.ends[0], style) | {"top": [self._ramp.top]},
                "legend": entry(signs.legend([state for state, occurs in states.items() if occurs], colors)),
                "heads": marks.columns(FIELDS, [*map(self._row, layout.thumbnails)]),
                "labels": marks.columns(
                    BESIDE, [dict(zip(BESIDE, (*part, colors.quiet), strict=True)) for part in layout.labels]
                ),
            },
        )

    def _row(self, thumbnail: tuple[Head, int, int, str]) -> dict[str, Any]:
        """Build the row of a head in the table of the chart."""
        (site, number), x, y, label = thumbnail
        colors, view, side = self.colors, self.views[site], self.layout.side
        off, is_focused = number in view.step.heads_off, self.focused in (number, (site, number))
        domain, cells = self._domains[site, number], self.cells[site, number]
        kinds, states = states_of(cells, view)
        painted, sides = colors, {"height": self.layout.height, "width": side}
        if off:
            painted = replace(colors, ramp=gray_ramp(colors))
        ink = colors.quiet if off else colors.text
        return {
            "x": x,
            "x2": x + side,
            "y": y,
            "y2": y + self.layout.height,
            "uri": pixels.uri(states, kinds, domain.shade(cells.weights), painted, **sides),
            "label": label,
            "ink": colors.accent if is_focused else ink,
            "off": off,
            "focused": is_focused,
            "kind": site.kind,
            "layer": site.layer,
            "head": number,
            "rev": self.rev,
            "name": site.head(number),
            "largest": self.largest[site, number],
            "state": "off: its output is zero" if off else "on",
        }


@dataclass(frozen=True, eq=False)
class AllHeads(Thumbnails, SiteFigure):
    """Thumbnails of all heads of a site; a click selects "head" with the fields kind, layer, head and rev."""

    def facts(self) -> FigureFacts:
        return FigureFacts(
            what=f"All heads · {self.site}",
            subject=(self.site, "heads"),
            table=partial(tables.heads_table, self.attention_view),
            words=self._words,
            arrays=self._arrays,
        )

    def _words(self) -> str:
        return sentences.heads(self.attention_view, [*self.on_page.largest.values()])

    def _arrays(self) -> dict[str, np.ndarray]:
        """Arrays to export, stacked over heads: (heads, queries, keys)."""
        each = [arrays_of(self.attention_view, head) for head in range(self.attention_view.step.num_heads)]
        names = [name for name in ("weights", "scores", "may_attend") if name in each[0]]
        return each[0] | {name: np.stack([arrays[name] for arrays in each]) for name in names}

    @property
    def views(self) -> Mapping[Site, AttentionView]:
        return {self.site: self.attention_view}

    def _header(self) -> tuple[str, list[str]]:
        if self.on_screen:
            return "", [*self.attention_view.notes]
        return self._heading, [*subtitles(self.record, self, self.sentence), *self.attention_view.notes]

    @cached_property
    def layout(self) -> Layout:
        """Grid of thumbnails in the shape of their maps; beside a map, which is high, there are fewer per row."""
        view, is_paired = self.attention_view, self.paired and self.on_screen
        count, off = view.step.num_heads, view.step.heads_off
        across = 1 + sum(count > limit for limit in ((2, 6, 12) if is_paired else (1, 4, 9)))
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
        sentence: number of the sentence in the batch.
    """

    record: Record
    _: KW_ONLY
    order: Sequence[Head] | None = None
    captions: Sequence[str] | None = None
    by: str = ""
    sentence: int = 0

    def facts(self) -> FigureFacts:
        return FigureFacts(what="Every head", subject=("every head",), table=self._table, words=self._words)

    def _table(self) -> pd.DataFrame:
        return head_metrics(self.record, self.sentence).drop(columns="site")

    def _words(self) -> str:
        every = ((step.site, head) for step in self.record.steps for head in range(step.num_heads))
        kinds = Counter(site.kind for site, _ in (every if self.order is None else self.order))
        listed = ", ".join(f"{count} of {kind} attention" for kind, count in kinds.items()) or "none"
        return f"Maps of {kinds.total()} heads: {listed}. Their numbers are in the table."

    @cached_property
    def views(self) -> Mapping[Site, AttentionView]:
        sites = dict.fromkeys(site for (site, _), *_ in self.layout.thumbnails)
        return {site: views.see(self.record, site, sentence=self.sentence) for site in sites}

    def _header(self) -> tuple[str, list[str]]:
        notes = [note for view in [*self.views.values()][:1] for note in view.notes]
        lines = [*subtitles(self.record, self, self.sentence), *notes] if self.views else []
        lines += ([] if self.order is None else ["named by layer.head"]) + ([f"number: {self.by}"] if self.by else [])
        return self._heading, lines

    @cached_property
    def layout(self) -> Layout:
        if self.order is not None:
            are_few, names = len(self.order) <= FEW, [site.brief(head) for site, head in self.order]
            texts = ["\n".join(lines) for lines in zip(names, self.captions, strict=True)] if self.captions else names
            across, side = max(1, min(len(names), 2 if are_few else ACROSS)), ORDERED if are_few else LARGEST
            return in_rows(self.order, texts, across, side, side, (2 if self.captions else 1) * LINE + 3)
        return _layer_layout(self.record)


def _layer_layout(record: Record) -> Layout:
    """Lay out a row for each attention call, with large thumbnails if all fit on a screen.

    Kinds of attention stand beside each other as long as thumbnails keep BANDED pixels, otherwise under each other.
    """
    calls = {site.kind: [step for step in record.steps if step.site.kind == site.kind] for site in record.sites}
    most, kinds = max((step.num_heads for step in record.steps), default=1), [*calls]
    fitting = {n: (WIDTH // n - LEFT) // most - SPACE for n in range(1, len(kinds) + 1)}
    across = max((n for n, side in fitting.items() if side >= BANDED), default=1)
    bands = [kinds[i : i + across] for i in range(0, len(kinds), across)]
    rows = [max(len(calls[kind]) for kind in band) for band in bands]
    tall = (HIGH - ABOVE * len(bands)) // max(1, sum(rows)) - SPACE
    side = max(SMALLEST, min(fitting.get(across, LARGE), LARGE, max(LARGEST, tall)))
    step, thumbnails, labels = side + SPACE, [], []
    for i, band in enumerate(bands):
        for j, kind in enumerate(band):
            x, y = j * (most * step + LEFT), sum(rows[:i]) * step + i * (ABOVE + SPACE)
            labels.append((x - 8, y - 5, kind, "right", "bottom"))
            for head in range(max(call.num_heads for call in calls[kind])):
                name = f"head {head}" if side > text_width("head 00") else str(head)
                labels.append((x + head * step + side / 2, y - 5, name, "center", "bottom"))
            for row, call in enumerate(calls[kind]):
                site, down = call.site, y + row * step
                labels.append((x - 8, down + side / 2, f"layer {site.layer}", "right", "middle"))
                thumbnails += [((site, head), x + head * step, down, "") for head in range(call.num_heads)]
    return Layout(side, side, 0, thumbnails, labels)
