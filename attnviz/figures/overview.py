"""Every head of a model at a glance: a thumbnail each, by layer, or in an order of one's own."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property

import pandas as pd

from attnviz.analysis import views
from attnviz.analysis.heads import head_metrics
from attnviz.charts.mosaic import Head, Label, Mosaic, MosaicLayout, Thumbnail
from attnviz.charts.texts import text_width
from attnviz.charts.theme import LINE
from attnviz.core.record import Record
from attnviz.figures.base import MosaicFigure
from attnviz.figures.figure import subtitles

WIDTH = 980
"""Pixels of all thumbnails at most, where those of `SMALLEST` allow that."""

FULL, FLAT = 1360, 320
"""Pixels of thumbnails across a whole screen, and how high they are at most, so that there is room under them."""

HIGH = 480
"""Pixels down to which all heads are to stand, where large thumbnails allow that."""

LARGE, LARGEST, BANDED, SMALLEST, GAP = 190, 96, 72, 26, 10
"""Pixels: sides of a thumbnail of few heads, of many, of kinds beside each other and of very many, and between two."""

FEW, ORDERED, ACROSS = 4, 170, 8
"""Sizes for heads in an order: how many are large, pixels of their sides, and how many others stand in a row."""

LEFT, ABOVE = 64, 26
"""Pixels left of a row of heads for its layer, and above the layers of a kind for the numbers of heads."""

NAMED = "named by layer.head"
CAPTIONS = "number: {by}"
"""Lines where names are short and where captions are numbers."""


@dataclass(frozen=True, eq=False)
class ModelHeads(MosaicFigure):
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

    _subject, _what = ("every head",), "Every head"

    @cached_property
    def description(self) -> str:
        every = ((step.site, head) for step in self.record.steps for head in range(step.num_heads))
        kinds = Counter(site.kind for site, _ in (every if self.order is None else self.order))
        listed = ", ".join(f"{count} of {kind} attention" for kind, count in kinds.items()) or "none"
        return f"Maps of {kinds.total()} heads: {listed}. Their numbers are in the table."

    @cached_property
    def table(self) -> pd.DataFrame:
        return head_metrics(self.record, self.sentence).drop(columns="site")

    @cached_property
    def mosaic(self) -> Mosaic:
        if self.order is None:
            wide = self.on_screen and is_flat(self.record)
            layout, thumbnails, labels = _by_layer(self.record, FULL if wide else WIDTH)
        else:
            layout, thumbnails, labels = _in_order(self.order, self.captions or ())
        sites = dict.fromkeys(site for (site, _), *_ in thumbnails)
        by_site = {site: views.see(self.record, site, sentence=self.sentence) for site in sites}
        lines = [*subtitles(self.record, self, self.sentence), *next(iter(by_site.values())).notes] if by_site else []
        lines += ([] if self.order is None else [NAMED]) + ([CAPTIONS.format(by=self.by)] if self.by else [])
        heads = {"thumbnails": thumbnails, "labels": labels}
        return Mosaic(**self._above() | {"lines": lines}, layout=layout, views=by_site, **heads)


def is_flat(record: Record) -> bool:
    """Whether all heads stand across a whole screen, so that there is room under them."""
    layout, *_ = _by_layer(record, FULL)
    return layout.width + LEFT > WIDTH and layout.depth + ABOVE <= FLAT


Arranged = tuple[MosaicLayout, list[Thumbnail], list[Label]]


def _by_layer(record: Record, width: int) -> Arranged:
    """A row for each attention call: large thumbnails where all of them fit a screen.

    As many kinds of attention as thumbnails are large enough for stand beside each other, the others under them.
    """
    calls = {site.kind: [step for step in record.steps if step.site.kind == site.kind] for site in record.sites}
    most, kinds = max((step.num_heads for step in record.steps), default=1), [*calls]
    fitting = {n: (width // n - LEFT) // most - GAP for n in range(1, len(kinds) + 1)}
    across = max((n for n, side in fitting.items() if side >= BANDED), default=1)
    bands = [kinds[i : i + across] for i in range(0, len(kinds), across)]
    rows = [max(len(calls[kind]) for kind in band) for band in bands]
    tall = (HIGH - ABOVE * len(bands)) // max(1, sum(rows)) - GAP
    side = max(SMALLEST, min(fitting.get(across, LARGE), LARGE, max(LARGEST, tall)))
    step, thumbnails, labels = side + GAP, [], []
    for i, band in enumerate(bands):
        for j, kind in enumerate(band):
            x, y = j * (most * step + LEFT), sum(rows[:i]) * step + i * (ABOVE + GAP)
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
    step, down = (side + GAP, above + side + GAP), -(-len(order) // across)
    names = [site.brief(head) for site, head in order]
    texts = ["\n".join(lines) for lines in zip(names, captions, strict=True)] if captions else names
    places = [Thumbnail(head, i % across * step[0], i // across * step[1], texts[i]) for i, head in enumerate(order)]
    return MosaicLayout(side, side, above, across * step[0] - GAP, down * step[1] - GAP - above), places, []
