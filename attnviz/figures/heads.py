"""Heads at a glance: a thumbnail for each head of an attention call, or of a model by layer or in an order."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial

import numpy as np
import pandas as pd

from attnviz.analysis import sentences, tables, views
from attnviz.analysis.heads import head_metrics
from attnviz.charts.legends import text_width
from attnviz.charts.mosaic import Head, Label, Mosaic, MosaicLayout, Thumbnail
from attnviz.charts.theme import LINE
from attnviz.core.record import Record
from attnviz.figures.base import Figure, FigureFacts, SiteFigure, subtitles
from attnviz.figures.head import arrays_of

CALL, PAIRED = 336, 296
"""Pixels of all thumbnails of a call, so that they fit a phone; and beside a map, so that it has room, too."""

WIDEST, TALLEST = 150, 212
"""Pixels of a thumbnail at most where there are one or two, and under each other beside a map."""

GAP, LABEL = 14, 20
"""Pixels between thumbnails of a call, and over each for its number."""

WIDTH, FULL, FLAT = 980, 1360, 320
"""Pixels of every head of a model at most, across a whole screen, and down where they go across it."""

HIGH = 480
"""Pixels down to which all heads are to stand, where large thumbnails allow that."""

LARGE, LARGEST, BANDED, SMALLEST, SPACE = 190, 96, 72, 26, 10
"""Pixels: sides of a thumbnail of few heads, of many, of kinds beside each other and of very many, and between two."""

FEW, ORDERED, ACROSS = 4, 170, 8
"""Sizes for heads in an order: how many are large, pixels of their sides, and how many others stand in a row."""

LEFT, ABOVE = 64, 26
"""Pixels left of a row of heads for its layer, and above the layers of a kind for the numbers of heads."""


@dataclass(frozen=True, eq=False)
class AllHeads(SiteFigure):
    """Thumbnails of all heads of a site; a click selects one under "head" with the fields kind, layer, head and rev."""

    is_map = True

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
        return sentences.heads(self.attention_view, [*self.on_page.drawing.largest.values()])

    def _arrays(self) -> dict[str, np.ndarray]:
        """The arrays of each head, stacked: (heads, queries, keys)."""
        each = [arrays_of(self.attention_view, head) for head in range(self.attention_view.step.num_heads)]
        names = [name for name in ("weights", "scores", "may_attend") if name in each[0]]
        return each[0] | {name: np.stack([arrays[name] for arrays in each]) for name in names}

    def draw(self) -> Mosaic:
        """Each thumbnail is as high as its map is for its width; beside a map, which is high, few stand in a row."""
        view, is_paired = self.attention_view, self.is_paired
        count, off = view.step.num_heads, view.step.heads_off
        across = 1 + sum(count > limit for limit in ((2, 6, 12) if is_paired else (1, 4, 9)))
        side = ((PAIRED if is_paired else CALL) - GAP * (across - 1)) // across
        if count <= 2:
            side = min(side, TALLEST if is_paired else WIDEST)
        ratio = len(view.queries) / max(1, len(view.keys))
        height = round(side * max(0.25, min(2.0, ratio)))
        step, down = (side + GAP, height + LABEL + GAP), -(-count // across)
        labels = [f"head {i}{' · off' if i in off else ''}" for i in range(count)]
        if self.on_screen:  # it says elsewhere which heads are off
            labels = [f"head {i}" if side > text_width("head 00") else str(i) for i in range(count)]
        lines = [] if self.on_screen else subtitles(self.record, self, self.sentence)
        return Mosaic(
            title="" if self.on_screen else self._heading,
            lines=[*lines, *view.notes],
            layout=MosaicLayout(side, height, LABEL, across * step[0] - GAP, down * step[1] - GAP - LABEL),
            thumbnails=[
                Thumbnail((self.site, i), i % across * step[0], i // across * step[1], label)
                for i, label in enumerate(labels)
            ],
            views={self.site: view},
            style=self.style,
        )


@dataclass(frozen=True, eq=False)
class ModelHeads(Figure):
    """Thumbnails of every head; a click selects one under "head" with the fields kind, layer, head and rev.

    Attributes:
        order: which heads, and in which order; None for all, a row for each layer.
        captions: a few characters about each head of `order`, such as a number by which they are sorted.
        by: what that number is.
        sentence: which of the batch.
    """

    record: Record
    _: KW_ONLY
    order: Sequence[Head] | None = None
    captions: Sequence[str] | None = None
    by: str = ""
    sentence: int = 0

    is_map = True

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

    def draw(self) -> Mosaic:
        if self.order is None:
            layout, thumbnails, labels = _by_layer(self.record, FULL)
            if not self.on_screen or layout.width + LEFT <= WIDTH or layout.depth + ABOVE > FLAT:
                layout, thumbnails, labels = _by_layer(self.record, WIDTH)
        else:
            layout, thumbnails, labels = _in_order(self.order, self.captions or ())
        sites = dict.fromkeys(site for (site, _), *_ in thumbnails)
        by_site = {site: views.see(self.record, site, sentence=self.sentence) for site in sites}
        lines = [*subtitles(self.record, self, self.sentence), *next(iter(by_site.values())).notes] if by_site else []
        lines += ([] if self.order is None else ["named by layer.head"]) + ([f"number: {self.by}"] if self.by else [])
        heads = {"thumbnails": thumbnails, "labels": labels, "views": by_site}
        return Mosaic(title=self._heading, lines=lines, layout=layout, style=self.style, **heads)


Arranged = tuple[MosaicLayout, list[Thumbnail], list[Label]]


def _by_layer(record: Record, width: int) -> Arranged:
    """A row for each attention call: large thumbnails where all of them fit a screen.

    As many kinds of attention as thumbnails are large enough for stand beside each other, the others under them.
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
            labels.append(Label(x, y, kind, "corner"))
            for head in range(max(call.num_heads for call in calls[kind])):
                name = f"head {head}" if side > text_width("head 00") else str(head)
                labels.append(Label(x + head * step, y, name, "above"))
            for row, call in enumerate(calls[kind]):
                site, down = call.site, y + row * step
                labels.append(Label(x, down, f"layer {site.layer}", "left"))
                thumbnails += [Thumbnail((site, head), x + head * step, down) for head in range(call.num_heads)]
    ends = [(thumbnail.x + side, thumbnail.y + side) for thumbnail in thumbnails] or [(side, side)]
    return MosaicLayout(side, side, 0, *map(max, zip(*ends, strict=True))), thumbnails, labels


def _in_order(order: Sequence[Head], captions: Sequence[str]) -> Arranged:
    """Row after row, the name and the caption of each head above it."""
    few = len(order) <= FEW
    across = max(1, min(len(order), 2 if few else ACROSS))
    side, above = ORDERED if few else LARGEST, (2 if captions else 1) * LINE + 3
    step, down = (side + SPACE, above + side + SPACE), -(-len(order) // across)
    names = [site.brief(head) for site, head in order]
    texts = ["\n".join(lines) for lines in zip(names, captions, strict=True)] if captions else names
    places = [Thumbnail(head, i % across * step[0], i // across * step[1], texts[i]) for i, head in enumerate(order)]
    return MosaicLayout(side, side, above, across * step[0] - SPACE, down * step[1] - SPACE - above), places, []
