"""Thumbnails of the heads of an attention call, or of all heads of a model, by layer or in a given order.

Thumbnails are images in one view, because a browser needs seconds for a facet of 144 maps.
"""

from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from attnviz.analysis import Cells, sentences, tables, views
from attnviz.analysis.heads import head_metrics
from attnviz.analysis.views import AttentionView
from attnviz.charts import pixels, signs
from attnviz.charts.collage import Collage
from attnviz.charts.domain import NOT_A_NUMBER, Domain, adapted, domain_of
from attnviz.charts.legends import Ramp, entry, heading, ramp_spec, signs_spec, text_width, title_spec
from attnviz.charts.signs import CellState
from attnviz.charts.theme import LINE
from attnviz.core.amounts import written
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.base import Figure, FigureFacts, SiteFigure, Views, subtitles
from attnviz.figures.head import arrays_of, states_of

Head = tuple[Site, int]

MARGIN = 3
"""Pixels around all thumbnails, for the frame of the focused thumbnail."""

OWN, OF_MARKED = "weight, as a share of each head's largest", "weight; with a corner mark: as a share of the largest"
"""Titles of the legend if colors end at the largest weight of each head: for all heads, or only for marked heads."""

CORNER = 14
"""Pixels of the mark in the upper right corner of a thumbnail."""

CALL, PAIRED = 336, 296
"""Pixels of the width of all thumbnails of a call: to fit a phone, and to leave room for a map beside them."""

WIDEST, TALLEST = 150, 212
"""Most pixels of a thumbnail if there are one or two: alone, and beside a map, where they stand under each other."""

GAP, LABEL = 14, 20
"""Pixels between thumbnails of a call, and above each for its label."""

WIDTH, FULL, FLAT = 980, 1360, 320
"""Pixels for all heads of a model: most width by default, and on a full screen; most height on a full screen."""

HIGH = 480
"""Target height of all heads in pixels, as far as thumbnails do not get smaller than LARGEST."""

LARGE, LARGEST, BANDED, SMALLEST, SPACE = 190, 96, 72, 26, 10
"""Pixels: side of a thumbnail for few heads, for many, for kinds beside each other, and at least; space between two."""

FEW, ORDERED, ACROSS = 4, 170, 8
"""Heads in a given order: most heads that are drawn large, pixels of their side, and small thumbnails per row."""

LEFT, ABOVE = 64, 26
"""Pixels left of a row for the label of its layer, and above the layers of a kind for the head numbers."""


class Thumbnail(NamedTuple):
    """A head, the upper left corner of its thumbnail in pixels, and the lines of text above."""

    head: Head
    x: int
    y: int
    label: str = ""


class Layout(NamedTuple):
    """Thumbnails of one size, with `above` pixels for lines of text above each.

    Each label beside the thumbnails has x, y, text, align and baseline.
    """

    side: int
    height: int
    above: int
    thumbnails: Sequence[Thumbnail]
    labels: Sequence[tuple[float, float, str, str, str]] = ()

    @property
    def ends(self) -> tuple[int, int]:
        """Pixels of the right and the lower end of all thumbnails."""
        corners = [(thumbnail.x, thumbnail.y) for thumbnail in self.thumbnails] or [(0, 0)]
        x, y = map(max, zip(*corners, strict=True))
        return x + self.side, y + self.height


class Thumbnails(Figure):
    """Thumbnails of heads; a click selects a head under "head" with the fields kind, layer, head and rev."""

    is_map = True

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """Places of the thumbnails."""

    @property
    @abstractmethod
    def views(self) -> Mapping[Site, AttentionView]:
        """Weights of each attention call."""

    @abstractmethod
    def _header(self) -> tuple[str, list[str]]:
        """Return title and lines; without a title the lines are below the thumbnails."""

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
        """Color domain of each head; an adaptive domain is computed per head, as on its large map."""
        if self.domain == "adapts":
            return {head: adapted(cells, self.views[head[0]]) for head, cells in self.cells.items()}
        for (site, _), cells in self.cells.items():
            return dict.fromkeys(self.cells, domain_of(self.domain, self.views[site], cells))
        return {}

    @cached_property
    def _ramp(self) -> Ramp:
        """Color legend; its title names the heads whose colors end at their own largest weight."""
        domains = {*self._domains.values()} or {Domain()}
        is_gray = bool(self.cells) and all(head in self.views[site].step.heads_off for site, head in self.cells)
        ramp = next(iter(domains)).legend(self.colors, gray=is_gray)
        if len(domains) == 1:
            return ramp
        return replace(ramp, title=OWN if all(domain.kind == "adapts" for domain in domains) else OF_MARKED, top=1.0)

    def draw(self) -> Views:
        (title, lines), layout, colors = self._header(), self.layout, self.colors
        most = max((cells.tile for cells in self.cells.values()), default=1)
        lines = [
            *filter(None, lines),
            *([f"each square shows the largest of {most} × {most} cells"] if most > 1 else []),
        ]
        collage = Collage("heads", ("kind", "layer", "head", "rev", "name", "largest", "state"))
        style = self if title else replace(self, width=layout.ends[0])  # lines below the thumbnails, at most as wide
        for x, y, text, *ends in layout.labels:
            collage.text(x, y, text, colors.quiet, *ends)
        for thumbnail in layout.thumbnails:
            self._add(thumbnail, collage)
        where = {"orient": "right" if self.aside else "bottom", "offset": 14}
        orient = "top" if title else "bottom"
        form = collage.form(
            ((-MARGIN, layout.ends[0] + MARGIN), (-max(MARGIN, layout.above), layout.ends[1] + MARGIN)),
            ("head", "kind", "layer", "head", "rev"),
            colors,
            tooltip=(("name", "head"), ("largest", "largest weight"), ("state", "state")),
            layers=[ramp_spec(replace(self._ramp, top=0.0), where), signs_spec(where)],
            title=title_spec() | {"orient": orient} if title or lines else None,
        )
        states = {
            CellState("blocked", "blocked", "hatch"): any(cells.blocked.any() for cells in self.cells.values()),
            CellState(NOT_A_NUMBER, "blocked", "cross"): any(np.isnan(c.weights).any() for c in self.cells.values()),
        }
        data = {
            "meta": heading(title, lines, layout.ends[0], style) | {"top": [self._ramp.top]},
            "legend": entry(signs.legend([state for state, occurs in states.items() if occurs], colors)),
        }
        return Views(form, collage.data | data)

    def _add(self, thumbnail: Thumbnail, collage: Collage) -> None:
        """Draw a head, in gray and struck through if it is switched off."""
        (site, number), x, y, label = thumbnail
        colors, view, layout = self.colors, self.views[site], self.layout
        off, is_focused = number in view.step.heads_off, self.focused in (number, (site, number))
        domain, cells = self._domains[site, number], self.cells[site, number]
        x2, y2 = x + layout.side, y + layout.height
        kinds, states = states_of(cells, view)
        painted = replace(colors, ramp=pixels.gray_ramp(colors)) if off else colors
        sides = {"height": layout.height, "width": layout.side}
        uri = pixels.uri(states, kinds, domain.shade(cells.weights), painted, **sides)
        words = site.head(number), self.largest[site, number], "off: its output is zero" if off else "on"
        collage.image(x, x2, y, y2, x, x2, uri, site.kind, site.layer, number, self.rev, *words)
        collage.frame(x, x2, y, y2, colors.line)
        if off:
            collage.frame(x, x2, y2, y, colors.quiet, 1.5, "line")
        if is_focused:
            collage.frame(x - 1.5, x2 + 1.5, y - 1.5, y2 + 1.5, colors.accent, 2.5)
        if self._ramp.title == OF_MARKED and domain.kind == "adapts":
            collage.frame(x2 - CORNER, x2, y + 2, y + 2, colors.accent, 4)
        if label:
            ink = colors.quiet if off else colors.text
            collage.text(x, y - layout.above + 3, label, colors.accent if is_focused else ink, baseline="top")


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
            record=self.record,
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
        x, y = side + GAP, height + LABEL + GAP
        heads = [Thumbnail((self.site, i), i % across * x, i // across * y, label) for i, label in enumerate(labels)]
        return Layout(side, height, LABEL, heads)


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
        return FigureFacts(
            what="Every head", subject=("every head",), table=self._table, words=self._words, record=self.record
        )

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
            return _ordered_layout(self.order, self.captions or ())
        if self.on_screen:
            layout = _layer_layout(self.record, FULL)
            if layout.ends[0] + LEFT <= WIDTH or layout.ends[1] + ABOVE <= FLAT:
                return layout
        return _layer_layout(self.record, WIDTH)


def _layer_layout(record: Record, width: int) -> Layout:
    """Lay out a row for each attention call, with large thumbnails if all fit on a screen.

    Kinds of attention stand beside each other as long as thumbnails keep BANDED pixels, otherwise under each other.
    """
    calls = {site.kind: [step for step in record.steps if step.site.kind == site.kind] for site in record.sites}
    most, kinds = max((step.num_heads for step in record.steps), default=1), [*calls]
    fitting = {n: (width // n - LEFT) // most - SPACE for n in range(1, len(kinds) + 1)}
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
                thumbnails += [Thumbnail((site, head), x + head * step, down) for head in range(call.num_heads)]
    return Layout(side, side, 0, thumbnails, labels)


def _ordered_layout(order: Sequence[Head], captions: Sequence[str]) -> Layout:
    """Lay out heads row by row, with the name and caption of each head above its thumbnail."""
    few = len(order) <= FEW
    across = max(1, min(len(order), 2 if few else ACROSS))
    side, above = ORDERED if few else LARGEST, (2 if captions else 1) * LINE + 3
    x, y = side + SPACE, above + side + SPACE
    names = [site.brief(head) for site, head in order]
    texts = ["\n".join(lines) for lines in zip(names, captions, strict=True)] if captions else names
    places_ = [Thumbnail(head, i % across * x, i // across * y, texts[i]) for i, head in enumerate(order)]
    return Layout(side, side, above, places_)
