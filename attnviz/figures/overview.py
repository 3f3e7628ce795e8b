"""Every head of a model at a glance: a thumbnail each, by layer, or in an order of one's own."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Unpack

from attnviz import views
from attnviz.charts import frame
from attnviz.charts.frame import Frame
from attnviz.charts.mosaic import Head, Mosaic, Thumbnail
from attnviz.charts.picture import Picture
from attnviz.charts.size import PIXELS
from attnviz.charts.style import Style
from attnviz.charts.theme import LINE, Theme
from attnviz.core.display import in_title
from attnviz.core.edits import Site
from attnviz.core.record import Record
from attnviz.figures.figure import Drawn, Figure, number_arrays, stem, subtitles, titled
from attnviz.metrics.heads import head_metrics

WIDTH = 980
"""Pixels of the whole mosaic at most, where thumbnails of `SMALLEST` allow that."""

FULL, FLAT = 1360, 320
"""Pixels of a mosaic across a whole screen, and how high it is at most, so that there is room for words under it."""

HIGH = 480
"""Pixels down to which all heads are to stand, where large thumbnails allow that."""

LARGE, LARGEST, BANDED, SMALLEST, GAP = 190, 96, 72, 26, 10
"""Pixels: sides of a thumbnail of few heads, of many, of kinds beside each other and of very many, and between two."""

FEW, ORDERED = 4, 170
"""Heads that are large, and pixels of their sides where they have names and captions."""

ACROSS = 8
"""Heads in a row of those that are ordered: what is said of them stands beside them."""

NAMED = "named by layer.head"
"""Where names are short."""
CAPTIONS = "number: {by}"

LEFT, LABEL, KIND, APART = 64, 18, 26, 15
"""Pixels: left of a row of heads for its layer, above a thumbnail for its name, above the layers of a kind, and
between two kinds."""


def overview(
    record: Record,
    *,
    order: Sequence[Head] | None = None,
    captions: Sequence[str] | None = None,
    by: str = "",
    sentence: int = 0,
    **drawn: Unpack[Drawn],
) -> Figure:
    """Thumbnails of every head; a click selects one under "head" with the fields kind, layer, head and rev.

    Args:
        order: which heads, and in which order; None for all, a row for each layer.
        captions: a few characters about each head of `order`, such as a number by which they are sorted.
        by: what that number is.
    """
    every = ((step.site, head) for step in record.steps for head in range(step.num_heads))
    heads, said = tuple(every if order is None else order), () if order is None else tuple(captions or ())
    return Figure(
        name=stem(record, "every head", sentence=sentence),
        title=titled(title_of(record), record),
        style=Style(**drawn),
        draw=lambda style: drawing_of(record, None if order is None else heads, said, sentence, style, by),
        describe=lambda: _in_words(heads),
        tabulate=lambda: head_metrics(record, sentence).drop(columns="site"),
        collect=lambda: number_arrays(head_metrics(record, sentence)),
    )


def title_of(record: Record, *, on_screen: bool = False) -> str:
    """What is drawn, beginning with constant words; a screen says elsewhere whose a model is."""
    return f"Every head · {in_title(record.source.rpartition('/')[2] if on_screen else record.source)}"


def _in_words(heads: Sequence[Head]) -> str:
    kinds = Counter(site.kind for site, _ in heads)
    listed = ", ".join(f"{count} of {kind} attention" for kind, count in kinds.items()) or "none"
    return f"Maps of {len(heads)} heads: {listed}. Their numbers are in the table."


def drawing_of(
    record: Record, order: tuple[Head, ...] | None, captions: tuple[str, ...], sentence: int, style: Style, by: str = ""
) -> Picture:
    """The thumbnails, by layer or in the given order."""
    width = FULL if style.on_screen and order is None and is_flat(record) else WIDTH
    plan = _by_layer(record, width, style.colors) if order is None else _in_order(order, captions, style.colors)
    sites = dict.fromkeys(one.site for one in plan.thumbnails)
    seen = {site: views.see(record, site, sentence=sentence) for site in sites}
    lines = [*subtitles(record, style, sentence), *next(iter(seen.values())).notes] if seen else []
    lines += _pooled(seen.values(), plan) + [NAMED] * (order is not None) + [CAPTIONS.format(by=by)] * bool(by)
    return plan.picture(seen, title_of(record, on_screen=style.on_screen), lines, style)


def is_flat(record: Record) -> bool:
    """Whether the kinds of all heads stand beside each other on a screen, so that there is room under them."""
    drawn = _by_layer(record, FULL, Style().colors)
    return drawn.width > WIDTH and drawn.bottom <= FLAT


def _pooled(seen: Iterable[views.Seen], plan: Mosaic) -> list[str]:
    """What a square stands for, of maps that are pooled wherever they are drawn."""
    most = max((max(len(one.queries), len(one.keys)) for one in seen), default=0)
    tile = -(-most // min(plan.side, plan.height))
    return [f"each square shows the largest of about {tile} × {tile} cells"] if most > PIXELS else []


def _thumbnail(site: Site, head: int, x: float, y: float) -> Thumbnail:
    return Thumbnail(site, head, x, y, site.head(head))


def _by_layer(record: Record, width: int, colors: Theme) -> Mosaic:
    """A row for each attention call, the numbers of the heads above each kind; kinds beside each other, if they fit."""
    most = max((step.num_heads for step in record.steps), default=1)
    side = _side(record, most, width)
    wide, left, top, y, right, places, said = LEFT + most * (side + GAP) - GAP, 0.0, 0.0, 0.0, 0.0, [], []
    for kind in dict.fromkeys(step.site.kind for step in record.steps):
        if left + wide > width:
            left, top = 0.0, y + GAP / 2
        steps, at, x = [step for step in record.steps if step.site.kind == kind], top + KIND / 2, left + LEFT
        said.append(frame.words(left, at, kind, colors.text))
        columns = range(max(step.num_heads for step in steps))
        names = [f"head {i}" if side > frame.text_width("head 00") else str(i) for i in columns]
        middles = [x + i * (side + GAP) + side / 2 for i in columns]
        said += [
            frame.words(at_x - frame.text_width(name) / 2, at, name, colors.quiet)
            for at_x, name in zip(middles, names, strict=True)
        ]
        for row, step in enumerate(steps):
            down = top + KIND + row * (side + GAP)
            said.append(frame.words(left, down + side / 2, f"layer {step.site.layer}", colors.quiet))
            places += [_thumbnail(step.site, head, x + head * (side + GAP), down) for head in range(step.num_heads)]
            y = max(y, down + side + GAP)
        right, left = max(right, left + wide), left + wide + APART
    return Mosaic(places, Frame(words=tuple(said)), side, side, right, y)


def _side(record: Record, most: int, width: int) -> int:
    """Pixels of a thumbnail: large ones where all of them fit a screen."""
    layers = Counter(step.site.kind for step in record.steps)
    wide, high = LEFT + most * (LARGE + GAP) - GAP, KIND + max(layers.values(), default=1) * (LARGE + GAP)
    if high * -(-len(layers) // max(1, width // wide)) <= HIGH and wide <= width:
        return LARGE
    largest = LARGE if most * len(record.steps) <= FEW else LARGEST
    kinds = len(layers) or 1
    banded = int(((width - APART * (kinds - 1)) / kinds - LEFT + GAP) / max(1, most)) - GAP
    largest = banded if kinds > 1 and BANDED <= banded < largest else largest
    fits = int((width - LEFT + GAP) / max(1, most)) - GAP
    return max(SMALLEST, min(largest, fits))


def _in_order(order: tuple[Head, ...], captions: tuple[str, ...], colors: Theme) -> Mosaic:
    """Row after row, the name and the caption of each head above it."""
    few = len(order) <= FEW
    columns = max(1, min(len(order), 2 if few else ACROSS))
    side = ORDERED if few else LARGEST
    step, above = side + GAP, LABEL + (LINE if captions else 0)
    places, said = [], []
    for i, (site, head) in enumerate(order):
        x, y = i % columns * step, i // columns * (step + above)
        said.append(frame.words(x, y + LABEL / 2, site.brief(head), colors.quiet))
        if captions:
            said.append(frame.words(x, y + LABEL + LINE / 2 - 3, captions[i], colors.text))
        places.append(_thumbnail(site, head, x, y + above))
    bottom = -(-len(order) // columns) * (step + above)
    return Mosaic(places, Frame(words=tuple(said)), side, side, columns * step - GAP, bottom)
